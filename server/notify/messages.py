"""Messages: what a channel is given, and the text of it.

A message says what, what it cost so far, why as far as known, a similar incident that leads somewhere, with the
reason and what helped then, and where to look.
"""

from __future__ import annotations

from dataclasses import dataclass

LINES = 10
"""Alerts told of in words; the others are counted."""


class DeliveryError(Exception):
    """A message did not reach its channel; the words hold no secret."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Where to, with its secret."""

    channel_id: int
    name: str
    kind: str
    address: str
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """One alert in a message."""

    key: str
    rule: str
    run: str
    severity: str
    change: str
    is_firing: bool
    sentence: str
    group: str
    since: int | None
    at: int
    cost: str | None = None
    verdict: str | None = None
    similar: str | None = None
    link: str | None = None
    run_name: str | None = None
    """None where the run has no other name than its id."""

    @property
    def shown_run(self) -> str:
        """The run as people know it: its name, with its id."""
        return self.run if self.run_name is None else f"{self.run_name} ({self.run})"


@dataclass(frozen=True, slots=True)
class Message:
    """What is told at once."""

    message_id: int
    group: str
    title: str
    told: tuple[Told, ...]
    count: int
    """Alerts it is about; more than `told` in a storm."""
    at: int
    link: str | None = None

    def text(self) -> str:
        """The message in words."""
        lines = []
        for each in self.told[:LINES]:
            lines.append(f"[{each.change}] {each.shown_run}: {each.sentence}")
            more = [part for part in (each.cost, each.verdict, each.similar) if part]
            lines += [f"  {part}" for part in more]
            if each.link:
                lines.append(f"  {each.link}")
        if self.count > min(LINES, len(self.told)):
            lines.append(f"and {self.count - min(LINES, len(self.told))} more alerts")
        if self.link:
            lines.append(self.link)
        return "\n".join(lines) or "This is a test: messages of rerail reach this channel."
