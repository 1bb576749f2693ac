"""JSON with limits: what a flight recorder answers over HTTP, or what somebody saved as text.

Rules
- Size, depth and lengths of numbers are limited; what exceeds them is refused.
- NaN and Infinity are no JSON and are refused.
"""

from __future__ import annotations

import json
from typing import NoReturn

from rerail.server.core.flight_recorder.nesting import is_deeper
from rerail.server.core.flight_recorder.refusal import MOST_BYTES, MOST_CONTAINERS, MOST_DEPTH, DumpRefusedError

LONGEST_NUMBER = 40
MOST_VALUES = 8_000_000
"""Commas in a text: each parts two values, and a value takes many times the memory of its text."""


def looks_like_json(content: bytes) -> bool:
    """Whether the first letter is that of a JSON object or list."""
    return content[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read_json(content: bytes) -> object:
    """The value of a JSON text. Raises DumpRefusedError."""
    if len(content) > MOST_BYTES:
        raise DumpRefusedError(f"the JSON text has {len(content)} bytes; the most is {MOST_BYTES}")
    containers = content.count(b"[") + content.count(b"{")
    if containers > MOST_CONTAINERS or content.count(b",") > MOST_VALUES:
        raise DumpRefusedError(f"the JSON text has more than {MOST_CONTAINERS} containers or {MOST_VALUES} values")
    try:
        value = json.loads(
            content.decode("utf-8-sig"), parse_int=_integer, parse_float=_number, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise DumpRefusedError(f"not UTF-8 text at offset {error.start}") from None
    except RecursionError:
        raise DumpRefusedError(f"the JSON text is nested more than {MOST_DEPTH} deep") from None
    except json.JSONDecodeError as error:
        raise DumpRefusedError(f"not JSON: {error.msg} at offset {error.pos}") from None
    if is_deeper(value, MOST_DEPTH):
        raise DumpRefusedError(f"the JSON text is nested more than {MOST_DEPTH} deep")
    return value


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise DumpRefusedError(f"a number of {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    if len(text) > LONGEST_NUMBER:
        raise DumpRefusedError(f"a number of {len(text)} digits")
    return float(text)


def _no_number(text: str) -> NoReturn:
    raise DumpRefusedError(f"{text} is no JSON number")
