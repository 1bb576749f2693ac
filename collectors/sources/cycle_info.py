"""Cycle info: the JSON files NVRx's launcher (0.6 and later) keeps, one for each attempt.

Rules
- A file is written in place: a half-written one is read again at the next look, and one that stays so is stated.
- They tell when an attempt formed, on which nodes, and where its log is. They never tell why one ended, and what
  `cycle_end_time` means differs: in 0.6.0 it is the start of the next attempt, from 0.7 on the detection of the
  fault. So an end is stated only as the end of the attempt, without an outcome, and only where no log tells more.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rerail.server.core.facts import AttemptEnded, AttemptStarted, Blind, Fact, Initiator, Scope

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


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file that holds no whole answer: half-written, or written by something else."""

    name: str
    reason: str
    size: int
    changed_at: int


def read_cycle_infos(directory: Path) -> tuple[tuple[CycleInfo, ...], tuple[BrokenFile, ...]]:
    """Every whole file of the directory, by cycle, and the others. Raises OSError: the directory is not read."""
    found, broken = [], []
    for path in sorted(directory.iterdir()):
        match = NAME.match(path.name)
        if match is None:
            continue
        told = _read(path, match)
        if isinstance(told, CycleInfo):
            found.append(told)
        elif told is not None:
            broken.append(told)
    return tuple(sorted(found, key=lambda info: (info.job or "", info.requeue or 0, info.cycle))), tuple(broken)


def read_cycle_info(path: Path) -> CycleInfo | BrokenFile | None:
    """What one file tells; None where its name is no cycle file's, or it cannot be read."""
    match = NAME.match(path.name)
    return None if match is None else _read(path, match)


def _read(path: Path, name: re.Match[str]) -> CycleInfo | BrokenFile | None:
    try:
        status = path.stat()
        if status.st_size > LARGEST_FILE:
            return BrokenFile(path.name, f"larger than {LARGEST_FILE} bytes", status.st_size, status.st_mtime_ns)
        content = path.read_bytes()
    except OSError:
        return None
    try:
        told = json.loads(content)
    except (ValueError, RecursionError) as error:
        return BrokenFile(path.name, f"not whole JSON: {error}", len(content), status.st_mtime_ns)
    if not isinstance(told, dict):
        return BrokenFile(path.name, "not a JSON object", len(content), status.st_mtime_ns)
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


def cycle_facts(info: CycleInfo, *, run: str, emitter: str, node: str | None) -> list[Fact]:
    """What one file states where no log of the launcher can be read. `node`: the launcher's, None where not known."""
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


def broken_fact(broken: BrokenFile, *, run: str, node: str) -> Blind:
    """That a file could not be read: what it would have said is not known."""
    mark = hashlib.sha256(f"{broken.name} {broken.size} {broken.changed_at}".encode()).hexdigest()[:12]
    at = broken.changed_at
    return Blind(
        run=run, emitter=f"cycle_info/{node[:120]}/broken-{mark}", seq=0, at=at, node=node, source="cycle_info",
        since=at, until=at, reason=f"{broken.name}: {broken.reason}"[:1000],
    )  # fmt: skip


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
