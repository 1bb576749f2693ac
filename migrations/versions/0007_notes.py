"""Notes with their revisions, notes told by facts, and the index of what can be found; every run is derived anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "note",
        sa.Column("note_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("subject_kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=True),
        sa.Column("end_at", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("is_deleted", sa.Boolean(), nullable=False),
        sa.Column("written_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("note_id", name=op.f("pk_note")),
    )
    op.create_index(op.f("ix_note_subject_kind_subject"), "note", ["subject_kind", "subject"])
    op.create_table(
        "note_revision",
        sa.Column("note_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("is_deleted", sa.Boolean(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("restores", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("note_id", "revision", name=op.f("pk_note_revision")),
    )
    op.create_table(
        "note_mention",
        sa.Column("note_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("note_id", "kind", "name", name=op.f("pk_note_mention")),
    )
    op.create_index(op.f("ix_note_mention_kind_name"), "note_mention", ["kind", "name"])
    op.create_table(
        "told_note",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("emitter_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("emitter", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "emitter_id", "seq", name=op.f("pk_told_note")),
    )
    op.create_index(op.f("ix_told_note_run_id_at"), "told_note", ["run_id", "at"])
    op.create_table(
        "search_document",
        sa.Column("document_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=True),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("words", postgresql.TSVECTOR().with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("document_id", name=op.f("pk_search_document")),
    )
    op.create_index(op.f("ix_search_document_kind_subject"), "search_document", ["kind", "subject"])
    op.create_index(op.f("ix_search_document_run_id"), "search_document", ["run_id"])
    op.create_index(op.f("ix_search_document_words"), "search_document", ["words"], postgresql_using="gin")
    if op.get_bind().dialect.name == "sqlite":
        # What is put in is made of letters and digits already (core/search/words.py), so that nothing is divided here.
        op.execute(
            "CREATE VIRTUAL TABLE search_words "
            "USING fts5(title, body, fields, tokenize = 'unicode61 remove_diacritics 0')"
        )
    op.execute(
        "INSERT INTO dirty_run (run_id, ingest, due_at, claimed_until) SELECT run_id, last_ingest, 0, 0 FROM run "
        "WHERE log_gone_before IS NULL AND run_id NOT IN (SELECT run_id FROM dirty_run)"
    )
    op.execute("UPDATE dirty_run SET due_at = 0")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE search_words")
    for table in ("search_document", "told_note", "note_mention", "note_revision", "note"):
        op.drop_table(table)
