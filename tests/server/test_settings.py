"""Settings: flags before environment before file before default; what is wrong is named with its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.server.errors import SettingsError
from rerail.server.instants import parse_instant
from rerail.server.settings import Role, Settings
from rerail.server.store import engines


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "rerail.toml"
    file.write_text('port = 1\nhost = "file"\ntoken = "file"\nrole = "worker"\n')
    environment = {"RERAIL_CONFIG": str(file), "RERAIL_PORT": "2", "RERAIL_HOST": "environment", "HOME": "/home/x"}
    settings = Settings.load({"port": 3, "host": None}, environment)
    assert (settings.port, settings.host, settings.token, settings.role) == (3, "environment", "file", Role.WORKER)
    assert settings.database_url == "sqlite:////home/x/.local/share/rerail/rerail.sqlite3"
    assert settings.sources["port"] == "--port"
    assert settings.sources["host"] == "RERAIL_HOST"
    assert settings.sources["token"] == str(file)
    assert settings.sources["database_url"] == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1\n", "prot is not a setting"),
        ("port = [1]\n", "port must be text or a number"),
        ("port = \n", "cannot be read"),
        ('port = "x"\n', "port 'x'"),
        ('role = "king"\n', "role 'king'"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rerail.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        Settings.load({"config": str(file)}, {})


def test_a_file_that_is_named_must_be_there() -> None:
    with pytest.raises(SettingsError, match="is not there"):
        Settings.load({"config": "/nowhere.toml"}, {})


@pytest.mark.parametrize("address", ["mysql://x", "sqlite://", "sqlite:///:memory:", "nonsense", ""])
def test_databases_that_are_not_supported_are_refused(address: str) -> None:
    with pytest.raises(SettingsError):
        engines.normalised(address)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in engines.shown(engines.normalised("postgresql://u:secret@host/db"))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1760000000123456789", 1_760_000_000_123_456_789),
        ("1760000000", 1_760_000_000 * 10**9),
        ("1760000000.5", 1_760_000_000_500_000_000),
        ("2025-10-09T08:53:20Z", 1_760_000_000 * 10**9),
        ("2025-10-09T08:53:20.123456+00:00", 1_760_000_000_123_456_000),
        ("2025-10-09 17:53:20 09:00".replace(" 09", "+09"), 1_760_000_000 * 10**9),
        ("2025-10-09T08:53:20", 1_760_000_000 * 10**9),
        ("2025-10-09", 1_759_968_000 * 10**9),
    ],
)
def test_instants_are_read_as_people_write_them(text: str, instant: int) -> None:
    assert parse_instant(text) == instant


@pytest.mark.parametrize("text", ["", "yesterday", "nan", "inf", "1e400", "2025-13-01"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="instant"):
        parse_instant(text)
