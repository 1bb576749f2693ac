"""`rerail runs`, `show`, `incidents`, `incident`: what the pages show, in a terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from urllib.parse import quote

from rerail.server.api.answers import incident_answer, plain, run_answer
from rerail.server.commands.answered import Told, answered, server_of, told_by_server
from rerail.server.core.infrastructure import known_words, least_words
from rerail.server.core.words import DOWN_UNTOLD, THIN, at_least, each_step, to_restart
from rerail.server.errors import RerailError
from rerail.server.instants import parse_instant
from rerail.server.queries import Queries

MOST_RELAUNCHES = 5
"""Failed relaunches of an incident that are printed."""


def show_runs(parsed: argparse.Namespace) -> int:
    """The list of runs."""
    search = " ".join(parsed.search)
    asked = {"search": search, "state": parsed.state, "sort": parsed.sort, "limit": parsed.limit}
    page = Told(
        answered(
            parsed, "runs", asked,
            lambda queries: plain(queries.runs(search, parsed.state, parsed.sort, True, 0, parsed.limit)),
        )
    )  # fmt: skip
    if parsed.json:
        _print_json(page.told)
        return 0
    if not page.rows:
        print("No runs. State facts to a running server, or: rerail import facts PATH")
        return 0
    header = ("RUN", "STATE", "TRAINING", "INFRA", "FAULTS", "P50 RECOVER", "STEP", "AT RISK", "LAST HEARD")
    _print_table(
        header,
        [
            (
                row.text("run_id"),
                row.text("state"),
                _training_words(row),
                infrastructure_words(row),
                row.text("interruptions"),
                _length(row.nanoseconds("recover_p50_seconds")),
                _number(row.whole("current_step")),
                _number(row.whole("steps_at_risk")),
                row.second("last_heard_at"),
            )
            for row in page.rows
        ],
    )
    for row in page.rows:
        if row.told.get("error"):
            print(f"{row.text('run_id')}: figures are old: {row.text('error')}")
    if page.total > len(page.rows):
        print(f"{page.total - len(page.rows)} more; see --limit")
    return 0


def _training_words(row: Told) -> str:
    """`84.2%`; `≤ 84.2%` where nothing dates a restart, so that more time may have passed."""
    known = _percent(row.real("training_goodput"))
    is_most = row.flag("infrastructure_goodput_is_most") and row.real("training_goodput") is not None
    return f"≤ {known}" if is_most else known


def infrastructure_words(row: Told) -> str:
    """`97.5%`, `≤ 97.5%`, `unknown (≥ 1.2%)`: as `core/infrastructure.py` has it."""
    least = row.real("infrastructure_goodput_least")
    known = known_words(row.real("infrastructure_goodput"), is_most=row.flag("infrastructure_goodput_is_most"))
    words = known if least is None else f"{known} (≥ {known_words(least, is_most=False)})"
    return words.replace(THIN, "")


def show_run(parsed: argparse.Namespace) -> int:
    """The figures of one run."""
    as_of = None if parsed.as_of is None else _instant("--as-of", parsed.as_of)
    window = None
    if parsed.window is not None:
        start, end = window = tuple(_instant("--window", edge) for edge in parsed.window)
        if end < start:
            raise RerailError("--window: A must be before B")
    asked = {"as_of": as_of, "definition": parsed.definition}
    if window is not None:
        asked |= {"from": window[0], "to": window[1]}
    shown = answered(
        parsed, f"runs/{quote(parsed.run_id, safe='')}", asked,
        lambda queries: run_answer(queries, parsed.run_id, as_of, window, parsed.definition),
    )  # fmt: skip
    if parsed.json:
        _print_json(shown)
    else:
        _print_figures(shown)
    return 0


def show_incidents(parsed: argparse.Namespace) -> int:
    """The incidents of one run."""
    page = Told(
        answered(
            parsed, f"runs/{quote(parsed.run_id, safe='')}/incidents", {"limit": parsed.limit},
            lambda queries: plain(queries.incidents(parsed.run_id, 0, parsed.limit)),
        )
    )  # fmt: skip
    if parsed.json:
        _print_json(page.told)
        return 0
    if not page.rows:
        print(f"No incidents in {parsed.run_id}.")
        return 0
    _print_table(
        ("INCIDENT", "STARTED", "RESTART", "RECOVER", "LOST STEPS", "CAUSE", ""),
        [
            (
                row.text("incident_id"),
                row.second("started_at", ""),
                _to_restart(row),
                _to_recover(row),
                _lost_steps(row),
                row.text("cause"),
                "planned" if row.flag("is_planned") else "open" if row.flag("is_open") else "",
            )
            for row in page.rows
        ],
    )
    return 0


def _to_restart(row: Told) -> str:
    return to_restart(
        row.nanoseconds("time_to_restart_seconds") or 0, row.nanoseconds("untold_seconds") or 0,
        is_restarted=row.told.get("restarted_at") is not None, is_open=row.flag("is_open"),
        is_down_untold=row.flag("is_down_untold"), is_step_untold=row.flag("is_step_untold"),
    )  # fmt: skip


def _to_recover(row: Told) -> str:
    if row.told.get("ended_at") is None:
        return "not yet" if row.flag("is_open") else "never"
    is_least = row.flag("is_down_untold") or row.flag("is_step_untold")
    return _recovery(row.nanoseconds("time_to_recover_seconds"), is_down_untold=is_least)


def _lost_steps(row: Told) -> str:
    lost = row.whole("lost_steps")
    return "-" if lost is None else at_least(str(lost), row.whole("told_every") or 1)


def show_incident(parsed: argparse.Namespace) -> int:
    """One incident."""

    def read(queries: Queries) -> object:
        found = incident_answer(queries.incident(parsed.incident_id))
        return {**found, "past": plain(queries.problems.similar(parsed.incident_id))}

    place = f"incidents/{quote(parsed.incident_id, safe='')}"
    shown = answered(parsed, place, {}, read)
    if server_of(parsed):
        shown = {**shown, "past": told_by_server(parsed, f"{place}/similar")}
    if parsed.json:
        _print_json(shown)
    else:
        _print_incident(Told(shown))
    return 0


def _print_incident(shown: Told) -> None:
    incident = shown.inner("incident")
    is_open, is_down_untold = incident.flag("open"), incident.flag("down_untold")
    every = incident.whole("steps_told_every") or 1
    print(f"{incident.text('incident_id')} of {incident.text('run_id')}: {incident.text('verdict', '')}")
    sure = incident.real("confidence") or 0.0
    print(f"{incident.text('cause')} ({incident.text('domain')}), confidence {sure:.0%}")
    if incident.told.get("contradicted_by") is not None:
        print(f"against that: {incident.text('contradicted_by')}")
    ended = incident.text("ended_at", "not yet" if is_open else "never")
    print(f"started {incident.text('started_at')}, ended {ended}")
    steps = incident.whole("lost_steps")
    lost = "lost steps not known" if steps is None else at_least(f"{steps} steps redone", every)
    if every > 1:
        lost += f" (only {each_step(every)} is told)"
    parts = {name: round(length * 1e9) for name, length in incident.pairs("parts_seconds")}
    if incident.told.get("ended_at") is None:
        so_far = _length(sum(parts.values()))
        print(f"{f'{so_far} so far' if is_open else f'never recovered: the run ended {so_far} later'}, {lost}")
    else:
        is_least = is_down_untold or incident.flag("step_untold")
        print(f"{_recovery(sum(parts.values()), is_down_untold=is_least)} to recover, {lost}")
    if is_down_untold:
        print(DOWN_UNTOLD)
    for name, length in parts.items():
        print(f"  {name:<14} {_length(length)}")
    _print_past(shown.inner("past"))
    _print_evidence(incident.each("evidence"))
    relaunches = incident.each("relaunches")
    for each in relaunches[:MOST_RELAUNCHES]:
        print(f"failed relaunch, attempt {each.text('attempt')}: {each.text('cause')}. {each.text('verdict', '')}")
        _print_evidence(sorted(each.each("evidence"), key=lambda line: line.text("role") != "initiating")[:2])
    left = len(relaunches) - MOST_RELAUNCHES
    if left > 0:
        print(f"and {left} more failed relaunches, see --json")


def _print_evidence(lines: Sequence[Told]) -> None:
    for line in lines:
        print(f"  [{line.text('role')}] {line.text('at')} {line.text('source')}: {line.text('text', '')[:200]}")


def _print_past(past: Told) -> None:
    """The problem it belongs to, and earlier incidents like it."""
    about = past.inner("problem")
    if not about.told:
        return
    row = about.inner("problem")
    times = f"{about.text('position')} of {row.text('incidents')} in {row.text('runs')} runs"
    print(f"{times} of {row.text('problem_id')} ({row.text('status')}): {row.text('title')}")
    resolution = row.inner("resolution")
    if resolution.told:
        by = f" by {resolution.text('author')}" if resolution.told.get("author") else ""
        print(f"last resolved{by}: {resolution.text('text')}")
    for each in past.each("similar")[:5]:
        reasons = " ".join(map(str, each.told.get("reasons") or ()))
        print(f"  like {each.inner('occurrence').text('incident_id')}: {reasons}")


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
            words = _in_words(Told(shown)) if name == "infrastructure_goodput" else ""
            print(f"{name:<40} {_shown(value)}{words}")
    quality = shown.get("data_quality")
    if isinstance(quality, dict):
        _print_unexplained(quality)


def _in_words(shown: Told) -> str:
    """What is known of the infrastructure goodput beside its figure; empty where the figure says it all."""
    known = known_words(shown.real("infrastructure_goodput"), is_most=shown.flag("infrastructure_goodput_is_most"))
    least = least_words(
        shown.real("infrastructure_goodput_least"), shown.nanoseconds("infrastructure_untold_seconds") or 0
    )  # fmt: skip
    if not least:
        return f"  ({known.replace(THIN, '')})" if shown.flag("infrastructure_goodput_is_most") else ""
    return f"  ({known}; {least})".replace(THIN, " ")


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
