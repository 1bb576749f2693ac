"""Cycle info: the JSON files NVRx's launcher (0.6 and later) keeps, one for each attempt.

Rules
- A file is written in place: a half-written one is read again at the next look.
- They tell when an attempt formed, on which nodes, and where its log is. They never tell why one ended, and what
  `cycle_end_time` means differs: in 0.6.0 it is the start of the next attempt, from 0.7 on the detection of the
  fault. So an end is stated only as the end of the attempt, without an outcome, and only where no log tells more.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rerail.server.core.facts import AttemptEnded, AttemptStarted, Fact, Initiator, Scope

NAME = re.compile(r"^cycle_info\.(?P<job>[^.]*)\.(?P<requeue>\d{1,9})\.(?P<cycle>\d{1,9})$")
NODE_RANGE = re.compile(r"(?P<stem>[^,\[\]]+)\[(?P<ranges>[^\]]*)\]|(?P<single>[^,\[\]]+)")
MOST_NODES = 100_000
LARGEST_FILE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CycleInfo:
    """One attempt, as its file tells it. `end` is None while it runs, and for ever where the launcher was killed."""

    cycle: int
    job: str | None
    requeue: int | None
    start: int | None
    end: int | None
    nodes: tuple[str, ...]
    log_file: Path | None


def read_cycle_infos(directory: Path) -> tuple[CycleInfo, ...]:
    """Every whole file of the directory, by cycle. Raises OSError where the directory cannot be read."""
    found = []
    for path in sorted(directory.iterdir()):
        match = NAME.match(path.name)
        if match is not None and (info := _read(path, match)) is not None:
            found.append(info)
    return tuple(sorted(found, key=lambda info: (info.job or "", info.requeue or 0, info.cycle)))


def _read(path: Path, name: re.Match[str]) -> CycleInfo | None:
    try:
        if path.stat().st_size > LARGEST_FILE:
            return None
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(told, dict):
        return None
    log_file = told.get("cycle_log_file")
    return CycleInfo(
        cycle=int(name["cycle"]),
        job=name["job"] or None,
        requeue=int(name["requeue"]) if name["job"] else None,
        start=_instant(told.get("cycle_start_time")),
        end=_instant(told.get("cycle_end_time")),
        nodes=node_names(told.get("active_nodes")),
        log_file=Path(log_file) if isinstance(log_file, str) and log_file and "\0" not in log_file else None,
    )


def node_names(text: object) -> tuple[str, ...]:
    """Node names out of Slurm's short form, `node[001-003,007],other`."""
    if not isinstance(text, str):
        return ()
    names: list[str] = []
    for match in NODE_RANGE.finditer(text):
        if match["single"] is not None:
            names.append(match["single"].strip())
            continue
        for part in match["ranges"].split(","):
            first, _, last = part.partition("-")
            if not (first.isascii() and first.isdigit() and (last or first).isascii() and (last or first).isdigit()):
                continue
            if len(first) > 9 or len(last) > 9 or int(last or first) - int(first) > MOST_NODES:
                continue
            names.extend(
                f"{match['stem'].strip()}{number:0{len(first)}d}"
                for number in range(int(first), int(last or first) + 1)
            )
    return tuple(dict.fromkeys(name[:200] for name in names[:MOST_NODES] if name and name.isprintable()))


def cycle_facts(info: CycleInfo, *, run: str, emitter: str, node: str) -> list[Fact]:
    """What one file states where no log of the launcher can be read."""
    common: dict[str, object] = {
        "run": run, "emitter": emitter, "restart": info.cycle, "node": node, "job": info.job, "requeue": info.requeue,
    }  # fmt: skip
    facts: list[Fact] = []
    if info.start is not None:
        facts.append(
            AttemptStarted(
                **common,
                seq=info.cycle * 4,
                at=info.start,  # type: ignore[arg-type]
                scope=Scope.IN_JOB if info.cycle else None,
                initiator=Initiator.FAULT if info.cycle else None,
                nodes=info.nodes,
                launcher="ft_launcher",
            )
        )
    if info.end is not None:
        facts.append(AttemptEnded(**common, seq=info.cycle * 4 + 1, at=info.end))  # type: ignore[arg-type]
    return facts


def _instant(text: object) -> int | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    instant = seconds * 1_000_000_000 + moment.microsecond * 1000
    return instant if 946_684_800_000_000_000 <= instant < 4_102_444_800_000_000_000 else None
