"""Worlds: for every live source something it can look at, that moves, goes quiet, breaks down and turns hostile.

`WORLDS` has one for each source of `rerail collect`; `test_contract.py` holds all of them to the same promises. A world
is real as far as it can be here: real files, a server of HTTP, programs on the path.

To add one: a class with the methods of `World`, and a line in `WORLDS` under the name of the source.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from rerail.collectors.source import Source
from rerail.collectors.sources.flight_recorder_live import FlightRecorderLive
from rerail.collectors.sources.kernel_live import FileOpening, KernelSource
from rerail.collectors.sources.kube_client import Access, Client
from rerail.collectors.sources.kubernetes import KubernetesSource
from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.sources.prometheus import PrometheusSource
from rerail.collectors.sources.prometheus_client import PrometheusClient, Reach
from rerail.collectors.sources.prometheus_facts import Naming
from rerail.collectors.sources.prometheus_rules import BUILT_IN
from rerail.collectors.sources.slurm import Chosen, SlurmSource
from tests.collectors.kube_api import PATHS, KubeApi
from tests.collectors.kube_story import ended, pod, running

CORPUS = Path(__file__).parent.parent / "corpus"
TURNS = 3
"""How often something happens, in order; every turn tells something new."""


class World(Protocol):
    """Something a source looks at. Made with a folder of its own; nothing has happened yet, but it can be seen."""

    grows_by: int
    """Bytes by which a cursor may grow with one turn: what is kept of each job, series or file."""
    is_a_log: bool
    """Whether the end may be half a line, so that what grows is polled and finished once, at its end."""
    sees_the_past: bool
    """Whether one look at the end sees all that happened; of an API server only the last state is left."""

    def turn(self) -> None:
        """The next thing happens."""
        ...

    def source(self) -> Source:
        """A new instance, as after a restart of the collector."""
        ...

    def words(self) -> Sequence[str]:
        """What `rerail collect` is told to look at it, the source's name first."""
        ...

    def break_down(self) -> None:
        """From now on it cannot be seen."""
        ...

    def hostile(self, content: bytes) -> None:
        """These bytes are there instead of what should be."""
        ...

    def stop(self) -> None:
        """Give everything back."""
        ...


