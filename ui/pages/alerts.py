"""Alerts: what is firing, and who has it?

Rules
- What nobody looked at comes first. A click acknowledges, silences, resolves or undoes, through the API, with a name.
- What is done to a group is done to what of it the list is narrowed to, and its buttons say so.
- Thresholds are changed only beside what they would have found in the last 30 days.
- A channel is shown without what is secret of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dash_mantine_components as dmc
from dash import Dash, Input, Output, dcc
from dash import html as dash_html
from dash.development.base_component import Component

from rerail.server.core.alert_life import BY_RULES, Standing
from rerail.server.core.alerts import rules as alert_rules
from rerail.server.core.channels import KINDS, masked
from rerail.server.queries import Queries
from rerail.server.query_alerts import AlertEntry, AlertPage, AlertView, ChannelRow, MessageRow, RuleView
from rerail.ui import text
from rerail.ui.address import Address, incident_path, problem_path, run_path
from rerail.ui.elements import Head, badge, command, empty, instant, link, panel, table
from rerail.ui.lists import ROWS, ListKind, Wanted, pager
from rerail.ui.markup import Content, Markup, encoded, html, island
from rerail.ui.reading import in_thread

PAGE = "alerts"

KIND = ListKind(
    "alerts",
    "Search run, rule, words   /",
    "standing",
    (("", "All"), *((each.value, text.headline(each.value)) for each in Standing)),
    (("urgent", "Urgent first"),),
    fixed=("run",),
)

TONES = {
    Standing.OPEN: "danger",
    Standing.ACKNOWLEDGED: "warn",
    Standing.SILENCED: "outline",
    Standing.RESOLVED: "good",
}

SAYS = {
    "fired": "fired",
    "cleared": "over by itself",
    "acknowledge": "acknowledged",
    "silence": "silenced",
    "unsilence": "ended the silence",
    "resolve": "resolved",
    "reopen": "reopened",
    "undo": "undid",
}


async def layout(queries: Queries, _address: Address, search: str) -> Component:
    """The page."""
    wanted = KIND.wanted(search)
    listed, others = await in_thread(lambda: (rows(queries, wanted), settings(queries)))
    return dash_html.Div(
        [
            dash_html.H1("Alerts"),
            KIND.bar(wanted),
            dash_html.Div(
                [
                    dmc.TextInput(id="alert-author", label="Your name", size="xs", persistence=True),
                    dmc.TextInput(id="alert-reason", label="Why, or what was done", size="xs"),
                    dmc.PasswordInput(id="alert-token", label="Token, where this server has one", size="xs"),
                    dash_html.Span(id="alert-said", role="status", className="alert-said"),
                ],
                className="alert-who",
            ),
            KIND.shown(listed),
            island(others, "alert-settings"),
            _channel_form(),
            dcc.Store(id="alerts-live"),
        ],
        className="page-body",
        id="alerts-page",
        **{"data-title": "Alerts"},
    )


def register(app: Dash, queries: Queries) -> None:
    """Add the callbacks of the list, and of what is under it."""
    KIND.register(app, lambda wanted: rows(queries, wanted))

    @app.callback(Output("alert-settings", "data-markup"), Input("alerts-live", "data"), prevent_initial_call=True)
    async def draw(_signal: object) -> str:
        return encoded(await in_thread(settings, queries))


def rows(queries: Queries, wanted: Wanted) -> list[Content]:
    """A sentence, the alerts by group, and the way to others."""
    fixed = dict(wanted.fixed)
    page = queries.alerts.alerts(wanted.choice or None, wanted.search, fixed.get("run"), wanted.offset, ROWS)
    if not page.rows and not sum(times for _, times in page.standings):
        return [_teach()]
    views = [queries.alerts.alert(each.row.key) for each in page.rows]
    groups: dict[str, list[tuple[AlertEntry, AlertView]]] = {}
    for entry, view in zip(page.rows, views, strict=True):
        groups.setdefault(entry.row.group_key, []).append((entry, view))
    newest = max((view.life.revision for view in views), default=0)
    drawn: list[Content] = []
    for group, members in groups.items():
        standing = page.groups.get(group, {})
        if len(members) > 1 or sum(standing.values()) > 1:
            drawn.append(_group(group, members, standing, newest, wanted))
        elif drawn:
            drawn.append(html.Li(className="alert-gap"))
        drawn += [_alert(entry, view) for entry, view in members]
    return [
        html.P(sentence(page), className="sentence"),
        html.Ul(drawn, className="alert-list", **{"data-walk": "rows"})
        if drawn
        else html.P("No alert matches.", className="calm"),
        pager(KIND, wanted, page.total),
    ]


def sentence(page: AlertPage) -> str:
    """How many there are, and how they stand."""
    counts = dict(page.standings)
    open_count = counts.get("open", 0)
    lead = "Nothing asks for anybody" if not open_count else f"{text.count(open_count, 'alert')} nobody looked at"
    others = [f"{counts[name]} {name}" for name in ("acknowledged", "silenced", "resolved") if counts.get(name)]
    return lead + (f"; {', '.join(others)}." if others else ".")


def _group_name(group: str, members: Sequence[tuple[AlertEntry, AlertView]]) -> list[Content]:
    kind, _, name = group.partition(":")
    runs = text.count(len({entry.row.run for entry, _ in members}), "run")
    if kind == "problem":
        return ["One problem, ", link(name, problem_path(name)), f": {text.count(len(members), 'alert')} on {runs}"]
    return [f"{_words(name)}: {text.count(len(members), 'alert')} on {runs}"]


def _group(
    group: str,
    members: Sequence[tuple[AlertEntry, AlertView]],
    standing: Mapping[str, int],
    revision: int,
    wanted: Wanted,
) -> Markup:
    """The head of a group: what it is, and what can be done at once to all of it, or to what of it matches."""
    asked = {"search": wanted.search.strip(), "standing": wanted.choice, "run": dict(wanted.fixed).get("run", "")}
    narrow = {f"data-{name}": value for name, value in asked.items() if value}
    told = {"data-group": group, "data-revision": str(revision), **narrow}

    def button(label: str, does: str, **more: str) -> Markup:
        known = {**told, "data-does": does, **{f"data-{name}": value for name, value in more.items()}}
        return html.Button(label, type="button", className="quiet-button", **known)

    stands = sum(standing.values())
    unseen, silenced = standing.get("open", 0), standing.get("silenced", 0)
    buttons: list[Content] = []
    if stands > 1:
        which = "the {} that match" if narrow else "all {}"
        if unseen:
            buttons.append(button(f"acknowledge {which.format(unseen)}", "acknowledge"))
        if silenced < stands:
            buttons += [
                button(
                    f"silence {which.format(stands)} {label}" if narrow else f"silence all {label}",
                    "silence",
                    seconds=value,
                )
                for label, value in SILENCES
            ]
        if silenced:
            buttons.append(button(f"end {text.count(silenced, 'silence')}", "unsilence"))
        buttons.append(button(f"resolve {which.format(stands)}", "resolve"))
    among = "that match " if narrow else ""
    beside = stands - sum(entry.standing is not Standing.RESOLVED for entry, _ in members)
    return html.Li(
        [
            html.H2(_group_name(group, members)),
            html.P(f"{text.count(beside, 'more alert')} of it {among}not shown here", className="muted")
            if beside > 0
            else None,
            html.Div(buttons, className="alert-buttons") if buttons else None,
        ],
        className="alert-group",
        tabIndex="-1",
    )


def _words(name: str) -> str:
    return text.headline(name.replace("_", " "))


def _alert(entry: AlertEntry, view: AlertView) -> Markup:
    row = entry.row
    about: list[Content] = [*_run(entry)]
    if row.incident_id:
        about += [" · ", link("incident", incident_path(row.incident_id))]
    if row.since is not None:
        about += [" · since ", instant(row.since)]
    if entry.standing is Standing.SILENCED:
        about += [" · silenced until ", instant(row.silenced_until)]
    if view.life.acknowledged_by and entry.standing is Standing.ACKNOWLEDGED:
        about.append(f" · {view.life.acknowledged_by} has it")
    if view.life.resolved_by and entry.standing is Standing.RESOLVED:
        about.append(f" · {view.life.resolved_by}: {view.life.resolution or 'no reason given'}")
    marks: list[Content] = [badge(entry.standing.value, TONES[entry.standing])]
    if row.severity == "urgent" and entry.standing is not Standing.RESOLVED:
        marks.append(badge("urgent", "danger"))
    if view.is_flapping:
        marks.append(badge("comes and goes", "warn", "at least four episodes within a day"))
    return html.Li(
        [
            html.Div([html.Strong(_words(row.rule)), *marks], className="alert-head"),
            html.P(row.sentence, className="alert-sentence"),
            html.Div(about, className="under"),
            html.Div(_buttons(entry, view), className="alert-buttons"),
            html.Details(
                [html.Summary(f"what to do, and history ({len(view.history)})"), html.P(view.advice), _history(view)],
                className="more",
            ),
        ],
        className=f"alert alert-{entry.standing.value}",
        id=f"alert-{view.history[0].event.event_id}" if view.history else None,
    )


def _run(entry: AlertEntry) -> list[Content]:
    """The run by its name, with its id small beside it."""
    run = entry.row.run
    if entry.run_name is None:
        return [link(run, run_path(run))]
    return [link(entry.run_name, run_path(run)), " ", html.Span(run, className="muted run-id")]


def _buttons(entry: AlertEntry, view: AlertView) -> list[Content]:
    told = {"data-alert": entry.row.key, "data-revision": str(view.life.revision)}

    def button(label: str, does: str, **more: str) -> Markup:
        known = {**told, "data-does": does, **{f"data-{name}": value for name, value in more.items()}}
        return html.Button(label, type="button", className="quiet-button", **known)

    if entry.standing is Standing.RESOLVED:
        return [button("reopen", "reopen")]
    shown: list[Content] = []
    if entry.standing is Standing.OPEN:
        shown.append(button("acknowledge", "acknowledge"))
    if entry.standing is Standing.SILENCED:
        shown.append(button("end the silence", "unsilence"))
    else:
        shown += [button(f"silence {label}", "silence", seconds=value) for label, value in SILENCES]
        shown.append(button("silence until …", "silence", pick="until"))
    return [*shown, button("resolve", "resolve")]


SILENCES = (("1 h", "3600"), ("8 h", "28800"), ("1 week", "604800"))


def _history(view: AlertView) -> Markup:
    lines = []
    for each in reversed(view.history):
        event = each.event
        who = "the rule" if event.change in BY_RULES else (event.author or text.NO_NAME)
        words = SAYS[event.change.value]
        what: list[Content] = [instant(event.at), f" {who}: {words}"]
        if event.until is not None:
            what += [" until ", instant(event.until)]
        if event.undoes is not None:
            what.append(f" {event.undoes}")
        if event.reason or event.sentence:
            what.append(f". {event.reason or event.sentence}")
        if each.is_undone:
            what.append(" (undone)")
        elif event.change not in BY_RULES:
            told = {"data-alert": event.key, "data-does": "undo", "data-undoes": str(event.event_id)}
            what += [" ", html.Button("undo", type="button", className="quiet-button", **told)]
        lines.append(html.Li(what, className="trail-undone" if each.is_undone else None))
    return html.Ol(lines, className="plain-list")


def settings(queries: Queries) -> list[Content]:
    """Rules, channels, and what was not delivered."""
    alerts = queries.alerts
    return [
        _rules(alerts.rules()),
        _channels(alerts.channels(), alerts.is_sealing()),
        _messages(alerts.messages(), alerts.channels()),
    ]


def _rules(views: Sequence[RuleView]) -> Markup:
    entries = [_rule(view) for view in views]
    lead = "Write other thresholds, look at what they would have found, then save them."
    return panel("Rules", html.Ul(entries, className="rule-list"), "rules", lead=lead, wide=True)


def _rule(view: RuleView) -> Markup:
    rule, values = view.rule, dict(view.values)
    is_on = bool(values["on"])
    state = badge("on", "good") if is_on else badge("off", "outline")
    thresholds = [
        html.Li(
            [
                html.Code(each.name),
                f" {values[each.name]:g} {each.unit}",
                html.Span(
                    f" {each.meaning}"
                    + ("" if values[each.name] == each.default else f"; by default {each.default:g}"),
                    className="muted",
                ),
                " ",
                _change_button(rule.name, each.name, f"{values[each.name]:g}"),
            ]
        )
        for each in rule.thresholds
    ]
    projects = [
        html.Li([html.Strong(project), ": ", ", ".join(f"{name} {value:g}" for name, value in changed)])
        for project, changed in view.projects
    ]
    history = [
        html.Li(
            [
                instant(change.at), f" {change.author or text.NO_NAME}: ",
                f"undid {change.undoes}" if change.undoes else ", ".join(
                    f"{name} {'by default' if value is None else f'{value:g}'}" for name, value in change.values
                ),
                f" for {change.project}" if change.project else "",
                f". {change.reason}" if change.reason else "",
                " (undone)" if is_undone else None,
                None if is_undone or change.undoes else html.Button(
                    "undo", type="button", className="quiet-button",
                    **{"data-rule": rule.name, "data-undoes": str(change.change_id)},
                ),
            ]
        )
        for change, is_undone in view.history[:10]
    ]  # fmt: skip
    counted = [" ", badge(f"{view.open_alerts} open", "danger")] if view.open_alerts else []
    return html.Li(
        [
            html.Div(
                [
                    html.Strong(_words(rule.name)),
                    state,
                    *counted,
                    _change_button(rule.name, "on", "0" if is_on else "1"),
                ],
                className="alert-head",
            ),
            html.P(rule.summary, className="muted"),
            html.Ul(thresholds, className="plain-list") if thresholds else None,
            html.Ul(projects, className="plain-list") if projects else None,
            html.Ol(history, className="plain-list") if history else None,
        ],
        id=f"rule-{rule.name.replace('_', '-')}",
    )


def _change_button(rule: str, name: str, value: str) -> Markup:
    label = ("switch off" if value == "0" else "switch on") if name == "on" else "change"
    told = {"data-rule": rule, "data-threshold": name, "data-value": value}
    return html.Button(label, type="button", className="quiet-button", **told)


def _channels(channels: Sequence[ChannelRow], is_sealing: bool) -> Markup:
    heads = (
        Head("channel", "wide"),
        Head("kind", "words"),
        Head("where to", "words"),
        Head("secret", "words"),
        Head(""),
    )
    drawn = [
        [
            [html.Strong(each.name), "" if each.is_on else badge("off", "outline")],
            each.kind,
            _address(each),
            [_signed(each), _kept(each)],
            [
                html.Button("test", type="button", className="quiet-button",
                            **{"data-channel": str(each.channel_id), "data-does": "test"}),
                html.Button("switch off" if each.is_on else "switch on", type="button", className="quiet-button",
                            **{"data-channel": str(each.channel_id), "data-does": "off" if each.is_on else "on"}),
                html.Button("remove", type="button", className="quiet-button",
                            **{"data-channel": str(each.channel_id), "data-does": "remove"}),
            ],
        ]
        for each in channels
    ]  # fmt: skip
    content: Content = (
        table(heads, drawn, "Channels")
        if drawn
        else html.P("Nobody is told of alerts: there is no channel yet. Add one below.", className="calm")
    )
    return panel("Channels", [content, _in_clear(channels, is_sealing)], "channels", wide=True)


def _address(channel: ChannelRow) -> Content:
    if channel.is_locked:
        return "not to be read here"
    end = channel.secret_end if channel.kind == "apprise" else None
    return html.Code(masked(channel.kind, channel.address) + (end or ""))


def _signed(channel: ChannelRow) -> str:
    if channel.kind == "apprise":
        return "in the address "
    if not channel.has_secret:
        return "none "
    return f"ends in {channel.secret_end} " if channel.secret_end else "set "


def _kept(channel: ChannelRow) -> Markup:
    if channel.is_locked:
        hint = "No key that this server has opens it: nothing is sent. Set the key, or add the channel anew."
        return badge("locked", "danger", hint)
    if channel.is_sealed:
        return badge("sealed", "good", "The database holds it encrypted.")
    return badge("in clear", "warn", "Who can read the database or a backup of it can read this.")


def _in_clear(channels: Sequence[ChannelRow], is_sealing: bool) -> Content:
    """What to do about secrets that anybody with the database can read; nothing where there are none."""
    if all(each.is_sealed or each.is_locked for each in channels):
        return None
    told = (
        "Some were kept before this server had its key: they are sealed when it starts again, or by this."
        if is_sealing
        else "Addresses and secrets lie in clear in the database. Make a key, set it, start the server again: they are "
        "sealed then."
    )
    how = ("rerail secrets rotate",) if is_sealing else (
        "rerail secrets new-key > secret.key && chmod 600 secret.key",
        "RERAIL_SECRET_KEY_FILE=$PWD/secret.key rerail serve",
    )  # fmt: skip
    return html.Div([html.P(told, className="note"), *map(command, how)], className="in-clear", role="note")


def _messages(messages: Sequence[MessageRow], channels: Sequence[ChannelRow]) -> Markup | None:
    if not messages:
        return None
    names = {each.channel_id: each.name for each in channels}
    tones = {"sent": "good", "waiting": "quiet", "dead": "danger"}
    heads = (
        Head("when", "words"), Head("channel", "words"), Head("about", "wide"), Head("alerts", "number"),
        Head("state", "words"), Head("tries", "number"), Head(""),
    )  # fmt: skip
    drawn = [
        [
            instant(each.created_at),
            names.get(each.channel_id, "removed"),
            [each.group_key, html.Div(each.error, className="under") if each.error else None],
            text.number(each.count),
            badge("given up" if each.state == "dead" else each.state, tones[each.state]),
            text.number(each.tries),
            html.Button("try again", type="button", className="quiet-button", **{"data-retry": str(each.message_id)})
            if each.state == "dead"
            else None,
        ]
        for each in messages[:20]
    ]
    dead = sum(each.state == "dead" for each in messages)
    lead = f"{text.count(dead, 'message')} given up." if dead else None
    return panel("Messages", table(heads, drawn, "Messages"), "messages", lead=lead, wide=True)


def _channel_form() -> Component:
    rules = [{"value": name, "label": _words(name)} for name in alert_rules()]
    return dash_html.Div(
        [
            dash_html.Div(
                [
                    dash_html.H2("Change a threshold"),
                    dash_html.Div(
                        [
                            dmc.Select(id="threshold-rule", label="Rule", data=rules, size="xs", searchable=True),
                            dmc.TextInput(id="threshold-name", label="Threshold", size="xs"),
                            dmc.TextInput(
                                id="threshold-value", label="Value (empty: as before)", size="xs"
                            ),
                            dmc.TextInput(id="threshold-project", label="Only project", size="xs"),
                            dash_html.Button("Dry run, 30 days", id="threshold-try", className="seg seg-alone"),
                            dash_html.Button("Save", id="threshold-save", className="seg seg-alone"),
                        ],
                        className="alert-form",
                    ),
                    dash_html.Div(id="threshold-said", role="status", className="alert-said"),
                ],
                className="panel alert-panel",
                id="threshold-form",
            ),
            dash_html.Div(
                [
                    dash_html.H2("Add a channel"),
                    dash_html.Div(
                        [
                            dmc.TextInput(id="channel-name", label="Name", size="xs"),
                            dmc.Select(
                                id="channel-kind", label="Kind", value="webhook", allowDeselect=False, size="xs",
                                data=[{"value": kind, "label": kind} for kind in KINDS],
                            ),
                            dmc.PasswordInput(id="channel-address", label="Address", size="xs"),
                            dmc.PasswordInput(id="channel-secret", label="Secret (signs a webhook)", size="xs"),
                            dmc.Checkbox(
                                id="channel-standing", label="Tell it of what is open already", size="xs", checked=False
                            ),
                            dash_html.Button("Add", id="channel-add", className="seg seg-alone"),
                        ],
                        className="alert-form",
                    ),
                    dash_html.Div(id="channel-said", role="status", className="alert-said"),
                ],
                className="panel alert-panel",
            ),
        ]
    )  # fmt: skip


def run_alerts(queries: Queries, run_id: str) -> Content:
    """The alerts of one run that are not over, for its page; nothing where there are none."""
    page = queries.alerts.alerts(run=run_id, limit=10)
    standing = [each for each in page.rows if each.standing is not Standing.RESOLVED]
    if not standing:
        return None
    return html.Div(
        [
            html.P([badge(each.standing.value, TONES[each.standing]), " ", html.Strong(_words(each.row.rule)), ": ",
                    each.row.sentence, " ", link("alerts", f"/alerts?q={each.row.rule}")])
            for each in standing
        ],
        className="run-alerts",
        role="status",
    )  # fmt: skip


def _teach() -> Markup:
    return empty(
        "Nothing has asked for anybody yet.",
        "Rules look at every run as facts come in, and as time passes. What they see stands here.",
        "rerail alerts --json",
        "rerail demo --url {server}",
    )
