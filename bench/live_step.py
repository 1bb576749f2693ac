"""From one more step's arrival to the saved view, the database included.

    python bench/live_step.py

A run of a million steps lies in an SQLite file (synchronous=FULL). Then steps come one by one: decoded, appended to the
log, read back, folded, and the view, its spans and its step points saved, by the same code the server runs. The peer in
the same run is a projector that has nothing in memory: it reads the whole log and folds it anew.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from fold import history, one_more

from rerail.server.core.codec import encode_lines
from rerail.server.decoding import decode_facts
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import open_store

BATCH = 1500


def measure(steps: int, faults: int, save_every: int) -> None:
    """Print one row."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/bench.sqlite3"
        prepare_database(url)
        store = open_store(url)
        facts = list(history(steps, faults, save_every))
        now = max(fact.at for fact in facts) + 10**9

        def clock() -> int:
            return now

        for first in range(0, len(facts), BATCH):
            store.append((decode_facts(encode_lines(facts[first : first + BATCH]), now).batch,))
        projector = Projector(store, clock)
        began = time.perf_counter()
        projector.derive_due()
        cold = time.perf_counter() - began
        queries = Queries(store, clock)
        current = queries.run("bench").current_step or 0
        taking, reading = [], []
        for number in range(30):
            step = one_more(facts, number, current + number)
            now += 2 * 10**9
            body = encode_lines([step])
            began = time.perf_counter()
            store.append((decode_facts(body, now).batch,))
            projector.derive_due()
            taking.append(time.perf_counter() - began)
            began = time.perf_counter()
            view = queries.run("bench")
            reading.append(time.perf_counter() - began)
        assert view.current_step == current + 30, view.current_step
        store.close()  # the last connection moves what the write-ahead log holds into the file
        size = Path(f"{folder}/bench.sqlite3").stat().st_size / 1e6
        print(
            f"{steps:>9,} {faults:>6} {save_every:>10,} {cold:>8.2f} {statistics.median(taking) * 1e3:>10.1f}"
            f" {max(taking) * 1e3:>8.1f} {statistics.median(reading) * 1e3:>9.1f} {size:>8.1f}"
        )


if __name__ == "__main__":
    print("    steps faults save every  cold, s  +1 step, ms   max, ms  read, ms  disk, MB")
    for size, fault_count, interval in ((10_000, 10, 100), (100_000, 10, 1000), (1_000_000, 10, 1000)):
        measure(size, fault_count, interval)
