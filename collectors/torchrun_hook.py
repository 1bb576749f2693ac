"""Torchrun hook: `torchrun --logs-specs rerail … train.py` states its attempts, with a train.py that nobody changed.

torchrun loads the class that this entry point names inside its agent and asks it where the workers' output goes, once
for every attempt. It answers as torchrun's own class does, and listens: to the agent's events, its rendezvous and its
word that a worker failed. What it hears (`torchrun_story.py`) goes to a ring beside those of the ranks, which
`rerail agent` reads.

Rules
- Nothing here raises into torchrun, and nothing of it is changed but who hears. What goes wrong is counted, and the
  ring tells how often.
- The names of events are public; the tables of handlers are not. Where a release of torch has none, that much is not
  heard and the rest is.
- Where torchrun shuts down without a word the ring says nothing of its end; the agent sees that the process is gone.
- torch is imported when torchrun asks for the class: it is there already.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import metadata
from typing import Any

from rerail.collectors.identity import Identity, identity, inherited, settings
from rerail.collectors.ring import CLOSED_BY_ERROR, RingWriter, process_namespace
from rerail.collectors.torchrun_story import TorchrunStory, Workers

log = logging.getLogger("rerail.torchrun")

CLASS = "RerailLogsSpecs"
RING_BYTES = 512 * 1024
MOST_WAITING = 1000
MOST_RINGS = 512
PROCESS_LOGGER = "torch.distributed.elastic.multiprocessing.api"
GATHERS = "attempts to join the next round"
WORKER_SETTINGS = (
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE",
)  # fmt: skip
"""Settings of recovery that workers take from their environment."""


class LauncherRing:
    """The ring of a launcher. Opened when the run is known; until then what is said waits."""

    def __init__(self) -> None:
        self.lost = 0
        self._ring: RingWriter | None = None
        self._process = os.getpid()
        self._waiting: list[bytes] = []
        self._mark = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()

    def say(self, kind: str, at: int, told: Mapping[str, object]) -> None:
        """State one fact."""
        if os.getpid() != self._process:
            return
        message = json.dumps({"kind": kind, "at": at, **told}, separators=(",", ":"), default=str).encode()
        with self._lock:
            if self._ring is not None:
                self._ring.write_text(message, 0)
            elif len(self._waiting) < MOST_WAITING:
                self._waiting.append(message)
            else:
                self.lost += 1

    def open(self, who: Identity) -> None:
        """Make the ring of this run, and write what waited. Raises OSError or ValueError."""
        with self._lock:
            if self._ring is not None or os.getpid() != self._process:
                return
            where = settings()
            rings = where.directory / "rings"
            rings.mkdir(parents=True, exist_ok=True, mode=0o700)
            if len(os.listdir(rings)) >= MOST_RINGS:
                raise OSError(f"{MOST_RINGS} rings wait in {rings} and no agent reads them")
            about: dict[str, object] = {
                "emitter": f"torchrun/{who.node[:120]}/{self._mark}",
                "identity": {"run": who.run, "node": who.node, "job": who.job, "requeue": who.requeue},
                "namespace": process_namespace(),
            }
            path = rings / f"torchrun-{os.getpid()}-{self._mark}.ring"
            anchor = (time.time_ns(), time.monotonic_ns())
            ring = RingWriter(path, min(RING_BYTES, where.ring_bytes), anchor, about)
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                ring.write_text(message, 0)
            self._ring = ring

    def count_loss(self) -> None:
        """Something that should have been stated was not."""
        self.lost += 1
        if self._ring is not None:
            self._ring.count_lost(self.lost)

    def close(self) -> None:
        """Nothing more will come."""
        if self._ring is not None and os.getpid() == self._process:
            # How long torchrun takes to end is nobody's teardown: no instant is told.
            self._ring.mark_closed(CLOSED_BY_ERROR)


class Listener:
    """What is heard inside one agent. Its methods never raise."""

    def __init__(self, node: str, job: str | None) -> None:
        self.ring = LauncherRing()
        self.story = TorchrunStory(self.ring.say, node=node, job=job, versions=_versions())
        self.is_listening = False
        self._lock = threading.RLock()
        self._is_configured = False

    def attempt(self, environments: Mapping[int, Mapping[str, str]], destinations: Any) -> None:
        """torchrun asked where the output of an attempt's workers goes."""
        with self._safe:
            first = environments.get(0) or next(iter(environments.values()), {})
            self._know(dict(first))
            if not self._is_configured:
                self._is_configured = True
                self.story.config.update(config_of(sys.argv[1:], first))
            self.story.workers(workers_of(environments, destinations), time.time_ns())

    def event(self, text: str) -> None:
        """A record of torchelastic's events."""
        with self._safe:
            event = json.loads(text)
            if not isinstance(event, dict):
                return
            told = event.get("metadata")
            if isinstance(told, dict) and event.get("source") == "AGENT" and told.get("state") == "FAILED":
                self._know({"TORCHELASTIC_RUN_ID": str(told.get("run_id") or "")})
            if "node_state" in event and GATHERS in str(event.get("message")):
                self.story.gathering(time.time_ns())
            else:
                self.story.event(event, time.time_ns())

    def process_record(self, record: logging.LogRecord) -> None:
        """A record of torchelastic's keeper of processes."""
        with self._safe:
            words, told = str(record.msg), record.args
            if words.startswith("Sending process"):
                self.story.closing(int(record.created * 1e9))
            elif words.startswith("failed (exitcode:") and isinstance(told, tuple) and len(told) >= 3:
                code, local_rank, process = (int(str(value)) for value in told[:3])
                self.story.failed(int(record.created * 1e9), code, local_rank, process, record.getMessage()[:2000])

    def close(self) -> None:
        """torchrun ends."""
        with self._safe:
            self.ring.close()

    def _know(self, environment: dict[str, str]) -> None:
        """Open the ring as the run that the workers of this agent call theirs."""
        who = identity({**inherited(), **environment})
        self.ring.open(replace(who, rank=None, local_rank=None, restart=None, world_size=None))

    @property
    def _safe(self) -> _Safe:
        return _Safe(self._lock, self.ring)


