"""What every source and every format of old records promises, held for each of them.

Sources are those of `rerail collect` (`collectors/live_sources.py`), each looked at in a world of its own
(`worlds.py`); formats are those of `rerail import` (`collectors/formats.py`), each with a recorded file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.collectors import commands
from rerail.collectors.agent import Agent
from rerail.collectors.formats import OldFile, formats
from rerail.collectors.live_sources import live_sources
from rerail.collectors.outlet import FileOutlet
from rerail.collectors.source import Polled, Source, SourceDown
from rerail.server.cli import main
from rerail.server.core.codec import FactError, decode_line, encode_line
from rerail.server.core.facts import Blind, Fact, Steps
from tests.collectors.worlds import TURNS, WORLDS, World

CORPUS = Path(__file__).parent.parent / "corpus"
RECIPE = CORPUS.parent.parent / "docs" / "adding_a_collector.md"
SECONDS_A_LOOK = 5.0
Identity = tuple[str, str, int]


def test_every_source_is_held_to_the_contract():
    missing = live_sources().keys() - WORLDS.keys()
    assert not missing, (
        f"{sorted(missing)}: tests/collectors/worlds.py has no world for it. Write a class with the methods of `World` "
        "(what happens, how it breaks down, what hostile bytes are there) and name it in WORLDS."
    )
    assert WORLDS.keys() == live_sources().keys()


def example_of_the_page() -> dict[str, Any]:
    """What the blocks of `docs/adding_a_collector.md` define: a source, and its world."""
    source, told_world, _ = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {"__name__": "storage_probe"}
    exec(compile(source, "storage_probe.py", "exec"), names)
    names |= {"Sequence": Sequence}
    exec(compile("from __future__ import annotations\n" + told_world, "worlds.py", "exec"), names)
    return names


EXAMPLE = example_of_the_page()
RECIPE_WORLD = "the page on adding a collector"


@pytest.fixture(params=[*sorted(WORLDS), RECIPE_WORLD])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world in which nothing has happened yet."""
    monkeypatch.setenv("PATH", str(tmp_path))  # programs that a source calls are those of its world
    if request.param == RECIPE_WORLD:
        found = {**live_sources(), EXAMPLE["SOURCE"].name: EXAMPLE["SOURCE"]}
        monkeypatch.setattr(commands, "live_sources", lambda: found)
    made: World = (EXAMPLE["StorageProbeWorld"] if request.param == RECIPE_WORLD else WORLDS[request.param])(tmp_path)
    yield made
    made.stop()


def looked(source: Source, cursor: str | None = None) -> Polled:
    """Everything that is there now. The source is given back."""
    facts: list[Fact] = []
    try:
        while (polled := source.finish(cursor)).facts:
            facts += polled.facts
            cursor = polled.cursor
        return Polled(tuple(facts), polled.cursor)
    finally:
        getattr(source, "close", lambda: None)()


def polled_once(source: Source, cursor: str | None = None) -> Polled:
    """What is whole by now."""
    return source.poll(cursor)


def by_identity(facts: Sequence[Fact]) -> dict[Identity, Fact]:
    """Facts by what the store knows them by. None is there twice."""
    found = {(fact.run, fact.emitter, fact.seq): fact for fact in facts}
    assert len(found) == len(facts), "stated twice in one look"
    return found


def valid(facts: Sequence[Fact]) -> Sequence[Fact]:
    """What the server would take, and take as it was meant."""
    for fact in facts:
        assert decode_line(encode_line(fact)) == fact
    return facts


def story_of(facts: Sequence[Fact]) -> tuple[list[Fact], list[tuple[object, ...]]]:
    """What is told, however many steps are told together: that depends on when a growing log is looked at."""
    steps: list[tuple[object, ...]] = []
    for fact in facts:
        if isinstance(fact, Steps):
            at = fact.start
            for place, length in enumerate(fact.durations_us):
                steps.append((fact.restart, fact.first_step + place, at, length, fact.count))
                at += length * 1000
    others = [fact for fact in facts if not isinstance(fact, Steps)]
    return sorted(others, key=lambda fact: (fact.emitter, fact.seq)), sorted(steps, key=str)


