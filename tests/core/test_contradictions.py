"""Facts that cannot all be true: counted with a reason and an example, and never a negative or a clamped figure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import FACT_TYPES, Fact
from tests.invariants import assert_consistent, assert_order_is_nothing, folded
from tests.soup import _DRAWN, BEGINNING, SECOND, soup

END = BEGINNING + 400 * SECOND


def test_the_soup_has_every_kind():
    assert set(_DRAWN) == set(FACT_TYPES.values())


@given(soup())
def test_whatever_fits_the_wire_format_survives_it(facts: list[Fact]):
    assert [decode_line(encode_line(fact)) for fact in facts] == facts


@given(soup(), st.sampled_from([END, BEGINNING + 120 * SECOND, BEGINNING - SECOND]))
def test_whatever_is_told_the_account_tiles_and_nothing_is_negative(facts: list[Fact], as_of: int):
    assert_consistent(*folded(facts, as_of))


@given(soup(), st.randoms(use_true_random=False))
def test_whatever_is_told_its_order_changes_nothing(facts: list[Fact], chance):
    assert_order_is_nothing(facts, END, chance)
