"""Ranks in short: `0-3,8-64:8` for many ranks, and the names that sentences use."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = re.compile(r"^(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?$")
MOST_NAMED = 8


def packed(ranks: Iterable[int]) -> str:
    """Ranks in their order, each once, as ranges with a stride where they rise evenly."""
    ordered = list(dict.fromkeys(ranks))
    pieces = []
    at = 0
    while at < len(ordered):
        if at + 2 >= len(ordered):
            pieces += [str(rank) for rank in ordered[at:]]
            break
        stride = ordered[at + 1] - ordered[at]
        end = at + 1
        while end + 1 < len(ordered) and ordered[end + 1] - ordered[end] == stride:
            end += 1
        if stride < 1 or end - at < 2:
            pieces.append(str(ordered[at]))
            at += 1
            continue
        pieces.append(f"{ordered[at]}-{ordered[end]}" + (f":{stride}" if stride > 1 else ""))
        at = end + 1
    return ",".join(pieces)


def unpacked(text: str, most: int) -> tuple[int, ...]:
    """The ranks of a text that `packed` wrote. Raises ValueError for any other, or for more ranks than `most`."""
    ranks: list[int] = []
    for piece in text.split(",") if text else []:
        found = _PIECE.match(piece)
        if found is None:
            raise ValueError(f"not ranks: {piece[:40]}")
        first, last, stride = int(found.group(1)), int(found.group(2) or found.group(1)), int(found.group(3) or 1)
        if stride < 1 or last < first or len(ranks) + (last - first) // stride + 1 > most:
            raise ValueError(f"not ranks: {piece[:40]}")
        ranks.extend(range(first, last + 1, stride))
    return tuple(ranks)


def named(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 1 and 3`, `ranks 0, 1, 2 and 61 more`."""
    ordered = sorted(set(ranks))
    if not ordered:
        return "no rank"
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    shown = [str(rank) for rank in ordered[:MOST_NAMED]]
    rest = len(ordered) - len(shown)
    if rest == 0:
        return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"
    return f"ranks {', '.join(shown)} and {rest} more"
