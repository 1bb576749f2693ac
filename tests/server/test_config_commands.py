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


def test_a_file_without_settings_is_refused_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "nothing.txt"
    empty.write_bytes(b"\x00\xff hello")
    assert main(["check", str(empty)]) == 1
    assert "no recovery setting was found" in capsys.readouterr().err
