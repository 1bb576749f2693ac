"""Alembic's entry: takes the connection that `schema.py` gives it."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
target_metadata = context.config.attributes.get("metadata")
context.configure(connection=connection, target_metadata=target_metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
