"""Rollups, marks of a run for its picture, and runs whose log was let go: every run is derived anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # No run has lost its log before this version, so everything derived can still be made again.
    for derived in ("run_view", "span_block", "step_point_block", "checkpoint_block", "incident", "dirty_run"):
        op.execute(f"DELETE FROM {derived}")
    op.create_table(
        "rollup_block",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("resolution", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("bin_count", sa.Integer(), nullable=False),
        sa.Column("bins", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "resolution", "block", name=op.f("pk_rollup_block")),
    )
    op.create_index(op.f("ix_rollup_block_resolution_end_at"), "rollup_block", ["resolution", "end_at"])
    with op.batch_alter_table("run_view") as table:
        table.add_column(sa.Column("marks", sa.LargeBinary(), nullable=False))
    op.add_column("run", sa.Column("log_gone_before", sa.BigInteger(), nullable=True))
    op.execute(
        "INSERT INTO dirty_run (run_id, ingest, due_at, claimed_until) SELECT run_id, last_ingest, 0, 0 FROM run"
    )


def downgrade() -> None:
    op.drop_column("run", "log_gone_before")
    with op.batch_alter_table("run_view") as table:
        table.drop_column("marks")
    op.drop_table("rollup_block")
