"""The demonstration is real: what rerail is told of it is what happened."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rerail.collectors.demo.arms import ARMS
from rerail.collectors.demo.recorded import last_instant, load_arms, load_recordings, shifted
from rerail.collectors.demo.runner import Demo, chosen_launcher, launcher_command
from rerail.collectors.demo.schedule import Fault, label, parse, schedule
from rerail.server.core.codec import decode_line
from rerail.server.core.facts import (
    CheckpointMoment,
    Exit,
    MarkStage,
    RecoveryMark,
    RunEnded,
    RunStarted,
    SchedulerState,
    Steps,
)

needs_launcher = pytest.mark.skipif(
    importlib.util.find_spec("nvidia_resiliency_ext") is None or importlib.util.find_spec("torch") is None,
    reason="trains under ft_launcher: needs torch and nvidia-resiliency-ext",
)
DEMO = """
import json, sys
from pathlib import Path
from rerail.collectors.demo.runner import Demo, run_demo
from rerail.collectors.demo.schedule import parse
from rerail.collectors.outlet import FileOutlet

directory = Path(sys.argv[1])
with (directory / "facts.jsonl").open("wb") as file:
    demo = Demo(directory, "story", sys.argv[2], "async", 26, 8, 0.1, parse(sys.argv[3]))
    result = run_demo(demo, FileOutlet(file))
