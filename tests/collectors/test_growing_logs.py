"""Recorded logs as they grow: what every source promises (`test_contract.py`), held for each of them."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.sources.launcher_process import HELD_OPEN_SECONDS, LauncherProcess
from rerail.server.core.facts import AttemptEnded, AttemptStarted, Evidence, Exit, Fact, RunEnded, Steps
from tests.collectors.test_contract import by_identity, story_of, valid

CORPUS = Path(__file__).parent.parent / "corpus"
LOGS = sorted(
    [
        *CORPUS.glob("training_logs/*.log"),
        *CORPUS.glob("nvrx/*/*.log"),
        *CORPUS.glob("nvrx/*/*/nvrx.log"),
        *CORPUS.glob("torchrun/*.log"),
    ]
)


def tells_times(log: Path) -> bool:
    """Whether a time stands before the first step: what comes before any is dated by when it was read, as it grows."""
    found = re.search(rb"\d\d:\d\d:\d\d|\bstep=\d", log.read_bytes())
    return found is None or b":" in found[0]


def name_of(path: Path) -> str:
    return str(path.relative_to(CORPUS))


def source_of(log: Path) -> LauncherSource:
    """The source as a user would start it: with the side files that lie next to the log."""
    beside = log.parent / "cycle_infos"
    apps = str(log.parent / "app_cycle*.log") if log.name == "nvrx.log" else None
    if (log.parent / log.stem).is_dir():
        apps = str(log.parent / log.stem / "**" / "std*.log")
    return LauncherSource(
        node="vm", run="story", log=log, cycle_info=beside if beside.is_dir() else None, app_logs=apps
    )


def poll_to_the_end(source: LauncherSource, cursor: str | None = None) -> tuple[list[Fact], str]:
    facts: list[Fact] = []
    while True:
        polled = source.finish(cursor)
        facts += polled.facts
        if polled.cursor == cursor:
            return facts, polled.cursor
        cursor = polled.cursor


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_polled_twice_there_are_no_duplicates_and_what_is_stated_is_what_the_server_takes(log: Path) -> None:
    facts, cursor = poll_to_the_end(source_of(log))
    by_identity(valid(facts))
    assert source_of(log).finish(cursor).facts == ()


@pytest.mark.parametrize("log", [log for log in LOGS if tells_times(log)], ids=name_of)
def test_a_log_that_grows_piece_by_piece_tells_the_same_story(log: Path, tmp_path: Path) -> None:
    """New instances all the way, given the cursor of the one before: as after a restart of the collector."""
    content = log.read_bytes()
    growing = tmp_path / "launcher.log"
    growing.write_bytes(content)
    whole, _ = poll_to_the_end(LauncherSource(node="vm", run="story", log=growing))
    chance = random.Random(len(content))
    cuts = sorted(chance.sample(range(len(content)), k=min(12, len(content) - 1)))
    told: list[Fact] = []
    cursor: str | None = None
    for cut in [*cuts, len(content)]:
        growing.write_bytes(content[:cut])
        polled = LauncherSource(node="vm", run="story", log=growing).poll(cursor)
        told += polled.facts
        cursor = polled.cursor
    told += poll_to_the_end(LauncherSource(node="vm", run="story", log=growing), cursor)[0]
    assert story_of(told) == story_of(whole)


def test_a_log_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "launcher.log"
    path.write_bytes((CORPUS / "nvrx/0.4.1/sigkill.log").read_bytes())
    source = LauncherSource(node="vm", log=path)
    first = source.finish(None)
    path.write_bytes((CORPUS / "nvrx/0.6.0/hang_hb.log").read_bytes())
    second = source.finish(first.cursor)
    assert {fact.emitter for fact in first.facts}.isdisjoint({fact.emitter for fact in second.facts})
    assert any("heartbeat" in getattr(fact, "text", "") for fact in second.facts if getattr(fact, "text", None))


STEPS = [
    f"[2026-11-20 10:00:{second:02}] iteration {second}/ 200 | elapsed time per iteration (ms): 1000.0 | lm loss: 1.0 |"
    for second in range(1, 9)
]
LAST_WORDS = {
    "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-20T10:01:00 DUE TO PREEMPTION ***": "preempted",
    "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-20T10:01:00 DUE TO TIME LIMIT ***": "failed",
    "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-20T10:01:00 ***": "stopped",
    "srun: error: Node failure on node022": "failed",
    '2026-11-20 10:00:09,000 INFO spot: instance-action: {"action": "terminate", "time": "2026-11-20T10:02:09Z"}': (
        "preempted"
    ),
    "F1120 10:00:09.000000 1711 client.h:80] Terminating process because the JAX distributed service detected fatal "
    "errors.": "failed",
    "=>> PBS: job killed: walltime 3600 exceeded limit 3600": "failed",
    "TERM_OWNER: job killed by owner.": "stopped",
}


def followed(path: Path, *parts: list[str]) -> list[Fact]:
    """What a follower states that looks while each part is fresh, and again when the log was silent for long."""
    facts: list[Fact] = []
    cursor = None
    for part in parts:
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in part))
        for ago in (0, 300):
            os.utime(path, (time.time() - ago,) * 2)
            polled = LauncherSource(node="vm", run="r", log=path, zone_seconds=0).poll(cursor)
            facts, cursor = [*facts, *polled.facts], polled.cursor
    return facts


@pytest.mark.parametrize(("line", "outcome"), LAST_WORDS.items())
def test_a_followed_log_ends_where_a_scheduler_said_so_and_nothing_came_since(line: str, outcome: str, tmp_path: Path):
    facts = followed(tmp_path / "run.log", [*STEPS, line])
    assert [fact.outcome for fact in facts if isinstance(fact, (AttemptEnded, RunEnded))] == [outcome, outcome]


def test_a_notice_with_steps_behind_it_ends_nothing_and_what_begins_again_is_another_attempt(tmp_path: Path):
    notice = "2026-11-20 10:00:05,000 INFO spot: instance-action: terminate"
    facts = followed(tmp_path / "notice.log", [*STEPS[:4], notice, *STEPS[5:]])
    assert not any(isinstance(fact, AttemptEnded) for fact in facts)
    requeued = [line.replace("10:00", "11:00") for line in STEPS]
    facts = followed(tmp_path / "requeued.log", [*STEPS, next(iter(LAST_WORDS))], requeued)
    assert [fact.restart for fact in facts if isinstance(fact, AttemptStarted)] == [0, 1]
    assert [fact.outcome for fact in facts if isinstance(fact, AttemptEnded)] == ["preempted"]


TABLE = """[rank33]: Traceback (most recent call last):
[rank33]:   File "/w/train.py", line 210, in step
[rank33]: RuntimeError: CUDA error: uncorrectable ECC error encountered
E1120 10:00:09.000000 991 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 77) of binary: python3
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:00:09
  host      : gpu-d05
  rank      : 33 (local_rank: 1)
  exitcode  : 1 (pid: 77)
