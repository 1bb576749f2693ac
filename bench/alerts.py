"""How fast alerts are: rules over a thousand live runs, from the deciding fact to the message, and the fleet page.

    python bench/alerts.py

Each figure stands alone, on the core it gets; the aim is beside it.
"""

from __future__ import annotations

import gc
import gzip
import http.server
import json
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import uvicorn

from rerail.server.alert_watch import AlertWatch
from rerail.server.app import create_app
from rerail.server.commands.serving import calm_interpreter
from rerail.server.core import codec
from rerail.server.core.facts import AttemptStarted, Evidence, Fact, MarkStage, RecoveryMark, RunStarted, Steps
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.settings import Settings
from rerail.server.store import Batch, LoggedFact, Stated, open_store
from rerail.server.store.alert_rows import ChannelRow
from rerail.ui.markup import encoded
from rerail.ui.pages.fleet import content

S = 10**9
RUNS = 1000
INCIDENTS = 5


def facts_of(run: str, began: int) -> list[Fact]:
    """A live run with some incidents behind it."""
    told: list[Fact] = [RunStarted(run=run, emitter="l", seq=0, at=began, gpus=64, project="bench")]
    seq = 1
    at = began
    step = 1
    for number in range(INCIDENTS + 1):
        where = {"job": "1", "requeue": 0, "restart": number, "iteration": 0}
        told.append(AttemptStarted(run=run, emitter="l", seq=seq, at=at, gpus=64, **where))
        told.append(
            Steps(run=run, emitter=f"r{number}", seq=0, at=at + 400 * S, first_step=step, start=at + 20 * S, rank=0,
                  durations_us=(1_000_000,) * 300, **where)
        )  # fmt: skip
        at += 400 * S
        step += 300
        if number < INCIDENTS:
            told.append(Evidence(run=run, emitter="e", seq=number, at=at - 11 * S, source="stderr", rank=0,
                                 text=f"ValueError: bad record {number}", **where))  # fmt: skip
            told.append(
                RecoveryMark(run=run, emitter="l", seq=seq + 1, at=at - 10 * S, stage=MarkStage.NOTICED, **where)
            )
            seq += 2
    return told


def batch_of(facts: list[Fact], at: int) -> Batch:
    """As the intake would hand it on."""
    stated: dict[tuple[str, str], Stated] = {}
    for fact in facts:
        of_emitter = stated.setdefault((fact.run, fact.emitter), Stated(fact.run, fact.emitter))
        of_emitter.facts.append(LoggedFact(fact.seq, fact.at, codec.encode_line(fact).rstrip()))
    return Batch(at, tuple(stated.values()))


def main() -> None:
    """Measure, and print."""
    calm_interpreter()  # as `rerail serve` does
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'bench.sqlite3'}"
        prepare_database(url)
        store = open_store(url)
        now = time.time_ns()
        length = (INCIDENTS + 1) * 400 * S
        for first in range(0, RUNS, 50):
            told = [batch_of(facts_of(f"run-{number}", now - length), now) for number in range(first, first + 50)]
            store.append(told)
        projector = Projector(store, lambda: now)
        while projector.derive_due(100):
            pass
        watch = AlertWatch(store, lambda: now)
        gc.collect()  # What deriving left to be walked is not the rules' cost: two seconds, wherever it falls.
        for name in ("first round, every alert new", "again, nothing new"):
            watch.start_over()
            began, cpu = time.perf_counter(), time.process_time()
            looked = 0
            while took := watch.round():
                looked += took
            print(f"rules over {looked} live runs, {name}: {time.perf_counter() - began:.2f} s, "
                  f"{time.process_time() - cpu:.2f} s of CPU (aim 1 s)")  # fmt: skip
        print(f"open alerts: {store.alerts.standings(now).get('open', 0)}")
        began = time.perf_counter()
        done = Queries(store, lambda: now).alerts.dry_run("same_fault_again", {"times": 20})
        print(f"dry run of same_fault_again, {done.looked_at} of {done.runs} runs: {time.perf_counter() - began:.1f} s")
        store.close()
        _serving(url)


def _serving(url: str) -> None:
    taken = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            taken.set()

        def log_message(self, *_said: object) -> None:
            pass

    hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    store = open_store(url)
    server = uvicorn.Server(uvicorn.Config(create_app(Settings(database_url=url)), port=8399, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    base = "http://127.0.0.1:8399"
    while not server.started:
        time.sleep(0.1)
    time.sleep(30)  # until all thousand were looked at once more
    address = f"http://127.0.0.1:{hook.server_address[1]}/"
    store.alerts.put_channel(ChannelRow(0, "bench", "webhook", address, False, True, 0, None), "secret")
    began = time.time_ns() - 300 * S
    lines = []
    for number in range(4):
        where = {"run": "deciding", "emitter": "l", "job": "1", "restart": number}
        at = began + number * 60 * S
        lines += [
            {**where, "kind": "attempt_started", "seq": number * 9, "at": at, "gpus": 8},
            {**where, "kind": "recovery_mark", "seq": number * 9 + 1, "at": at + 9 * S, "stage": "noticed"},
            {**where, "kind": "attempt_ended", "seq": number * 9 + 2, "at": at + 9 * S, "outcome": "failed"},
        ]
    body = "\n".join(json.dumps(line) for line in lines).encode()
    told = time.perf_counter()
    request = urllib.request.Request(f"{base}/api/v1/facts", body, {"Content-Type": "application/x-ndjson"})
    urllib.request.urlopen(request, timeout=30).close()
    taken.wait(60)
    print(f"from the deciding fact to the message: {time.perf_counter() - told:.1f} s (aim 5 s)")
    for name in ("first", "again"):
        began_at = time.perf_counter()
        drawn = encoded(content(Queries(store).fleet_page.view())).encode()
        took = time.perf_counter() - began_at
        print(f"the page of the fleet, {name}: {took * 1000:.0f} ms (aim 300 ms), {len(drawn) / 1000:.0f} kB, "
              f"{len(gzip.compress(drawn)) / 1000:.0f} kB compressed (aim 200 kB)")  # fmt: skip
    server.should_exit = True
    time.sleep(2)
    store.close()


if __name__ == "__main__":
    main()
