"""The spool keeps what is on its way, within its cap, and never drops an edge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.collectors.spool import Spool, SpoolFull
from rerail.server.core.facts import Evidence, Fact, Heartbeats, Metric

START = 1_800_000_000_000_000_000


def evidence(seq: int, text: str = "x") -> Evidence:
    return Evidence(run="story", emitter="rank/n/0/a", seq=seq, at=START + seq, source="stderr", text=text)


def beat(seq: int) -> Heartbeats:
    at = START + seq * 5_000_000_000
    return Heartbeats(
        run="story", emitter="rank/n/0/b", seq=seq, at=at, start=at - 5_000_000_000, end=at, count=10, max_gap_us=seq,
        phase="training",
    )  # fmt: skip


def lines(spool: Spool) -> list[dict[str, object]]:
    return [json.loads(row.line) for row in spool.batch(10_000, 1 << 30)]


def test_what_is_stored_comes_out_in_order_and_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db")
    spool.store([evidence(0), evidence(1)], {"ring": "2"})
    spool.store([evidence(1), evidence(2)], {"ring": "3"})
    assert [line["seq"] for line in lines(spool)] == [0, 1, 2]
    spool.done(spool.batch(2, 1 << 20))
    spool.close()
    again = Spool(tmp_path / "s.db")
    assert [line["seq"] for line in lines(again)] == [2]
    assert again.cursor("ring") == "3"
    assert again.mark == spool.mark
    again.close()


def test_a_batch_holds_at_least_one_fact(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db")
    spool.store([evidence(0, "y" * 5000), evidence(1)], {})
    assert len(spool.batch(10, 100)) == 1
    spool.close()


def test_over_the_cap_heartbeats_become_longer_windows_first(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db", most_bytes=20_000)
    facts: list[Fact] = [beat(seq) for seq in range(1, 101)]
    spool.store([*facts, evidence(0)], {})
    assert not spool.has_room
    assert spool.relieve() == 0
    assert spool.has_room
    kept, edge = lines(spool)
    assert (kept["kind"], kept["count"], kept["max_gap_us"], kept["seq"]) == ("heartbeats", 1000, 100, 100)
    assert kept["start"] == START
    assert edge["kind"] == "evidence"
    spool.close()


def test_what_was_tried_is_never_changed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db", most_bytes=20_000)
    spool.store([beat(seq) for seq in range(1, 101)], {})
    tried = [row.line for row in spool.batch(10, 1 << 20)]
    spool.relieve()
    assert [row.line for row in spool.batch(10, 1 << 20)][:10] == tried
    spool.close()


def test_edges_are_never_dropped_and_nothing_more_is_taken(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db", most_bytes=20_000)
    metric = Metric(run="story", emitter="rank/n/0/c", seq=1, at=START, name="loss", value=1.0)
    spool.store([*(evidence(seq) for seq in range(200)), beat(1), metric], {})
    assert spool.relieve() == 2
    assert not spool.has_room
    assert len(lines(spool)) == 200
    spool.close()


def test_a_disk_that_is_full_changes_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db")
    spool.store([evidence(0)], {"ring": "1"})
    (pages,) = spool._connection.execute("PRAGMA page_count").fetchone()
    spool._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(SpoolFull):
        spool.store([evidence(seq, "z" * 10_000) for seq in range(1, 50)], {"ring": "50"})
    assert spool.cursor("ring") == "1"
    assert spool.waiting() == 1
    spool._connection.execute("PRAGMA max_page_count = 100000")
    spool.store([evidence(1)], {"ring": "2"})
    assert spool.waiting() == 2
    spool.close()
