"""Definitions: the goodput of one run under somebody's definition, and why it differs from ours on this run.

Rules
- One file per definition, each with one `DEFINITION`; it is found by itself (docs/adding_a_definition.md).
- A definition gets a `DefinitionInput` and gives `Measured`: its figures, its own buckets, and one sentence that
  explains the difference from rerail's figure with the numbers of this run.
- What a definition cannot say is None, with a reason under the figure's name. It is never 0, and never ours instead.
- Figures are shares 0…1, lengths integers of nanoseconds.

`stated_by` says what the definition is in one sentence; where it comes from stands in the file's docstring.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rerail.server.core.definitions.history import History, ToldFigure
from rerail.server.core.view import Account, RunView, Span
from rerail.server.core.words import points, share

OURS = "rerail"
"""The definition that is in force where none is asked for."""


@dataclass(frozen=True, slots=True)
class DefinitionInput:
    """Everything a definition may look at, as of `view.as_of`."""

    view: RunView
    account: Account
    """Of the window, or of the whole life."""
    spans: Sequence[Span]
    """What the run was doing, ordered and touching: those of the window, or of the whole life."""
    window: tuple[int, int] | None = None
    """`[start, end)`; None for the whole life."""
    history: History | None = None
    """What the log tells beyond the view, for definitions that need it (`needs_history`)."""

    @property
    def lived_ns(self) -> int:
        """Wall time of the window or the life, excluded time in it."""
        return sum(span.end - span.start for span in self.spans)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A length of time under the name the definition gives it."""

    name: str
    length_ns: int
    share: float | None
    """Of the definition's own elapsed time; None where nothing elapsed."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a definition says of a run."""

    difference: str
    """One sentence: why its figure is what it is beside rerail's, in this run's own numbers."""
    training: float | None = None
    infrastructure: float | None = None
    productive_ns: int | None = None
    elapsed_ns: int | None = None
    """What it divides by."""
    buckets: tuple[Bucket, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    """`(figure, why it is not known)`, under the names of docs/facts.md."""
    numbers: tuple[tuple[str, int | float | None], ...] = ()
    """Further figures of its own, each name with its unit."""
    told: tuple[ToldFigure, ...] = ()
    """What the tool that defined it printed of this run itself, where its output was imported."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition of goodput."""

    name: str
    title: str
    stated_by: str
    """What it is, in one sentence."""
    measure: Callable[[DefinitionInput], Measured]
    needs_history: bool = False
    """It looks at steps one by one, or at what other tools told: `DefinitionInput.history` must be there."""


def definitions() -> dict[str, Definition]:
    """Every definition by name, ours first; found in this package. A name taken twice is an error."""
    if not _FOUND:
        found: dict[str, Definition] = {}
        for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
            definition = getattr(importlib.import_module(f"{__name__}.{module}"), "DEFINITION", None)
            if definition is None:
                continue
            if definition.name in found:
                raise RuntimeError(f"two definitions are named {definition.name}")
            found[definition.name] = definition
        _FOUND.update({OURS: found.pop(OURS), **found})
    return _FOUND


_FOUND: dict[str, Definition] = {}


def bucket(name: str, length_ns: int, elapsed_ns: int) -> Bucket:
    """A bucket with its share of what elapsed."""
    return Bucket(name, length_ns, length_ns / elapsed_ns if elapsed_ns else None)


def beside(title: str, theirs: float | None, account: Account, view: RunView) -> str:
    """How a figure stands to rerail's: `AWS says 31.4 %, 0.4 points above rerail's 31.0 %`."""
    ours = account.training_goodput if view.sees_training else None
    if theirs is None:
        return f"{title} cannot say; rerail says {share(ours)}"
    if ours is None:
        return f"{title} says {share(theirs)} where rerail does not know"
    distance = theirs - ours
    if abs(distance) < 0.00005:
        return f"{title} says {share(theirs)} as rerail does"
    side = "above" if distance > 0 else "below"
    return f"{title} says {share(theirs)}, {points(abs(distance))} {side} rerail's {share(ours)}"


def sentence(opening: str, parts: Sequence[str]) -> str:
    """One sentence of an opening and what explains it; parts that are empty are left out."""
    told = [part for part in parts if part]
    if not told:
        return opening + "."
    joined = told[0] if len(told) == 1 else "; ".join(told[:-1]) + "; and " + told[-1]
    return f"{opening}: {joined}."
