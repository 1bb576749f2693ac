"""A real Prometheus scrapes an exporter like DCGM's; the source states what happened."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rerail.collectors.source import SourceDown
from rerail.collectors.sources.prometheus import PrometheusSource
from rerail.collectors.sources.prometheus_client import PrometheusClient, Reach
from rerail.collectors.sources.prometheus_facts import Naming
from rerail.collectors.sources.prometheus_rules import BUILT_IN, Kind, Rule
from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import Blind, Evidence, Fact, Metric

pytestmark = [pytest.mark.slow, pytest.mark.anywhere]
EXPORTER = Path(__file__).parent.parent / "corpus" / "prometheus" / "exporter.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running(command: list[str], folder: Path, ready: str) -> Iterator[None]:
    with (folder / f"{Path(command[0]).name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            end = time.monotonic() + 60
            while not answers(ready):
                assert time.monotonic() < end, ready
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(20)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def source_at(url: str, rules: tuple[Rule, ...] = BUILT_IN) -> PrometheusSource:
    return PrometheusSource(
        PrometheusClient(Reach(url, timeout_seconds=10)), Naming("llm"), rules, step_seconds=1, lag_seconds=2,
        since_hours=600 / 3600,
    )  # fmt: skip


def test_what_happened_to_a_gpu_is_stated_once_and_a_server_that_is_gone_is_down(tmp_path: Path):
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no Prometheus: apt-get install prometheus")
    exporter, port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n- job_name: dcgm\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]\n"
    )
    rules = (*(replace(rule, step_seconds=None) for rule in BUILT_IN), Rule("broken", "sum(", Kind.METRIC))
    with ExitStack() as stack:
        stack.enter_context(
            running(
                [sys.executable, str(EXPORTER), str(exporter), "8", "14"], tmp_path, f"http://127.0.0.1:{exporter}/"
            )
        )
        stack.enter_context(
            running(
                [binary, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
                 f"--web.listen-address=127.0.0.1:{port}"],
                tmp_path, f"{url}/-/ready",
            )
        )  # fmt: skip
        told: dict[tuple[str, int], Fact] = {}
        cursor: str | None = None
        end = time.monotonic() + 90
        codes: set[str | None] = set()
        while not {"xid:79", "pcie_replay"} <= codes or time.monotonic() < end - 66:
            assert time.monotonic() < end, codes
            source = source_at(url, rules)  # a new one each time, as after a restart
            polled = source.finish(cursor)
            source.close()
            for fact in polled.facts:
                assert (fact.emitter, fact.seq) not in told
                told[fact.emitter, fact.seq] = fact
                assert decode_line(encode_line(fact)) == fact
            cursor = polled.cursor
            codes = {fact.code for fact in told.values() if isinstance(fact, Evidence)}
            time.sleep(0.5)
        (xid,) = [fact for fact in told.values() if isinstance(fact, Evidence) and fact.code == "xid:79"]
        assert (xid.node, xid.source) == ("node1", "dcgm")
        assert xid.text == "GPU 2 (GPU-12, 00000000:3A:00.0) of node1: XID 79 GPU has fallen off the bus"
        (replays,) = [fact for fact in told.values() if isinstance(fact, Evidence) and fact.code == "pcie_replay"]
        assert "5 more" in replays.text
        assert replays.node == "node1"
        assert codes == {"xid:79", "pcie_replay"}, "a sentinel, or a GPU that is well, was told"
        (blind,) = [fact for fact in told.values() if isinstance(fact, Blind)]
        assert (blind.source, blind.until) == ("prometheus broken", None)
        assert "parse error" in (blind.reason or "")

        whole = PrometheusClient(Reach(url))
        stop = int(time.time()) - 5
        pieces = list(whole.ranges("count(up)", stop - 25_000, stop, 1))
        assert [last - first + 1 for first, last, _ in pieces] == [10_000, 10_000, 5001]
        whole._most_points = 20_000  # more than the server allows: the pieces are halved
        assert {last - first + 1 for first, last, _ in whole.ranges("count(up)", stop - 15_999, stop, 1)} == {8000}
        assert json.loads(cursor or "")["heard"] is True
        active = [f for f in source_at(url, rules).finish(None).facts if isinstance(f, Metric)]
        assert all(f.node in ("node0", "node1") for f in active)
    with socket.socket() as nobody:  # holds the port without listening, so that no other server takes it
        nobody.bind(("127.0.0.1", 0))
        gone = source_at(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(SourceDown, match="Connection refused"):
            gone.finish(None)  # not from the cursor: within the same second there may be nothing to ask for
