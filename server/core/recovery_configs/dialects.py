"""Dialects: how launchers, wrappers, frameworks and schedulers spell our knobs.

Rules
- Spelling is evened out first: case, dashes, leading dashes, and the prefixes `ft_` and `ft_param_` say nothing.
- A setting that stands inside another (`{"inprocess.Wrapper": {"heartbeat_timeout": …}}`) is known by where it stands.
- Times are seconds unless the name says otherwise, `0:01:30`, or `90s`, `15m`, `2h`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rerail.server.core.recovery_configs.knobs import OFF, Value

LONGEST_SECONDS = 10 * 366 * 86_400
LARGEST_COUNT = 10**12
LONGEST_WORD = 60
NOTHING = ("none", "null", "off", "disabled", "")
IN_PROCESS = ("inprocess", "in_process", "wrapper")
_CLOCK = re.compile(r"(?:(\d+)[-:])??(\d+):(\d\d):(\d\d)(?:\.\d+)?")
_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)")
_SECONDS_OF = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class UnfitError(ValueError):
    """A value that is none of this setting; the message says why."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """One name of a knob, and how its value is read."""

    knob: str
    read: Callable[[object], Value]


def seconds(value: object) -> Value:
    """A length of time in seconds; 'off' for none."""
    if value is None or (isinstance(value, str) and value.strip().lower() in NOTHING):
        return OFF
    if isinstance(value, str):
        return _number(_in_seconds(value.strip()))
    return _number(value)


def _in_seconds(text: str) -> float:
    clock = _CLOCK.fullmatch(text)
    if clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return float(days * 86_400 + hours * 3600 + minutes * 60 + rest)
    unit = _UNIT.fullmatch(text.lower())
    if unit:
        name = "ms" if unit[2] == "ms" else unit[2][0]
        return float(unit[1]) * _SECONDS_OF[name]
    try:
        return float(text)
    except ValueError:
        raise UnfitError("not a length of time") from None


def _number(value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnfitError("not a length of time")
    if value != value or value < 0:
        raise UnfitError("not a length of time")
    if value > LONGEST_SECONDS:
        raise UnfitError("longer than ten years")
    return int(value) if value == int(value) else round(float(value), 6)


def minutes(value: object) -> Value:
    """A length of time that is told in minutes."""
    told = value
    if isinstance(value, str) and value.strip().lower() not in NOTHING:
        try:
            told = float(value)
        except ValueError:
            raise UnfitError("not a number of minutes") from None
    found = seconds(told)
    return found if isinstance(found, str) else _number(found * 60)


def slurm_time(value: object) -> Value:
    """A limit as Slurm takes it: minutes, `mm:ss`, `hh:mm:ss`, `d-hh`, `d-hh:mm`, `d-hh:mm:ss`."""
    if not isinstance(value, str):
        return minutes(value)
    text = value.strip()
    if text.lower() in ("unlimited", "infinite"):
        return OFF
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        return seconds(text)
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:
        return _number(days * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0))
    if third is not None:
        return _number((first or 0) * 3600 + (second or 0) * 60 + third)
    return _number((first or 0) * 60 + (second or 0))


def whole(value: object) -> Value:
    """A count; `off` where there is no limit."""
    if value is None or (isinstance(value, str) and value.strip().lower() in NOTHING):
        return OFF
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value.strip()):
        value = int(value)
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnfitError("not a whole number")
    if value < 0:
        return OFF
    if value > LARGEST_COUNT:
        raise UnfitError("too large for a count")
    return value


def word(value: object) -> Value:
    """A word, in small letters."""
    if not isinstance(value, str) or not value.strip():
        raise UnfitError("not a word")
    if len(value) > LONGEST_WORD:
        raise UnfitError(f"longer than {LONGEST_WORD} characters")
    return value.strip().lower().replace("-", "_")


def mode(value: object) -> Value:
    """`sync` or `async`, also told as a switch."""
    if isinstance(value, bool):
        return "async" if value else "sync"
    text = str(word(value))
    known = {"true": "async", "false": "sync", "asynchronous": "async", "synchronous": "sync", "blocking": "sync"}
    return known.get(text, text)


def scope(value: object) -> Value:
    """One of our scopes where the word is one of ours or a peer's; any other word as it is."""
    text = str(word(value))
    return {"inprocess": "in_process", "injob": "in_job", "container": "requeue", "job": "resubmit"}.get(text, text)


