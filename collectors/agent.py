"""Agent: reads the rings of a node and polls its sources, and hands facts to the spool.

Rules
- One look (`look`) reads everything once. What it read and the cursors that say so are stored together, so a kill at
  any instant loses nothing and states nothing twice under other content.
- A rank is gone when its process id is free or belongs to a process that started at another time. Where process ids
  of its container cannot be seen from here, nothing is said.
- The agent does not know why a rank ended. It states what it saw (`evidence`, source `agent`), never an exit code and
  never a recovery mark. Where a rank ended well, the time until its process was gone is `overhead:teardown`;
  after an error that time belongs to the fault.
- A ring is removed when its process is gone and everything in it is in the spool.
- A source that is down is `blind` from the first failure to the next success; so is a rank without a ring. A source of
  several runs says which they are (`runs`), and each of them is told.
- At a stop every source is looked at once more, and states what it held back (`leave`); one that was being looked at
  ends its look at once (`heed`).
- The clock of a node is told (`clock`) for every emitter on it, and only when it is off by clearly more than the
  measurement can be.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rerail.collectors.blindness import Blindness
from rerail.collectors.outlet import ClockReading, Outlet
from rerail.collectors.ring import CLOSED_BY_ERROR, RingReader, process_namespace, process_started
from rerail.collectors.ring_facts import CLOCK, SEQUENCES_PER_SLOT, RingFacts, RingPlace
from rerail.collectors.sender import Sender
from rerail.collectors.source import LookGivenUp, Polled, Source, SourceDown
from rerail.collectors.spool import MOST_BYTES, Spool, SpoolFull
from rerail.collectors.unheard import SOURCE, unheard_in
from rerail.server.core.facts import Blind, Clock, Evidence, Fact, Phase, PhaseSpan

log = logging.getLogger("rerail.agent")

BLIND_RUNS = "runs blind "
MOST_BLIND_RUNS = 1000
LOOK_SECONDS = 0.15
SMALLEST_OFFSET_US = 5_000
OFFSET_OVER_ERROR = 3


@dataclass(slots=True)
class _Ring:
    """A ring that is being read."""

    facts: RingFacts
    place: RingPlace = field(default_factory=RingPlace)
    lost: int = 0
    said_gone: bool = False
    seen_alive_at: int | None = None
    """When its process was last seen, by this agent; wall clock."""
    stated: set[int] = field(default_factory=set)
    """Sequence numbers stated beyond `place`: another look would give them again."""
    clock_us: int | None = None
    clock_told_at: int = 0

    @property
    def cursor(self) -> str:
        return json.dumps({**asdict(self.place), "lost": self.lost, "said_gone": self.said_gone})


class Agent:
    """Reads `directory` and sends to an outlet. `run` blocks; `look` and `sender` can be stepped one by one."""

    def __init__(
        self,
        directory: Path,
        outlet: Outlet,
        node: str,
        *,
        run: str | None = None,
        sources: Sequence[Source] = (),
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.directory = directory
        self.node = node
        self._run = run
        self._rings_directory = directory / "rings"
        self._rings_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.spool = Spool(directory / "spool.db", most_bytes)
        self.sender = Sender(self.spool, outlet, directory / "refused.jsonl", on_clock=self._take_clock)
        self.emitter = f"agent/{node[:150]}/{self.spool.mark}"
        self._sources = list(sources)
        self._is_leaving = False
        """It looks for the last time."""
        self._rings: dict[Path, _Ring] = {}
        self._unreadable: dict[Path, str] = {}
        self._full_since: int | None = None
        self._blindness = Blindness(self.spool, self._say_blind)
        self._clock: ClockReading | None = None
        self._namespace = process_namespace()
        self._last_run = run
        self._blind_runs: dict[str, tuple[str, ...]] = {
            name.removeprefix(BLIND_RUNS): tuple(json.loads(told))
            for name, told in self.spool.cursors(BLIND_RUNS).items()
            if told
        }
        """Source that is down → the runs that were told so."""
        self._seq = int(self.spool.cursor("agent seq") or 0)

    @property
    def last_run(self) -> str | None:
        """The run that was told of last: of the latest ring, or named at the start; None where none is known."""
        return self._last_run

    # --- running ---------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event, drain_seconds: float = 10.0) -> None:
        """Look and send until told to stop, then look and send what is left."""
        for source in self._sources:
            getattr(source, "heed", lambda _: None)(stop)
        sending = threading.Thread(target=self.sender.run, args=(stop,), name="rerail-sender", daemon=True)
        sending.start()
        while not stop.is_set():
            self.look()
            stop.wait(LOOK_SECONDS)
        self.leave()
        sending.join(timeout=drain_seconds)
        try:
            if not self.sender.drain(drain_seconds):
                log.warning("%d facts stay in %s for the next agent", self.spool.waiting(), self.directory)
        except SpoolFull as error:
            log.warning("the spool cannot be written: %s", error)

    def close(self) -> None:
        """Give everything back; what waits stays in the spool."""
        for ring in self._rings.values():
            ring.facts.ring.close()
        self._rings.clear()
        for source in self._sources:
            getattr(source, "close", lambda: None)()
        self.spool.close()

    def leave(self) -> None:
        """Look for the last time: what sources hold back for company is stated."""
        self._is_leaving = True
        self.look()

    def look(self) -> None:
        """Read every ring and poll every source once."""
        if not self._make_room():
            return
        try:
            for path in sorted(self._rings_directory.glob("*.ring")):
                self._look_at_ring(path)
            self._look_for_unheard()
            for source in self._sources:
                self._look_at_source(source)
        except SpoolFull as error:
            if self._full_since is None:
                self._full_since = time.time_ns()
                log.warning("nothing more is read until the spool can be written: %s", error)
            return
        if self._full_since is not None:
            since, self._full_since = self._full_since, None
            self._say_blind("agent", since, time.time_ns(), "the disk under the spool was full")

    def _make_room(self) -> bool:
        if self.spool.has_room:
            return True
        try:
            dropped = self.spool.relieve()
        except SpoolFull:
            return False
        if dropped:
            log.warning("%d heartbeats and metrics were dropped: the spool is full", dropped)
            now = time.time_ns()
            self._say_blind("agent", now, now, f"{dropped} heartbeats and metrics were dropped: the spool was full")
        return self.spool.has_room

    # --- rings -----------------------------------------------------------------------------------------------------

    def _look_at_ring(self, path: Path) -> None:
        ring = self._opened(path)
        if ring is None:
            return
        is_gone = self._is_gone(ring)  # asked before reading: what a gone process wrote is all there
        now = time.monotonic_ns()
        reading = ring.facts.read(ring.place, now, until=0 if is_gone else None)
        facts: list[Fact] = [fact for fact in reading.facts if fact.seq not in ring.stated]
        lost = ring.facts.ring.lost
        before = (ring.place, ring.lost, ring.said_gone)
        ring.place = reading.place
        if lost > ring.lost:
            facts.append(self._loss(ring, lost - ring.lost))
            ring.lost = lost
        if clock := self._clock_of(ring, reading.written, now):
            facts.append(clock)
        if is_gone and not ring.said_gone:
            facts += self._farewell(ring, reading.last_instant)
        if not is_gone:
            ring.seen_alive_at = time.time_ns()
        ring.said_gone = ring.said_gone or is_gone
        try:
            if facts or before != (ring.place, ring.lost, ring.said_gone):
                self.spool.store(facts, {f"ring {path.name}": ring.cursor, "agent seq": str(self._seq)})
        except SpoolFull:
            ring.place, ring.lost, ring.said_gone = before
            raise
        ring.stated = {seq for seq in ring.stated if seq >= ring.place.slot * SEQUENCES_PER_SLOT}
        ring.stated.update(fact.seq for fact in facts if fact.seq >= ring.place.slot * SEQUENCES_PER_SLOT)
        if is_gone and ring.place.slot >= reading.written:
            self._remove(path, ring)

    def _opened(self, path: Path) -> _Ring | None:
        if path in self._rings:
            return self._rings[path]
        source = f"ring {path.name}"
        if path in self._unreadable:
            self._blindness.cannot_see(source, self._unreadable[path])
            return None
        try:
            facts = RingFacts(RingReader(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
            log.warning("%s is not a ring that can be read: %s", path, error)
            self._unreadable[path] = f"it cannot be read: {error}"
            self._blindness.cannot_see(source, self._unreadable[path])
            return None
        ring = _Ring(facts)
        told = self.spool.cursor(f"ring {path.name}")
        if told is not None:
            kept = json.loads(told)
            ring.place = RingPlace(kept["slot"], kept["steps"], kept["beats"])
            ring.lost, ring.said_gone = kept["lost"], kept["said_gone"]
        self._last_run = str(facts.identity.get("run") or self._last_run)
        self._rings[path] = ring
        return ring

    def _is_gone(self, ring: _Ring) -> bool:
        header = ring.facts.ring.header
        if header.about.get("namespace") != self._namespace:
            return ring.facts.ring.closed_at is not None
        return process_started(header.process) != header.process_started

    def _farewell(self, ring: _Ring, last_instant: int | None) -> list[Fact]:
        """What is seen when a process is gone: how long it took to end, or that it did not say it would."""
        closed_at = ring.facts.ring.closed_at
        if closed_at is None:
            return [self._missed(ring, last_instant)]
        start, end = ring.facts.wall(closed_at), ring.seen_alive_at
        if closed_at == CLOSED_BY_ERROR or end is None or end <= start:
            return []  # that time belongs to the fault; or nobody looked while it ended
        common = self._common(end) | ring.facts.place
        return [PhaseSpan(**common, phase=Phase.OVERHEAD, name="teardown", start=start, end=end)]  # type: ignore[arg-type]

    def _missed(self, ring: _Ring, last_instant: int | None) -> Fact:
        """The process is gone and did not close its ring: that, and nothing about why."""
        rank = ring.facts.identity.get("rank")
        who = f"the process of rank {rank}" if rank is not None else "a process"
        at = time.time_ns()
        since = "" if last_instant is None else f", {max(0, at - last_instant) / 1e9:.1f} s after its last step or beat"
        return Evidence(
            **(self._common(at) | ring.facts.place),  # type: ignore[arg-type]
            source="agent",
            text=f"{who} (pid {ring.facts.ring.header.process}) was found gone without a goodbye{since}",
            code="process_gone",
        )

    def _loss(self, ring: _Ring, lost: int) -> Fact:
        """The writer of a ring could not write some of its records."""
        at = time.time_ns()
        reason = f"{lost} records were not written"
        common = self._common(at) | ring.facts.place
        return Blind(**common, source="recorder", since=at, until=at, reason=reason)  # type: ignore[arg-type]

    def _remove(self, path: Path, ring: _Ring) -> None:
        ring.facts.ring.close()
        del self._rings[path]
        try:
            path.unlink(missing_ok=True)
            self.spool.forget(f"ring {path.name}")
        except OSError as error:
            log.warning("%s cannot be removed: %s", path, error)
            self._unreadable[path] = f"it cannot be removed: {error}"

    def _look_for_unheard(self) -> None:
        """Ranks that could not make a ring leave a file that says so; it goes when they are heard."""
        unheard = unheard_in(self._rings_directory)
        for source in self._blindness.sources():
            if source.startswith(SOURCE) and source not in unheard:
                self._blindness.sees(source)
        for source, (since, reason) in unheard.items():
            if self._blindness.cannot_see(source, reason, since):
                log.warning("nothing is heard of the %s: %s", source, reason)

    # --- sources ---------------------------------------------------------------------------------------------------

    def _look_at_source(self, source: Source) -> None:
        name = f"source {source.name}"
        try:
            polled = self._poll_of(source)(self.spool.cursor(name))
        except LookGivenUp:
            return
        except SourceDown as error:
            if self._blindness.cannot_see(source.name, str(error)):
                log.warning("%s cannot see: %s", source.name, error)
            return
        if source.name in self._blindness.sources():
            log.info("%s sees again", source.name)
        self._blindness.sees(source.name)
        if polled.facts or polled.cursor != self.spool.cursor(name):
            self.spool.store(polled.facts, {name: polled.cursor})
        if polled.facts:
            self._last_run = polled.facts[-1].run

    def _poll_of(self, source: Source) -> Callable[[str | None], Polled]:
        leave: Callable[[str | None], Polled] | None = getattr(source, "leave", None)
        return leave if self._is_leaving and leave is not None else source.poll

    # --- what the agent itself says --------------------------------------------------------------------------------

    def _common(self, at: int) -> dict[str, object]:
        """Identity of the next thing the agent says. The count is stored together with the fact."""
        seq, self._seq = self._seq, self._seq + 1
        return {"run": self._last_run, "emitter": self.emitter, "seq": seq, "at": at, "node": self.node}

    def _say_blind(
        self, source: str, since: int, until: int | None, reason: str | None, cursors: Mapping[str, str] | None = None
    ) -> bool:
        """State that something could not be seen; False where no run is known that it concerns, or no room left."""
        runs = self._runs_of(source)
        if not runs:
            return False
        at = time.time_ns()
        facts = [
            Blind(**(self._common(at) | {"run": run}), source=source[:200], since=since, until=until, reason=reason)  # type: ignore[arg-type]
            for run in runs
        ]
        kept = {BLIND_RUNS + source: "" if until is not None else json.dumps(runs)} if len(runs) > 1 else {}
        try:
            self.spool.store(facts, {"agent seq": str(self._seq), **kept, **(cursors or {})})
        except SpoolFull as error:
            log.warning("what the agent had to say could not be kept: %s", error)
            return False
        if until is None:
            self._blind_runs[source] = runs
        else:
            self._blind_runs.pop(source, None)
        return True

    def _runs_of(self, source: str) -> tuple[str, ...]:
        """Whom it concerns that a source is down: who was told that it is, else the runs that it tells of."""
        told = self._blind_runs.get(source)
        if told:
            return told
        runs: tuple[str, ...] = next((getattr(each, "runs", ()) for each in self._sources if each.name == source), ())
        return runs[:MOST_BLIND_RUNS] or ((self._last_run,) if self._last_run else ())

    def _take_clock(self, reading: ClockReading) -> None:
        """Keep the best of the recent readings: the quickest exchange is the most exact."""
        kept = self._clock
        if kept is None or reading.error_us <= kept.error_us * 1.5 or abs(reading.offset_us - kept.offset_us) > 50_000:
            self._clock = reading

    def _clock_of(self, ring: _Ring, at_slot: int, now: int) -> Fact | None:
        """The offset of a rank's clock: the node's, plus what the wall clock was moved by since the rank started."""
        if self._clock is None:
            return None
        moved_us = (ring.facts.wall(time.monotonic_ns()) - time.time_ns()) // 1000
        offset, error = self._clock.offset_us + moved_us, self._clock.error_us
        told = ring.clock_us
        if told is None and abs(offset) <= max(SMALLEST_OFFSET_US, OFFSET_OVER_ERROR * error):
            return None
        if told is not None and abs(offset - told) <= max(SMALLEST_OFFSET_US, OFFSET_OVER_ERROR * error):
            return None
        if ring.clock_told_at and now - ring.clock_told_at < 10_000_000_000:
            return None
        ring.clock_us, ring.clock_told_at = offset, now
        identity = ring.facts.identity
        return Clock(
            run=str(identity.get("run")),
            emitter=ring.facts.emitter,
            seq=at_slot * SEQUENCES_PER_SLOT + CLOCK,
            at=ring.facts.wall(now),
            node=self.node,
            offset_us=offset,
            error_us=error,
            method="answer",
        )
