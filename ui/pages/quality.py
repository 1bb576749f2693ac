"""Data quality: can I trust the numbers? The same panel on a run's page and, for all runs, on the data page."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.view import RunView, Unexplained
from rerail.server.query_results import EmitterRow, RefusedRow
from rerail.ui import text
from rerail.ui.address import run_path
from rerail.ui.elements import Head, badge, copy_table_button, count_figure, folded, instant, link, panel, table
from rerail.ui.markup import Content, Markup, html

FEW_REFUSED = 8
"""So many refused lines are listed; more are told by their reasons."""

MOST_OF_A_REASON = 20
CLOCK_DOUBT_NS = 1_000_000_000
"""A clock further off than this deserves a look."""

WORTH_A_WORD = 50
"""Silent time of more than this part of a run is said in the panel's first words."""


def quality_panel(view: RunView, emitters: Sequence[EmitterRow]) -> Markup:
    """What came, what did not fit, and what the figures rest on."""
    quality = view.data_quality
    counts = (
        ("duplicates", quality.duplicates, "Lines whose (emitter, seq) was held already. They change nothing."),
        ("late", quality.late, "Facts of an earlier instant than ones before them; the timeline was made again."),
        ("contradictory", quality.contradictory, "Facts that cannot all be true. They are kept and counted."),
        ("refused", quality.rejected, "Lines that could not be read; see the data page."),
    )
    figures = [
        count_figure(text.number(how_many), name, hint, bool(how_many) and name in ("contradictory", "refused"))
        for name, how_many, hint in counts
    ]
    figures.append(
        count_figure(
            text.duration(quality.clock_spread_ns), "between clocks", "Largest difference between emitters' clocks"
        )
    )
    figures.append(count_figure(text.duration(quality.unexplained_ns), "unexplained", "Time that no fact explains"))
    content: list[Content] = [html.Div(figures, className="counts")]
    if quality.notes:
        content.append(html.Ul([html.Li(note) for note in quality.notes], className="rests-on"))
    if quality.unexplained:
        rows = [_unexplained(each) for each in quality.unexplained]
        heads = (
            Head("unexplained", "number"),
            Head("in", "number", "how many stretches"),
            Head("most likely reason", "wide", "read off the run's own facts; the time stays unknown in every figure"),
            Head("for example", "words"),
        )
        content.append(table(heads, rows, "Unexplained time"))
    if quality.contradictions:
        rows = [(text.number(found.count), found.reason, html.Code(found.example)) for found in quality.contradictions]
        content.append(
            table((Head("n", "number"), Head("contradiction"), Head("for example", "wide")), rows, "Contradictions")
        )
    if quality.blind:
        rows = [
            (
                blind.source,
                instant(blind.since),
                badge("still blind", "warn") if blind.until is None else instant(blind.until),
                blind.reason or text.DASH,
            )
            for blind in quality.blind
        ]
        content.append(
            table((Head("source"), Head("blind since"), Head("until"), Head("why", "wide")), rows, "Blind sources")
        )
    if emitters:
        content.append(emitters_table(emitters))
    lead = "Nothing contradicts; every line was read." if is_clean(view) else "Some of what came does not fit together."
    if quality.unexplained and quality.unexplained[0].length_ns * WORTH_A_WORD > view.account.elapsed_ns:
        lead += f" {text.duration(quality.unexplained[0].length_ns)} are silent: {quality.unexplained[0].detail}."
    return panel("Data quality", content, "quality", lead=lead, actions=copy_table_button(), wide=True)


def _unexplained(each: Unexplained) -> Sequence[Content]:
    after = "" if each.example_after_step is None else f" after step {text.number(each.example_after_step)}"
    where = "" if each.example_attempt is None else f", attempt {each.example_attempt}{after}"
    return (
        text.duration(each.length_ns),
        text.number(each.count),
        each.detail,
        [f"{text.duration(each.example_ns)} from ", instant(each.example_at), where],
    )


