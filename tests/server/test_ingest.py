"""Ingest: answered when committed, bounded, and a bad batch fails alone."""

from __future__ import annotations

import json
from concurrent.futures import wait

import pytest

from rerail.server.decoding import decode_body
from rerail.server.errors import RefusedRequestError
from rerail.server.ingest import Ingest
from rerail.server.store import Batch, LoggedFact, Store

T = 1_760_000_000_000_000_000


def batch(*seqs: int, run: str = "a") -> Batch:
    lines = [{"kind": "capacity", "run": run, "emitter": "e", "seq": seq, "at": T, "gpus": 1} for seq in seqs]
    return decode_body(b"\n".join(json.dumps(line).encode() for line in lines), T).batch


def test_what_waits_is_committed_together_and_answered(store: Store) -> None:
    ingest = Ingest(store)
    answers = [ingest.submit(batch(seq, seq + 1)) for seq in range(20)]
    ingest.start()
    wait(answers, timeout=30)
    assert sum(answer.result().accepted for answer in answers) == 21
    assert sum(answer.result().duplicate for answer in answers) == 19
    assert store.log("a").upto_ingest == 1, "one commit"
    ingest.close()


def test_a_full_queue_tells_the_sender_to_come_back(store: Store) -> None:
    ingest = Ingest(store, most_batches=2)
    first = [ingest.submit(batch(0)), ingest.submit(batch(1))]
    with pytest.raises(RefusedRequestError) as refused:
        ingest.submit(batch(2))
    assert (refused.value.status, refused.value.retry_after_seconds) == (429, 1)
    ingest.start()
    ingest.close()
    assert [answer.result().accepted for answer in first] == [1, 1]


def test_a_queue_is_bounded_by_facts_but_takes_one_large_batch(store: Store) -> None:
    ingest = Ingest(store, most_facts=5)
    ingest.submit(batch(*range(10)))
    with pytest.raises(RefusedRequestError):
        ingest.submit(batch(11))
    ingest.start()
    ingest.close()


def test_a_batch_the_store_cannot_take_fails_alone(store: Store) -> None:
    poison = batch(5)
    poison.stated[0].facts[0] = LoggedFact(5, T, None)  # type: ignore[arg-type]
    ingest = Ingest(store)
    answers = [ingest.submit(batch(0)), ingest.submit(poison), ingest.submit(batch(1))]
    ingest.start()
    ingest.close()
    assert answers[0].result().accepted == answers[2].result().accepted == 1
    with pytest.raises(TypeError):
        answers[1].result()


def test_closing_writes_what_waits_and_takes_nothing_more(store: Store) -> None:
    ingest = Ingest(store)
    answers = [ingest.submit(batch(seq)) for seq in range(5)]
    ingest.start()
    ingest.close()
    assert all(answer.done() for answer in answers)
    assert not ingest.is_running
    with pytest.raises(RefusedRequestError):
        ingest.submit(batch(9))
