"""Addresses: the path of every page, and what a path asks for.

Rules
- A run id may hold anything; it is one escaped segment of a path, never more.
- The zoom range, the window and the filters are in the query, written by the browser (`assets/timeline.js`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlencode

RUNS = "/runs"
DATA = "/data"
PROBLEMS = "/problems"
NODES = "/nodes"
CONFIGS = "/configs"
CONFIG_CHANGES = "/configs/changes"
COMPARE = "/compare"
KNOWLEDGE = "/knowledge"
ALERTS = "/alerts"
FLEET = "/"

ARGUED_BY = "argued_by"
"""On pages of config changes: the incident or problem that is to be linked with one."""


@dataclass(frozen=True, slots=True)
class Address:
    """A page and the one thing it is about."""

    page: str
    """`fleet`, `alerts`, `runs`, `run`, `incident`, `problems`, `problem`, `nodes`, `node`, `configs`, `config`,
    `config_changes`, `compare`, `knowledge`, `note`, `data` or `unknown`."""
    name: str = ""


def run_path(run_id: str, anchor: str = "") -> str:
    """Where a run is shown; `anchor` is the id of a panel on it."""
    return f"{RUNS}/{quote(run_id, safe='')}" + (f"#{anchor}" if anchor else "")


def incident_path(incident_id: str) -> str:
    """Where an incident is shown."""
    return f"/incidents/{quote(incident_id, safe='')}"


def problem_path(problem_id: str, anchor: str = "") -> str:
    """Where a problem is shown."""
    return f"{PROBLEMS}/{quote(problem_id, safe=':')}" + (f"#{anchor}" if anchor else "")


def problems_of_node_path(node: str) -> str:
    """The problems with an incident that a node is blamed for."""
    return f"{PROBLEMS}?node={quote(node, safe='')}"


def node_path(node: str) -> str:
    """Where a node is shown."""
    return f"{NODES}/{quote(node, safe='')}"


def config_path(fingerprint: str) -> str:
    """Where a recovery config is shown."""
    return f"{CONFIGS}/{quote(fingerprint, safe='')}"


def change_path(change_id: str, argued_by: str | None = None) -> str:
    """Where a config change is shown; its form is filled in where an incident or a problem argued for it."""
    path = f"{CONFIG_CHANGES}/{quote(change_id, safe='')}"
    return path if argued_by is None else f"{path}?{urlencode({ARGUED_BY: argued_by})}#change-form"


def run_changes_path(run_id: str, argued_by: str | None = None) -> str:
    """Config changes of one run, to be linked with an incident or a problem where that argued for one."""
    return f"{CONFIG_CHANGES}?{urlencode({'run': run_id, **({ARGUED_BY: argued_by} if argued_by else {})})}"


def compare_path(sides: Sequence[str]) -> str:
    """Where two to six sides are compared."""
    return f"{COMPARE}?" + "&".join(f"with={quote(side, safe='')}" for side in sides[:6])


def note_path(name: str) -> str:
    """Where a note is shown with its history; `name` is `note-12`."""
    return f"/notes/{quote(name, safe='')}"


def knowledge_path(question: str) -> str:
    """What a question finds."""
    return f"{KNOWLEDGE}?q={quote(question, safe='')}"


def parse(path: str) -> Address:
    """What the (still escaped) path of the browser's address asks for."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return Address("fleet")
    if parts in (["runs"], ["alerts"]):
        return Address(parts[0])
    if parts == ["data"]:
        return Address("data")
    if len(parts) == 2 and parts[0] == "runs":
        return Address("run", unquote(parts[1]))
    if len(parts) == 2 and parts[0] == "incidents":
        return Address("incident", unquote(parts[1]))
    if parts in (["problems"], ["nodes"]):
        return Address(parts[0])
    if len(parts) == 2 and parts[0] in ("problems", "nodes"):
        return Address(parts[0].removesuffix("s"), unquote(parts[1]))
    if parts in (["configs"], ["compare"]):
        return Address(parts[0])
    if parts[:2] == ["configs", "changes"] and len(parts) <= 3:
        return Address("config_changes", unquote(parts[2]) if len(parts) == 3 else "")
    if len(parts) == 2 and parts[0] == "configs":
        return Address("config", unquote(parts[1]))
    if parts == ["knowledge"]:
        return Address("knowledge")
    if len(parts) == 2 and parts[0] == "notes":
        return Address("note", unquote(parts[1]))
    return Address("unknown", path)
