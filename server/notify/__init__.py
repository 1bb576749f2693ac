"""Notify: messages from the outbox to the people who want them. One file per kind of channel.

Rules
- A channel gets a `Message` and sends it, or raises `DeliveryError` with words that hold no secret.
- Everything a channel speaks to may hang: each has a time-out, and a thread of its own (`dispatch.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from rerail.server.core.channels import KINDS
from rerail.server.notify import alertmanager, apprise_channel, webhook
from rerail.server.notify.messages import Channel, DeliveryError, Message

__all__ = ["Channel", "DeliveryError", "Message", "send"]

_SENDERS: dict[str, Callable[[Channel, Message], None]] = {
    "webhook": webhook.send,
    "alertmanager": alertmanager.send,
    "apprise": apprise_channel.send,
}
assert set(_SENDERS) == set(KINDS)


def send(channel: Channel, message: Message) -> None:
    """Deliver one message. Raises DeliveryError."""
    _SENDERS[channel.kind](channel, message)
