"""Documents: derived results to bytes and back, without loss.

Rules
- The dataclasses of `core/view.py` are written as they are: JSON by their field names, compressed. A field
  added with a default reads back from an older document; any other change needs `rerail replay`.
- Spans, step points, checkpoints and rollups are kept in blocks, so that a live run rewrites its tail and not its
  history.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

import msgspec
import zstandard

from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.rollup import RollupBin
from rerail.server.core.view import Checkpoint, Incident, RunView, Span, StepPoint
from rerail.server.query_results import ArtefactRow, RunMarks, RunRow

BLOCK_LENGTH = 128
"""Spans, step points or checkpoints in one block: the last of them is written again at every step."""

REMEMBERED_BLOCKS = 512
"""Blocks whose content is kept decoded, by what they hold: about 15 MB at most."""

Document = TypeVar("Document")
Item = TypeVar("Item")

_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        RunView,
        Incident,
        NodeHistory,
        Stretch,
        RunRow,
        RunMarks,
        ArtefactRow,
        list[Span],
        list[StepPoint],
        list[Checkpoint],
        list[RollupBin],
    )
}
_parts: dict[object, msgspec.json.Decoder] = {}


def pack_lines(lines: Iterable[bytes]) -> bytes:
    """Lines of the log, compressed. A compressor of its own each time: one cannot be shared between threads."""
    return zstandard.ZstdCompressor(level=1).compress(b"\n".join(lines))


def unpack_lines(packed: bytes) -> bytes:
    """Lines out of `pack_lines`, one to a line."""
    return zstandard.ZstdDecompressor().decompress(packed)


def document(value: object) -> bytes:
    """A result, or a block of them, as compressed JSON."""
    return zstandard.ZstdCompressor(level=1).compress(_encoder.encode(value))


@lru_cache(maxsize=REMEMBERED_BLOCKS)
def read_block(kind: type[list[Item]], packed: bytes) -> tuple[Item, ...]:
    """What is in a block, as `read_document` has it. Most blocks of a run never change, and are asked for often."""
    return tuple(read_document(kind, packed))


def read_part(kind: type[Document], packed: bytes) -> Document:
    """Those fields of a document that `kind` has; the others are stepped over, not read."""
    decoder = _parts.get(kind)
    if decoder is None:
        decoder = _parts[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(zstandard.ZstdDecompressor().decompress(packed))


def read_document(kind: type[Document], packed: bytes) -> Document:
    """What is in a document of one of the kinds above. Raises ValueError where it is of another shape."""
    return _decoders[kind].decode(zstandard.ZstdDecompressor().decompress(packed))
