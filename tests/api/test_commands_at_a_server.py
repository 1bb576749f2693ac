"""Commands that read say the same of a database and of the server over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.server.cli import main
from rerail.server.settings import Settings
from tests.api.conftest import Serve

LOG = """[2026-11-20 10:00:02] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |
[2026-11-20 10:00:04] iteration 11/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |
srun: error: Node failure on node022
"""


def test_problems_and_nodes_are_those_of_the_database(
    settings: Settings,
    serve: Serve,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("RERAIL_URL", raising=False)
    (tmp_path / "run.log").write_text(LOG)
    here = ["--database-url", settings.database_url]
    assert main(["import", "logs", str(tmp_path / "run.log"), *here]) == 0
    asked = [["problems"], ["problems", "--json"], ["nodes"], ["nodes", "--json"], ["nodes", "node022", "--json"]]
    capsys.readouterr()
    with serve(settings) as client:
        there = ["--url", str(client.base_url), "--database-url", "sqlite:////nowhere/at/all"]
        for command in asked:
            assert main([*command, *here]) == 0
            told = capsys.readouterr().out
            assert main([*command, *there]) == 0
            assert capsys.readouterr().out == told and ("node022" if "nodes" in command else "node lost") in told
        assert main(["problems", "--sort", "colour", *there]) == 1
        assert "cannot be sorted by 'colour'" in capsys.readouterr().err
