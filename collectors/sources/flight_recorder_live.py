"""Flight recorder, live: dumps as they are written, and dumps fetched from ranks that hang before somebody kills them.

A place is a folder, the prefix of `TORCH_NCCL_DEBUG_INFO_TEMP_FILE`, or the address of a worker's server:
`unix:/run/rank_3.sock` (also a pattern: `unix:/run/rank_*.sock`) or `3=http://127.0.0.1:29600`. The rank stands in
front of it or in its name, since a dump does not say whose it is.

Rules
- A file is taken when nothing was written to it for two seconds, and once; one that was there before the first look is
  of another run and left alone, unless all are wanted.
- Workers are asked only while a rank of this node hangs (`step_watch.py`): once for each time their rank stops, and
  again every ten seconds where they do not answer. All at once, each with a limit.
- The evidence is that of `rerail import flight-recorder`: the same dump, seen twice or imported too, is stated once.
- A worker that does not answer while its rank hangs is a source that is down, and so is a folder that is not there.
- A dump that cannot be read is passed over, and logged.
"""

from __future__ import annotations

import argparse
import glob
import json
import logging
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rerail.collectors.identity import identity, settings
from rerail.collectors.live_sources import LiveSource
from rerail.collectors.masking import masked
from rerail.collectors.source import NotConfigured, Polled, Source, SourceDown
from rerail.collectors.sources.flight_recorder import KINDS, belongs, instant_beside
from rerail.collectors.step_watch import RankSight, StepWatch
from rerail.collectors.uploads import understood
from rerail.collectors.worker_server import WorkerSilentError, ask, is_address
from rerail.server.core.facts import Evidence, Fact
from rerail.server.core.flight_recorder.dump import rank_in
from rerail.server.core.flight_recorder.refusal import MOST_BYTES
from rerail.server.core.flight_recorder.summary import STACK_SOURCE

log = logging.getLogger("rerail.flight_recorder")

