"""Recovery configs: how long runs trained under each, and what people say of changes; every run is derived anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("incident", sa.Column("config", sa.Text(), nullable=True))
    op.add_column("incident", sa.Column("detecting_ns", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_incident_config_started_at"), "incident", ["config", "started_at"])
    op.create_table(
        "config_stretch",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("first_attempt", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_config_stretch")),
    )
    op.create_index(op.f("ix_config_stretch_fingerprint"), "config_stretch", ["fingerprint"])
    op.create_index(op.f("ix_config_stretch_project_name"), "config_stretch", ["project", "name"])
    op.create_table(
        "config_change_action",
        sa.Column("action_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("change_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("changed_by", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("target_kind", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("undoes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("action_id", name=op.f("pk_config_change_action")),
    )
    op.create_index(op.f("ix_config_change_action_change_id"), "config_change_action", ["change_id"])
    op.create_index(op.f("ix_config_change_action_target"), "config_change_action", ["target"])
    op.execute(
        "INSERT INTO dirty_run (run_id, ingest, due_at, claimed_until) SELECT run_id, last_ingest, 0, 0 FROM run "
        "WHERE log_gone_before IS NULL AND run_id NOT IN (SELECT run_id FROM dirty_run)"
    )
    op.execute("UPDATE dirty_run SET due_at = 0")


def downgrade() -> None:
    op.drop_table("config_change_action")
    op.drop_table("config_stretch")
    op.drop_index(op.f("ix_incident_config_started_at"), "incident")
    with op.batch_alter_table("incident") as table:
        table.drop_column("detecting_ns")
        table.drop_column("config")
