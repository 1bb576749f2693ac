"""Search in the database; see the promises in `note_rows.py`.

Rules
- The newest that match are given, up to a number: a word that is in every document costs no more than a rare one. How
  well each fits is judged of its text (`query_search.py`), on both databases alike.
- FTS5 walks its matches from the newest on and stops. A GIN index cannot: PostgreSQL would look at every row that
  matches, and at its words again where they must stand side by side. So the newest documents are walked first, which is
  enough for words that are common; the index is asked for what is rare among them, as far back as what was found so
  far says is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, bindparam, delete, select, text

from rerail.server.core.notes import ToldNote
from rerail.server.core.search.documents import run_document
from rerail.server.core.search.query import Query
from rerail.server.core.view import Incident, RunView
from rerail.server.store import documents, engines, tables
from rerail.server.store.config_store import renew_all_changes
from rerail.server.store.note_rows import FoundDocument, Hit, Hits
from rerail.server.store.note_store import all_notes, renew_note, told_document, told_name
from rerail.server.store.problem_writing import ledger_of
from rerail.server.store.search_words import CLEAR_FTS, first_number, fts_match, is_sqlite, ts_query
from rerail.server.store.search_writing import renew, renew_incidents, renew_nodes, renew_problems, renew_run

_document = tables.search_document.c
_LAST = 2**63 - 1

BEGINNING = 2000

WALKED_FIRST = 800
"""Documents that PostgreSQL walks whatever is asked: about 6 ms."""

MOST_WALKED = 3_000
"""Where so many are enough, walking on is cheaper than the index."""

FEW = 4
"""From so many found on is estimated how far back the others reach."""

# Which are the newest is found first, and their texts are read then: PostgreSQL would read those of all that match.
_FOUND = (
    "SELECT d.document_id, d.kind, d.subject, d.title, substr(d.body, 1, :length) FROM ("
    "SELECT {number} AS number FROM {where} ORDER BY {number} DESC LIMIT :most"
    ") AS newest JOIN search_document AS d ON d.document_id = newest.number ORDER BY d.document_id DESC"
)
_FTS = text(
    _FOUND.format(
        where="search_words WHERE search_words MATCH :match AND rowid >= :first AND rowid < :last", number="rowid"
    )
)
_WINDOW_EDGE = text(
    "SELECT document_id FROM search_document WHERE document_id >= :first AND document_id < :last "
    "ORDER BY document_id DESC OFFSET :length LIMIT 1"
)
_WALKED = text(
    "SELECT document_id FROM ("
    "SELECT document_id, words FROM search_document WHERE document_id >= :first AND document_id < :last "
    "ORDER BY document_id DESC LIMIT :length"
    ") AS newest WHERE words @@ CAST(:match AS tsquery) ORDER BY document_id DESC LIMIT :most"
)
# Materialized, or the planner takes the limit for a reason to walk.
_INDEXED = text(
    "WITH matching AS MATERIALIZED (SELECT document_id FROM search_document WHERE words @@ CAST(:match AS tsquery) "
    "AND document_id >= :first AND document_id < :last) "
    "SELECT document_id FROM matching ORDER BY document_id DESC LIMIT :most"
)
_HITS = text(
    "SELECT document_id, kind, subject, title, substr(body, 1, :length) FROM search_document "
    "WHERE document_id IN :numbers ORDER BY document_id DESC"
).bindparams(bindparam("numbers", expanding=True))
_NEWEST = text(
    _FOUND.format(where="search_document WHERE document_id >= :first AND document_id < :last", number="document_id")
)


class SqlSearchStore:
    """What can be found in one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def hits(self, query: Query, most: int) -> Hits:
        """What a question finds."""
        first = 0 if query.after is None else first_number(query.after)
        last = _LAST if query.before is None else first_number(query.before)
        asked: dict[str, object] = {"first": first, "last": last, "most": most + 1, "length": BEGINNING}
        with engines.answering(), self._read.begin() as connection:
            is_beside = is_sqlite(connection)
            match = fts_match(query) if is_beside else ts_query(query)
            if match is None:
                rows = connection.execute(_NEWEST, asked)
            elif is_beside:
                rows = connection.execute(_FTS, {**asked, "match": match})
            else:
                numbers = _newest_matches(connection, match, first, last, most + 1)
                rows = connection.execute(_HITS, {"numbers": numbers, "length": BEGINNING})
            found = [Hit(*row) for row in rows]
        return Hits(tuple(found[:most]), len(found) > most)

    def documents(self, numbers: Sequence[int]) -> dict[int, FoundDocument]:
        """Documents by their numbers."""
        if not numbers:
            return {}
        wanted = select(
            _document.document_id, _document.kind, _document.subject, _document.run, _document.at, _document.status,
            _document.title, _document.body,
        ).where(_document.document_id.in_(numbers))  # fmt: skip
        with engines.answering(), self._read.begin() as connection:
            return {row.document_id: FoundDocument(*row) for row in connection.execute(wanted)}

    def rebuild(self) -> None:
        """Empty the index and fill it from what is saved."""
        from rerail.server.store.derived import next_revision

        with engines.answering(), self._write.begin() as connection:
            next_revision(connection)
            if is_sqlite(connection):
                connection.execute(CLEAR_FTS)
            connection.execute(delete(tables.search_document))
            for note in all_notes(connection):
                renew_note(connection, note)
            _rebuild_told(connection)
            _rebuild_runs(connection)
            nodes = select(tables.node_run.c.node).distinct()
            renew_nodes(connection, connection.execute(nodes).scalars().all())
            renew_all_changes(connection)
            problems = select(tables.problem_run.c.problem_id).distinct()
            renew_problems(connection, connection.execute(problems).scalars().all(), ledger_of(connection))


