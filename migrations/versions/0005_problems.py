"""Problems: fingerprints of incidents, what people did with problems, and nodes; every run is derived anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = (
    ("fingerprint", sa.Text()),
    ("problem_id", sa.Text()),
    ("counts", sa.Boolean()),
    ("domain", sa.Text()),
    ("scope", sa.Text()),
    ("culprit_node", sa.Text()),
    ("culprit_rank", sa.BigInteger()),
    ("exception", sa.Text()),
    ("frame", sa.Text()),
    ("xid", sa.Text()),
    ("step", sa.BigInteger()),
    ("facets", sa.Text()),
    ("restart_ns", sa.BigInteger()),
    ("recover_ns", sa.BigInteger()),
    ("lost_steps", sa.BigInteger()),
    ("lost_ns", sa.BigInteger()),
    ("lost_gpu_ms", sa.BigInteger()),
)

INDEXES = (
    ("problem_id", "started_at"),
    ("fingerprint", "started_at"),
    ("culprit_node", "started_at"),
    ("exception", "started_at"),
    ("xid", "started_at"),
    ("step",),
)


def upgrade() -> None:
    # Unknown until a run is derived again. Those whose log was let go keep what they have, and it stays unknown.
    for name, kind in COLUMNS:
        op.add_column("incident", sa.Column(name, kind, nullable=True))
    for columns in INDEXES:
        op.create_index(op.f(f"ix_incident_{'_'.join(columns)}"), "incident", list(columns))
    op.create_table(
        "problem_run",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("problem_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("incidents", sa.BigInteger(), nullable=False),
        sa.Column("still_open", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("restart_ns", sa.BigInteger(), nullable=False),
        sa.Column("recover_ns", sa.BigInteger(), nullable=False),
        sa.Column("lost_ns", sa.BigInteger(), nullable=False),
        sa.Column("lost_gpu_ms", sa.BigInteger(), nullable=False),
        sa.Column("cost_unknown", sa.BigInteger(), nullable=False),
        sa.Column("spread", sa.LargeBinary(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "problem_id", name=op.f("pk_problem_run")),
    )
    op.create_index(op.f("ix_problem_run_revision"), "problem_run", ["revision"])
    op.create_table(
        "node_run",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("is_exposure_known", sa.Boolean(), nullable=False),
        sa.Column("held_ns", sa.BigInteger(), nullable=False),
        sa.Column("open_since", sa.BigInteger(), nullable=True),
        sa.Column("blamed", sa.BigInteger(), nullable=False),
        sa.Column("xids", sa.BigInteger(), nullable=False),
        sa.Column("is_gone", sa.Boolean(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "node", name=op.f("pk_node_run")),
    )
    op.create_index(op.f("ix_node_run_node"), "node_run", ["node"])
    op.create_index(op.f("ix_node_run_revision"), "node_run", ["revision"])
    op.create_table(
        "fingerprint",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("parts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_fingerprint")),
    )
    op.create_table(
        "problem_action",
        sa.Column("action_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("said", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("action_id", name=op.f("pk_problem_action")),
    )
    op.execute(
        "INSERT INTO dirty_run (run_id, ingest, due_at, claimed_until) SELECT run_id, last_ingest, 0, 0 FROM run "
        "WHERE log_gone_before IS NULL AND run_id NOT IN (SELECT run_id FROM dirty_run)"
    )
    op.execute("UPDATE dirty_run SET due_at = 0")


def downgrade() -> None:
    for table in ("problem_action", "fingerprint", "node_run", "problem_run"):
        op.drop_table(table)
    for columns in INDEXES:
        op.drop_index(op.f(f"ix_incident_{'_'.join(columns)}"), "incident")
    with op.batch_alter_table("incident") as table:
        for name, _ in COLUMNS:
            table.drop_column(name)
