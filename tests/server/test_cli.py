"""The command: the same figures as the pages, clear sentences when something is wrong, and no traceback."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.server.cli import main

T = 1_760_000_000_000_000_000
S = 10**9
LongRun = Callable[..., list[dict[str, object]]]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database the command uses; not there yet."""
    path = tmp_path / "new" / "rerail.sqlite3"
    monkeypatch.setenv("RERAIL_DATABASE_URL", f"sqlite:///{path}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RERAIL_URL", raising=False)
    return path


@pytest.fixture
def facts_file(tmp_path: Path, long_run: LongRun) -> Path:
    """A file of facts with a context line in it."""
    path = tmp_path / "facts.jsonl"
    lines: list[dict[str, object]] = [{"kind": "context", "gpus": 8}, *long_run(3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_importing_twice_changes_nothing(database: Path, facts_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "facts", str(facts_file)]) == 0
    assert "held already" in capsys.readouterr().err
    before = shown(capsys, "show", "a", "--as-of", str(T + 500 * S))
    assert main(["import", "facts", str(facts_file)]) == 0
    assert capsys.readouterr().err.startswith("0 facts taken")
    after = shown(capsys, "show", "a", "--as-of", str(T + 500 * S))
    for figures in (before, after):
        del figures["data_quality"]["duplicates"]  # type: ignore[index]
    assert before == after


def test_figures_are_shown_for_an_instant_and_for_a_window(
    database: Path, facts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["import", "facts", str(facts_file)])
    capsys.readouterr()
    whole = shown(capsys, "show", "a")
    assert whole["restarts"] == 2  # type: ignore[index]
    past = shown(capsys, "show", "a", "--as-of", "2025-10-09T08:53:40Z")
    assert past["restarts"] == 0  # type: ignore[index]
    window = shown(capsys, "show", "a", "--window", str(T // S + 5), f"{T + 15 * S}")
    assert window["from_ns"] == T + 5 * S  # type: ignore[index]
    assert window["training_goodput"] == 1  # type: ignore[index]


def test_every_reading_command_speaks_to_people_and_to_programs(
    database: Path, facts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["import", "facts", str(facts_file)])
    incidents = shown(capsys, "incidents", "a")
    incident_id = incidents["rows"][0]["incident_id"]  # type: ignore[index]
    assert shown(capsys, "runs")["total"] == 1  # type: ignore[index]
    assert shown(capsys, "incident", incident_id)["incident"]["incident_id"] == incident_id  # type: ignore[index]
    for arguments in (["runs"], ["show", "a"], ["incidents", "a"], ["incident", incident_id], ["doctor"], ["replay"]):
        assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "training_goodput" in printed.out
    assert "1 runs derived again" in printed.err


def test_facts_can_go_into_another_run_and_to_standard_output(
    database: Path, facts_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "facts.jsonl.gz"
    packed.write_bytes(gzip.compress(facts_file.read_bytes()))
    assert main(["import", "facts", str(packed), "--run", "other/run"]) == 0
    capsys.readouterr()
    assert shown(capsys, "runs")["rows"][0]["run_id"] == "other/run"  # type: ignore[index]
    assert main(["import", "facts", str(packed), "--run", "x", "--stdout"]) == 0
    assert {json.loads(line)["run"] for line in capsys.readouterr().out.splitlines()} == {"x"}


def test_a_context_holds_across_the_batches_of_a_long_file(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.jsonl"
    lines = ['{"kind":"context","run":"c","emitter":"e","gpus":4}']
    lines += [f'{{"kind":"capacity","seq":{seq},"at":{T + seq}}}' for seq in range(5000)]
    lines[4001] = "broken"
    path.write_text("\n".join(lines))
    assert main(["import", "facts", str(path)]) == 0
    told = capsys.readouterr().err
    assert "4999 facts taken, 0 held already, 1 lines refused" in told
    assert f"{path}:4002: " in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "nobody"], "no run named nobody"),
        (["incident", "nothing"], "no incident named nothing"),
        (["show", "a", "--as-of", "yesterday"], "--as-of: 'yesterday' is not an instant"),
        (["runs", "--sort", "nonsense"], "cannot be sorted by"),
        (["import", "facts", "/nowhere"], "/nowhere cannot be read"),
        (["runs", "--config", "/nowhere"], "is not there"),
        (["runs", "--database-url", "mysql://x/y"], "only sqlite:/// and postgresql://"),
        (["runs", "--database-url", "postgresql://127.0.0.1:1/x?connect_timeout=1"], "refused"),
        (["import", "facts", __file__, "--url", "http://127.0.0.1:1"], "does not answer"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    database: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["db", "upgrade"]) == 0
    capsys.readouterr()
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("command", [["runs"], ["show", "a"], ["replay"], ["doctor"], ["serve", "--port", "1"]])
def test_a_file_that_is_no_database_is_named_and_left_alone(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"no database at all\n" * 300)
    assert main([*command, "--database-url", f"sqlite:///{path}"]) == 1
    printed = capsys.readouterr()
    assert "not a database" in printed.err + printed.out
    assert path.read_bytes() == b"no database at all\n" * 300


def test_a_reading_command_does_not_make_the_database_it_wants_to_read(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs"]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert not database.parent.exists()


def test_without_its_extras_the_command_says_what_to_install(tmp_path: Path) -> None:
    """An interpreter that cannot see the third-party packages: what a GPU node has after `pip install rerail`."""
    script = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in "sqlalchemy alembic fastapi uvicorn msgspec zstandard starlette dash".split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from rerail.server.cli import main
sys.exit(main(sys.argv[1:]))
"""
    for command, extra in (("serve", "ui"), ("runs", "server"), ("replay", "server")):
        done = subprocess.run(
            [sys.executable, "-c", script, command], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 1
        assert f"pip install 'rerail[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr
    for arguments in (["--version"], ["--help"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.slow
def test_a_served_run_is_shown_while_it_is_served_and_the_server_ends_when_told(
    database: Path, facts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = "8797"
    server = subprocess.Popen(
        [sys.executable, "-m", "rerail", "serve", "--port", port], stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        assert str(database) in server.stderr.readline()
        assert port in server.stderr.readline()
        stream = None
        while stream is None:
            assert server.poll() is None, server.stderr.read()
            try:
                stream = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/events", timeout=30)
            except urllib.error.URLError:
                time.sleep(0.1)
        assert stream.readline() == b"retry: 2000\n"
        assert main(["import", "facts", str(facts_file), "--url", f"http://127.0.0.1:{port}"]) == 0
        while not (line := stream.readline()).startswith(b"data:") or b'"a"' not in line:
            pass
        capsys.readouterr()
        assert shown(capsys, "show", "a")["restarts"] == 2  # type: ignore[index]
    finally:
        server.terminate()
        server.wait(timeout=20)
    stream.close()
    server.stderr.close()


def test_old_logs_are_shown_first_and_deleted_only_when_that_is_confirmed(
    database: Path, facts_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["import", "facts", str(facts_file)]) == 0
    before = shown(capsys, "show", "a")
    capsys.readouterr()
    assert main(["retain"]) == 1
    assert "kept for ever" in capsys.readouterr().err
    assert main(["retain", "--keep-log-days", "0"]) == 1
    assert "keep_log_days 0 (--keep-log-days)" in capsys.readouterr().err
    monkeypatch.setenv("RERAIL_KEEP_LOG_DAYS", "1")
    assert shown(capsys, "retain")["logs"] == []  # type: ignore[index] # it was heard a moment ago
    a_week_ahead = time.time_ns() + 7 * 86_400 * S
    monkeypatch.setattr(time, "time_ns", lambda: a_week_ahead)
    for arguments, is_deleted in ((("retain",), False), (("retain",), False), (("retain", "--yes"), True)):
        told = shown(capsys, *arguments)
        assert told["deleted"] is is_deleted  # type: ignore[index]
        assert [log["run_id"] for log in told["logs"]] == ["a"]  # type: ignore[index]
    assert main(["retain", "--yes"]) == 0
    assert "deleted 0 logs" in capsys.readouterr().err
    after = shown(capsys, "show", "a")
    assert "deleted" in after["data_quality"]["notes"][-1]  # type: ignore[index]
    for figures in (before, after):
        del figures["data_quality"], figures["as_of"]  # type: ignore[attr-defined]
    assert before == after
    assert main(["replay"]) == 0
    assert capsys.readouterr().err.startswith("0 runs")
    assert main(["show", "a", "--as-of", str(T + 500 * S)]) == 1
    assert "its past cannot be told" in capsys.readouterr().err


def test_a_window_is_excluded_listed_undone_and_redone(
    database: Path, facts_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["import", "facts", str(facts_file)])
    before = shown(capsys, "show", "a")
    window = [str(T + 20 * S), str(T + 30 * S)]
    said = shown(capsys, "exclude", "a", *window, "--reason", "power", "--author", "Ada")
    assert [each["window"] for each in said["exclusions"]] == ["people~0"]  # type: ignore[index]
    assert shown(capsys, "show", "a")["seconds_by_phase"]["excluded"] == 10  # type: ignore[index]
    assert main(["exclude", "a", "--undo", "people~0", "--author", "Bo"]) == 0
    assert "withdrawn" in capsys.readouterr().out
    after = shown(capsys, "show", "a")
    for name in ("seconds_by_phase", "waterfall", "incidents"):
        assert after[name] == before[name]  # type: ignore[index]
    assert main(["exclude", "a", "--redo", "people~0"]) == 0
    capsys.readouterr()
    assert main(["exclude", "a", "--list"]) == 0
    line = capsys.readouterr().out
    assert "power; declared" in line and "by Ada; withdrawn" in line and "by Bo; restored" in line
    for wrong, words in (
        ([], "say one of"),
        (["1"], "say one of"),
        ([*window, "--list"], "say one of"),
        (["later", "now"], "A: 'later' is not an instant"),
        (window[::-1], "end: not after start"),
        (["--undo", "people~5"], "no window named people~5"),
    ):
        assert main(["exclude", "a", *wrong]) == 1
        assert words in capsys.readouterr().err
    assert main(["exclude", "nobody", *window]) == 1
    assert "no run named nobody" in capsys.readouterr().err
