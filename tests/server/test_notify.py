"""Delivery: signed, tried again, given up in the open; one that hangs delays nobody; a kill loses nothing."""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from rerail.server.alert_watch import AlertWatch
from rerail.server.core.channels import check_address, masked
from rerail.server.core.problems import Status
from rerail.server.core.similar import Traces, likeness
from rerail.server.errors import StoreAwayError
from rerail.server.notify.apprise_channel import refusal_of
from rerail.server.notify.composing import worth_naming
from rerail.server.notify.dispatch import MOST_TRIES, Dispatch, pause_ns
from rerail.server.notify.messages import DeliveryError
from rerail.server.notify.webhook import post, signature
from rerail.server.preparing import upgrade_database
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.query_problem_results import Occurrence, Resolution, SimilarIncident
from rerail.server.store import Store, engines, open_store
from rerail.server.store.alert_rows import ChannelRow

S = 10**9


@dataclass
class Listener:
    """A service that takes messages, or does not."""

    url: str
    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: int = 200
    hold: threading.Event | None = None

    def until(self, count: int, seconds: float = 20) -> None:
        """Wait until so many messages came."""
        end = time.monotonic() + seconds
        while len(self.taken) < count:
            assert time.monotonic() < end, f"{len(self.taken)} of {count} messages came"
            threading.Event().wait(0.02)


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    servers = []

    def make(answers: int = 200, hold: threading.Event | None = None) -> Listener:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.taken.append((dict(self.headers), body))
                if listener.hold is not None:
                    listener.hold.wait(30)
                self.send_response(listener.answers)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_said: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        listener = Listener(f"http://127.0.0.1:{server.server_address[1]}/hook", answers=answers, hold=hold)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append((server, hold))
        return listener

    yield make
    for server, hold in servers:
        if hold is not None:
            hold.set()
        server.shutdown()
        server.server_close()


def channel(store: Store, url: str, name: str = "night", kind: str = "webhook", secret: str | None = "s3cr3t") -> int:
    return store.alerts.put_channel(ChannelRow(0, name, kind, url, False, True, 0, None), secret).channel_id


def test_a_webhook_is_signed_and_says_what_why_and_what_it_cost(store: Store, listen, state):
    listener = listen()
    channel(store, listener.url)
    clock = crash_loop(store, state)
    dispatch = Dispatch(store, Queries(store), "https://rerail.example", lambda: clock + 60 * S)
    assert dispatch.deliver_due() == 1
    dispatch.wait(10)
    headers, body = listener.taken[0]
    assert headers["X-Rerail-Signature"] == signature("s3cr3t", headers["X-Rerail-Timestamp"], body)
    assert abs(int(headers["X-Rerail-Timestamp"]) - time.time()) < 60
    said = json.loads(body)
    text = said["text"]
    assert "The same fault" in text
    assert "cause: user exception" in text
    assert "cost" in text
    assert "https://rerail.example/incidents/a~" in text
    assert said["alerts"][0]["run"] == "a"
    assert [message.state for message in store.alerts.messages(None, 5)][-1] == "sent"


@pytest.mark.parametrize(
    ("parts", "node", "is_resolved", "said"),
    [
        (None, "n2", False, "like b~0 (the same fault, by every part of its fingerprint)"),
        ((("exception", "ValueError"),), "n2", False, None),
        (
            (("exception", "ValueError"),),
            "n2",
            True,
            "like b~0 (the same exception: ValueError); then: more memory",
        ),
        ((), "n1", True, "like b~0 (the same node: n1); then: more memory"),
        ((), "n1", False, None),
        ((("cause", "hang"),), "n2", True, None),  # Only another run, a minute before.
    ],
)
def test_a_message_names_what_leads_somewhere(parts, node, is_resolved, said):
    told = (("cause", "nccl_timeout"), ("exception", "ValueError"))
    one = Traces("a~0", "a", 100 * S, "1:a", told, (("node", "n1"),))
    found = likeness(one, Traces("b~0", "b", 40 * S, "1:a" if parts is None else "1:b", parts or (), (("node", node),)))
    assert found is not None
    occurrence = Occurrence("b~0", "b", 40 * S, 50 * S, False, True, "hang", node, 3, 100, (), S, S, 5, None)
    done = Resolution(60 * S, "more memory") if is_resolved else None
    status = Status.RESOLVED if is_resolved else Status.NEW
    alike = SimilarIncident(
        occurrence, found.weight, found.reasons, "1:b", "b", status, done, "Different.", found.strongest
    )
    assert worth_naming([alike]) == said


