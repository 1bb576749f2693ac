"""Search in the database; see the promises in `note_rows.py`.

Rules
- The newest that match are looked at, up to a number, and only of these it is asked how well they fit: a word that is
  in every document costs no more than one that is rare.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, delete, select, text

from rerail.server.core.notes import ToldNote
from rerail.server.core.search.documents import run_document
from rerail.server.core.search.query import Query
from rerail.server.core.view import Incident, RunView
from rerail.server.store import documents, engines, tables
from rerail.server.store.note_rows import FoundDocument, Hit, Hits
from rerail.server.store.note_store import all_notes, renew_note, told_document, told_name
from rerail.server.store.problem_writing import ledger_of
from rerail.server.store.search_words import CLEAR_FTS, first_number, fts_match, is_sqlite, ts_query, ts_ranking
from rerail.server.store.search_writing import renew, renew_incidents, renew_nodes, renew_problems, renew_run

_document = tables.search_document.c
_LAST = 2**63 - 1

_FTS_NEWEST = text(
    "SELECT rowid FROM search_words WHERE search_words MATCH :match AND rowid >= :first AND rowid < :last "
    "ORDER BY rowid DESC LIMIT :most"
)
_FTS_RANKED = text(
    "SELECT rowid, -bm25(search_words, 8.0, 1.0, 0.0) FROM search_words WHERE search_words MATCH :match "
    "AND rowid >= :first AND rowid < :last"
)
_TS_NEWEST = """SELECT document_id, {rank} FROM (
    SELECT document_id, words FROM search_document
    WHERE words @@ CAST(:match AS tsquery) AND document_id >= :first AND document_id < :last
    ORDER BY document_id DESC LIMIT :most
) AS newest"""
_TS_RANK = "ts_rank('{0.1, 0.1, 0.1, 1.0}', words, CAST(:ranking AS tsquery))"


class SqlSearchStore:
    """What can be found in one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def hits(self, query: Query, most: int) -> Hits:
        """What a question finds."""
        first = 0 if query.after is None else first_number(query.after)
        last = _LAST if query.before is None else first_number(query.before)
        with engines.answering(), self._read.begin() as connection:
            ask = _sqlite_hits if is_sqlite(connection) else _postgresql_hits
            found = ask(connection, query, first, last, most + 1)
        found.sort(reverse=True)
        return Hits(tuple(found[:most]), len(found) > most)

    def names(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Kind and subject of documents."""
        if not numbers:
            return {}
        wanted = select(_document.document_id, _document.kind, _document.subject)
        with engines.answering(), self._read.begin() as connection:
            rows = connection.execute(wanted.where(_document.document_id.in_(numbers)))
            return {number: (kind, subject) for number, kind, subject in rows}

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
            problems = select(tables.problem_run.c.problem_id).distinct()
            renew_problems(connection, connection.execute(problems).scalars().all(), ledger_of(connection))


def _sqlite_hits(connection: Connection, query: Query, first: int, last: int, most: int) -> list[Hit]:
    match = fts_match(query)
    if match is None:
        return _newest(connection, first, last, most)
    asked = {"match": match, "first": first, "last": last}
    newest = connection.execute(_FTS_NEWEST, {**asked, "most": most}).scalars().all()
    if not newest or not query.terms:
        return [Hit(number, 0.0) for number in newest]
    ranked = connection.execute(_FTS_RANKED, {**asked, "first": newest[-1]})
    return [Hit(number, relevance) for number, relevance in ranked]


def _postgresql_hits(connection: Connection, query: Query, first: int, last: int, most: int) -> list[Hit]:
    match, ranking = ts_query(query), ts_ranking(query)
    if match is None:
        return _newest(connection, first, last, most)
    asked = {"match": match, "first": first, "last": last, "most": most}
    if ranking is not None:
        asked["ranking"] = ranking
    statement = text(_TS_NEWEST.format(rank="0.0" if ranking is None else _TS_RANK))
    return [Hit(number, float(relevance)) for number, relevance in connection.execute(statement, asked)]


def _newest(connection: Connection, first: int, last: int, most: int) -> list[Hit]:
    found = select(_document.document_id).where(_document.document_id >= first, _document.document_id < last)
    rows = connection.execute(found.order_by(_document.document_id.desc()).limit(most)).scalars()
    return [Hit(number, 0.0) for number in rows]


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
