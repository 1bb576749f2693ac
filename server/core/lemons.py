"""Lemons: nodes that fail more often than their time in use explains, and how sure that is.

Rules
- A fault counts against the node that its verdict blames. One of the workload counts against none: a bug strikes where
  it strikes.
- The question is how likely so many faults are blamed on this node if all nodes fail alike: given all faults of the
  fleet, those of one node are binomial with its share of all node-days (the exact comparison of two Poisson rates). No
  rate is estimated for that, so a small fleet is not accused by a guess.
- Who looks at a thousand nodes finds one in a thousand by chance: `chance_of_any` is that of any node (Bonferroni).
- `lemon`: at least two faults, and a chance of any below 5 %. `suspect`: at least two faults and a chance of this node
  below 5 %, or an XID after which the maker wants the GPU or the node reset or looked at. `unremarkable` else.
- Where the time a node was held is unknown, or there is no other node to compare with, so is its score: `unknown`.
- A rate is given from a node-day on (`ENOUGH_NS`): a fault in ten minutes is no 144,000 in 1,000 node-days. Below that
  there is too little data for it, and `is_thin` says so. The comparison with the others is exact whatever the time:
  one that makes a lemon is told, others are not.
- That several runs blame a node clears programs only where they could have run elsewhere.
- The score is −log10 of the chance: 3 is one in a thousand. It orders; the reasons say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from rerail.server.core.rates import DAY_NS
from rerail.server.core.statistics import binomial_tail, poisson_interval
from rerail.server.core.words import count, duration, number
from rerail.server.core.xids import ACTIONS, xid

WEEK_NS = 7 * DAY_NS
ENOUGH_NS = DAY_NS
"""Held so long, a node has a rate."""
UNLIKELY = 0.05
NEEDS_NO_HAND = frozenset({"IGNORE", "RESTART_APP", "WORKFLOW_XID_45"})
"""Actions that leave the GPU and the node as they are."""


class LemonLevel(StrEnum):
    """What to think of a node."""

    LEMON = "lemon"
    SUSPECT = "suspect"
    UNREMARKABLE = "unremarkable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeCase:
    """What speaks for and against one node, over all runs."""

    node: str
    held_ns: int | None
    """In runs that name the nodes of every attempt; None where none does."""
    blamed_at: tuple[int, ...] = ()
    """When faults began that are blamed on it, in those runs; of the workload none."""
    blamed: int | None = None
    """How many they are, where not all instants are at hand; None: as many as instants."""
    blamed_elsewhere: int = 0
    """In runs that do not say which nodes they held."""
    runs_blamed: int = 0
    xids: tuple[tuple[int, int], ...] = ()
    """`(code, how often)`."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes together, in runs that name them."""

    nodes: int
    held_ns: int
    faults: int
    """Blamed on any node."""


@dataclass(frozen=True, slots=True)
class Lemon:
    """What to think of a node, and why."""

    level: LemonLevel
    score: float | None
    """−log10 of `chance`; None where it cannot be told."""
    chance: float | None
    """Of so many faults on this node, if all nodes failed alike."""
    chance_of_any: float | None
    expected: float | None
    """Faults that its node-days let one expect, by the rate of the fleet without it."""
    node_days: float | None
    per_1000_node_days: float | None
    """None below `ENOUGH_NS`, as its limits."""
    per_1000_node_days_low: float | None
    per_1000_node_days_high: float | None
    sentence: str
    reasons: tuple[str, ...] = ()
    is_thin: bool = False
    """There is too little data for a rate yet."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a node compares with the others, in numbers."""

    level: LemonLevel
    chance: float | None
    """Of so many faults on this node, if all nodes failed alike; None where it cannot be told."""
    chance_of_any: float | None
    expected: float | None

    @property
    def score(self) -> float | None:
        """−log10 of the chance."""
        return None if self.chance is None else round(abs(math.log10(max(self.chance, 1e-300))), 2)


def judgement(case: NodeCase, fleet: Fleet) -> Judgement:
    """The level of one node and the numbers it rests on."""
    faults = _faults(case)
    needs_a_hand = any(asks_for_hand(code) for code, _ in case.xids)
    if not case.held_ns or case.held_ns < 0 or fleet.held_ns <= case.held_ns:
        return Judgement(LemonLevel.SUSPECT if needs_a_hand else LemonLevel.UNKNOWN, None, None, None)
    chance = binomial_tail(faults, fleet.faults, case.held_ns / fleet.held_ns)
    chance_of_any = min(1.0, chance * fleet.nodes)
    expected = (fleet.faults - faults) * case.held_ns / (fleet.held_ns - case.held_ns)
    if faults >= 2 and chance_of_any < UNLIKELY:
        level = LemonLevel.LEMON
    elif needs_a_hand or (faults >= 2 and chance < UNLIKELY):
        level = LemonLevel.SUSPECT
    else:
        level = LemonLevel.UNREMARKABLE
    return Judgement(level, chance, chance_of_any, expected)


