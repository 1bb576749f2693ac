"""What `rerail import` says at its end: how much was interrupted, or why nothing was."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

import gzip
import json
import os
import re
import time
import tracemalloc
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rerail.collectors.sources.left_off import LAST_JOB
from rerail.server.cli import main
from rerail.server.commands import importing
from rerail.server.rules_version import rules_version
from rerail.server.store import open_store
from tests.dumps import CORPUS as DUMPS

CORPUS = Path(__file__).parent.parent / "corpus"
TRACEBACK = "".join(
    f"2026-11-29T12:00:00Z [rank3]: {line}\n" for line in ["Traceback (most recent call last):", "ValueError: bad"]
)


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERAIL_DATABASE_URL", f"sqlite:///{tmp_path / 'rerail.sqlite3'}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RERAIL_URL", raising=False)


def shown(capsys: pytest.CaptureFixture[str], run: str) -> dict:
    capsys.readouterr()
    assert main(["show", run, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_files_and_a_folder_that_are_named_for_one_run_are_read_as_one(capsys: pytest.CaptureFixture[str]):
    """Cycle files beside their launcher's log tell of the same attempts, and not of as many more."""
    folder = CORPUS / "nvrx" / "0.7.0.dev89" / "applog_exc"
    named = [str(folder / "nvrx.log"), *map(str, sorted(folder.glob("app_*.log"))), str(folder / "cycle_infos")]
    assert main(["import", "logs", str(folder), "--run", "whole"]) == 0
    assert main(["import", "logs", *named, "--run", "named"]) == 0
    whole, parts = shown(capsys, "whole"), shown(capsys, "named")
    for run in (whole, parts):
        assert (len(run["attempts"]), len(run["incidents"]), run["outcome"]) == (2, 1, "completed")
    assert parts["seconds_by_phase"] == whole["seconds_by_phase"]


