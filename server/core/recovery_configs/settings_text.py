"""Settings text: recovery settings out of a file's text, whatever its form.

Rules
- JSON and TOML are read as they are. Everything else is read line by line: `key: value` (YAML without its finer parts:
  a line that ends in a colon begins a section, indentation ends it), `NAME=value`, `export NAME=value`, and
  `--flag value` or `--flag=value` of a command line.
- `#SBATCH --time=…` is the scheduler's limit.
- What is no setting is passed over; a text in which nothing is found gives an empty table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

LONGEST_TEXT = 1_000_000
MOST_LINES = 20_000
_FLAG = re.compile(r"--([A-Za-z][\w.-]*)(?:[= ]+((?:\"[^\"]*\")|(?:'[^']*')|(?!--)[^\s\\]+))?")
_ASSIGNED = re.compile(r"\s*(?:export\s+|set\s+)?([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s#;]+)")
_KEYED = re.compile(r"(\s*)(?:- )?[\"']?([A-Za-z_][\w.\- ]*?)[\"']?\s*:\s*(.*?)\s*$")


class UnreadableSettingsError(ValueError):
    """The text is too long to be settings."""


def settings_in(text: str) -> dict[str, object]:
    """Settings by name; sections as tables. Raises UnreadableSettingsError."""
    if len(text) > LONGEST_TEXT:
        raise UnreadableSettingsError(f"more than {LONGEST_TEXT:,} characters (got {len(text):,})")
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped.startswith("{"):
        try:
            told = json.loads(stripped)
        except (ValueError, RecursionError):
            told = None
        if isinstance(told, dict):
            return told
    if (
        re.search(r"^\s*[\w.\-\"]+\s*=\s*[\"\d\[{tf]", text, re.MULTILINE)
        and "--" not in text
        and "export " not in text
    ):
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError):
            pass
    return _by_lines(text)


def _is_script(text: str) -> bool:
    return "--" in text or "export " in text


def _by_lines(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    section: dict[str, object] | None = None
    section_depth = 0
    for line in text.splitlines()[:MOST_LINES]:
        if line.lstrip().startswith("#") and not line.startswith("#SBATCH"):
            continue
        if line.startswith("#SBATCH"):
            for name, value in _flags(line):
                found["slurm_time_limit" if name == "time" else name] = value
            continue
        assigned = _ASSIGNED.match(line)
        if assigned and not line.lstrip().startswith("--"):
            found[assigned[1]] = _value(assigned[2])
        keyed = _KEYED.fullmatch(line)
        if keyed and "--" not in line and not assigned:
            depth, name, value = len(keyed[1]), keyed[2], keyed[3].split(" #")[0].strip()
            if section is not None and depth <= section_depth:
                section = None
            if not value:
                section, section_depth = {}, depth
                found[name] = section
            else:
                (found if section is None else section)[name] = _value(value)
            continue
        for name, value in _flags(line):
            found[name if name.startswith("ft-") else name.replace("-", "_")] = value
    return found


def _flags(line: str) -> Iterator[tuple[str, object]]:
    for match in _FLAG.finditer(line):
        yield match[1], True if match[2] is None else _value(match[2])


def _value(text: str) -> object:
    bare = text.strip().strip("\"'")
    if bare.lower() in ("null", "none", "~"):
        return None
    if bare.lower() in ("true", "yes"):
        return True
    if bare.lower() in ("false", "no"):
        return False
    if re.fullmatch(r"-?\d{1,15}", bare):
        return int(bare)
    if re.fullmatch(r"-?\d{1,15}\.\d{1,9}", bare):
        return float(bare)
    return bare