def sections(value: object) -> Value:
    """`name 60, other 30`: every section with its seconds, by name; `off` for none."""
    if value is None:
        return OFF
    if isinstance(value, str):
        pairs = [part.partition(":") if ":" in part else part.partition("=") for part in value.strip("{} ").split(",")]
        value = {name.strip(" '\""): length.strip(" '\"") for name, _, length in pairs if name.strip()}
    if not isinstance(value, dict):
        raise UnfitError("not a table of sections")
    if len(value) > 50:
        raise UnfitError("more than 50 sections")
    told = ((str(word(name)), seconds(length)) for name, length in value.items())
    return ", ".join(f"{name} {length}" for name, length in sorted(told) if length != OFF) or OFF


SPELLINGS: dict[str, Spelling] = {
    name: Spelling(knob, read)
    for knob, read, names in (
        ("checkpoint_interval_steps", whole, "checkpoint_interval_steps checkpoint_interval checkpoint_every "
         "save_interval every_n_train_steps save_steps"),
        ("checkpoint_interval_seconds", seconds, "checkpoint_interval_seconds train_time_interval"),
        ("checkpoint_mode", mode, "checkpoint_mode async_save async_mode async_checkpoint checkpoint_strategy"),
        ("checkpoint_tier", word, "checkpoint_tier"),
        ("restart_scope", scope, "restart_scope"),
        ("max_restarts", whole, "max_restarts backofflimit backoff_limit"),
        ("max_in_process_restarts", whole, "max_iterations max_in_process_restarts"),
        ("max_no_progress", whole, "max_no_progress_cycles max_no_progress max_no_progress_restarts"),
        ("spares", whole, "spares spare_nodes standby_nodes"),
        ("monitor_interval", seconds, "monitor_interval"),
        ("check_interval", seconds, "workload_check_interval check_interval"),
        ("initial_heartbeat_timeout", seconds, "initial_rank_heartbeat_timeout initial_heartbeat_timeout"),
        ("heartbeat_timeout", seconds, "rank_heartbeat_timeout"),
        ("section_timeouts", sections, "rank_section_timeouts section_timeouts"),
        ("out_of_section_timeout", seconds, "rank_out_of_section_timeout out_of_section_timeout"),
        ("soft_timeout", seconds, "soft_timeout"),
        ("hard_timeout", seconds, "hard_timeout"),
        ("barrier_timeout", seconds, "barrier_timeout"),
        ("in_process_heartbeat_timeout", seconds, "heartbeat_timeout in_process_heartbeat_timeout"),
        ("collective_timeout", seconds, "collective_timeout collective_timeout_seconds nccl_timeout "
         "process_group_timeout ddp_timeout timeout_seconds"),
        ("collective_timeout", minutes, "distributed_timeout_minutes"),
        ("nccl_heartbeat_timeout", seconds, "torch_nccl_heartbeat_timeout_sec"),
        ("rendezvous_timeout", seconds, "rendezvous_timeout rdzv_timeout join_timeout ft_rdzv_timeout"),
        ("scheduler_limit", seconds, "scheduler_limit active_deadline_seconds activedeadlineseconds"),
        ("scheduler_limit", minutes, "exit_duration_in_mins"),
        ("scheduler_limit", slurm_time, "time_limit timelimit slurm_time_limit sbatch_time"),
    )
    for name in names.split()
}  # fmt: skip


def evened(name: str) -> str:
    """A setting's name without what spelling adds."""
    plain = re.sub(r"[\s\-.]+", "_", name.strip().lstrip("-").lower())
    for prefix in ("ft_param_", "ft_"):
        plain = plain.removeprefix(prefix)
    return plain


def spelling(name: str, inside: str = "") -> Spelling | None:
    """What a setting is called here; `inside` is what it stands in."""
    plain, around = evened(name), evened(inside)
    if plain == "heartbeat_timeout" and around and not any(word in around for word in IN_PROCESS):
        return SPELLINGS["rank_heartbeat_timeout"]
    return SPELLINGS.get(plain)
