"""Nesting: how deep plain values lie in one another, found without going deep oneself."""

from __future__ import annotations

from collections.abc import Iterator

_CONTAINERS = (list, dict, tuple)


def is_deeper(value: object, most: int) -> bool:
    """Whether containers lie more than `most` deep in one another. Itself it does not go deep, and sees each once."""
    heights: dict[int, int] = {}
    if not isinstance(value, _CONTAINERS):
        return False
    path: list[tuple[object, Iterator[object], int]] = []
    height = 0
    inner: object = value
    while True:
        if inner is not None:
            known = heights.get(id(inner))
            if len(path) + (1 if known is None else known) > most:
                return True
            if known is None:
                values = inner.values() if isinstance(inner, dict) else inner
                path.append((inner, iter(values), height))  # type: ignore[call-overload]
                height = 0
            else:
                height = max(height, known)
        outer, rest, before = path[-1]
        inner = next((each for each in rest if isinstance(each, _CONTAINERS)), None)
        if inner is None:
            path.pop()
            heights[id(outer)] = height + 1
            height = max(before, height + 1)
            if not path:
                return False
