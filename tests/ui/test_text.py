"""Text: numbers as people say them, and unknown never as 0."""

from __future__ import annotations

import pytest

from rerail.server.core.words import to_restart
from rerail.ui import text

SECOND = 1_000_000_000


def plain(shown: str) -> str:
    return shown.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (None, "unknown"), (0, "0 s"), (420_000, "420 µs"), (420_000_000, "420 ms"), (8_390_000_000, "8.4 s"),
        (59_999_999_999, "1 min"), (252 * SECOND, "4 min 12 s"), (240 * SECOND, "4 min"), (7500 * SECOND, "2 h 5 min"),
        (273_600 * SECOND, "3 d 4 h"), (-SECOND, "−1 s"),
    ],
)  # fmt: skip
def test_a_duration_has_its_two_largest_units(length, shown):
    assert plain(text.duration(length)) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (None, "unknown"),
        (0.0, "0.0 %"),
        (1.0, "100.0 %"),
        (0.8423, "84.2 %"),
        (0.00001, "<0.1 %"),
        (0.99999, ">99.9 %"),
    ],
)
def test_a_share_that_is_not_quite_all_or_nothing_says_so(fraction, shown):
    assert plain(text.share(fraction)) == shown


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (None, "unknown"), (0, "0 GPU-h"), (212 * 3600 * SECOND, "212 GPU-h"), (1800 * SECOND, "0.5 GPU-h"),
        (1_234_567 * 3600 * SECOND, "1 234 567 GPU-h"), (SECOND, "<0.001 GPU-h"),
    ],
)  # fmt: skip
def test_gpu_hours_keep_what_matters(length, shown):
    assert plain(text.gpu_hours(length)) == shown


@pytest.mark.parametrize(
    ("code", "shown"), [(-9, "−9 SIGKILL"), (137, "137 SIGKILL"), (1, "1"), (0, "0"), (-99, "−99")]
)
def test_an_exit_code_names_its_signal(code, shown):
    assert text.exit_code(code) == shown


def test_ranks_are_told_as_ranges():
    assert text.rank_ranges((3, 0, 1, 2, 7)) == "0–3, 7"


def test_counts_are_words():
    assert [plain(text.count(number, "fault")) for number in (0, 1, 7, 1200)] == [
        "no faults",
        "1 fault",
        "7 faults",
        "1 200 faults",
    ]


def test_unknown_sizes_and_numbers_are_unknown():
    assert (text.size(None), text.number(None), text.size(1_234_567)) == ("unknown", "unknown", "1.2\u202fMB")


@pytest.mark.parametrize(
    ("known", "untold", "restarted", "is_open", "undated", "shown"),
    [
        (0, 0, False, True, False, "not yet"), (0, 60, False, False, False, "none"),
        (0, 0, True, False, True, "unknown"), (4, 8, True, False, True, "at least 12 s"),
        (0, 8, True, False, False, "at most 8 s"), (12, 8, True, True, False, "at least 12 s"),
        (12, 1, True, False, False, "12 s"), (0, 0, True, False, False, "0 s"),
    ],
)  # fmt: skip
def test_a_restart_that_never_was_has_no_length(known, untold, restarted, is_open, undated, shown):
    told = to_restart(
        known * SECOND, untold * SECOND, is_restarted=restarted, is_open=is_open, is_down_untold=undated
    )  # fmt: skip
    assert plain(told) == shown
