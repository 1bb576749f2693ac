"""Prometheus source: asks a server for the series of rules and states what they tell of GPUs, machines and storage.

Rules
- It asks for instants on a grid (every `step_seconds`, whole multiples since 1970), each once: from where the cursor
  stands to a little before now, since samples arrive late (`lag_seconds`).
- A query that fails is stated blind (`partial_sight.py`) and its instants are asked for again; where none is answered,
  or the server cannot be reached, the source is down. No series is not blind: an exporter may not have that metric.
- A server that answers and has no sample of any target was itself away: blind for as long as `up` has none.
- After a failure it waits twice as long each time, up to ten minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rerail.collectors.arguments import number_between, whole_seconds
from rerail.collectors.identity import settings
from rerail.collectors.live_sources import LiveSource
from rerail.collectors.source import NotConfigured, Polled, Source, SourceDown
from rerail.collectors.sources.partial_sight import PartialSight
from rerail.collectors.sources.prometheus_client import TIMEOUT_SECONDS, PrometheusClient, QueryFailed, Reach
from rerail.collectors.sources.prometheus_facts import SECOND, Naming, RuleFacts
from rerail.collectors.sources.prometheus_memory import packed, unpacked
from rerail.collectors.sources.prometheus_rules import BUILT_IN, Kind, Rule, load_rules
from rerail.collectors.sources.prometheus_samples import MOST_SERIES, read_answer
from rerail.server.core.facts import Fact

log = logging.getLogger("rerail.prometheus")

LONGEST_WAIT_SECONDS = 600.0
CLOSER = 12
"""Where a counter begins above 0, the stretch before it is asked for in so many parts."""
TARGETS = "count(up)"
SAMPLES = "samples"
"""The part that is blind while the server has no samples."""


class Ranges(Protocol):
    """A server that is asked for ranges of queries; `PrometheusClient` is one."""

    def ranges(self, query: str, start: int, end: int, step: int) -> Iterator[tuple[int, int, object]]:
        """`(first, last, result)` of pieces that tile the range. Raises `QueryFailed`, `SourceDown`."""
        ...

    def close(self) -> None:
        """Give connections back."""
        ...


@dataclass(slots=True)
class _Answered:
    """What one rule's query came to."""

    facts: list[Fact] = field(default_factory=list)
    is_all: bool = True
    has_series: bool = False
    failure: str | None = None


