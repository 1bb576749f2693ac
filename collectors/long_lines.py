"""Long lines: the lines of a file that somebody gives, without holding one that does not end.

Rules
- A line longer than `LONGEST_LINE` is passed over piece by piece, and told with its number and its length.
- Zero bytes make no line long: a machine that crashed leaves as many as it likes in front of what it wrote next. Where
  they come in such numbers they are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

from rerail.server.core.codec import FactError

LONGEST_LINE = 16 * 1024 * 1024
_PIECE = 1 << 20


def lines_of(
    file: BinaryIO,
    refuse: Callable[[int, FactError], object],
    *,
    left_out: Callable[[int], object] = lambda _: None,
    longest: int = LONGEST_LINE,
) -> Iterator[tuple[int, bytes]]:
    """`(number from 1, line with its end)`; the last may have none. Raises what reading the file raises.

    `refuse` hears of each line that is passed over, `left_out` at the end how many zero bytes were, where any were.
    """
    number = zeros = 0
    while line := file.readline(longest + 1):
        number += 1
        is_filled = len(line) > longest
        while is_filled and line.startswith(b"\0"):
            text = line.lstrip(b"\0")
            zeros += len(line) - len(text)
            line = text + (b"" if text.endswith(b"\n") else file.readline(longest + 1 - len(text)))
        if len(line) > longest and not line.endswith(b"\n"):
            size = len(line)
            while (piece := file.readline(_PIECE)) and not piece.endswith(b"\n"):
                size += len(piece)
            size += len(piece)
            refuse(number, FactError("line", f"{size} bytes", f"longer than {longest} bytes: passed over"))
        elif line:
            yield number, line
    if zeros:
        left_out(zeros)
