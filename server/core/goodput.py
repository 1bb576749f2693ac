"""Goodput: where the time of a window went, as an account whose parts add up exactly.

Rules
- Training goodput is productive ÷ elapsed, infrastructure goodput 1 − (down phases that followed a fault ÷ elapsed).
  Elapsed leaves `excluded` out.
- Over the whole life, productive is `training` minus the debt: the first-pass time of the steps between the current
  step and the high-water step. A window has no debt; its goodput is its `training` ÷ its elapsed.
- A window is clipped from the partition, so one inside an outage answers 0, not "no data"; None only where nothing of
  it elapsed.
- Everything is a sum of integers: tallies of neighbouring stretches of time can be added, in any grouping.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rerail.server.core.facts import Phase
from rerail.server.core.view import Account, SlidingPoint, Span, SpanKind, WaterfallRow

WATERFALL: tuple[tuple[str, SpanKind], ...] = (
    ("startup", SpanKind.STARTUP),
    ("planned", SpanKind.PLANNED),
    ("checkpoint", SpanKind.CHECKPOINT),
    ("rework", SpanKind.REWORK),
    ("stalls", SpanKind.STALL),
    ("overhead", SpanKind.OVERHEAD),
    ("unknown", SpanKind.UNKNOWN),
)
"""Losses between infrastructure and training goodput, in the order they are shown."""


@dataclass(slots=True)
class Tally:
    """Sums over a stretch of time; two neighbours make one by `add`."""

    ns: dict[tuple[Phase, SpanKind], int] = field(default_factory=dict)
    has_training: bool = False
    leading_ns: int = 0
    """Unproductive time before the first training (all of it while there is none)."""
    longest_ns: int = 0
    """Longest unproductive stretch wholly inside."""
    trailing_ns: int = 0
    """Unproductive time since the last training."""

    def count(self, phase: Phase, kind: SpanKind, length: int) -> None:
        """Add time at the end."""
        key = (phase, kind)
        self.ns[key] = self.ns.get(key, 0) + length
        if phase is Phase.TRAINING:
            if not self.has_training:
                self.has_training = True
                self.leading_ns = self.trailing_ns
            self.longest_ns = max(self.longest_ns, self.trailing_ns)
            self.trailing_ns = 0
        elif phase is not Phase.EXCLUDED:
            self.trailing_ns += length

    def add(self, later: Tally) -> None:
        """Add the tally of the time that follows."""
        for key, length in later.ns.items():
            self.ns[key] = self.ns.get(key, 0) + length
        if not later.has_training:
            self.trailing_ns += later.trailing_ns
            return
        between = self.trailing_ns + later.leading_ns
        if not self.has_training:
            self.has_training = True
            self.leading_ns = between
        self.longest_ns = max(self.longest_ns, between, later.longest_ns)
        self.trailing_ns = later.trailing_ns

    @property
    def longest_unproductive_ns(self) -> int:
        """Longest stretch without training, excluded time left out."""
        return max(self.leading_ns, self.longest_ns, self.trailing_ns)


def tally(spans: Iterable[Span]) -> Tally:
    """The sums over spans that follow one another."""
    total = Tally()
    for span in spans:
        total.count(span.phase, span.kind, span.end - span.start)
    return total


class Capacities:
    """How many GPUs the run held, over time: the last told number holds until the next.

    Before the first told number that number is taken, since an allocation is told when it starts to be used.
    """

    __slots__ = ("_numbers", "_starts")

    def __init__(self, told: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._numbers: list[int] = []
        for at, gpus in sorted(told):
            if self._numbers and self._numbers[-1] == gpus:
                continue
            self._starts.append(at)
            self._numbers.append(gpus)

    @property
    def told(self) -> tuple[tuple[int, int], ...]:
        """`(at, gpus)` of every change, in order."""
        return tuple(zip(self._starts, self._numbers, strict=True))

    @property
    def only(self) -> int | None:
        """The number of GPUs where it never changed."""
        return self._numbers[0] if len(self._numbers) == 1 else None

    @property
    def is_known(self) -> bool:
        """Whether any number was ever told."""
        return bool(self._numbers)

    @property
    def is_ever_none(self) -> bool:
        """Whether the run was ever told to hold no GPU."""
        return 0 in self._numbers

    def at(self, instant: int) -> int | None:
        """GPUs held at an instant; None while none was told at all."""
        if not self._numbers:
            return None
        return self._numbers[max(0, bisect_right(self._starts, instant) - 1)]

    def holds_until(self, instant: int, limit: int) -> int:
        """Until when the number held at an instant holds; not beyond `limit`."""
        following = bisect_right(self._starts, instant)
        if following == 0:
            following = 1  # The first number holds for the time before it too.
        return min(limit, self._starts[following]) if following < len(self._starts) else limit

    def between(self, start: int, end: int) -> Iterable[tuple[int, int]]:
        """`(length_ns, gpus)` pieces of `[start, end)`."""
        index = max(0, bisect_right(self._starts, start) - 1)
        while start < end:
            following = self._starts[index + 1] if index + 1 < len(self._starts) else end
            stop = min(end, max(following, start))
            if stop > start:
                yield stop - start, self._numbers[index]
            start = stop
            index += 1

    def gpu_ns(self, start: int, end: int) -> int:
        """∫ GPUs dt over `[start, end)`."""
        if self.only is not None:
            return max(0, end - start) * self.only
        return sum(length * gpus for length, gpus in self.between(start, end))


def gpu_tally(spans: Iterable[Span], capacities: Capacities) -> Tally:
    """The same sums weighted by the GPUs held: every length is GPU·ns."""
    total = Tally()
    only = capacities.only
    if only is not None:
        for span in spans:
            total.count(span.phase, span.kind, (span.end - span.start) * only)
        return total
    for span in spans:
        for length, gpus in capacities.between(span.start, span.end):
            total.count(span.phase, span.kind, length * gpus)
    return total


def account_of(total: Tally, start: int, end: int, debt_ns: int) -> Account:
    """The account of a tally. `debt_ns` in the tally's own unit."""
    by_phase: dict[Phase, int] = {}
    by_kind: dict[SpanKind, int] = {}
    for (phase, kind), length in total.ns.items():
        by_phase[phase] = by_phase.get(phase, 0) + length
        by_kind[kind] = by_kind.get(kind, 0) + length
    excluded = by_phase.get(Phase.EXCLUDED, 0)
    elapsed = sum(by_phase.values()) - excluded
    productive = by_phase.get(Phase.TRAINING, 0) - debt_ns
    faults = by_kind.get(SpanKind.FAULT, 0)
    return Account(
        start=start,
        end=end,
        elapsed_ns=elapsed,
        ns_by_phase=tuple((phase, by_phase[phase]) for phase in Phase if by_phase.get(phase)),
        productive_ns=productive,
        debt_ns=debt_ns,
        faults_ns=faults,
        startup_ns=by_kind.get(SpanKind.STARTUP, 0),
        planned_ns=by_kind.get(SpanKind.PLANNED, 0),
        longest_unproductive_ns=total.longest_unproductive_ns if elapsed else None,
        waterfall=_waterfall(elapsed, faults, by_kind, debt_ns, productive),
    )


