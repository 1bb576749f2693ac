"""Tracebacks: the last line of each, out of a log where several processes print at once.

Rules
- A traceback stays in its stream (the prefix that names its process). Streams are told apart; two processes that
  print without a prefix cannot be.
- The last line is the first after the frames that is not indented. Of a chain (`During handling …`) every part has
  one.
- Of the frames three things are kept: the innermost, the innermost that is the user's own, and whether they went
  through the data loader or through saving and loading checkpoints. An exception's name alone seldom tells that.
- Open tracebacks are part of the cursor of a source, so they are plain data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = "Traceback (most recent call last)"
LONGEST_LINE = 4000
MOST_STREAMS = 4096
_BREAK = "\x1f"
"""Between the parts of what is kept of an open traceback; masking and control characters never let it through."""

_FRAME = re.compile(r'^\s{0,40}File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9}), in (?P<function>\S{1,300})')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]{0,300}(?:: |:$|$)")
_FOREIGN = (
    "site-packages/", "dist-packages/", "/lib/python3", "<frozen ", "<string>", "/nvidia_resiliency_ext/", "/torch/",
)  # fmt: skip
_LOADER = ("torch/utils/data/", "multiprocessing/connection.py", "multiprocessing/queues.py", "webdataset/")
_CHECKPOINT = ("torch/distributed/checkpoint/", "torch/serialization.py", "/safetensors/", "dist_checkpointing/")
_CHECKPOINT_PATH = re.compile(r"(?:^|/)(?:checkpoint(?:ing)?/\w{1,80}|\w{0,40}checkpoint\w{0,40})\.py$", re.I)
_RECOMPUTES = re.compile(r"torch/utils/checkpoint\.py|activation|recompute", re.I)
"""Files named for checkpoints that save no state, but memory."""
_SAMPLES = ("__getitem__", "__getitems__", "collate_fn", "__iter__")
"""Functions of a data set, in a file that is named for data: a loader without workers calls them itself."""
_CHECKPOINT_NAME = re.compile(
    r"(?:save|load|write|restore)_?\w{0,40}(?:checkpoint|ckpt|state_dict)|checkpoint_?(?:save|load)", re.I
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A traceback that is complete."""

    last: str
    """Its last line: the exception."""
    frame: str
    """The innermost frame, `file:line in function`."""
    own_frame: str
    """The innermost frame that is the user's own, `file:function`; empty where none is."""
    through: str
    """`data_loader`, `checkpoint` or nothing."""


class Tracebacks:
    """Follows the open tracebacks of all streams. `open` maps a stream to what is known of its frames so far."""

    def __init__(self, open_streams: dict[str, str] | None = None) -> None:
        self.open = dict(open_streams or {})

    def take(self, stream: str, text: str) -> Ended | None:
        """Take a line; gives the traceback it ends."""
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
                self._frame(stream, frame["file"], frame["line"], frame["function"])
            return None
        kept = self.open.pop(stream).split(_BREAK)
        if _EXCEPTION.match(text) is None:
            return None
        frame_text, own, through = (*kept, "", "", "")[:3]
        return Ended(text[:LONGEST_LINE], frame_text, own, through)

    def inside(self, stream: str) -> bool:
        """A traceback of this stream is open."""
        return stream in self.open

    def _frame(self, stream: str, path: str, line: str, function: str) -> None:
        _, own, through = (*self.open[stream].split(_BREAK), "", "", "")[:3]
        path = path.replace(_BREAK, "").replace("\\", "/")
        if not any(part in path for part in _FOREIGN):
            own = f"{path.rpartition('/')[2][:120]}:{function[:120]}"
        if any(part in path for part in _LOADER) or (not through and _is_of_data(path, function)):
            through = "data_loader"
        elif not through and (
            any(part in path for part in _CHECKPOINT)
            or _CHECKPOINT_NAME.search(function)
            or (_CHECKPOINT_PATH.search(path) and not _RECOMPUTES.search(path))
        ):
            through = "checkpoint"
        self.open[stream] = _BREAK.join((f"{path}:{line} in {function}"[:500], own, through))


def _is_of_data(path: str, function: str) -> bool:
    """Whether a frame is of a data set that reads a sample."""
    return function in _SAMPLES and "data" in path.rpartition("/")[2]
