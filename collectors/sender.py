"""Sender: empties the spool into an outlet.

Rules
- A batch leaves the spool only after it was answered for. Refused lines are kept in `refused.jsonl` with the reason.
- Nobody answers: wait, twice as long each time up to a limit, a random part of it; a wait the server asks for is kept.
- Too large: half the batch. One line that is too large alone is refused.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rerail.collectors.outlet import BatchRefused, BatchTooLarge, ClockReading, Delivery, Outlet, OutletDown, Refusal
from rerail.collectors.spool import Row, Spool, SpoolFull

log = logging.getLogger("rerail.sender")

MOST_LINES = 2000
MOST_BYTES = 2 * 1024 * 1024
SHORTEST_WAIT, LONGEST_WAIT = 0.5, 30.0
MOST_REFUSED_BYTES = 32 * 1024 * 1024


class Sender:
    """Sends what is in a spool. `run` in one thread; `send_once` for whoever wants to step it."""

    def __init__(
        self,
        spool: Spool,
        outlet: Outlet,
        refused: Path,
        *,
        on_clock: Callable[[ClockReading], None] = lambda _: None,
        chance: random.Random | None = None,
    ) -> None:
        self._spool = spool
        self._outlet = outlet
        self._refused = refused
        self._on_clock = on_clock
        self._chance = chance or random.Random()
        self._most_lines = MOST_LINES
        self._failures = 0
        self.sent = 0
        self.refused = 0
        self.last_trouble: str | None = None

    def run(self, stop: threading.Event, pause: float = 0.1) -> None:
        """Send until told to stop."""
        while not stop.is_set():
            try:
                wait = self.send_once()
            except SpoolFull as error:
                log.warning("the spool cannot be written: %s", error)
                wait = LONGEST_WAIT
            stop.wait(pause if wait is None else wait)

    def drain(self, seconds: float) -> bool:
        """Send until nothing waits. False: the time was over first."""
        deadline = time.monotonic() + seconds
        while self._spool.waiting():
            wait = self.send_once()
            if time.monotonic() > deadline:
                return False
            time.sleep(min(wait or 0.0, max(0.0, deadline - time.monotonic())))
        return True

    def send_once(self) -> float | None:
        """Send one batch. Gives how long to wait before the next; None where nothing waits."""
        rows = self._spool.batch(self._most_lines, MOST_BYTES)
        if not rows:
            return None
        try:
            delivery = self._outlet.deliver([row.line for row in rows])
        except OutletDown as trouble:
            return self._back_off(trouble)
        except (BatchTooLarge, BatchRefused) as trouble:
            if len(rows) > 1:
                self._most_lines = len(rows) // 2
                return 0.0
            delivery = Delivery(0, 0, (Refusal(1, str(trouble)),))
        if self._failures:
            log.info("the server answers again after %d failures", self._failures)
        self._failures = 0
        self.last_trouble = None
        self._keep(rows, delivery.refused)
        self._spool.done(rows)
        self.sent += len(rows)
        self._most_lines = min(MOST_LINES, self._most_lines * 2)
        if delivery.clock is not None:
            self._on_clock(delivery.clock)
        return 0.0

    def _back_off(self, trouble: OutletDown) -> float:
        if str(trouble) != self.last_trouble:
            log.warning("facts are kept on this node: %s", trouble)
        self.last_trouble = str(trouble)
        self._failures += 1
        longest = min(LONGEST_WAIT, SHORTEST_WAIT * 2 ** min(self._failures - 1, 10))
        wait = longest * (0.5 + 0.5 * self._chance.random())
        return wait if trouble.retry_after is None else min(600.0, trouble.retry_after + 0.1 * wait)

    def _keep(self, rows: Sequence[Row], refused: Sequence[Refusal]) -> None:
        if not refused:
            return
        self.refused += len(refused)
        log.warning("the server refused %d facts, the first: %s", len(refused), refused[0].said)
        try:
            if self._refused.exists() and self._refused.stat().st_size > MOST_REFUSED_BYTES:
                self._refused.replace(self._refused.with_suffix(".older.jsonl"))
            with self._refused.open("a", encoding="utf-8") as file:
                for refusal in refused:
                    line = rows[refusal.line - 1].line.decode("utf-8", "replace").strip()
                    file.write(json.dumps({"said": refusal.said, "fact": line}, ensure_ascii=False) + "\n")
        except OSError as error:
            log.warning("refused facts could not be kept: %s", error)