def test_a_channel_that_hangs_delays_no_other(store: Store, listen):
    hold = threading.Event()
    hanging, well = listen(hold=hold), listen()
    for number, listener in enumerate((hanging, well)):
        target = channel(store, listener.url, f"channel {number}")
        for _ in range(3):
            store.alerts.enqueue(target, "test", (), S)
    dispatch = Dispatch(store, Queries(store))
    dispatch.start()
    well.until(3)
    assert len(hanging.taken) == 1
    hold.set()
    hanging.until(3)
    dispatch.close()
    assert store.alerts.messages("waiting", 5) == ()


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", "it answered 200 and did not end its answer within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "it answered 200 and did not end its answer within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", "within 0.3 s"),
        (b"", "it did not answer within 0.3 s"),
    ],
)
def test_an_answer_that_drips_is_a_failed_delivery_when_its_time_is_over(first: bytes, error: str):
    server = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        taken, _ = server.accept()
        with taken, contextlib.suppress(OSError):
            taken.sendall(first)
            while True:
                threading.Event().wait(0.05)
                taken.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    began = time.monotonic()
    with pytest.raises(DeliveryError, match=error):
        post(f"http://127.0.0.1:{server.getsockname()[1]}/hook", b"{}", {}, 0.3)
    assert time.monotonic() - began < 5
    dripping.join(5)
    server.close()


def test_a_handshake_that_never_ends_is_over_in_time():
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        with pytest.raises(DeliveryError, match=r"did not answer within 0\.3 s|cannot be reached"):
            post(f"https://127.0.0.1:{server.getsockname()[1]}/hook", b"{}", {}, 0.3)
        assert time.monotonic() - began < 5


def test_a_failing_channel_is_tried_later_and_later_and_then_given_up_in_the_open(store: Store, listen):
    listener = listen(answers=500)
    message = store.alerts.enqueue(channel(store, listener.url), "test", (), S)
    now = [2 * S]
    dispatch = Dispatch(store, Queries(store), clock=lambda: now[0])
    for tries in range(1, MOST_TRIES + 1):
        assert dispatch.deliver_due() == 1
        dispatch.wait(10)
        assert len(listener.taken) == tries
        assert dispatch.deliver_due() == 0
        now[0] += pause_ns(tries) + S
    dead = store.alerts.messages("dead", 5)
    assert [(each.message_id, each.error, each.tries) for each in dead] == [(message, "it answered 500", MOST_TRIES)]
    listener.answers = 200
    assert store.alerts.revive(message, now[0])
    dispatch.deliver_due()
    dispatch.wait(10)
    assert store.alerts.messages("sent", 5)


def test_what_was_taken_is_not_sent_again_while_the_database_is_locked(tmp_path, listen, monkeypatch):
    hasty = tuple("PRAGMA busy_timeout=50" if "busy_timeout" in each else each for each in engines._WRITE_PRAGMAS)
    monkeypatch.setattr(engines, "_WRITE_PRAGMAS", hasty)
    address = f"sqlite:///{tmp_path}/locked.sqlite3"
    upgrade_database(address)
    store = open_store(address)
    hold = threading.Event()
    listener = listen(hold=hold)
    store.alerts.enqueue(channel(store, listener.url), "test", (), S)
    clock = [time.time_ns()]
    dispatch = Dispatch(store, Queries(store), clock=lambda: clock[0])
    assert dispatch.deliver_due() == 1
    listener.until(1)
    other = sqlite3.connect(tmp_path / "locked.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    hold.set()
    dispatch.wait(10)
    clock[0] += 300 * S  # The lease is over.
    with pytest.raises(StoreAwayError, match="locked"):
        dispatch.deliver_due()
    other.execute("ROLLBACK")
    other.close()
    assert [each.state for each in store.alerts.messages(None, 5)] == ["waiting"]
    assert dispatch.deliver_due() == 0
    assert [each.state for each in store.alerts.messages(None, 5)] == ["sent"]
    assert len(listener.taken) == 1


def test_a_redirect_is_no_delivery_and_no_secret_is_in_an_error(store: Store, listen, caplog):
    listener = listen(answers=302)
    target = channel(store, f"{listener.url}/token-abc?key=def")
    store.alerts.enqueue(target, "test", (), S)
    dispatch = Dispatch(store, Queries(store))
    dispatch.deliver_due()
    dispatch.wait(10)
    waiting = store.alerts.messages("waiting", 5)[0]
    assert waiting.error == "it answered 302"
    assert "token-abc" not in caplog.text
    assert "s3cr3t" not in caplog.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_apprise_says_what_is_wrong_without_the_address(store: Store, caplog):
    target = channel(store, "nosuchservice://user:topsecret@host/path", kind="apprise", secret=None)
    store.alerts.enqueue(target, "test", (), S)
    dispatch = Dispatch(store, Queries(store))
    dispatch.deliver_due()
    dispatch.wait(60)
    error = store.alerts.messages("waiting", 5)[0].error
    assert error is not None
    assert "Apprise" in error
    assert "topsecret" not in error + caplog.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nonsense://topsecret", "Apprise knows no service nonsense://; addresses are like slack://"),
        ("slack://topsecret", "Apprise knows slack://, and this is no whole address of it"),
        ("mailto://user:topsecret@gmail.com", None),
    ],
)
def test_an_address_that_apprise_cannot_use_is_refused_by_its_scheme(address, said):
    pytest.importorskip("apprise")
    found = refusal_of(address)
    assert found == said if said is None else found.startswith(said) and "topsecret" not in found


