"""A year in which a time-out is shortened, kills healthy ranks, is written about and set back; and is found again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rerail.collectors.demo import config_year
from rerail.server.config_changes import ChangeDesk
from rerail.server.core.notes import Subject, SubjectKind
from rerail.server.notes import NoteDesk
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import Batch, Store

END = 1_790_000_000 * 10**9


@pytest.fixture
def queries(store: Store, batch: Callable[..., Batch]) -> Queries:
    """The year, and what people said of it."""
    store.append([batch(*config_year.facts(END))])
    Projector(store, clock=lambda: END + 10**10).derive_due()
    for path, said in config_year.said():
        if path == "/api/v1/notes":
            subject = Subject(SubjectKind.INCIDENT, str(said["subject"]))
            NoteDesk(store, lambda: END).write(subject, str(said["text"]), config_year.WHO)
        else:
            ChangeDesk(store, lambda: END).say(path.split("/")[5], said)
    return Queries(store, lambda: END + 10**10)


def test_the_ledger_tells_what_was_changed_why_and_what_came_of_it(queries: Queries):
    back, shorter = queries.configs.changes().rows
    for row, old, new in ((shorter, 1800, 300), (back, 300, 1800)):
        assert [(each.name, each.old.value, each.new.value) for each in row.change.knobs] == [
            ("heartbeat_timeout", old, new)
        ]
        assert row.change.initiator == "operator" and row.said.changed_by == config_year.WHO
    assert (shorter.before.contradicted_hangs, shorter.after.contradicted_hangs) == (0, 4)
    assert (back.before.contradicted_hangs, back.after.contradicted_hangs) == (4, 0)
    against = [queries.incident(each.incident_id).contradicted_by for each in queries.incidents(config_year.RUN).rows]
    assert len([each for each in against if each]) == 4, "the incidents say of themselves what the ledger counts"
    assert "the ranks may have been healthy" in " ".join(filter(None, against))
    assert shorter.before.detecting is not None and shorter.before.detecting.p50_ns == 1800 * 10**9
    assert shorter.after.detecting is not None and shorter.after.detecting.p50_ns == 300 * 10**9
    assert [each.row.change.change_id for each in queries.configs.changes_about(f"{config_year.RUN}~5", ())] == [
        back.change.change_id
    ]


@pytest.mark.parametrize("words", ["체크포인트", "하트비트 초과", "false kill", "kill checkpoint kind:note"])
def test_a_korean_and_an_english_word_find_the_note(queries: Queries, words: str):
    assert "note" in {each.kind for each in queries.search.find(words).rows}
