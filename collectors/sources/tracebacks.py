"""Tracebacks: the last line of each, out of a log where several processes print at once.

Rules
- A traceback stays in its stream (the prefix that names its process). Streams are told apart; two processes that
  print without a prefix cannot be.
- The last line is the first after the frames that is not indented. Of a chain (`During handling …`) every part has
  one.
- Open tracebacks are part of the cursor of a source, so they are plain data.
"""

from __future__ import annotations

import re

HEAD = "Traceback (most recent call last):"
LONGEST_LINE = 4000
MOST_STREAMS = 4096

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: |:$|$)")


class Tracebacks:
    """Follows the open tracebacks of all streams. `open` maps a stream to its last frame so far."""

    def __init__(self, open_streams: dict[str, str] | None = None) -> None:
        self.open = dict(open_streams or {})

    def take(self, stream: str, text: str) -> tuple[str, str] | None:
        """Take a line; gives `(last line, last frame)` when it ends a traceback."""
        if HEAD in text:
            if len(self.open) >= MOST_STREAMS:
                self.open.clear()
            self.open[stream] = ""
            return None
        if stream not in self.open:
            return None
        if not text.strip():
            return None
        if text[0].isspace() or text.startswith(("|", "+")):
            if frame := _FRAME.match(text):
                self.open[stream] = f"{frame['file']}:{frame['line']} in {frame['function']}"[:500]
            return None
        frame_text = self.open.pop(stream)
        if _EXCEPTION.match(text) is None:
            return None
        return text[:LONGEST_LINE], frame_text

    def inside(self, stream: str) -> bool:
        """A traceback of this stream is open."""
        return stream in self.open
