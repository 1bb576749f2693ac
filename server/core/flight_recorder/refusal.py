"""Refusals: the one error of this package, and the limits that hostile input runs into.

A dump comes from a training job or from whoever may upload a file. Everything that is read has a limit, so that time
and memory are bounded whatever the bytes are.
"""

from __future__ import annotations

MOST_BYTES = 64 * 1024 * 1024
MOST_OPCODES = 12_000_000
MOST_CONTAINERS = 1_000_000
MOST_TEXTS = 2_000_000
"""Several times what a ring of 20,000 entries takes with a stack of 30 frames each; the default ring has 2,000."""

MOST_ENTRIES = 200_000
MOST_VALUES = 4_000_000
"""Values looked at in one dump, shared ones each time: a list in itself a thousand times over does not multiply."""

MOST_DEPTH = 64
"""Lists and mappings in one another; a recorder's frames lie four deep."""

MOST_ITEMS = 1_000_000
"""Of one list or mapping."""

LONGEST_TEXT = 100_000
LONGEST_NUMBER_BYTES = 16


class DumpRefusedError(ValueError):
    """What is wrong with a dump, in a sentence, with the place and the value where there is one."""
