"""`rerail check` and `rerail compare`: recovery configs in a terminal."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rerail.server.api.config_answers import comparison_answer, config_answer
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.answered import Told, answered
from rerail.server.core.recovery_configs.knobs import OFF, RecoveryConfig
from rerail.server.core.recovery_configs.nesting import violations
from rerail.server.core.recovery_configs.normalising import normalised
from rerail.server.core.recovery_configs.settings_text import LONGEST_TEXT, settings_in
from rerail.server.core.words import duration
from rerail.server.errors import RerailError
from rerail.server.queries import Queries


class UnreadableConfigError(RerailError):
    """Neither a file of settings nor a run."""


def check(parsed: argparse.Namespace) -> int:
    """A file's settings, or those of a run; 1 where one is refused or time-outs are in the wrong order."""
    config = _of_file(Path(parsed.what), parsed) if Path(parsed.what).is_file() else _of_run(parsed)
    found = violations(config)
    if parsed.json:
        print(json.dumps(config_answer(config, found), indent=2, ensure_ascii=False))
    else:
        _print(config)
        for each in found:
            print(f"violation: {each.sentence}")
    return 1 if found or config.refused else 0


def _of_file(path: Path, parsed: argparse.Namespace) -> RecoveryConfig:
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST_TEXT + 1).decode("utf-8", "replace")
    except OSError as error:
        raise UnreadableConfigError(f"{path}: {error.strerror}") from None
    try:
        told = settings_in(text)
    except ValueError as error:
        raise UnreadableConfigError(f"{path}: {error}") from None
    launcher = parsed.launcher or next((name for name in ("ft_launcher", "torchrun") if name in text), None)
    versions = (("nvidia-resiliency-ext", parsed.release),) if parsed.release else ()
    config = normalised(told, launcher, versions)
    if config.fingerprint is None:
        raise UnreadableConfigError(f"{path}: no recovery setting was found in it; docs/recovery_configs.md lists them")
    return config


def _of_run(parsed: argparse.Namespace) -> RecoveryConfig:
    with opened_store(settings_of(parsed)) as store:
        queries = Queries(store)
        queries.run(parsed.what)
        told = [each.config for each in queries.configs.config_of_run(parsed.what) if each.config is not None]
    if not told:
        raise UnreadableConfigError(f"run {parsed.what} told no recovery settings")
    return told[-1]


def _print(config: RecoveryConfig) -> None:
    print(f"config {config.fingerprint}  {config.launcher or 'launcher unknown'} {config.release or ''}".rstrip())
    for each in config.settings:
        shown = (
            "unknown"
            if each.value is None
            else str(each.value)
            if each.value == OFF
            else f"{each.value} {each.knob.unit}".strip()
        )
        source = f"  ({each.source})" if each.source else ""
        print(f"  {each.knob.title:32} {shown:16} {each.standing.value}{source}")
    for name, value, why in config.refused:
        print(f"refused: {name}: {why} (got {value})")
    for remark in config.remarks:
        print(f"note: {remark}")


def compare(parsed: argparse.Namespace) -> int:
    """Two to six runs or configs."""
    try:
        found: dict[str, Any] = answered(
            parsed, "compare", {"with": parsed.sides},
            lambda queries: comparison_answer(queries.configs.compare(parsed.sides)),
        )  # fmt: skip
    except ValueError as error:
        raise UnreadableConfigError(str(error)) from None
    if parsed.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    print(found["sentence"])
    for arm in found["arms"]:
        recover = Told(arm["recover"])
        print(
            f"{arm['title']}\n  training {_percent(arm['training_goodput'])}, infrastructure "
            f"{_percent(arm['infrastructure_goodput'])}, {arm['faults']} faults, {arm['failed_relaunches']} failed "
            f"relaunches, time to recover p50 {duration(recover.inner('p50').nanoseconds('seconds'))} max "
            f"{duration(recover.nanoseconds('max_seconds'))} (n={arm['recovered']})"
        )
    for each in found["differences"]:
        print(each["sentence"])
        for caveat in each["caveats"]:
            print(f"  {caveat['level']}: {caveat['sentence']}")
        for row in each["rows"]:
            print(f"  {row['name']:12} {row['first']:7.1%} → {row['second']:7.1%}  {row['gain']:+.1%}")
    return 0


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.1%}"