def test_from_any_cursor_a_new_instance_states_what_is_new_and_the_old_under_the_old_identity(world: World):
    cursors: list[str] = []
    told: list[Fact] = []
    for turn in range(TURNS):
        world.turn()
        look = looked if turn == TURNS - 1 or not world.is_a_log else polled_once
        polled = look(world.source(), cursors[-1] if cursors else None)
        assert valid(polled.facts), "something happened and nothing was stated"
        told += polled.facts
        cursors.append(polled.cursor)
        assert look(world.source(), polled.cursor).facts == (), "nothing happened and something was stated"
    known = by_identity(told)
    for cursor in [None, *cursors] if world.sees_the_past else cursors:
        again = by_identity(looked(world.source(), cursor).facts)
        for identity, fact in again.items():
            assert isinstance(fact, Steps) or known[identity] == fact
    if world.sees_the_past:
        assert story_of(looked(world.source()).facts) == story_of(told)


def test_where_nothing_happened_it_says_that_it_looked_and_states_nothing(world: World):
    assert isinstance(world.source(), Source)
    polled = looked(world.source())
    assert polled.facts == ()
    assert isinstance(polled.cursor, str)


def test_what_cannot_be_seen_is_down_and_an_agent_states_it_blind(world: World, tmp_path: Path):
    with (tmp_path / "told").open("wb") as told:
        world.turn()
        for is_broken in (False, True):
            if is_broken:
                world.break_down()
                for look in ("poll", "finish"):
                    source = world.source()
                    with pytest.raises(SourceDown) as down:
                        getattr(source, look)(None)
                    getattr(source, "close", lambda: None)()
                    assert str(down.value)
            agent = Agent(tmp_path / "agent", FileOutlet(told), "vm", run="story", sources=[world.source()])
            until = time.monotonic() + 5  # who watches hears of it a moment later
            agent.look()
            while is_broken and not agent._blindness.sources() and time.monotonic() < until:
                time.sleep(0.02)
                agent.look()
            agent.sender.drain(5)
            agent.close()
    facts = [decode_line(line) for line in (tmp_path / "told").read_bytes().splitlines()]
    blind = [fact for fact in facts if isinstance(fact, Blind) and fact.until is None]
    assert blind and all(fact.source and fact.reason for fact in blind)


@pytest.mark.parametrize("cursor", ["", "nonsense", "[]", "{}", "3", "null", '"x"', '{"log": {"offset": 99}}'])
def test_a_cursor_that_makes_no_sense_is_the_beginning(world: World, cursor: str):
    world.turn()
    assert looked(world.source(), cursor).facts == looked(world.source()).facts != ()


def test_a_cursor_grows_with_what_there_is_to_know_and_not_with_every_look(world: World):
    world.turn()
    cursor = looked(world.source()).cursor
    first = len(cursor)
    for _ in range(5 * TURNS):
        world.turn()
        cursor = looked(world.source(), cursor).cursor
    turned = len(cursor)
    for _ in range(5):
        cursor = looked(world.source(), cursor).cursor
    assert len(cursor) <= turned + 20
    assert turned <= first + 4_000 + 5 * TURNS * world.grows_by


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
"""Lines that a launcher would print, a little wrong."""


def lines_of_corpus() -> list[bytes]:
    """Lines of everything that was recorded."""
    chance = random.Random(7)
    lines = list(TELLING_LINES)
    for pattern in ("nvrx/*/*.log", "training_logs/*.log", "slurm/*", "kubernetes/*.json", "kernel/*", "causes/*.tsv"):
        for path in sorted(CORPUS.glob(pattern)):
            found = [line[:2000] for line in path.read_bytes().splitlines() if line]
            lines += chance.sample(found, min(12, len(found)))
    return lines


