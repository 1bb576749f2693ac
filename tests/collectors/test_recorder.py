"""The recorder never gets in the way of training, and says what it lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.collectors.identity import Identity, Settings
from rerail.collectors.recorder import Recorder
from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.server.core.facts import (
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    Evidence,
    Fact,
    PhaseSpan,
    Steps,
)


def read_all(directory: Path) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    for path in sorted((directory / "rings").glob("*.ring")):
        reader = RingReader(path)
        facts += RingFacts(reader).read(RingPlace(), time.monotonic_ns(), until=0).facts
        reader.close()
    return tuple(facts)


def use_everything(recorder: Recorder) -> None:
    """Call all there is, with sense and without."""
    with recorder:
        recorder.run(name="a", target_step=5, labels={"a": "b"})
        with recorder.loading() as load:
            load.step = 4
        recorder.ready()
        recorder.step()
        recorder.step(7)
        recorder.step("seven")  # type: ignore[arg-type]
        recorder.heartbeat()
        recorder.arm(10)
        with recorder.saving(7):
            pass
        with recorder.capturing(8):
            pass
        with recorder.phase("evaluating"):
            recorder.metric("loss", 1.0)
            recorder.metric("loss", "high")  # type: ignore[arg-type]
        recorder.checkpoint("seven", "gone")  # type: ignore[arg-type]
        recorder.loaded(7, 1.0)
        recorder.loaded(7, "long")  # type: ignore[arg-type]
        recorder.evidence("x" * 1_000_000)
        recorder.evidence(b"bytes")  # type: ignore[arg-type]
        recorder.exception(ValueError("boom"))
        recorder.iterate(1)
        recorder.mark("noticed")
        recorder.finished()
    recorder.step()
    recorder.close()


def test_everything_may_be_called_with_anything(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder()
    use_everything(recorder)
    assert recorder.lost == 4
    assert any(isinstance(fact, CheckpointLoaded) for fact in read_all(tmp_path))


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/rings"])
def test_without_a_place_to_write_nothing_is_raised_and_everything_is_counted(place: str) -> None:
    recorder = Recorder(who=Identity("story", "n1"), where=Settings(Path(place)))
    use_everything(recorder)
    assert recorder.lost > 15


def test_where_no_agent_ever_comes_rings_do_not_fill_the_disk(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    (tmp_path / "rings").mkdir()
    for number in range(512):
        (tmp_path / "rings" / f"{number}.ring").touch()
    recorder = make_recorder()
    recorder.step(1)
    assert recorder.lost == 2
    assert len(list((tmp_path / "rings").glob("*.ring"))) == 512


def test_run_and_directory_may_be_said_instead_of_told_by_the_environment(tmp_path: Path) -> None:
    with Recorder("mine", directory=tmp_path / "here") as recorder:
        recorder.step(1)
    assert {fact.run for fact in read_all(tmp_path / "here")} == {"mine"}


def test_a_recorder_that_is_switched_off_is_silent(tmp_path: Path) -> None:
    recorder = Recorder(who=Identity("story", "n1"), where=Settings(tmp_path, switched_off=True))
    use_everything(recorder)
    assert list(tmp_path.iterdir()) == []


ON_A_FULL_DISK = """
import resource, sys
from pathlib import Path
from rerail.collectors import recorder
from rerail.collectors.identity import Identity, Settings

def room(files_may_grow_to):
    resource.setrlimit(resource.RLIMIT_FSIZE, (files_may_grow_to, resource.RLIM_INFINITY))

