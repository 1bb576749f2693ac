"""Retention: the log of runs that are over is let go, for good.

Rules
- Only the log of a run that ended, was heard last before the same instant, and whose view has seen every fact of it.
  That is looked at again in the transaction that deletes, with the run's row locked against new facts.
- What is derived stays, and so do the emitters and which of their numbers are held: facts sent again are duplicates.
- The run remembers it (`run.log_gone_before`). From then on it is never due, and `rerail replay` leaves it alone.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Engine, delete, func, select, update

from rerail.server.core.view import RunState
from rerail.server.query_results import ExpiredLog
from rerail.server.store import tables
from rerail.server.store.append import key_of

_run, _view, _segment = tables.run.c, tables.run_view.c, tables.fact_segment.c


def _is_over(ended_before: int) -> tuple[ColumnElement[bool], ...]:
    return (
        _view.state == RunState.ENDED.value,
        _view.error.is_(None),
        _view.ended_at < ended_before,
        _run.last_received_at < ended_before,
        _view.upto_ingest == _run.last_ingest,
        _run.log_gone_before.is_(None),
    )


_RUNS = tables.run.join(tables.run_view, _run.run_id == _view.run_id)


class Retention:
    """Lets logs of one database go."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def expired(self, ended_before: int) -> tuple[ExpiredLog, ...]:
        """See `Store.expired_logs`."""
        sums = (
            select(
                _segment.run_id,
                func.sum(_segment.fact_count).label("facts"),
                func.sum(func.length(_segment.lines)).label("bytes"),
            )
            .where(_segment.run_id.in_(select(_run.run_id).select_from(_RUNS).where(*_is_over(ended_before))))
            .group_by(_segment.run_id)
            .subquery()
        )
        with self._engine.begin() as connection:
            found = connection.execute(
                select(_view.run, _view.ended_at, sums.c.facts, sums.c.bytes)
                .join_from(tables.run_view, sums, _view.run_id == sums.c.run_id)
                .order_by(_view.ended_at, _view.run)
            ).all()
        return tuple(ExpiredLog(row.run, row.ended_at, int(row.facts), int(row.bytes)) for row in found)

    def let_go(self, run: str, ended_before: int) -> bool:
        """See `Store.let_log_go`."""
        run_id = key_of(run)
        with self._engine.begin() as connection:
            locked = connection.execute(select(_run.run_id).where(_run.run_id == run_id).with_for_update())
            if locked.one_or_none() is None:
                return False
            last_at = connection.execute(
                select(func.max(_segment.last_at))
                .select_from(_RUNS.join(tables.fact_segment, _segment.run_id == _run.run_id))
                .where(_run.run_id == run_id, *_is_over(ended_before))
            ).scalar_one()
            if last_at is None:
                return False
            connection.execute(update(tables.run).where(_run.run_id == run_id).values(log_gone_before=last_at))
            connection.execute(delete(tables.fact_segment).where(_segment.run_id == run_id))
            connection.execute(delete(tables.dirty_run).where(tables.dirty_run.c.run_id == run_id))
        return True