def _waterfall(
    elapsed: int, faults: int, by_kind: dict[SpanKind, int], debt: int, productive: int
) -> tuple[WaterfallRow, ...]:
    def row(name: str, length: int, is_total: bool) -> WaterfallRow:
        return WaterfallRow(name, length, length / elapsed if elapsed else None, is_total)

    losses = []
    for name, kind in WATERFALL:
        length = by_kind.get(kind, 0)
        losses.append(row(name, length + debt if kind is SpanKind.REWORK else length, False))
    return (
        row("elapsed", elapsed, True),
        row("faults", faults, False),
        row("infrastructure_goodput", elapsed - faults, True),
        *losses,
        row("training_goodput", productive, True),
    )


def clipped(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The part of ordered spans that lies in `[start, end)`."""
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_left(spans, end, key=lambda span: span.start)
    inside = list(spans[first:last])
    for index in {0, len(inside) - 1} if inside else set():
        span = inside[index]
        inside[index] = Span(
            max(span.start, start), min(span.end, end), span.phase, span.kind, span.attempt, span.name,
            span.first_step, span.last_step,
        )  # fmt: skip
    return inside


def account(spans: Sequence[Span], start: int, end: int, *, debt_ns: int = 0) -> Account:
    """The account of the window `[start, end)` of a run's spans. A window has no debt unless one is given."""
    return account_of(tally(clipped(spans, start, end)), start, end, debt_ns)


def sliding(spans: Sequence[Span], window_ns: int, instants: Sequence[int]) -> tuple[SlidingPoint, ...]:
    """Both goodputs of the window that ends at each instant.

    `instants` in ascending order. Time outside the run's life is not in a window; where nothing else is in it, both
    are None.
    """
    edges = [0]
    training = [0]
    faults = [0]
    elapsed = [0]
    for span in spans:
        length = span.end - span.start
        edges.append(span.end)
        elapsed.append(elapsed[-1] + (0 if span.phase is Phase.EXCLUDED else length))
        training.append(training[-1] + (length if span.phase is Phase.TRAINING else 0))
        faults.append(faults[-1] + (length if span.kind is SpanKind.FAULT else 0))
    if not spans:
        return tuple(SlidingPoint(at, None, None) for at in instants)
    edges[0] = spans[0].start
    last = len(edges) - 1

    def sums(at: int) -> tuple[int, int, int]:
        """Elapsed, training and faults from the start of the life until an instant."""
        if at <= edges[0]:
            return 0, 0, 0
        if at >= edges[last]:
            return elapsed[last], training[last], faults[last]
        index = bisect_right(edges, at) - 1
        inside = at - edges[index]
        span = spans[index]
        return (
            elapsed[index] + (0 if span.phase is Phase.EXCLUDED else inside),
            training[index] + (inside if span.phase is Phase.TRAINING else 0),
            faults[index] + (inside if span.kind is SpanKind.FAULT else 0),
        )

    points = []
    for at in instants:
        until, since = sums(at), sums(at - window_ns)
        passed = until[0] - since[0]
        if passed <= 0:
            points.append(SlidingPoint(at, None, None))
        else:
            points.append(SlidingPoint(at, (until[1] - since[1]) / passed, 1 - (until[2] - since[2]) / passed))
    return tuple(points)
