"""The commands of the collectors, as the command line runs them."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.collectors.commands import add_commands
from rerail.collectors.recorder import Recorder
from rerail.server.core.codec import decode_line
from rerail.server.core.facts import CheckpointMoment, RunEnded

LOG = Path(__file__).parent.parent / "corpus/nvrx/0.4.1/multi.log"
RUN = """
import argparse, sys
from rerail.collectors.commands import add_commands
parser = argparse.ArgumentParser()
add_commands(parser.add_subparsers(required=True))
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(required=True))
    arguments = parser.parse_args(words)
    return int(arguments.run(arguments))


def test_collect_shows_the_facts_it_would_state(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("collect", "launcher", "--log", str(LOG), "--once", "--stdout", "--run", "mine") == 0
    sys.stdout.flush()
    facts = [decode_line(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert {fact.run for fact in facts} == {"mine"}
    assert [fact.outcome.value for fact in facts if isinstance(fact, RunEnded)] == ["completed"]


def test_collect_says_what_it_needs(tmp_path: Path) -> None:
    assert run("collect", "launcher") == 2
    assert run("collect", "launcher", "--log", str(tmp_path / "none"), "--once", "--stdout") == 1


def test_collecting_again_sends_nothing_new(intake, tmp_path: Path) -> None:
    words = ("collect", "launcher", "--log", str(LOG), "--once", "--url", intake.url, "--dir")
    assert run(*words, str(tmp_path / "a")) == 0
    told = len(intake.facts)
    assert told > 40
    assert run(*words, str(tmp_path / "a")) == 0
    assert run(*words, str(tmp_path / "another-spool")) == 0
    assert len(intake.facts) == told
    assert intake.contradictions == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_asked_to_stop_tells_what_it_has_and_ends_well(
    how: signal.Signals, tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    make_recorder().checkpoint(7, "durable")
    command = [sys.executable, "-c", RUN, "agent", "--dir", str(tmp_path), "--stdout"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as agent:
        assert agent.stdout is not None
        lines = [agent.stdout.readline()]
        agent.send_signal(how)
        lines += agent.stdout.readlines()
    assert agent.returncode == 0
    facts = [decode_line(line) for line in lines]
    assert [fact.step for fact in facts if isinstance(fact, CheckpointMoment)] == [7]
