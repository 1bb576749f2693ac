"""Search writing: keeps the index of what can be found beside what it is derived of, in the same transaction.

Rules
- Whoever writes holds the lock of the change counter, so that two never write the same document.
- Only what differs is written: a document is known by kind, subject and part, and compared by a digest.
- A problem's and a node's document are made anew of everything that is saved of them; runs only say which changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select

from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.problems import ActionKind, Ledger, ProblemAction
from rerail.server.core.search.documents import (
    Document,
    ProblemTold,
    incident_documents,
    node_document,
    problem_document,
)
from rerail.server.core.view import Incident
from rerail.server.store import documents, tables
from rerail.server.store.append import keepable, key_of
from rerail.server.store.problem_writing import pairs_of
from rerail.server.store.search_words import DELETE_FTS, INSERT_FTS, fts_row, is_sqlite, number_of, ts_vector

_document = tables.search_document.c
_DELETE = delete(tables.search_document).where(_document.document_id == bindparam("rowid"))
_AT_ONCE = 400
MOST_NODES = 50

_PLACING = {ActionKind.MERGE, ActionKind.SPLIT, ActionKind.MOVE, ActionKind.UNDO}


def renew(connection: Connection, where: Sequence[ColumnElement[bool]], wanted: Iterable[Document]) -> None:
    """Let `wanted` be the only documents among the rows that `where` selects."""
    present = {
        (kind, subject, part): (number, digest)
        for number, kind, subject, part, digest in connection.execute(
            select(
                _document.document_id, _document.kind, _document.subject, _document.part, _document.digest
            ).where(*where)
        )
    }  # fmt: skip
    rows: dict[int, tuple[dict[str, object], Document]] = {}
    for one in wanted:
        for part, body in enumerate(one.parts()):
            key = (one.kind, keepable(one.subject), part)
            digest = _digest(one, body)
            if present.get(key, (0, b""))[1] == digest:
                del present[key]
                continue
            number = number_of(one.at, f"{one.kind}\n{one.subject}\n{part}")
            while number in rows:
                number += 1
            rows[number] = (_row(one, part, body, digest), one)
    forget(connection, [number for number, _ in present.values()])
    _add(connection, rows)


def forget(connection: Connection, numbers: Sequence[int]) -> None:
    """Take documents out."""
    if not numbers:
        return
    gone = [{"rowid": number} for number in numbers]
    if is_sqlite(connection):
        connection.execute(DELETE_FTS, gone)
    connection.execute(_DELETE, gone)


def _add(connection: Connection, rows: dict[int, tuple[dict[str, object], Document]]) -> None:
    if not rows:
        return
    taken: set[int] = set()
    numbers = sorted(rows)
    for first in range(0, len(numbers), _AT_ONCE):
        some = numbers[first : first + _AT_ONCE]
        taken.update(connection.execute(select(_document.document_id).where(_document.document_id.in_(some))).scalars())
    placed: dict[int, tuple[dict[str, object], Document]] = {}
    for number, entry in rows.items():
        free = number
        while free in taken or free in placed or (free != number and (free in rows or _is_taken(connection, free))):
            free += 1
        placed[free] = entry
    is_beside = is_sqlite(connection)
    connection.execute(
        insert(tables.search_document),
        [
            {
                **row,
                "document_id": number,
                "words": None if is_beside else ts_vector(str(row["title"]), str(row["body"]), one.filters()),
            }
            for number, (row, one) in placed.items()
        ],
    )
    if is_beside:
        connection.execute(
            INSERT_FTS,
            [
                fts_row(number, str(row["title"]), str(row["body"]), one.filters())
                for number, (row, one) in placed.items()
            ],
        )


def _is_taken(connection: Connection, number: int) -> bool:
    found = connection.execute(select(_document.document_id).where(_document.document_id == number)).one_or_none()
    return found is not None


def _row(one: Document, part: int, body: str, digest: bytes) -> dict[str, object]:
    return {
        "kind": one.kind,
        "subject": keepable(one.subject),
        "part": part,
        "run_id": None if one.run is None or one.kind == "note" else key_of(one.run),
        "run": None if one.run is None else keepable(one.run),
        "at": one.at,
        "status": one.status,
        "title": keepable(one.title)[:500],
        "body": keepable(body),
        "digest": digest,
    }


def _digest(one: Document, body: str) -> bytes:
    told = repr((one.at, one.title, one.status, one.run, one.filters(), body))
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=12).digest()


# --- of what is saved -------------------------------------------------------------------------------------------------


def renew_incidents(
    connection: Connection, run_id: int, incidents: Iterable[Incident], touched: Collection[str] | None
) -> None:
    """Documents of a run's incidents; `touched` are ids of those that changed or went, None means all."""
    where: list[ColumnElement[bool]] = [_document.run_id == run_id, _document.kind.in_(("incident", "trace"))]
    if touched is not None:
        if len(touched) > _AT_ONCE:
            touched = None
        else:
            where.append(_document.subject.in_([keepable(each) for each in touched]))
    wanted = (one for one in incidents if touched is None or one.incident_id in touched)
    renew(connection, where, (made for one in wanted for made in incident_documents(one)))


