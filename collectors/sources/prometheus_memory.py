"""Prometheus memory: what a cursor keeps of a rule's series, in as few bytes as eight thousand GPUs allow.

Of most series the same is known: they were last seen at one instant, show the same value (0), and owe nothing. Those
are kept together, ten characters each; the others one by one, as `[value, second, not yet stated, stated at]`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

KEY_BYTES = 8
KEY_LETTERS = 10
"""Of a key of 16 hexadecimal digits, written in base 85."""


def packed(series: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Series by key as plain data for a cursor."""
    alike: dict[str, list[str]] = {}
    single: dict[str, list[Any]] = {}
    for key, entry in series.items():
        value, at, waiting, stated = entry
        if waiting or stated:
            single[key] = entry
        else:
            alike.setdefault(f"{at} {value!r}", []).append(key)
    return {"alike": {told: _written(keys) for told, keys in alike.items()}, "single": single}


def unpacked(told: object) -> dict[str, list[Any]] | None:
    """The series of a cursor; None where it makes no sense."""
    alike, single = (told.get("alike"), told.get("single")) if isinstance(told, dict) else (None, None)
    if not isinstance(alike, dict) or not isinstance(single, dict):
        return None
    found: dict[str, list[Any]] = {}
    for group, keys in alike.items():
        try:
            at, value = group.split(" ")
            entry = (float(value), int(at))
            for key in _read(keys):
                found[key] = [*entry, 0.0, 0]
        except (ValueError, AttributeError, TypeError):
            return None
    for key, entry in single.items():
        if not _fits(entry):
            return None
        found[key] = list(entry)
    return found


def _fits(entry: object) -> bool:
    return (
        isinstance(entry, list) and len(entry) == 4
        and all(isinstance(each, (int, float)) and math.isfinite(each) for each in entry)
    )  # fmt: skip


def _written(keys: list[str]) -> str:
    return base64.b85encode(bytes.fromhex("".join(keys))).decode()


def _read(keys: str) -> list[str]:
    if len(keys) % KEY_LETTERS:
        raise ValueError("half a key")
    digits = base64.b85decode(keys).hex()
    return [digits[place : place + 2 * KEY_BYTES] for place in range(0, len(digits), 2 * KEY_BYTES)]
