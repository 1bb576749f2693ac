"""What an alert rests on by now, so that resolving it covers what it grew to since it fired.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Not known of alerts that are there: the next look at their run tells."""
    op.add_column("alert", sa.Column("mark", sa.Text(), nullable=True))


def downgrade() -> None:
    """As it was."""
    op.drop_column("alert", "mark")
