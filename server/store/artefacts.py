"""Artefacts in the database: what people gave, whole and compressed, beside the log.

Rules
- A file is known by its SHA-256 within its run; giving it again changes nothing that is kept.
- What was understood of it is kept as it was told to who gave it. Whether it counts is said by facts, not here.
- Lists never read the contents.
"""

from __future__ import annotations

from collections.abc import Sequence

import zstandard
from sqlalchemy import Connection, Engine, select, update

from rerail.server.query_results import ArtefactRow
from rerail.server.store import documents, tables
from rerail.server.store.append import key_of, upsert

_artefact = tables.artefact.c


def _keep(connection: Connection, row: ArtefactRow, packed: bytes) -> bool:
    kept = connection.execute(
        upsert(connection, tables.artefact)
        .values(
            run_id=key_of(row.run_id), sha256=row.sha256, incident_id=row.incident_id, received_at=row.received_at,
            size=row.size, document=documents.document(row), content=packed,
        )
        .on_conflict_do_nothing()
        .returning(_artefact.sha256)
    ).one_or_none()  # fmt: skip
    return kept is not None


class ArtefactShelf:
    """Files of one database."""

    def __init__(self, write: Engine, read: Engine) -> None:
        self._write = write
        self._read = read

    def keep(self, given: Sequence[tuple[ArtefactRow, bytes]]) -> list[bool]:
        """See `Store.keep_artefacts`."""
        compressor = zstandard.ZstdCompressor(level=3)
        packed = [(row, compressor.compress(content)) for row, content in given]
        with self._write.begin() as connection:
            return [_keep(connection, row, content) for row, content in packed]

    def renew(self, row: ArtefactRow) -> None:
        """See `Store.renew_artefact`."""
        with self._write.begin() as connection:
            connection.execute(
                update(tables.artefact)
                .where(_artefact.run_id == key_of(row.run_id), _artefact.sha256 == row.sha256)
                .values(document=documents.document(row))
            )

    def of_run(self, run: str, incident_id: str | None = None) -> tuple[ArtefactRow, ...]:
        """See `Store.artefacts`."""
        wanted = [_artefact.run_id == key_of(run)]
        if incident_id is not None:
            wanted.append(_artefact.incident_id == incident_id)
        with self._read.begin() as connection:
            found = connection.execute(
                select(_artefact.document).where(*wanted).order_by(_artefact.received_at, _artefact.sha256)
            ).scalars()
            return tuple(documents.read_document(ArtefactRow, packed) for packed in found)

    def content(self, sha256: str) -> tuple[ArtefactRow, bytes] | None:
        """See `Store.artefact_content`."""
        with self._read.begin() as connection:
            found = connection.execute(
                select(_artefact.document, _artefact.content)
                .where(_artefact.sha256 == sha256)
                .order_by(_artefact.run_id)
                .limit(1)
            ).one_or_none()
        if found is None:
            return None
        row = documents.read_document(ArtefactRow, found.document)
        return row, zstandard.ZstdDecompressor().decompress(found.content, max_output_size=max(1, row.size))
