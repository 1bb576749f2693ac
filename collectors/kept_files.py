"""Kept files: what of a file that somebody gives is stored, which is the file without its secrets.

Rules
- A file is kept in one of three forms, and in no other: as text that was masked, as the plain values of a dump with
  masked texts, or as a picture without the words beside it. Whatever cannot be brought into one of them is refused,
  with a sentence that says why: nobody could mask it.
- Text is masked piece by piece, whatever its encoding; zero bytes, which would part a secret, are left out first.
- What is packed (`packed_files.py`) is unpacked, masked and packed again; what is packed oftener than twice, in a way
  that is not known here, or several files in one, is refused.
- A file that is not packed and in which nothing had to be changed is kept byte by byte.
"""

from __future__ import annotations

import pickle

from rerail.collectors.masking import masked_bytes, masked_writing
from rerail.collectors.packed_files import foreign_packing_of, opened, packed
from rerail.collectors.patience import Patience
from rerail.collectors.pictures import looks_like_picture, picture_alone
from rerail.collectors.sources.encodings import is_binary, text_bytes, without_nul
from rerail.server.core.flight_recorder.pickles import PROTOCOL, is_old_pickle, is_pickle, read_whole_pickle

FOREIGN = "it is packed as {packing}, which is not unpacked here: nobody could mask what is in it"
BINARY = "it is neither text, a dump nor a picture: nobody could mask what is in it"
OLD_PICKLE = "a pickle of protocol 0 or 1: a flight recorder writes protocol 2, and nothing else is read"
TAPE = "it is several files in one (tar): nobody could mask what is in it"


def kept(content: bytes, patience: Patience | None = None) -> bytes:
    """What of a file is stored. Raises ValueError for a file that may hold secrets that nobody can reach."""
    inner, layers, _ = opened(content, patience)
    shown = _kept(inner, patience)
    # Packed bytes have room for words of their own (names, comments, what stands behind the end): always packed anew.
    for packing in reversed(layers):
        shown = packed(shown, packing, patience)
    return shown


def _kept(content: bytes, patience: Patience | None) -> bytes:
    if looks_like_picture(content):
        return picture_alone(content)
    if is_pickle(content):
        return _dump(content)
    if is_old_pickle(content):
        raise ValueError(OLD_PICKLE)
    if (packing := foreign_packing_of(content)) is not None:
        raise ValueError(FOREIGN.format(packing=packing))
    if content[257:262] == b"ustar":
        raise ValueError(TAPE)
    text = text_bytes(content)
    if is_binary(text):
        raise ValueError(BINARY)
    text, nuls = without_nul(text)
    shown = masked_bytes(text, patience)
    return content if shown == text and text == content and not nuls else shown


def _dump(content: bytes) -> bytes:
    """A dump with masked texts. Raises ValueError for one that cannot be read to its last byte."""
    value = read_whole_pickle(content)
    masker = _Masker()
    shown = masker.of(value)
    return pickle.dumps(shown, protocol=PROTOCOL) if masker.has_masked else content


class _Masker:
    """Plain values with masked texts; what several places share is looked at once.

    It goes as deep as the values are nested, which the reader of pickles limits.
    """

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
            shown = self._texts[text] = masked_writing(text.replace("\0", "") if "\0" in text else text)
            # A letter that is none stands for bytes that are no text: whatever they were, they are not kept.
            self.has_masked |= shown != text or "\ufffd" in text
        return shown
