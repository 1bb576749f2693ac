"""Data: can I trust the numbers? Who speaks, who was refused and why, who cannot see and what would mend it, and what
is stored.
"""

from __future__ import annotations

from dash import Dash
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.queries import Queries
from rerail.server.query_results import BlindPage, BlindRow, RefusedPage, RulesProgress, StorageFigures
from rerail.ui import text
from rerail.ui.address import Address, node_path, run_path
from rerail.ui.elements import Head, copy_table_button, empty, folded, instant, link, panel, table, tile
from rerail.ui.markup import Content, Markup, html, island
from rerail.ui.pages.quality import emitters_table, refused_lines
from rerail.ui.reading import in_thread

PAGE = "data"

RUNS_SHOWN = 40
BLIND_SHOWN = 200
RUNS_NAMED = 3
EMITTERS_SHOWN = 200


async def layout(queries: Queries, _address: Address, _search: str) -> Component:
    """The page."""
    return await in_thread(_layout, queries)


def register(app: Dash, queries: Queries) -> None:
    """Nothing on this page changes by itself."""


def _layout(queries: Queries) -> Component:
    storage = queries.storage()
    refused = queries.refused(limit=100)
    blind = queries.blind(limit=BLIND_SHOWN)
    newest = queries.runs(limit=RUNS_SHOWN).rows
    emitters = [emitter for row in newest for emitter in queries.emitters(row.run_id)]
    head = [html.H1("Data"), html.P(_sentence(storage, refused, blind), className="sentence")]
    body: list[Markup] = [html.Div(_tiles(storage, refused, blind), className="tiles")]
    if storage.failed_runs:
        rows = [(link(run_id, run_path(run_id)), html.Code(error)) for run_id, error in storage.failed_runs]
        body.append(
            panel(
                "Runs without figures",
                table((Head("run"), Head("error", "wide")), rows, "Failed runs"),
                "failed",
                wide=True,
            )
        )
    if emitters:
        worst_first = sorted(emitters, key=lambda emitter: (-emitter.rejected, -(emitter.last_received_at or 0)))
        shown = worst_first[:EMITTERS_SHOWN]
        lead = f"{text.count(len(emitters), 'emitter')} of {text.count(len(newest), 'run')}; the doubtful first."
        body.append(
            panel(
                "Emitters",
                emitters_table(shown, with_run=True),
                "emitters",
                lead=lead,
                actions=copy_table_button(),
                wide=True,
            )
        )
    else:
        body.append(
            empty(
                "Nobody has stated a fact yet.",
                "Bring the log of a training, or follow one; or see with one line that the way is open:",
                "rerail import logs train.log --run my-run --url {server}",
                "rerail agent --url {server} --run my-run --launcher-log train.log",
                'echo \'{"kind":"run_started","run":"hello","emitter":"me","seq":0,"at":\'$(date +%s)000000000\'}\' | '
                "curl --data-binary @- -H 'Content-Type: application/x-ndjson' {server}/api/v1/facts",
            )
        )
    body.insert(1 if refused.total else len(body), _refused(refused))
    if storage.facts:
        body.insert(1 if blind.total else len(body), _blind(blind))
    rules = queries.rules_progress()
    if rules is not None:
        body.insert(1 if rules.left else len(body), _rules(rules))
    body.append(_storage(storage))
    shown = island([*head, *body], "data-content")
    return dash_html.Div(shown, className="page-body", id="data-page", **{"data-title": "Data"})


def _sentence(storage: StorageFigures, refused: RefusedPage, blind: BlindPage) -> str:
    facts = f"{text.count(storage.facts, 'fact')} of {text.count(storage.runs, 'run')}"
    if not storage.facts:
        return "Nothing has come yet."
    doubts = []
    if refused.total:
        doubts.append(f"{text.count(refused.total, 'line')} refused")
    if blind.total:
        doubts.append(f"{text.count(blind.total, 'source')} blind")
    if storage.failed_runs:
        doubts.append(f"{text.count(len(storage.failed_runs), 'run')} without figures")
    if storage.waiting_runs and (storage.oldest_waiting_ns or 0) > 10 * text.NANOSECONDS:
        doubts.append(f"figures {text.duration(storage.oldest_waiting_ns)} behind")
    return (
        f"{facts}; {', '.join(doubts)}." if doubts else f"{facts}; every line was read, and the figures are up to date."
    )


def _tiles(storage: StorageFigures, refused: RefusedPage, blind: BlindPage) -> list[Markup]:
    return [
        tile("Facts", text.number(storage.facts), f"of {text.count(storage.runs, 'run')}"),
        tile(
            "Refused lines",
            text.number(refused.total),
            f"{text.number(refused.kept)} kept",
            "#refused",
            "warn" if refused.total else "",
        ),
        tile(
            "Blind sources",
            text.number(blind.total),
            f"in {text.count(blind.runs, 'run')} going on",
            "#blind",
            "warn" if blind.total else "",
        ),
        tile("Waiting", text.number(storage.waiting_runs), "runs with facts that no figure shows yet"),
        tile("Behind", text.duration(storage.oldest_waiting_ns, "nothing"), "oldest fact not in a figure"),
        tile("Stored", text.size(storage.size_bytes), f"{text.size(storage.free_bytes)} free", "#storage"),
    ]


