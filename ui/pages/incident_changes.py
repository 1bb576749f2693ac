"""Changes near an incident, on its page: what became different in the run before it, newest first."""

from __future__ import annotations

from rerail.server.core.changes_near import ChangeNear
from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.ui import text
from rerail.ui.address import node_path
from rerail.ui.elements import Head, copy_table_button, folded, instant, link, panel
from rerail.ui.markup import Content, Markup, html

WHAT = {
    "config": "setting", "version": "version", "launcher": "launcher", "size": "size", "nodes": "nodes",
    "node": "node",
}  # fmt: skip


def changes_of(queries: Queries, incident_id: str) -> list[Markup]:
    """The panel; none where nothing is known to have changed.

    Settings that the panel of config changes tells of, with who and why, are not told of again.
    """
    try:
        found = queries.changes_near(incident_id)
        about = queries.config_changes_of_incident(incident_id)
    except NotFoundError:
        return []
    told = {
        (each.row.change.at, name)
        for each in about
        for one in each.knobs
        for name in (one.name, one.old.source, one.new.source)
    }
    left = tuple(each for each in found if each.what != "config" or (each.at, each.name) not in told)
    return [changes_panel(left)] if left else []


def changes_panel(found: tuple[ChangeNear, ...]) -> Markup:
    """The same, of what was found."""
    heads = (
        Head("when", "words"), Head("what", "words"), Head("old", "words"), Head("new", "words"),
        Head("why it is here", "wide"),
    )  # fmt: skip
    rows = [
        (
            instant(change.at),
            [WHAT[change.what], " ", _name(change)],
            text.DASH if change.old is None else html.Code(change.old),
            text.DASH if change.new is None else html.Code(change.new),
            change.reason,
        )
        for change in found
    ]  # fmt: skip
    lead = "What facts tell, newest first; that it came before is no proof."
    return panel(
        "Changed before it", folded(heads, rows, "Changes before the incident"), "changes", lead=lead,
        actions=copy_table_button(), wide=True,
    )  # fmt: skip


def _name(change: ChangeNear) -> Content:
    if change.what == "node":
        return link(change.name, node_path(change.name))
    return "" if change.what == change.name else html.Code(change.name)
