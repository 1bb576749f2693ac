"""Settings: what can be set, and where from. Nothing else in the server reads the environment.

Rules
- Flags win over the environment, the environment over the file, the file over the defaults. Each value knows where it
  came from, so that a wrong one can be found.
- The file is TOML: the one that `--config` or `RERAIL_CONFIG` names, else `~/.config/rerail/rerail.toml` if it is
  there. Its keys are the field names below. A key that is not one is an error, not silence.

| setting | environment | default |
|---|---|---|
| database_url | RERAIL_DATABASE_URL | sqlite in `$XDG_DATA_HOME/rerail` or `~/.local/share/rerail` |
| url | RERAIL_URL | none: the database is read directly |
| token | RERAIL_TOKEN | none: everyone may state facts |
| host | RERAIL_HOST | 127.0.0.1 |
| port | RERAIL_PORT | 8050 |
| role | RERAIL_ROLE | all |
| public_url | RERAIL_PUBLIC_URL | none: messages of alerts hold no links |
| keep_log_days | RERAIL_KEEP_LOG_DAYS | none: the log of every run is kept for ever |
| largest_artefact_mb | RERAIL_LARGEST_ARTEFACT_MB | 64 |
| secret_key | RERAIL_SECRET_KEY | none: secrets of channels lie in clear in the database |
| secret_key_file | RERAIL_SECRET_KEY_FILE | none |
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from rerail.server.errors import SettingsError


class Role(StrEnum):
    """What a server process does."""

    ALL = "all"
    WEB = "web"
    """Takes facts, answers pages and the API."""
    WORKER = "worker"
    """Derives views."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set."""

    database_url: str
    url: str | None = None
    token: str | None = None
    host: str = "127.0.0.1"
    port: int = 8050
    role: Role = Role.ALL
    public_url: str | None = None
    """How people reach this server's pages: what links in messages of alerts begin with."""
    keep_log_days: int | None = None
    """How long the log of a run is kept after its end; None for ever. `rerail retain` is what lets it go."""
    largest_artefact_mb: int = 64
    """Of one file that somebody gives to an incident."""
    secret_key: str | None = field(default=None, repr=False)
    """Keys that seal the secrets of channels, separated by commas, the newest first. See `sealing.py`."""
    secret_key_file: str | None = None
    """A file of such keys, one a line, after those of `secret_key`."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value came from: `flag`, `RERAIL_…`, the path of a file, or `default`."""

    @classmethod
    def load(cls, flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
        """Settings from flags, environment and file. Raises SettingsError, naming the value and its source."""
        environment = os.environ if environment is None else environment
        flags = {} if flags is None else {name: value for name, value in flags.items() if value is not None}
        file = _file(flags.get("config"), environment)
        stated = {} if file is None else _read(file)
        values: dict[str, object] = {}
        sources: dict[str, str] = {}
        for name in SETTINGS:
            variable = f"RERAIL_{name.upper()}"
            if name in flags:
                values[name], sources[name] = flags[name], f"--{name.replace('_', '-')}"
            elif environment.get(variable):
                values[name], sources[name] = environment[variable], variable
            elif name in stated:
                values[name], sources[name] = stated[name], str(file)
            else:
                sources[name] = "default"
        values.setdefault("database_url", default_database_url(environment))
        if "port" in values:
            values["port"] = _port(values["port"], sources["port"])
        if "role" in values:
            values["role"] = _role(values["role"], sources["role"])
        if "keep_log_days" in values:
            values["keep_log_days"] = _days(values["keep_log_days"], sources["keep_log_days"])
        if "largest_artefact_mb" in values:
            values["largest_artefact_mb"] = _megabytes(values["largest_artefact_mb"], sources["largest_artefact_mb"])
        return cls(**values, sources=sources)  # type: ignore[arg-type]


SETTINGS = tuple(entry.name for entry in fields(Settings) if entry.name != "sources")


def default_database_url(environment: Mapping[str, str]) -> str:
    """An SQLite file where this user's programs keep their data."""
    home = environment.get("XDG_DATA_HOME") or str(Path(environment.get("HOME") or Path.home()) / ".local" / "share")
    return f"sqlite:///{home}/rerail/rerail.sqlite3"


def _file(named: object, environment: Mapping[str, str]) -> Path | None:
    named = named or environment.get("RERAIL_CONFIG")
    if named:
        path = Path(str(named)).expanduser()
        if not path.is_file():
            raise SettingsError(f"the settings file {path} is not there")
        return path
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME") or Path.home()) / ".config")
    path = Path(home) / "rerail" / "rerail.toml"
    return path if path.is_file() else None


def _read(path: Path) -> dict[str, object]:
    try:
        stated = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error}") from None
    for name, value in stated.items():
        if name not in SETTINGS:
            raise SettingsError(f"{path}: {name} is not a setting; settings are {', '.join(SETTINGS)}")
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise SettingsError(f"{path}: {name} must be text or a number, not {value!r}")
    return stated


def _port(value: object, source: str) -> int:
    try:
        port = int(str(value))
    except ValueError:
        port = -1
    if not 0 <= port <= 65_535:
        raise SettingsError(f"port {value!r} ({source}) is not a number from 0 to 65535")
    return port


def _days(value: object, source: str) -> int:
    try:
        days = int(str(value))
    except ValueError:
        days = 0
    if not 1 <= days <= 36_500:
        raise SettingsError(f"keep_log_days {value!r} ({source}) is not a number of days from 1 to 36500")
    return days


def _megabytes(value: object, source: str) -> int:
    try:
        size = int(str(value))
    except ValueError:
        size = 0
    if not 1 <= size <= 512:
        raise SettingsError(f"largest_artefact_mb {value!r} ({source}) is not a number of megabytes from 1 to 512")
    return size


def _role(value: object, source: str) -> Role:
    try:
        return Role(str(value))
    except ValueError:
        raise SettingsError(f"role {value!r} ({source}) is not one of {', '.join(Role)}") from None
