"""Apprise: Slack, e-mail, PagerDuty, and a hundred others by one address each, where `rerail[notify]` is installed."""

from __future__ import annotations

import logging

from rerail.server.notify.messages import Channel, DeliveryError, Message


def send(channel: Channel, message: Message) -> None:
    """Hand it to Apprise. Its own log would hold addresses with their tokens, so it stays quiet."""
    try:
        import apprise
    except ModuleNotFoundError:
        raise DeliveryError("Apprise is not installed: pip install 'rerail[notify]'") from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    sender = apprise.Apprise()
    if not sender.add(channel.address):
        raise DeliveryError("Apprise does not know such an address")
    is_firing = any(each.is_firing for each in message.told)
    kind = apprise.NotifyType.WARNING if is_firing else apprise.NotifyType.INFO
    if not sender.notify(body=message.text(), title=message.title, notify_type=kind):
        raise DeliveryError("the service did not take it")
