"""Sums over the incidents of a period from an index alone: rows of incidents hold whole documents.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COLUMNS = ["started_at", "counts", "cause", "scope", "lost_gpu_ms", "ended_at", "recover_ns"]


def upgrade() -> None:
    """The longer index does what the shorter did."""
    op.create_index("ix_incident_sums", "incident", COLUMNS)
    op.drop_index("ix_incident_started_at", table_name="incident")


def downgrade() -> None:
    """As it was."""
    op.create_index("ix_incident_started_at", "incident", ["started_at"])
    op.drop_index("ix_incident_sums", table_name="incident")
