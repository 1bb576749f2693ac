"""Apprise: Slack, e-mail, PagerDuty, and a hundred others by one address each, where `rerail[notify]` is installed."""

from __future__ import annotations

import logging

from rerail.server.notify.messages import Channel, DeliveryError, Message

MISSING = "Apprise is not installed on this server: pip install 'rerail[notify]'"
EXAMPLES = "slack://TOKEN_A/TOKEN_B/TOKEN_C/#channel, mailto://user:password@example.org, pagerduty://KEY@TOKEN"


def refusal_of(address: str) -> str | None:
    """Why Apprise cannot deliver to an address; None where it can. Holds nothing of the address but its scheme."""
    try:
        import apprise
        from apprise.manager_plugins import NotificationManager
    except ModuleNotFoundError:
        return MISSING
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    if apprise.Apprise.instantiate(address, suppress_exceptions=True) is not None:
        return None
    scheme = address.partition("://")[0].lower()[:20]
    if scheme not in NotificationManager().schemas():
        return f"Apprise knows no service {scheme}://; addresses are like {EXAMPLES}"
    return f"Apprise knows {scheme}://, and this is no whole address of it; see https://appriseit.com/services/"


def send(channel: Channel, message: Message) -> None:
    """Hand it to Apprise. Its own log would hold addresses with their tokens, so it stays quiet."""
    try:
        import apprise
    except ModuleNotFoundError:
        raise DeliveryError(MISSING) from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    sender = apprise.Apprise()
    if not sender.add(channel.address):
        raise DeliveryError("Apprise does not know such an address")
    is_firing = any(each.is_firing for each in message.told)
    kind = apprise.NotifyType.WARNING if is_firing else apprise.NotifyType.INFO
    if not sender.notify(body=message.text(), title=message.title, notify_type=kind):
        raise DeliveryError("the service did not take it")