@pytest.mark.parametrize(
    ("log", "counts"),
    [
        ("verdicts/nvrx/0.7.0.dev89/multi", "1 interruption, 2 failed relaunches"),
        ("verdicts/nvrx/0.7.0.dev89/noprogress", "1 interruption, 3 failed relaunches"),
        ("verdicts/nvrx/0.4.1/exception", "1 interruption"),
        ("torchrun/sigkill.log", "1 interruption, 1 failed relaunch"),  # nothing tells of steps; it lived for seconds
    ],
)
def test_import_and_classify_count_alike(log: str, counts: str, capsys: pytest.CaptureFixture[str]):
    path = CORPUS / log
    path = next(path.rglob("*.log*")) if path.is_dir() else path
    assert main(["import", "logs", str(path), "--run", "r"]) == 0
    assert f"run r: {counts}; it ended: " in capsys.readouterr().err
    assert main(["classify", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f"read, {counts}")
    assert main(["classify", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    relaunches = int((re.search(r"(\d+) failed", counts) or [0, 0])[1])
    assert told["counts"] == {"interruptions": int(counts[0]), "failed_relaunches": relaunches}
    incidents = shown(capsys, "r")["incidents"]
    assert [each["failed_relaunches"] for each in incidents] == [relaunches, *[0] * (int(counts[0]) - 1)]


def test_dumps_alone_make_no_incident_and_the_rank_and_the_way_to_one_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank in range(4):
        for name in (f"hang4_rank_{rank}", f"hang4_rank_{rank}.sidecar.json"):
            (folder / name).write_bytes((DUMPS / name).read_bytes())
    assert main(["import", "flight-recorder", str(folder), "--run", "hung"]) == 0
    told = capsys.readouterr().err
    assert "8 pieces of evidence taken, but no incident: nothing so far tells that an attempt of it ended" in told
    assert "hang, rank 3" in told
    assert "rerail import logs LAUNCHER_LOG --run hung" in told
    assert f"rerail classify {folder}" in told


def test_a_workers_log_alone_makes_the_incident_and_the_launchers_log_no_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    worker, launcher = tmp_path / "worker.log", tmp_path / "launcher.log"
    worker.write_text(TRACEBACK)
    launcher.write_text(
        "E1129 12:00:02.228000 30487 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
        "local_rank: 3 (pid: 30501) of binary: python3\n"
    )
    assert main(["import", "logs", str(worker), "--run", "r"]) == 0
    told = capsys.readouterr().err
    assert "attempt 0: user_exception, rank 3 (85% sure). Rank 3 raised ValueError: bad" in told
    assert len(shown(capsys, "r")["incidents"]) == 1
    assert main(["import", "logs", str(launcher), "--run", "r"]) == 0
    assert "run r: 1 interruption; it ended: failed" in capsys.readouterr().err


def test_evidence_alone_adds_no_attempt_to_a_run_that_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    worker, launcher = tmp_path / "worker.log", tmp_path / "launcher.log"
    worker.write_text(TRACEBACK)
    launcher.write_text(
        "[2026-11-29 11:00:02] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |\n"
        "[2026-11-29 11:00:04] iteration 11/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |\n"
    )
    assert main(["import", "logs", str(launcher), "--run", "r", "--still-running"]) == 0
    assert main(["import", "logs", str(worker), "--run", "r"]) == 0
    assert "1 piece of evidence taken, but no incident" in capsys.readouterr().err


def test_a_log_that_accuses_nobody_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "x.log").write_text("2026-11-29T12:00:00Z loading No space left on device handler\n")
    assert main(["import", "logs", str(tmp_path / "x.log"), "--run", "r"]) == 0
    assert "none of which says that something stopped" in capsys.readouterr().err


ENDS = {
    "ft_launcher must not restart": ("verdicts/nvrx/0.7.0.dev89/noprogress", "must not be restarted"),
    "ft_launcher, early termination": ("verdicts/nvrx/0.6.0/noprogress", "EARLY TERMINATION"),
    "torchrun": ("torchrun/sigkill.log", "no restart was left"),
}


@pytest.mark.parametrize(("log", "words"), ENDS.values(), ids=ENDS)
def test_a_run_that_its_launcher_gave_up_is_ended_with_the_reason(
    log: str, words: str, capsys: pytest.CaptureFixture[str]
):
    path = CORPUS / log
    path = next(path.rglob("*.log*")) if path.is_dir() else path
    assert main(["import", "logs", str(path), "--run", "r"]) == 0
    run = shown(capsys, "r")
    assert (run["state"], run["outcome"]) == ("ended", "failed")
    assert words in run["reason"]


@pytest.mark.parametrize(
    ("last", "outcome", "words"),
    [
        ("# EXIT rc=[93] wall=30.8s", "failed", "exit code 93"),
        ("# EXIT rc=[0] wall=30.8s", "completed", ""),
        ("I1129 12:00:09.228000 77 torch/x/api.py:1] Local worker group finished (WorkerState.FAILED). Waiting 300 seconds "
         "for other agents to finish", "failed", "no restart was left; all 3 restarts are spent"),
        ("I1129 12:00:08.228000 77 torch/x/api.py:1] [default] worker group successfully finished. Waiting 300 seconds for "
         "other agents to finish.\nI1129 12:00:09.228000 77 torch/x/api.py:2] Done waiting for other agents. Elapsed: 0.0002 "
         "seconds", "completed", ""),
    ],
)  # fmt: skip
def test_the_last_line_of_a_launcher_ends_the_run(tmp_path: Path, last: str, outcome: str, words: str, capsys):
    lines = [
        "I1129 12:00:00.228000 77 torch/x/api.py:1] [default] Rendezvous'ing worker group",
        "I1129 12:00:01.228000 77 torch/x/api.py:1] [default] Worker group FAILED. 1/3 attempts left; will restart worker "
        "group",
        "I1129 12:00:02.228000 77 torch/x/api.py:1] [default] Rendezvous'ing worker group",
        last,
    ]
    (tmp_path / "l.log").write_text("".join(line + "\n" for line in lines))
    assert main(["import", "logs", str(tmp_path / "l.log"), "--run", "r"]) == 0
    run = shown(capsys, "r")
    assert (run["state"], run["outcome"]) == ("ended", outcome)
    assert words in (run["reason"] or "")


def test_several_launches_in_one_log_are_one_interruption_and_its_failed_relaunches(tmp_path: Path, capsys):
    path = tmp_path / "multi.log"
    path.write_bytes(b"".join((CORPUS / "torchrun" / f"{name}.log").read_bytes() for name in ("exc", "exit", "oom")))
    assert main(["import", "logs", str(path), "--run", "r"]) == 0
    assert "run r: 1 interruption, 2 failed relaunches; it ended: failed" in capsys.readouterr().err
    assert main(["incidents", "r", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert main(["incident", row["incident_id"]]) == 0
    shown = capsys.readouterr().out
    for relaunch, line in (("1: user_exception", "Rank 1 ended with exit code 3."), ("2: host_oom", "12 GiB")):
        words = shown.partition(f"failed relaunch, attempt {relaunch}")[2].splitlines()
        assert line in words[1], shown  # its own line, and not that of the first failure
    assert main(["classify", str(path)]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0].endswith("1 interruption, 2 failed relaunches")
    causes = ["attempt 0: loss_anomaly", "after attempt 0: user_exception", "after attempt 0: host_oom"]
    assert all(cause in told for cause in causes)


@pytest.mark.parametrize(("zone", "hour"), [(None, 10), ("+09:00", 1), ("Asia/Seoul", 1), ("-0330", 13)])
def test_stamps_without_a_zone_are_read_in_the_one_that_is_named(
    zone: str | None, hour: int, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["import", "logs", str(CORPUS / "training_logs/megatron.log"), "--run", "m", "--stdout"]
    assert main([*words, *(() if zone is None else (f"--zone={zone}",))]) == 0
    told = capfd.readouterr()
    first = json.loads(told.out.splitlines()[0])
    assert datetime.fromtimestamp(first["at"] / 1e9, UTC).hour == hour
    assert "2 attempts, 70 steps, 1 durable checkpoint and 1 load told" in told.err
    assert main([*words, "--zone", "Mars/Base"]) == 1
    assert "Mars/Base" in capfd.readouterr().err


@pytest.mark.parametrize(("name", "content"), [("slurm", '{"a": 1}'), ("logs", "hello\n"), ("slurm", "hello\n")])
def test_a_file_of_which_nothing_is_stated_is_named(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Shown on the terminal, an empty answer would look like a success."""
    path = tmp_path / "other.txt"
    path.write_text(content)
    assert main(["import", name, str(path), "--run", "r", "--stdout"]) == 0
    assert f"{path}: no fact is stated of it as {name}" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["facts", "logs", "kernel", "google-goodput"])
def test_a_line_without_end_is_passed_over_and_told_and_takes_no_memory(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "bomb.log.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(b"\0" * 20_000_000)
        for _ in range(80):
            file.write(b"x" * 1_000_000)
        file.write(
            b"\n" + b"\0" * 20_000_000 + b"Jan  1 00:00:20 n1 kernel: NVRM: Xid (PCI:0000:19:00): 79, off the bus\n"
        )
    os.utime(path, (1_767_312_000, 1_767_312_000))
    tracemalloc.start()
    try:
        assert main(["import", form, str(path), "--run", "r", "--stdout"]) == 0
        assert tracemalloc.get_traced_memory()[1] < 100_000_000  # some times the longest line, of 120 MB in three
    finally:
        tracemalloc.stop()
    told = capsys.readouterr()
    assert f"{path}:1: line: longer than 16777216 bytes: passed over (got 80000001 bytes)" in told.err
    assert f"{path}: 40000000 NUL bytes were left out" in told.err
    if form in ("logs", "kernel"):
        assert '"code":"xid:79"' in told.out


@pytest.mark.parametrize(
    ("form", "lines", "instants"),
    [
        ("kernel", ["Dec 31 23:59:50 n1 kernel: NVRM: Xid (PCI:0000:19:00): 79, off the bus",
                    "Jan  1 00:00:20 n1 kernel: NVRM: Xid (PCI:0000:19:00): 31, MMU Fault"],
         ["2025-12-31T23:59:50", "2026-01-01T00:00:20"]),
        ("logs", ["I1231 23:59:40.000000 139 metric_logger.py:90] completed step: 5, seconds: 7.000, loss: 8.1",
                  "I0101 00:00:01.000000 139 metric_logger.py:90] completed step: 6, seconds: 7.000, loss: 8.1"],
         ["2025-12-31T23:59:40", "2026-01-01T00:00:01"]),
        ("logs", ["[rank1]:[E1231 23:59:40.000000 a.cpp:1] [Rank 1] Watchdog caught collective operation timeout: W"],
         ["2025-12-31T23:59:40"]),
        ("logs", ["2024-12-31 23:59:00,000 [INFO] [n] [workload:?(?) infra:?(?)] launcher.py:636 "
                  "[default] Rendezvous complete for workers.",
                  "[rank1]:[E0101 00:00:40.000000 a.cpp:1] [Rank 1] Watchdog caught collective operation timeout: W"],
         ["2024-12-31T23:59:00", "2025-01-01T00:00:40"]),
        ("kernel", ["Feb 29 10:00:00 n1 kernel: NVRM: Xid (PCI:0000:19:00): 79, off the bus"],
         ["2024-02-29T10:00:00"]),
    ],
)  # fmt: skip
def test_a_stamp_without_a_year_is_not_later_than_its_file(
    form: str, lines: list[str], instants: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    path = tmp_path / "ny.log"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (1_767_312_000, 1_767_312_000))  # 2 January 2026
    assert main(["import", form, str(path), "--run", "r", "--stdout", "--still-running"]) == 0
    told = {json.loads(line)["at"] // 10**9 for line in capfd.readouterr().out.splitlines()}
    assert [datetime.fromtimestamp(at, UTC).isoformat()[:19] for at in sorted(told)] == instants
    where = ["kernel", "--file", str(path), "--since-hours", "100000"]
    where = where if form == "kernel" else ["logs", str(path), "--zone-minutes", "0"]
    assert main(["collect", *where, "--run-id", "r", "--once", "--stdout", "--dir", str(tmp_path / "kept")]) == 0
    followed = {json.loads(line)["at"] // 10**9 for line in capfd.readouterr().out.splitlines()}
    assert followed == told


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (zstd -d)"),
        (None, "it is a pipe, and nothing was written"),
    ],
)
def test_what_cannot_be_read_is_said_and_waits_for_nobody(
    start: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importing, "PIPE_SECONDS", 0.1)
    path = tmp_path / "train.log"
    if start is None:
        os.mkfifo(path)
    else:
        path.write_bytes(start + b"anything")
    for form in ("logs", "facts", "slurm"):
        assert main(["import", form, str(path), "--run", "r", "--stdout"]) == 1
        assert f"{path} cannot be read: {said}" in capsys.readouterr().err
    followed = ["collect", "logs", str(path), "--run-id", "r", "--once", "--stdout"]
    assert main(followed) == 1
    assert ("no regular file" if start is None else said) in capsys.readouterr().err


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_log_of_the_past_without_an_end_ends_with_its_last_line_and_how_is_unknown(
    as_folder: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    logs = tmp_path / "logs"
    logs.mkdir()
    path = logs / "train.log"
    line = "[2026-11-20 10:{:02d}:00] iteration {}/ 200 | elapsed time per iteration (ms): 6000.0 | lm loss: 1.0 |\n"
    path.write_text("".join(line.format(n, 10 * n) for n in range(1, 5)))
    given = str(logs if as_folder else path)
    assert main(["import", "logs", given, "--run", "open", "--still-running"]) == 0
    assert "no end is told" not in capsys.readouterr().err
    assert shown(capsys, "open")["ended_at"] is None
    assert main(["import", "logs", given, "--run", "over"]) == 0
    told = capsys.readouterr().err
    assert "nothing came after 2026-11-20 10:04:00 UTC" in told and "--still-running" in told
    assert "dates it" not in told
    over = shown(capsys, "over")
    assert (over["state"], over["outcome"]) == ("ended", None)
    assert over["ended_at"].startswith("2026-11-20T10:04:00")
    assert over["training_goodput"] > 0.9
    with path.open("a") as file:  # it went on after all
        file.write(line.format(9, 90))
    assert main(["import", "logs", given, "--run", "over", "--still-running"]) == 0
    assert shown(capsys, "over")["ended_at"] is None


@pytest.mark.parametrize("form", ["facts", "kubernetes", "one-logger", "google-goodput", "aws-nvrx", "slurm"])
def test_what_is_refused_steers_no_terminal_and_is_short(form: str, tmp_path: Path, capsysbinary):
    path = tmp_path / "hostile.bin"
    path.write_bytes(
        b"\x1b]0;owned\x07\x1b[2J{\x9b\xc2\x9b31m token=abcdef123456\r\x0b " + b"long " * 4000 + b"\n\x0b\n{}\n"
    )
    assert main(["import", form, str(path), "--run", "r", "--stdout"]) == 0
    shown = capsysbinary.readouterr()
    told = (shown.out + shown.err).decode()
    assert [letter for letter in told if not letter.isprintable() and letter != "\n"] == []
    assert "hostile.bin" in told and "abcdef123456" not in told
    assert max(map(len, told.splitlines())) <= 600


def test_files_of_slurm_are_read_as_one(capsys: pytest.CaptureFixture[str]):
    jobs, nodes = (str(CORPUS / "slurm" / name) for name in ("sacct.psv", "sacctmgr_events.psv"))
    told = []
    for paths in ([jobs], [jobs, nodes], [nodes, jobs]):
        assert main(["import", "slurm", *paths, "--still-running", "--stdout"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        told.append(shown.out.splitlines())
    alone, *both = told
    assert sorted(both[0]) == sorted(both[1])
    assert set(alone) < set(both[0]) and any('"kind":"node_state"' in line for line in both[0])
    assert main(["import", "slurm", nodes, "--stdout"]) == 0
    assert "nodes alone tell no run" in capsys.readouterr().err


def test_a_run_whose_last_slurm_job_ended_long_ago_ended_with_it(capsys: pytest.CaptureFixture[str]):
    assert main(["import", "slurm", str(CORPUS / "slurm" / "sacct.psv")]) == 0
    assert "6 runs are taken to have ended with the last job" in capsys.readouterr().err
    for run, state, outcome in (
        ("cancelme", "ended", "stopped"), ("oomjob", "ended", "failed"), ("urgent", "ended", "completed"),
        ("manualrq", "silent", None),  # requeued by hand, and what came of that is not in the file
    ):  # fmt: skip
        view = shown(capsys, run)
        assert (view["state"], view["outcome"]) == (state, outcome)
    assert shown(capsys, "cancelme")["reason"] == LAST_JOB


def test_a_failure_that_a_log_ends_with_is_an_incident_though_nobody_told_the_end(tmp_path: Path, capsys):
    path = tmp_path / "torchrun.log"
    path.write_text(
        "[2026-11-20 10:00:02] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |\n"
        "E1120 10:00:30.000000 1 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
        "local_rank: 1 (pid: 77) of binary: /usr/bin/python3\n"
    )
    assert main(["import", "logs", str(path), "--run", "r"]) == 0
    told = capsys.readouterr().err
    assert "no line tells how it ended" in told and "run r: 1 interruption" in told and "sigkill, rank 1" not in told
    assert "sigkill" in told


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_log_that_was_written_just_now_is_said_to_count_as_running(
    as_folder: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = tmp_path / "train.log"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 60))
    log.write_text(f" [{stamp}] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 6.1E+00 |\n")
    words = ["import", "logs", str(tmp_path if as_folder else log), "--run", "r", "--stdout"]
    assert main(words) == 0
    assert "still counted as running" in capsys.readouterr().err
    assert main([*words, "--still-running"]) == 0
    assert "still counted" not in capsys.readouterr().err


def test_what_is_imported_before_any_server_ran_is_of_this_version(tmp_path: Path):
    url, log = f"sqlite:///{tmp_path}/fresh.sqlite3", CORPUS / "training_logs" / "megatron.log"
    assert main(["import", "logs", str(log), "--run", "r", "--database-url", url]) == 0
    with closing(open_store(url)) as store:
        store.begin_rules(rules_version(), "any", time.time_ns(), store.newest_revision())
        progress = store.rules_progress()
    assert progress is not None and (progress.total, progress.left) == (0, 0)
