"""A time-out alone is never a fault of the network, whoever says it in whatever words."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rerail.server.core.attempt_record import TimedEvidence
from rerail.server.core.cause_rules import Case
from rerail.server.core.causes import judge
from rerail.server.core.causes.lone_timeouts import is_lone
from rerail.server.core.facts import Evidence

CORPUS = Path(__file__).parent.parent / "corpus"
ALONE = (
    "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.h:311] "
    "Connect timeout [none]",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:611] Connect timeout [10.4.0.7]:27023",
    "timed out connecting: SO_ERROR: Connection timed out, remote=[10.0.0.3]:4120",
    "TimeoutError: [Errno 110] Connection timed out",
    "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (a)",
    "[E TCPStore.cpp:104] recvValue failed: Socket Timeout",
    "torch.distributed.DistStoreError: Socket Timeout",
    "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='hub', port=443): Read timed out. (read timeout=10)",
    "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='hub', port=443): Connection to hub timed out",
    "urllib3.exceptions.MaxRetryError: Max retries exceeded with url: /x (Caused by ConnectTimeoutError('timed out'))",
    "urllib.error.URLError: <urlopen error timed out>",
    "Failed to modify QP to RTR: Connection timed out",
    "Getting socket times out. Reason: 1. The remote did not connect",
    "jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: failed to connect: Deadline timed out",
    "ssh: connect to host gpu-4 port 22: Connection timed out",
    "mpirun: connect() to 10.0.0.4:1024 failed: ETIMEDOUT",
)
TOLD_WHY = (
    "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:52105",
    "NCCL WARN NET/IB : Got completion from peer 10.0.0.1<44206> with status=12 opcode=129 len=0 vendor err 129",
    "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",
    "OSError: [Errno 113] No route to host",
    "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out",
)


def cause_of(text: str, source: str = "stderr") -> str:
    told = Evidence(run="r", emitter="e", seq=0, at=0, source=source, text=text)
    verdict, _ = judge(Case([TimedEvidence(0, told)], (), (), None, None, (), (), (), None, False, None))
    return verdict.cause


def corpus_lines() -> set[str]:
    """Every line of the corpora that tells of a time-out; of those that differ by numbers alone one."""
    lines: set[str] = set()
    for path in [*(CORPUS / "causes").glob("*.tsv"), CORPUS / "log_lines.tsv"]:
        lines |= {cell for row in path.read_text().splitlines() for cell in row.split("\t")}
    for row in (CORPUS / "public_failures.jsonl").read_text().splitlines():
        lines |= set(json.loads(row)["lines"])
    for row in (CORPUS / "whole_logs.jsonl").read_text().splitlines():
        lines |= {line for told in json.loads(row)["files"].values() for line in told}
    for path in (CORPUS / "verdicts").rglob("*.log"):
        lines |= set(path.read_text(errors="replace").splitlines())
    told = (line for line in lines if re.search("tim(?:e|ed|es)?[ -]?out|ETIMEDOUT|DEADLINE", line, re.IGNORECASE))
    return set({re.sub(r"\d{1,40}", "0", line): line for line in sorted(told)}.values())


@pytest.mark.parametrize("text", ALONE)
def test_a_time_out_alone_is_no_fault_of_the_network(text: str):
    assert is_lone(text)
    assert cause_of(text) != "network"


@pytest.mark.parametrize("text", TOLD_WHY)
def test_what_says_why_nobody_answered_stays_one(text: str):
    assert not is_lone(text)
    assert cause_of(text, "kernel" if text.startswith("NETDEV") else "stderr") in ("network", "nccl_error")


def test_no_line_of_the_corpora_that_only_tells_of_a_time_out_gives_network():
    lines = [line for line in corpus_lines() if is_lone(line)]
    assert len(lines) > 90
    assert [line for line in lines if cause_of(line) == "network"] == []


def test_why_nobody_answered_is_not_guessed_from_waiting():
    waited = Evidence(
        run="r", emitter="e", seq=0, at=0, source="stderr", rank=1, code="ReadTimeout",
        text="requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='hub', port=443): Read timed out.",
    )  # fmt: skip
    verdict, _ = judge(Case([TimedEvidence(0, waited)], (), (), None, None, (), (), (), None, False, None))
    assert (verdict.cause, verdict.domain.value, verdict.culprit_rank) == ("user_exception", "unknown", 1)
    mistaken = replace(waited, code="TypeError", text="TypeError: f() got an unexpected keyword argument 'timeout'")
    verdict, _ = judge(Case([TimedEvidence(0, mistaken)], (), (), None, None, (), (), (), None, False, None))
    assert verdict.domain.value == "workload"
