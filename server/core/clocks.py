"""Clocks: every emitter's instants, moved to the server's clock.

Rules
- A `clock` fact says *emitter minus server* at one instant. Between two statements the offset is interpolated, before
  the first and after the last it is held. An emitter that never stated one is taken at its word.
- Facts keep the emitter's own time; the correction is applied when they are read, so a better estimate never rewrites
  what was said.
"""

from __future__ import annotations

from bisect import bisect_right, insort


class EmitterClock:
    """The stated offsets of one emitter."""

    __slots__ = ("_offsets", "error_ns")

    def __init__(self) -> None:
        self._offsets: list[tuple[int, int]] = []
        self.error_ns: int | None = None
        """The largest error it stated of itself; None where it stated none."""

    def admit(self, error_ns: int) -> bool:
        """Take a statement of how far the offset may be off; whether it is more than was known."""
        if self.error_ns is not None and error_ns <= self.error_ns:
            return False
        self.error_ns = error_ns
        return True

    def state(self, at: int, offset_ns: int) -> int | None:
        """Take one statement. Returns the earliest instant of this emitter whose correction it changes, or None.

        0 means all of them.
        """
        if (at, offset_ns) in self._offsets:
            return None
        before = list(self._offsets)
        insort(self._offsets, (at, offset_ns))
        if not before:
            return None if offset_ns == 0 else 0
        earlier = [entry for entry in before if entry[0] <= at]
        later = [entry for entry in before if entry[0] > at]
        if not earlier:
            return None if later and later[0][1] == offset_ns else 0
        if earlier[-1][1] == offset_ns and (not later or later[0][1] == offset_ns):
            return None
        return earlier[-1][0]

    def offset_ns(self, at: int) -> int:
        """Emitter minus server at an instant of the emitter's clock."""
        offsets = self._offsets
        if not offsets:
            return 0
        index = bisect_right(offsets, (at, 1 << 62))
        if index == 0:
            return offsets[0][1]
        if index == len(offsets):
            return offsets[-1][1]
        (at_before, before), (at_after, after) = offsets[index - 1], offsets[index]
        return before + (after - before) * (at - at_before) // (at_after - at_before)

    def corrected(self, at: int) -> int:
        """An instant of the emitter's clock on the server's clock."""
        return at - self.offset_ns(at) if self._offsets else at

    @property
    def largest_offset_ns(self) -> int:
        """The stated offset farthest from 0; 0 while none was stated."""
        return max((offset for _, offset in self._offsets), key=abs, default=0)