class _Safe:
    """One at a time; whatever goes wrong inside is counted and goes no further."""

    def __init__(self, lock: Any, ring: LauncherRing) -> None:
        self._lock = lock
        self._ring = ring

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        try:
            if error is not None and isinstance(error, Exception):
                self._ring.count_loss()
                log.warning("rerail could not state what torchrun did: %s: %s", type(error).__name__, error)
        except Exception:
            self._ring.lost += 1
        finally:
            self._lock.release()
        return error is None or isinstance(error, Exception)


class _Handler(logging.Handler):
    """Hands records on; never raises, whatever logging is told to do with errors."""

    def __init__(self, take: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.NOTSET)
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging, one at a time."""
        self._take(record)


def workers_of(environments: Mapping[int, Mapping[str, str]], destinations: Any) -> Workers:
    """The workers that torchrun is about to start. Raises KeyError and ValueError where it tells no ranks."""
    first = environments[min(environments)]
    return Workers(
        restart=int(first["TORCHELASTIC_RESTART_COUNT"]),
        world_size=_count(first.get("WORLD_SIZE")),
        group_rank=_count(first.get("GROUP_RANK")),
        nodes=_count(first.get("GROUP_WORLD_SIZE")),
        ranks={local_rank: int(each["RANK"]) for local_rank, each in environments.items()},
        error_files=dict(getattr(destinations, "error_files", None) or {}),
        stderr_files=dict(getattr(destinations, "stderrs", None) or {}),
    )


def config_of(words: list[str], environment: Mapping[str, str]) -> dict[str, object]:
    """Recovery settings: what torchrun makes of its own arguments, and what its workers are told."""
    found: dict[str, object] = {}
    most = _count(environment.get("TORCHELASTIC_MAX_RESTARTS"))
    if most is not None:
        found["max_restarts"] = most
    told = _arguments(words)
    if told is not None and getattr(told, "max_restarts", None) == most:  # else these are somebody else's arguments
        for name in ("nnodes", "nproc_per_node", "monitor_interval", "rdzv_backend", "rdzv_conf", "start_method"):
            value = getattr(told, name, None)
            if isinstance(value, str | int | float) and value != "":
                found[name] = value
        for pair in str(getattr(told, "rdzv_conf", "") or "").split(","):
            name, sign, value = (part.strip() for part in pair.partition("="))
            if sign and name in ("join_timeout", "timeout", "last_call_timeout", "close_timeout"):
                found["join_timeout" if name == "timeout" else name] = value
    found.update((name.lower(), environment[name]) for name in WORKER_SETTINGS if environment.get(name))
    found.update((name.lower(), value) for name, value in inherited().items() if name in WORKER_SETTINGS and value)
    return found


def _arguments(words: list[str]) -> Any:
    """The arguments as torchrun parses them; None where they are not torchrun's."""
    try:
        from torch.distributed.run import get_args_parser

        parser = get_args_parser()
        parser.error = _refuse  # type: ignore[method-assign]
        return parser.parse_args(words)
    except (Exception, SystemExit):
        return None


