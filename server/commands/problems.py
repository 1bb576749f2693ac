"""`rerail problems`, `problem` and `nodes`: what keeps coming back and on which machine, in a terminal.

Rules
- What is read is asked of a server where one is named (`answered.py`), else of the database; the text is the same.
- `problem` with a flag writes down what somebody did, at a server where one is named, else into the database. It acts
  on the problem as it stands: where somebody else acts in between, nothing is done and the command says so.
"""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote

from rerail.server.api.answers import plain
from rerail.server.api.problems import acted
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.answered import Told, answered, server_of
from rerail.server.commands.asking import ask_server
from rerail.server.commands.showing import _length, _number, _print_json, _print_table
from rerail.server.errors import RefusedRequestError, RerailError
from rerail.server.problems import ProblemDesk, action_of
from rerail.server.queries import Queries

DETAILS = ("into", "assignee", "title", "reason", "fixed_by")
"""What an action may name beside its kind."""
SHOWN = 20
"""Occurrences, and events, printed of one problem or node; `--json` has more."""


def show_problems(parsed: argparse.Namespace) -> int:
    """The list of problems."""
    search = " ".join(parsed.search)
    asked = {
        "search": search, "status": parsed.status, "cause": parsed.cause, "node": parsed.node, "sort": parsed.sort,
        "limit": parsed.limit,
    }  # fmt: skip
    page = Told(
        answered(
            parsed, "problems", asked,
            lambda queries: plain(
                queries.problems.problems(
                    search, parsed.status, parsed.cause, parsed.node, parsed.sort, True, 0, parsed.limit
                )
            ),
        )
    )  # fmt: skip
    if parsed.json:
        _print_json(page.told)
        return 0
    if not page.rows:
        print("No problems. They come with the first unplanned incident of any run.")
        return 0
    _print_table(
        ("PROBLEM", "STATUS", "TIMES", "RUNS", "NODES", "GPU-H", "RECOVERING", "LAST SEEN", "WHAT"),
        [
            (
                row.text("problem_id"),
                row.text("status"),
                row.text("incidents"),
                row.text("runs"),
                row.text("nodes"),
                _cost(row),
                _length(row.nanoseconds("recover_seconds")),
                row.text("last_at", "never")[:19],
                row.text("title"),
            )
            for row in page.rows
        ],
    )
    if page.total > len(page.rows):
        print(f"{page.total - len(page.rows)} more; see --limit")
    return 0


def problem(parsed: argparse.Namespace) -> int:
    """One problem, or what somebody did about it."""
    said = _said(parsed)
    if said is None:
        found = answered(
            parsed, f"problems/{quote(parsed.problem_id, safe='')}", {"limit": 100},
            lambda queries: plain(queries.problems.problem(parsed.problem_id, limit=100)),
        )  # fmt: skip
        if parsed.json:
            _print_json(found)
        else:
            _print_problem(Told(found))
        return 0
    settings = settings_of(parsed)
    url = server_of(parsed)
    try:
        done = _ask(url, settings.token, parsed.problem_id, said) if url else _write(parsed, said)
    except RefusedRequestError as error:
        raise RerailError(f"{error.message}. {error.hint}") from None
    if parsed.json:
        _print_json(done)
        return 0
    action, now = done["action"], done["problem"]
    assert isinstance(action, dict)
    assert isinstance(now, dict)
    print(f"action {action['action_id']}: {action['kind']}; {now['problem_id']} is {now['status']}: {now['title']}")
    print(f"undo it with: rerail problem {action['problem']} --undo {action['action_id']}")
    return 0


def _said(parsed: argparse.Namespace) -> dict[str, object] | None:
    """The action that the flags name; None where none does."""
    said: dict[str, object] = {}
    if parsed.resolve is not None:
        said = {"action": "resolve", "reason": parsed.resolve, "fixed_by": parsed.fixed_by}
    elif parsed.assign is not None:
        said = {"action": "assign", "assignee": parsed.assign.strip() or None}
    elif parsed.rename is not None:
        said = {"action": "rename", "title": parsed.rename}
    elif parsed.merge_into is not None:
        said = {"action": "merge", "into": parsed.merge_into}
    elif parsed.split is not None:
        facet, equals, value = parsed.split.partition("=")
        if not equals:
            raise RerailError("--split: FACET=VALUE, for instance node=gpu-17")
        said = {"action": "split", "facet": facet, "value": value}
    elif parsed.move is not None:
        said = {"action": "move", "incidents": [parsed.move[0]], "into": parsed.move[1]}
    elif parsed.undo is not None:
        said = {"action": "undo", "undoes": parsed.undo}
    else:
        said = next(({"action": name} for name in ("reopen", "known", "ignore") if getattr(parsed, name)), {})
    if not said:
        return None
    if parsed.fixed_by is not None and parsed.resolve is None:
        raise RerailError("--fixed-by: says what --resolve rests on; say both")
    if parsed.reason is not None and parsed.resolve is None:
        said["reason"] = parsed.reason
    said["author"] = parsed.author or _who()
    return {name: value for name, value in said.items() if value is not None}


def _who() -> str | None:
    """The name of the account that runs this."""
    with suppress(KeyError, OSError):
        return pwd.getpwuid(os.getuid()).pw_name
    return None


def _write(parsed: argparse.Namespace, said: Mapping[str, object]) -> dict[str, object]:
    """Through the database itself."""
    with opened_store(settings_of(parsed)) as store:
        queries = Queries(store)
        action, _ = action_of(said)
        revision = queries.problems.problem_row(parsed.problem_id).revision
        done = ProblemDesk(store).act(parsed.problem_id, action, revision)
        return acted(queries, done)


