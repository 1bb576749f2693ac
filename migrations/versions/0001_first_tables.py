"""The first tables: log, refusals, derived views and the queue of due runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "change_counter",
        sa.Column("counter_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("counter_id", name=op.f("pk_change_counter")),
    )
    op.create_table(
        "dirty_run",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ingest", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_dirty_run")),
    )
    op.create_index(op.f("ix_dirty_run_due_at"), "dirty_run", ["due_at"], unique=False)
    op.create_table(
        "emitter",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("emitter_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("emitter", sa.Text(), nullable=False),
        sa.Column("highest_seq", sa.BigInteger(), nullable=True),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("duplicate", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=True),
        sa.Column("last_received_at", sa.BigInteger(), nullable=False),
        sa.Column("least_delay_ns", sa.BigInteger(), nullable=True),
        sa.Column("clock_offset_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "emitter_id", name=op.f("pk_emitter")),
    )
    op.create_table(
        "held_numbers",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("emitter_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("chunk", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("held", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "emitter_id", "chunk", name=op.f("pk_held_numbers")),
    )
    op.create_table(
        "fact_segment",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ingest", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("part", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("fact_count", sa.Integer(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "ingest", "part", name=op.f("pk_fact_segment")),
    )
    op.create_table(
        "incident",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("incident_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("is_planned", sa.Boolean(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "incident_id", name=op.f("pk_incident")),
    )
    op.create_index(op.f("ix_incident_incident_id"), "incident", ["incident_id"], unique=False)
    op.create_index(op.f("ix_incident_started_at"), "incident", ["started_at"], unique=False)
    op.create_table(
        "refused_count",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "day", name=op.f("pk_refused_count")),
    )
    op.create_table(
        "refused_row",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Text(), nullable=True),
        sa.Column("emitter", sa.Text(), nullable=True),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "day", "position", name=op.f("pk_refused_row")),
    )
    op.create_index(op.f("ix_refused_row_received_at"), "refused_row", ["received_at"], unique=False)
    op.create_table(
        "run",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("first_received_at", sa.BigInteger(), nullable=False),
        sa.Column("last_received_at", sa.BigInteger(), nullable=False),
        sa.Column("last_ingest", sa.BigInteger(), nullable=False),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("duplicate", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run")),
    )
    op.create_table(
        "run_view",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("upto_ingest", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("as_of", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("search_text", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("current_phase", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("last_heard_at", sa.BigInteger(), nullable=True),
        sa.Column("silent_since", sa.BigInteger(), nullable=True),
        sa.Column("elapsed_ns", sa.BigInteger(), nullable=False),
        sa.Column("productive_ns", sa.BigInteger(), nullable=False),
        sa.Column("faults_ns", sa.BigInteger(), nullable=False),
        sa.Column("training_goodput", sa.Double(), nullable=True),
        sa.Column("infrastructure_goodput", sa.Double(), nullable=True),
        sa.Column("gpus", sa.BigInteger(), nullable=True),
        sa.Column("lost_gpu_ns", sa.Double(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("interruptions", sa.BigInteger(), nullable=False),
        sa.Column("incidents", sa.BigInteger(), nullable=False),
        sa.Column("recover_p50_ns", sa.BigInteger(), nullable=True),
        sa.Column("recover_max_ns", sa.BigInteger(), nullable=True),
        sa.Column("high_water_step", sa.BigInteger(), nullable=True),
        sa.Column("current_step", sa.BigInteger(), nullable=True),
        sa.Column("target_step", sa.BigInteger(), nullable=True),
        sa.Column("checkpoint_age_ns", sa.BigInteger(), nullable=True),
        sa.Column("newest_durable_step", sa.BigInteger(), nullable=True),
        sa.Column("steps_at_risk", sa.BigInteger(), nullable=True),
        sa.Column("row", sa.LargeBinary(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_view")),
    )
    op.create_index(op.f("ix_run_view_last_heard_at"), "run_view", ["last_heard_at"], unique=False)
    op.create_index(op.f("ix_run_view_revision"), "run_view", ["revision"], unique=False)
    op.create_table(
        "span_block",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("span_count", sa.Integer(), nullable=False),
        sa.Column("spans", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "block", name=op.f("pk_span_block")),
    )
    op.create_table(
        "step_point_block",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("block", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("point_count", sa.Integer(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "block", name=op.f("pk_step_point_block")),
    )


def downgrade() -> None:
    op.drop_table("step_point_block")
    op.drop_table("span_block")
    op.drop_index(op.f("ix_run_view_revision"), table_name="run_view")
    op.drop_index(op.f("ix_run_view_last_heard_at"), table_name="run_view")
    op.drop_table("run_view")
    op.drop_table("run")
    op.drop_index(op.f("ix_refused_row_received_at"), table_name="refused_row")
    op.drop_table("refused_row")
    op.drop_table("refused_count")
    op.drop_index(op.f("ix_incident_started_at"), table_name="incident")
    op.drop_index(op.f("ix_incident_incident_id"), table_name="incident")
    op.drop_table("incident")
    op.drop_table("fact_segment")
    op.drop_table("emitter")
    op.drop_index(op.f("ix_dirty_run_due_at"), table_name="dirty_run")
    op.drop_table("dirty_run")
    op.drop_table("change_counter")
