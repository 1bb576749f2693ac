"""Prometheus facts: what the samples of a rule's series state.

Rules
- Each machine is an emitter, and `cluster` for what is of none. `seq` is the second of the sample × 2³¹, plus 31 bits
  of a hash of rule and series: the same sample states the same under the same identity, whichever replica of a
  server tells it. Of a machine's thousand series two share their bits in one of 4,000 cases.
- What held when a series was first looked at is where it begins, and no event: when it came about is not known. A
  machine that is not ready is told all the same, as from then.
- The first value of a counter is where its count begins, as Prometheus' `increase` has it: what it shows by then was
  counted at some time since its machine started. A gauge of events (XID) that begins with a code is an event only where
  the machine's other GPUs were watched before: of an exporter that is new itself, the code may be days old.
- A counter that fell was reset: what it shows now was counted since. Increases within five minutes of the last that was
  stated are told together.
- Two series of one identity at one instant, as where a label changed and no stale marker was written: the later holds.
- `memory` is plain data, part of a cursor, and bounded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rerail.collectors.masking import masked
from rerail.collectors.sources.prometheus_rules import Kind, Rule, When
from rerail.collectors.sources.prometheus_samples import Series
from rerail.server.core.facts import Evidence, Fact, Metric, NodeCondition, NodeState

SECOND = 1_000_000_000
TOGETHER_SECONDS = 300
FORGOTTEN_SECONDS = 7 * 86_400
MOST_KEPT = 20_000
MOST_ATTRIBUTES = 40
MOST_RUNS = 1000
HASH_BITS = 31
_NAMED = re.compile(r"\{(\w{1,200})\}")
_PORT = re.compile(r"^\[?(.+?)\]?:\d{1,5}$")


@dataclass(frozen=True, slots=True)
class Naming:
    """Which run a series belongs to, and whose series are taken."""

    run: str | None = None
    label: str | None = None
    """A label that names the run; `run` where a series has none."""
    nodes: tuple[str, ...] = ()
    """Patterns such as `gpu-*`; none: every machine."""

    def run_of(self, series: Series) -> str | None:
        """The run, or None where nothing names it."""
        return ((series.label(self.label) if self.label else "") or self.run or "")[:200] or None

    def takes(self, node: str) -> bool:
        """Whether series of that machine are followed; those of no machine are."""
        return not node or not self.nodes or any(fnmatchcase(node, pattern) for pattern in self.nodes)


class RuleFacts:
    """The facts of one rule. `memory`: series → `[value, second, not yet stated, stated at]`."""

    def __init__(self, rule: Rule, memory: dict[str, Any], naming: Naming) -> None:
        self._rule = rule
        self._memory = memory
        self._naming = naming
        self.runs: dict[str, None] = {}

    def take(self, series: Iterable[Series], step: int, begins_at: int | None) -> list[Fact]:
        """What these series state. `begins_at`: the second that the first look begins at; None: it is not the first."""
        facts: list[Fact] = []
        found = _by_identity(series, self._rule)
        watched = self._watched(found) if self._rule.when is When.CHANGES else {}
        for key, told in found.items():
            facts += self._of_series(key, told, step, begins_at, watched)
        self._forget()
        return sorted(facts, key=lambda fact: (fact.at, fact.emitter))

    def beginning(self, series: Iterable[Series], begins_at: int | None) -> tuple[int, ...]:
        """When counters begin here that already show something, ascending seconds.

        What they showed before that instant, since the one asked for before it, is worth asking for.
        """
        if self._rule.kind is not Kind.EVIDENCE or self._rule.when is not When.INCREASES:
            return ()
        found = _by_identity(series, self._rule)
        firsts = {told[0].samples[0] for key, told in found.items() if key not in self._memory}
        return tuple(sorted({at for at, value in firsts if value > 0 and at != begins_at}))

    def begins_with(self, series: Iterable[Series]) -> None:
        """What counters showed first, between two instants that are asked for: their increases count from there."""
        for key, told in _by_identity(series, self._rule).items():
            if key not in self._memory:
                at, value = told[0].samples[0]
                self._memory[key] = [value, at, 0.0, 0]

    def _watched(self, found: Mapping[str, Sequence[Series]]) -> dict[str, list[tuple[int, frozenset[int]]]]:
        """Machine → of each of its series since when it is known, and when it has samples."""
        watched: dict[str, list[tuple[int, frozenset[int]]]] = {}
        for key, told in found.items():
            instants = frozenset(at for series in told for at, _ in series.samples)
            known = self._memory.get(key)
            since = min(instants) if known is None else min(known[1], *instants)
            watched.setdefault(node_of(told[-1], self._rule), []).append((since, instants))
        return watched

    def _of_series(
        self, key: str, told: Sequence[Series], step: int, begins_at: int | None,
        watched: Mapping[str, Sequence[tuple[int, frozenset[int]]]],
    ) -> list[Fact]:  # fmt: skip
        facts: list[Fact] = []
        node = node_of(told[-1], self._rule)
        run = self._naming.run_of(told[-1])
        if run is None or not self._naming.takes(node):
            return []
        if len(self.runs) < MOST_RUNS:
            self.runs[run] = None
        for at, value, series in _merged(told, self._memory.get(key)):
            known = self._memory.get(key)
            if known is not None and at <= known[1]:
                continue
            is_news = at != begins_at
            if known is None and value and is_news and self._rule.when is When.CHANGES:
                is_news = any(since < at and at in instants for since, instants in watched.get(node, ()))
            fact = self._fact(key, series, at, value, known, step, is_news=is_news)
            if fact is not None:
                facts.append(fact)
        return facts

    def _fact(
        self, key: str, series: Series, at: int, value: float, known: list[Any] | None, step: int, *, is_news: bool
    ) -> Fact | None:
        """`is_news`: that a series begins here means that something came about."""
        rule = self._rule
        node = node_of(series, rule)
        common: dict[str, Any] = {
            "run": self._naming.run_of(series) or self._naming.run, "emitter": f"prometheus/{node or 'cluster'}"[:200],
            "seq": (at << HASH_BITS) + _bits(f"{rule.name}/{key}"), "at": at * SECOND, "node": node or None,
        }  # fmt: skip
        if rule.kind is Kind.METRIC:
            return Metric(**common, name=f"prometheus/{rule.name}", value=value)
        is_new = known is None
        before, last, waiting, stated = known or [value, at, 0.0, 0]
        increase = 0.0
        is_event = False
        if rule.kind is Kind.NODE_STATE:
            is_event = value != before or is_new
        elif rule.when is When.APPEARS:
            is_event = is_news and (is_new or at - last > step)
        elif rule.when is When.CHANGES:
            is_event = value != 0 and (value != before or (is_new and is_news))
        else:
            waiting += value - before if value >= before else value
            is_event = waiting > 0 and at - stated >= TOGETHER_SECONDS
            increase = waiting
        if is_event:
            waiting, stated = 0.0, at
        self._memory[key] = [value, at, waiting, stated]
        if not is_event:
            return None
        words = Words(rule, series, value, increase)
        if rule.kind is Kind.NODE_STATE:
            return self._state(common, words, value, is_new)
        return Evidence(
            **common, source=rule.source, text=masked(words.filled(rule.text))[:8000] or rule.name,
            code=words.filled(rule.code or rule.name)[:200], attributes=words.attributes,
        )  # fmt: skip

    def _state(self, common: dict[str, Any], words: Words, value: float, is_first: bool) -> Fact | None:
        state = next((state for number, state in self._rule.states if number == value), None)
        if state is None or common["node"] is None or (is_first and state is NodeCondition.READY):
            return None
        return NodeState(**common, state=state, reason=masked(words.filled(self._rule.text))[:1000])

    def _forget(self) -> None:
        if not self._memory:
            return
        newest = max(entry[1] for entry in self._memory.values())
        old = [key for key, entry in self._memory.items() if newest - entry[1] > FORGOTTEN_SECONDS]
        over = len(self._memory) - len(old) - MOST_KEPT
        if over > 0:
            left = sorted(self._memory.keys() - set(old), key=lambda key: (self._memory[key][1], key))
            old += left[:over]
        for key in old:
            del self._memory[key]


@dataclass(frozen=True, slots=True)
class Words:
    """What a template may name of a sample."""

    rule: Rule
    series: Series
    value: float
    increase: float

    def filled(self, template: str) -> str:
        """`{value}`, `{increase}`, `{gpu}`, `{node}`, `{labels}`, else a label of the series; others are empty."""
        return _NAMED.sub(lambda found: self._word(found[1]), template).strip()

    def _word(self, name: str) -> str:
        if name in ("value", "increase"):
            return f"{self.value if name == 'value' else self.increase:.15g}"
        if name == "gpu":
            return self._gpu()
        if name == "node":
            return node_of(self.series, self.rule)
        if name == "labels":
            return " ".join(f"{label}={value}" for label, value in self.series.labels if label != "__name__")[:1000]
        return self.series.label(name)

    def _gpu(self) -> str:
        told = dict(self.series.labels)
        number = f"GPU {told['gpu']}" if told.get("gpu") else "a GPU"
        part = f" instance {told['GPU_I_ID']}" if told.get("GPU_I_ID") else ""
        names = [told.get("UUID") or told.get("gpu_uuid"), told.get("pci_bus_id")]
        within = ", ".join(name for name in names if name)
        node = node_of(self.series, self.rule)
        return f"{number}{part}{f' ({within})' if within else ''}{f' of {node}' if node else ''}"

    @property
    def attributes(self) -> tuple[tuple[str, str], ...]:
        """The labels and the value."""
        told = {name: masked(value) for name, value in self.series.labels[:MOST_ATTRIBUTES]}
        return tuple(sorted((told | {"value": f"{self.value:.15g}"}).items()))


def node_of(series: Series, rule: Rule) -> str:
    """The machine of a series; empty where no label names it. Of an address the port is left out."""
    for name in rule.node_labels:
        value = series.label(name)
        if value:
            found = _PORT.match(value) if name == "instance" else None
            return (found[1] if found else value)[:200]
    return ""


def _bits(told: str) -> int:
    return int.from_bytes(hashlib.sha256(told.encode()).digest()[:4], "big") >> (32 - HASH_BITS)


def _by_identity(series: Iterable[Series], rule: Rule) -> dict[str, list[Series]]:
    """Series by what stays of their labels, those of one identity in the order in which they began."""
    found: dict[str, list[Series]] = {}
    for each in series:
        kept = [pair for pair in each.labels if pair[0] not in rule.ignored_labels]
        key = hashlib.sha256("\0".join(f"{name}\1{value}" for name, value in kept).encode("utf-8", "replace"))
        found.setdefault(key.hexdigest()[:16], []).append(each)
    for told in found.values():
        told.sort(key=lambda one: (one.samples[0][0], one.labels))
    return found


def _merged(told: Sequence[Series], known: Sequence[Any] | None) -> list[tuple[int, float, Series]]:
    """One sample an instant: of series that overlap the later one's; of two that were there already the known one's."""
    if len(told) == 1:
        return [(at, value, told[0]) for at, value in told[0].samples]
    chosen: dict[int, tuple[float, Series]] = {}
    first = told[0].samples[0][0]
    for series in told:
        for at, value in series.samples:
            is_tied = at in chosen and series.samples[0][0] == first
            if is_tied and (known is None or chosen[at][0] == known[0]):
                continue
            chosen[at] = (value, series)
    return [(at, *chosen[at]) for at in sorted(chosen)]
