"""Documents: derived results to bytes and back, without loss.

Rules
- The dataclasses of `core/view.py` are written as they are: JSON by their field names, compressed. A field
  added with a default reads back from an older document; any other change needs `rerail replay`.
- Spans and step points are kept in blocks, so that a live run rewrites its tail and not its history.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
import zstandard

from rerail.server.core.view import Incident, RunView, Span, StepPoint
from rerail.server.query_results import RunRow

BLOCK_LENGTH = 512
"""Spans or step points in one block."""

Document = TypeVar("Document")

_encoder = msgspec.json.Encoder()
_decoders: dict[type, msgspec.json.Decoder] = {
    RunView: msgspec.json.Decoder(RunView),
    Incident: msgspec.json.Decoder(Incident),
    RunRow: msgspec.json.Decoder(RunRow),
}
_spans = msgspec.json.Decoder(list[Span])
_points = msgspec.json.Decoder(list[StepPoint])


def pack_lines(lines: Iterable[bytes]) -> bytes:
    """Lines of the log, compressed. A compressor of its own each time: one cannot be shared between threads."""
    return zstandard.ZstdCompressor(level=1).compress(b"\n".join(lines))


def unpack_lines(packed: bytes) -> bytes:
    """Lines out of `pack_lines`, one to a line."""
    return zstandard.ZstdDecompressor().decompress(packed)


def document(value: RunView | Incident | RunRow) -> bytes:
    """A result as compressed JSON."""
    return zlib.compress(_encoder.encode(value), 1)


def read_document(kind: type[Document], packed: bytes) -> Document:
    """The result in a document. Raises ValueError where the document is of another shape."""
    return _decoders[kind].decode(zlib.decompress(packed))


def span_block(spans: Sequence[Span]) -> bytes:
    """A block of spans."""
    return zlib.compress(_encoder.encode(spans), 1)


def read_span_block(packed: bytes) -> list[Span]:
    """The spans in a block."""
    return _spans.decode(zlib.decompress(packed))


def step_point_block(points: Sequence[StepPoint]) -> bytes:
    """A block of step points."""
    return zlib.compress(_encoder.encode(points), 1)


def read_step_point_block(packed: bytes) -> list[StepPoint]:
    """The step points in a block."""
    return _points.decode(zlib.decompress(packed))
