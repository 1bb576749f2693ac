"""`rerail check` and `compare`: settings of a file, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.server.cli import main


def test_check_tells_the_settings_of_a_script_and_fails_where_timeouts_are_in_the_wrong_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "launch.sh"
    script.write_text("ft_launcher --max-restarts=3 --ft-rank-heartbeat-timeout=300 t.py --collective-timeout 1800\n")
    assert main(["check", str(script), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["knobs"]["heartbeat_timeout"]["value"] == 300
    assert [each["inner"] for each in told["violations"]] == ["collective_timeout"]
    script.write_text("ft_launcher --max-restarts=3 train.py\n")
    assert main(["check", str(script), "--release", "0.6"]) == 0
    assert "Hang detection is off" in capsys.readouterr().out


def test_a_setting_that_is_refused_fails_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"heartbeat_timeout": "soon", "max_restarts": 3}))
    assert main(["check", str(file)]) == 1
    assert "refused: heartbeat_timeout" in capsys.readouterr().out
    assert main(["check", str(file), "--json"]) == 1
    assert [each["field"] for each in json.loads(capsys.readouterr().out)["refused"]] == ["heartbeat_timeout"]


def test_a_file_without_settings_is_refused_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "nothing.txt"
    empty.write_bytes(b"\x00\xff hello")
    assert main(["check", str(empty)]) == 1
    assert "no recovery setting was found" in capsys.readouterr().err


def told(settings: dict[str, object], restart: int, at: int) -> str:
    fact = {"kind": "attempt_started", "run": "r", "emitter": "launcher", "seq": restart, "at": at, "job": "j",
            "restart": restart, "launcher": "ft_launcher", "config": settings}  # fmt: skip
    return json.dumps(fact)


def test_a_change_is_listed_explained_and_the_explanation_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, facts = 1_760_000_000_000_000_000, tmp_path / "facts.jsonl"
    facts.write_text(
        told({"rank_heartbeat_timeout": 300}, 0, begin) + "\n"
        + told({"rank_heartbeat_timeout": 60}, 1, begin + 3600 * 10**9) + "\n"
    )  # fmt: skip
    database = ["--database-url", f"sqlite:///{tmp_path / 'rerail.sqlite3'}"]
    assert main(["import", "facts", str(facts), *database]) == 0
    capsys.readouterr()
    assert main(["changes", "--json", "--unexplained", *database]) == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert [(knob["name"], knob["old"], knob["new"]) for knob in change["knobs"]] == [("heartbeat_timeout", 300, 60)]
    name = change["change_id"]
    assert main(["change", name, "--explain", "hangs were found too late", "--author", "Ada", *database]) == 0
    said = capsys.readouterr().out
    assert "why: hangs were found too late" in said
    came = said.partition("what came of it, before → after\n")[2].splitlines()
    assert came[:2] == ["  faults: 1 → 0", "  noticed after, median: 0.0 s (n=1) → unknown"]
    assert came[-1].endswith("explain by Ada: hangs were found too late")
    assert main(["changes", "--unexplained", *database]) == 0
    assert "No recovery setting changed." in capsys.readouterr().out
    assert main(["changes", "--knob", "heartbeat_timeout", *database]) == 0
    assert "heartbeat_timeout 300 → 60" in capsys.readouterr().out
    assert main(["change", name, "--json", *database]) == 0
    (action,) = json.loads(capsys.readouterr().out)["actions"]
    assert main(["change", name, "--undo", str(action["action_id"]), *database]) == 0
    assert "why: nobody said" in capsys.readouterr().out
    assert main(["change", name, "--link", "incident:none~0", *database]) == 1
    assert "none~0" in capsys.readouterr().err
    assert main(["change", "r@9", *database]) == 1
