"""Problems in the database: sums that are exact, places that follow what people did, and words that are never lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from rerail.server.core import facts
from rerail.server.core.facts import Phase, Scope
from rerail.server.core.fingerprints import fingerprint_of
from rerail.server.core.node_histories import Held, NodeHistory, NodeXid
from rerail.server.core.problems import ActionKind, Placed, ProblemAction
from rerail.server.core.view import Account, Domain, Incident, Part, RunState, RunView, Verdict
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.problems import ProblemDesk, action_of
from rerail.server.queries import Queries
from rerail.server.store import Batch, DerivedRun, Store, open_store

T = 1_760_000_000_000_000_000
S = 10**9
DAY = 86_400 * S
MakeBatch = Callable[..., Batch]


def incident(
    run: str, number: int, exception: str = "ValueError", node: str | None = None, **changes: object
) -> Incident:
    verdict = Verdict(
        "user_exception", Domain.UNKNOWN, 0.9, "It fell.", culprit_node=node, traits=(("exception", exception),)
    )
    pairs = (("node", node),) if node else ()
    made = Incident(
        incident_id=f"{run}~{number}",
        run_id=run,
        attempts=(number,),
        started_at=T + number * DAY // 4,
        noticed_at=None,
        restarted_at=None,
        ended_at=T + number * DAY // 4 + 90 * S,
        is_planned=False,
        is_open=False,
        scope=Scope.IN_JOB,
        verdict=verdict,
        parts=(Part("detecting", 60 * S), Part("catch_up", 30 * S)),
        time_to_restart_ns=60 * S,
        time_to_recover_ns=90 * S,
        lost_steps=number,
        lost_ns=number * S,
        lost_gpu_ns=2**70 if number % 3 else None,
        fingerprint=fingerprint_of(verdict, "training", run),
        facets=(*pairs, ("step", str(100 + number)), ("run", run)),
    )
    return replace(made, **changes)


def view(run: str, *incidents: Incident) -> RunView:
    account = Account(T, T + 100 * S, 100 * S, ((Phase.TRAINING, 100 * S),), 100 * S, 0, 0, 0, 0, 0, ())
    return RunView(
        run_id=run, as_of=T + 100 * S, state=RunState.ALIVE, started_at=T, ended_at=None, last_heard_at=T + 99 * DAY,
        silent_since=None, account=account, gpu_account=None, incidents=tuple(incidents),
    )  # fmt: skip


class Runs:
    """Saves views of runs as a projector does."""

    def __init__(self, store: Store, batch: MakeBatch) -> None:
        self.store, self._batch = store, batch
        self._revisions: dict[str, int | None] = {}
        self.incidents: dict[str, tuple[Incident, ...]] = {}

    def save(self, run: str, *incidents: Incident, nodes: tuple[NodeHistory, ...] = ()) -> None:
        if run not in self._revisions:
            self.store.append([self._batch(facts.Capacity(run=run, emitter="e", seq=0, at=T, gpus=1))])
        derived = DerivedRun(view(run, *incidents), 1, (), (), nodes=nodes, base_revision=self._revisions.get(run))
        self._revisions[run] = self.store.save(derived, None)
        self.incidents[run] = incidents

    def forget(self) -> None:
        """As after a restart of the process: the next saves rewrite everything."""
        self._revisions = dict.fromkeys(self._revisions)


@pytest.fixture
def told(store: Store, batch: MakeBatch) -> Runs:
    return Runs(store, batch)


def problem_of(one: Incident) -> str:
    assert one.fingerprint is not None
    return one.fingerprint.text


VALUE, KEY = (problem_of(incident("a", 1, exception=name)) for name in ("ValueError", "KeyError"))


def counts(store: Store) -> dict[str, int]:
    return {row.problem_id: row.incidents for row in Queries(store).problems.problems(limit=1000).rows}


def test_a_problem_counts_over_all_runs(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1, node="n1"), incident("a", 2, node="n2"), incident("a", 3, exception="KeyError"))
    told.save("b", incident("b", 5, node="n1"), incident("b", 6, is_planned=True, fingerprint=None))
    page = Queries(store).problems.problems(sort="incidents")
    first, second = page.rows
    assert (first.problem_id, first.incidents, first.runs, first.nodes) == (VALUE, 3, 2, 2)
    assert (first.first_at, first.last_at) == (T + DAY // 4, T + 5 * DAY // 4)
    assert (first.recover_ns, first.restart_ns, first.lost_ns) == (270 * S, 180 * S, 8 * S)
    assert first.lost_gpu_ns == 3 * (2**70 // 10**6) * 10**6
    assert first.title == "user exception: ValueError"
    assert (second.problem_id, second.incidents, second.cost_unknown, second.lost_gpu_ns) == (KEY, 1, 1, None)
    assert sum(first.occurrences) == 3
    assert [row.problem_id for row in Queries(store).problems.problems(node="n2").rows] == [VALUE]
    assert [row.problem_id for row in Queries(store).problems.problems(search="keyERR").rows] == [KEY]


def test_incidents_that_are_out_of_account_or_gone_count_in_nothing(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1), incident("a", 2, is_excluded=True))
    assert counts(store) == {VALUE: 1}
    told.save("a", incident("a", 2, is_excluded=True))
    assert counts(store) == {}
    found = Queries(store).problems.problem(VALUE)
    assert [(each.incident_id, each.counts) for each in found.occurrences] == [("a~2", False)]


def test_a_fault_that_is_judged_anew_goes_to_another_problem(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1), incident("a", 2))
    told.save("a", incident("a", 1), incident("a", 2, exception="KeyError"))
    assert counts(store) == {VALUE: 1, KEY: 1}


def test_what_is_merged_comes_back_with_an_undo_as_it_was(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1), incident("a", 2, exception="KeyError"))
    told.save("b", incident("b", 5, exception="KeyError"))
    before = Queries(store).problems.problems(limit=10).rows
    desk = ProblemDesk(store, lambda: T + 9 * DAY)
    merged = desk.act(KEY, ProblemAction(0, 0, ActionKind.MERGE, KEY, "Ada", into=VALUE))
    assert counts(store) == {VALUE: 3}
    told.save("c", incident("c", 1, exception="KeyError"))
    assert counts(store) == {VALUE: 4}, "incidents to come go along"
    found = Queries(store).problems.problem(KEY)
    assert found.problem.problem_id == VALUE, "the one merged away answers as the one it is part of"
    assert [each.problem_id for each in found.merged] == [KEY]
    told.save("c")
    undone = desk.act(KEY, ProblemAction(0, 0, ActionKind.UNDO, KEY, "Ben", undoes=merged.action_id))
    after = Queries(store).problems.problems(limit=10).rows
    assert [replace(row, revision=0) for row in after] == [replace(row, revision=0) for row in before]
    trail = Queries(store).problems.problem(KEY).history
    assert [(each.action.kind, each.in_force, each.undone_by) for each in trail] == [
        (ActionKind.MERGE, False, undone.action_id),
        (ActionKind.UNDO, True, None),
    ]


def test_one_facet_is_split_off_and_one_incident_moved(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1, node="n1"), incident("a", 2, node="n2"), incident("a", 3, exception="KeyError"))
    desk = ProblemDesk(store)
    made = desk.act(VALUE, ProblemAction(0, 0, ActionKind.SPLIT, VALUE, facet="node", value="n1")).made
    assert made is not None
    assert counts(store) == {VALUE: 1, KEY: 1, made: 1}
    assert Queries(store).problems.problem_row(made).title == "user exception: ValueError on node n1"
    told.save("b", incident("b", 1, node="n1"))
    assert counts(store)[made] == 2
    desk.move("a~3", made, "Ada", "the same cable")
    found = Queries(store).problems.problem(made)
    assert found.moved == ("a~3",)
    assert found.split_from is not None and found.split_from.problem_id == VALUE
    assert Queries(store).problems.problem(VALUE).moved == ()
    with pytest.raises(RefusedRequestError, match="already"):
        desk.move("a~3", made, "Ada", None)
    assert counts(store) == {VALUE: 1, made: 3}
    with pytest.raises(NotFoundError):
        desk.move("a~99", made, None, None)
    with pytest.raises(NotFoundError):
        desk.move("a~1", "split-12345", None, None)


def test_a_resolved_problem_regresses_with_an_incident_that_begins_later(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1))
    desk = ProblemDesk(store, lambda: T + DAY)
    desk.act(VALUE, ProblemAction(0, 0, ActionKind.RESOLVE, VALUE, "Ada", "new cable", fixed_by="c0ffee"))
    assert Queries(store).problems.problem_row(VALUE).status.value == "resolved"
    told.save("b", incident("b", 2))
    assert Queries(store).problems.problem_row(VALUE).status.value == "resolved", "it began before"
    told.save("c", incident("c", 40))
    row = Queries(store).problems.problem_row(VALUE)
    assert row.status.value == "regressed"
    assert row.resolution is not None
    assert (row.resolution.text, row.resolution.author, row.resolution.fixed_by) == ("new cable", "Ada", "c0ffee")


def test_who_looks_after_a_problem_is_said_shown_found_and_taken_back(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1))
    desk = ProblemDesk(store, lambda: T + DAY)

    def now() -> tuple[str | None, str]:
        row = Queries(store).problems.problem_row(VALUE)
        return row.assignee, row.status.value

    assert now() == (None, "new")
    said, _ = action_of({"action": "assign", "assignee": "Ada", "author": "Ben"})
    desk.act(VALUE, said)
    assert now() == ("Ada", "known")
    assert [row.problem_id for row in Queries(store).problems.problems("ada").rows] == [VALUE]
    assert Queries(store).problems.problems("nobody").total == 0
    taken = desk.act(VALUE, action_of({"action": "assign"})[0])
    assert now() == (None, "new")
    desk.act(VALUE, ProblemAction(0, 0, ActionKind.UNDO, VALUE, undoes=taken.action_id))
    assert now() == ("Ada", "known")
    with pytest.raises(RefusedRequestError, match="assignee"):
        action_of({"action": "known", "assignee": "Ada"})


def test_two_people_at_once_lose_nothing_and_the_second_is_told(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1))
    desk = ProblemDesk(store, lambda: T)
    told_off: list[RefusedRequestError] = []
    done: list[ProblemAction] = []
    together = threading.Barrier(4)

    def say(name: str) -> None:
        together.wait()
        try:
            done.append(desk.act(VALUE, ProblemAction(0, 0, ActionKind.KNOWN, VALUE, name), revision=0))
        except RefusedRequestError as error:
            told_off.append(error)

    threads = [threading.Thread(target=say, args=(f"person {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(done), len(told_off)) == (1, 3)
    assert {error.status for error in told_off} == {409}
    assert f"{done[0].author} did “known”" in told_off[0].message
    assert len(store.problems.ledger().actions) == 1


def test_words_of_people_outlive_everything_derived(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1, node="n1"), incident("a", 2), incident("a", 3, exception="KeyError"))
    desk = ProblemDesk(store, lambda: T)
    desk.act(VALUE, ProblemAction(0, 0, ActionKind.SPLIT, VALUE, facet="node", value="n1", title="n1's"))
    desk.act(KEY, ProblemAction(0, 0, ActionKind.MERGE, KEY, into=VALUE))
    before = Queries(store).problems.problems(limit=10)
    told.forget()
    store.make_all_due()
    told.save("a", *told.incidents["a"])
    assert Queries(store).problems.problems(limit=10) == before


@pytest.mark.parametrize("seed", range(3))
def test_sums_and_places_are_those_of_the_incidents_whatever_happens_in_which_order(
    told: Runs, store: Store, database: str, seed: int
) -> None:
    chance = random.Random(seed)
    desk = ProblemDesk(store, lambda: T)
    for _ in range(40):
        run = chance.choice("abc")
        known = list(told.incidents.get(run, ()))
        kind = chance.random()
        if kind < 0.55 or not counts(store):
            node = chance.choice(["n1", "n2", None])
            known.append(incident(run, len(known) + chance.randrange(3) * 100, chance.choice(["A", "B", "C"]), node))
            chance.shuffle(known)
            unique = {each.incident_id: each for each in known[: chance.randrange(len(known)) + 1] + known[-3:]}
            if chance.random() < 0.1:
                told.forget()
            told.save(run, *unique.values())
            continue
        problems = sorted(counts(store))
        one, other = chance.choice(problems), chance.choice(problems)
        some = chance.choice([each.incident_id for of_run in told.incidents.values() for each in of_run] or ["a~0"])
        said = chance.choice(
            [
                ProblemAction(0, 0, ActionKind.MERGE, one, into=other),
                ProblemAction(0, 0, ActionKind.SPLIT, one, facet="node", value="n1"),
                ProblemAction(0, 0, ActionKind.SPLIT, one, incidents=(some,)),
                ProblemAction(0, 0, ActionKind.MOVE, one, into=other, incidents=(some,)),
                ProblemAction(0, 0, ActionKind.UNDO, one, undoes=chance.choice([1, *_numbers(store)])),
            ]
        )
        try:
            desk.act(one, said)
        except (RefusedRequestError, NotFoundError):
            continue
    ledger = store.problems.ledger()
    wanted: dict[str, int] = {}
    for run, incidents in told.incidents.items():
        for each in incidents:
            assert each.fingerprint is not None
            place = ledger.place(Placed(each.incident_id, each.fingerprint.text, each.facets))
            wanted[place] = wanted.get(place, 0) + 1
            (row,) = store.problems.incident_rows([each.incident_id])
            assert (row.problem_id, row.facets, row.run_id) == (place, each.facets, run)
    assert counts(store) == wanted
    before = Queries(store).problems.problems(limit=1000)
    again = open_store(database)
    told.store = again
    told.forget()
    for run, incidents in told.incidents.items():
        told.save(run, *incidents)
    assert Queries(again).problems.problems(limit=1000) == before
    again.close()


def _numbers(store: Store) -> list[int]:
    return [action.action_id for action in store.problems.ledger().actions]


def test_text_that_no_index_can_hold_is_cut_and_text_no_database_can_keep_is_written_out(
    told: Runs, store: Store
) -> None:
    odd = incident("a", 1, exception="E\0" + "x" * 5000, node="n\0é" + "y" * 5000)
    told.save("a", odd)
    (row,) = Queries(store).problems.problems().rows
    assert (row.incidents, row.nodes) == (1, 1)
    found = Queries(store).problems.problem(row.problem_id)
    assert dict(found.occurrences[0].facets)["node"] == "n\0é" + "y" * 5000


# --- similar incidents and nodes --------------------------------------------------------------------------------------


def test_similar_incidents_come_with_reasons_and_what_was_done(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1, node="n1"))
    told.save("b", incident("b", 30, node="n9"), incident("b", 31, exception="KeyError", node="n1"))
    ProblemDesk(store, lambda: T).act(KEY, ProblemAction(0, 0, ActionKind.RESOLVE, KEY, "Ada", "new cable"))
    found = Queries(store).problems.similar("a~1")
    assert found.problem is not None
    assert (found.problem.position, found.problem.problem.incidents) == (1, 2)
    same, other = found.similar
    assert same.occurrence.incident_id == "b~30"
    assert same.reasons[0] == "The same fault, by every part of its fingerprint."
    assert other.occurrence.incident_id == "b~31"
    assert other.reasons[0] == "The same node: n1."
    assert other.difference == "Different exception: ValueError here, KeyError there."
    assert other.resolution is not None and other.resolution.text == "new cable"
    with pytest.raises(NotFoundError):
        Queries(store).problems.similar("nothing~0")


def test_a_planned_restart_has_no_problem_and_nothing_similar(told: Runs, store: Store) -> None:
    told.save("a", incident("a", 1, is_planned=True, fingerprint=None), incident("a", 2))
    found = Queries(store).problems.similar("a~1")
    assert (found.problem, found.similar) == (None, ())


def test_a_node_is_judged_by_all_runs_that_held_it(told: Runs, store: Store) -> None:
    others = tuple(NodeHistory(f"n{number}", (Held(T, T + 30 * DAY),)) for number in range(1, 20))
    for day, run in enumerate("abc", 1):
        same_line = NodeXid(T + 5 * DAY, 48)  # one line of the kernel, in the logs of all three
        bad = NodeHistory("bad", (Held(T, T + 30 * DAY),), xids=(NodeXid(T + day * DAY, 79, 3), same_line))
        told.save(run, incident(run, 1, node="bad"), incident(run, 2, node="bad"), nodes=(bad, *others))
    told.save("d", incident("d", 3, node="bad"), incident("d", 4, node="n1"))
    queries = Queries(store).nodes
    page = queries.nodes()
    assert (page.total, dict(page.levels)) == (20, {"lemon": 1, "suspect": 0, "unremarkable": 19, "unknown": 0})
    worst = page.rows[0]
    assert (worst.node, worst.lemon.level.value, worst.runs, worst.runs_blamed) == ("bad", "lemon", 4, 4)
    assert worst.lemon.node_days == pytest.approx(90)
    assert any("more fault in runs that do not say" in reason for reason in worst.lemon.reasons)
    assert any(reason.startswith("XID 79 3 times") for reason in worst.lemon.reasons)
    node = queries.node("bad")
    assert (node.blamed_count, len(node.blamed), len(node.present)) == (7, 7, 0)
    assert [event.what for event in node.events] == ["XID 48", "XID 79", "XID 79", "XID 79"]
    assert (worst.xids, any(reason.startswith("XID 48 once") for reason in worst.lemon.reasons)) == (4, True)
    assert [stay.held_ns for stay in node.stays] == [30 * DAY, 30 * DAY, 30 * DAY, None]
    assert len(queries.node("n1").present) == 6
    with pytest.raises(NotFoundError):
        queries.node("none")


def test_what_is_held_still_is_held_until_the_run_was_heard_last(told: Runs, store: Store) -> None:
    told.save(
        "a", nodes=(NodeHistory("x", (Held(T, T + DAY), Held(T + 9 * DAY, None))), NodeHistory("y", (Held(T, None),)))
    )
    row = Queries(store).nodes.node("x").node
    assert row.lemon.node_days == pytest.approx(91)
    told.save("a", nodes=(NodeHistory("y", (Held(T, None),)),))
    assert [row.node for row in Queries(store).nodes.nodes().rows] == ["y"]
