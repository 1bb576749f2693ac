"""Checkpoints in blocks of their own, and documents compressed with Zstandard: every run is derived anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoint_block",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("checkpoint_count", sa.Integer(), nullable=False),
        sa.Column("checkpoints", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "block", name=op.f("pk_checkpoint_block")),
    )
    for derived in ("run_view", "span_block", "step_point_block", "incident", "dirty_run"):
        op.execute(f"DELETE FROM {derived}")
    op.execute(
        "INSERT INTO dirty_run (run_id, ingest, due_at, claimed_until) SELECT run_id, last_ingest, 0, 0 FROM run"
    )


def downgrade() -> None:
    op.drop_table("checkpoint_block")
