"""A checkpoint could not be understood: it is damaged or incomplete. One of another model is the program's mistake."""

from __future__ import annotations

from rerail.server.core.cause_rules import CauseRule, line
from rerail.server.core.view import Domain

SHARD = r"(?:model|weights?|optim\w{0,6}|ckpt|distcp|checkpoint)[ _-]shard"
"""Shards are also those of a data set: alone the word says nothing of a checkpoint."""
SAYS = "{where} could not use a checkpoint: {words}."

RULE = CauseRule(
    name="checkpoint_corrupt",
    domain=Domain.UNKNOWN,
    advice="Load an older checkpoint; check the sizes and checksums of the damaged one before it is loaded again.",
    order=20,
    lines=(
        line(
            r"PytorchStreamReader failed[^\n]{0,120}"
            r"|invalid header or archive is corrupted|failed finding central directory"
            rf"|(?:checkpoint|{SHARD}|state[_ ]dict|safetensors)"
            r"[^\n]{0,80}(?:is |are |was |file )?(?:corrupt(?:ed)?|truncated|incomplete)\b[^\n]{0,60}"
            rf"|corrupt(?:ed)? (?:checkpoint|{SHARD}|state)[^\n]{{0,80}}"
            r"|checksum mismatch[^\n]{0,120}|SafetensorError[^\n]{0,120}"
            r"|BadZipFile: [^\n]{0,120}|Bad CRC-32 for file[^\n]{0,120}"
            r"|Error while deserializing header[^\n]{0,80}|UnpicklingError[^\n]{0,120}"
            r"|checkpoint[^\n]{0,60}checksum[^\n]{0,80}(?:mismatch|fail)[^\n]{0,40}"
            r"|metadata is None[^\n]{0,120}",
            SAYS,
            confidence=0.85,
            unless=r"skipping|falling back|NCCL|No space left|StorageFull|QuotaExceeded"
            r"|while serializing: I/?O",
        ),
    ),
)
