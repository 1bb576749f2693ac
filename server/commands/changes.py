"""`rerail changes` and `rerail change`: the change ledger in a terminal.

`change` with a flag writes down what somebody says of a change, at a server where one is named, else into the database.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rerail.server.api.config_answers import change_answer, change_page_answer
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.answered import answered, server_of
from rerail.server.commands.asking import ask_server
from rerail.server.commands.problems import _who
from rerail.server.commands.showing import _print_json, _print_table
from rerail.server.config_changes import ChangeDesk
from rerail.server.errors import RefusedRequestError, RerailError
from rerail.server.queries import Queries


def show_changes(parsed: argparse.Namespace) -> int:
    """The ledger, newest first."""
    asked = {"run": parsed.run_id, "knob": parsed.knob, "limit": parsed.limit}
    answer: dict[str, Any] = answered(
        parsed, "configs/changes", asked | ({"unexplained": "true"} if parsed.unexplained else {}),
        lambda queries: change_page_answer(
            queries.configs.changes(parsed.run_id, parsed.knob, None, parsed.unexplained, 0, parsed.limit)
        ),
    )  # fmt: skip
    if parsed.json:
        _print_json(answer)
        return 0
    changes = answer["changes"]
    if not changes:
        print("No recovery setting changed.")
        return 0
    _print_table(
        ("WHEN", "RUN", "WHAT", "WHY", "CHANGE"),
        [
            (
                (told["at"] or "")[:19],
                told["run_id"],
                "; ".join(_what(each) for each in told["knobs"]) or "told for the first time",
                told["reason"] or "nobody said",
                told["change_id"],
            )
            for told in changes
        ],
    )
    if answer["total"] > len(changes):
        print(f"{answer['total'] - len(changes)} more; see --limit")
    return 0


def change(parsed: argparse.Namespace) -> int:
    """One change, or what somebody says of it."""
    said = _said(parsed)
    settings = settings_of(parsed)
    url = server_of(parsed)
    try:
        if url:
            path = f"{url}/api/v1/configs/changes/{quote(parsed.change_id, safe='')}"
            done: Mapping[str, Any] = (
                ask_server("GET", path, settings.token)
                if said is None
                else ask_server("POST", f"{path}/actions", settings.token, said)
            )
        else:
            with opened_store(settings) as store:
                if said is not None:
                    ChangeDesk(store).say(parsed.change_id, said)
                done = change_answer(Queries(store).configs.change(parsed.change_id))
    except RefusedRequestError as error:
        raise RerailError(f"{error.message}. {error.hint}") from None
    if parsed.json:
        _print_json(done)
    else:
        _print_change(done)
    return 0


def _said(parsed: argparse.Namespace) -> Mapping[str, object] | None:
    said: dict[str, object] = {}
    if parsed.explain is not None:
        said |= {"action": "explain", "reason": parsed.explain}
        if parsed.changed_by:
            said["changed_by"] = parsed.changed_by
    elif parsed.link is not None:
        kind, _, target = parsed.link.partition(":")
        said |= {"action": "link", "target_kind": kind, "target": target}
    elif parsed.undo is not None:
        said |= {"action": "undo", "undoes": parsed.undo}
    else:
        return None
    author = parsed.author or _who()
    return said | ({"author": author} if author else {})


def _what(knob: Mapping[str, Any]) -> str:
    return f"{knob['name']} {_value(knob['old'])} → {_value(knob['new'])}"


def _value(side: object) -> str:
    value = side.get("value") if isinstance(side, Mapping) else side
    return "unknown" if value is None else str(value)


def _print_change(done: Mapping[str, Any]) -> None:
    print(f"{done['change_id']}: {done['before']} → {done['after']} in {done['run_id']}, attempt {done['attempt']}")
    print(f"took effect {done['at'][:19]}")
    for each in done["knobs"]:
        print(f"  {_what(each)}")
    by = f", changed by {done['changed_by']}" if done["changed_by"] else ""
    print(f"why: {done['reason'] or 'nobody said'}{by}")
    for link in done["links"]:
        print(f"argued for by {link['kind']} {link['id']} (action {link['action']})")
    print("what came of it, before → after")
    before, after = done["sides"]["before"], done["sides"]["after"]
    print(f"  faults: {before['faults']} → {after['faults']}")
    print(f"  noticed after, median: {_median(before['detecting'])} → {_median(after['detecting'])}")
    print(f"  time to recover, median: {_median(before['recover'])} → {_median(after['recover'])}")
    lost = [_gpu_hours(side["lost_per_fault_gpu_hours"]) for side in (before, after)]
    print(f"  lost per fault: {lost[0]} → {lost[1]}")
    print(f"  healthy ranks killed, perhaps: {before['contradicted_hangs']} → {after['contradicted_hangs']}")
    for action in done["actions"]:
        undone = " [undone]" if action["action_id"] in done["undone"] else ""
        who = f" by {action['author']}" if action["author"] else ""
        what = f": {action['reason']}" if action["reason"] else ""
        print(f"{action['action_id']}  {action['at'][:19]}  {action['kind']}{who}{what}{undone}")


def _median(lengths: Mapping[str, Any] | None) -> str:
    """Of a distribution; unknown where there was none."""
    return "unknown" if lengths is None else f"{lengths['p50_seconds']:.1f} s (n={lengths['n']})"


def _gpu_hours(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.2f} GPU-h"
