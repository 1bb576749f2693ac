"""Notes and search on both databases: what is written is kept, what is derived can be found, and both find the same."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from rerail.server.config_changes import ChangeDesk
from rerail.server.core.facts import Note as NoteFact
from rerail.server.core.notes import MentionKind, NoteRevision, RevisionKind, Subject, SubjectKind, written
from rerail.server.core.problems import ActionKind, ProblemAction
from rerail.server.core.search.documents import Document
from rerail.server.core.search.query import parse_query
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.notes import Change, NoteConflictError, NoteDesk
from rerail.server.problems import ProblemDesk
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import engines, tables
from rerail.server.store.note_rows import NewNote
from rerail.server.store.search_writing import renew
from tests.story import Story

NODE = Subject(SubjectKind.NODE, "gpu-17")
S = 10**9


@pytest.fixture
def told(store, batch):
    """A store that knows one run that failed twice, and its queries."""
    story = Story("llama").start().steps(1, 20).save(20, blocked=1).steps(21, 30)
    story.die(after=20).wait(10).start().load(20, took=2).steps(21, 40).finish()
    store.append([batch(*story.facts)])
    projector = Projector(store)
    while projector.derive_due():
        pass
    return store


def found(store, text: str) -> list[tuple[str, str]]:
    return [(row.kind, row.subject) for row in Queries(store).search.find(text, 0, 100).rows]


def write(store, text: str, subject: Subject = NODE, at: int = 5):
    revision = written(subject, at, text, "Ada")
    assert isinstance(revision, NoteRevision)
    return store.notes.write(NewNote(subject, revision))


KOREAN = (
    "체크포인트를 저장하는 동안 학습이 멈췄다. NCCL watchdog caught a timeout on gpu_17. "
    "One entry of a half-step. 재시도, 재 시작"
)


@pytest.mark.parametrize(
    "typed",
    ["체크포인트", "포인트", "학습", "습", "동안", "저장 멈췄", '"watchdog caught"', "watchd", "NCCL 학습", "gpu_17",
     "time", "node:gpu-17", "kind:note 학습", "학습 -kind:incident", '"학습이 멈췄다"', "after:1970-01-01 학습",
     "timeouts", "time-out", "time-outs", "watchdogs time_outs", "watch-dog", "entries", "half-steps", "halfstep",
     "체크포인트가", "체크-포인트", "체크포인트들", "재시도는", "학습 timeouts"],
)  # fmt: skip
def test_both_databases_find_the_same(store, typed):
    note = write(store, KOREAN)
    assert found(store, typed) == [("note", note.name)]


@pytest.mark.parametrize(
    "typed",
    ["체크아웃", "watchdog -timeout", "watchdog -timeouts", "watchdog -time-out", '"timeouts"',
     "학습 재시작을 하다", '"caught watchdog"', "node:gpu-1", "rank:17", "학습 kind:run",
     "before:1970-01-02 xyz"],
)  # fmt: skip
def test_both_databases_leave_out_the_same(store, typed):
    write(store, KOREAN)
    assert found(store, typed) == []


def test_a_changed_note_is_found_by_its_new_words_only_and_a_deleted_one_by_none(store):
    note = write(store, "before, see run:llama")
    desk = NoteDesk(store)
    desk.change(note.note_id, Change(RevisionKind.EDIT, 1, "after, see run:mistral"))
    assert found(store, "before") == []
    assert found(store, "after") == [("note", note.name)]
    assert store.notes.mentioning(MentionKind.RUN, "llama") == ()
    assert [each.name for each in store.notes.mentioning(MentionKind.RUN, "mistral")] == [note.name]
    desk.change(note.note_id, Change(RevisionKind.DELETE, 2))
    assert found(store, "after") == []
    assert store.notes.about("node", "gpu-17") == ()
    back = desk.change(note.note_id, Change(RevisionKind.UNDO, 3))
    assert back.newest.text == "after, see run:mistral"
    assert found(store, "after") == [("note", note.name)]
    assert [each.text[:6] for each in store.notes.note(note.note_id).revisions] == [
        "before",
        "after,",
        "after,",
        "after,",
    ]


def test_two_who_edit_at_once_lose_nothing(store):
    note = write(store, "common")
    desk = NoteDesk(store)
    desk.change(note.note_id, Change(RevisionKind.EDIT, 1, "theirs", author="Ben"))
    with pytest.raises(NoteConflictError) as raised:
        desk.change(note.note_id, Change(RevisionKind.EDIT, 1, "mine"))
    error = raised.value
    assert (error.status, error.text, error.note.newest.text, error.seen.text) == (409, "mine", "theirs", "common")
    assert "Ben made revision 2" in error.message


def test_of_many_who_edit_the_same_revision_one_wins(store):
    note = write(store, "common")
    outcomes = []

    def edit(name: str) -> None:
        try:
            NoteDesk(store).change(note.note_id, Change(RevisionKind.EDIT, 1, name))
            outcomes.append("kept")
        except NoteConflictError:
            outcomes.append("told")

    threads = [threading.Thread(target=edit, args=(f"by {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["kept"] + ["told"] * 5
    assert store.notes.note(note.note_id).newest.revision == 2


def test_a_note_over_the_limit_and_one_on_nothing_are_refused(store):
    desk = NoteDesk(store)
    with pytest.raises(NotFoundError):
        desk.write(NODE, "x", None)
    note = write(store, "x")
    with pytest.raises(RefusedRequestError) as raised:
        desk.change(note.note_id, Change(RevisionKind.EDIT, 1, "x" * 5_000_000))
    assert raised.value.status == 413
    assert "64 kB" in raised.value.message


def test_what_is_derived_is_found(told):
    kinds = {kind for kind, _ in found(told, "run:llama")}
    assert {"incident", "run"} <= kinds
    incident = Queries(told).incidents("llama").rows[0]
    assert ("incident", incident.incident_id) in found(told, f"cause:{incident.cause}")
    assert {kind for kind, _ in found(told, "status:recovered")} <= {"incident", "trace"}
    assert found(told, "kind:run llama") == [("run", "llama")]


def test_a_replay_rebuilds_what_can_be_found(told):
    write(told, "kept")
    wanted = {text: found(told, text) for text in ("run:llama", "kind:problem", "kept", "status:recovered")}
    told.make_all_due()
    told.search.rebuild()
    assert {text: found(told, text) for text in wanted} == wanted
    projector = Projector(told, held_folds=1)
    while projector.derive_due():
        pass
    assert {text: found(told, text) for text in wanted} == wanted


def test_a_config_change_is_found_by_its_knobs_and_by_what_people_say_of_it(store, batch):
    story = Story("llama").start(config='{"rank_heartbeat_timeout": 300}').bring_up(10).steps(1, 50).die(after=20)
    story.stop(1).start(config='{"rank_heartbeat_timeout": 90}').bring_up(10).steps(51, 60).finish()
    store.append([batch(*story.facts)])
    Projector(store).derive_due()
    change = ("config_change", "llama@1")
    assert found(store, "kind:config_change heartbeat") == [change]
    assert found(store, "run:llama kind:config_change 300") == [change]
    (row,) = Queries(store).search.find("kind:config_change heartbeat").rows
    assert row.path == "/configs/changes/llama%401"
    assert found(store, "impatient") == []
    said = ChangeDesk(store).say("llama@1", {"action": "explain", "changed_by": "Ada", "reason": "impatient 학습"})
    assert found(store, "impatient") == found(store, "학습") == found(store, "ada") == [change]
    store.search.rebuild()
    assert found(store, "impatient") == [change]
    ChangeDesk(store).say("llama@1", {"action": "undo", "undoes": said.action_id})
    assert found(store, "impatient") == []
    NoteDesk(store).write(Subject(SubjectKind.CONFIG_CHANGE, "llama@1"), "too short", "Kim")
    with pytest.raises(NotFoundError, match="llama@0"):
        NoteDesk(store).write(Subject(SubjectKind.CONFIG_CHANGE, "llama@0"), "nothing changed there", "Kim")


@settings(
    max_examples=max(10, settings.default.max_examples // 5),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    st.floats(0, 1), st.integers(1, 40), st.integers(1, 60), st.integers(1, 200), st.integers(0, 400),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_the_newest_that_match_are_found_however_rare_they_are(
    store, monkeypatch, filled, share, most, walked, most_walked, before, chance
):
    """Both databases, whatever is walked and whatever the index is asked for, give what looking at each gives."""
    monkeypatch.setattr("rerail.server.store.search_store.WALKED_FIRST", walked)
    monkeypatch.setattr("rerail.server.store.search_store.MOST_WALKED", most_walked)
    word = chance.choice(sorted(filled, key=lambda each: abs(len(filled[each]) / 400 - share))[:3])
    query = replace(parse_query(f'"{word}"', 0), before=before * S if before else None)
    wanted = sorted((number for number in filled[word] if not before or number < before), reverse=True)
    hits = store.search.hits(query, most)
    assert [int(each.subject) for each in hits.hits] == wanted[:most]
    assert hits.is_cut == (len(wanted) > most)


@pytest.fixture
def filled(store, database):
    """Word → numbers of the documents it is in, of 400; document n began at second n."""
    places: dict[str, list[int]] = {f"word{every}": [] for every in (1, 2, 3, 5, 11, 37, 100, 399)}
    made = []
    for number in range(1, 401):
        inside = [word for word in places if number % int(word[4:]) == 0]
        for word in inside:
            places[word].append(number)
        made.append(Document("note", str(number), number * S, "", " ".join(inside), fields=(("rank", "1"),)))
    engine = engines.write_engine(engines.normalised(database))
    with engine.begin() as connection:
        renew(connection, [tables.search_document.c.kind == "nothing"], made)
    engine.dispose()
    return places


def test_a_word_that_goes_on_finds_no_name_of_a_field(store, filled):
    assert found(store, "rank") == found(store, "ran") == found(store, "kin") == []
    assert len(store.search.hits(parse_query("rank:1 kind:note", 0), 500).hits) == 400


def test_what_people_do_with_a_problem_is_found_at_once(told):
    problem = Queries(told).problems.problems().rows[0].problem_id
    assert found(told, "kind:problem status:new") == [("problem", problem)]
    said = ProblemAction(0, 0, ActionKind.RESOLVE, problem, "Ada", "replaced the transceiver")
    done = ProblemDesk(told, lambda: 2**62).act(problem, said)
    assert found(told, "transceiver status:resolved") == [("problem", problem)]
    undo = ProblemAction(0, 0, ActionKind.UNDO, problem, undoes=done.action_id)
    ProblemDesk(told).act(problem, undo)
    assert found(told, "kind:problem status:resolved") == []


def test_a_note_that_a_fact_tells_appears_once(told, batch):
    fact = NoteFact(run="llama", emitter="ops", seq=7, at=1_790_000_000 * S, text="전압이 낮았다", author="Cho")
    told.append([batch(fact), batch(fact)])
    projector = Projector(told)
    while projector.derive_due():
        pass
    assert [each.text for each in told.notes.told("llama", 10)] == ["전압이 낮았다"]
    assert found(told, "전압") == [("note", "llama#ops#7")]


def test_a_very_long_note_is_found_by_its_last_words(store):
    note = write(store, "가나다라 " * 4000 + "마지막")
    assert found(store, "마지막") == [("note", note.name)]


def test_documents_of_one_instant_do_not_push_each_other_out(store, database):
    names = [write(store, f"word{number}", at=5).name for number in range(50)]
    assert [found(store, f'"word{number}"')[0][1] for number in range(50)] == names
    engine = engines.read_engine(engines.normalised(database))
    with engine.connect() as connection:
        count = connection.execute(select(func.count()).select_from(tables.search_document)).scalar_one()
    engine.dispose()
    assert count == 50


def test_better_and_newer_come_first(store):
    old = write(store, "timeout once in a long text about many other things that were seen that day", at=5 * S)
    new = write(
        store, "timeout once in a long text about many other things that were seen that day", at=90 * 86_400 * S
    )
    assert [name for _, name in found(store, "timeout")] == [new.name, old.name]


def test_a_word_in_every_document_is_cut_and_says_so(store, monkeypatch):
    monkeypatch.setattr("rerail.server.query_search.MOST", 10)
    for number in range(12):
        write(store, f"common {number}", at=number * S)
    page = Queries(store).search.find("common")
    assert (page.total, page.is_cut) == (10, True)
    assert not store.search.hits(parse_query("common", 0), 12).is_cut
