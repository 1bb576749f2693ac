"""Migrations: how a database of any age becomes one of this version.

Rules for a file in `versions/`
- It imports nothing of ours, ever: it must still work when the code it was written for is gone.
- It gives the same result on SQLite and on PostgreSQL; `tests/store/test_migrations.py` compares both with the tables.
- It never rewrites the log. New columns of the log are nullable or have a server default.

`schema.py` runs them.
"""
