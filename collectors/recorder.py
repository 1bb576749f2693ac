"""Recorder: what one rank says about itself, at about half a microsecond a step.

    from rerail.collectors.recorder import Recorder

    with Recorder() as recorder:            # process start until `ready()` is `initializing`
        with recorder.loading() as load:
            load.step = load_checkpoint()
        recorder.ready()                    # the first step begins now
        for step in range(load.step + 1, last + 1):
            train_one()
            recorder.step(step)             # step number `step` is completed
            if step % 100 == 0:
                with recorder.saving(step):
                    save()

Rules
- Nothing here raises into training. A record that cannot be written is counted, and the agent reports the count.
- Records lie in a ring file (`ring.py`) that outlives a SIGKILL of this process; the agent reads it.
- A step begins when the one before it ended, so that no time is lost between two steps. Phases lie over steps, and the
  accounting subtracts them. The first step begins at `ready()`; without it, bring-up lasts until the first step ended.
- Durations come from the monotonic clock, instants from that clock and one reading of the wall clock at the start.
- A disk that is full when the ring is made costs what is recorded until it has room again: it is tried anew, the agent
  hears of it by a file without content (`unheard.py`), and what was lost is counted.
- A child made by fork records nothing: two writers would tear the ring.
- No lock: threads and signal handlers may call everything.
- `saving` and `capturing` state the phase on every rank and the moments of the checkpoint on rank 0 only: a checkpoint
  of all ranks is one checkpoint. `checkpoint` states whatever it is told.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType

from rerail.collectors.identity import Identity, Settings, identity, settings
from rerail.collectors.masking import masked
from rerail.collectors.ring import (
    BEAT,
    BEAT_SLOT,
    CLOSED_BY_ERROR,
    HEADER_BYTES,
    STEP,
    STEP_SLOT,
    RingWriter,
    process_namespace,
    process_started,
    tag,
)
from rerail.collectors.unheard import Unheard

_now = time.monotonic_ns
_pack_step = STEP_SLOT.pack_into
_pack_beat = BEAT_SLOT.pack_into

log = logging.getLogger("rerail.recorder")

BEAT_PHASES = (
    "training", "initializing", "loading", "saving", "evaluating", "data_wait", "overhead", "rendezvous", "stopping",
)  # fmt: skip
"""Phases a heartbeat can be counted under; the code in the ring is the place in this table."""

BEAT_FOLD_NS = 5_000_000_000

OPEN_AGAIN_NS = 30_000_000_000
"""Where no ring could be made, it is tried again this often."""

SMALL_RING = 64 * 1024
"""A ring of this size is tried where the disk has no room for a whole one: about a thousand records."""

MOST_RINGS = 512
"""Rings that may wait in one directory. Where no agent ever comes to empty them, a disk must not fill up."""


@dataclass(slots=True)
class Load:
    """A load in progress: whoever loads fills in what was loaded. No step means that nothing was."""

    step: int | None = None
    checkpoint: str | None = None
    tier: str | None = None
    location: str | None = None


class Recorder:
    """States what this rank does. Made once per process; a context manager, or closed by `close()`.

    The environment says which run and rank this is and where records go; `run` and `directory` win over it. `config`
    holds recovery settings only the training knows (checkpoint interval, collective timeout, …).
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        config: Mapping[str, object] | None = None,
        versions: Mapping[str, str] | None = None,
        who: Identity | None = None,
        where: Settings | None = None,
    ) -> None:
        self._lost = 0
        self._ring: RingWriter | None = None
        self._buffer: object = None
        self._take = _nothing_to_take
        self._mask = 0
        self._iteration = 0
        self._step_tag = tag(STEP, 0, 0)
        self._last_step = 0
        self._step_began: int | None = None
        self._last_beat = 0
        self._phase_code = 1
        self._begun_code = -1
        self._span_count = 0
        self._open_spans: dict[str, tuple[str, int]] = {}
        self._closed = False
        self._has_failed = False
        self._process = os.getpid()
        self._armed_us = 0
        self._interrupted_by = "fault"
        self._bring_up = ""
        self._opening: Callable[[bool], None] | None = None
        self._opening_lock = threading.Lock()
        self._open_again_at = 0
        self._unheard: Unheard | None = None
        self.emitter = ""
        self.is_first_rank = False
        try:
            who, where = who or identity(), where or settings()
            who = who if run is None else replace(who, run=run[:200])
            where = where if directory is None else replace(where, directory=Path(directory))
            self._mark = uuid.uuid4().hex[:12]
            self._rank = "x" if who.rank is None else str(who.rank)
            self.emitter = f"rank/{who.node[:120]}/{self._rank}/{self._mark}"
            self.is_first_rank = who.rank in (0, None)
            if where.switched_off:
                return
            self._opening = partial(self._open, who, where, config or {}, versions or {})
            self._opening(False)
        except Exception as error:
            self._lost += 1
            log.warning("rerail records nothing of this process: %s: %s", type(error).__name__, error)
            self._open_again_at = _now() + OPEN_AGAIN_NS
            with suppress(Exception):
                assert where is not None
                self._unheard = Unheard(where.directory / "rings", self._rank, self._mark, str(error))

    def _open(
        self,
        who: Identity,
        where: Settings,
        config: Mapping[str, object],
        versions: Mapping[str, str],
        is_late: bool,
    ) -> None:
        """Make the ring and say who this is. Late: what went on before was not seen, so nothing is said of it."""
        self._monotonic_anchor = _now()
        self._wall_anchor = time.time_ns()
        self._last_beat = self._monotonic_anchor
        rings = where.directory / "rings"
        rings.mkdir(parents=True, exist_ok=True, mode=0o700)
        if len(os.listdir(rings)) >= MOST_RINGS:
            raise OSError(f"{MOST_RINGS} rings wait in {rings} and no agent reads them")
        about = {
            "emitter": self.emitter,
            "identity": {name: getattr(who, name) for name in who.__dataclass_fields__},
            "fold_ns": int(where.fold_seconds * 1e9),
            "beat_fold_ns": BEAT_FOLD_NS,
            "namespace": process_namespace(),
        }
        ring = self._new_ring(rings / f"rank{self._rank}-{os.getpid()}-{self._mark}.ring", where.ring_bytes, about)
        self._ring, self._buffer, self._take, self._mask = ring, ring.buffer, ring.take, ring.mask
        os.register_at_fork(after_in_child=self._forget)
        born = self._born()
        if self.is_first_rank:
            self._state(
                "attempt_started", at=born, world_size=who.world_size, scope=_scope(who),
                versions=dict(versions) or None, config=dict(config) or None,
            )  # fmt: skip
        if not is_late:
            self._bring_up = self._begin("initializing", born)

    def _new_ring(self, path: Path, ring_bytes: int, about: dict[str, object]) -> RingWriter:
        """A ring of that size; a small one where the disk is nearly full, which is better than none."""
        anchor = (self._wall_anchor, self._monotonic_anchor)
        try:
            return RingWriter(path, ring_bytes, anchor, about)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or ring_bytes <= SMALL_RING:
                raise
            return RingWriter(path, SMALL_RING, anchor, about)

    def _open_late(self) -> None:
        """Try again to make the ring: a disk that was full may have room now."""
        if self._opening is None or not self._opening_lock.acquire(blocking=False):
            return
        try:
            if self._ring is None and _now() >= self._open_again_at:
                self._open_again_at = _now() + OPEN_AGAIN_NS
                if self._unheard is not None:
                    self._unheard.renew()
                self._opening(True)
                log.warning("rerail records this process again; %d records before were lost", self._lost)
                if self._unheard is not None:
                    self._unheard.end()
        finally:
            self._opening_lock.release()

    # --- the two calls that training makes all the time ------------------------------------------------------------

    def step(self, step: int | None = None) -> None:
        """Step number `step` (default: the one after the last) is completed, now."""
        try:
            now = _now()
            if step is None:
                step = self._last_step + 1
            began = self._step_began
            if began is None:
                began = now
                self._end_bring_up(now)
            number = self._take()
            word = number + 1
            _pack_step(
                self._buffer, HEADER_BYTES + ((number & self._mask) << 6), word, self._step_tag, step, began, now, word
            )
            self._step_began = now
            self._last_step = step
        except Exception:
            if self._ring is None and isinstance(step, int):
                self._step_began = _now()
                self._last_step = step
            self._count_loss()

    def heartbeat(self) -> None:
        """This rank is alive, now. The gap before it counts for the phase that began in it, else the current one."""
        try:
            now = _now()
            code = self._begun_code if self._begun_code >= 0 else self._phase_code
            number = self._take()
            word = number + 1
            _pack_beat(
                self._buffer, HEADER_BYTES + ((number & self._mask) << 6), word,
                tag(BEAT, code, self._iteration), self._last_beat, now, self._armed_us,
                self._last_step, word,
            )  # fmt: skip
            self._last_beat = now
            self._begun_code = -1
        except Exception:
            self._count_loss()

    # --- moments ---------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Bring-up is over: the first step begins now."""
        try:
            now = _now()
            self._end_bring_up(now)
            self._step_began = now
        except Exception:
            self._count_loss()

    def run(
        self,
        *,
        name: str | None = None,
        project: str | None = None,
        target_step: int | None = None,
        world_size: int | None = None,
        gpus: int | None = None,
        nodes: int | None = None,
        framework: str | None = None,
        gpu_type: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Say what this run is. One rank is enough."""
        self._state(
            "run_started", name=name, project=project, target_step=target_step, world_size=world_size, gpus=gpus,
            nodes=nodes, framework=framework, gpu_type=gpu_type, labels=dict(labels) if labels else None,
        )  # fmt: skip

    def finished(self, reason: str | None = None) -> None:
        """The run reached its goal: nothing more will come of it. One rank is enough."""
        self._state("run_ended", outcome="completed", reason=reason)

    def checkpoint(
        self,
        step: int,
        stage: str,
        *,
        mode: str | None = None,
        tier: str | None = None,
        checkpoint: str | None = None,
        size_bytes: int | None = None,
        location: str | None = None,
        blocked_us: int | None = None,
    ) -> None:
        """The checkpoint of `step` reached a stage: started, captured, durable, failed or deleted."""
        self._state(
            "checkpoint", step=step, stage=stage, mode=mode, tier=tier, checkpoint=checkpoint, bytes=size_bytes,
            location=location, blocked_us=blocked_us,
        )  # fmt: skip

    def loaded(self, step: int, seconds: float, *, outcome: str | None = None, location: str | None = None) -> None:
        """The checkpoint of `step` was read in the `seconds` before now."""
        try:
            now = _now()
            start = now - max(0, int(seconds * 1e9))
            self._say_loaded(Load(step=step, location=location), start, now, outcome)
        except Exception:
            self._count_loss()

    def evidence(self, text: str, *, source: str = "stderr", code: str | None = None, **attributes: str) -> None:
        """A piece of text that may tell why something went wrong. Secrets are masked here."""
        try:
            self._state("evidence", source=source, text=masked(text) or "?", code=code, attributes=attributes or None)
        except Exception:
            self._count_loss()

    def exception(self, error: BaseException) -> None:
        """An exception that ends, or may end, this rank."""
        try:
            last = "".join(traceback.format_exception_only(error)).strip()
            frames = traceback.extract_tb(error.__traceback__)
            where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
            self.evidence(last[:4000], code=type(error).__name__, **({"frame": masked(where)} if where else {}))
        except Exception:
            self._count_loss()

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        """A number that advice and correctness checks need."""
        try:
            self._state("metric", name=name, value=float(value), step=step)
        except Exception:
            self._count_loss()

    def passed(self, phase: str, seconds: float) -> None:
        """This rank was in `phase` during the `seconds` before now: for what is worth telling only when it was long."""
        try:
            now = _now()
            start, end = self._wall(now - max(0, int(seconds * 1e9))), self._wall(now)
            self._span_count += 1
            span = f"{self.emitter.rpartition('/')[2]}-{self._span_count}"
            self._state("phase", phase=phase, start=start, end=end, span=span, at=end)
        except Exception:
            self._count_loss()

    def mark(self, stage: str, *, by: str | None = None, text: str | None = None) -> None:
        """A moment of a recovery this rank leads or sees: noticed, aborting, …"""
        self._state("recovery_mark", stage=stage, by=by, text=text)

    def configured(self, config: Mapping[str, object], *, versions: Mapping[str, str] | None = None) -> None:
        """Recovery settings that became known after this recorder was made. One rank is enough; others say nothing."""
        try:
            if self.is_first_rank:
                self._state("attempt_started", config=dict(config) or None, versions=dict(versions or {}) or None)
        except Exception:
            self._count_loss()

    @property
    def iteration(self) -> int:
        """How many in-process restarts this process has behind it."""
        return self._iteration

    def iterate(self, iteration: int, world_size: int | None = None) -> None:
        """In-process restart number `iteration` begins in this process; bring-up begins anew."""
        try:
            if iteration == self._iteration:
                return
            now = _now()
            self._end_bring_up(now)
            for span in list(self._open_spans):
                self._end(span)
            self._iteration = iteration
            self._step_tag = tag(STEP, 0, iteration)
            self._step_began = None
            by, self._interrupted_by = self._interrupted_by, "fault"
            self._state("attempt_started", scope="in_process", initiator=by, world_size=world_size)
            self._bring_up = self._begin("initializing", self._wall(now))
        except Exception:
            self._count_loss()

    def interrupted(self, initiator: str) -> None:
        """Who asked for the next in-process restart, where that is no fault of a rank: `monitor`."""
        self._interrupted_by = initiator

    def arm(self, timeout_us: int | None) -> None:
        """The timeout that guards the next heartbeat; None: no limit, or not known."""
        self._armed_us = timeout_us or 0

    # --- spans -----------------------------------------------------------------------------------------------------

    @contextmanager
    def phase(self, phase: str) -> Iterator[None]:
        """The rank is in `phase` (evaluating, data_wait, overhead:<name>, …) while the block runs."""
        span = self._try_begin(phase)
        try:
            yield
        finally:
            self._try_end(span)

    @contextmanager
    def saving(self, step: int, *, tier: str | None = None, location: str | None = None) -> Iterator[None]:
        """A checkpoint that blocks training until it is durable."""
        with self._blocked_by(step, "sync", "durable", tier, location):
            yield

    @contextmanager
    def capturing(self, step: int, *, tier: str | None = None, location: str | None = None) -> Iterator[None]:
        """The part of an asynchronous checkpoint that blocks training.

        The checkpoint is captured after it. Say `checkpoint(step, "durable")` when it is.
        """
        with self._blocked_by(step, "async", "captured", tier, location):
            yield

    @contextmanager
    def loading(self) -> Iterator[Load]:
        """A checkpoint is read while the block runs; the block fills in the step it found."""
        load = Load()
        start = _now()
        try:
            yield load
        except BaseException:
            if load.step is not None:
                self._try_say_loaded(load, start, "failed")
            raise
        if load.step is not None:
            self._try_say_loaded(load, start, None)

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Say that nothing more comes of this process. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._unheard is not None and self._ring is None and os.getpid() == self._process:
                self._unheard.end()
            for span in list(self._open_spans):
                self._end(span)
            if self._ring is not None:
                self._ring.mark_closed(CLOSED_BY_ERROR if self._has_failed else _now())
        except Exception:
            self._count_loss()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, SystemExit):
            self._has_failed = True
            self.exception(error)
        self.close()

    @property
    def lost(self) -> int:
        """Records that could not be written."""
        return self._lost

    @property
    def last_step(self) -> int:
        """The last step that was completed, or loaded."""
        return self._last_step

    # --- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _blocked_by(self, step: int, mode: str, reached: str, tier: str | None, location: str | None) -> Iterator[None]:
        """Training stands still for a checkpoint that has `reached` a stage when the block is left."""

        def moment(stage: str, blocked_us: int | None = None) -> None:
            if self.is_first_rank:
                self.checkpoint(step, stage, mode=mode, tier=tier, location=location, blocked_us=blocked_us)

        began = _now()
        moment("started")
        span = self._try_begin("saving")
        try:
            yield
        except BaseException:
            self._try_end(span)
            moment("failed")
            raise
        self._try_end(span)
        moment(reached, (_now() - began) // 1000)

    def _wall(self, monotonic: int) -> int:
        return self._wall_anchor + monotonic - self._monotonic_anchor

    def _born(self) -> int:
        """Wall clock at the start of this process; now, where the kernel does not say."""
        with suppress(Exception):
            started = process_started(os.getpid())
            if started is not None:
                second = 1_000_000_000
                age = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started * second // os.sysconf("SC_CLK_TCK")
                if 0 <= age < 10 * 365 * 86400 * second:
                    return time.time_ns() - age
        return time.time_ns()

    def _state(self, kind: str, *, at: int | None = None, **told: object) -> None:
        """Write one fact; what was not told is left out."""
        try:
            if self._ring is None:
                self._count_loss()
                return
            stated = {"kind": kind, "at": at or self._wall(_now())}
            stated.update((name, value) for name, value in told.items() if value is not None)
            self._ring.write_text(json.dumps(stated, separators=(",", ":"), default=str).encode(), self._iteration)
        except Exception:
            self._count_loss()

    def _begin(self, phase: str, start: int) -> str:
        self._span_count += 1
        span = f"{self.emitter.rpartition('/')[2]}-{self._span_count}"
        self._open_spans[span] = (phase, start)
        self._phase_code = self._begun_code = _beat_code(phase)
        self._state("phase", phase=phase, start=start, span=span, at=start)
        return span

    def _end(self, span: str, end: int | None = None) -> None:
        opened = self._open_spans.pop(span, None)
        if opened is None:
            return
        phase, start = opened
        end = max(start, end or self._wall(_now()))
        self._phase_code = _beat_code(next(reversed(self._open_spans.values()))[0]) if self._open_spans else 0
        self._state("phase", phase=phase, start=start, end=end, span=span, at=end)

    def _try_begin(self, phase: str) -> str:
        try:
            return self._begin(phase, self._wall(_now()))
        except Exception:
            self._count_loss()
            return ""

    def _try_end(self, span: str) -> None:
        try:
            self._end(span)
        except Exception:
            self._count_loss()

    def _end_bring_up(self, now: int) -> None:
        self._end(self._bring_up, self._wall(now))

    def _say_loaded(self, load: Load, start: int, end: int, outcome: str | None) -> None:
        if outcome in (None, "ok") and load.step is not None:
            self._last_step = load.step
        self._state(
            "checkpoint_loaded", step=load.step, start=self._wall(start), end=self._wall(end), at=self._wall(end),
            checkpoint=load.checkpoint, tier=load.tier, location=load.location, outcome=outcome,
        )  # fmt: skip

    def _try_say_loaded(self, load: Load, start: int, outcome: str | None) -> None:
        try:
            self._say_loaded(load, start, _now(), outcome)
        except Exception:
            self._count_loss()

    def _count_loss(self) -> None:
        self._lost += 1
        with suppress(Exception):
            if os.getpid() != self._process:
                return
            if self._ring is None and not self._closed and _now() >= self._open_again_at:
                self._open_late()
            if self._ring is not None:
                self._ring.count_lost(self._lost)

    def _forget(self) -> None:
        """In a forked child: the ring belongs to the parent."""
        self._ring = None
        self._buffer = None
        self._take = _nothing_to_take


def _nothing_to_take() -> int:
    raise LookupError("no ring")


def _beat_code(phase: str) -> int:
    name = phase.partition(":")[0]
    return BEAT_PHASES.index(name) if name in BEAT_PHASES else 6


def _scope(who: Identity) -> str | None:
    """How the attempt this process belongs to came about, where the counters say it."""
    if who.restart:
        return "in_job"
    return "requeue" if who.requeue else None
