"""Sealing: addresses and secrets of channels as the database keeps them, where a key is set.

Rules
- Keys are Fernet keys (AES-128-CBC with HMAC-SHA256, of the package `cryptography`), the newest first. The first one
  seals; all of them open, so that a key is changed without a moment in which nothing can be sent.
- What is sealed begins with `SEALED`; what does not was kept in clear, by a server that had no key.
- What no key opens is never taken for something else: it is None, and who needs it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rerail.server.errors import SettingsError
from rerail.server.settings import Settings
from rerail.server.store import SEALED

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


class KeySealing:
    """Seals with the first of some keys, opens with each of them."""

    is_on = True

    def __init__(self, keys: MultiFernet) -> None:
        self._keys = keys

    def sealed(self, text: str) -> str:
        """What the database keeps of a text."""
        return SEALED + self._keys.encrypt(text.encode()).decode()

    def opened(self, kept: str) -> str | None:
        """The text; None where no key opens it."""
        from cryptography.fernet import InvalidToken

        if not kept.startswith(SEALED):
            return kept
        try:
            return self._keys.decrypt(kept.removeprefix(SEALED)).decode()
        except InvalidToken:
            return None


def sealing_of(settings: Settings) -> KeySealing | None:
    """How these settings want secrets kept; None for in clear. Raises SettingsError for a key that is none."""
    keys = [(key, settings.sources.get("secret_key", "")) for key in (settings.secret_key or "").split(",")]
    if settings.secret_key_file:
        source = settings.sources.get("secret_key_file", "")
        try:
            lines = Path(settings.secret_key_file).expanduser().read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise SettingsError(f"secret_key_file {settings.secret_key_file} ({source}): {reason}") from None
        found = [(line, source) for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if not found:
            raise SettingsError(f"secret_key_file {settings.secret_key_file} ({source}) holds no key")
        keys += found
    told = [(key.strip(), source) for key, source in keys if key.strip()]
    return _sealing(told) if told else None


def _sealing(told: Sequence[tuple[str, str]]) -> KeySealing:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ModuleNotFoundError:
        raise SettingsError(
            f"secret_key is set ({told[0][1]}), and nothing here can use it: pip install 'rerail[server]'"
        ) from None
    made = []
    for number, (key, source) in enumerate(told, 1):
        try:
            made.append(Fernet(key))
        except ValueError:
            raise SettingsError(
                f"key {number} of {source or 'secret_key'} is no key (its value is not shown): "
                "`rerail secrets new-key` prints one"
            ) from None
    return KeySealing(MultiFernet(made))


def new_key() -> str:
    """A key that nobody has yet."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()
