"""Source: the seam of everything that is polled for facts: logs, schedulers, metrics.

A source has a stable `name`, and `poll(cursor)`, which gives the facts since that cursor and the next cursor. What it
promises, and `tests/collectors/test_contract.py` holds every one to:

- The cursor is text that the caller keeps. A new instance given an old cursor goes on where the old one stopped;
  `None` is the beginning of what can still be seen.
- `(emitter, seq)` follows from what was observed (a byte position, a resource version), never from when or how often
  it was looked at: polled again from an older cursor, the same facts come under the same identity.
- Broken, half-written or hostile bytes never raise. What makes no sense is passed over.
- A source that cannot see raises `SourceDown`, and never answers with nothing: unknown is not gone.
- A source of several runs has `runs`, those it tells of now: what it could not see is stated for each. One that holds
  threads or connections has `close`.
- One that holds back what more may soon belong to has `leave(cursor)`: a poll that states it, since nobody may look
  again. One whose look may take long has `heed(stop)`: once that is set the look ends at once, with `LookGivenUp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rerail.server.core.facts import Fact


class SourceDown(Exception):  # noqa: N818 - named as the condition it tells
    """The source cannot see at the moment; the message says why."""


class LookGivenUp(Exception):  # noqa: N818 - named as the condition it tells
    """The look was not ended, since its process is asked to stop: nothing was seen, and nothing is blind."""


class NotConfigured(Exception):  # noqa: N818 - named as the condition it tells
    """A source cannot be made of what was told: where it is, or who we are; the message says what to give."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What one look gave, and where the next begins."""

    facts: tuple[Fact, ...]
    cursor: str


@runtime_checkable
class Source(Protocol):
    """Something that is polled for facts. One thread at a time."""

    name: str

    def poll(self, cursor: str | None) -> Polled:
        """Facts since `cursor`. Raises `SourceDown`."""
        ...

    def finish(self, cursor: str | None) -> Polled:
        """Everything that is there now, whatever was waited for: the last look at what will not change any more.

        Raises `SourceDown`.
        """
        ...
