"""Progress state: what is known, at one place of a training's log, of the training that it tells of.

It holds plain JSON values only: a cursor keeps it, and who reads on takes it up again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ProgressState:
    """What is known of the training that a log tells of. Only plain JSON values."""

    framework: str | None = None
    label: str | None = None
    """The number by which lines of the speaker name it: its rank, local rank or worker."""
    stream: str | None = None
    speaker: str | None = None
    """Whose step lines count."""
    step: int | None = None
    """The last that is known done in this attempt."""
    step_at: int | None = None
    since: int | None = None
    """Since when steps are done: the loop began, a load ended."""
    base: int | None = None
    """Steps that were done before the first line of this attempt; None where that is not known."""
    step_offset: int = 0
    """The first byte of the last step line."""
    has_steps: bool = False
    """A step line was seen in this attempt."""
    first: list[int] = field(default_factory=list)
    """`[step, instant]` of the first step line, while it is not known since when its steps were done."""
    pause_began: int | None = None
    pause_ended: int | None = None
    each_ns: int | None = None
    """How long the last steps took."""
    each_before: int | None = None
    """The same of the attempt before."""
    every: int = 1
    """So many steps lie between two lines that tell them, as of the last two."""
    saving: list[Any] = field(default_factory=list)
    """`[step, since, framework]` of a save that goes on while training waits."""
    saving_by: str = ""
    """The stream in which it was begun; of the load, `loading_by`."""
    loading: list[Any] = field(default_factory=list)
    """`[step, since]` of a load that goes on, step None where no line said which; since None where that is not known;
    `[None, since, until]` of one that is over and of which only a step that comes again will tell that it was one."""
    loading_by: str = ""
    loaded: list[int] = field(default_factory=list)
    """`[since, until]` of a load of nobody says which step; the first step that follows tells."""
    stalled: int | None = None
    """The step of the last save that was told by how long training waited for it."""
    saved: list[int] = field(default_factory=list)
    """Steps of the last checkpoints of NeMo."""
    waiting: list[Any] = field(default_factory=list)
    """`[what, framework, step, seconds, whether that it is durable was stated]` of what was told without a stamp."""
    behind_ns: int = 0
    """So much later than they say are stamps without a zone (`LocalClock.behind_ns`)."""
    went_back: list[int] = field(default_factory=list)
    """`[how often, ns]` that stamps went back where steps went on, by the most, and by no whole hours."""
    is_clocked: bool = False
    """Something in the log looks like the time of a day."""
    tells_saves: bool = False
    """The framework tells of saves in words of its own."""
    ahead: list[int] = field(default_factory=list)
    """`[step, instant, first byte]` of a save of steps that are done and not told yet: MaxText tells them late."""
    captured: list[int] = field(default_factory=list)
    """Steps of checkpoints that were captured, the last of them, of which nothing said yet that they are durable."""
    evaluating: int | None = None
    together: list[Any] = field(default_factory=list)
    """`[first step, start, durations in µs, first byte of the last line]` of steps that are not stated yet."""
    behind: list[int] = field(default_factory=list)
    """`[step, instant]` of the last line of another that prints the same steps later, and does not say who it is."""
    done: list[Any] = field(default_factory=list)
    """`[instant, first byte, pieces of evidence until then, words]` of a line by which training is done, while no step
    follows it."""
    began_at: int | None = None
    """The first stamp of the log, or of the attempt."""
    heard_at: int | None = None
    said_at: int | None = None
    """When the program told the time last, other than by a step."""
    silence: list[int] = field(default_factory=list)
    """`[from, until]` of the longest silence since the last step line."""
    begins: bool = False
    """The program began anew; its first stamp is still to come."""
    bar_total: int | None = None
    bar_base: list[int] = field(default_factory=list)
    """`[instant, bar's clock]` from which a bar without a stamp is counted on."""
    bar_epoch: int | None = None
    """The epoch of which that bar is; None for one without epochs."""
    bars: list[list[Any]] = field(default_factory=list)
    """`[step, clock, seconds, epoch, total, first byte, framework, stream, rank, how much waited before]` of bars that
    nothing dates yet."""
    unnamed: list[list[Any]] = field(default_factory=list)
    """`[batches, clock, first byte, stream, rank, how much waited before]` of bars that do not name their epoch."""
    unclaimed: dict[str, int] = field(default_factory=dict)
    """Total → the first state of nameless bars that were drawn before anything said which one is that of training."""
    is_fitting: bool = False
    """Behind the last program that began a model was shown: it was to be trained."""
    broke_off: int = 0
    """1: another program began behind one that was to train, and of which nothing else is told; 2: and goes on from a
    checkpoint, so that the one before broke off."""
    is_fresh: bool = False
    """The program began in this log, and nothing says that it loaded anything."""
    dated_back: int = 0
    """Lines of bars that were dated from an instant behind them."""
    is_async: bool = False
    undated: int = 0
    counted: list[Any] = field(default_factory=list)
    """`[ns in all, last step, its stream, steps of the first line, s of each of them]` of steps that nothing dates, and
    whose lines tell how long they took."""
    is_counted: bool = False
    """No line tells an instant: they are counted on, by those times, from when the log must have begun."""
    untimed: int = 0
    """Steps that were done at the same instant as the last that was stated: they share the time until the next."""
    is_told: bool = False
    """The run's framework was stated."""
    world_size: int | None = None
    attempt: int = 0
    """Which attempt all of this is of."""

    @property
    def done_before(self) -> int | None:
        """Steps that were done before the line that is read; None where that is not known."""
        return self.step if self.has_steps else self.base

    @property
    def done_since(self) -> int | None:
        """Since when the next steps are done; None where that is not known."""
        return self.step_at if self.has_steps else self.since

    @property
    def stated_every(self) -> int | None:
        """As a fact says it: None where each step is told."""
        return self.every if self.every > 1 else None

    def pause(self, at: int) -> None:
        """Training stands still from `at` on, until something says otherwise."""
        self.pause_began, self.pause_ended = at, None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ProgressState:
        """Out of a cursor; fields of other versions are left out."""
        return cls(**{name: value for name, value in plain.items() if name in cls.__dataclass_fields__})
