"""A real Alertmanager takes our alerts, and a real Prometheus scrapes our metrics, where they are installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from rerail.server.alerts import AlertDesk
from rerail.server.core.alert_rules import Finding, Severity, key_of
from rerail.server.notify import alertmanager
from rerail.server.notify.dispatch import RENEW_NS, Dispatch
from rerail.server.notify.messages import Channel, Message, Told
from rerail.server.queries import Queries
from rerail.server.store import open_store
from rerail.server.store.alert_rows import ChannelRow, Looked

pytestmark = pytest.mark.slow
S = 10**9


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running(command: list[str], ready: str, folder: Path) -> Iterator[None]:
    """A program, once an address of it answers."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            until(lambda: answer_of(ready) is not None, f"{command[0]}: {ready}")
            yield
        finally:
            process.terminate()
            process.wait(20)


def answer_of(address: str) -> bytes | None:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError):
        return None


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def told(change: str, at: int) -> Told:
    return Told(
        "silence::a", "silence", "a", "urgent", change, change != "over", "Nothing is heard.", "rule:silence",
        at - 60 * S, at, "cost so far: 1 min", "cause: hang", None, "http://rerail.example/runs/a",
    )  # fmt: skip


def test_an_alertmanager_takes_an_alert_and_its_end(tmp_path: Path):
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if binary is None:
        pytest.skip("no Alertmanager: apt-get install prometheus-alertmanager")
    port = free_port()
    (tmp_path / "am.yml").write_text("route:\n  receiver: none\nreceivers:\n  - name: none\n")
    url = f"http://127.0.0.1:{port}"
    command = [
        binary, f"--config.file={tmp_path / 'am.yml'}", f"--storage.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip

    def alerts() -> list[dict]:
        return json.loads(answer_of(f"{url}/api/v2/alerts") or b"[]")

    with running(command, f"{url}/-/ready", tmp_path):
        channel = Channel(1, "am", "alertmanager", url)
        now = time.time_ns()
        alertmanager.send(channel, Message(1, "rule:silence", "one", (told("fired", now),), 1, now))
        until(lambda: len(alerts()) == 1, "it does not show the alert")
        shown = alerts()[0]
        assert shown["labels"]["alertname"] == "silence"
        assert shown["labels"]["run"] == "a"
        assert shown["annotations"]["cost"] == "cost so far: 1 min"
        assert shown["generatorURL"] == "http://rerail.example/runs/a"
        alertmanager.send(channel, Message(2, "rule:silence", "over", (told("over", now),), 1, now))
        until(lambda: alerts() == [], "it does not take the end")
        alertmanager.send(channel, Message(3, "test", "rerail: test", (), 0, time.time_ns()))
        until(lambda: [each["labels"]["alertname"] for each in alerts()] == ["rerail_test"], "no test")


def test_an_alertmanager_that_forgets_is_told_again(tmp_path: Path, database_url: str):
    """An alert that it takes for over, as nobody spoke of it, stands again; one that is resolved does not."""
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if binary is None:
        pytest.skip("no Alertmanager: apt-get install prometheus-alertmanager")
    port = free_port()
    (tmp_path / "am.yml").write_text("route:\n  receiver: none\nreceivers:\n  - name: none\n")
    url = f"http://127.0.0.1:{port}"

    def command(storage: str) -> list[str]:
        return [
            binary, f"--config.file={tmp_path / 'am.yml'}", f"--storage.path={tmp_path / storage}",
            f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
        ]  # fmt: skip

    def shown() -> list[str]:
        return [each["labels"]["run"] for each in json.loads(answer_of(f"{url}/api/v2/alerts") or b"[]")]

    store = open_store(database_url)
    began = time.time_ns()
    # A day ago less a moment: what is told then is taken for over right now.
    clock = Clock(began - 86_400 * S + 6 * S)
    store.alerts.put_channel(ChannelRow(0, "am", "alertmanager", url, False, True, 0, None), None)
    found = Finding("silence", "a", "Nothing is heard.", Severity.URGENT, since=began)
    seen = Looked(key_of("silence", "a", ""), "a", "silence", "", clock.at, found, False)
    assert store.alerts.record(0, 1, [seen], clock.at) is not None
    dispatch = Dispatch(store, Queries(store, clock), None, clock)
    try:
        with running(command("first"), f"{url}/-/ready", tmp_path):
            clock.at += 2 * S
            assert dispatch.deliver_due() == 1
            dispatch.wait(20)
            until(lambda: shown() == ["a"], "it was not told")
            until(lambda: shown() == [], "it does not take it for over")
            clock.at = time.time_ns() - 3 * RENEW_NS
            assert dispatch.renew_due() == 1
            dispatch.wait(20)
            until(lambda: shown() == ["a"], "it was not told again")
            assert dispatch.renew_due() == 0, "it is told too often"
        with running(command("second"), f"{url}/-/ready", tmp_path):
            assert shown() == []
            clock.at += RENEW_NS
            assert dispatch.renew_due() == 1
            dispatch.wait(20)
            until(lambda: shown() == ["a"], "one that lost everything was not told")
            AlertDesk(store, clock).act(seen.key, {"action": "resolve", "author": "Ada"})
            clock.at += RENEW_NS
            for _ in range(20):
                dispatch.work()
                dispatch.wait(20)
            until(lambda: shown() == [], "it does not take the end")
    finally:
        store.close()


class Clock:
    """A clock that stands where it is put."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at


def test_a_prometheus_scrapes_the_metrics(tmp_path: Path, database_url: str):
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no Prometheus: apt-get install prometheus")
    ours, theirs = free_port(), free_port()
    (tmp_path / "p.yml").write_text(
        "scrape_configs:\n  - job_name: rerail\n    scrape_interval: 1s\n    static_configs:\n"
        f"      - targets: ['127.0.0.1:{ours}']\n"
    )
    server = [sys.executable, "-m", "rerail", "serve", "--port", str(ours), "--database-url", database_url]
    prometheus = [
        binary, f"--config.file={tmp_path / 'p.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{theirs}",
    ]  # fmt: skip
    ask = f"http://127.0.0.1:{theirs}/api/v1/query?query={quote('sum(rerail_run_high_water_step)')}"
    folders = [tmp_path / name for name in ("server", "prometheus")]
    for folder in folders:
        folder.mkdir()
    with (
        running(server, f"http://127.0.0.1:{ours}/healthz", folders[0]),
        running(prometheus, f"http://127.0.0.1:{theirs}/-/ready", folders[1]),
    ):
        fact = {
            "kind": "steps", "run": 'odd "run"\\', "emitter": "r", "seq": 0, "at": time.time_ns(), "restart": 0,
            "first_step": 1, "start": time.time_ns() - 20 * S, "durations_us": [1_000_000] * 10, "rank": 0,
        }  # fmt: skip
        request = urllib.request.Request(
            f"http://127.0.0.1:{ours}/api/v1/facts", json.dumps(fact).encode(), {"Content-Type": "application/x-ndjson"}
        )
        urllib.request.urlopen(request, timeout=20).close()

        def scraped() -> bool:
            result = json.loads(answer_of(ask) or b"{}").get("data", {}).get("result", [])
            return bool(result) and result[0]["value"][1] == "10"

        until(scraped, "it does not see our metrics")
