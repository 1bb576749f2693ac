"""An unchanged training under `torchrun --logs-specs rerail`: what its agent says, heard from inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.collectors.torchrun_hook import Listener, config_of
from rerail.collectors.torchrun_story import TorchrunStory, Workers
from rerail.server.core.codec import Context, decode
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Fact,
    MarkStage,
    Outcome,
    RecoveryMark,
    RunEnded,
)
from rerail.server.core.fold import RunFold

CORPUS = Path(__file__).parent.parent / "corpus" / "torchrun"
NOW = 1_795_953_947_000_000_000


class Told:
    """What a story says, decoded as the server decodes it: a fact that it would refuse fails here."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def __call__(self, kind: str, at: int, told: Mapping[str, object]) -> None:
        line = json.loads(json.dumps({"kind": kind, "at": at, **told}))
        fact = decode({**line, "run": "r", "emitter": "torchrun/n", "seq": len(self.facts)})
        assert not isinstance(fact, Context)
        self.facts.append(fact)

    def of(self, kind: type[Fact]) -> list:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def replay(name: str, job: str | None = None) -> Told:
    """The events that a real agent handed out, told again at their instants."""
    told = Told()
    story = TorchrunStory(told, node="n", job=job)
    for line in (CORPUS / name).read_text().splitlines():
        record = json.loads(line)
        at = int(record["t"] * 1e9)
        if record["kind"] == "rdzv" and "attempts to join" in record["event"]["message"]:
            story.gathering(at)
        elif record["kind"] == "event":
            story.event(record["event"], at)
    return told


def test_every_restart_of_a_recorded_agent_is_an_attempt_with_its_rendezvous_and_its_start():
    told = replay("events_exc.jsonl")
    assert [(one.restart, one.outcome) for one in told.of(AttemptEnded)] == [
        (0, Outcome.FAILED), (1, Outcome.FAILED), (2, Outcome.COMPLETED),
    ]  # fmt: skip
    for attempt in range(3):
        marks = [mark for mark in told.of(RecoveryMark) if mark.restart == attempt]
        stages = [mark.stage for mark in marks if mark.stage not in (MarkStage.NOTICED, MarkStage.WORKERS_GONE)]
        assert stages == [
            MarkStage.RENDEZVOUS_STARTED, MarkStage.RENDEZVOUS_COMPLETED, MarkStage.WORKERS_STARTED,
        ]  # fmt: skip
        assert [mark.at for mark in marks] == sorted(mark.at for mark in marks)
    assert [(one.rank, one.exit_code, one.restart) for one in told.of(Exit)] == [(0, 0, 2), (1, 0, 2)]
    assert [one.outcome for one in told.of(RunEnded)] == [Outcome.COMPLETED]


def test_the_agent_calls_itself_successful_and_its_workers_know_better():
    told = replay("events_fail.jsonl")
    assert [one.outcome for one in told.of(RunEnded)] == [Outcome.FAILED]
    assert told.of(AttemptEnded)[-1].outcome is Outcome.FAILED
    found = [one for one in told.of(Evidence) if one.code == "RuntimeError"]
    assert {(one.rank, one.local_rank) for one in found} >= {(1, 1)}
    assert all(one.rank in (0, 1) for one in found)


def test_a_failed_run_inside_a_schedulers_job_may_come_again():
    assert replay("events_fail.jsonl", job="4711").of(RunEnded) == []
    assert len(replay("events_exc.jsonl", job="4711").of(RunEnded)) == 1


def test_the_survivor_of_a_lost_node_tells_its_restart():
    told = replay("events_nodelost_0.jsonl")
    assert [one.restart for one in told.of(RecoveryMark) if one.stage is MarkStage.WORKERS_STARTED] == [0, 1]