LINES = lines_of_corpus()
KNOWN = st.integers(0, len(LINES) - 1).map(lambda number: LINES[number])


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A recorded line of which something is gone, doubled or replaced."""
    line = draw(KNOWN)
    begin, end = sorted(draw(st.tuples(st.integers(0, len(line)), st.integers(0, len(line)))))
    return line[:begin] + draw(st.binary(max_size=6)) + line[draw(st.sampled_from([begin, end])) :]


ODD_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["status", "data", "result", "metric", "values", "jobs", "items", "kind", "metadata", "phase",
                         "containerStatuses", "conditions", "state", "entries", "pg_config", "version", "message"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
HOSTILE = (
    st.lists(KNOWN | mangled() | st.binary(max_size=60), max_size=30).map(lambda found: b"\n".join(found))
    | st.binary(max_size=300)
    | ODD_JSON.map(lambda value: json.dumps(value).encode())
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=HOSTILE)
def test_whatever_is_there_nothing_is_raised_and_what_is_stated_is_valid(world: World, content: bytes):
    world.hostile(content)
    began = time.perf_counter()
    try:
        facts = looked(world.source()).facts
    except SourceDown:
        facts = ()
    took = time.perf_counter() - began
    assert took < SECONDS_A_LOOK, f"{len(content)} bytes took {took:.1f} s"
    by_identity(valid(facts))


def collect(*words: str) -> int:
    parser = argparse.ArgumentParser()
    commands.add_commands(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["collect", *words])
    return int(arguments.run(arguments))


def test_it_is_shown_on_the_terminal_and_sent_once(
    world: World, intake: Any, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
):
    for _ in range(TURNS):
        world.turn()
    assert collect(*world.words(), "--once", "--stdout") == 0
    told = capfdbinary.readouterr()
    shown = [decode_line(line) for line in told.out.splitlines()]
    assert shown and f"{len(shown)} facts stated".encode() in told.err
    for spool in ("a", "a", "b"):
        assert collect(*world.words(), "--once", "--url", intake.url, "--dir", str(tmp_path / spool)) == 0
    assert intake.facts.keys() == by_identity(shown).keys()
    assert intake.contradictions == []
    world.break_down()
    capfdbinary.readouterr()
    assert collect(*world.words(), "--once", "--stdout") == 1
    told = capfdbinary.readouterr()
    assert told.out == b"" and f"rerail collect {world.words()[0]}: ".encode() in told.err


# --- formats ------------------------------------------------------------------------------------------

FILES: dict[str, str] = {
    "aws-nvrx": "aws_nvrx/ft_launcher.log",
    "error-file": "torchrun/sigkill_files/**/error.json",
    "flight-recorder": "flight_recorder/hang4_rank_3",
    "google-goodput": "google_goodput/calls.jsonl",
    "kernel": "kernel/kern.log",
    "kubernetes": "kubernetes/events.json",
    "logs": "nvrx/0.4.1/multi.log",
    "one-logger": "one_logger/resumed.jsonl",
    "slurm": "slurm/sacct.psv",
    "torchrun-events": "torchrun/events_fail.jsonl",
}
"""A recorded file of every format, below `tests/corpus`."""


def test_every_format_is_held_to_the_contract():
    missing = formats().keys() - FILES.keys()
    assert not missing, f"{sorted(missing)}: name a recorded file of it in FILES of tests/collectors/test_contract.py"
    assert FILES.keys() == formats().keys()


def file_of(name: str, folder: Path) -> Path:
    """The recorded file, unpacked."""
    found = next(iter(sorted(CORPUS.glob(FILES[name]))))
    content = gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
    path = folder / found.name.removesuffix(".gz")
    path.write_bytes(content)
    return path


def read_as(name: str, path: Path, content: bytes | None = None) -> tuple[list[Fact], list[FactError]]:
    """Facts and refusals of a file, as `rerail import` reads it."""
    refused: list[FactError] = []
    told = path.read_bytes() if content is None else content
    old = OldFile(
        path=str(path), stem=path.stem, run="story",
        lines=enumerate((line + b"\n" for line in told.split(b"\n")), 1),
        content=lambda: told, refuse=lambda _line, error: refused.append(error), remark=lambda _: None,
        at=1_795_957_000_000_000_000,
    )  # fmt: skip
    return list(formats()[name].read(old)), refused


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_read_again_states_the_same_under_the_same_identity(name: str, tmp_path: Path):
    path = file_of(name, tmp_path)
    facts, _ = read_as(name, path)
    assert by_identity(valid(facts))
    assert read_as(name, path)[0] == facts


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_is_shown_by_the_command_as_the_format_reads_it(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
):
    path = file_of(name, tmp_path)
    assert main(["import", name, str(path), "--run", "story", "--still-running", "--stdout"]) == 0
    shown = [decode_line(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert {fact.kind for fact in shown} == {fact.kind for fact in read_as(name, path)[0]}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=HOSTILE, cut=st.floats(0, 1), is_whole=st.booleans())
@pytest.mark.parametrize("name", sorted(FILES))
def test_whatever_a_file_holds_it_is_read_or_refused_with_field_and_reason(
    name: str, tmp_path: Path, content: bytes, cut: float, is_whole: bool
):
    path = tmp_path / "hostile"
    if is_whole:
        recorded = file_of(name, tmp_path).read_bytes()[:20_000]
        content = recorded[: int(len(recorded) * cut)] + content[:200] + recorded[int(len(recorded) * cut) + 5 :]
    path.write_bytes(content)
    began = time.perf_counter()
    facts, refused = read_as(name, path)
    took = time.perf_counter() - began
    assert took < SECONDS_A_LOOK, f"{len(content)} bytes took {took:.1f} s"
    by_identity(valid(facts))
    assert all(error.reason for error in refused)