class PrometheusSource:
    """The rules' series of one server."""

    def __init__(
        self,
        client: Ranges,
        naming: Naming,
        rules: Sequence[Rule] = BUILT_IN,
        *,
        step_seconds: int = 15,
        lag_seconds: float = 30.0,
        since_hours: float = 1.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = "prometheus"
        self.runs: tuple[str, ...] = () if naming.run is None else (naming.run,)
        self.empty: tuple[str, ...] = ()
        """Rules whose queries gave no series at the last look."""
        self._client = client
        self._naming = naming
        self._rules = tuple(rules)
        self._step = step_seconds
        self._lag = lag_seconds
        self._since = since_hours * 3600
        self._now = now
        self._next_at = 0.0
        self._failures = 0
        self._reason = ""

    def close(self) -> None:
        """Give connections back."""
        self._client.close()

    def poll(self, cursor: str | None) -> Polled:
        """What was sampled since; of a long time one piece. Raises `SourceDown`."""
        now = self._now()
        if now < self._next_at:
            if self._failures:
                raise SourceDown(self._reason)
            return Polled((), cursor or "")
        try:
            polled, is_all = self._look(cursor, most_pieces=1)
        except SourceDown as error:
            self._failures += 1
            self._reason = str(error)
            self._next_at = now + min(LONGEST_WAIT_SECONDS, self._step * 2 ** min(self._failures, 10))
            raise
        self._failures = 0
        self._next_at = now + (self._step if is_all else 0)
        return polled

    def finish(self, cursor: str | None) -> Polled:
        """Everything up to now. Raises `SourceDown`."""
        return self._look(cursor, most_pieces=None)[0]

    def _look(self, cursor: str | None, most_pieces: int | None) -> tuple[Polled, bool]:
        memory = _memory(cursor)
        now = self._now()
        facts: list[Fact] = []
        sight = PartialSight("prometheus", memory["blind"], lambda: int(now * SECOND))
        failed: dict[str, str] = {}
        empty: list[str] = []
        is_all = True
        runs = dict.fromkeys(self.runs)
        for rule in self._rules:
            place = _place(memory["rules"], rule)
            told = RuleFacts(rule, place["series"], self._naming)
            answered = self._ask(rule, place, told, now, most_pieces)
            facts += answered.facts
            is_all = is_all and answered.is_all
            if answered.failure is not None:
                failed[rule.name] = answered.failure
            elif not answered.has_series:
                empty.append(rule.name)
            runs.update(told.runs)
        if failed and len(failed) == len(self._rules):
            raise SourceDown(next(iter(failed.values())))
        self.runs = tuple(runs)
        self.empty = tuple(empty)
        for rule in self._rules:
            reason = failed.get(rule.name) or _left_off(memory["rules"][rule.name])
            facts += sight.cannot_see(rule.name, reason, self.runs) if reason else sight.sees(rule.name)
        facts += self._gaps(memory, now)
        rules = {name: {**place, "series": packed(place["series"])} for name, place in memory["rules"].items()}
        written = json.dumps({**memory, "rules": rules}, separators=(",", ":"), sort_keys=True)
        return Polled(tuple(facts), written), is_all

    def _ask(
        self, rule: Rule, place: dict[str, Any], told: RuleFacts, now: float, most_pieces: int | None
    ) -> _Answered:
        """What a rule's series state; `place` moves on with every piece. Raises `SourceDown`."""
        step = rule.step_seconds or self._step
        start, end = self._range(place["until"], step, now)
        begins_at = start if place["until"] is None else None
        answered = _Answered(has_series=start > end)
        try:
            for count, (first, last, result) in enumerate(self._client.ranges(rule.query, start, end, step), 1):
                answer = read_answer(result, first, last)
                for at in told.beginning(answer.series, begins_at):
                    self._look_closer(rule, told, at, step)
                answered.facts += told.take(answer.series, step, begins_at)
                answered.has_series = answered.has_series or bool(answer.series)
                place["until"], place["left_off"] = last, answer.left_off
                start = last + step
                if start <= end:
                    log.info("%s: read to %s", rule.name, time.strftime("%Y-%m-%d %H:%M", time.gmtime(last)))
                if count == most_pieces:
                    break
        except QueryFailed as error:
            answered.failure = str(error)
        answered.is_all = start > end or answered.failure is not None
        return answered

    def _look_closer(self, rule: Rule, told: RuleFacts, at: int, step: int) -> None:
        """A counter begins at `at`, above 0: it may have risen since the instant before. Raises as `_ask` does."""
        closer = max(1, step // CLOSER)
        start = at - step + closer
        for first, last, result in self._client.ranges(rule.query, start, at - closer, closer):
            told.begins_with(read_answer(result, first, last).series)

    def _range(self, until: int | None, step: int, now: float) -> tuple[int, int]:
        start = (int(now - self._since) // step * step) if until is None else (until // step + 1) * step
        return start, int(now - self._lag) // step * step

    def _gaps(self, memory: dict[str, Any], now: float) -> list[Fact]:
        """State since when, and until when, the server had no samples at all."""
        step = self._step
        start, end = self._range(memory["until"], step, now)
        facts: list[Fact] = []
        instant = [0]
        sight = PartialSight("prometheus", memory["blind"], lambda: instant[0])
        try:
            for first, last, result in self._client.ranges(TARGETS, start, end, step):
                there = {at for series in read_answer(result, first, last).series for at, _ in series.samples}
                for at in range(first, last + 1, step):
                    instant[0] = at * SECOND
                    if at in there:
                        memory["heard"] = True
                        facts += sight.sees(SAMPLES)
                    elif memory["heard"]:  # a server without `up`, such as one that is only written to, tells nothing
                        facts += sight.cannot_see(SAMPLES, "the server has no samples of any target", self.runs)
                memory["until"] = last
        except QueryFailed as error:
            log.warning("%s: %s", TARGETS, error)
        return facts


def _left_off(place: dict[str, Any]) -> str | None:
    """Why a rule sees only a part of what there is."""
    if not place["left_off"]:
        return None
    return f"more than {MOST_SERIES} series: {place['left_off']} of them are not followed"


def _place(memory: dict[str, Any], rule: Rule) -> dict[str, Any]:
    """What is kept of a rule. Another query under its name begins anew, where the one before had come to."""
    query = hashlib.sha256(f"{rule.query}\0{rule.kind}\0{rule.when}".encode()).hexdigest()[:12]
    place = memory.get(rule.name)
    if not _fits(place) or place["query"] != query:
        place = {"query": query, "until": None, "series": {}, "left_off": 0}
    memory[rule.name] = place
    if rule.kind is Kind.METRIC:
        place["series"] = {}
    return place


def _fits(place: object) -> bool:
    return (
        isinstance(place, dict) and isinstance(place.get("series"), dict) and isinstance(place.get("query"), str)
        and isinstance(place.get("left_off"), int) and (place.get("until") is None or isinstance(place["until"], int))
    )  # fmt: skip


def _memory(cursor: str | None) -> dict[str, Any]:
    """What a cursor holds; one that makes no sense is the beginning."""
    empty: dict[str, Any] = {"rules": {}, "blind": {}, "until": None, "heard": False}
    try:
        told = json.loads(cursor) if cursor else {}
    except ValueError:
        return empty
    fits = isinstance(told, dict) and isinstance(told.get("rules"), dict) and isinstance(told.get("blind"), dict)
    if not fits or not (told.get("until") is None or isinstance(told["until"], int)):
        return empty
    rules = {}
    for name, place in told["rules"].items():
        series = unpacked(place.get("series")) if isinstance(place, dict) else None
        if series is not None:
            rules[name] = {**place, "series": series}
    return {**empty, **told, "rules": rules}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prometheus", required=True, metavar="URL", help="the server, such as http://prometheus:9090")
    parser.add_argument(
        "--map", type=Path, metavar="FILE", help="YAML with more rules: a query and the fact it becomes"
    )
    parser.add_argument("--run-label", metavar="LABEL", help="a label of the series that names the run")
    parser.add_argument(
        "--node", action="append", default=[], help="only machines of this name, or pattern; may be given again"
    )
    parser.add_argument("--step", type=whole_seconds, default=15, help="seconds between two instants (default 15)")
    parser.add_argument(
        "--lag",
        type=number_between(0),
        default=30.0,
        help="seconds that samples may be late, and are waited for (default 30)",
    )
    parser.add_argument(
        "--since-hours", type=number_between(0), default=1.0, help="how far the first look goes back (default 1)"
    )
    parser.add_argument(
        "--timeout",
        type=number_between(0),
        default=TIMEOUT_SECONDS,
        help="seconds that an answer may take (default 30)",
    )
    parser.add_argument("--token-file", type=Path, help="file with a bearer token")
    parser.add_argument("--ca", type=Path, help="certificates that the server's is checked against")
    parser.add_argument("--sigv4", metavar="REGION", help="sign requests for Amazon Managed Service for Prometheus")


def _make(arguments: argparse.Namespace) -> tuple[Source, ...]:
    run = arguments.run_id or settings().run
    if run is None and arguments.run_label is None:
        raise NotConfigured("which run is it about? give --run-id, RERAIL_RUN or --run-label")
    rules = load_rules(arguments.map)
    reach = Reach(arguments.prometheus, arguments.token_file, arguments.ca, arguments.sigv4, arguments.timeout)
    source = PrometheusSource(
        PrometheusClient(reach),
        Naming(run, arguments.run_label, tuple(arguments.node)),
        rules,
        step_seconds=arguments.step,
        lag_seconds=arguments.lag,
        since_hours=arguments.since_hours,
    )
    return (source,)


SOURCE = LiveSource(
    name="prometheus",
    summary="XIDs, error counters, throttling, use and health of GPUs and machines, from Prometheus",
    description="Asks a Prometheus server and states what DCGM and node exporters told it (docs/prometheus.md).",
    add_arguments=_add_arguments,
    make=_make,
)
