"""`rerail problems`, `problem` and `nodes`: what keeps coming back and on which machine, in a terminal.

Rules
- `problems` and `nodes` ask a server where one is named (`--url`, RERAIL_URL), else they read the database. One node of
  a server is shown as JSON.
- `problem` with a flag writes down what somebody did, at a server where one is named, else into the database. It acts
  on the problem as it stands: where somebody else acts in between, nothing is done and the command says so.
"""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote, urlencode

from rerail.server.api.answers import plain
from rerail.server.api.problems import acted
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.asking import ask_server
from rerail.server.commands.showing import _length, _number, _print_json, _print_table
from rerail.server.core.report import gpu_hours, iso
from rerail.server.errors import RefusedRequestError, RerailError
from rerail.server.problems import ProblemDesk, action_of
from rerail.server.queries import Queries
from rerail.server.query_problem_results import ActionEntry, NodeView, ProblemView

SHOWN = 20
"""Occurrences, and events, printed of one problem or node; `--json` has more."""


def show_problems(parsed: argparse.Namespace) -> int:
    """The list of problems."""
    search = " ".join(parsed.search)
    asked = {
        "search": search, "status": parsed.status, "cause": parsed.cause, "node": parsed.node, "sort": parsed.sort,
        "limit": parsed.limit,
    }  # fmt: skip
    page = _of_a_server(parsed, "problems", asked)
    if page is None:
        with opened_store(settings_of(parsed)) as store:
            try:
                found = Queries(store).problems.problems(
                    search, parsed.status, parsed.cause, parsed.node, parsed.sort, True, 0, parsed.limit
                )
            except ValueError as error:
                raise RerailError(str(error)) from None
        page = _Shown(plain(found))
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
                _cost(row.nanoseconds("lost_gpu_seconds")),
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
        with opened_store(settings_of(parsed)) as store:
            found = Queries(store).problems.problem(parsed.problem_id, limit=100)
        if parsed.json:
            _print_json(plain(found))
        else:
            _print_problem(found)
        return 0
    settings = settings_of(parsed)
    url = str(parsed.url or settings.url or "").rstrip("/")
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


def _print_problem(found: ProblemView) -> None:
    row = found.problem
    print(f"{row.problem_id}: {row.title}")
    print(f"{row.status.value}; {row.incidents} incidents in {row.runs} runs on {row.nodes} nodes")
    print(f"first {(iso(row.first_at) or 'never')[:19]}, last {(iso(row.last_at) or 'never')[:19]} UTC")
    print(f"{_length(row.recover_ns)} recovering, {_cost(row.lost_gpu_ns)} GPU-h")
    if row.assignee is not None:
        print(f"looked after by {row.assignee}")
    if row.resolution is not None:
        by = f" by {row.resolution.author}" if row.resolution.author else ""
        fix = f" ({row.resolution.fixed_by})" if row.resolution.fixed_by else ""
        print(f"resolved {(iso(row.resolution.at) or '')[:19]}{by}: {row.resolution.text}{fix}")
    for name, value in found.parts:
        print(f"  {name:<12} {value}")
    for share in found.facet_shares:
        print(f"  {share.sentence}")
    for each in found.merged:
        print(f"merged into it: {each.problem_id} {each.title}")
    if found.occurrences:
        _print_table(
            ("INCIDENT", "STARTED", "RECOVER", "NODE", "RANK", "STEP"),
            [
                (
                    each.incident_id,
                    (iso(each.started_at) or "")[:19],
                    _length(each.recover_ns) + ("+" if each.is_open else ""),
                    each.node or "unknown",
                    _number(each.rank),
                    _number(each.step),
                )
                for each in found.occurrences[:SHOWN]
            ],
        )
    if found.occurrence_count > SHOWN:
        print(f"{found.occurrence_count - SHOWN} older ones; see --json")
    for entry in found.history:
        print(_told(entry))


def _told(entry: ActionEntry) -> str:
    """One line of the audit trail."""
    action = entry.action
    by = f" by {action.author}" if action.author else ""
    details = [each for each in (action.into, action.assignee, action.title, action.reason, action.fixed_by) if each]
    if action.facet is not None:
        details.insert(0, f"{action.facet}={action.value}")
    details += action.incidents[:3]
    if action.undoes is not None:
        details.insert(0, f"action {action.undoes}")
    undone = "" if entry.in_force else " [undone]" if entry.undone_by is not None else " [without effect]"
    return f"{action.action_id}  {(iso(action.at) or '')[:19]}  {action.kind.value}{by}: {', '.join(details)}{undone}"


