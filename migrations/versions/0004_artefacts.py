"""Artefacts: files that people give to an incident, kept beside the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artefact",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("incident_id", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "sha256", name=op.f("pk_artefact")),
    )
    op.create_index(op.f("ix_artefact_sha256"), "artefact", ["sha256"])
    op.create_index(op.f("ix_artefact_incident_id"), "artefact", ["incident_id"])


def downgrade() -> None:
    op.drop_table("artefact")
