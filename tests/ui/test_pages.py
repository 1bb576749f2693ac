"""Pages as values: what they say, and that nothing a person wrote becomes more than text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rerail.server.api.answers import plain
from rerail.server.commands.answered import Told
from rerail.server.commands.showing import infrastructure_words as terminal
from rerail.server.core.facts import Outcome
from rerail.server.core.report import figures
from rerail.server.core.view import Account, CheckpointFreshness, RunState, RunView, Unexplained
from rerail.server.query_results import RefusedRow
from rerail.server.store.run_rows import row_of_view
from rerail.ui import address
from rerail.ui.markup import Markup, encoded, html
from rerail.ui.pages.quality import refused_lines
from rerail.ui.pages.run_head import head, phrases
from rerail.ui.pages.run_losses import incidents_panel, losses
from rerail.ui.pages.run_tables import panels
from rerail.ui.pages.runs import grid_row
from rerail.ui.sentences import incident_sentence, run_now, run_sentence, runs_sentence
from tests.ui.samples import CHECKPOINTS, INCIDENT, VIEW, at


def said(pieces) -> str:
    return "".join(piece.words for piece in pieces).replace("\u202f", " ")


def words(nodes: list[Markup]) -> str:
    return " ".join(node.words() for node in nodes).replace("\u202f", " ")


def test_a_run_is_summed_up_with_its_largest_losses():
    assert said(run_sentence(VIEW)) == (
        "74.0 % training goodput over 16 min 40 s. 12.0 points went to faults and 10.0 points to rework, "
        "after 1 incident. "
    )
    assert said(run_now(VIEW)) == "Ended: completed at step 740 of 740 (100.0 %)."


def test_a_run_of_which_nothing_is_known_says_so():
    nothing = Account(at(0), at(0), 0, (), 0, 0, 0, 0, 0, None, ())
    view = RunView("x", at(0), RunState.ALIVE, None, None, None, None, nothing, None)
    assert said(run_sentence(view)).startswith("Nothing has happened yet")
    assert "unknown" in words(head(view))
    assert "No attempt has been told yet." in words(panels(view, (), ()))


def test_an_incident_is_summed_up_with_both_times():
    assert said(incident_sentence(INCIDENT)) == (
        "Recovered in 3 min 40 s: 2 min until training stepped again, then 1 min 40 s to regain lost ground. "
        "100 steps lost, 0.5 GPU-h spent."
    )


def test_an_open_incident_never_claims_a_time_to_recover():
    opened = replace(INCIDENT, is_open=True, ended_at=None, restarted_at=None, time_to_recover_ns=None)
    assert said(incident_sentence(opened)).startswith("Not over: 3 min 40 s so far.")
    assert "so far" in words(panels(replace(VIEW, incidents=(opened,)), (), CHECKPOINTS))


def test_a_run_of_which_nobody_tells_steps_claims_no_goodput():
    unseen = replace(VIEW, sees_training=False)
    assert said(run_sentence(unseen)) == (
        "Training goodput unknown: nobody speaks of its steps. Of 16 min 40 s, 12.0 % is known to have gone to "
        "restarts; 1 incident."
    )
    shown = words([*head(unseen), *losses(unseen), *panels(unseen, (), CHECKPOINTS)])
    assert "Infrastructure goodput≤ 88.0 %" in shown and "training goodputunknown" in shown
    quiet = replace(unseen, account=replace(VIEW.account, faults_ns=0), incidents=())
    assert "what went to restarts is not known." in said(run_sentence(quiet))
    shown = words([*head(quiet), *panels(quiet, (), CHECKPOINTS)])
    assert "Infrastructure goodputunknown" in shown and "Nothing that stopped this run was told." in shown
    assert said(incident_sentence(INCIDENT, sees_training=False)) == (
        "Ran again after 3 min 40 s. Nobody speaks of its steps: what ground was lost is not known; 0.5 GPU-h spent."
    )


def test_a_run_that_somebody_stopped_says_so_where_it_has_no_incident():
    stopped = replace(VIEW, incidents=(), outcome=Outcome.STOPPED)
    assert "It was stopped by request, and nothing else stopped it." in words([incidents_panel(stopped)])
    assert "Nothing stopped this run." in words([incidents_panel(replace(stopped, outcome=None))])


def test_runs_are_counted():
    assert runs_sentence(0, 0, 0, 0) == "No run yet."
    assert runs_sentence(3, 1, 0, 2) == "3 runs: 1 alive, 2 ended."


def test_tables_say_what_happened():
    shown = words(panels(VIEW, (), CHECKPOINTS))
    for part in (
        "GPU out of memory",
        "rank 3",
        "−9 SIGKILL",
        "newest durable",
        "failed",
        "max of 1",
        "× 300",
        "Only rank 0 reports.",
    ):
        assert part in shown or part in words(head(VIEW)), part


def test_what_people_wrote_stays_text():
    sent = json.loads(encoded([*head(VIEW), *panels(VIEW, (), CHECKPOINTS)]))
    assert "<i>sample</i>" in json.dumps(sent)
    tags = {node.tag for root in [*head(VIEW), *panels(VIEW, (), CHECKPOINTS)] for node in _every(root)}
    assert "script" not in tags
    links = [
        link
        for root in head(VIEW) + panels(VIEW, (), CHECKPOINTS)
        for node in _every(root)
        for name, link in node.attributes
        if name == "href"
    ]
    assert links
    assert all(link.startswith(("/", "#")) for link in links)


def _every(node: Markup) -> list[Markup]:
    return [node, *(found for child in node.children if isinstance(child, Markup) for found in _every(child))]


def test_markup_refuses_what_could_run():
    with pytest.raises(AttributeError):
        html.Script("x")
    with pytest.raises(ValueError, match="onclick"):
        html.Div("x", onclick="x")


@pytest.mark.parametrize("run_id", ["plain", "team/run 7", "a?b#c", "%2F", "<b>", "../up", "이름"])
def test_a_run_id_survives_its_address(run_id):
    path = address.run_path(run_id, "incidents").split("#")[0]
    assert address.parse(path) == address.Address("run", run_id)
    assert address.parse(address.incident_path(f"{run_id}~3")) == address.Address("incident", f"{run_id}~3")


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/", "fleet"),
        ("/alerts", "alerts"),
        ("/runs", "runs"),
        ("/data", "data"),
        ("/nope", "unknown"),
        ("/runs/a/b", "unknown"),
    ],
)
def test_an_address_names_its_page(path, page):
    assert address.parse(path).page == page


def test_a_sentence_is_components_with_links():
    (shown, *_) = phrases(run_sentence(VIEW))
    assert dict(shown.attributes)["href"] == "#waterfall"


def test_bring_up_that_nobody_told_is_silent_and_the_infrastructure_goodput_says_what_it_is_at_least():
    assert "of which nobody told" not in words(head(VIEW))
    gap = Unexplained("bring_up", "before an attempt's first step", VIEW.account.elapsed_ns // 4, 2, 0, 0)
    loop = replace(VIEW, data_quality=replace(VIEW.data_quality, unexplained=(gap,)))
    assert "at least 63.0 %, were 4 min 10 s down too of which nobody told" in words(head(loop)).replace("\u202f", " ")


def test_the_page_the_table_the_api_and_the_terminal_say_infrastructure_goodput_by_one_rule():
    gap = Unexplained("bring_up", "before an attempt's first step", VIEW.account.elapsed_ns // 4, 2, 0, 0)
    unseen = replace(VIEW, sees_training=False, data_quality=replace(VIEW.data_quality, unexplained=(gap,)))
    calm = replace(unseen, account=replace(VIEW.account, faults_ns=0))
    for view, known, least in ((unseen, "≤ 88.0 %", "63.0 %"), (calm, "unknown", "75.0 %")):
        row = row_of_view(view)
        page = words(head(view)).replace("\u202f", " ")
        assert f"Infrastructure goodput{known}" in page
        assert f"at least {least}" in page
        cell = grid_row(row)
        assert f"{cell['infrastructure_text']}".replace("\u202f", " ") == known
        assert f"{cell['infrastructure_least']}".replace("\u202f", " ") == f", at least {least}"
        assert terminal(Told(plain(row))) == f"{known} (≥ {least})".replace(" %", "%")
        shown = figures(view)
        assert (shown["infrastructure_goodput"] is None) == (known == "unknown")
        assert shown["infrastructure_goodput_is_most"] == (known != "unknown")
        assert round(shown["infrastructure_goodput_least"], 3) == float(least[:4]) / 100


def test_many_refused_lines_are_told_by_their_reasons_and_few_one_by_one():
    def row(line: int, field: str, reason: str) -> RefusedRow:
        return RefusedRow(line, f"r{line % 3}", "e", line, field, "x", reason, "{}")

    few = words([html.Div(refused_lines([row(line, "at", "not an integer") for line in range(3)]))])
    assert "3 ×" not in few
    many = [row(line, "at", "not an integer") for line in range(30)] + [row(99, "first_step", "negative")]
    told = words([html.Div(refused_lines(many))])
    assert told.index("30 × at: not an integer · 3 runs") < told.index("1 × first_step: negative · 1 run")
    assert "The newest 20 of 30." in told


def test_without_a_save_the_efficiency_of_checkpoints_is_not_flattered():
    assert "unknowncheckpoint efficiency" not in words(losses(VIEW))
    untold = replace(VIEW, checkpoint=CheckpointFreshness())
    assert "unknowncheckpoint efficiency" in words(losses(untold))