def show_nodes(parsed: argparse.Namespace) -> int:
    """The list of nodes, or one of them."""
    place = "nodes" if parsed.node is None else f"nodes/{quote(parsed.node, safe='')}"
    asked = {"level": parsed.level, "sort": parsed.sort, "limit": parsed.limit} if parsed.node is None else {}
    answered = _of_a_server(parsed, place, asked)
    if answered is not None and parsed.node is not None:
        _print_json(answered.told)
        return 0
    if answered is not None:
        return _print_nodes(answered, parsed)
    with opened_store(settings_of(parsed)) as store:
        queries = Queries(store).nodes
        if parsed.node is not None:
            found = queries.node(parsed.node)
            if parsed.json:
                _print_json(plain(found))
            else:
                _print_node(found)
            return 0
        try:
            found_nodes = queries.nodes("", parsed.level, parsed.sort, True, 0, parsed.limit)
        except ValueError as error:
            raise RerailError(str(error)) from None
    return _print_nodes(_Shown(plain(found_nodes)), parsed)


class _Shown:
    """What a query found as JSON holds it, from a database or a server."""

    def __init__(self, told: object) -> None:
        self.told = told if isinstance(told, dict) else {}
        found = self.told.get("rows")
        self.rows = [_Shown(row) for row in found] if isinstance(found, list) else []

    @property
    def total(self) -> int:
        """How many rows there are in all."""
        return int(self.told.get("total") or 0)

    def text(self, name: str, unknown: str = "unknown") -> str:
        """A value as text; `unknown` where it is not there."""
        value = self.told.get(name)
        return unknown if value is None else str(value)

    def nanoseconds(self, name: str) -> int | None:
        """A length that is told in seconds."""
        value = self.told.get(name)
        return round(value * 1e9) if isinstance(value, (int, float)) else None

    def decimal(self, name: str) -> str:
        """A number with one decimal."""
        value = self.told.get(name)
        return f"{value:.1f}" if isinstance(value, (int, float)) else "unknown"

    def inner(self, name: str) -> _Shown:
        """A value that has values of its own."""
        return _Shown(self.told.get(name))


def _of_a_server(parsed: argparse.Namespace, place: str, asked: Mapping[str, object]) -> _Shown | None:
    """What a server answers, where one is named; None where the database is read."""
    settings = settings_of(parsed)
    url = parsed.url or settings.url
    if not url:
        return None
    given = urlencode({name: value for name, value in asked.items() if value not in (None, "")})
    address = f"{str(url).rstrip('/')}/api/v1/{place}" + (f"?{given}" if given else "")
    return _Shown(ask_server("GET", address, settings.token))


def _print_nodes(page: _Shown, parsed: argparse.Namespace) -> int:
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


def _print_node(found: NodeView) -> None:
    lemon = found.node.lemon
    print(f"{found.node.node}: {lemon.level.value}. {lemon.sentence}")
    for reason in lemon.reasons:
        print(f"  {reason}")
    for each in found.away:
        print(f"{each.state} {(iso(each.since) or '')[:19]} – {(iso(each.until) or 'no word since')[:19]}")
    for event in found.events[:SHOWN]:
        about = f": {event.meaning}" if event.meaning else ""
        print(f"{(iso(event.at) or '')[:19]}  {event.run_id}  {event.what}{about}")
    for each in found.blamed[:SHOWN]:
        print(f"{(iso(each.started_at) or '')[:19]}  {each.incident_id}  {each.cause}")
    for stay in found.stays[:SHOWN]:
        held = "for an unknown time" if stay.held_ns is None else f"for {_length(stay.held_ns)}"
        print(f"held by {stay.run_id} {held} since {(iso(stay.since) or 'unknown')[:19]}")


def _cost(lost_gpu_ns: int | None) -> str:
    hours = gpu_hours(lost_gpu_ns)
    return "unknown" if hours is None else f"{hours:,.1f}"