def _refuse(message: str) -> Any:
    raise ValueError(message)


def _count(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _versions() -> dict[str, str]:
    try:
        return {"torch": metadata.version("torch")}
    except metadata.PackageNotFoundError:
        return {}


def listen(listener: Listener) -> None:
    """Hear what the agent of this process says. What this release of torch does not have is left out."""
    ways: tuple[Callable[[Listener], None], ...] = (_hear_processes, _hear_events, _hear_rendezvous)
    for hear in ways:
        try:
            hear(listener)
        except Exception as error:
            listener.ring.count_loss()
            log.warning("rerail does not hear all of torchrun (%s): %s", hear.__name__, error)
    atexit.register(listener.close)


def _hear_processes(listener: Listener) -> None:
    logging.getLogger(PROCESS_LOGGER).addHandler(_Handler(listener.process_record))


def _hear_events(listener: Listener) -> None:
    """Beside whoever else hears the events, and whatever `LOGLEVEL` is: the others hear what they did before."""
    from torch.distributed.elastic import events
    from torch.distributed.elastic.events import handlers

    for destination in list(handlers._log_handlers):
        if destination == "dynamic_rendezvous":
            continue
        logger = events._get_or_create_logger(destination)
        for handler in logger.handlers:
            handler.setLevel(max(handler.level, logger.level))
        logger.setLevel(min(logger.level, logging.INFO) or logging.INFO)
        logger.addHandler(_Handler(lambda record: listener.event(str(record.msg))))


def _hear_rendezvous(listener: Listener) -> None:
    """torch does not make these events where nobody hears them."""
    from torch.distributed.elastic.events import handlers

    mine = _Handler(lambda record: listener.event(str(record.msg)))
    if isinstance(handlers._log_handlers.get("dynamic_rendezvous"), logging.NullHandler):
        handlers._log_handlers["dynamic_rendezvous"] = mine
    else:
        logging.getLogger("torchelastic-events-dynamic_rendezvous").addHandler(mine)


@functools.cache
def _class() -> type:
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs

    try:
        if settings().switched_off:
            return DefaultLogsSpecs
        who = identity()
        listener = Listener(who.node, who.job)
    except Exception as error:
        log.warning("rerail states nothing of this torchrun: %s: %s", type(error).__name__, error)
        return DefaultLogsSpecs

    class RerailLogsSpecs(DefaultLogsSpecs):
        """Where the output of workers goes, as torchrun itself has it; and an ear for its agent."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            if not listener.is_listening:
                listener.is_listening = True
                listen(listener)

        def reify(self, envs: dict[int, dict[str, str]]) -> Any:
            """The destinations of one attempt."""
            destinations = super().reify(envs)
            listener.attempt(envs, destinations)
            return destinations

    return RerailLogsSpecs


def __getattr__(name: str) -> Any:
    """The class, made when it is asked for: it needs torch."""
    if name == CLASS:
        return _class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
