"""Normalising: raw settings as they were told, in, a value for every knob, out.

Rules
- What was stated wins over a default, and a default is taken only where launcher and release are known.
- A setting that cannot be read is refused by name and value and leaves its knob unknown; the others stand.
- Of two spellings of one knob the more exact name wins: by the order in which they sort, the last one.
- The fingerprint is over known values alone, so that a config that states a default is the same as one that leaves it.
- It depends on nothing but what it is given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache

from rerail.server.core.facts import Pairs
from rerail.server.core.recovery_configs.dialects import UnfitError, evened, spelling
from rerail.server.core.recovery_configs.knobs import KNOBS, OFF, RecoveryConfig, Setting, Standing, Value
from rerail.server.core.recovery_configs.release_defaults import (
    FT_LAUNCHER,
    IN_PROCESS_KNOBS,
    Release,
    defaults,
    release_of,
)

NVRX_PACKAGES = ("nvidia-resiliency-ext", "nvidia_resiliency_ext", "nvrx")
MOST_SETTINGS = 2000
DEEPEST = 4
LONGEST_SHOWN = 120


def recovery_config(config: str | None, launcher: str | None = None, versions: Pairs = ()) -> RecoveryConfig | None:
    """The recovery config of an attempt as it told it; None where it told nothing."""
    return None if config is None else _cached(config, launcher, versions)


@lru_cache(maxsize=4096)
def _cached(config: str, launcher: str | None, versions: Pairs) -> RecoveryConfig:
    return normalised(_told(config), launcher, versions)


def _told(config: str) -> dict[str, object]:
    """The settings of an attempt; none where it is no JSON object."""
    try:
        told = json.loads(config)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def most_nodes(config: str | None) -> int | None:
    """How many machines an attempt may have at most, by its launcher's settings; None where nobody told."""
    bounds: dict[str, Value] = {}
    for _, name, value in _flat(_told(config or "{}")):
        _note_nodes(evened(name), value, bounds)
    most = bounds.get("max")
    return most if isinstance(most, int) else None


def fingerprint_of(config: str | None, launcher: str | None = None, versions: Pairs = ()) -> str | None:
    """Eight characters that stand for the settings in force; None where none is known."""
    found = recovery_config(config, launcher, versions)
    return None if found is None else found.fingerprint


def normalised(told: Mapping[str, object], launcher: str | None = None, versions: Pairs = ()) -> RecoveryConfig:
    """Settings of any launcher as a recovery config."""
    stated: dict[str, Setting] = {}
    others: list[tuple[str, str]] = []
    refused: list[tuple[str, str, str]] = []
    bounds: dict[str, Value] = {}
    for inside, name, value in _flat(told):
        path = f"{inside}.{name}" if inside else name
        plain = evened(name)
        if plain in ("min_nodes", "max_nodes", "nnodes"):
            _note_nodes(plain, value, bounds)
        found = spelling(name, inside)
        if found is None:
            others.append((path, _shown(value)))
            continue
        try:
            stated[found.knob] = Setting(found.knob, found.read(value), Standing.STATED, path)
        except UnfitError as error:
            refused.append((path, _shown(value), str(error)))
    if "spares" not in stated and bounds.get("max", 0) != bounds.get("min", 0):
        spare = int(bounds.get("max", 0)) - int(bounds.get("min", 0))
        if spare > 0:
            stated["spares"] = Setting("spares", spare, Standing.STATED, "nnodes")
    launcher = launcher or _launcher_of(told)
    release_text = next((text for name, text in reversed(versions) if name.lower() in NVRX_PACKAGES), None)
    release = release_of(release_text) if launcher == "ft_launcher" else None
    has_wrapper = bool(IN_PROCESS_KNOBS & set(stated)) or (
        "restart_scope" in stated and stated["restart_scope"].value == "in_process"
    )
    settings = _filled(stated, defaults(launcher, release, has_wrapper), {entry[0] for entry in refused})
    return RecoveryConfig(
        _fingerprint(settings) if told else None,
        settings,
        launcher,
        release_text if launcher == "ft_launcher" else None,
        tuple(sorted(others)[:200]),
        tuple(refused[:200]),
        tuple(_remarks(settings, launcher, release)),
    )


