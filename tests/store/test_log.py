"""The log of every store: durable, each fact once, nothing of one run in another, nothing missed by a reader."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.server.core import codec, facts
from rerail.server.store import Batch, Receipt, RefusedLine, Store, open_store

T = 1_760_000_000_000_000_000
S = 10**9

MakeBatch = Callable[..., Batch]
_examples = count()


def capacity(seq: int, run: str = "a", emitter: str = "e", at: int | None = None) -> facts.Capacity:
    return facts.Capacity(run=run, emitter=emitter, seq=seq, at=T + seq * S if at is None else at, gpus=seq)


ONE_OF_EACH = tuple(
    codec.decode({"run": "a", "emitter": "e", "seq": seq, "at": T + seq, **wire})
    for seq, wire in enumerate(
        (
            {
                "kind": "run_started",
                "labels": {"ü": "x\0y"},
                "name": "n",
                "gpus": 8,
                "job": "1",
                "later": {"b": [1, None]},
            },
            {"kind": "attempt_started", "scope": "in_job", "nodes": ["n1", "n2"], "config": {"b": 1, "a": [2.5]}},
            {"kind": "attempt_ended", "outcome": "failed", "exit_codes": {"3": -9, "1": 1}},
            {"kind": "phase", "phase": "overhead:hash checks", "start": T, "end": T + 5},
            {"kind": "phase", "phase": "loading", "span": "x", "end": T + 5},
            {"kind": "steps", "first_step": 1, "start": T, "durations_us": [5, 0, 7_000_000], "loss": [0.5, 1, -2e300]},
            {"kind": "steps", "first_step": 4, "start": T, "durations_us": [700], "count": 10, "rank": 3, "node": "n1"},
            {"kind": "steps", "first_step": 4, "start": T, "durations_us": [2**40], "new_field": "kept", "v": 2},
            {"kind": "checkpoint", "step": 4, "stage": "durable", "ranks_missing": [1, 2], "bytes": 2**50},
            {"kind": "checkpoint_loaded", "step": 4, "start": T, "end": T + 9, "outcome": "failed"},
            {
                "kind": "heartbeats",
                "start": T,
                "end": T + 9,
                "count": 3,
                "max_gap_us": 9,
                "phase": "training",
                "rank": 0,
            },
            {"kind": "heartbeats", "start": T, "end": T + 9, "count": 0, "max_gap_us": 0, "sketch": "q", "odd": 1},
            {"kind": "recovery_mark", "stage": "noticed", "text": "rank 3\0 gone \U0001f6a8"},
            {"kind": "exit", "exit_code": -9, "oom_killed": True},
            {"kind": "evidence", "source": "stderr", "text": "a\nb\0c", "attributes": {"k": 1}},
            {"kind": "node_state", "node": "n1", "state": "lost", "until": T},
            {"kind": "capacity", "gpus": 0},
            {"kind": "scheduler_state", "state": "queued"},
            {"kind": "metric", "name": "loss", "value": 0.1},
            {"kind": "clock", "offset_us": -3},
            {"kind": "blind", "source": "k8s", "since": T},
            {"kind": "note", "text": "메모"},
            {"kind": "excluded", "start": T, "end": T + 1},
            {"kind": "exclusion_state", "window": "people~0", "state": "withdrawn", "reason": "지난주"},
            {"kind": "artefact_state", "artefact": "a", "state": "restored", "author": "Ada"},
            {"kind": "run_ended", "outcome": "completed"},
            {"kind": "weather_report", "mood": "kept", "n": [1, {"a": None}]},
        )
    )
)


def test_every_kind_of_fact_comes_back_as_it_was_stated(store: Store, batch: MakeBatch) -> None:
    assert {fact.kind for fact in ONE_OF_EACH} == {*facts.FACT_TYPES, "unknown"}
    store.append([batch(*ONE_OF_EACH)])
    assert store.log("a").facts == ONE_OF_EACH


def test_an_unknown_run_has_an_empty_log(store: Store) -> None:
    log = store.log("nobody")
    assert log.facts == ()
    assert log.upto_ingest == 0


def test_a_batch_sent_twice_is_kept_once_and_counted(store: Store, batch: MakeBatch) -> None:
    sent = batch(*(capacity(seq) for seq in range(5)))
    assert store.append([sent]) == (Receipt(5, 0),)
    assert store.append([sent]) == (Receipt(0, 5),)
    log = store.log("a")
    assert len(log.facts) == 5
    assert log.duplicates == 5


def test_duplicates_inside_one_batch_and_inside_one_commit_are_found(store: Store, batch: MakeBatch) -> None:
    receipts = store.append(
        [batch(capacity(0), capacity(1), capacity(0)), batch(capacity(1), capacity(2)), batch(capacity(2, emitter="f"))]
    )
    assert receipts == (Receipt(2, 1), Receipt(1, 1), Receipt(1, 0))
    assert len(store.log("a").facts) == 4


def test_the_first_statement_of_an_identity_stays(store: Store, batch: MakeBatch) -> None:
    store.append([batch(capacity(7))])
    store.append([batch(replace(capacity(7), gpus=999))])
    assert store.log("a").facts == (capacity(7),)


def test_a_reader_with_a_cursor_sees_each_fact_once(store: Store, batch: MakeBatch) -> None:
    seen, cursor = [], 0
    for seqs in ((0, 1), (5,), (5,), (3, 2), (4, 6)):
        store.append([batch(*(capacity(seq) for seq in seqs))])
        log = store.log("a", cursor)
        seen += log.facts
        cursor = log.upto_ingest
    assert sorted(fact.seq for fact in seen) == [0, 1, 2, 3, 4, 5, 6]
    assert store.log("a", cursor).facts == ()


def test_runs_and_emitters_with_odd_names_are_kept_apart(store: Store, batch: MakeBatch) -> None:
    names = ["a", "A", "a/b", "%", "ü", "u\u0308", "a'; drop table fact; --", "x" * 200, "런"]
    store.append([batch(*(capacity(0, run=run, emitter=emitter) for run in names for emitter in names))])
    for run in names:
        assert sorted(fact.emitter for fact in store.log(run).facts) == sorted(names)
        assert {fact.run for fact in store.log(run).facts} == {run}
        assert [row.emitter for row in store.emitters(run)] == sorted(names) or len(store.emitters(run)) == len(names)


def test_emitters_are_counted_with_what_they_lost(store: Store, batch: MakeBatch) -> None:
    store.append([batch(capacity(0), capacity(3), received_at=T + 4 * S)])
    store.append([batch(capacity(3), capacity(4), received_at=T + 9 * S)])
    (row,) = store.emitters("a")
    assert (row.accepted, row.duplicate, row.highest_seq) == (3, 1, 4)
    assert (row.last_at, row.last_received_at, row.least_delay_ns) == (T + 4 * S, T + 9 * S, S)


def test_a_clock_fact_tells_the_offset_of_its_emitter(store: Store, batch: MakeBatch) -> None:
    sent = batch(capacity(0))
    sent.stated[0].clock_offset_ns = 5_000
    store.append([sent])
    store.append([batch(capacity(1))])
    assert store.emitters("a")[0].clock_offset_ns == 5_000


def refused(line: int, run: str | None = "a", raw: bytes = b"{") -> RefusedLine:
    return RefusedLine(line, "at", "\0\ud800", "not a number\0", raw, run, "e" if run else None)


def test_refused_lines_are_kept_readable_whatever_is_in_them(store: Store, batch: MakeBatch) -> None:
    lines = (refused(1, raw=b"\xff\x00{"), refused(2, run=None), refused(3, raw=b"x" * 9000))
    store.append([Batch(T, batch(capacity(0)).stated, lines)])
    page = store.refused(None, 0, 10)
    assert (page.total, page.kept, len(page.rows)) == (3, 3, 3)
    of_run = store.refused("a", 0, 10)
    assert [row.line for row in of_run.rows] == [1, 3]
    assert [len(row.raw) for row in of_run.rows] == [3, 4096]
    assert store.log("a").rejected == 2
    assert store.emitters("a")[0].rejected == 2


def test_a_storm_of_refusals_is_counted_but_cannot_fill_the_disk(store: Store) -> None:
    for _ in range(3):
        store.append([Batch(T, (), tuple(refused(line) for line in range(700)))])
    page = store.refused("a", 0, 5)
    assert (page.total, page.kept) == (2100, 1000)
    store.append([Batch(T + 86_400 * S, (), (refused(1),))])
    assert store.refused("a", 0, 5).kept == 1001


def test_a_failed_append_leaves_nothing_behind(store: Store, batch: MakeBatch) -> None:
    store.append([batch(capacity(0))])
    broken = batch(capacity(1), capacity(2))
    broken.stated[0].facts[1] = broken.stated[0].facts[1]._replace(line=None)
    with pytest.raises(TypeError):
        store.append([batch(capacity(3)), broken])
    assert [fact.seq for fact in store.log("a").facts] == [0]
    assert store.append([batch(capacity(1), capacity(2), capacity(3))]) == (Receipt(3, 0),)


def test_what_was_appended_is_there_for_a_store_opened_later(store: Store, database: str, batch: MakeBatch) -> None:
    store.append([batch(*ONE_OF_EACH)])
    other = open_store(database)
    try:
        assert other.log("a").facts == ONE_OF_EACH
    finally:
        other.close()


def test_writers_at_once_count_exactly_and_a_reader_misses_nothing(database: str, batch: MakeBatch) -> None:
    """Four writers with stores of their own send overlapping batches to two runs, while a reader follows a cursor."""
    stores = [open_store(database) for _ in range(5)]
    receipts: list[Receipt] = []
    problems: list[BaseException] = []
    seen: dict[str, list[int]] = {"a": [], "b": []}
    is_done = threading.Event()

    def write(store: Store, offset: int) -> None:
        try:
            for start in range(offset, 60, 3):
                runs = ("a", "b") if offset % 2 else ("b", "a")
                facts_sent = [capacity(seq, run=run) for run in runs for seq in range(start, start + 6)]
                receipts.extend(store.append([batch(*facts_sent)]))
        except BaseException as error:
            problems.append(error)

    def read(store: Store) -> None:
        cursors = {"a": 0, "b": 0}
        try:
            while True:
                last_round = is_done.is_set()
                for run in cursors:
                    log = store.log(run, cursors[run])
                    seen[run] += [fact.seq for fact in log.facts]
                    cursors[run] = log.upto_ingest
                if last_round:
                    return
        except BaseException as error:
            problems.append(error)

    writers = [threading.Thread(target=write, args=(store, index)) for index, store in enumerate(stores[:4])]
    reader = threading.Thread(target=read, args=(stores[4],))
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    is_done.set()
    reader.join()
    assert problems == []
    held = {seq for offset in range(4) for start in range(offset, 60, 3) for seq in range(start, start + 6)}
    assert sorted(seen["a"]) == sorted(seen["b"]) == sorted(held)
    assert sum(receipt.accepted for receipt in receipts) == 2 * len(held)
    (emitter,) = stores[0].emitters("a")
    assert emitter.accepted == len(held)
    for store in stores:
        store.close()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    sent=st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ef"), st.integers(0, 12)), min_size=1, max_size=10),
        max_size=6,
    ),
)
def test_any_order_and_repetition_gives_the_same_set(
    store: Store, batch: MakeBatch, sent: list[list[tuple[str, str, int]]]
) -> None:
    number = next(_examples)  # every example has runs of its own: the store is shared by all of them
    named = [[(f"{run}-{number}", emitter, seq) for run, emitter, seq in part] for part in sent]
    accepted = 0
    for part in named:
        (receipt,) = store.append([batch(*(capacity(seq, run=run, emitter=emitter) for run, emitter, seq in part))])
        accepted += receipt.accepted
        assert receipt.accepted + receipt.duplicate == len(part)
    truth = {identity for part in named for identity in part}
    assert accepted == len(truth)
    runs = {run for run, _, _ in truth}
    assert {(fact.run, fact.emitter, fact.seq) for run in runs for fact in store.log(run).facts} == truth


def test_an_emitter_that_counts_sparsely_costs_a_batch_only_what_it_touches(store: Store, batch: MakeBatch) -> None:
    for number in range(40):
        told = [capacity((number * 50 + index) * 160, at=T + number) for index in range(50)]
        (receipt,) = store.append([batch(*told)])
        assert (receipt.accepted, receipt.duplicate) == (50, 0)
        (again,) = store.append([batch(*told)])
        assert (again.accepted, again.duplicate) == (0, 50)