def is_clean(view: RunView) -> bool:
    """Whether nothing was refused or contradictory and no source is blind."""
    quality = view.data_quality
    return not (quality.contradictory or quality.rejected or any(blind.until is None for blind in quality.blind))


def emitters_table(emitters: Sequence[EmitterRow], with_run: bool = False) -> Content:
    """Who speaks of a run, and how well it is heard."""
    heads = [
        Head("emitter", "wide"),
        Head("facts", "number"),
        Head("duplicate", "number"),
        Head("refused", "number"),
        Head(
            "least delay",
            "number",
            "smallest time from an instant to its arrival; below 0 its clock runs ahead of ours",
        ),
        Head("clock", "number", "its clock minus ours, as it said last"),
        Head("last heard"),
    ]
    rows = []
    for emitter in emitters:
        row: list[Content] = [
            html.Code(emitter.emitter),
            text.number(emitter.accepted),
            text.number(emitter.duplicate),
            badge(text.number(emitter.rejected), "warn") if emitter.rejected else "0",
            text.duration(emitter.least_delay_ns, text.DASH),
            _offset(emitter.clock_offset_ns),
            instant(emitter.last_received_at),
        ]
        rows.append([link(emitter.run_id, run_path(emitter.run_id)), *row] if with_run else row)
    return folded([Head("run", "words"), *heads] if with_run else heads, rows, "Emitters")


def refused_lines(rows: Sequence[RefusedRow]) -> Content:
    """Refused lines; where there are many, by what was wrong with them, the most frequent first, each to unfold."""
    if len(rows) <= FEW_REFUSED:
        return refused_table(rows)
    alike: dict[tuple[str, str], list[RefusedRow]] = {}
    for row in rows:
        alike.setdefault((row.field, row.reason), []).append(row)
    groups: list[Content] = []
    for (field, reason), members in sorted(alike.items(), key=lambda each: (-len(each[1]), each[0])):
        runs = len({row.run for row in members if row.run is not None})
        about = f" · {text.count(runs, 'run')}" if runs else ""
        said: list[Content] = [html.Strong(text.number(len(members))), " × "]
        said += [html.Code(field), ": "] if field else []
        said += [reason, html.Span([about, " · newest ", instant(members[0].received_at)], className="muted")]
        shown = members[:MOST_OF_A_REASON]
        inside: list[Content] = [refused_table(shown)]
        if len(shown) < len(members):
            inside.append(html.P(f"The newest {len(shown)} of {text.number(len(members))}.", className="note"))
        groups.append(html.Details([html.Summary(said), *inside], className="more"))
    return html.Div(groups)


def refused_table(rows: Sequence[RefusedRow]) -> Markup:
    """Refused lines with the field, its value, and why."""
    heads = (
        Head("when"),
        Head("run", "words"),
        Head("emitter", "words"),
        Head("field", "words"),
        Head("value", "words"),
        Head("reason", "wide"),
        Head("line as it came", "words"),
    )
    shown = [
        (
            instant(row.received_at),
            text.DASH
            if row.run is None
            else link(html.Span(row.run, className="cut", title=row.run), run_path(row.run)),
            text.DASH if row.emitter is None else _cut(row.emitter),
            _cut(row.field or text.DASH),
            _cut(row.value),
            row.reason,
            html.Details([html.Summary(f"line {row.line}"), html.Pre(row.raw)]),
        )
        for row in rows
    ]
    return table(heads, shown, "Refused lines, newest first", stacks=True)


def _cut(words: str) -> Markup:
    """Short enough for a column; all of it on hover."""
    return html.Code(words, className="cut", title=words)


def _offset(offset_ns: int | None) -> Content:
    if offset_ns is None:
        return text.DASH
    shown = ("+" if offset_ns > 0 else "") + text.duration(offset_ns)
    return badge(shown, "warn", "far from this server's clock; corrected") if abs(offset_ns) > CLOCK_DOUBT_NS else shown