QUIET_NS = 2 * 10**9
ASK_AGAIN_NS = 10 * 10**9
LOOK_NS = 10**9
MOST_FILES = 4096
MOST_STACK = 12_000
HANDLERS = ("dump_nccl_trace_json", "fr_trace_json")
STACK = "dump_traceback"
_TOLD_RANK = re.compile(r"(?P<rank>\d{1,7})=(?P<address>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Answer:
    address: str
    rank: int
    dump: bytes | None = None
    stack: bytes | None = None
    reason: str | None = None
    """Why there is no answer."""


class FlightRecorderLive:
    """The dumps of this node. `rings` is where its recorders write; without it workers are never asked."""

    name = "flight recorder"

    def __init__(
        self,
        places: Sequence[str],
        *,
        node: str,
        run: str | None = None,
        rings: Path | None = None,
        wants_all: bool = False,
        watch: StepWatch | None = None,
        look_ns: int = LOOK_NS,
    ) -> None:
        self._addresses = [place for place in places if is_address(_split(place)[1])]
        self._folders = [place for place in places if not is_address(_split(place)[1])]
        for place in self._addresses:
            if "*" not in place and _rank_of(place) is None:
                raise ValueError(f"flight recorder: {place!r}: say whose it is: RANK={place}")
        self._node = node
        self._run = run
        self._watch = watch or (StepWatch(rings) if rings is not None else None)
        self._since = 0 if wants_all else time.time_ns()
        self._look_ns = look_ns
        self._looked_at = -look_ns
        self._trouble = ""
        self._passed_over: dict[str, str] = {}
        """Files that hold no evidence, as they were then."""
        self._asked_at: dict[str, int] = {}

    def poll(self, cursor: str | None) -> Polled:
        """Evidence of dumps that were written or fetched since. Raises `SourceDown`."""
        return self._poll(cursor, is_whole=False)

    def finish(self, cursor: str | None) -> Polled:
        """The same, of every file as it is now."""
        return self._poll(cursor, is_whole=True)

    def close(self) -> None:
        """Give the rings back."""
        if self._watch is not None:
            self._watch.close()

    def _poll(self, cursor: str | None, is_whole: bool) -> Polled:
        if not is_whole and cursor is not None and time.monotonic_ns() - self._looked_at < self._look_ns:
            if self._trouble:
                raise SourceDown(self._trouble)
            return Polled((), cursor)
        memory = _memory(cursor, self._since)
        self._looked_at = time.monotonic_ns()
        sights = self._watch.look(time.monotonic_ns()) if self._watch is not None else {}
        run = self._run or next((sight.run for sight in sights.values()), None)
        facts: list[Fact] = []
        trouble: list[str] = []
        for place in self._folders:
            self._read_files(place, run, memory, is_whole, facts, trouble)
        if len(memory["files"]) > MOST_FILES:
            memory["files"] = {name: mark for name, mark in memory["files"].items() if Path(name).exists()}
        if any(sight.is_hanging for sight in sights.values()):
            self._ask_workers(sights, run, memory, facts, trouble)
        self._trouble = "; ".join(trouble)[:500]
        if trouble and not facts:
            raise SourceDown(self._trouble)
        return Polled(tuple(facts), json.dumps(memory, sort_keys=True))

    # --- files -------------------------------------------------------------------------------------------------------

    def _read_files(
        self, place: str, run: str | None, memory: dict[str, Any], is_whole: bool, facts: list[Fact],
        trouble: list[str],
    ) -> None:  # fmt: skip
        told_rank, place = _split(place)
        folder = Path(place)
        pattern = f"{glob.escape(place)}/*" if folder.is_dir() else f"{glob.escape(place)}*"
        if not folder.is_dir() and not folder.parent.is_dir():
            trouble.append(f"{place}: there is no such folder")
            return
        for name in sorted(glob.glob(pattern))[:MOST_FILES]:
            path = Path(name)
            try:
                status = path.stat()
                mark = f"{status.st_size} {status.st_mtime_ns}"
                is_new = status.st_mtime_ns >= memory["since"] and mark not in (
                    memory["files"].get(name),
                    self._passed_over.get(name),
                )
                is_quiet = is_whole or time.time_ns() - status.st_mtime_ns > QUIET_NS
                if not (is_new and is_quiet and path.is_file() and belongs(path.name)):
                    continue
                if run is None:
                    trouble.append(f"{name}: no run is known that it could be of: say --run-id")
                    continue
                content = path.read_bytes() if status.st_size <= MOST_BYTES else b""
            except OSError as error:
                trouble.append(f"{name}: {error}")
                continue
            memory["files"][name] = mark
            if not content:
                log.warning("%s is empty, or longer than %d bytes", name, MOST_BYTES)
            found = self._evidence(name, content, told_rank, run, memory, status.st_mtime_ns) if content else []
            if not found:
                self._passed_over[name] = mark
            facts += found

    # --- workers -----------------------------------------------------------------------------------------------------

    def _ask_workers(
        self, sights: dict[int, RankSight], run: str | None, memory: dict[str, Any], facts: list[Fact],
        trouble: list[str],
    ) -> None:  # fmt: skip
        now = time.monotonic_ns()
        open_targets = []
        for rank, address in self._targets():
            sight = sights.get(rank)
            stop = sight.last_step_at if sight is not None else min(each.last_step_at for each in sights.values())
            if memory["asked"].get(address) == stop:
                continue
            if now - self._asked_at.get(address, -ASK_AGAIN_NS) >= ASK_AGAIN_NS:
                self._asked_at[address] = now
                open_targets.append((rank, address, stop))
            else:
                trouble.append(f"rank {rank} hangs and its server did not answer")
        if not open_targets:
            return
        with ThreadPoolExecutor(max_workers=16) as pool:
            answers = list(pool.map(_fetch, [target[:2] for target in open_targets]))
        for (rank, address, stop), answer in zip(open_targets, answers, strict=True):
            if answer.reason is not None:
                trouble.append(answer.reason)
                continue
            memory["asked"][address] = stop
            whose = run or (sights[rank].run if rank in sights else next(iter(sights.values())).run)
            at = time.time_ns()
            if answer.dump is not None:
                facts += self._evidence(f"rank_{rank}.json", answer.dump, rank, whose, memory, at)
            if answer.stack:
                facts += self._stack(answer.stack, rank, whose, at)

    def _targets(self) -> list[tuple[int, str]]:
        found = []
        for place in self._addresses:
            told, address = _split(place)
            path = address.removeprefix("unix:").removeprefix("//")
            is_pattern = address.startswith("unix:") and "*" in path
            for each in [f"unix:{one}" for one in sorted(glob.glob(path))] if is_pattern else [address]:
                rank = told if told is not None else rank_in(each.removesuffix(".sock"))
                if rank is not None:
                    found.append((rank, each))
        return found[:MOST_FILES]

    # --- evidence ----------------------------------------------------------------------------------------------------

    def _evidence(
        self, name: str, content: bytes, rank: int | None, run: str, memory: dict[str, Any], fallback_at: int
    ) -> list[Fact]:
        digest = sha256(content).hexdigest()
        if digest in memory["dumps"]:
            return []
        found = understood(name, content, rank)
        if found.kind not in KINDS:
            log.warning("%s is no flight recorder dump", name)
            return []
        for words in found.refused:
            log.warning("%s: %s", name, words)
        memory["dumps"] = [*memory["dumps"], digest][-MOST_FILES:]
        otherwise = instant_beside(name) or fallback_at
        return [
            Evidence(
                run=run, emitter=f"artefact/{digest}", artefact=digest, seq=seq, at=piece.at or otherwise,
                source=piece.source, text=piece.text, code=piece.code, rank=piece.rank,
                node=piece.node, attributes=piece.attributes,
            )
            for seq, piece in enumerate(found.pieces)
        ]  # fmt: skip

    def _stack(self, content: bytes, rank: int, run: str, at: int) -> list[Fact]:
        text = masked(content.decode(errors="replace")[:MOST_STACK]).strip()
        digest = sha256(content).hexdigest()[:32]
        return [
            Evidence(
                run=run, emitter=f"stack/{self._node[:100]}/{digest}/{at}", seq=0, at=at, source=STACK_SOURCE,
                text=text,
                code="stack_dump", rank=rank, node=self._node,
            )
        ] if text else []  # fmt: skip


def _fetch(target: tuple[int, str]) -> _Answer:
    """The dump of a worker and where its threads stand."""
    rank, address = target
    try:
        dump = next((told for told in (ask(address, name) for name in HANDLERS) if told), None)
        stack = ask(address, STACK)
    except WorkerSilentError as error:
        return _Answer(address, rank, reason=f"rank {rank}: {error}")
    return _Answer(address, rank, dump, stack)


def _split(place: str) -> tuple[int | None, str]:
    """The rank that stands before a place, and the place."""
    told = _TOLD_RANK.fullmatch(place)
    return (int(told["rank"]), told["address"]) if told else (None, place)


def _rank_of(place: str) -> int | None:
    told, address = _split(place)
    return told if told is not None else rank_in(address.removesuffix(".sock")) if address[:5] == "unix:" else None


def _memory(cursor: str | None, since: int) -> dict[str, Any]:
    """What a cursor holds; one that makes no sense is the beginning."""
    empty: dict[str, Any] = {"since": since, "files": {}, "asked": {}, "dumps": []}
    try:
        told = json.loads(cursor) if cursor else {}
    except ValueError:
        return empty
    if not isinstance(told, dict) or any(type(told.get(name, kept)) is not type(kept) for name, kept in empty.items()):
        return empty
    return {**empty, **{name: told[name] for name in empty if name in told}}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("places", nargs="+", metavar="PLACE", help="a folder or a prefix of files")


def _make(arguments: argparse.Namespace) -> tuple[Source, ...]:
    run = arguments.run_id or settings().run
    if run is None:
        raise NotConfigured("--run-id: a dump does not name its run")
    try:
        return (FlightRecorderLive(arguments.places, node=identity().node, run=run, wants_all=True),)
    except ValueError as error:
        raise NotConfigured(str(error)) from None


SOURCE = LiveSource(
    name="flight-recorder",
    summary="dumps of PyTorch's flight recorder as they are written",
    description="States what each dump says: a folder, or the prefix of TORCH_NCCL_DEBUG_INFO_TEMP_FILE.",
    add_arguments=_add_arguments,
    make=_make,
)
