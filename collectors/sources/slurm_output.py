"""Slurm output: jobs, nodes and node events as Slurm's commands print them, whatever the version.

Understood are `sacct` and `sacctmgr show event` with `-P` or `-p`, `scontrol show job` and `show node` (also `-o`),
and the JSON of `sacct`, `squeue`, `scontrol` and `sinfo` from 22.05 on.

Rules
- JSON differs by version: a number is plain or `{"set", "infinite", "number"}`, a state one word or a list of words,
  an exit code a wait status, an object of words, or one of lists. All of them give one record.
- What contradicts itself is unknown: 22.05 says `SUCCESS` and 0 of a job that failed with 3 (its text says 3:0).
- Instants of text are local to the cluster and carry no zone; seconds since 1970 are taken as such.
- A job that is running tells the end it is allowed, and one that waits the start it is promised: neither happened.
- A row that makes no sense is told (`Refused`) and the others are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rerail.collectors.sources.slurm_json import read_json
from rerail.collectors.sources.slurm_records import Record, Refused, printable
from rerail.collectors.sources.slurm_text import read_columns, read_scontrol, separated

_SLURM_JSON = re.compile(
    r'"(?:Slurm|slurm)"\s*:\s*\{|"jobs"\s*:\s*\[[\s\S]*"(?:job_state|allocation_nodes|accrue_time|derived_exit_code)"\s*:'
    r'|"(?:sinfo|nodes)"\s*:\s*\[[\s\S]*"(?:reason_changed_at|slurmd_version|slurmd_start_time)"\s*:'
)
_RULER = re.compile(r"-{2,}(?: +-{2,})+[ ]*(?:\r?\n|$)")


def is_slurm(head: bytes) -> bool:
    """Whether a file that begins so is the output of one of Slurm's commands."""
    text = head.lstrip().decode("utf-8", "replace")
    first = text.split("\n", 1)[0].strip().lower()
    if first.startswith(("jobid=", "nodename=")):
        return True
    if _RULER.match(text.partition("\n")[2]) and {"jobid", "state"} <= set(first.split()):
        return True
    columns = first.split("|")
    if len(columns) > 2 and ({"jobid", "state"} <= set(columns) or {"nodename", "timestart"} <= set(columns)):
        return True
    return text[:1] == "{" and _SLURM_JSON.search(text) is not None


def read(content: bytes, *, zone_seconds: int | None = None) -> Iterator[Record]:
    """The records of one output, in order. `zone_seconds`: the cluster's zone, east of UTC; None: this machine's."""
    for record in _read(content.decode("utf-8", "replace"), zone_seconds):
        yield printable(record)


def _read(text: str, zone_seconds: int | None) -> Iterator[Record]:
    stripped = text.lstrip()
    end = stripped.find("\n")  # an answer may be large: what looks at its beginning makes no copy of it
    first = stripped if end < 0 else stripped[:end]
    if stripped[:1] in ("{", "["):
        yield from read_json(stripped)
    elif first[:9].lower().startswith(("jobid=", "nodename=")):
        yield from read_scontrol(text, zone_seconds)
    elif end >= 0 and _RULER.match(stripped, end + 1):
        yield from read_columns(separated(stripped), zone_seconds)
    elif "|" in first:
        yield from read_columns(text, zone_seconds)
    elif stripped:
        yield Refused(1, "header", first[:200], "not the output of sacct -P, sacctmgr -P, scontrol show, or --json")
