"""Search over many documents, on SQLite and, where one is named, PostgreSQL.

    python bench/search.py [documents] [postgresql://…]

Made up: notes, incidents and fault traces in English and Korean over two years, written as a projector and people write
them. Medians by the clock of several askings of `Queries.search.find`, snippets included; the first is not counted.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import text

from rerail.server.core.search.documents import Document
from rerail.server.preparing import upgrade_database
from rerail.server.queries import Queries
from rerail.server.store import engines, open_store
from rerail.server.store.search_writing import renew

END = 1_790_000_000 * 10**9
DAY = 86_400 * 10**9
TRIES = 9
ENGLISH = [
    "watchdog",
    "caught",
    "collective",
    "operation",
    "timeout",
    "rank",
    "heartbeat",
    "checkpoint",
    "save",
    "load",
    "storage",
    "link",
    "flapped",
    "driver",
    "memory",
    "allocation",
    "kernel",
    "bus",
    "fallen",
    "node",
    "drained",
    "replaced",
    "transceiver",
    "switch",
    "loader",
    "worker",
    "killed",
    "signal",
    "loss",
    "nan",
    "gradient",
    "restart",
    "rendezvous",
    "barrier",
    "closed",
    "connection",
    "reset",
    "peer",
    "segment",
    "fault",
    "assertion",
    "failed",
    "retry",
    "budget",
]
KOREAN = [
    "체크포인트를",
    "저장하는",
    "동안",
    "학습이",
    "멈췄다",
    "노드를",
    "교체했다",
    "복구에",
    "실패했다",
    "통신",
    "시간이",
    "초과되었다",
    "메모리가",
    "부족하다",
    "드라이버를",
    "올렸다",
    "재시작",
    "후에",
    "정상이다",
    "스위치가",
    "고장났다",
    "전압이",
    "낮았다",
    "데이터를",
    "읽지",
    "못했다",
    "원인은",
    "아직",
    "모른다",
]
CAUSES = ("hang", "gpu_oom", "sigkill", "node_lost", "user_exception", "network")
QUESTIONS = (
    ("a rare word", "zebrafish"),
    ("two words", "watchdog transceiver"),
    ("a word in most documents", "rank"),
    ("beginning of a word", "check"),
    ("a phrase", '"watchdog caught"'),
    ("Korean", "체크포인트"),
    ("two syllables", "학습"),
    ("one syllable", "습"),
    ("two Korean words", "전압이 낮았다"),
    ("a field", "cause:hang"),
    ("field, word, without", "node:gpu-0017 timeout -kind:note"),
    ("a week", "after:2026-09-10 before:2026-09-17 driver"),
    ("only a time", "after:2026-09-10"),
)


def document(number: int, chance: random.Random) -> Document:
    """One of them."""
    words = KOREAN if number % 3 == 0 else ENGLISH
    body = " ".join(chance.choice(words) for _ in range(chance.randrange(20, 120)))
    if number % 5:
        body += f" rank {chance.randrange(512)}"
    if number % 20_000 == 7:
        body += " zebrafish"
    kind = ("note", "incident", "trace")[number % 3]
    cause, node = chance.choice(CAUSES), f"gpu-{chance.randrange(2000):04d}"
    at = END - round(chance.random() * 730 * DAY)
    fields = (("cause", cause), ("node", node), ("rank", str(chance.randrange(512))))
    return Document(kind, f"run{number // 100}~{number}", at, f"{cause}: run{number // 100}~{number}", body,
                    f"run{number // 100}", "recovered", fields)  # fmt: skip


def measure(database_url: str, count: int) -> None:
    """Fill one database and ask it."""
    upgrade_database(database_url)
    engine = engines.write_engine(engines.normalised(database_url))
    chance = random.Random(7)
    began = time.perf_counter()
    for first in range(0, count, 2000):
        made = [document(number, chance) for number in range(first, min(count, first + 2000))]
        with engine.begin() as connection:
            renew(connection, [text("1 = 0")], made)
    took = time.perf_counter() - began
    print(f"\n{engine.dialect.name}: {count} documents in {took:.1f} s, {took / count * 1e6:.0f} µs each")
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE search_document"))
    engine.dispose()
    store = open_store(database_url)
    search = Queries(store, lambda: END).search
    for name, question in QUESTIONS:
        lengths, used = [], []
        for _ in range(TRIES + 1):
            began, spent = time.perf_counter(), time.process_time()
            page = search.find(question)
            used.append((time.process_time() - spent) * 1000)
            lengths.append((time.perf_counter() - began) * 1000)
        shown = f"{page.total}{'+' if page.is_cut else ''}"
        here = f"{statistics.median(lengths[1:]):7.1f} ms, {statistics.median(used[1:]):6.1f} ms of CPU here"
        print(f"  {name:<26} {here}  {shown:>6} found", flush=True)
    store.close()


def main() -> None:
    """SQLite in a folder that goes away, then the database named."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="rerail-bench-") as folder:
        path = Path(folder) / "rerail.sqlite3"
        measure(f"sqlite:///{path}", count)
        print(f"  on the disk                {path.stat().st_size / 1e6:7.1f} MB")
    if len(sys.argv) > 2:
        measure(sys.argv[2], count)


if __name__ == "__main__":
    main()
