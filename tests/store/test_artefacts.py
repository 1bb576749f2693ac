"""Files beside the log, on both databases: kept whole and once per run, listed without their contents."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256

from rerail.server.query_results import ArtefactRow
from rerail.server.store import Store

T = 1_760_000_000_000_000_000


def row(content: bytes, run: str = "a", incident: str = "a~0", **fields: object) -> ArtefactRow:
    told = {"name": "trace_rank_0", "kind": "log", "received_at": T, "size": len(content)}
    return ArtefactRow(sha256(content).hexdigest(), run, incident, **{**told, **fields})  # type: ignore[arg-type]


def test_a_file_comes_back_as_it_was_given(store: Store) -> None:
    content = os.urandom(100_000) + b"\0" * 1_000_000
    kept = row(content, author="유나", refused=("a: b",), remarks=("c",), pieces=3)
    assert store.keep_artefact(kept, content) is True
    assert store.artefact_content(kept.sha256) == (kept, content)
    assert store.artefacts("a") == (kept,)
    assert store.artefact_content("0" * 64) is None
    assert store.artefacts("b") == ()


def test_the_same_file_is_kept_once_in_a_run_and_the_first_word_about_it_stays(store: Store) -> None:
    first, again = row(b"x", author="Ada"), row(b"x", author="Bo", received_at=T + 1)
    assert [store.keep_artefact(each, b"x") for each in (first, again)] == [True, False]
    assert store.artefacts("a") == (first,)
    other = row(b"x", run="b", incident="b~1")
    assert store.keep_artefact(other, b"x") is True
    assert store.artefacts("b") == (other,)


def test_what_was_understood_can_be_said_anew_and_the_contents_stay(store: Store) -> None:
    kept = row(b"x")
    store.keep_artefact(kept, b"x")
    renewed = replace(kept, pieces=2)
    store.renew_artefact(renewed)
    assert store.artefact_content(kept.sha256) == (renewed, b"x")


def test_files_are_listed_by_incident_oldest_first(store: Store) -> None:
    given = [row(bytes([number]), incident=f"a~{number % 2}", received_at=T - number) for number in range(4)]
    for number, each in enumerate(given):
        store.keep_artefact(each, bytes([number]))
    assert store.artefacts("a") == tuple(reversed(given))
    assert store.artefacts("a", "a~1") == (given[3], given[1])


def test_an_empty_file_is_a_file(store: Store) -> None:
    store.keep_artefact(row(b""), b"")
    assert store.artefact_content(row(b"").sha256) == (row(b""), b"")
