"""Intake: facts per second of one core, from HTTP to committed, beside the naive way on the same core and disk.

    python bench/intake.py [--facts 400000] [--clients 4]

How it measures
- The server is a process of its own, pinned to one core; senders run on the others. What counts is the server's own CPU
  time (user and system) per committed fact, which other work on the machine disturbs least; wall clock is printed too.
- The facts are what a fleet sends: steps in blocks of ten, heartbeat windows, checkpoint moments, phases, from many
  ranks; 1,500 to a batch, bodies made before the clock starts.
- The peer is the way such an intake is usually written: a pydantic list as the body, one INSERT per fact, one commit
  per request, SQLite with the same durability.
- A shared machine has no fixed speed, so a yardstick is timed beside every figure: one million turns of an empty Python
  loop. On a quiet 3 GHz core it takes about 20 ms.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

START = 1_760_000_000_000_000_000
BATCH = 1500
CORE = 0


def batches(count: int, ranks: int = 16) -> Iterator[list[dict[str, object]]]:
    """Batches of mixed facts; each is one agent's, about all ranks of its node."""
    seqs: dict[str, int] = {}
    clock = START
    batch: list[dict[str, object]] = []
    for number in range(count):
        rank = number % ranks
        emitter = f"rank/node{rank // 8}/{rank}/5f0c6d3e"
        seqs[emitter] = seqs.get(emitter, -1) + 1
        clock += 20_000_000
        fact: dict[str, object] = {
            "run": "bench/llama-70b", "emitter": emitter, "seq": seqs[emitter], "at": clock, "job": "48121",
            "requeue": 0, "restart": 3, "rank": rank, "local_rank": rank % 8, "node": f"node{rank // 8}",
        }  # fmt: skip
        kind = number * 7919 % 10
        if kind < 5:
            durations = [371_000 + (number * 31 + index * 7) % 900 for index in range(10)]
            fact |= {"kind": "steps", "first_step": number * 10, "start": clock - 4 * 10**9, "durations_us": durations}
        elif kind < 8:
            fact |= {"kind": "heartbeats", "start": clock - 10**10, "end": clock, "count": 10, "max_gap_us": 1_000_213,
                     "phase": "training"}  # fmt: skip
        elif kind == 8:
            fact |= {"kind": "checkpoint", "step": number, "stage": "durable", "mode": "async", "tier": "global"}
        else:
            fact |= {"kind": "phase", "phase": "data_wait", "start": clock - 10**8, "end": clock}
        batch.append(fact)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def lines(batch: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(fact, separators=(",", ":")).encode() + b"\n" for fact in batch)


def send(port: int, path: str, bodies: list[bytes], headers: dict[str, str], clients: int) -> None:
    """All bodies, by several senders that keep their connections; raises on any answer but 200."""
    waiting = iter(bodies)
    lock = threading.Lock()
    problems: list[object] = []

    def run() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while True:
            with lock:
                body = next(waiting, None)
            if body is None or problems:
                return
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            answer = response.read()
            if response.status == 429:
                time.sleep(0.2)
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                answer = response.read()
            if response.status != 200:
                problems.append(answer)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise SystemExit(f"not taken: {problems[0]!r}")


def yardstick_ms() -> float:
    """CPU milliseconds of a million turns of a loop: how fast this machine is just now."""

    def turn() -> None:
        total = 0
        for index in range(1_000_000):
            total += index

    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        turn()
        best = min(best, time.process_time() - began)
    return best * 1000


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(name: str, which: str, bodies: list[bytes], facts: int, headers: dict[str, str], clients: int) -> float:
    """Facts per CPU second of a fresh server over a fresh file."""
    with tempfile.TemporaryDirectory(prefix="rerail-bench-") as directory:
        database = Path(directory) / "bench.sqlite3"
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", which, "--database", str(database)], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        port = int(server.stdout.readline())
        path = "/api/v1/facts" if which == "rerail" else "/naive"
        try:
            before, began = cpu_seconds(server.pid), time.perf_counter()
            send(port, path, bodies, headers, clients)
            wall, cpu = time.perf_counter() - began, cpu_seconds(server.pid) - before
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
        size = sum(file.stat().st_size for file in Path(directory).iterdir())
        counts = sqlite3.connect(database)
        question = "SELECT sum(fact_count) FROM fact_segment" if which == "rerail" else "SELECT count(*) FROM naive"
        held = counts.execute(question).fetchone()[0]
        if held != facts:
            raise SystemExit(f"{name}: {held} of {facts} facts are in the database")
    print(
        f"{name:<28} {facts / cpu:>10,.0f} facts/s of one core   {facts / wall:>10,.0f} facts/s wall   "
        f"{sum(map(len, bodies)) / facts:>6.1f} B/fact sent   {size / facts:>6.1f} B/fact kept   "
        f"yardstick {yardstick_ms():.0f} ms"
    )
    return facts / cpu


