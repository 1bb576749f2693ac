"""Kept files: what of a file that somebody gives is stored, which is the file without its secrets.

Rules
- Text is masked line by line, whatever its encoding; text in gzip is unpacked, masked and packed again.
- A dump that can be read is written anew with masked texts, as the plain values it holds: whoever fetches it can read
  it like the one that was given. What says that it is a pickle and cannot be read keeps its length and loses what looks
  like a secret, since nobody knows where its texts begin.
- A file in which nothing had to be masked is kept byte by byte. Pictures and other binary files are kept as they are.
"""

from __future__ import annotations

import gzip
import pickle

from rerail.collectors.gzip_files import is_gzip, unpacked
from rerail.collectors.masking import masked_lines, masked_same_length, masked_writing
from rerail.collectors.sources.encodings import is_binary, text_bytes
from rerail.server.core.flight_recorder.pickles import PROTOCOL, is_old_pickle, is_pickle, read_pickle
from rerail.server.core.flight_recorder.refusal import DumpRefusedError

_RECORDED = bytes((0x80, PROTOCOL))
"""How a dump begins that PyTorch wrote: a zero byte stands before each of its texts, so that patterns find what is in
them without reading it."""
_PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF-")


def kept(content: bytes) -> bytes:
    """What of a file is stored. Raises ValueError for a file that may hold secrets that nobody can reach."""
    if not is_gzip(content):
        return _kept(content)
    try:
        inner, _ = unpacked(content)
    except ValueError as error:
        raise ValueError(f"it is gzip that cannot be unpacked: {error}") from None
    shown = _kept(inner)
    return content if shown == inner else gzip.compress(shown, mtime=0)


def _kept(content: bytes) -> bytes:
    if content.startswith(_PICTURES):
        return content
    if is_pickle(content) or is_old_pickle(content):
        return _dump(content)
    text = text_bytes(content)
    if is_binary(text):
        return content
    shown = masked_lines(text.decode("utf-8", "replace"))
    return content if shown.encode() == text else shown.encode()


def _dump(content: bytes) -> bytes:
    """A dump with masked texts."""
    if content[:2] == _RECORDED and masked_same_length(content) == content:
        return content
    try:
        value = read_pickle(content)
    except DumpRefusedError:
        return masked_same_length(content)
    masker = _Masker()
    shown = masker.of(value)
    return pickle.dumps(shown, protocol=PROTOCOL) if masker.has_masked else content


class _Masker:
    """Plain values with masked texts; what several places share is looked at once."""

    def __init__(self) -> None:
        self.has_masked = False
        self._texts: dict[str, str] = {}
        self._shared: dict[int, object] = {}

    def of(self, value: object) -> object:
        """The value without secrets."""
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, (list, tuple, dict)):
            return value
        known = self._shared.get(id(value))
        if known is not None:
            return known
        found: object
        if isinstance(value, dict):
            found = self._shared[id(value)] = {}
            for key, item in value.items():
                found[self.of(key)] = self.of(item)  # type: ignore[index]
        elif isinstance(value, list):
            found = self._shared[id(value)] = []
            found.extend(map(self.of, value))  # type: ignore[attr-defined]
        else:
            found = self._shared[id(value)] = tuple(map(self.of, value))
        return found

    def _text(self, text: str) -> str:
        shown = self._texts.get(text)
        if shown is None:
            shown = self._texts[text] = masked_writing(text)
            self.has_masked |= shown != text
        return shown