def _newest_matches(connection: Connection, match: str, first: int, last: int, most: int) -> list[int]:
    """Numbers of the newest `most` documents in `[first, last)` that match, newest first, on PostgreSQL."""
    found: list[int] = []
    looked_at = 0
    length: int | None = WALKED_FIRST
    while True:
        asked: dict[str, object] = {"match": match, "first": first, "last": last, "most": most - len(found)}
        if length is None:
            return [*found, *connection.execute(_INDEXED, asked).scalars()]
        edge = connection.execute(_WINDOW_EDGE, asked | {"length": length}).scalar_one_or_none()
        asked["first"] = first if edge is None else edge + 1
        statement, more = (_WALKED, {"length": length}) if length <= MOST_WALKED else (_INDEXED, {})
        found += connection.execute(statement, asked | more).scalars()
        if edge is None or len(found) >= most:
            return found
        last, looked_at = edge + 1, looked_at + length  # The document at the edge is the first of the next window.
        # Of a rare word nothing is to be expected but in all of them, and few rows match there.
        wanted = most - len(found)
        length = None if len(found) < FEW else max(WALKED_FIRST, wanted * looked_at * 5 // (len(found) * 4))


def _rebuild_told(connection: Connection) -> None:
    columns = tables.told_note.c
    found = select(tables.run.c.run, tables.told_note).join(tables.run, tables.run.c.run_id == columns.run_id)
    for row in connection.execute(found).all():
        told = ToldNote(row.run, row.emitter, row.seq, row.at, row.author, row.text)
        name = told_name(told.run, told.emitter, told.seq)
        renew(connection, [_document.kind == "note", _document.subject == name], [told_document(name, told)])


def _rebuild_runs(connection: Connection) -> None:
    """Runs and incidents as they were saved: of those whose log was let go nothing else will come."""
    incident, view = tables.incident.c, tables.run_view.c
    for run_id, packed in connection.execute(select(view.run_id, view.document)).all():
        if packed:
            renew_run(connection, run_id, run_document(documents.read_document(RunView, packed)))
        rows = connection.execute(select(incident.document).where(incident.run_id == run_id)).scalars().all()
        renew_incidents(connection, run_id, [documents.read_document(Incident, row) for row in rows], None)
