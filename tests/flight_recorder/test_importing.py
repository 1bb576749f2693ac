"""`rerail import flight-recorder`: dumps of a folder become evidence of the run that is named, once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rerail.server.cli import main
from tests.browser.stories import SECOND, RunStory
from tests.dumps import CORPUS

BEGAN = 1_795_953_600 * SECOND


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dumps and side-cars of four ranks with a log beside them, and a database that knows their run."""
    monkeypatch.setenv("RERAIL_DATABASE_URL", f"sqlite:///{tmp_path / 'rerail.sqlite3'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RERAIL_URL", raising=False)
    story = RunStory("hung", BEGAN).begin(name="dp-tp", gpus=4).attempt(forming=4, starting=8).steps(50)
    story.die(30, "[rank1]: RuntimeError: Timed out waiting 25000ms for recv operation to complete", -6, rank=1)
    story.attempt(forming=4, starting=8).steps(80).say("run_ended", outcome="completed")
    facts = tmp_path / "facts.jsonl"
    facts.write_text(story.lines())
    assert main(["import", "facts", str(facts)]) == 0
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for rank in range(4):
        shutil.copy(CORPUS / f"hang4_rank_{rank}", dumps)
        shutil.copy(CORPUS / f"hang4_rank_{rank}.sidecar.json", dumps)
    (dumps / "launcher.log").write_text("nothing of a recorder\n")
    return dumps


def incident(capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main(["show", "hung", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["incidents"][0]


def test_a_folder_of_dumps_names_the_culprit_and_importing_it_again_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["import", "flight-recorder", str(folder), "--run", "hung"]) == 0
    assert "8 facts taken, 0 held already, 0 lines refused" in capsys.readouterr().err
    found = incident(capsys)
    assert (found["cause"], found["culprit_rank"]) == ("hang", 3)
    assert found["flight_recorder"]["confidence"] == 0.96
    assert {group["members_inferred"] for group in found["flight_recorder"]["groups"]} == {False}
    assert main(["import", "flight-recorder", str(folder), "--run", "hung"]) == 0
    assert capsys.readouterr().err.startswith("0 facts taken, 8 held already")
    assert incident(capsys) == found


def test_files_are_taken_one_by_one_and_refused_with_the_reason(folder: Path, capsys: pytest.CaptureFixture[str]):
    evil = folder / "trace_rank_9"
    evil.write_bytes(b"\x80\x02cos\nsystem\n.")
    assert main(["import", "flight-recorder", str(folder / "hang4_rank_0"), str(evil), "--run", "hung"]) == 0
    told = capsys.readouterr().err
    assert "opcode GLOBAL at offset 2" in told and "1 facts taken" in told
    assert main(["import", "flight-recorder", str(folder / "hang4_rank_0")]) == 1
    assert "a dump does not name its run: say --run" in capsys.readouterr().err
    assert main(["import", "flight-recorder", str(folder / "launcher.log"), "--run", "hung"]) == 1
    assert "not a flight recorder dump" in capsys.readouterr().err


def test_a_folder_is_refused_where_the_format_is_made_of_lines_or_nothing_in_it_belongs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    capsys.readouterr()
    assert main(["import", "facts", str(folder)]) == 1
    assert "is a folder: name the files in it" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["import", "flight-recorder", str(empty), "--run", "hung"]) == 1
    assert "holds no file of this format" in capsys.readouterr().err
