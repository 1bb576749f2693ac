"""Words: durations, shares and counts as people say them, for every sentence that names a number.

Rules
- Unknown is the word `unknown`, never 0.
- A duration has its two largest units (`4 min 12 s`); below ten seconds one decimal; nothing is rounded up to a unit it
  did not reach.
- Shares are percents with one decimal. A share that is not quite all or nothing never reads as `100 %` or `0 %`.
"""

from __future__ import annotations

import signal

UNKNOWN = "unknown"
THIN = "\u202f"
"""A narrow space that does not break, between a number and its unit."""

NANOSECONDS = 1_000_000_000
DOWN_UNTOLD = "how long it was down is unknown: nothing that was told dates the restart"


def duration(length_ns: int | None, unknown: str = UNKNOWN) -> str:
    """A length of time, rounded: `0 s`, `420 ms`, `8.3 s`, `4 min 12 s`, `2 h 05 min`, `3 d 4 h`."""
    if length_ns is None:
        return unknown
    if length_ns < 0:
        return "−" + duration(-length_ns)
    if length_ns == 0:
        return f"0{THIN}s"
    if length_ns < 1_000_000:
        return f"{length_ns / 1000:.0f}{THIN}µs"
    if length_ns < NANOSECONDS:
        return f"{length_ns / 1e6:.0f}{THIN}ms"
    tenths = (length_ns + NANOSECONDS // 20) // (NANOSECONDS // 10)
    if tenths < 600:
        return f"{tenths / 10:g}{THIN}s"
    whole = (length_ns + NANOSECONDS // 2) // NANOSECONDS
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    minutes = (whole + 30) // 60
    if minutes < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = (whole + 1800) // 3600
    return _two(hours // 24, "d", hours % 24, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    if small == 0:
        return f"{large}{THIN}{large_unit}"
    return f"{large}{THIN}{large_unit} {small}{THIN}{small_unit}"


def share(fraction: float | None, unknown: str = UNKNOWN) -> str:
    """A fraction as percent: `84.2 %`; `<0.1 %` and `>99.9 %` where rounding would lie."""
    if fraction is None:
        return unknown
    percent = fraction * 100
    if 0 < percent < 0.1:
        return f"<0.1{THIN}%"
    if 99.9 < percent < 100:
        return f">99.9{THIN}%"
    return f"{percent:.1f}{THIN}%"


def points(fraction: float) -> str:
    """A difference of shares: `9.1 points`, `less than 0.1 points`."""
    percent = fraction * 100
    if 0 < percent < 0.1:
        return "less than 0.1 points"
    return f"{percent:.1f} point{'' if f'{percent:.1f}' == '1.0' else 's'}"


def number(value: int | None, unknown: str = UNKNOWN) -> str:
    """A whole number with thin spaces between thousands."""
    return unknown if value is None else f"{value:,}".replace(",", THIN)


def count(value: int, one: str, many: str | None = None) -> str:
    """`1 fault`, `7 faults`, `no faults`."""
    name = one if value == 1 else many or one + "s"
    return f"no {name}" if value == 0 else f"{number(value)} {name}"


def each_step(every: int) -> str:
    """Which steps somebody tells: `every 10th step`."""
    teens = 11 <= every % 100 <= 13
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(every % 10, "th")
    return f"every {number(every)}{ending} step"


def at_least(words: str, told_every: int) -> str:
    """What so many steps are, or took, where only each `told_every`-th is told: more may be lost than that."""
    return words if told_every <= 1 else f"at least {words}"


def steps_lost(steps: int, told_every: int, what: str = "lost") -> str:
    """`no steps lost`, `12 steps lost`, `at least 0 steps lost`."""
    if told_every > 1 and not steps:
        return f"at least 0 steps {what}"
    return at_least(f"{count(steps, 'step')} {what}", told_every)


def to_restart(
    known_ns: int, untold_ns: int, *, is_restarted: bool, is_open: bool, is_down_untold: bool = False,
    is_step_untold: bool = False,
) -> str:  # fmt: skip
    """How long an incident was down until training stepped again: `12 s`, `at least 4 s`; `none` where it never did.

    `known_ns` was told of being down; of `untold_ns` before the restart nobody told anything: it may be down too.
    """
    if not is_restarted:
        return "not yet" if is_open else "none"
    if is_down_untold:
        return f"at least {duration(known_ns + untold_ns)}" if known_ns + untold_ns else UNKNOWN
    if untold_ns and not known_ns:
        return f"at most {duration(untold_ns)}"
    known = duration(known_ns)
    return f"at least {known}" if is_step_untold or untold_ns * 10 > known_ns else known


def exit_code(code: int) -> str:
    """An exit code with the name of its signal: `−9 SIGKILL`, `137 SIGKILL`, `1`."""
    number_of_signal = -code if code < 0 else code - 128
    shown = str(code).replace("-", "−")
    try:
        return f"{shown} {signal.Signals(number_of_signal).name}"
    except ValueError:
        return shown


def interruptions_and_relaunches(interruptions: int, relaunches: int) -> str:
    """`1 interruption, 2 failed relaunches`: a relaunch that fails belongs to the interruption before it."""
    if not interruptions and not relaunches:
        return "no interruption found"
    told = f"{interruptions} interruption{'s' * (interruptions != 1)}"
    return told + (f", {relaunches} failed relaunch{'es' * (relaunches != 1)}" if relaunches else "")
