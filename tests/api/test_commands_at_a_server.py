"""Commands that read say the same of a database and of the server over it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rerail.server.cli import main
from rerail.server.settings import Settings
from tests.api.conftest import Serve

LOG = """[2026-11-20 10:00:02] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |
[2026-11-20 10:00:04] iteration 11/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |
srun: error: Node failure on node022
"""


def test_what_is_read_is_printed_alike_of_a_database_and_of_the_server_over_it(
    settings: Settings,
    serve: Serve,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("RERAIL_URL", raising=False)
    (tmp_path / "run.log").write_text(LOG)
    os.utime(tmp_path / "run.log", (1_795_168_900, 1_795_168_900))
    here = ["--database-url", settings.database_url]
    for run in ("run", "other"):
        assert main(["import", "logs", str(tmp_path / "run.log"), "--run", run, *here]) == 0
    capsys.readouterr()
    assert main(["incidents", "run", "--json", *here]) == 0
    incident = json.loads(capsys.readouterr().out)["rows"][0]["incident_id"]
    assert main(["problems", "--json", *here]) == 0
    problem = json.loads(capsys.readouterr().out)["rows"][0]["problem_id"]
    says = {
        "runs": "run ", "show run": "training_goodput", "incidents run": incident, f"incident {incident}": "node_lost",
        "problems": "node lost", f"problem {problem}": "node lost", "nodes": "node022", "nodes node022": incident,
        "alerts": "No alert", "changes": "No recovery setting", "compare run other": "goodput",
        "search node022": "node022",
    }  # fmt: skip
    asked = [(f"{command}{json_too}".split(), said) for command, said in says.items() for json_too in ("", " --json")]
    with serve(settings) as client:
        there = ["--url", str(client.base_url), "--database-url", "sqlite:////nowhere/at/all"]
        for command, said in asked:
            assert main([*command, *here]) == 0
            told = capsys.readouterr().out
            assert main([*command, *there]) == 0
            assert capsys.readouterr().out == told
            is_json = "--json" in command
            assert told.startswith("{") == is_json, command
            assert is_json or said in told, command
        assert main(["problems", "--sort", "colour", *there]) == 1
        assert "cannot be sorted by 'colour'" in capsys.readouterr().err
