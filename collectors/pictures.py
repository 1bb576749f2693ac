"""Pictures that somebody gives: the picture, without the words that its file carries beside it.

Rules
- Only the parts that draw are kept: of PNG, GIF, JPEG and WebP those that are named here. Comments, metadata,
  thumbnails and whatever stands behind the end are left out, since that is where a file hides words.
- A file that only begins like a picture is none. What a picture shows, nobody here can read or mask.
"""

from __future__ import annotations

import struct

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_PARTS = frozenset(
    (
        b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"sBIT", b"pHYs", b"bKGD", b"acTL",
        b"fcTL", b"fdAT",
    )
)  # fmt: skip
_WEBP_PARTS = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH"))
"""Frames of an animation hold parts of their own, and are left out."""
_SMALLEST_WEBP = 12


class NoPictureError(ValueError):
    """Bytes that begin like a picture and are none."""


def looks_like_picture(content: bytes) -> bool:
    """Whether bytes begin as one of these pictures does."""
    return content.startswith((b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")) or content[:4] == b"RIFF"


def picture_alone(content: bytes) -> bytes:
    """The picture and nothing else of its file. Raises NoPictureError."""
    try:
        if content.startswith(_PNG):
            return _png(content)
        if content.startswith(b"\xff\xd8\xff"):
            return _jpeg(content)
        if content.startswith(b"GIF8"):
            return _gif(content)
        if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            return _webp(content)
    except (IndexError, struct.error):
        raise NoPictureError("it begins like a picture and is broken or cut off") from None
    raise NoPictureError("it begins like a picture and is none")


def _taken(content: bytes, start: int, length: int) -> bytes:
    if start + length > len(content):
        raise IndexError
    return content[start : start + length]


def _png(content: bytes) -> bytes:
    parts, at = [_PNG], len(_PNG)
    while True:
        length, name = struct.unpack_from(">I4s", content, at)
        whole = _taken(content, at, length + 12)
        if name in _PNG_PARTS:
            parts.append(whole)
        at += len(whole)
        if name == b"IEND":
            if length:
                raise NoPictureError("the end of the PNG is not empty")
            return b"".join(parts)


def _jpeg(content: bytes) -> bytes:
    parts, at = [b"\xff\xd8"], 2
    while True:
        while content[at + 1] == 0xFF and content[at] == 0xFF:
            at += 1
        if content[at] != 0xFF:
            raise NoPictureError("the parts of the JPEG do not follow one another")
        kind = content[at + 1]
        if kind == 0xD9:
            return b"".join([*parts, b"\xff\xd9"])
        length = struct.unpack_from(">H", content, at + 2)[0]
        whole = _taken(content, at, length + 2)
        # APP0 to APP15 and comments carry words; Adobe's APP14 says how the colours are to be read.
        if not (0xE0 <= kind <= 0xEF or kind == 0xFE) or (kind == 0xEE and whole[4:9] == b"Adobe" and length == 14):
            parts.append(whole)
        at += len(whole)
        if kind == 0xDA:
            begin = at
            while not (content[at] == 0xFF and content[at + 1] not in (0, *range(0xD0, 0xD8))):
                at = content.find(b"\xff", at + 1)
                if at < 0:
                    raise IndexError
            parts.append(content[begin:at])


def _gif(content: bytes) -> bytes:
    at = 13 + (3 << (content[10] & 7) + 1 if content[10] & 0x80 else 0)
    parts = [_taken(content, 0, at)]
    while content[at] != 0x3B:
        begin = at
        if content[at] == 0x21:
            label = content[at + 1]
            at = _behind_blocks(content, at + 2)
            is_loop = label == 0xFF and content[begin + 3 : begin + 14] == b"NETSCAPE2.0" and at - begin <= 20
            if label == 0xF9 or is_loop:
                parts.append(content[begin:at])
        elif content[at] == 0x2C:
            flags = content[at + 9]
            at += 10 + (3 << (flags & 7) + 1 if flags & 0x80 else 0) + 1
            at = _behind_blocks(content, at)
            parts.append(content[begin:at])
        else:
            raise NoPictureError("the parts of the GIF do not follow one another")
    return b"".join([*parts, b"\x3b"])


def _behind_blocks(content: bytes, at: int) -> int:
    while length := content[at]:
        at += length + 1
    return at + 1


def _webp(content: bytes) -> bytes:
    end = min(len(content), struct.unpack_from("<I", content, 4)[0] + 8)
    parts, at = [], _SMALLEST_WEBP
    while at < end:
        name, length = struct.unpack_from("<4sI", content, at)
        whole = _taken(content, at, 8 + length + length % 2)
        if name == b"VP8X":
            flags = whole[8] & ~0b0010_1100  # No colour profile, Exif or XMP stands in it any more.
            whole = whole[:8] + bytes((flags,)) + whole[9:]
        if name in _WEBP_PARTS:
            parts.append(whole)
        at += len(whole)
    if not parts:
        raise NoPictureError("nothing in the WebP draws")
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body