def test_a_worker_that_failed_is_told_once_with_what_it_left_behind(tmp_path: Path):
    told = Told()
    story = TorchrunStory(told, node="n")
    error = tmp_path / "error.json"
    stderr = tmp_path / "stderr.log"
    story.gathering(NOW)
    story.workers(
        Workers(0, 4, 1, 2, {0: 2, 1: 3}, {0: str(error), 1: str(tmp_path / "none.json")}, {0: "", 1: str(stderr)}),
        NOW + 10**9,
    )
    trace = 'Traceback (most recent call last):\n  File "train.py", line 7, in main\n    x()\nValueError: bad batch\n'
    error.write_text(json.dumps({"message": {"message": "ValueError: bad batch", "extraInfo": {
        "py_callstack": trace, "timestamp": str((NOW + 2 * 10**9) // 10**9)}}}))  # fmt: skip
    stderr.write_text("W harmless\n" + trace.replace("bad batch", "worse batch"))
    story.closing(NOW + 3 * 10**9)
    for _ in range(2):
        story.failed(NOW + 4 * 10**9, 1, 1, 99, "failed (exitcode: 1) local_rank: 1 (pid: 99) of binary: python")
    (gone,) = told.of(Exit)
    assert (gone.rank, gone.local_rank, gone.exit_code, gone.at) == (3, 1, 1, NOW + 3 * 10**9)
    found = {one.rank: one for one in told.of(Evidence) if one.code == "ValueError"}
    assert found[2].source == "torchrun" and found[2].at == NOW + 2 * 10**9
    assert dict(found[2].attributes)["frame"] == "train.py:7 in main"
    assert found[3].source == "stderr" and "worse batch" in found[3].text
    assert [mark.stage for mark in told.of(RecoveryMark)].count(MarkStage.NOTICED) == 1


def test_workers_that_start_anew_under_the_same_count_are_no_attempt():
    told = Told()
    story = TorchrunStory(told, node="n")
    metadata = {"agent_restarts": 0, "duration_ms": 5.0}
    for at in (NOW, NOW + 60 * 10**9):
        story.event({"name": "torchelastic.worker.status.RENDEZVOUS", "source": "AGENT", "metadata": metadata}, at)
        story.workers(Workers(0, 2, 0, 1, {0: 0, 1: 1}), at)
        for _ in range(2):
            story.event({"name": "torchelastic.worker.status.START", "source": "WORKER", "metadata": metadata}, at)
    assert len(told.of(AttemptStarted)) == 1
    assert [one.code for one in told.of(Evidence)] == ["membership_change"]
    assert [one.stage for one in told.of(RecoveryMark)].count(MarkStage.WORKERS_STARTED) == 1
    assert told.of(AttemptEnded) == []


@pytest.mark.filterwarnings("ignore")  # torch warns when it is imported
def test_settings_are_torchruns_own_reading_of_its_arguments_and_nobody_elses():
    words = [
        "--nnodes=1:2",
        "--max-restarts",
        "3",
        "--rdzv-conf",
        "join_timeout=77,x=1",
        "train.py",
        "--monitor-interval=9",
    ]
    told = config_of(words, {"TORCHELASTIC_MAX_RESTARTS": "3", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "120"})
    assert (told["nnodes"], told["max_restarts"], told["join_timeout"]) == ("1:2", 3, "77")
    assert (told["monitor_interval"], told["torch_nccl_heartbeat_timeout_sec"]) == (0.1, "120")
    assert config_of(["--port", "80"], {"TORCHELASTIC_MAX_RESTARTS": "2"})["max_restarts"] == 2
    assert "nnodes" not in config_of(words, {"TORCHELASTIC_MAX_RESTARTS": "2"})


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
_METADATA = st.fixed_dictionaries(
    {},
    optional={
        name: _VALUE | st.integers(-3, 3)
        for name in ("agent_restarts", "global_rank", "duration_ms", "worker_id", "raw_error")
    } | {"metadata": _VALUE | st.fixed_dictionaries(
        {}, optional={
            name: st.lists(st.integers(-20, 20) | _VALUE) for name in ("local_rank", "exit_code", "worker_pid")
        }
    ).map(json.dumps)},
)  # fmt: skip
_EVENT = st.fixed_dictionaries({
    "name": st.sampled_from(["RENDEZVOUS", "START", "FAILED", "SUCCEEDED", "TERMINATED", "NEW"]).map(
        "torchelastic.worker.status.{}".format
    ) | _VALUE,
    "source": st.sampled_from(["WORKER", "AGENT"]),
    "metadata": _METADATA | _VALUE,
})  # fmt: skip


@given(st.lists(_EVENT, max_size=8))
def test_whatever_events_there_are_only_facts_that_can_be_read_are_told(events: list[dict]):
    told = Told()
    story = TorchrunStory(told, node="n")
    for place, event in enumerate(events):
        story.event(event, NOW + place)
    assert len(told.of(RunEnded)) <= 1
    ended = [one.restart for one in told.of(AttemptEnded)]
    assert all(one is None or one >= 0 for one in ended)


def test_a_listener_that_cannot_write_says_nothing_to_torchrun_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("RERAIL_DIR", str(tmp_path / "file"))
    listener = Listener("n", None)
    listener.attempt({0: {"RANK": "0", "TORCHELASTIC_RESTART_COUNT": "0"}}, None)
    listener.event("{no json")
    listener.close()
    assert listener.ring.lost == 2


TRAIN = """
import os, signal, sys, time
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    rank, attempt, how = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"]), sys.argv[1]
    if attempt == 0 and rank == 1:
        raise RuntimeError("loss is NaN at step 120")
    if attempt == 1 and rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if attempt < 2:
        time.sleep(60)

main()
"""


def torchrun(tmp_path: Path, directory: Path, restarts: int) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "RERAIL_DIR": str(directory), "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         f"--max-restarts={restarts}", "--logs-specs", "rerail", str(script), "x"],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def facts_in(directory: Path) -> list[Fact]:
    (path,) = (directory / "rings").glob("torchrun-*.ring")
    reader = RingReader(path)
    facts = RingFacts(reader)
    found = list(facts.read(RingPlace(), time.monotonic_ns(), until=0).facts)
    assert (reader.lost, facts.unreadable) == (0, 0)
    reader.close()
    return found


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_real_torchrun_with_an_exception_a_kill_and_a_good_end(tmp_path: Path):
    done = torchrun(tmp_path, tmp_path / "rings", 3)
    assert done.returncode == 0, done.stderr[-2000:]
    facts = facts_in(tmp_path / "rings")
    ended = [fact for fact in facts if isinstance(fact, AttemptEnded)]
    assert [(fact.restart, fact.outcome, fact.exit_codes) for fact in ended] == [
        (0, Outcome.FAILED, ((1, 1),)), (1, Outcome.FAILED, ((0, -9),)), (2, Outcome.COMPLETED, ((0, 0), (1, 0))),
    ]  # fmt: skip
    started = [fact for fact in facts if isinstance(fact, AttemptStarted)]
    assert [(fact.restart, fact.world_size, fact.launcher) for fact in started] == [
        (0, 2, "torchrun"), (1, 2, "torchrun"), (2, 2, "torchrun"),
    ]  # fmt: skip
    assert json.loads(started[0].config or "")["max_restarts"] == 3
    signals = [fact.signal for fact in facts if isinstance(fact, Exit) and fact.restart == 1]
    assert signals == [9]
    (raised,) = [fact for fact in facts if isinstance(fact, Evidence) and fact.code == "RuntimeError"]
    assert (raised.restart, raised.rank, raised.text) == (0, 1, "RuntimeError: loss is NaN at step 120")
    assert "train.py" in dict(raised.attributes)["frame"]
    assert [fact.outcome for fact in facts if isinstance(fact, RunEnded)] == [Outcome.COMPLETED]
    assert len({fact.run for fact in facts}) == 1
    fold = RunFold(facts[0].run)
    fold.add(facts)
    view = fold.view(max(fact.at for fact in facts))
    (incident,) = view.incidents  # the relaunch lived for seconds: nobody says that it was ever brought up
    verdicts = (incident.verdict, *(relaunch.verdict for relaunch in incident.relaunches))
    assert incident.attempts == (0, 1)
    assert [(each.cause, each.culprit_rank) for each in verdicts] == [("loss_anomaly", 1), ("sigkill", 0)]
    assert all(each.ended_at is not None and each.lost_steps is None for each in view.incidents)
    assert [each.reason for each in view.data_quality.unexplained] == ["only_the_launcher"]
    assert view.data_quality.contradictory == 0


@pytest.mark.slow
@pytest.mark.anywhere
def test_a_real_torchrun_ends_as_ever_where_rerail_cannot_write(tmp_path: Path):
    (tmp_path / "file").write_text("no directory")
    done = torchrun(tmp_path, tmp_path / "file", 0)
    assert done.returncode == 1
    assert "loss is NaN at step 120" in done.stderr and "ChildFailedError" in done.stderr
