"""`rerail secrets`: how the secrets of channels lie in the database, a new key, and sealing anew with it."""

from __future__ import annotations

import argparse
import json
import sys

from rerail.server.commands import opened_store, settings_of
from rerail.server.store.alert_rows import ChannelRow

HOW = """\
# Keep it where the database and its backups are not, readable by the server alone:
#   rerail secrets new-key > /etc/rerail/secret.key && chmod 600 /etc/rerail/secret.key
#   RERAIL_SECRET_KEY_FILE=/etc/rerail/secret.key rerail serve
# To change a key put the new one on the line above the old, `rerail secrets rotate`, take the old one away."""


def show(parsed: argparse.Namespace) -> int:
    """How each channel's address and secret are kept; 1 where one lies in clear or cannot be opened."""
    with opened_store(settings_of(parsed)) as store:
        channels = store.alerts.channels()
    if parsed.json:
        print(json.dumps([{"channel_id": each.channel_id, "name": each.name, "kept": kept(each)} for each in channels]))
    else:
        for each in channels:
            print(f"{each.name}: {kept(each)}")
        if not channels:
            print("no channel, so no secret")
    return 1 if any(each.is_locked or not each.is_sealed for each in channels) else 0


def kept(channel: ChannelRow) -> str:
    """How it is kept, in words."""
    if channel.is_locked:
        return "sealed with a key that is not here"
    return "sealed" if channel.is_sealed else "in clear"


def make_key(_parsed: argparse.Namespace) -> int:
    """Print a new key; what to do with it goes to standard error."""
    from rerail.server.sealing import new_key

    print(new_key())
    print(HOW, file=sys.stderr)
    return 0


def rotate(parsed: argparse.Namespace) -> int:
    """Seal everything anew with the first key; 1 where something could not be opened."""
    settings = settings_of(parsed)
    if not settings.secret_key and not settings.secret_key_file:
        print("rerail: no key is set: RERAIL_SECRET_KEY or RERAIL_SECRET_KEY_FILE; `rerail secrets new-key` prints one",
              file=sys.stderr)  # fmt: skip
        return 1
    with opened_store(settings) as store:
        done = store.alerts.reseal(everything=True)
    print(f"{done.sealed} channels sealed with the first key", file=sys.stderr)
    for name in done.locked:
        print(f"  {name}: no key that is set opens it; set the old one too, or give its address and secret again",
              file=sys.stderr)  # fmt: skip
    return 1 if done.locked else 0
