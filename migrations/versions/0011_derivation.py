"""Which rules views are derived by: runs that are over are derived again, slowly, where a new version has others.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One row, once a server of this version has started."""
    op.create_table(
        "derivation",
        sa.Column("derivation_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("derivation_id", name=op.f("pk_derivation")),
    )


def downgrade() -> None:
    """As it was."""
    op.drop_table("derivation")
