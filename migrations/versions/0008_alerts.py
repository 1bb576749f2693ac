"""Alerts: their events, thresholds that people changed, channels, and the messages that wait to be delivered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alert",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("alert_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("problem_id", sa.Text(), nullable=True),
        sa.Column("incident_id", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("absent_since", sa.BigInteger(), nullable=True),
        sa.Column("is_firing", sa.Boolean(), nullable=False),
        sa.Column("is_resolved", sa.Boolean(), nullable=False),
        sa.Column("is_acknowledged", sa.Boolean(), nullable=False),
        sa.Column("silenced_until", sa.BigInteger(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "alert_id", name=op.f("pk_alert")),
    )
    op.create_index(op.f("ix_alert_alert_id"), "alert", ["alert_id"])
    op.create_index(op.f("ix_alert_is_resolved_changed_at"), "alert", ["is_resolved", "changed_at"])
    op.create_index(op.f("ix_alert_group_key"), "alert", ["group_key"])
    op.create_table(
        "alert_event",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("alert_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("undoes", sa.BigInteger(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=True),
        sa.Column("mark", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "event_id", name=op.f("pk_alert_event")),
    )
    op.create_index(op.f("ix_alert_event_alert_id"), "alert_event", ["alert_id"])
    op.create_table(
        "alert_round",
        sa.Column("round_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("round_id", name=op.f("pk_alert_round")),
    )
    op.create_table(
        "threshold_change",
        sa.Column("change_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("undoes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("change_id", name=op.f("pk_threshold_change")),
    )
    op.create_table(
        "alert_channel",
        sa.Column("channel_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.Column("is_on", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("channel_id", name=op.f("pk_alert_channel")),
    )
    op.create_table(
        "alert_message",
        sa.Column("message_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("channel_id", sa.BigInteger(), nullable=False),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_until", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_alert_message")),
    )
    op.create_index(op.f("ix_alert_message_state_due_at"), "alert_message", ["state", "due_at"])
    op.create_index(
        op.f("ix_alert_message_channel_id_group_key_created_at"),
        "alert_message",
        ["channel_id", "group_key", "created_at"],
    )


def downgrade() -> None:
    for table in ("alert_message", "alert_channel", "threshold_change", "alert_round", "alert_event", "alert"):
        op.drop_table(table)
