"""Rules version: a mark of the code that views are derived by.

Rules
- It is made of the code of `server/core` without comments and docstrings; what only reads views (alerts, search,
  comparison, other definitions) is left out. So it changes where views may, and is the same on every machine.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

READERS = frozenset({"alerts", "search", "comparison", "definitions"})


@cache
def rules_version() -> str:
    """Twelve hexadecimal digits; takes about a second the first time."""
    digest = hashlib.sha256()
    for name, text in sorted(_sources(files("rerail.server.core"), "")):
        digest.update(f"{name}\0{_bare(text)}\0".encode())
    return digest.hexdigest()[:12]


def _sources(folder: Traversable, path: str) -> list[tuple[str, str]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir() and each.name not in READERS and not each.name.startswith("_"):
            found += _sources(each, f"{path}{each.name}/")
        elif each.name.endswith(".py"):
            found.append((path + each.name, each.read_text("utf-8")))
    return found


def _bare(source: str) -> str:
    """The code as its syntax tree, without what only people read."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            ]
    return ast.dump(tree)