def _refused(refused: RefusedPage) -> Markup:
    if not refused.total:
        return panel("Refused lines", html.P("None. Every line was read.", className="calm"), "refused", wide=True)
    lead = f"{text.count(refused.total, 'line')}; the newest {text.number(len(refused.rows))} are here. "
    lead += "The rest of their batches was kept."
    return panel(
        "Refused lines", refused_lines(refused.rows), "refused", lead=lead, actions=copy_table_button(), wide=True
    )


def _blind(blind: BlindPage) -> Markup:
    """Which source cannot see, of which runs, since when, why, and what would mend it."""
    if not blind.total:
        about = "No run is going on, so nothing has to be seen. What was unseen stands on the page of each run."
        if blind.runs:
            about = f"None: no source of {text.count(blind.runs, 'run')} going on says that it cannot see."
        return panel("Blind sources", html.P(about, className="calm"), "blind", wide=True)
    lead = f"{text.count(blind.total, 'source')} of {text.count(blind.runs, 'run')} going on; the longest blind first. "
    lead += "What they would tell is unknown, and no figure takes it for quiet."
    if not blind.is_whole:
        lead += " There are more runs than were looked through: these are of those heard last."
    heads = (
        Head("source", "words"),
        Head("looks from", "words", "the node, else who says so"),
        Head("blind since"),
        Head("of runs", "words"),
        Head("why", "words"),
        Head("what mends it", "wide"),
    )
    rows: list[list[Content]] = [
        [
            html.Code(each.source),
            link(each.node, node_path(each.node)) if each.node else html.Code(each.emitter or text.UNKNOWN),
            instant(each.since),
            _runs(each),
            each.reason or "no reason was told",
            _mend(each),
        ]
        for each in blind.rows
    ]
    shown = folded(heads, rows, "Sources that cannot see", stacks=True)
    return panel("Blind sources", shown, "blind", lead=lead, actions=copy_table_button(), wide=True)


def _mend(each: BlindRow) -> Content:
    """What to do; words between backticks are typed."""
    if each.mend is None:
        return "nothing is known that would; the reason is all there is"
    parts = each.mend.split("`")
    words: list[Content] = [html.Code(part) if place % 2 else part for place, part in enumerate(parts)]
    return [*words, " (", html.Code(f"docs/{each.page}"), ")"]


def _runs(each: BlindRow) -> Content:
    """The runs that a source is blind of, by name as far as there is room."""
    named: list[Content] = []
    for run in each.runs[:RUNS_NAMED]:
        named += [", " if named else "", link(run, run_path(run, "quality"))]
    rest = each.run_count - len(each.runs[:RUNS_NAMED])
    return [*named, f" and {text.number(rest)} more" if rest else ""]


def _rules(rules: RulesProgress) -> Markup:
    """By which rules runs that are over were derived, and how far it is with the others."""
    done = max(0, rules.total - rules.left)
    since: list[Content] = ["Rules ", html.Code(rules.rules), f" of rerail {rules.version}, since "]
    since += [instant(rules.started_at), "."]
    if rules.left:
        share = 100 * done / rules.total if rules.total else 0
        said: list[Content] = [
            html.Span(html.Span(style={"width": f"{share:.1f}%"}), className="meter meter-wide"),
            f" {text.number(done)} of {text.count(rules.total, 'run')} that were over then are derived again, oldest "
            f"first; {text.number(rules.left)} {'is' if rules.left == 1 else 'are'} as an earlier version made them. "
            "All at once: ",
            html.Code("rerail replay"),
            ".",
        ]
    else:
        said = ["Every run that has its log is derived by them."]
    if rules.without_log:
        said.append(f" {text.headline(text.count(rules.without_log, 'run'))} whose log was let go stay as they are.")
    return panel("Rules", [html.P(since), html.P(said)], "rules", wide=True)


def _storage(storage: StorageFigures) -> Markup:
    pairs: tuple[tuple[str, Content], ...] = (
        ("database", html.Code(storage.database)),
        ("dialect", storage.dialect),
        ("schema", html.Code(storage.schema or text.UNKNOWN)),
        ("size", text.size(storage.size_bytes)),
        ("free on its disk", text.size(storage.free_bytes)),
        ("facts", text.number(storage.facts)),
        ("segments", text.number(storage.segments)),
    )
    return panel(
        "Storage",
        html.Dl([piece for name, value in pairs for piece in (html.Dt(name), html.Dd(value))], className="pairs"),
        "storage",
        wide=True,
    )
