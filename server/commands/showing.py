"""`rerail runs`, `show`, `incidents`, `incident`: what the pages show, in a terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rerail.server.api.answers import incident_answer, plain, run_answer
from rerail.server.commands import opened_store, settings_of
from rerail.server.core.report import iso
from rerail.server.core.words import DOWN_UNTOLD, at_least, each_step
from rerail.server.errors import RerailError
from rerail.server.instants import parse_instant
from rerail.server.queries import Queries
from rerail.server.query_problem_results import SimilarIncidents


@contextmanager
def _queries(parsed: argparse.Namespace) -> Iterator[Queries]:
    with opened_store(settings_of(parsed)) as store:
        yield Queries(store)


MOST_RELAUNCHES = 5
"""Failed relaunches of an incident that are printed."""


def show_runs(parsed: argparse.Namespace) -> int:
    """The list of runs."""
    with _queries(parsed) as queries:
        try:
            page = queries.runs(" ".join(parsed.search), parsed.state, parsed.sort, True, 0, parsed.limit)
        except ValueError as error:
            raise RerailError(str(error)) from None
    if parsed.json:
        _print_json(plain(page))
        return 0
    if not page.rows:
        print("No runs. State facts to a running server, or: rerail import facts PATH")
        return 0
    header = ("RUN", "STATE", "TRAINING", "INFRA", "FAULTS", "P50 RECOVER", "STEP", "AT RISK", "LAST HEARD")
    _print_table(
        header,
        [
            (
                row.run_id,
                row.state.value,
                _percent(row.training_goodput),
                _percent(row.infrastructure_goodput),
                str(row.interruptions),
                _length(row.recover_p50_ns),
                _number(row.current_step),
                _number(row.steps_at_risk),
                (iso(row.last_heard_at) or "unknown")[:19],
            )
            for row in page.rows
        ],
    )
    for row in page.rows:
        if row.error:
            print(f"{row.run_id}: figures are old: {row.error}")
    if page.total > len(page.rows):
        print(f"{page.total - len(page.rows)} more; see --limit")
    return 0


def show_run(parsed: argparse.Namespace) -> int:
    """The figures of one run."""
    as_of = None if parsed.as_of is None else _instant("--as-of", parsed.as_of)
    with _queries(parsed) as queries:
        window = None
        if parsed.window is not None:
            start, end = window = tuple(_instant("--window", edge) for edge in parsed.window)
            if end < start:
                raise RerailError("--window: A must be before B")
        shown = run_answer(queries, parsed.run_id, as_of, window, parsed.definition)
    if parsed.json:
        _print_json(shown)
    else:
        _print_figures(shown)
    return 0


def show_incidents(parsed: argparse.Namespace) -> int:
    """The incidents of one run."""
    with _queries(parsed) as queries:
        page = queries.incidents(parsed.run_id, 0, parsed.limit)
    if parsed.json:
        _print_json(plain(page))
        return 0
    if not page.rows:
        print(f"No incidents in {parsed.run_id}.")
        return 0
    _print_table(
        ("INCIDENT", "STARTED", "RESTART", "RECOVER", "LOST STEPS", "CAUSE", ""),
        [
            (
                row.incident_id,
                (iso(row.started_at) or "")[:19],
                "unknown" if row.is_down_untold else _length(row.time_to_restart_ns),
                _recovery(row.time_to_recover_ns, is_down_untold=row.is_down_untold) + ("+" if row.is_open else ""),
                "-" if row.lost_steps is None else at_least(str(row.lost_steps), row.told_every),
                row.cause,
                "planned" if row.is_planned else "open" if row.is_open else "",
            )
            for row in page.rows
        ],
    )
    return 0


def show_incident(parsed: argparse.Namespace) -> int:
    """One incident."""
    with _queries(parsed) as queries:
        view = queries.incident(parsed.incident_id)
        past = queries.problems.similar(parsed.incident_id)
    if parsed.json:
        _print_json({**incident_answer(view), "past": plain(past)})
        return 0
    incident = view.incident
    print(f"{incident.incident_id} of {incident.run_id}: {incident.verdict.sentence}")
    print(f"{incident.verdict.cause} ({incident.verdict.domain.value}), confidence {incident.verdict.confidence:.0%}")
    if view.contradicted_by is not None:
        print(f"against that: {view.contradicted_by}")
    print(f"started {iso(incident.started_at)}, ended {iso(incident.ended_at) or 'not yet'}")
    lost = (
        "lost steps not known"
        if incident.lost_steps is None
        else at_least(f"{incident.lost_steps} steps redone", incident.told_every)
    )
    if incident.is_loss_least:
        lost += f" (only {each_step(incident.told_every)} is told)"
    print(f"{_recovery(incident.time_to_recover_ns, is_down_untold=incident.is_down_untold)} to recover, {lost}")
    if incident.is_down_untold:
        print(DOWN_UNTOLD)
    for part in incident.parts:
        print(f"  {part.name:<14} {_length(part.length_ns)}")
    _print_past(past)
    for line in incident.evidence:
        print(f"  [{line.role.value}] {iso(line.at)} {line.source}: {line.text[:200]}")
    for each in incident.relaunches[:MOST_RELAUNCHES]:
        print(f"failed relaunch, attempt {each.attempt}: {each.verdict.cause}. {each.verdict.sentence}")
        for line in each.first_lines(2):
            print(f"  [{line.role.value}] {iso(line.at)} {line.source}: {line.text[:200]}")
    left = len(incident.relaunches) - MOST_RELAUNCHES
    if left > 0:
        print(f"and {left} more failed relaunches, see --json")
    return 0


def _print_past(past: SimilarIncidents) -> None:
    """The problem it belongs to, and earlier incidents like it."""
    if past.problem is None:
        return
    row = past.problem.problem
    times = f"{past.problem.position} of {row.incidents} in {row.runs} runs"
    print(f"{times} of {row.problem_id} ({row.status.value}): {row.title}")
    if row.resolution is not None:
        print(f"last resolved{f' by {row.resolution.author}' if row.resolution.author else ''}: {row.resolution.text}")
    for each in past.similar[:5]:
        print(f"  like {each.occurrence.incident_id}: {' '.join(each.reasons)}")


# --- printing ---------------------------------------------------------------------------------------------------------


def _instant(flag: str, text: str) -> int:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise RerailError(f"{flag}: {error}") from None


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_figures(shown: dict[str, object]) -> None:
    """Figures as `name value` lines; lists by their length, for they have pages and `--json`."""
    for name, value in shown.items():
        if isinstance(value, dict):
            for key, entry in value.items():
                if not isinstance(entry, (dict, list)):
                    print(f"{name + '.' + str(key):<40} {_shown(entry)}")
        elif isinstance(value, list):
            print(f"{name:<40} {len(value)} (see --json)")
        else:
            print(f"{name:<40} {_shown(value)}")
    quality = shown.get("data_quality")
    if isinstance(quality, dict):
        _print_unexplained(quality)


def _print_unexplained(quality: dict[str, object]) -> None:
    """Where the silent time is likely to have gone, in sentences."""
    for each in quality["unexplained"]:
        example = each["example"]
        after = "" if example["after_step"] is None else f" after step {example['after_step']}"
        print(
            f"unexplained: {each['seconds']:.6g} s in {each['count']}: {each['detail']}; for example "
            f"{example['seconds']:.6g} s from {example['at']}, attempt {example['attempt']}{after}"
        )


def _shown(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _recovery(length_ns: int | None, *, is_down_untold: bool) -> str:
    return _length(length_ns) if not is_down_untold or length_ns is None else f"at least {_length(length_ns)}"


def _length(length_ns: int | None) -> str:
    """A length as people say it."""
    if length_ns is None:
        return "unknown"
    seconds = length_ns / 1e9
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
