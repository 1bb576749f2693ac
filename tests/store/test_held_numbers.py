"""Which sequence numbers are held: a set, however it is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rerail.server.store.held_numbers import CHUNK_BITS, HeldNumbers, chunks_of

numbers = st.integers(0, 60)


@given(st.lists(st.lists(numbers, max_size=30), max_size=8))
def test_ranges_hold_exactly_the_numbers_taken_and_tell_new_from_old(batches: list[list[int]]) -> None:
    held, truth = HeldNumbers(), set()
    for batch in batches:
        new = held.take(batch)
        expected = []
        for index, number in enumerate(batch):
            if number not in truth:
                truth.add(number)
                expected.append(index)
        assert (list(range(len(batch))) if new is None else new) == expected
        assert {number for number in range(62) if number in held} == truth
        assert all(right[0] > left[1] + 1 for left, right in zip(held.ranges, held.ranges[1:], strict=False))


@given(st.sets(st.integers(0, 2**63 - 1), max_size=50))
def test_ranges_survive_their_packing(taken: set[int]) -> None:
    held = HeldNumbers()
    held.take(list(taken))
    assert HeldNumbers.from_bytes(held.to_bytes()).ranges == held.ranges


def test_an_emitter_that_loses_nothing_is_one_range() -> None:
    held = HeldNumbers()
    for start in range(0, 10_000, 100):
        assert held.take(range(start, start + 100)) is None
    assert held.to_bytes() == b"0-9999"


@given(st.lists(st.integers(0, 3 * 2**CHUNK_BITS), max_size=40))
def test_places_in_a_batch_are_told_apart_by_chunk(numbers: list[int]) -> None:
    places = chunks_of(numbers)
    assert sorted(place for chunk in places.values() for place in chunk) == list(range(len(numbers)))
    assert all(numbers[place] >> CHUNK_BITS == chunk for chunk, inside in places.items() for place in inside)
