"""How fast changes of a cluster are taken, and in how much memory.

    python bench/kubernetes.py [--pods 4000] [--changes 40000]

An API server in a process of its own lists pods of ten jobs in pages, then streams changes as a large cluster makes
them: heartbeats of conditions mostly, one in fifty a restart of a container. The source follows it over HTTP, and every
fact is encoded as for sending. Printed: seconds of the list, changes a second of the watch, facts stated, duplicates,
the memory that the collector grew by and its peak, and the size of the cursor.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rerail.collectors.source import SourceDown
from rerail.collectors.sources import kubernetes
from rerail.collectors.sources.kube_client import Access, Client
from rerail.collectors.sources.kubernetes import KubernetesSource
from rerail.server.core.codec import encode_line

BEGAN = 1_795_950_000
JOBS = 10
PADDING = [
    {"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field-{number}": {} for number in range(60)}}
    for _ in range(3)
]
"""Managed fields as long as a real pod's: they are most of what travels."""


def stamp(second: int) -> str:
    """RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN + second))


def pod(number: int, version: int, restarts: int = 0, second: int = 60, beat: int = 0) -> dict[str, Any]:
    """A pod of a job, on a node of its own."""
    main: dict[str, Any] = {
        "name": "pytorch", "image": "registry.local/train:v1", "restartCount": restarts,
        "state": {"running": {"startedAt": stamp(second)}},
    }  # fmt: skip
    if restarts:
        last = {"exitCode": 1, "reason": "Error", "startedAt": stamp(second - 60), "finishedAt": stamp(second - 10)}
        main["lastState"] = {"terminated": last}
    return {
        "metadata": {
            "name": f"llm-{number}", "namespace": "train", "uid": f"pod-{number}", "resourceVersion": str(version),
            "creationTimestamp": stamp(0), "managedFields": PADDING,
            "labels": {"batch.kubernetes.io/job-name": f"job-{number % JOBS}"},
        },
        "spec": {
            "nodeName": f"gpu-{number}",
            "containers": [{"name": "pytorch", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
        "status": {
            "phase": "Running", "containerStatuses": [main],
            "conditions": [
                {"type": "Ready", "status": "True", "lastProbeTime": stamp(beat), "lastTransitionTime": stamp(70)}
            ],
        },
    }  # fmt: skip


def change(number: int, pods: int) -> dict[str, Any]:
    """The how-manieth change of the watch."""
    which, turn = number % pods, number // pods
    is_restart = number % 50 == 7
    began = 600 * (turn + 1) + number % 600 if is_restart else 60
    told = pod(which, 1_000_000 + number, turn + 1 if is_restart else 0, began, number % 86_400)
    return {"type": "MODIFIED", "object": {**told, "kind": "Pod"}}


def serve(pods: int, changes: int, port: Connection) -> None:
    """The API server: pods alone, the other kinds are empty."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            is_pods = parts.path.endswith("/pods")
            self.send_response(200)
            self.end_headers()
            if "watch" not in asked:
                first, limit = int(asked.get("continue") or 0), int(asked["limit"])
                shown = [pod(number, number) for number in range(first, min(first + limit, pods))] if is_pods else []
                about = {"resourceVersion": "999999"}
                if is_pods and first + limit < pods:
                    about["continue"] = str(first + limit)
                self.wfile.write(json.dumps({"kind": "PodList", "metadata": about, "items": shown}).encode())
                return
            if is_pods:
                for first in range(0, changes, 500):
                    lines = [json.dumps(change(number, pods)) for number in range(first, min(first + 500, changes))]
                    self.wfile.write("".join(f"{line}\n" for line in lines).encode())
            threading.Event().wait()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    port.send(server.server_address[1])
    server.serve_forever()


def memory_mb() -> float:
    """What this process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--changes", type=int, default=40_000)
    asked = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(asked.pods, asked.changes, theirs), daemon=True
    )
    process.start()
    source = KubernetesSource(Client(Access(f"http://127.0.0.1:{ours.recv()}")))
    kubernetes.POLL_SECONDS = 0.2
    before = memory_mb()
    cursor: str | None = None
    facts = 0
    identities: set[tuple[str, str, int]] = set()
    started = time.perf_counter()
    listed_at = None
    last = str(1_000_000 + asked.changes - 1)
    busy = time.process_time()
    while json.loads(cursor or '{"versions": {}}')["versions"].get("pods") != last:
        try:
            polled = source.poll(cursor)
        except SourceDown as error:
            raise SystemExit(f"the server is away: {error}") from None
        if polled.facts and listed_at is None and len(polled.facts) >= asked.pods:
            listed_at = time.perf_counter()
        for fact in polled.facts:
            encode_line(fact)
            identities.add((fact.run, fact.emitter, fact.seq))
        facts += len(polled.facts)
        cursor = polled.cursor
        time.sleep(0.01)
    ended = time.perf_counter()
    listed_at = listed_at or started
    print(f"list: {asked.pods} pods in {listed_at - started:.1f} s")
    rate = asked.changes / (ended - listed_at)
    print(f"watch: {asked.changes} changes in {ended - listed_at:.1f} s, {rate:,.0f} a second")
    print(f"processor time of the collector: {time.process_time() - busy:.1f} s")
    print(f"facts: {facts}, duplicates: {facts - len(identities)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"memory: {memory_mb() - before:.0f} MB more than before, {peak:.0f} MB at most")
    print(f"cursor: {len(cursor or '') / 1e6:.1f} MB")
    source.close()
    process.terminate()


if __name__ == "__main__":
    main()
