"""Slurm words: states, exit codes, instants, numbers and counts, as each version of Slurm writes them.

Everything gives None for what is not known, or makes no sense; nothing raises.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from typing import Any

SECOND = 1_000_000_000
EARLIEST, LATEST = 946_684_800, 4_102_444_800
RUNNING = frozenset(
    {"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "RESIZING", "SIGNALING", "STOPPED"}
)
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
     "PREEMPTED", "REQUEUED", "REVOKED", "TIMEOUT"}
)  # fmt: skip
WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
STATES = tuple(sorted(RUNNING | ENDED | WAITING))
NOTHING = frozenset(
    {"", "none", "unknown", "n/a", "(null)", "none assigned", "invalid", "null", "unlimited", "partition_limit"}
)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_LIMIT = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<hours>\d{1,6}):(?P<minutes>\d\d):\d\d")
_GPUS = re.compile(r"gres/gpu(?::[\w.-]+)?[=:](\d{1,7})")


def state_of(told: object) -> tuple[str | None, str | None, tuple[str, ...]]:
    """`(state, who cancelled, flags)` out of one word or several; the state is None where none of them is one."""
    words = [str(word) for word in told if word] if isinstance(told, list) else [str(told)]
    by, known, flags = None, None, []
    for word in words:
        text = word.strip().upper()
        found = re.match(r"CANCELLED BY (\S{1,100})", text)
        if found is not None:
            by, text = word.strip()[13:].strip(), "CANCELLED"
        if text.endswith("+"):  # cut off to the width of its column, or two states at once
            text = next((state for state in STATES if len(text) > 4 and state.startswith(text[:-1])), text[:-1])
        for part in text.split("+"):
            if known is None and part in STATES:
                known = part
            elif part:
                flags.append(part)
    return known, by, tuple(flags)


def exit_of(text: str) -> tuple[int | None, int | None]:
    """`code:signal`; each None where it is not known, the signal also where there was none."""
    found = re.fullmatch(r"(\d{1,5}):(\d{1,3})", text.strip())
    return (None, None) if found is None else (int(found[1]), int(found[2]) or None)


def instant(text: str, zone_seconds: int | None) -> int | None:
    """Nanoseconds since 1970 of a local stamp, or of seconds since 1970; None for anything else."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 12:
        return seconds_of(int(text))
    if not _STAMP.fullmatch(text):
        return None
    try:
        parts = time.strptime(text, "%Y-%m-%dT%H:%M:%S")
        if zone_seconds is None:
            return seconds_of(int(time.mktime(parts)))
        return seconds_of(calendar.timegm(parts) - zone_seconds)
    except (ValueError, OverflowError):
        return None


def seconds_of(told: object) -> int | None:
    seconds = number_of(told)
    return seconds * SECOND if seconds is not None and EARLIEST <= seconds < LATEST else None


def number_of(told: object) -> int | None:
    """A number, plain or wrapped; None where it is not set or without end."""
    if isinstance(told, dict):
        if told.get("set") is False or told.get("infinite") is True:
            return None
        told = told.get("number")
    if isinstance(told, bool) or told is None:
        return None
    if isinstance(told, str):
        return digits_of(told.strip())
    if isinstance(told, int):
        return told if abs(told) < 2**62 else None
    return int(told) if isinstance(told, float) and abs(told) < 2**62 else None


def digits_of(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def words_of(told: object) -> str | None:
    """Words, without what Slurm prints where there are none."""
    if not isinstance(told, str):
        return None
    words = "".join(letter if letter.isprintable() else " " for letter in told).strip()
    return None if words.lower() in NOTHING else words[:2000]


def limit_of(minutes: int | None) -> str | None:
    """A limit of time as Slurm writes it, `[D-]HH:MM:SS`; None where there is none.

    A requeued job without a limit is shown with one of 365 days.
    """
    if minutes is None or not 0 < minutes < 365 * 1440:
        return None
    days, rest = divmod(minutes, 1440)
    return f"{days}-{rest // 60:02d}:{rest % 60:02d}:00" if days else f"{rest // 60:02d}:{rest % 60:02d}:00"


def limit_told(text: str) -> str | None:
    """A limit that is told as text: `[D-]HH:MM:SS`, or in minutes; None where there is none."""
    words = words_of(text)
    if words is None:
        return None
    told = _LIMIT.fullmatch(words)
    if told is None:
        return limit_of(digits_of(words)) if words.isdigit() else words
    return limit_of(int(told["days"] or 0) * 1440 + int(told["hours"]) * 60 + int(told["minutes"]))


def labels_of(row: Mapping[str, object]) -> dict[str, str]:
    found = {name: words_of(row.get(name)) for name in ("comment", "account", "partition", "user", "wckey")}
    return {name: value[:200] for name, value in found.items() if value}


def gpus_of(text: str) -> int | None:
    counts = [int(count) for count in _GPUS.findall(text)]
    plain = re.search(r"gres/gpu=(\d{1,7})", text)
    return int(plain[1]) if plain else sum(counts) if counts else None


def mapping(told: object) -> dict[str, Any]:
    return told if isinstance(told, dict) else {}


def sequence(told: object) -> list[Any]:
    return told if isinstance(told, list) else []