print(json.dumps([result.exit_code, result.unsent]))
"""


def test_the_schedule_is_the_same_for_the_same_number_of_steps() -> None:
    assert schedule(150) == (Fault(34, 1, "exception"), Fault(71, 1, "sigkill"), Fault(113, 1, "hang"))
    assert parse(",".join(map(str, schedule(77)))) == schedule(77)
    assert parse("") == ()
    with pytest.raises(ValueError, match="explosion"):
        parse("1:1:explosion")


@pytest.mark.parametrize("launcher", ["ft_launcher", "torchrun"])
def test_the_command_line_trains_this_demonstration(tmp_path: Path, launcher: str) -> None:
    command = launcher_command(launcher, Demo(tmp_path, "story"))
    assert "rerail.collectors.demo.train" in command
    assert ("--ft-rank-heartbeat-timeout=10" in command) == (launcher == "ft_launcher")
    assert "34:1:exception,71:1:sigkill,113:1:hang" in command


def test_recordings_are_whole_and_say_what_they_are() -> None:
    recordings = dict(load_recordings())
    assert set(recordings) == {"ft_launcher-async", "ft_launcher-sync", "torchrun-async"}
    for name, lines in recordings.items():
        facts = [decode_line(line) for line in lines]
        noticed = {fact.restart for fact in facts if isinstance(fact, RecoveryMark) and fact.stage is MarkStage.NOTICED}
        steps = [
            fact.first_step + place
            for fact in facts if isinstance(fact, Steps) and fact.rank == 0
            for place in range(len(fact.durations_us))
        ]  # fmt: skip
        assert noticed == {0, 1, 2}, name
        assert max(steps) == 150
        assert set(steps) == set(range(1, 151))
        assert len(steps) > 150
        identities = {(fact.emitter, fact.seq) for fact in facts}
        assert len(identities) == len(facts)
        assert b"/home/" not in b"".join(lines)


def test_a_shifted_recording_ends_when_it_is_told_to_and_is_the_same_story() -> None:
    for _, lines in load_recordings():
        end = 1_900_000_000_123_456_789
        moved = shifted(lines, end, run="mine")
        assert last_instant(moved) == end
        difference = end - last_instant(lines)
        for before, after in zip(map(json.loads, lines), map(json.loads, moved), strict=True):
            decode_line(json.dumps(after))
            assert after["run"] == "mine"
            assert after["at"] - before["at"] == difference
            for name in ("start", "end", "since", "until"):
                assert (name in before) == (name in after)
                assert name not in before or after[name] - before[name] == difference
            kept = {"durations_us", "count", "seq", "restart", "step", "first_step"}
            assert {name: before.get(name) for name in kept} == {name: after.get(name) for name in kept}


def truth_of(directory: Path, event: str) -> list[dict[str, object]]:
    return [
        told
        for path in sorted(directory.glob("truth.rank*.jsonl"))
        for told in map(json.loads, path.read_text().splitlines())
        if told["event"] == event
    ]


@pytest.mark.slow
@needs_launcher
def test_what_is_told_of_a_real_failure_is_what_happened(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", DEMO, str(tmp_path), "ft_launcher", "13:1:sigkill"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout, done.stderr + (tmp_path / "launcher.log").read_text()[-3000:]
    assert json.loads(done.stdout) == [0, 0]
    facts = [decode_line(line) for line in (tmp_path / "facts.jsonl").read_bytes().splitlines()]
    (fault,) = truth_of(tmp_path, "fault")
    noticed = min(
        fact.at for fact in facts
        if isinstance(fact, RecoveryMark) and fact.stage is MarkStage.NOTICED and fact.restart == 0
    )  # fmt: skip
    assert -0.01 < noticed / 1e9 - fault["t"] < 5
    assert [(fact.restart, fact.rank, fact.exit_code) for fact in facts if isinstance(fact, Exit)] == [(0, 1, -9)]
    for rank in (0, 1):
        told = {
            (fact.restart, fact.first_step + place): (fact.start / 1e9 + sum(fact.durations_us[: place + 1]) / 1e6)
            for fact in facts if isinstance(fact, Steps) and fact.rank == rank
            for place in range(len(fact.durations_us))
        }  # fmt: skip
        true = {(one["attempt"], one["step"]): one["t"] for one in truth_of(tmp_path, "step") if one["rank"] == rank}
        assert set(true) <= set(told)  # a rank may die between the step and writing its truth
        assert max(abs(told[key] - when) for key, when in true.items()) < 0.05
    durable = [fact.step for fact in facts if isinstance(fact, CheckpointMoment) and fact.stage.value == "durable"]
    assert durable == [8, 16, 24, 26]
    assert [fact.outcome.value for fact in facts if isinstance(fact, RunEnded)] == ["completed"]


@pytest.mark.slow
@needs_launcher
def test_a_demonstration_that_is_interrupted_leaves_nothing_running(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", DEMO, str(tmp_path), chosen_launcher("auto"), ""]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
        deadline = time.monotonic() + 90
        while not truth_of(tmp_path, "step"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        demo.send_signal(signal.SIGINT)
        demo.wait(timeout=60)
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _read(path)]
    assert left == [], os.listdir(tmp_path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_recorded_arms_ran_under_one_fault_schedule_and_came_to_their_end() -> None:
    arms = dict(load_arms())
    assert set(arms) == set(ARMS)
    plans = set()
    for name, lines in arms.items():
        facts = [decode_line(line) for line in lines]
        plans |= {dict(fact.labels)["fault_schedule"] for fact in facts if isinstance(fact, RunStarted)}
        steps = {
            fact.first_step + place
            for fact in facts if isinstance(fact, Steps) and fact.rank == 0
            for place in range(len(fact.durations_us))
        }  # fmt: skip
        assert steps == set(range(1, 151)), name
        text = b"".join(lines)
        assert b"/home/" not in text and b"/tmp/" not in text
    assert plans == {label(150, schedule(150))}


ARM = """
import sys
from pathlib import Path
from rerail.collectors.demo.arms import arm
from rerail.collectors.demo.runner import Demo, run_demo
from rerail.collectors.demo.schedule import parse
from rerail.collectors.outlet import FileOutlet

directory = Path(sys.argv[1])
demo = arm("whole_job-async", Demo(directory, "story", steps=26, checkpoint_every=8, step_seconds=0.1,
           faults=parse("13:1:sigkill")))
demo.directory.mkdir()
with (directory / "facts.jsonl").open("wb") as file:
    sys.exit(run_demo(demo, FileOutlet(file)).exit_code)
"""


@pytest.mark.slow
@needs_launcher
def test_an_arm_that_restarts_the_whole_job_requeues_it_after_a_back_off(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ARM, str(tmp_path)], capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    facts = [decode_line(line) for line in (tmp_path / "facts.jsonl").read_bytes().splitlines()]
    told = [(fact.state, fact.requeue) for fact in facts if isinstance(fact, SchedulerState)]
    assert told == [("running", 0), ("backoff", 1), ("running", 1)]
    assert {fact.requeue for fact in facts if isinstance(fact, Steps)} == {0, 1}
    assert [fact.outcome.value for fact in facts if isinstance(fact, RunEnded)] == ["completed"]
