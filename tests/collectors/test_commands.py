"""The commands of the collectors, as the command line runs them."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.collectors.commands import add_commands
from rerail.collectors.recorder import Recorder
from rerail.collectors.sources.kubernetes import Scope
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


def test_an_agent_that_only_looks_uses_nothing_up(
    tmp_path: Path, make_recorder: Callable[..., Recorder], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    recorder = make_recorder()
    recorder.checkpoint(7, "durable")
    recorder.close()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    told = []
    for _ in range(2):
        words = ("agent", "--dir", str(tmp_path), "--once", "--stdout", "--launcher-log", str(LOG), "--run", "mine")
        assert run(*words) == 0
        sys.stdout.flush()
        shown = capfdbinary.readouterr()
        assert b"rings: 1," in shown.err
        told.append([decode_line(line) for line in shown.out.splitlines()])
    assert told[0] == told[1]
    assert next(fact.step for fact in told[0] if isinstance(fact, CheckpointMoment)) == 7
    assert [fact.outcome.value for fact in told[0] if isinstance(fact, RunEnded)] == ["completed"]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


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
    assert next(fact.step for fact in facts if isinstance(fact, CheckpointMoment)) == 7


def test_the_manifest_grants_reading_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("collect", "kubernetes", "--manifest") == 0
    manifest = capsys.readouterr().out
    verbs = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"verbs: (\[.*\])", manifest))))
    assert verbs == {"get", "list", "watch"}
    granted = set(re.findall(r'"([a-z]+)"', " ".join(re.findall(r"resources: (\[.*\])", manifest))))
    asked = {resource.path.rpartition("/")[2] for resource in Scope().resources()}
    assert asked == granted
    groups = set(re.findall(r'apiGroups: \["(.*)"\]', manifest))
    assert {path.split("/")[2] for path in (each.path for each in Scope().resources()) if "/apis/" in path} <= groups


def test_collecting_says_which_schedulers_it_cannot_reach(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert run("collect", "slurm", "--once", "--stdout") == 1
    assert "sacct is not installed here" in capsys.readouterr().err
    assert run("collect", "kubernetes", "--once", "--stdout") == 2
    assert "--kubeconfig" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("collect", "slurm", "--interval", "soon")
    assert "'soon' is not a number" in capsys.readouterr().err


def test_collecting_from_machines_says_what_is_missing_or_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RERAIL_RUN", raising=False)
    url = "http://127.0.0.1:9"
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{name: x, query: up, kind: alert}]")
    for words, said in (
        (("prometheus", "--prometheus", url), "--run-label"),
        (("prometheus", "--prometheus", "nowhere", "--run-id", "llm"), "'nowhere' is no address"),
        (("prometheus", "--prometheus", url, "--run-id", "llm", "--map", str(rules)), "rules[0].kind"),
        (("kernel",), "--run-id"),
    ):
        assert run("collect", *words, "--once", "--stdout") == 2
        assert said in capsys.readouterr().err
    for words, said in (
        (("prometheus", "--prometheus", url, "--run-id", "llm"), "Connection refused"),
        (("kernel", "--run-id", "llm", "--file", str(tmp_path / "none.log")), "No such file"),
    ):
        assert run("collect", *words, "--once", "--stdout") == 1
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("collect", "prometheus", "--prometheus", url, "--step", "0.5")
    assert "'0.5' is not a whole number" in capsys.readouterr().err


def test_a_kernel_log_is_collected_once_and_goes_on(
    tmp_path: Path, intake, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = tmp_path / "kern.log"
    line = "2026-11-29T12:00:0{}+00:00 node17 kernel: NVRM: Xid (PCI:0000:91:00): 79, GPU has fallen off the bus.\n"
    log.write_text(line.format(1))
    words = ("collect", "kernel", "--file", str(log), "--run-id", "llm", "--node", "node17", "--since-hours", "1000000")
    assert run(*words, "--once", "--stdout") == 0
    (shown,) = [decode_line(each) for each in capfdbinary.readouterr().out.splitlines()]
    assert (shown.node, shown.code) == ("node17", "xid:79")
    sending = (*words, "--once", "--url", intake.url, "--dir", str(tmp_path / "spool"))
    assert run(*sending) == 0
    with log.open("a") as file:
        file.write(line.format(2))
    assert run(*sending) == 0
    assert sorted(fact["at"] % 10**10 // 10**9 for fact in intake.facts.values()) == [1, 2]
    assert intake.requests == 2


def test_an_agent_follows_the_kernel_beside_its_recorders(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    log.write_text(f"{now} node17 kernel: NVRM: Xid (PCI:0000:91:00): 79, GPU has fallen off the bus.\n")
    words = ["agent", "--dir", str(tmp_path), "--stdout", "--kernel", str(log), "--run-id", "llm"]
    with subprocess.Popen([sys.executable, "-c", RUN, *words], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        fact = decode_line(agent.stdout.readline())
        agent.send_signal(signal.SIGTERM)
        agent.stdout.read()
    assert (agent.returncode, fact.run, fact.code) == (0, "llm", "xid:79")


TRAINING = Path(__file__).parent.parent / "corpus/training_logs"


def test_training_logs_are_followed_side_by_side_and_told_once(intake, tmp_path: Path) -> None:
    logs = [str(TRAINING / "megatron.log"), str(TRAINING / "nemo.log")]
    words = ("collect", "logs", *logs, "--once", "--zone-minutes", "0", "--url", intake.url, "--dir", str(tmp_path))
    assert run(*words) == 0
    assert {fact["run"] for fact in intake.facts.values()} == {"megatron", "nemo"}
    told = len(intake.facts)
    assert run(*words) == 0
    assert (len(intake.facts), intake.contradictions) == (told, [])
    assert run("collect", "logs", str(tmp_path / "none.log"), "--once", "--stdout") == 1
