"""Cause names: which cause classes somebody means who writes one as they read it.

Rules
- A class is named by its name or by the words that pages write for it, whatever stands between the words: `gpu_oom`,
  `gpu-oom`, `GPU out of memory`.
- Some of its words side by side name every class that has them: `oom` is that of a GPU and that of a host.
"""

from __future__ import annotations

import difflib
import re
from functools import cache

from rerail.server.core.causes import rules
from rerail.server.core.search.synonyms import synonyms
from rerail.server.core.words import UNKNOWN

WRITTEN_OUT = {"oom": "out of memory"}
"""Words of cause classes that pages write as others."""

MOST_NEAR = 3


@cache
def _written() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Cause class → the ways it is written, each as words."""
    written: dict[str, tuple[tuple[str, ...], ...]] = {UNKNOWN: ((UNKNOWN,), ("cause", UNKNOWN))}
    for name in rules():
        own = tuple(name.split("_"))
        out = tuple(" ".join(WRITTEN_OUT.get(word, word) for word in own).split())
        written[name] = tuple(dict.fromkeys((own, out)))
    return written


def causes_named(told: str) -> tuple[str, ...]:
    """The cause classes that `told` names, by name; empty where there is none."""
    wanted = _parts(told)
    if not wanted:
        return ()
    letters = "".join(wanted)
    whole = [name for name, ways in _written().items() if any("".join(way) == letters for way in ways)]
    if whole:
        return tuple(whole)
    held = {name for name, ways in _written().items() if any(_holds(way, wanted) for way in ways)}
    if not held:  # Under another name, in the other language.
        held = {name for other in synonyms(" ".join(wanted)) if other.isascii() for name in causes_named(other)}
    return tuple(sorted(held))


def causes_near(told: str) -> tuple[str, ...]:
    """Up to `MOST_NEAR` cause classes whose names are most like `told`, best first."""
    letters = "_".join(_parts(told))

    def likeness(name: str) -> float:
        ways = ("_".join(way) for way in _written()[name])
        words = (word for way in _written()[name] for word in way if len(word) > 3)
        return max(difflib.SequenceMatcher(None, letters, each).ratio() for each in (*ways, *words))

    return tuple(sorted(_written(), key=lambda name: (-likeness(name), name))[:MOST_NEAR])


def _parts(told: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+", told.casefold()))


def _holds(way: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return any(way[place : place + len(wanted)] == wanted for place in range(len(way) - len(wanted) + 1))
