"""Who may import whom, read off the source text."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STDLIB = sys.stdlib_module_names

# The first prefix that fits a file decides. Each entry: which of ours, and which third-party packages, it may import.
RULES: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    ("server/core/", ("server.core",), ()),
    ("migrations/versions/", (), ("alembic", "sqlalchemy")),
    ("migrations/", ("migrations", "server.store.tables", "server.errors"), ("alembic", "sqlalchemy")),
    ("collectors/", ("collectors", "server.core.facts", "server.core.codec", "server.core.flight_recorder",
                     "server.core.xids"), ()),
    ("server/store/", ("server.store", "server.core", "server.errors", "server.query_results"),
     ("sqlalchemy", "msgspec", "zstandard")),
    ("server/api/", ("server", "collectors.archives", "collectors.patience"),
     ("fastapi", "pydantic", "starlette", "msgspec", "zstandard")),
    ("server/ingest", ("server.core", "server.store", "server.errors", "server.decoding"), ("msgspec",)),
    ("server/decoding", ("server.core", "server.store", "server.errors", "collectors.masking"), ("msgspec",)),
    ("server/rounds", ("server.errors",), ()),
    ("server/projector", ("server.core", "server.store", "server.errors", "server.rounds"), ()),
    ("server/notify/",
     ("server.notify", "server.core", "server.store", "server.errors", "server.quer", "server.rounds"), ()),
    ("server/quer", ("server.core", "server.store", "server.errors", "server.quer", "server.thinning"), ()),
    ("server/thinning", ("server.core", "server.query_results"), ()),
    ("ui/figures/", ("ui.figures", "ui.theme", "ui.text", "server.core", "server.quer"), ("plotly",)),
    ("ui/", ("ui", "server.quer", "server.core", "server.settings", "server.errors", "server.origins"),
     ("dash", "dash_mantine_components", "dash_ag_grid", "plotly", "fastapi", "starlette", "brotli", "markdown_it")),
    ("server/", ("server", "migrations", "ui", "collectors", ""),
     ("fastapi", "uvicorn", "alembic", "sqlalchemy", "starlette", "msgspec")),
    ("rerail/", ("server",), ()),
]  # fmt: skip

LATE = {
    "collectors/": ("torch", "transformers", "nvidia_resiliency_ext", "prometheus_api_client", "numpy", "requests",
                    "yaml", "botocore"),
    "server/notify/": ("apprise",),
    "server/": ("uvicorn", "alembic", "sqlalchemy", "fastapi", "psycopg", "cryptography"),
}  # fmt: skip
"""Third-party packages a folder may import inside a function, where the code runs only with them installed."""


def sources() -> list[Path]:
    folders = ("rerail", "server", "ui", "collectors", "migrations")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether at the top of the file (a TYPE_CHECKING block does not run)."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        is_type_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_type_checking:
            inside.update(id(child) for child in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) not in inside


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_its_room_may(path: Path):
    name = str(path.relative_to(ROOT))
    _, ours, third_party = next(rule for rule in RULES if name.startswith(rule[0]))
    late = next((packages for folder, packages in LATE.items() if name.startswith(folder)), ())
    for module, at_top in imports(ast.parse(path.read_text())):
        top = module.split(".")[0]
        if top in STDLIB:
            continue
        if top == "rerail":
            within = module.removeprefix("rerail").removeprefix(".")
            assert any(
                within == prefix or within.startswith(prefix + ("" if prefix.endswith("quer") else "."))
                for prefix in ours
            ) or (within == "__version__" or within == ""), f"{name} imports {module}"
        else:
            assert top in third_party or (not at_top and top in late), f"{name} imports {module}"


def test_the_pages_are_imported_inside_a_function_so_that_the_server_runs_without_them():
    for path in (ROOT / "server").rglob("*.py"):
        for module, at_top in imports(ast.parse(path.read_text())):
            assert not (at_top and module.startswith("rerail.ui")), f"{path} imports {module} at its top"


def test_only_two_files_read_the_environment():
    readers = {
        str(path.relative_to(ROOT))
        for path in sources()
        if any(
            isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and ast.unparse(node.value) == "os"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    assert readers <= {"server/settings.py", "collectors/identity.py"}