def _faults(case: NodeCase) -> int:
    return len(case.blamed_at) if case.blamed is None else case.blamed


def lemon_of(case: NodeCase, fleet: Fleet) -> Lemon:
    """The judgement of one node, in words too."""
    faults, judged, signs = _faults(case), judgement(case, fleet), _signs(case, fleet)
    days = case.held_ns / DAY_NS if case.held_ns else None
    is_thin = 0 < (case.held_ns or 0) < ENOUGH_NS
    if judged.chance is None or judged.expected is None or judged.chance_of_any is None or days is None:
        why = (
            "how long it was held is not known: no run names the nodes of every attempt"
            if days is None
            else "there is no other node to compare it with"
        )
        told = faults + case.blamed_elsewhere
        blamed = f"{count(told, 'fault')} blamed on it" if told else "No fault is blamed on it"
        # All its faults are in the sentence here, so none is "more".
        told_of = tuple(sign for sign in signs if sign != _elsewhere(case))
        return Lemon(
            judged.level, None, None, None, None, days, None, None, None, f"{blamed}; {why}.", told_of, is_thin
        )
    low, high = (None, None) if is_thin else poisson_interval(faults)
    sentence = f"{count(faults, 'fault')} in {_days(days)}, where the other {count(fleet.nodes - 1, 'node')} "
    sentence += f"let one expect {_few(judged.expected)}"
    if faults >= 2:
        any_of = f"{odds(judged.chance_of_any)} for any of {number(fleet.nodes)}"
        sentence += f": by chance {odds(judged.chance)} for a given node, {any_of}"
    if is_thin and judged.level is not LemonLevel.LEMON:
        others = count(fleet.nodes - 1, "other node")
        sentence = (
            f"{count(faults, 'fault')} in {duration(case.held_ns)}: too little data yet for a rate, or to compare "
        )
        sentence += f"it with {others}. That takes one node-day, 24 node-hours"
    return Lemon(
        level=judged.level,
        score=judged.score,
        chance=judged.chance,
        chance_of_any=judged.chance_of_any,
        expected=judged.expected,
        node_days=days,
        per_1000_node_days=None if is_thin else faults / days * 1000,
        per_1000_node_days_low=None if low is None else low / days * 1000,
        per_1000_node_days_high=None if high is None else high / days * 1000,
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        reasons=signs,
        is_thin=is_thin,
    )


def asks_for_hand(code: int) -> bool:
    """The maker wants more than a restart of the program after this XID."""
    known = xid(code)
    if known.action is None or known.says_nothing_failed or known.is_consequence or known.meaning == "Unused":
        return False
    return known.action not in NEEDS_NO_HAND


def _signs(case: NodeCase, fleet: Fleet) -> tuple[str, ...]:
    """What else speaks against it, in sentences."""
    signs = []
    if case.runs_blamed >= 2:
        others = (
            "it is not one program's fault" if fleet.nodes > 1 else "no other node is known on which they would run"
        )
        signs.append(f"Blamed in {case.runs_blamed} runs: {others}.")
    soonest = _soonest(case.blamed_at)
    if soonest is not None and soonest <= WEEK_NS:
        within = count(max(1, -(-soonest // DAY_NS)), "day")
        signs.append(f"It failed again within {within}.")
    for code, times in case.xids:
        if asks_for_hand(code):
            known = xid(code)
            action = ACTIONS.get(known.action or "", known.action or "")
            signs.append(f"XID {code} {'once' if times == 1 else f'{times} times'} ({known.meaning}): {action}.")
    if case.blamed_elsewhere:
        signs.append(_elsewhere(case))
    return tuple(signs)


def _elsewhere(case: NodeCase) -> str:
    return f"{count(case.blamed_elsewhere, 'more fault')} in runs that do not say which nodes they held."


def _soonest(blamed_at: Sequence[int]) -> int | None:
    ordered = sorted(blamed_at)
    return min((later - earlier for earlier, later in pairwise(ordered)), default=None)


def odds(chance: float) -> str:
    """A probability as people say it: `1 in 1,600`."""
    if chance >= 0.1:
        return f"{chance:.0%}".replace("%", "\u202f%")
    if chance < 1e-9:
        return "less than 1 in a billion"
    times = 1 / chance
    rounded = round(times, -max(0, len(str(int(times))) - 2))
    return f"1 in {int(rounded):,}".replace(",", "\u202f")


def _days(days: float) -> str:
    return f"{days:.2g} node-days" if days < 10 else f"{days:,.0f} node-days".replace(",", "\u202f")


def _few(expected: float) -> str:
    return f"{expected:.2g}" if expected < 10 else f"{expected:.0f}"