def renew_run(connection: Connection, run_id: int, document: Document) -> None:
    """The document of a run."""
    renew(connection, [_document.run_id == run_id, _document.kind == "run"], [document])


def renew_nodes(connection: Connection, nodes: Iterable[str]) -> None:
    """Documents of nodes, out of what every run says of them."""
    columns = tables.node_run.c
    names = sorted(set(nodes))
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        told: dict[str, list[NodeHistory]] = {}
        found = select(columns.node, columns.document).where(columns.node.in_(some), columns.is_gone.is_(False))
        for node, packed in connection.execute(found):
            told.setdefault(node, []).append(documents.read_document(NodeHistory, packed))
        where = [_document.kind == "node", _document.subject.in_(some)]
        renew(connection, where, (node_document(node, histories) for node, histories in told.items()))


def renew_problems(connection: Connection, problems: Iterable[str], ledger: Ledger) -> None:
    """Documents of problems, out of the sums of all runs and of what people did."""
    names = sorted(set(problems))
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        where = [_document.kind == "problem", _document.subject.in_(some)]
        renew(connection, where, (problem_document(each) for each in _problems_told(connection, some, ledger)))


def _problems_told(connection: Connection, names: Sequence[str], ledger: Ledger) -> Iterable[ProblemTold]:
    shares, made = tables.problem_run.c, tables.fingerprint.c
    told: dict[str, tuple[int, str]] = {}
    found = select(shares.problem_id, shares.last_at, shares.fingerprint)
    for problem, last_at, fingerprint in connection.execute(
        found.where(shares.problem_id.in_(names), shares.incidents > 0)
    ):
        told[problem] = max(told.get(problem, (0, "")), (last_at, fingerprint))
    wanted = {fingerprint for _, fingerprint in told.values()} | set(names)
    known = {
        row.fingerprint: row
        for row in connection.execute(select(tables.fingerprint).where(made.fingerprint.in_(wanted)))
    }
    for problem, (last_at, fingerprint) in told.items():
        row = known.get(problem) or known.get(fingerprint)
        standing = ledger.standing(problem)
        yield ProblemTold(
            problem=problem,
            title=standing.title or (problem if row is None else row.title) + _split_words(problem, ledger),
            cause="unknown" if row is None else row.cause,
            status=standing.status(last_at).value,
            last_at=last_at,
            parts=() if row is None else pairs_of(row.parts),
            words=[each for action in ledger.history(problem) for each in _said(action)],
        )


def _split_words(problem: str, ledger: Ledger) -> str:
    for action in ledger.placing:
        if action.made == problem:
            return ", by hand" if action.facet is None else f" on {action.facet} {action.value}"
    return ""


def _said(action: ProblemAction) -> Iterable[str]:
    return (each for each in (action.reason, action.fixed_by, action.title, action.author, action.assignee) if each)


def problems_touched(action: ProblemAction, connection: Connection) -> list[str]:
    """Problems whose documents an action may change: those it names, and for an undo or a move all of them."""
    if action.kind in _PLACING:
        return list(connection.execute(select(tables.problem_run.c.problem_id).distinct()).scalars())
    return [action.problem]
