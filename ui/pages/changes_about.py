"""Config changes about an incident or a problem: those it argued for, and those before it that its cause points at."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.errors import NotFoundError
from rerail.server.queries import Queries
from rerail.server.query_config_results import ChangeAbout
from rerail.ui import text
from rerail.ui.address import change_path, run_path
from rerail.ui.elements import Head, badge, copy_table_button, instant, link, panel, table
from rerail.ui.markup import Content, Markup, html
from rerail.ui.pages.config_changes import why

HEADS = (
    Head("when", "words"), Head("in", "words"), Head("old → new", "words"), Head("who, and why", "half"),
    Head("why it is here", "half"),
)  # fmt: skip


def of_incident(queries: Queries, incident_id: str) -> list[Markup]:
    """The panel of an incident; none where no change has to do with it."""
    try:
        return _panel(queries.config_changes_of_incident(incident_id), incident_id)
    except NotFoundError:
        return []


def of_problem(queries: Queries, problem_id: str) -> list[Markup]:
    """The panel of a problem."""
    try:
        return _panel(queries.config_changes_of_problem(problem_id), problem_id)
    except NotFoundError:
        return []


def _panel(found: Sequence[ChangeAbout], subject: str) -> list[Markup]:
    if not found:
        return []
    lead = "Those that people link to it, then those shortly before it that its cause points at; that is no proof."
    rows = [_row(each, subject) for each in found]
    return [
        panel(
            "Config changes about it", table(HEADS, rows, "Config changes about it", stacks=True), "config-changes",
            lead=lead, actions=copy_table_button(), wide=True,
        )
    ]  # fmt: skip


def _row(each: ChangeAbout, subject: str) -> Sequence[Content]:
    change = each.row.change
    reason: list[Content] = [each.reason]
    if each.incidents > 1:
        reason.append(f" Shortly before {text.count(each.incidents, 'incident')} of it.")
    if each.is_linked:
        reason += [" ", badge("linked", "good")]
    else:
        reason += [" ", link("link: it argued for this", change_path(change.change_id, argued_by=subject))]
    return (
        link(instant(change.at), change_path(change.change_id)),
        link(change.name or change.run_id, run_path(change.run_id)),
        [
            html.Div([one.old.knob.title, " ", text.setting(one.old), " → ", html.Strong(text.setting(one.new))])
            for one in each.knobs
        ],
        why(each.row),
        reason,
    )
