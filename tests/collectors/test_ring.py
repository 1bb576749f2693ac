"""A ring gives back everything that was written, whatever became of its writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rerail.collectors.recorder import Recorder
from rerail.collectors.ring import HEADER_BYTES, SLOT_BYTES, RingReader, RingWriter, process_started
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.server.core.facts import Blind, CheckpointMoment, Fact, Heartbeats, PhaseSpan, Steps

WRITER = """
import sys
from pathlib import Path
from rerail.collectors.identity import Identity, Settings
from rerail.collectors.recorder import Recorder

recorder = Recorder(who=Identity("story", "n1", rank=1), where=Settings(Path(sys.argv[1])))
recorder.ready()
step = 0
while True:
    step += 1
    recorder.step(step)
    if step % 1000 == 0:
        recorder.checkpoint(step, "durable")
        print(step, flush=True)
    if step == 5_000:
        break
while True:
    pass
"""


def read_all(directory: Path, *, dead: bool = True) -> tuple[Fact, ...]:
    """Facts of the only ring in the directory, as whoever reads it after the death of its writer finds them."""
    (path,) = (directory / "rings").glob("*.ring")
    reader = RingReader(path)
    try:
        return RingFacts(reader).read(RingPlace(), time.monotonic_ns(), until=0 if dead else None).facts
    finally:
        reader.close()


def steps_of(facts: tuple[Fact, ...]) -> list[int]:
    return [
        fact.first_step + place for fact in facts if isinstance(fact, Steps) for place in range(len(fact.durations_us))
    ]


def test_a_sigkill_of_the_writer_loses_nothing_it_recorded(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) == 5_000:
                break
        child.send_signal(signal.SIGKILL)
    facts = read_all(tmp_path)
    assert steps_of(facts) == list(range(1, 5_001))
    saved = [fact.step for fact in facts if isinstance(fact, CheckpointMoment)]
    assert saved == list(range(1000, 5_001, 1000))


def test_a_torn_last_record_is_not_read(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder()
    recorder.ready()
    for step in range(1, 11):
        recorder.step(step)
    assert recorder._ring is not None
    last = recorder._ring.take() - 1
    torn = HEADER_BYTES + last * SLOT_BYTES
    recorder._ring.buffer[torn + SLOT_BYTES - 8 : torn + SLOT_BYTES] = bytes(8)
    assert steps_of(read_all(tmp_path)) == list(range(1, 10))


def test_records_overwritten_before_they_were_read_are_counted(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder(ring_bytes=HEADER_BYTES + 64 * SLOT_BYTES)
    recorder.ready()
    for step in range(1, 1001):
        recorder.step(step)
    facts = read_all(tmp_path)
    (blind,) = (fact for fact in facts if isinstance(fact, Blind))
    assert steps_of(facts) == list(range(937, 1001))
    assert blind.reason is not None
    assert blind.reason.startswith("9")
    assert "overwritten" in blind.reason


def test_a_hole_left_by_an_interrupted_writer_is_stepped_over_and_counted(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder()
    recorder.ready()
    recorder.step(1)
    assert recorder._ring is not None
    recorder._ring.take()
    recorder.step(2)
    (path,) = (tmp_path / "rings").glob("*.ring")
    facts = RingFacts(RingReader(path))
    soon = facts.read(RingPlace(), time.monotonic_ns())
    later = facts.read(RingPlace(), time.monotonic_ns() + 60_000_000_000)
    assert steps_of(soon.facts) == []
    assert steps_of(later.facts) == [1, 2]
    assert sum(isinstance(fact, Blind) for fact in later.facts) == 1
    facts.ring.close()


def test_two_readings_at_any_times_state_the_same_facts(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder(fold_seconds=0.02)
    (path,) = (tmp_path / "rings").glob("*.ring")
    often = RingFacts(RingReader(path))
    recorder.ready()
    stated: dict[int, Fact] = {}
    place = RingPlace()

    def look(*, dead: bool = False) -> None:
        nonlocal place
        reading = often.read(place, time.monotonic_ns(), until=0 if dead else None)
        place = reading.place
        for fact in reading.facts:
            assert stated.setdefault(fact.seq, fact) == fact

    for step in range(1, 400):
        recorder.step(step)
        recorder.heartbeat()
        if step % 7 == 0:
            with recorder.phase("evaluating"):
                recorder.evidence("x" * (step * 3))
        if step % 5 == 0:
            look()
        deadline = time.monotonic_ns() + 300_000
        while time.monotonic_ns() < deadline:
            pass
    recorder.close()
    look(dead=True)
    often.ring.close()
    assert tuple(stated[seq] for seq in sorted(stated)) == read_all(tmp_path)
    assert steps_of(tuple(stated.values())) or stated
    assert sorted(steps_of(tuple(stated.values()))) == list(range(1, 400))
    assert sum(fact.count for fact in stated.values() if isinstance(fact, Heartbeats)) == 399


def test_steps_touch_and_their_durations_sum_to_the_time_between(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder(fold_seconds=0.01)
    recorder.ready()
    for step in range(1, 200):
        recorder.step(step)
    blocks = [fact for fact in read_all(tmp_path) if isinstance(fact, Steps)]
    for earlier, later in pairwise(blocks):
        assert abs(earlier.start + sum(earlier.durations_us) * 1000 - later.start) < 2000


def test_the_header_of_a_file_that_is_no_ring_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"x" * 100, b"\0" * (1 << 16), b"RERAIL01" + b"\xff" * (1 << 16)):
        path = tmp_path / "odd.ring"
        path.write_bytes(content)
        with pytest.raises(ValueError):
            RingReader(path)


def test_a_ring_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        RingWriter(tmp_path / "a.ring", 1 << 16, (1, 1), {"emitter": "x" * 9000})
    assert list(tmp_path.iterdir()) == []


def test_a_process_id_used_again_is_another_process() -> None:
    started = process_started(os.getpid())
    assert started is not None
    assert process_started(os.getpid()) == started
    with subprocess.Popen(["sleep", "60"]) as child:
        alive = process_started(child.pid)
        assert alive is not None
        assert alive >= started
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_started(child.pid) is None  # a zombie will not write again
    assert process_started(child.pid) is None


def test_phases_are_open_until_they_are_closed(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder()
    recorder.ready()
    with recorder.phase("evaluating"):
        inside = [fact for fact in read_all(tmp_path) if isinstance(fact, PhaseSpan)]
    after = [fact for fact in read_all(tmp_path) if isinstance(fact, PhaseSpan)]
    assert inside[-1].end is None
    assert after[-1].span == inside[-1].span
    assert after[-1].end is not None
