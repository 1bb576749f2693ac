"""From the ring to the server nothing is lost, and nothing is told twice under other content, whatever breaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rerail.collectors.agent import Agent
from rerail.collectors.outlet import HttpOutlet
from rerail.collectors.recorder import Recorder
from rerail.collectors.ring import HEADER_BYTES, SLOT_BYTES
from rerail.collectors.source import Polled, SourceDown
from rerail.collectors.unheard import Unheard
from rerail.server.core.facts import Evidence

RANK = """
import os, signal, sys, time
from pathlib import Path
from rerail.collectors.identity import Identity, Settings
from rerail.collectors.recorder import Recorder

who, where = Identity("story", "n1", rank=int(sys.argv[2])), Settings(Path(sys.argv[1]), fold_seconds=0.02)
recorder = Recorder(who=who, where=where)
recorder.ready()
for step in range(1, int(sys.argv[3]) + 1):
    time.sleep(0.001)
    recorder.step(step)
    recorder.heartbeat()
    if step % 50 == 0:
        recorder.checkpoint(step, "durable")
os.kill(os.getpid(), signal.SIGKILL)
"""

AGENT = """
import sys, threading
from pathlib import Path
from rerail.collectors.agent import Agent
from rerail.collectors.outlet import HttpOutlet

Agent(Path(sys.argv[1]), HttpOutlet(sys.argv[2]), "n1").run(threading.Event())
"""


@contextmanager
def agent_of(directory: Path, url: str, **options: object) -> Iterator[Agent]:
    agent = Agent(directory, HttpOutlet(url, timeout_seconds=5), "n1", **options)  # type: ignore[arg-type]
    try:
        yield agent
    finally:
        agent.close()


def run_rank(directory: Path, rank: int, steps: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RANK, str(directory), str(rank), str(steps)])


def wait_for(claim: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def test_what_a_killed_rank_recorded_reaches_the_server(intake, tmp_path: Path) -> None:
    with run_rank(tmp_path, 1, 200):
        pass
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        assert agent.sender.drain(5)
    assert intake.steps() == list(range(1, 201))
    assert [fact["step"] for fact in intake.of_kind("checkpoint")] == [50, 100, 150, 200]
    assert sum(fact["count"] for fact in intake.of_kind("heartbeats")) == 200
    assert list((tmp_path / "rings").iterdir()) == []


def test_the_agent_says_that_a_rank_is_gone_and_not_why(intake, tmp_path: Path) -> None:
    with run_rank(tmp_path, 1, 5):
        pass
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        agent.look()
        agent.sender.drain(5)
    (gone,) = intake.of_kind("evidence")
    assert (gone["source"], gone["rank"], gone["code"]) == ("agent", 1, "process_gone")
    assert not intake.of_kind("exit")
    assert not intake.of_kind("recovery_mark")


def test_a_rank_that_said_goodbye_is_not_missed(intake, tmp_path: Path, make_recorder: Callable[..., Recorder]) -> None:
    recorder = make_recorder()
    recorder.step(1)
    recorder.close()
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        agent.sender.drain(5)
    assert not intake.of_kind("evidence")


@pytest.mark.parametrize(("body", "spans"), [("recorder.step(1)", 1), ("raise ValueError('the loss is NaN')", 0)])
def test_the_time_a_process_takes_to_end_well_is_told_and_after_an_error_belongs_to_the_fault(
    intake, tmp_path: Path, body: str, spans: int
) -> None:
    script = (
        "import contextlib, sys\nfrom rerail.collectors.recorder import Recorder\n"
        f"with contextlib.suppress(ValueError), Recorder('story', directory=sys.argv[1]) as recorder: {body}\n"
        "print('closed', flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with (
        agent_of(tmp_path, intake.url) as agent,
        subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as rank,
    ):
        assert rank.stdout is not None
        assert rank.stdin is not None
        assert rank.stdout.readline() == b"closed\n"
        agent.look()
        rank.stdin.close()
        rank.wait()
        agent.look()
        agent.sender.drain(5)
    told = [fact for fact in intake.of_kind("phase") if fact["phase"] == "overhead:teardown"]
    assert len(told) == spans
    assert all(0 < span["end"] - span["start"] < 60_000_000_000 for span in told)
    assert not [fact for fact in intake.of_kind("evidence") if fact["source"] == "agent"]


@pytest.mark.parametrize(
    "trouble",
    [
        ["503", "503"], ["429", "429"], ["500"], ["hang up"], ["take and hang up"], ["nonsense"], ["slow"], ["401"],
        ["413"], ["hang up", "take and hang up", "429", "nonsense"],
    ],
    ids=lambda trouble: ", ".join(trouble),
)  # fmt: skip
def test_trouble_with_the_server_costs_time_and_nothing_else(
    intake, tmp_path: Path, trouble: list[str], make_recorder: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.collectors.sender.SHORTEST_WAIT", 0.02)
    recorder = make_recorder(fold_seconds=0.01)
    recorder.ready()
    intake.behaviours = list(trouble)
    with agent_of(tmp_path, intake.url) as agent:
        for step in range(1, 101):
            recorder.step(step)
            if step % 20 == 0:
                recorder.evidence(f"at {step}")
                agent.look()
                agent.sender.send_once()
        recorder.close()
        wait_for(
            lambda: agent.look() is None and agent.sender.drain(5) and sorted(intake.steps()) == list(range(1, 101))
        )
    assert intake.contradictions == []
    assert len(intake.of_kind("evidence")) == 5


def test_a_server_that_is_down_for_long_loses_nothing(
    intake, tmp_path: Path, make_recorder: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rerail.collectors.sender.SHORTEST_WAIT", 0.02)
    recorder = make_recorder()
    recorder.ready()
    intake.stop()
    with agent_of(tmp_path, intake.url) as agent:
        for step in range(1, 51):
            recorder.step(step)
            agent.look()
            agent.sender.send_once()
        intake.start()
        recorder.close()
        wait_for(lambda: agent.look() is None and agent.sender.drain(5) and intake.steps() == list(range(1, 51)))


def test_an_agent_killed_again_and_again_loses_nothing_and_contradicts_nothing(intake, tmp_path: Path) -> None:
    ranks = [run_rank(tmp_path, rank, 1200) for rank in (0, 1)]
    while any(rank.poll() is None for rank in ranks):
        with subprocess.Popen([sys.executable, "-c", AGENT, str(tmp_path), intake.url]) as agent:
            before = intake.requests
            wait_for(lambda before=before: intake.requests > before + 1 or all(r.poll() is not None for r in ranks))
            agent.send_signal(signal.SIGKILL)
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        assert agent.sender.drain(10)
    assert intake.contradictions == []
    assert sorted(intake.steps()) == sorted([*range(1, 1201)] * 2)
    assert len(intake.of_kind("checkpoint")) == 48
    assert sum(fact["count"] for fact in intake.of_kind("heartbeats")) == 2400


def test_a_spool_that_is_lost_makes_duplicates_and_not_contradictions(
    intake, tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    recorder = make_recorder(fold_seconds=0.01)
    recorder.ready()
    for step in range(1, 301):
        recorder.step(step)
        if step == 150:
            with agent_of(tmp_path, intake.url) as agent:
                agent.look()
                agent.sender.drain(5)
            for path in tmp_path.glob("spool.db*"):
                path.unlink()
    recorder.close()
    time.sleep(0.12)  # the last cell of a living process stays open for a moment
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        agent.sender.drain(5)
    assert intake.contradictions == []
    assert intake.steps() == list(range(1, 301))


def test_a_refused_fact_is_kept_with_its_reason_and_holds_nothing_up(
    intake, tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    intake.refuse = lambda fact: fact["kind"] == "evidence"
    recorder = make_recorder()
    recorder.evidence("this one")
    recorder.checkpoint(1, "durable")
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        assert agent.sender.drain(5)
        assert agent.sender.refused == 1
    assert len(intake.of_kind("checkpoint")) == 1
    (kept,) = map(json.loads, (tmp_path / "refused.jsonl").read_text().splitlines())
    assert "this one" in kept["fact"]
    assert "refused" in kept["said"]


def test_one_line_the_server_cannot_read_is_found_by_halving(
    intake, tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    intake.most_lines = 3
    recorder = make_recorder()
    for number in range(40):
        recorder.evidence(f"line {number}")
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        assert agent.sender.drain(5)
    assert len(intake.of_kind("evidence")) == 40


def test_records_lost_by_the_recorder_are_reported(
    intake, tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    recorder = make_recorder()
    recorder.step("one")  # type: ignore[arg-type]
    recorder.step("two")  # type: ignore[arg-type]
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        recorder.step("three")  # type: ignore[arg-type]
        agent.look()
        agent.sender.drain(5)
    told = [fact["reason"] for fact in intake.of_kind("blind") if "not written" in str(fact["reason"])]
    assert told == ["2 records were not written", "1 records were not written"]


def test_an_overrun_ring_is_reported(intake, tmp_path: Path, make_recorder: Callable[..., Recorder]) -> None:
    recorder = make_recorder(ring_bytes=HEADER_BYTES + 64 * SLOT_BYTES)
    recorder.ready()
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        for step in range(1, 1001):
            recorder.step(step)
        recorder.close()
        agent.look()
        agent.sender.drain(5)
    reasons = [str(fact["reason"]) for fact in intake.of_kind("blind")]
    assert len(reasons) == 1
    assert "overwritten" in reasons[0]


def test_a_file_that_is_no_ring_is_passed_over(intake, tmp_path: Path, make_recorder: Callable[..., Recorder]) -> None:
    recorder = make_recorder()
    (tmp_path / "rings" / "zz.ring").write_bytes(os.urandom(8192))
    recorder.checkpoint(1, "durable")
    with agent_of(tmp_path, intake.url) as agent:
        agent.look()
        agent.look()
        agent.sender.drain(5)
    assert len(intake.of_kind("checkpoint")) == 1
    assert len(intake.of_kind("blind")) == 1


def test_a_rank_without_a_ring_is_blind_until_heard_also_across_agents(intake, tmp_path: Path) -> None:
    with agent_of(tmp_path, intake.url) as agent:
        Unheard(tmp_path / "rings", "3", "c0ffee", "no space left on device")
        agent.look()
        agent.sender.drain(5)
        assert not intake.of_kind("blind"), "nobody knows yet which run that is"
    with agent_of(tmp_path, intake.url, run="story") as agent:
        for _ in range(3):
            agent.look()
        agent.sender.drain(5)
    (began,) = intake.of_kind("blind")
    assert (began["source"], began["reason"]) == (f"recorder of rank 3 (pid {os.getpid()})", "no space left on device")
    assert "until" not in began
    for path in (tmp_path / "rings").glob("*.unheard"):
        path.unlink()
    with agent_of(tmp_path, intake.url, run="story") as agent:
        for _ in range(3):
            agent.look()
        agent.sender.drain(5)
    _, ended = intake.of_kind("blind")
    assert (ended["source"], ended["since"]) == (began["source"], began["since"])
    assert ended["until"] > began["since"]


def test_a_rank_that_died_without_a_ring_is_forgotten(intake, tmp_path: Path) -> None:
    Unheard(tmp_path / "rings", "x", "c0ffee", "")
    (path,) = (tmp_path / "rings").iterdir()
    with agent_of(tmp_path, intake.url, run="story") as agent:
        agent.look()
        os.utime(path, (0, 0))
        agent.look()
        agent.sender.drain(5)
    assert not path.exists()
    assert [("until" in fact, fact.get("reason", "")[:22]) for fact in intake.of_kind("blind")] == [
        (False, "its ring cannot be mad"), (True, ""),
    ]  # fmt: skip


def test_the_clock_is_told_for_a_rank_when_it_is_clearly_off(
    intake, tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    intake.offset_ns = -2_000_000_000  # the server is two seconds behind us
    recorder = make_recorder()
    recorder.checkpoint(1, "durable")
    with agent_of(tmp_path, intake.url) as agent:
        for _ in range(3):
            agent.look()
            agent.sender.drain(5)
    (clock,) = intake.of_kind("clock")
    assert clock["emitter"] == recorder.emitter
    assert abs(clock["offset_us"] - 2_000_000) < 100_000


def test_a_clock_that_is_right_is_not_mentioned(intake, tmp_path: Path, make_recorder: Callable[..., Recorder]) -> None:
    recorder = make_recorder()
    recorder.checkpoint(1, "durable")
    with agent_of(tmp_path, intake.url) as agent:
        for _ in range(3):
            agent.look()
            agent.sender.drain(5)
    assert not intake.of_kind("clock")


def test_a_token_is_sent_as_bearer(intake, tmp_path: Path, make_recorder: Callable[..., Recorder]) -> None:
    make_recorder().checkpoint(1, "durable")
    agent = Agent(tmp_path, HttpOutlet(intake.url, "secret"), "n1")
    agent.look()
    agent.sender.drain(5)
    agent.close()
    assert set(intake.authorizations) == {"Bearer secret"}


class Sometimes:
    """A source that sees every other time."""

    name = "sometimes"

    def __init__(self) -> None:
        self.polls = 0

    def poll(self, cursor: str | None) -> Polled:
        self.polls += 1
        if self.polls % 2:
            raise SourceDown("somebody pulled the plug")
        number = int(cursor or 0)
        at = 1_800_000_000_000_000_000 + number
        return Polled(
            (Evidence(run="story", emitter="sometimes", seq=number, at=at, source="x", text="y"),), str(number + 1)
        )


def test_a_source_that_cannot_see_is_blind_until_it_sees_again(intake, tmp_path: Path) -> None:
    with agent_of(tmp_path, intake.url, sources=[Sometimes()], run="story") as agent:
        for _ in range(4):
            agent.look()
        agent.sender.drain(5)
    blinds = intake.of_kind("blind")
    assert [(fact["source"], "until" in fact) for fact in blinds] == [("sometimes", False), ("sometimes", True)] * 2
    assert blinds[0]["since"] == blinds[1]["since"]
    assert [fact["seq"] for fact in intake.of_kind("evidence")] == [0, 1]
