"""Recorded logs as they grow: what every source promises (`test_contract.py`), held for each of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rerail.collectors.sources.launcher import LauncherSource
from rerail.server.core.facts import Fact
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
