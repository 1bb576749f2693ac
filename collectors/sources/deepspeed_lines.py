"""DeepSpeed lines: attempts, processes and ends, as its launcher on a machine tells them.

Rules
- It starts its processes in the order of their local ranks, and names them in that order when it ends them.
- `… '--local_rank=7', …] exits with return code = -9` holds the command of the process that was started last, whichever
  ended: it names nobody, except where there is one process.
- It starts them once, and ends with them: processes that are started behind an end, or in the place of others, are
  those of another attempt, of a launcher that was started again into the same log.
- An attempt is completed when each process that was started exited successfully; where their start is not told, as many
  as the launcher says that it starts, else one.
"""

from __future__ import annotations

import re

from rerail.collectors.masking import masked
from rerail.collectors.sources.attempts import Attempts
from rerail.collectors.sources.log_lines import Line
from rerail.server.core.facts import MarkStage, Outcome

LAUNCHER = "deepspeed"
SPEAKS = "[launch.py:"
MOST_PROCESSES = 1024
_SPAWNED = re.compile(
    r"\bprocess (?P<pid>\d{1,10}) spawned with command: \[.{0,4000}?'--local_rank=(?P<local>\d{1,4})'"
)
_KILLING = re.compile(r"\bKilling subprocess (?P<pid>\d{1,10})\b")
_RETURNED = re.compile(r"\] exits with return code = (?P<code>-?\d{1,6})\b")
_ALONE = re.compile(r"'--local_rank=0'.{0,4000}\] exits with return code = -?\d")
_DONE = re.compile(r"\bProcess (?P<pid>\d{1,10}) exits successfully\b")
_SIGNAL = re.compile(r"\bMain process received (?P<signal>SIG[A-Z]{2,8}), exiting")
_SIZE = re.compile(r"\bnnodes=(?P<nodes>\d{1,6}), num_local_procs=(?P<ranks>\d{1,4}), node_rank=(?P<place>\d{1,6})\b")


def take(line: Line, at: int, attempts: Attempts) -> bool:
    """Take a line in which `SPEAKS` stands; whether it is no evidence."""
    if match := _SPAWNED.search(line.text):
        _spawned(line.host, match["pid"], int(match["local"]), at, attempts)
        return True
    if match := _SIZE.search(line.text):
        _size(match, attempts)
        return True
    if match := _DONE.search(line.text):
        _done(line.host, match["pid"], at, attempts)
        return True
    if match := _SIGNAL.search(line.text):
        attempts.end_by_signal(at, masked(line.text)[:1000], is_interrupt=match["signal"] == "SIGINT")
    elif _KILLING.search(line.text):
        attempts.mark(MarkStage.NOTICED, at, LAUNCHER)
    elif match := _RETURNED.search(line.text):
        attempts.mark(MarkStage.NOTICED, at, LAUNCHER)
        attempts.end_run(at, Outcome.FAILED, f"a process ended with exit code {match['code']}")
    return False


def local_rank(line: Line, attempts: Attempts) -> int | None:
    """The local rank of the process that a line is about."""
    if match := _KILLING.search(line.text):
        return attempts.places.process(line.host, match["pid"], None, MOST_PROCESSES)
    return 0 if "return code" in line.text and _ALONE.search(line.text) else None


def _spawned(host: str | None, process: str, local: int, at: int, attempts: Attempts) -> None:
    state = attempts.state
    state.launcher = state.launcher or LAUNCHER
    known = state.local_ranks.get(host or "", {})
    is_again = any(place == local and other != process for other, place in known.items())
    if is_again or state.is_over:
        attempts.begin(at, state.attempt + 1)
    else:
        attempts.begin(at)
    attempts.places.process(host, process, local, MOST_PROCESSES)
    attempts.mark(MarkStage.WORKERS_STARTED, at, LAUNCHER)


def _done(host: str | None, process: str, at: int, attempts: Attempts) -> None:
    state = attempts.state
    spawned = {other for known in state.local_ranks.values() for other in known}
    place = state.local_ranks.get(host or "", {}).get(process)
    attempts.exit(at, len(state.exits) if place is None else place, 0, int(process))
    ended = len(spawned & state.exits.keys()) if spawned else len(state.exits)
    if ended >= (len(spawned) or state.ranks_per_node or 1):
        attempts.end_run(at, Outcome.COMPLETED)


def _size(match: re.Match[str], attempts: Attempts) -> None:
    """How many machines and processes the launcher starts; where several speak, whose place it is is not told."""
    state, place = attempts.state, int(match["place"])
    if state.group_rank is not None and state.group_rank != place:
        state.group_ranks.update({"": place, "another": state.group_rank})
    state.node_count, state.ranks_per_node, state.group_rank = int(match["nodes"]), int(match["ranks"]), place
