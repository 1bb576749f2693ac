"""Fields in the search index of PostgreSQL begin with `=`: `rank` that goes on found every document with a rank.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

FIELDS = "cause|node|rank|run|status|kind"


def upgrade() -> None:
    """Rename the words of fields in place; nothing needs to be derived anew. SQLite keeps fields in a column."""
    _rename(f"(^| )''({FIELDS})=", r"\1''=\2=")


def downgrade() -> None:
    """As they were."""
    _rename(f"(^| )''=({FIELDS})=", r"\1''\2=")


def _rename(pattern: str, replacement: str) -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    renamed = f"regexp_replace(words::text, '{pattern}', '{replacement}', 'g')::tsvector"
    op.execute(sa.text(f"UPDATE search_document SET words = {renamed} WHERE words IS NOT NULL"))
