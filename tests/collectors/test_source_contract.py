"""What every source promises (`collectors/source.py`), held for each of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.collectors.source import Polled, Source, SourceDown
from rerail.collectors.sources.launcher import LauncherSource
from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import Fact

CORPUS = Path(__file__).parent.parent / "corpus"
LOGS = sorted([*CORPUS.glob("nvrx/*/*.log"), *CORPUS.glob("nvrx/*/*/nvrx.log"), *CORPUS.glob("torchrun/*.log")])


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


def identities(facts: list[Fact]) -> list[tuple[str, int]]:
    return [(fact.emitter, fact.seq) for fact in facts]


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_polled_twice_there_are_no_duplicates(log: Path) -> None:
    facts, cursor = poll_to_the_end(source_of(log))
    assert len(set(identities(facts))) == len(facts)
    assert source_of(log).finish(cursor).facts == ()


@pytest.mark.parametrize("log", LOGS, ids=name_of)
def test_every_fact_is_one_the_server_takes(log: Path) -> None:
    for fact in poll_to_the_end(source_of(log))[0]:
        assert decode_line(encode_line(fact)) == fact


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
    assert sorted(told, key=lambda fact: fact.seq) == sorted(whole, key=lambda fact: fact.seq)


def mangled(content: bytes, chance: random.Random) -> bytes:
    """The log with some of its bytes and lines gone, doubled or replaced."""
    lines = content.split(b"\n")
    for _ in range(20):
        place = chance.randrange(len(lines))
        line = lines[place]
        what = chance.randrange(5)
        if what == 0:
            lines[place] = line[: chance.randrange(len(line) + 1)]
        elif what == 1:
            lines[place] = bytes(chance.randrange(256) for _ in range(chance.randrange(80)))
        elif what == 2:
            lines.insert(place, chance.choice(lines))
        elif what == 3:
            del lines[place]
        elif line:
            at = chance.randrange(len(line))
            lines[place] = line[:at] + bytes([chance.randrange(256)]) + line[at + 1 :]
        if not lines:
            lines = [b""]
    return b"\n".join(lines)


@pytest.mark.parametrize("log", LOGS[::4], ids=name_of)
def test_broken_lines_do_not_raise_and_what_is_stated_stays_valid(log: Path, tmp_path: Path) -> None:
    content = log.read_bytes()
    for seed in range(6):
        path = tmp_path / f"{seed}.log"
        path.write_bytes(mangled(content, random.Random(seed)))
        facts, _ = poll_to_the_end(LauncherSource(node="vm", log=path))
        assert len(set(identities(facts))) == len(facts)
        for fact in facts:
            decode_line(encode_line(fact))


TELLING_LINES = [
    b"[2026-11-29 13:02:26,134] [ERROR] [ft_launcher1@vm] failed (exitcode: -9) local_rank: 1 (pid: 2) of binary: p",
    b"E1399 99:99:99.000000 1 torch/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 3) of binary: p",
    b"W1129 12:03:40.008000 1 torch/api.py:1028] Sending process 30500 closing signal SIGTERM",
    b"  rank      : 1 (local_rank: 1)",
    b"  exitcode  : -9 (pid: 30501) (SIGKILL)",
    b"=====================",
    b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    b"[rank1]: Traceback (most recent call last):",
    b"[rank1]: ValueError: x",
    b"2026-11-29 11:59:45,582 [INFO] [vm] [workload:?(?) infra:?(?)] profiling.py:93   - Cycle: 999999999 "
    b"Event: failure_detected Node: n_1_0 Rank: 0 Time: 2026-11-29 11:59:45.582 UTC",
    b"2026-11-29 12:09:43,704 [ERROR] [vm] [workload:1(?) infra:?(?)] wrap.py:582 "
    b"[2026-11-29 12:09:43.704167] rank=1 term_ex: RankShouldRestart()",
    b"[2026-11-29 13:02:26,134] [INFO] [ft_launcher1@vm] Starting elastic_operator with launch configs:",
    b"  max_restarts     : [[[[",
    b"# CMD: torchrun --max-restarts='",
]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.one_of(st.binary(max_size=120), st.sampled_from(TELLING_LINES)), max_size=40))
def test_any_bytes_are_a_log(tmp_path: Path, pieces: list[bytes]) -> None:
    path = tmp_path / "any.log"
    path.write_bytes(b"\n".join(pieces))
    facts, _ = poll_to_the_end(LauncherSource(node="vm", log=path))
    for fact in facts:
        decode_line(encode_line(fact))


@pytest.mark.parametrize("cursor", ["", "nonsense", "[]", "{}", '{"log": {"mark": "other", "offset": 99999999}}'])
def test_a_cursor_that_makes_no_sense_is_the_beginning(cursor: str) -> None:
    log = CORPUS / "nvrx" / "0.4.1" / "sigkill.log"
    assert source_of(log).finish(cursor).facts == source_of(log).finish(None).facts


@pytest.mark.parametrize(
    "make",
    [
        lambda nowhere: LauncherSource(node="vm", log=nowhere / "launcher.log"),
        lambda nowhere: LauncherSource(node="vm", cycle_info=nowhere),
        lambda nowhere: LauncherSource(node="vm", log=nowhere.parent),
    ],
)
def test_a_source_that_cannot_see_says_so(tmp_path: Path, make: Callable[[Path], Source]) -> None:
    with pytest.raises(SourceDown):
        make(tmp_path / "nowhere").poll(None)


def test_a_log_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "launcher.log"
    path.write_bytes((CORPUS / "nvrx/0.4.1/sigkill.log").read_bytes())
    source = LauncherSource(node="vm", log=path)
    first = source.finish(None)
    path.write_bytes((CORPUS / "nvrx/0.6.0/hang_hb.log").read_bytes())
    second = source.finish(first.cursor)
    assert {fact.emitter for fact in first.facts}.isdisjoint({fact.emitter for fact in second.facts})
    assert any("heartbeat" in getattr(fact, "text", "") for fact in second.facts if getattr(fact, "text", None))


def test_sources_are_what_the_protocol_says(tmp_path: Path) -> None:
    source = LauncherSource(node="vm", log=tmp_path / "x.log")
    assert isinstance(source, Source)
    (tmp_path / "x.log").write_bytes(b"")
    assert source.poll(None) == Polled((), source.poll(None).cursor)