============================================================""".splitlines()  # noqa: E501
SRUN = [
    "4711: Traceback (most recent call last):", '4711:   File "/w/train.py", line 2, in main', "4711: KeyError: 'x'",
    "srun: error: gpu-d05: task 4711: Exited with exit code 1",
]  # fmt: skip
PREFIXED = [line.replace("[rank33]:", "[gpu-d05:rank33]") for line in TABLE[:3]]
UNNAMED = TABLE[:4]


def nodes_of(path: Path, lines: list[str], **told: object) -> set[str | None]:
    """The nodes that a follower names for ranks, None where it names none."""
    path.write_text("".join(f"{line}\n" for line in [*STEPS, *lines]))
    source = LauncherSource(run="r", log=path, zone_seconds=0, **told)  # type: ignore[arg-type]
    kinds = (Evidence, Exit)
    found = {fact.node for fact in source.finish(None).facts if isinstance(fact, kinds) and fact.rank is not None}
    return found - {None} or {None}


@pytest.mark.parametrize("lines", [TABLE, SRUN, PREFIXED], ids=["torchrun's table", "srun", "a prefix"])
def test_the_node_of_a_rank_is_the_one_that_a_line_names(lines: list[str], tmp_path: Path):
    nowhere = {"node": None, "read_on": "login1"}
    beside = {"node": "login1", "node_is_told": False}
    assert nodes_of(tmp_path / "a.log", lines, **nowhere) == {"gpu-d05"}
    assert nodes_of(tmp_path / "b.log", lines, **beside) == {"gpu-d05"}


def test_where_a_log_is_read_is_no_rank_s_node_in_a_job_of_several(tmp_path: Path):
    assert nodes_of(tmp_path / "a.log", UNNAMED, node=None, read_on="login1") == {None}
    assert nodes_of(tmp_path / "b.log", UNNAMED, node="gpu-1", node_is_told=False) == {"gpu-1"}
    command = "++ torchrun --nnodes=2 --nproc-per-node=8 train.py"
    assert nodes_of(tmp_path / "c.log", [command, *UNNAMED], node="gpu-1", node_is_told=False) == {None}
    assert nodes_of(tmp_path / "d.log", [command, *UNNAMED], node="gpu-1") == {"gpu-1"}


@pytest.mark.parametrize("how", ["renamed", "copied and cut off"])
def test_a_log_that_is_rotated_goes_on_and_nothing_of_it_is_lost(how: str, tmp_path: Path) -> None:
    """Lines are written between the last look and the rotation, and behind it."""
    lines = [f"[2026-11-20 10:00:{step:02}] step {step} loss 1.0\n" for step in range(1, 31)]
    log = tmp_path / "train.log"
    cursor, told = None, []
    for begin, looked, end in ((0, 7, 12), (12, 15, 20), (20, 25, 30)):
        if begin:
            (tmp_path / f"train.log.{begin}").write_bytes(log.read_bytes())
            if how == "renamed":
                log.unlink()
            log.write_text("")
        for first, last in ((begin, looked), (looked, end)):
            with log.open("a") as file:
                file.write("".join(lines[first:last]))
            if last == looked or last == 30:
                polled = LauncherSource(node="vm", run="story", log=log, zone_seconds=0).poll(cursor)
                cursor, told = polled.cursor, [*told, *polled.facts]
    told += poll_to_the_end(LauncherSource(node="vm", run="story", log=log, zone_seconds=0), cursor)[0]
    steps = [
        number
        for fact in told
        if isinstance(fact, Steps)
        for number in range(fact.first_step, fact.first_step + fact.step_count)
    ]
    assert sorted(steps) == list(range(1, 31))
    assert [fact.restart for fact in told if isinstance(fact, AttemptStarted)] == [0]
    by_identity(valid(told))


# --- the launcher's process, and the last look ---

DIED = (
    "E1120 10:00:09.630000 8600 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    "local_rank: 0 (pid: 8677) of binary: /usr/bin/python"
)
AGAIN = [line.replace("10:00", "10:01") for line in STEPS]


@pytest.mark.parametrize(
    ("lines", "outcome", "words"),
    [
        (STEPS, None, "neither a failure nor a success"),
        ([*STEPS, DIED], "failed", "ends with a failure"),
        ([*STEPS, DIED, *AGAIN], None, "neither a failure nor a success"),
        ([], None, "neither a failure nor a success"),
        (["W1120 10:00:00.000000 8600 torch/distributed/run.py:803] Setting OMP_NUM_THREADS"], None, "neither"),
    ],
    ids=["nothing told", "died", "died and went on", "no line", "no step"],
)
def test_a_run_ends_with_the_process_of_its_launcher_where_no_line_tells_the_end(
    lines: list[str], outcome: str | None, words: str, tmp_path: Path
):
    log = tmp_path / "run.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    os.utime(log, (time.time() - 5,) * 2)
    launcher = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    source = LauncherSource(node="vm", run="r", log=log, zone_seconds=0, process=LauncherProcess(launcher.pid))
    _, cursor = poll_to_the_end(source)
    assert not [fact for fact in source.poll(cursor).facts if isinstance(fact, RunEnded)]
    launcher.communicate()
    polled = source.poll(cursor)
    (end,) = (fact for fact in valid(polled.facts) if isinstance(fact, RunEnded))
    assert end.outcome == outcome and words in (end.reason or "")
    for again in (source, LauncherSource(node="vm", run="r", log=log, process=LauncherProcess(launcher.pid))):
        assert again.poll(polled.cursor).facts == () == again.leave(polled.cursor).facts
    # One that was gone before anybody saw it may have been anybody's.
    never_seen = LauncherSource(node="vm", run="r", log=log, zone_seconds=0, process=LauncherProcess(launcher.pid))
    assert outcome or not [fact for fact in poll_to_the_end(never_seen)[0] if isinstance(fact, RunEnded)]


def test_a_log_that_workers_hold_open_has_not_ended_with_the_launcher(tmp_path: Path):
    log = tmp_path / "run.log"
    log.write_text("".join(f"{line}\n" for line in STEPS))
    os.utime(log, (time.time() - 5,) * 2)
    launcher = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    source = LauncherSource(node="vm", run="r", log=log, zone_seconds=0, process=LauncherProcess(launcher.pid))
    _, cursor = poll_to_the_end(source)
    launcher.communicate()
    with log.open("a"):
        assert not [fact for fact in source.leave(cursor).facts if isinstance(fact, RunEnded)]
        os.utime(log, (time.time() - HELD_OPEN_SECONDS - 1,) * 2)
        assert [fact for fact in source.leave(cursor).facts if isinstance(fact, RunEnded)]


def test_the_last_look_tells_the_steps_that_wait_for_company_and_nothing_twice(tmp_path: Path):
    log = tmp_path / "run.log"
    lines = [f"[2026-11-20 10:00:0{number // 3}] step {number} loss 0.1\n" for number in range(1, 15)]
    log.write_text("".join(lines[:8]))
    source = LauncherSource(node="vm", run="r", log=log, zone_seconds=0)
    first = source.leave(None)
    log.write_text("".join(lines))
    second = LauncherSource(node="vm", run="r", log=log, zone_seconds=0).leave(first.cursor)
    blocks = [[fact for fact in polled.facts if isinstance(fact, Steps)] for polled in (first, second)]
    done = [[fact.first_step + (fact.count or len(fact.durations_us)) - 1 for fact in each][-1] for each in blocks]
    assert done == [8, 14]
    by_identity([*first.facts, *second.facts])
    told = [
        step
        for fact in (*blocks[0], *blocks[1])
        for step in range(fact.first_step, fact.first_step + (fact.count or len(fact.durations_us)))
    ]
    assert told == list(range(told[0], 15))
    os.utime(log, (time.time() - 16,) * 2)  # nor is it held for long while nobody leaves
    facts, _ = poll_to_the_end(LauncherSource(node="vm", run="r", log=log, zone_seconds=0))
    last = [fact for fact in facts if isinstance(fact, Steps)][-1]
    assert last.first_step + (last.count or len(last.durations_us)) - 1 == 14
