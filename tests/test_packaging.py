"""What is in the wheel, and that a node without any extra can record."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_package_list_names_every_folder_with_python_in_it():
    folders = {
        str(path.parent.relative_to(ROOT)).replace("/", ".")
        for top in ("rerail", "server", "ui", "collectors", "migrations")
        for path in (ROOT / top).rglob("*.py")
    }
    expected = {name if name == "rerail" else f"rerail.{name}" for name in folders}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == expected


def test_the_base_install_has_no_dependency_and_extras_pin_only_lower_bounds():
    assert PROJECT["project"]["dependencies"] == []
    for extra, requirements in PROJECT["project"]["optional-dependencies"].items():
        for requirement in requirements:
            pinned = ">=" in requirement or requirement.startswith(("rerail[", "dash[async]=="))
            assert pinned, f"{extra}: {requirement}"


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_bare_install_records_reads_back_and_brings_nothing_else(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "bare", with_pip=True)
    python = tmp_path / "bare" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    script = """
import importlib.util, pathlib, sys
from rerail.collectors.recorder import Recorder
from rerail.server.core.codec import encode
for absent in ("fastapi", "dash", "sqlalchemy", "torch", "msgspec", "numpy"):
    assert importlib.util.find_spec(absent) is None, absent
with Recorder(run="bare", directory=sys.argv[1]) as recorder:
    for step in range(1, 4):
        recorder.step(step)
assert list(pathlib.Path(sys.argv[1]).iterdir())
print("recorded")
"""
    answer = subprocess.run(
        [python, "-c", script, str(tmp_path / "rings")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.stdout.strip() == "recorded", answer.stderr
    refused = subprocess.run(
        [python, "-m", "rerail", "serve"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "pip install 'rerail[ui]'" in refused.stderr
    assert "Traceback" not in refused.stderr
