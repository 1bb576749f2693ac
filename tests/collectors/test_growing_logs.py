"""Recorded logs as they grow: what every source promises (`test_contract.py`), held for each of them."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from rerail.collectors.sources.launcher import LauncherSource
from rerail.server.core.facts import AttemptEnded, AttemptStarted, Fact, RunEnded
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


@pytest.mark.parametrize("log", LOGS, ids=name_of)
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