def _ask(url: str, token: str | None, problem_id: str, said: Mapping[str, object]) -> dict[str, object]:
    """Through a server."""
    return ask_server("POST", f"{url}/api/v1/problems/{quote(problem_id, safe='')}/actions", token, said)


def _print_problem(found: Told) -> None:
    row = found.inner("problem")
    print(f"{row.text('problem_id')}: {row.text('title')}")
    print(
        f"{row.text('status')}; {row.text('incidents')} incidents in {row.text('runs')} runs on "
        f"{row.text('nodes')} nodes"
    )
    print(f"first {row.second('first_at', 'never')}, last {row.second('last_at', 'never')} UTC")
    print(f"{_length(row.nanoseconds('recover_seconds'))} recovering, {_cost(row)} GPU-h")
    if row.told.get("assignee") is not None:
        print(f"looked after by {row.text('assignee')}")
    resolution = row.inner("resolution")
    if resolution.told:
        by = f" by {resolution.text('author')}" if resolution.told.get("author") else ""
        fix = f" ({resolution.text('fixed_by')})" if resolution.told.get("fixed_by") else ""
        print(f"resolved {resolution.second('at', '')}{by}: {resolution.text('text')}{fix}")
    for name, value in found.pairs("parts"):
        print(f"  {name:<12} {value}")
    for share in found.each("facet_shares"):
        print(f"  {share.text('sentence')}")
    for each in found.each("merged"):
        print(f"merged into it: {each.text('problem_id')} {each.text('title')}")
    occurrences = found.each("occurrences")
    if occurrences:
        _print_table(
            ("INCIDENT", "STARTED", "RECOVER", "NODE", "RANK", "STEP"),
            [
                (
                    each.text("incident_id"),
                    each.second("started_at", ""),
                    _length(each.nanoseconds("recover_seconds")) + ("+" if each.flag("is_open") else ""),
                    each.text("node"),
                    _number(each.whole("rank")),
                    _number(each.whole("step")),
                )
                for each in occurrences[:SHOWN]
            ],
        )
    older = (found.whole("occurrence_count") or 0) - SHOWN
    if older > 0:
        print(f"{older} older ones; see --json")
    for entry in found.each("history"):
        print(_told(entry))


def _told(entry: Told) -> str:
    """One line of the audit trail."""
    action = entry.inner("action")
    by = f" by {action.text('author')}" if action.told.get("author") else ""
    details = [str(action.told[name]) for name in DETAILS if action.told.get(name)]
    if action.told.get("facet") is not None:
        details.insert(0, f"{action.text('facet')}={action.text('value')}")
    details += map(str, (action.told.get("incidents") or ())[:3])
    if action.told.get("undoes") is not None:
        details.insert(0, f"action {action.text('undoes')}")
    undone = (
        ""
        if entry.flag("in_force")
        else " [undone]"
        if entry.told.get("undone_by") is not None
        else " [without effect]"
    )
    return (
        f"{action.text('action_id')}  {action.second('at', '')}  {action.text('kind')}{by}: "
        f"{', '.join(details)}{undone}"
    )


def show_nodes(parsed: argparse.Namespace) -> int:
    """The list of nodes, or one of them."""
    if parsed.node is not None:
        found = answered(
            parsed, f"nodes/{quote(parsed.node, safe='')}", {}, lambda queries: plain(queries.nodes.node(parsed.node))
        )
        if parsed.json:
            _print_json(found)
        else:
            _print_node(Told(found))
        return 0
    asked = {"level": parsed.level, "sort": parsed.sort, "limit": parsed.limit}
    page = answered(
        parsed, "nodes", asked,
        lambda queries: plain(queries.nodes.nodes("", parsed.level, parsed.sort, True, 0, parsed.limit)),
    )  # fmt: skip
    return _print_nodes(Told(page), parsed)


def _print_nodes(page: Told, parsed: argparse.Namespace) -> int:
    if parsed.json:
        _print_json(page.told)
        return 0
    if not page.rows:
        print("No nodes. They come with attempts that say on which nodes they ran.")
        return 0
    _print_table(
        ("NODE", "LEVEL", "SCORE", "FAULTS", "RUNS", "NODE-DAYS", "XIDS", "WHY"),
        [
            (
                row.text("node"),
                row.inner("lemon").text("level"),
                row.inner("lemon").decimal("score"),
                row.text("blamed"),
                row.text("runs"),
                row.inner("lemon").decimal("node_days"),
                row.text("xids"),
                row.inner("lemon").text("sentence"),
            )
            for row in page.rows
        ],
    )
    if page.total > len(page.rows):
        print(f"{page.total - len(page.rows)} more; see --limit")
    return 0


def _print_node(found: Told) -> None:
    row = found.inner("node")
    lemon = row.inner("lemon")
    print(f"{row.text('node')}: {lemon.text('level')}. {lemon.text('sentence')}")
    for reason in lemon.told.get("reasons") or ():
        print(f"  {reason}")
    for each in found.each("away"):
        print(f"{each.text('state')} {each.second('since', '')} – {each.second('until', 'no word since')}")
    for event in found.each("events")[:SHOWN]:
        about = f": {event.text('meaning')}" if event.told.get("meaning") else ""
        print(f"{event.second('at', '')}  {event.text('run_id')}  {event.text('what')}{about}")
    for each in found.each("blamed")[:SHOWN]:
        print(f"{each.second('started_at', '')}  {each.text('incident_id')}  {each.text('cause')}")
    for stay in found.each("stays")[:SHOWN]:
        length = stay.nanoseconds("held_seconds")
        held = "for an unknown time" if length is None else f"for {_length(length)}"
        print(f"held by {stay.text('run_id')} {held} since {stay.second('since')}")


def _cost(row: Told) -> str:
    hours = row.real("lost_gpu_hours")
    return "unknown" if hours is None else f"{hours:,.1f}"