def test_apprise_delivers_to_a_json_service(store: Store, listen):
    pytest.importorskip("apprise")
    listener = listen()
    address = listener.url.replace("http://", "json://")
    store.alerts.enqueue(channel(store, address, kind="apprise", secret=None), "test", (), S)
    dispatch = Dispatch(store, Queries(store))
    dispatch.deliver_due()
    dispatch.wait(60)
    assert "This is a test" in listener.taken[0][1].decode()
    assert store.alerts.messages("sent", 5)


@pytest.mark.parametrize(
    ("kind", "address", "shown"),
    [
        ("webhook", "https://hooks.example/T0/B0/secret?x=1", "https://hooks.example/…"),
        ("alertmanager", "http://am:9093", "http://am:9093"),
        ("apprise", "slack://token/a/b", "slack://…"),
    ],
)
def test_addresses_are_shown_without_what_may_be_a_token(kind, address, shown):
    assert check_address(kind, address) is None
    assert masked(kind, address) == shown


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("webhook", "ftp://x"), ("webhook", "http://"), ("webhook", "file:///etc/passwd"), ("webhook", "http://u:p@x"),
        ("webhook", "http://x\r\nHost: y"), ("webhook", "http://[::"), ("apprise", "plain words"),
    ],
)  # fmt: skip
def test_addresses_that_are_none_are_refused(kind, address):
    assert check_address(kind, address) is not None


def crash_loop(store: Store, state: Callable) -> int:
    """Facts of a crash loop, derived and looked at; the instant of it."""
    began = time.time_ns() - 600 * S

    def at(second: int) -> int:
        return began + second * S

    lines: list[dict[str, object]] = [
        {"kind": "run_started", "run": "a", "emitter": "l", "seq": 0, "at": at(0), "gpus": 8}
    ]
    for number in range(4):
        base = {"run": "a", "emitter": "l", "job": "1", "restart": number}
        start = number * 60
        lines += [
            {**base, "kind": "attempt_started", "seq": number * 10 + 1, "at": at(start), "gpus": 8},
            {**base, "kind": "steps", "emitter": "r", "rank": 0, "seq": number, "at": at(start + 30),
             "first_step": 1, "start": at(start + 20), "durations_us": [1_000_000] * 10},
            {**base, "kind": "evidence", "emitter": "e", "rank": 0, "seq": number, "at": at(start + 39),
             "source": "stderr", "text": "ValueError: bad record"},
            {**base, "kind": "recovery_mark", "seq": number * 10 + 2, "at": at(start + 40), "stage": "noticed"},
            {**base, "kind": "attempt_ended", "seq": number * 10 + 3, "at": at(start + 45), "outcome": "failed"},
        ]  # fmt: skip
    state(*lines, received_at=at(300))
    clock = at(301)
    Projector(store, lambda: clock).derive_due()
    AlertWatch(store, lambda: clock).round()
    assert store.alerts.messages("waiting", 10)
    return clock


def _serve(database_url: str) -> tuple[subprocess.Popen, str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rerail", "serve", "--port", str(port), "--database-url", database_url]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), f"http://127.0.0.1:{port}"


@pytest.mark.slow
def test_a_server_killed_between_decision_and_delivery_loses_nothing(store: Store, database_url: str, listen, state):
    hold = threading.Event()
    listener = listen(hold=hold)
    channel(store, listener.url)
    crash_loop(store, state)
    server, _ = _serve(database_url)
    listener.until(1, 60)  # It is being delivered, and nobody has said that it was.
    server.send_signal(signal.SIGKILL)
    server.wait()
    hold.set()
    assert [each.state for each in store.alerts.messages(None, 10)] == ["waiting"]
    later = Dispatch(store, Queries(store), clock=lambda: time.time_ns() + 300 * S)  # when the lease is over
    assert later.deliver_due() == 1
    later.wait(10)
    assert [each.state for each in store.alerts.messages(None, 10)] == ["sent"]
    numbers = {headers["X-Rerail-Message"] for headers, _ in listener.taken}
    assert len(numbers) == 1, "who gets it twice can tell"