recorder.OPEN_AGAIN_NS = 0
directory = Path(sys.argv[1])
room({room})
told = recorder.Recorder(who=Identity("story", "n1", rank=3), where=Settings(directory))
for _ in range(100): told.step()
print(told.lost, *(path.suffix for path in (directory / "rings").iterdir()))
room(resource.RLIM_INFINITY)
for _ in range(10): told.step()
print(told.lost, *(path.suffix for path in (directory / "rings").iterdir()))
"""


def on_a_full_disk(directory: Path, room: int) -> list[list[str]]:
    """What a rank tells of its losses and its files: while no file may grow beyond `room`, and after that."""
    script = ON_A_FULL_DISK.replace("{room}", str(room))
    done = subprocess.run([sys.executable, "-c", script, str(directory)], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_a_full_disk_costs_what_is_recorded_until_it_has_room_again(tmp_path: Path) -> None:
    (lost_while_full, *while_full), (lost_in_all, *with_room) = on_a_full_disk(tmp_path, 0)
    assert int(lost_while_full) > 100
    assert while_full == [".unheard"]
    assert with_room == [".ring"]
    facts = read_all(tmp_path)
    (steps,) = [fact for fact in facts if isinstance(fact, Steps)]
    assert (steps.first_step, len(steps.durations_us)) == (102, 9), "the step that found room was still lost"
    assert not [fact for fact in facts if isinstance(fact, PhaseSpan)], "bring-up was not seen, and is not told"
    assert int(lost_in_all) == int(lost_while_full) + 1


def test_a_disk_with_little_room_takes_a_small_ring(tmp_path: Path) -> None:
    (lost, *files), _ = on_a_full_disk(tmp_path, 64 * 1024)
    assert (lost, files) == ("0", [".ring"])


def test_a_forked_child_records_nothing(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder()
    recorder.ready()
    recorder.step(1)
    child = os.fork()
    if child == 0:
        for step in range(100, 200):
            recorder.step(step)
        recorder.evidence("from the child")
        os._exit(0 if recorder.lost else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    recorder.step(2)
    facts = read_all(tmp_path)
    assert sum(len(fact.durations_us) for fact in facts if isinstance(fact, Steps)) == 2
    assert not [fact for fact in facts if isinstance(fact, Evidence)]


def test_threads_write_side_by_side(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder(ring_bytes=1 << 22)
    recorder.ready()
    texts = [f"{name} {number} " + "y" * 200 for name in "abc" for number in range(100)]

    def tell(name: str) -> None:
        for text in texts:
            if text.startswith(name):
                recorder.evidence(text)

    threads = [threading.Thread(target=tell, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for step in range(1, 5001):
        recorder.step(step)
    for thread in threads:
        thread.join()
    facts = read_all(tmp_path)
    assert sorted(fact.text for fact in facts if isinstance(fact, Evidence)) == sorted(texts)
    assert sum(len(fact.durations_us) for fact in facts if isinstance(fact, Steps)) == 5000
    assert len({fact.seq for fact in facts}) == len(facts)


def test_bring_up_lasts_from_the_start_of_the_process_to_the_first_step(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder()
    before = time.time_ns()
    recorder.ready()
    recorder.step(1)
    spans = [fact for fact in read_all(tmp_path) if isinstance(fact, PhaseSpan)]
    steps = next(fact for fact in read_all(tmp_path) if isinstance(fact, Steps))
    assert [span.phase.value for span in spans] == ["initializing", "initializing"]
    assert spans[1].start is not None
    assert spans[1].start < before
    assert spans[1].end == steps.start


def test_without_ready_the_first_step_belongs_to_bring_up(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder()
    recorder.step(1)
    recorder.step(2)
    (steps,) = (fact for fact in read_all(tmp_path) if isinstance(fact, Steps))
    assert steps.first_step == 1
    assert steps.durations_us[0] == 0


def test_steps_count_on_from_what_was_loaded(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder()
    with recorder.loading() as load:
        load.step = 40
    recorder.ready()
    recorder.step()
    assert recorder.last_step == 41

    def load_a_torn_file() -> None:
        with recorder.loading() as load:
            load.step = 20
            raise OSError("the file is torn")

    with pytest.raises(OSError):
        load_a_torn_file()
    loads = [fact for fact in read_all(tmp_path) if isinstance(fact, CheckpointLoaded)]
    assert [(fact.step, fact.outcome) for fact in loads] == [(40, None), (20, "failed")]
    assert recorder.last_step == 41


@pytest.mark.parametrize(
    ("how", "stages"),
    [("saving", ["started", "durable"]), ("capturing", ["started", "captured"])],
)
def test_a_save_states_its_stages_on_the_first_rank_only(
    make_recorder: Callable[..., Recorder], tmp_path: Path, how: str, stages: list[str]
) -> None:
    for rank in (0, 1):
        recorder = make_recorder(rank=rank)
        recorder.ready()
        with getattr(recorder, how)(10):
            pass
        with pytest.raises(ValueError), getattr(recorder, how)(20):
            raise ValueError("the store is gone")
    facts = read_all(tmp_path)
    told = [(fact.rank, fact.step, fact.stage.value) for fact in facts if isinstance(fact, CheckpointMoment)]
    assert told == [(0, 10, stage) for stage in stages] + [(0, 20, "started"), (0, 20, "failed")]
    spans = [fact for fact in facts if isinstance(fact, PhaseSpan) and fact.phase.value == "saving"]
    assert {span.rank for span in spans} == {0, 1}


def test_an_exception_that_ends_the_block_is_evidence_without_secrets(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError), make_recorder():
        raise RuntimeError("cannot reach https://user:hunter2@store/x?token=abcdef with api_key=12345")
    (evidence,) = (fact for fact in read_all(tmp_path) if isinstance(fact, Evidence))
    assert evidence.text.startswith("RuntimeError: cannot reach https://***@store")
    assert "hunter2" not in evidence.text
    assert "abcdef" not in evidence.text
    assert "12345" not in evidence.text
    assert evidence.rank == 1


def test_an_in_process_restart_is_another_attempt_of_the_same_process(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder(rank=0)
    recorder.ready()
    recorder.step(1)
    recorder.iterate(1)
    recorder.ready()
    recorder.step(1)
    facts = read_all(tmp_path)
    assert [fact.iteration for fact in facts if isinstance(fact, AttemptStarted)] == [None, 1]
    assert [fact.iteration for fact in facts if isinstance(fact, Steps)] == [None, 1]
