"""Rank windows: what is kept of many ranks is what one would find by keeping a row of each."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.codec import FactError, decode, encode
from rerail.server.core.facts import Heartbeats
from rerail.server.core.fold import RunFold
from rerail.server.core.rank_windows import SLOWEST, LastHeard, RankGaps, RankSet
from tests.story import Story

T = 1_760_000_000_000_000_000
SECOND = 1_000_000_000


def window(
    first: int,
    counts: Iterable[int],
    gaps: Iterable[int],
    start: float = 0,
    end: float = 60,
    seq: int = 0,
    **more: object,
) -> Heartbeats:
    counts, gaps = tuple(counts), tuple(gaps)
    return Heartbeats(
        run="story", emitter=f"agent/{first}", seq=seq, at=T + round(end * SECOND), start=T + round(start * SECOND),
        end=T + round(end * SECOND), count=sum(counts), max_gap_us=max(gaps), first_rank=first, rank_counts=counts,
        rank_max_gaps_us=gaps, **more,
    )  # type: ignore[arg-type]  # fmt: skip


@st.composite
def windows(draw: st.DrawFn) -> list[Heartbeats]:
    made = []
    for seq in range(draw(st.integers(1, 12))):
        ranks = draw(st.integers(1, 12))
        counts = draw(st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks))
        gaps = draw(st.lists(st.integers(0, 9), min_size=ranks, max_size=ranks))
        start = draw(st.integers(0, 1000))
        made.append(window(draw(st.integers(0, 20)), counts, gaps, start, start + draw(st.integers(1, 100)), seq))
    return made


def heard_in(beats: Heartbeats) -> list[tuple[int, int]]:
    """`(rank, gap)` of everyone who was heard."""
    first = beats.first_rank or 0
    pairs = zip(beats.rank_counts, beats.rank_max_gaps_us, strict=True)
    return [(rank, gap) for rank, (count, gap) in enumerate(pairs, first) if count]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=20))
def test_ranks_kept_as_ranges_are_those_that_were_added(ranges):
    kept, expected = RankSet(), set()
    for first, length in ranges:
        kept.add(first, length)
        expected |= set(range(first, first + length))
    found = [rank for first, end in kept.ranges() for rank in range(first, end)]
    assert found == sorted(expected)
    assert kept.count == len(expected)


@given(windows(), st.randoms(use_true_random=False))
def test_the_slowest_ranks_are_those_of_all_ranks_whatever_the_order(told, chance):
    chance.shuffle(told)
    gaps, by_rank = RankGaps(), {}
    for beats in told:
        gaps.add(beats)
        for rank, gap in heard_in(beats):
            by_rank[rank] = max(gap, by_rank.get(rank, 0))
    wanted = sorted(by_rank.items(), key=lambda entry: (-entry[1], entry[0]))[:SLOWEST]
    assert [(each.rank, each.max_gap_ns // 1000) for each in gaps.slowest()] == wanted
    assert gaps.heard.count == len(by_rank)


@given(windows(), st.randoms(use_true_random=False))
def test_a_quiet_rank_is_one_that_all_its_windows_left_behind(told, chance):
    in_order, shuffled = LastHeard(), LastHeard()
    for beats in told:
        in_order.add(beats, beats.start, beats.end)
    chance.shuffle(told)
    for beats in told:
        shuffled.add(beats, beats.start, beats.end)
    quiet = in_order.quiet()
    assert shuffled.quiet() == quiet
    last: dict[int, int] = {}
    for beats in told:
        for rank, _ in heard_in(beats):
            last[rank] = max(last.get(rank, 0), beats.end)
    for rank in quiet.ranks if quiet else ():
        assert max(last.values()) - last[rank] > 60 * SECOND
        assert last[rank] <= quiet.since


def test_ranks_that_fall_silent_are_named_while_the_run_goes_on():
    story = Story(gpus=8).start().steps(1, 50)
    end = (story.at - T) // SECOND
    fold = RunFold("story")
    fold.add(story.facts)
    fold.add(window(0, [5] * 8, [9] * 8, at, at + 10, at) for at in range(0, end - 10, 10))
    assert fold.view(story.at).quiet_ranks is None
    fold.add(
        window(0, [5, 5, 5, 0, 5, 5, 0, 5], [9] * 8, end + at, end + at + 10, end + at) for at in range(0, 120, 10)
    )
    view = fold.view(story.at + 120 * SECOND)
    assert view.quiet_ranks is not None
    assert (view.quiet_ranks.count, view.quiet_ranks.ranks) == (2, (3, 6))
    assert view.heartbeat[0].ranks == 8


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"first_rank": None}, "first_rank", "missing"),
        ({"rank": 3}, "rank", "beside first_rank"),
        ({"rank_counts": []}, "rank_counts", "empty"),
        ({"rank_max_gaps_us": [1]}, "rank_max_gaps_us", "not one per rank (2)"),
        ({"count": 4}, "count", "not the sum of rank_counts (3)"),
        ({"max_gap_us": 4}, "max_gap_us", "not the longest of rank_max_gaps_us (9)"),
        ({"rank_counts": [1, -1]}, "rank_counts[1]", "negative"),
        ({"first_rank": 2**40}, "first_rank", "above"),
    ],
)
def test_a_range_of_ranks_that_does_not_add_up_is_refused_with_its_field(change, field, reason):
    with pytest.raises(FactError) as refused:
        decode({**encode(window(0, [1, 2], [3, 9])), **change})
    assert refused.value.field == field
    assert reason in refused.value.reason