def _filled(
    stated: Mapping[str, Setting], by_default: Mapping[str, tuple[Value, str]], refused: set[str]
) -> tuple[Setting, ...]:
    """A setting for every knob. Where what was told could not be read, no default stands in for it."""
    unread = {found.knob for path in refused if (found := spelling(path.split(".")[-1])) is not None}
    filled = []
    for knob in KNOBS:
        if knob.name in stated:
            filled.append(stated[knob.name])
        elif knob.name in by_default and knob.name not in unread:
            value, whose = by_default[knob.name]
            filled.append(Setting(knob.name, value, Standing.DEFAULT, whose))
        else:
            filled.append(Setting(knob.name, None, Standing.UNKNOWN))
    known = {each.name: each for each in filled}
    restarts = known["max_restarts"]
    if known["restart_scope"].value is None and isinstance(restarts.value, int) and restarts.value > 0:
        # Whoever allows a launcher to restart restarts in the job; who forbids it leaves it to somebody unknown.
        place = next(index for index, each in enumerate(filled) if each.name == "restart_scope")
        filled[place] = Setting("restart_scope", "in_job", restarts.standing, restarts.source)
    return tuple(filled)


def _fingerprint(settings: tuple[Setting, ...]) -> str | None:
    known = [(each.name, each.value) for each in settings if each.is_known]
    if not known:
        return None
    return hashlib.blake2b(json.dumps(known, separators=(",", ":")).encode(), digest_size=4).hexdigest()


def _flat(told: Mapping[str, object], inside: str = "", depth: int = 0) -> Iterator[tuple[str, str, object]]:
    """`(where it stands, name, value)` of every setting, by name; tables of sections stay whole."""
    for count, name in enumerate(sorted(told, key=str)):
        if count >= MOST_SETTINGS:
            return
        value, label = told[name], str(name)
        if isinstance(value, dict) and depth < DEEPEST and "section" not in evened(label):
            yield from _flat(value, label, depth + 1)
        else:
            yield inside, label, value


def _note_nodes(name: str, value: object, bounds: dict[str, Value]) -> None:
    """Fewest and most nodes, from `min_nodes`, `max_nodes` or `nnodes` (`8:10`)."""
    least, _, most = str(value).partition(":")
    for key, text in (("min", least), ("max", most or least)):
        if text.isascii() and text.isdecimal() and len(text) < 7 and name in ("nnodes", f"{key}_nodes"):
            bounds[key] = int(text)


def _launcher_of(told: Mapping[str, object]) -> str | None:
    named = told.get("launcher")
    if isinstance(named, str):
        return named[:100]
    if any(isinstance(name, str) and name.lstrip("-").lower().startswith("ft-") for name in told):
        return "ft_launcher"
    return None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def _remarks(settings: tuple[Setting, ...], launcher: str | None, release: Release | None) -> Iterator[str]:
    by_name = {each.name: each for each in settings}
    heartbeat, initial = by_name["heartbeat_timeout"], by_name["initial_heartbeat_timeout"]
    watchers = ("heartbeat_timeout", "section_timeouts", "out_of_section_timeout", "hard_timeout")
    is_watched = any(by_name[name].value not in (None, OFF) for name in watchers)
    if launcher == "ft_launcher" and heartbeat.value == OFF and not is_watched:
        if heartbeat.standing is Standing.DEFAULT and release is not None:
            yield (
                f"Hang detection is off: ft_launcher {release[0]}.{release[1]} arms no heartbeat time-out unless one "
                "is set. Until 0.5 it was 45 min by default (1 h for the first heartbeat); since 0.6 it is off."
            )
        else:
            yield "Hang detection is off: no heartbeat time-out, no section time-out and no hard time-out is set."
    elif launcher == "ft_launcher" and heartbeat.value is None:
        yield (
            "Whether hangs are detected is unknown: the release of ft_launcher was not told. Until 0.5 the heartbeat "
            "time-out is 45 min by default; since 0.6 it is off."
        )
    elif launcher == "ft_launcher" and initial.value == OFF and heartbeat.value not in (None, OFF):
        yield "A rank that never gives a first sign of life is not noticed: the first heartbeat has no time-out."
    if launcher == "torchrun" and not is_watched:
        yield "torchrun watches no heartbeats: a hang lasts until a collective gives up, if its time-out is in force."
    if release is not None and launcher == "ft_launcher" and release not in FT_LAUNCHER:
        yield f"ft_launcher {release[0]}.{release[1]} is not a release whose defaults are known here."
    interval = by_name["checkpoint_interval_steps"], by_name["checkpoint_interval_seconds"]
    if all(each.value is None for each in interval):
        yield "How often checkpoints are saved was not told."