class _LogWorld:
    """A log that grows by a third each turn."""

    grows_by = 6_000
    is_a_log = True
    sees_the_past = True
    log = CORPUS / "nvrx/0.6.0/multi.log"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "train.log"
        self.path.write_bytes(b"")
        self._turns = 0

    def turn(self) -> None:
        self._turns += 1
        content = self.log.read_bytes()
        told = content * (self._turns // TURNS) + content[: len(content) * (self._turns % TURNS) // TURNS]
        self.path.write_bytes(told)

    def source(self) -> Source:
        return LauncherSource(node="vm", run="story", log=self.path, zone_seconds=0)

    def break_down(self) -> None:
        self.path.unlink()

    def hostile(self, content: bytes) -> None:
        self.path.write_bytes(content)

    def stop(self) -> None:
        pass


class LauncherWorld(_LogWorld):
    """Output of a launcher."""

    log = CORPUS / "nvrx/0.4.1/multi.log"

    def words(self) -> Sequence[str]:
        return ("launcher", "--log", str(self.path), "--run", "story")


class TrainingLogWorld(_LogWorld):
    """A log of a training that nobody instrumented."""

    log = CORPUS / "training_logs/megatron.log"

    def words(self) -> Sequence[str]:
        return ("logs", str(self.path), "--run", "story")


class KernelWorld:
    """A file that a log daemon writes."""

    is_a_log = False
    grows_by = 100
    sees_the_past = True

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kern.log"
        self.path.write_bytes(b"")
        self._turns = 0

    def turn(self) -> None:
        self._turns += 1
        with self.path.open("a") as file:
            file.write(
                f"2026-11-29T12:00:0{self._turns % 10}+00:00 n0 kernel: NVRM: Xid (PCI:0000:91:00): 79, pid=4242, "
                f"name=python, GPU has fallen off the bus, time {self._turns}.\n"
            )

    def source(self) -> Source:
        return KernelSource(FileOpening(self.path), "n0", lambda: "story", since_hours=1e5)

    def words(self) -> Sequence[str]:
        return ("kernel", "--file", str(self.path), "--run", "story", "--since-hours", "100000", "--node", "n0")

    def break_down(self) -> None:
        self.path.unlink()

    def hostile(self, content: bytes) -> None:
        self.path.write_bytes(content)

    def stop(self) -> None:
        pass


class DumpWorld:
    """A folder into which ranks write what their flight recorders hold."""

    is_a_log = False
    grows_by = 400
    sees_the_past = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "dumps"
        self.folder.mkdir()
        self._turns = 0

    def turn(self) -> None:
        shutil.copy(CORPUS / "flight_recorder" / f"hang4_rank_{self._turns % 4}", self.folder)
        self._turns += 1

    def source(self) -> Source:
        return FlightRecorderLive([str(self.folder)], node="vm", run="story", wants_all=True, look_ns=0)

    def words(self) -> Sequence[str]:
        return ("flight-recorder", str(self.folder), "--run", "story")

    def break_down(self) -> None:
        shutil.rmtree(self.folder)
        self.folder = self.folder.parent / "nowhere" / "dumps"

    def hostile(self, content: bytes) -> None:
        (self.folder / "hang4_rank_7").write_bytes(content)

    def stop(self) -> None:
        pass


class KubernetesWorld:
    """A cluster whose pod is killed for memory and started again, over and over."""

    is_a_log = False
    grows_by = 4_000
    sees_the_past = False

    def __init__(self, folder: Path) -> None:
        self.api = KubeApi()
        self.api.start()
        self._turns = 0

    def turn(self) -> None:
        life = self._turns
        last = ended(100 * life - 90, 100 * life, 137, "OOMKilled") if life else None
        self.api.put(pod("llm-0", status=running(100 * life + 10, life, last)))
        self._turns += 1

    def source(self) -> Source:
        return KubernetesSource(Client(Access(self.api.url)))

    def words(self) -> Sequence[str]:
        return ("kubernetes", "--api", self.api.url)

    def break_down(self) -> None:
        for asked in (PATHS["Pod"], f"watch {PATHS['Pod']}"):
            self.api.behaviours[asked] = ["403"] * 1000

    def hostile(self, content: bytes) -> None:
        text = content.decode("latin-1")
        with suppress(ValueError):
            status = json.loads(content)
            self.api.put(pod("odd-1", status=status if isinstance(status, dict) else {"phase": status}))
        self.api.put(pod("odd-0", status={"phase": text, "containerStatuses": [text, {"state": {text: text}}]}))

    def stop(self) -> None:
        self.api.stop()


class SlurmWorld:
    """Programs that answer as Slurm's, of a job that is requeued whenever its node fails."""

    is_a_log = False
    grows_by = 1_500
    sees_the_past = True
    HEADER = "JobID|JobIDRaw|JobName|State|ExitCode|Submit|Eligible|Start|End|NodeList"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._turns = 0
        self.clock = 1_796_100_000.0
        self._write(self.HEADER.encode())

    def _write(self, content: bytes) -> None:
        (self.folder / "rows").write_bytes(content)
        self._program("sacct", f'case "$*" in *helpformat*) echo JobID State;; *) /bin/cat {self.folder}/rows;; esac')
        self._program("squeue", "echo '{\"jobs\": []}'")
        self._program("sacctmgr", "echo 'NodeName|TimeStart|TimeEnd|State|Reason'")

    def _program(self, name: str, script: str) -> None:
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def turn(self) -> None:
        self._turns += 1
        rows = [self.HEADER]
        for index in range(self._turns):
            is_last = index == self._turns - 1
            begin = 1795954463 + 1000 * index
            state, end = ("RUNNING", "Unknown") if is_last else ("NODE_FAIL", str(begin + 437))
            rows.append(f"7|7|chain|{state}|0:0|{begin}|{begin}|{begin + 7}|{end}|n[0-1]")
        self._write("\n".join(rows).encode())

    def source(self) -> Source:
        return SlurmSource(chosen=Chosen(since_hours=100_000), now=lambda: self.clock)

    def words(self) -> Sequence[str]:
        return ("slurm", "--since-hours", "100000")

    def break_down(self) -> None:
        for name in ("sacct", "squeue"):
            self._program(name, "echo Unable to contact slurm controller >&2; exit 1")

    def hostile(self, content: bytes) -> None:
        self._write(content)

    def stop(self) -> None:
        pass


class _Recorded:
    """A Prometheus server with one GPU whose last error changes every turn."""

    def __init__(self) -> None:
        self.samples: dict[int, float] = {}
        self.status = 200
        self.instead: bytes | None = None
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"] or 0)).decode())
                self._say(world.answer({name: each[0] for name, each in asked.items()}))

            def do_GET(self) -> None:
                asked = parse_qs(self.path.partition("?")[2])
                self._say(world.answer({name: each[0] for name, each in asked.items()}))

            def _say(self, body: bytes) -> None:
                self.send_response(world.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, asked: dict[str, str]) -> bytes:
        if self.instead is not None:
            return self.instead
        result: list[Any] = []
        if "XID" in asked.get("query", "") and "start" in asked:
            start, end = int(float(asked["start"])), int(float(asked["end"]))
            values = [[at, str(value)] for at, value in sorted(self.samples.items()) if start <= at <= end]
            labels = {"Hostname": "n0", "gpu": "2", "UUID": "GPU-2", "instance": "n0:9400"}
            result = [{"metric": labels, "values": values}] if values else []
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


class PrometheusWorld:
    """A Prometheus server over HTTP."""

    is_a_log = False
    grows_by = 100
    sees_the_past = True
    STEP = 15

    def __init__(self, folder: Path) -> None:
        self.server = _Recorded()
        self._turns = 0
        self._began = self._at = int(time.time()) // self.STEP * self.STEP - 1800

    def turn(self) -> None:
        for _ in range(4):
            self.server.samples[self._at] = float(self._turns)
            self._at += self.STEP
        self._turns += 1
        for _ in range(4):
            self.server.samples[self._at] = float(30 + self._turns)
            self._at += self.STEP

    def source(self) -> Source:
        rules = tuple(rule for rule in BUILT_IN if rule.name == "xid")
        return PrometheusSource(
            PrometheusClient(Reach(self.server.url, timeout_seconds=5)), Naming("story"), rules, step_seconds=self.STEP,
            lag_seconds=0, since_hours=(self._at - self._began) / 3600, now=lambda: float(self._at - self.STEP),
        )  # fmt: skip

    def words(self) -> Sequence[str]:
        return ("prometheus", "--prometheus", self.server.url, "--run", "story", "--since-hours", "1")

    def break_down(self) -> None:
        self._at += 4 * self.STEP  # nothing is asked for twice
        self.server.status, self.server.instead = 503, b"away"

    def hostile(self, content: bytes) -> None:
        self.server.instead = content

    def stop(self) -> None:
        self.server.server.shutdown()
        self.server.server.server_close()


WORLDS: dict[str, Callable[[Path], World]] = {
    "flight-recorder": DumpWorld,
    "kernel": KernelWorld,
    "kubernetes": KubernetesWorld,
    "launcher": LauncherWorld,
    "logs": TrainingLogWorld,
    "prometheus": PrometheusWorld,
    "slurm": SlurmWorld,
}