# --- the two servers --------------------------------------------------------------------------------------------------


def serve(which: str, database: str) -> None:
    import socket

    import uvicorn

    from rerail.server.commands.serving import calm_interpreter

    os.sched_setaffinity(0, {CORE})
    app = rerail_app(database) if which == "rerail" else naive_app(database)
    calm_interpreter()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))

    def tell() -> None:
        while not server.started:
            time.sleep(0.01)
        print(listening.getsockname()[1], flush=True)

    threading.Thread(target=tell, daemon=True).start()
    server.run(sockets=[listening])


def rerail_app(database: str):
    """Our server as it takes facts: role web, so that deriving views is another process's work, as in a large fleet."""
    from rerail.server.app import create_api
    from rerail.server.preparing import prepare_database
    from rerail.server.settings import Role, Settings

    settings = Settings(database_url=f"sqlite:///{database}", role=Role.WEB)
    prepare_database(settings.database_url)
    return create_api(settings)


def naive_app(database: str):
    """The usual way: a validated list, a row per fact, a commit per request."""
    from fastapi import FastAPI
    from pydantic import BaseModel, ConfigDict

    class NaiveFact(BaseModel):
        model_config = ConfigDict(extra="allow")
        kind: str
        run: str
        emitter: str
        seq: int
        at: int
        job: str | None = None
        requeue: int | None = None
        restart: int | None = None
        rank: int | None = None
        local_rank: int | None = None
        node: str | None = None

    app = FastAPI()
    lock = threading.Lock()
    connection = sqlite3.connect(database, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE naive (run TEXT, emitter TEXT, seq INTEGER, at INTEGER, kind TEXT, payload TEXT, "
        "PRIMARY KEY (run, emitter, seq))"
    )

    def take(facts):
        accepted = 0
        with lock, connection:
            for fact in facts:
                accepted += connection.execute(
                    "INSERT INTO naive VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (fact.run, fact.emitter, fact.seq, fact.at, fact.kind, fact.model_dump_json()),
                ).rowcount
        return {"accepted": accepted}

    # The model is local, so its annotation cannot be a name that FastAPI looks up in this module.
    take.__annotations__ = {"facts": list[NaiveFact], "return": dict[str, int]}
    app.post("/naive")(take)
    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=300_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--serve", choices=("rerail", "naive"), help=argparse.SUPPRESS)
    parser.add_argument("--database", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.database)
        return
    made = list(batches(arguments.facts))
    plain = [lines(batch) for batch in made]
    packed = [gzip.compress(body, 1) for body in plain]
    arrays = [json.dumps(batch, separators=(",", ":")).encode() for batch in made[: max(1, len(made) // 5)]]
    few = sum(len(batch) for batch in made[: len(arrays)])
    ndjson = {"Content-Type": "application/x-ndjson"}
    print(f"{arguments.facts:,} facts, {BATCH} a batch, {arguments.clients} senders, load {os.getloadavg()[0]:.1f}")
    ours = measured("rerail, plain", "rerail", plain, arguments.facts, ndjson, arguments.clients)
    measured(
        "rerail, gzip", "rerail", packed, arguments.facts, ndjson | {"Content-Encoding": "gzip"}, arguments.clients
    )
    naive = measured("naive peer, plain", "naive", arrays, few, {"Content-Type": "application/json"}, arguments.clients)
    print(f"rerail takes {ours / naive:.1f} times what the naive way takes on one core")


if __name__ == "__main__":
    main()
