"""Gzip files that somebody gives: unpacked, with a limit on what comes out."""

from __future__ import annotations

import zlib

LARGEST_UNPACKED = 256 * 1024 * 1024
_MAGIC = b"\x1f\x8b"


def is_gzip(content: bytes) -> bool:
    """Whether bytes begin as a gzip stream does."""
    return content.startswith(_MAGIC)


def unpacked(content: bytes) -> tuple[bytes, bool]:
    """What all members of a gzip stream hold, and whether it is cut off, as where a machine died while it wrote.

    Raises ValueError where nothing comes out, or more than the limit.
    """
    parts, length, is_cut = [], 0, False
    while content and not is_cut:
        stream = zlib.decompressobj(wbits=31)
        try:
            part = stream.decompress(content, LARGEST_UNPACKED - length + 1)
        except zlib.error as error:
            if not parts:
                raise ValueError(str(error)) from None
            part = b""
        length += len(part)
        if length > LARGEST_UNPACKED:
            raise ValueError(f"more than {LARGEST_UNPACKED} bytes come out of it")
        parts.append(part)
        is_cut = not stream.eof
        content = stream.unused_data.lstrip(b"\0")
    if not length and is_cut:
        raise ValueError("it is cut off before anything comes out of it")
    return b"".join(parts), is_cut
