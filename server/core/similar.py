"""Similar incidents: which earlier ones are worth reading, and why each of them.

Rules
- Every piece of likeness has a weight and a sentence. What makes a fault the same (fingerprint, exception, place in the
  code, XID) weighs more than where and when it happened; the same node weighs more than the same moment.
- The same cause class alone is no likeness: half of all faults would be similar. Beside another likeness it weighs,
  and another class of another run at the same step is none.
- One cause outside two runs is only supposed where one outage shows itself like both: classes of what lies between
  machines or behind them, of one row of `OUTAGES`. A GPU, a machine's memory or a program fails by itself. Of two that
  began at the very same instant it is not: so look logs that were dated alike.
- Ties go to the one nearer in time, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rerail.server.core.facts import Pairs
from rerail.server.core.fingerprints import FACET_NAMES, PART_NAMES
from rerail.server.core.words import duration

NEAR_NS = 10 * 60 * 10**9
"""Incidents of two runs that begin within ten minutes of each other may have one cause outside both."""

LEAST_WEIGHT = 2
STRONG = 4
"""What one reason weighs that is about the fault or the machine, and not only about when it was."""

SAME_FAULT = 10
SAME_CLASS = 3
OUTAGES = (
    frozenset({"network", "nccl_error", "nccl_timeout", "hang", "rendezvous", "node_lost"}),
    frozenset({"checkpoint_io", "data_loader"}),
    frozenset({"preemption", "node_lost"}),
)
"""Classes by which one outage shows itself in several runs: of the fabric, of storage, of what lends machines."""


@dataclass(frozen=True, slots=True)
class Traces:
    """What an incident is compared by."""

    incident_id: str
    run_id: str
    started_at: int
    fingerprint: str | None
    parts: Pairs = ()
    """Of the fingerprint."""
    facets: Pairs = ()
    xid_group: str | None = None
    """What the XID is about, as its maker groups them."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Why one incident is like another."""

    incident_id: str
    weight: int
    reasons: tuple[str, ...]
    """Sentences, the weightiest first."""
    strongest: int
    """What the first of them weighs."""


def likeness(one: Traces, other: Traces) -> Likeness | None:
    """Why `other` is like `one`; None where too little is."""
    mine, theirs = dict(one.parts), dict(other.parts)
    found: list[tuple[int, str]] = []
    is_same_fault = one.fingerprint is not None and one.fingerprint == other.fingerprint
    if is_same_fault:
        found.append((SAME_FAULT, "The same fault, by every part of its fingerprint."))
    else:
        for name, weight in (("exception", 4), ("frame", 4), ("operation", 2), ("xid", 6)):
            if name in mine and mine[name] == theirs.get(name):
                found.append((weight, f"The same {PART_NAMES[name]}: {mine[name]}."))
        is_other_xid = mine.get("xid") != theirs.get("xid")
        if one.xid_group and one.xid_group == other.xid_group and is_other_xid:
            found.append((5, f"An XID of the same kind ({one.xid_group.replace('_', ' ')}): {theirs.get('xid')}."))
    places = _places(one, other)
    if places and not found and "cause" in mine and mine["cause"] == theirs.get("cause"):
        found.append((SAME_CLASS, f"The same {PART_NAMES['cause']}: {mine['cause'].replace('_', ' ')}."))
    found += places
    weight = sum(each for each, _ in found)
    if weight < LEAST_WEIGHT:
        return None
    found.sort(key=lambda each: -each[0])
    return Likeness(other.incident_id, weight, tuple(reason for _, reason in found), found[0][0])


def _places(one: Traces, other: Traces) -> list[tuple[int, str]]:
    """Likeness of where and when."""
    found: list[tuple[int, str]] = []
    here, there = dict(one.facets), dict(other.facets)
    if "node" in here and here["node"] == there.get("node"):
        found.append((4, f"The same node: {here['node']}."))
    is_same_run = one.run_id == other.run_id
    is_same_class = dict(one.parts).get("cause") == dict(other.parts).get("cause")
    step, other_step = _number(here.get("step")), _number(there.get("step"))
    if step is not None and other_step is not None and abs(step - other_step) <= 1:
        weight = 4 if is_same_run else 2 if is_same_class else 1
        found.append((weight, f"At the same step: {other_step}{' of the same run' if is_same_run else ''}."))
    checkpoint = here.get("checkpoint")
    if is_same_run and checkpoint is not None and checkpoint == there.get("checkpoint"):
        found.append((2, f"After resuming from the same step: {checkpoint}."))
    apart = abs(one.started_at - other.started_at)
    causes = {dict(each.parts).get("cause") for each in (one, other)}
    if not is_same_run and 0 < apart <= NEAR_NS and any(causes <= outage for outage in OUTAGES):
        when = f"In another run {duration(apart)} {_before(one, other)}"
        found.append((3 if is_same_class else 2, f"{when}: perhaps one cause outside both."))
    if found and not is_same_run and "config" in here and here["config"] == there.get("config"):
        found.append((1, f"The same {FACET_NAMES['config']}: {here['config']}."))
    return found


def _before(one: Traces, other: Traces) -> str:
    return "before" if other.started_at < one.started_at else "after"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def most_similar(one: Traces, others: Iterable[Traces], most: int) -> tuple[Likeness, ...]:
    """The incidents most like one, best first."""
    ranked = []
    for other in others:
        if other.incident_id == one.incident_id:
            continue
        found = likeness(one, other)
        if found is not None:
            ranked.append((-found.weight, abs(one.started_at - other.started_at), other.incident_id, found))
    ranked.sort(key=lambda entry: entry[:3])
    return tuple(found for *_, found in ranked[:most])
