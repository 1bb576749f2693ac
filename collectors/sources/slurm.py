"""Slurm source: asks `sacct`, `squeue` and `sacctmgr` (or `scontrol`) in turn, and states what they say.

Rules
- `sacct -D` shows every incarnation of a job, `squeue` the requeue count and what waits, `sacctmgr show event` when
  nodes were away. Where `squeue --json` is not built in, `scontrol -d show job -o` stands in for it.
- `squeue --json` of 22.05 tells every job, whichever were asked for: what was not asked for is left out here.
- Accounting keeps no event of a node that is drained while it still works: `scontrol show node` tells of those, and of
  why.
- A command that fails is stated blind (`partial_sight.py`); where neither jobs in accounting nor jobs in the queue
  can be seen, the source is down. One that prints nothing at all failed too: each has at least a header, an object, or
  a sentence to print.
- A command that hangs, or takes seconds to fail, costs its time once in a look: the others that ask the same daemon
  (`slurmctld`, or the one of accounting) are not tried in that look.
- A run whose last job ended ten minutes ago, and failed, completed or was stopped, has ended: where the queue is seen,
  and nothing of the run waits or runs in it. What begins later takes it back by itself (`server/core/life.py`).
- It looks every `interval_seconds`; after a failure of everything it waits twice as long each time, up to ten minutes.
- The cursor holds what was stated of each job, so that another instance goes on.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import pwd
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rerail.collectors.arguments import number_between
from rerail.collectors.asked_programs import LARGEST_PRINTED, ProgramHung, TooMuchPrinted, ask
from rerail.collectors.formats import ImportFormat, OldFile
from rerail.collectors.identity import settings
from rerail.collectors.live_sources import LiveSource
from rerail.collectors.source import Polled, Source, SourceDown
from rerail.collectors.sources.left_off import with_last_jobs
from rerail.collectors.sources.partial_sight import PartialSight
from rerail.collectors.sources.slurm_facts import Naming, SlurmFacts
from rerail.collectors.sources.slurm_output import read
from rerail.collectors.sources.slurm_records import Job, NodeEvent, Refused
from rerail.collectors.sources.slurm_words import SECOND
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Fact

logger = logging.getLogger("rerail.slurm")

COLUMNS = (
    "JobID",
    "JobIDRaw",
    "JobName",
    "Cluster",
    "Account",
    "User",
    "Partition",
    "State",
    "ExitCode",
    "DerivedExitCode",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "Timelimit",
    "NNodes",
    "NodeList",
    "Reason",
    "AllocTRES",
    "Comment",
    "WCKey",
)
NEWER_COLUMNS = ("Restarts", "FailedNode")
LONGEST_WAIT_SECONDS = 600.0
OVERLAP_SECONDS = 3600
COMMAND_SECONDS = 45.0
"""Two daemons can hang, and each takes this long once in a look."""
SLOW_TO_FAIL_SECONDS = 5.0
"""A command that took so long to fail waited for its daemon, and so would the next."""
LONGEST_HELP = 65_536
NOTHING_THERE = (b"no jobs in the system", b"no nodes in the system")
"""What `scontrol show` prints where there is nothing to show."""
ACCOUNTING = frozenset({"sacct", "sacctmgr"})
"""Commands that ask `slurmdbd`; the others ask `slurmctld`."""
_AT_WORK = re.compile(rb"NodeName=([\w.-]{1,200}) (?:.*? )?State=((?:IDLE|MIXED|ALLOCATED|COMPLETING)) ", re.ASCII)


class CommandFailed(Exception):  # noqa: N818 - named as the condition it tells
    """A command gave no answer; the message says why."""


class CommandHung(CommandFailed):
    """A command did not end within its time, or took seconds to fail: its daemon does not answer."""


Run = Callable[[Sequence[str]], bytes]
"""Runs a command and gives what it printed. Raises `CommandFailed`."""


def run_command(
    words: Sequence[str], *, seconds: float = COMMAND_SECONDS, largest: int = LARGEST_PRINTED,
    stop: threading.Event | None = None,
) -> bytes:  # fmt: skip
    """What a command prints, with instants as seconds since 1970 where Slurm lets us choose.

    Raises `CommandFailed`, and `LookGivenUp` once `stop` is set.
    """
    chosen = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
    began = time.monotonic()
    try:
        printed = ask(words, seconds=seconds, largest=largest, settings=chosen, stop=stop)
    except FileNotFoundError:
        raise CommandFailed(f"{words[0]} is not installed here") from None
    except ProgramHung as error:
        raise CommandHung(str(error)) from None
    except TooMuchPrinted as error:
        raise CommandFailed(f"{error}: choose jobs by --user or --name") from None
    except OSError as error:
        raise CommandFailed(f"{words[0]}: {error}"[:300]) from None
    if printed.code:
        said = printed.complaint.splitlines()
        waited = time.monotonic() - began > SLOW_TO_FAIL_SECONDS
        kind = CommandHung if waited else CommandFailed
        raise kind(f"{words[0]} failed with {printed.code}: {said[0][:200] if said else 'no message'}")
    if not printed.output.strip():
        raise CommandFailed(f"{words[0]} printed nothing, not even a header, and ended with 0")
    return printed.output


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which jobs are followed. Empty: those of the user who asks, or everybody's."""

    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    all_users: bool = False
    since_hours: float = 48.0

    def words(self, everybody: str) -> list[str]:
        """Arguments that `sacct` and `squeue` share."""
        words = [] if not self.users else ["-u", ",".join(self.users)]
        words += [everybody] if everybody and self.all_users and not self.users else []
        words += ["--name=" + ",".join(self.names)] if self.names else []
        return words + (["-j", ",".join(self.jobs)] if self.jobs else [])

    def holds(self, job: Job) -> bool:
        """Whether a job is one of them."""
        users, names, jobs = _each(self.users), _each(self.names), _each(self.jobs)
        if not (users or names or jobs or self.all_users):
            users = {name for name in (_name_of(os.getuid()),) if name is not None}
        users |= {name for user in users if user.isdigit() and (name := _name_of(int(user))) is not None}
        return (
            (not users or job.labels.get("user") in (None, *users))
            and (not names or job.name in names)
            and (not jobs or not jobs.isdisjoint((job.job, job.part_of, f"{job.part_of}_{job.task}")))
        )


def _each(told: Sequence[str]) -> set[str]:
    """What is told one by one, or with commas between as Slurm's commands take it."""
    return {word for words in told for word in words.split(",") if word}


def _name_of(user: int) -> str | None:
    """A user's name; None where this machine has none for it."""
    try:
        return pwd.getpwuid(user).pw_name
    except (KeyError, OverflowError):
        return None


class SlurmSource:
    """The jobs of a cluster, as Slurm's own commands tell of them."""

    def __init__(
        self,
        naming: Naming | None = None,
        chosen: Chosen | None = None,
        *,
        interval_seconds: float = 30.0,
        run: Run | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = "slurm"
        self.runs: tuple[str, ...] = () if naming is None or naming.run is None else (naming.run,)
        self._naming = naming or Naming()
        self._chosen = chosen or Chosen()
        self._interval = interval_seconds
        self._stop = threading.Event()
        self._run = run or self._run_heeding
        self._now = now
        self._cannot_see: set[str] = set()
        """What its own log was told that it cannot see."""
        self._next_at = 0.0
        self._failures = 0
        self._reason = ""
        self._columns: tuple[str, ...] | None = None
        self._passed_over = ""
        self._hung: dict[bool, str] = {}
        """Whether it is the daemon of accounting → what it did not answer in this look."""

    def heed(self, stop: threading.Event) -> None:
        """Once `stop` is set no command is waited for, and none is started."""
        self._stop = stop

    def poll(self, cursor: str | None) -> Polled:
        """What changed since. Raises `SourceDown`, and `LookGivenUp` where it was asked to stop."""
        now = self._now()
        if now < self._next_at:
            if self._failures:
                raise SourceDown(self._reason)
            return Polled((), cursor or "")
        try:
            polled = self.finish(cursor)
        except SourceDown as error:
            self._failures += 1
            self._reason = str(error)
            self._next_at = now + min(LONGEST_WAIT_SECONDS, self._interval * 2 ** min(self._failures, 10))
            raise
        self._failures = 0
        self._next_at = now + self._interval
        return polled

    def finish(self, cursor: str | None) -> Polled:
        """One look, now. Raises `SourceDown`."""
        memory = _memory(cursor)
        now = self._now()
        self._hung.clear()
        facts = SlurmFacts(memory["facts"], self._naming)
        sight = PartialSight("slurm", memory["blind"], lambda: int(now * SECOND))
        since = min(memory["since"] or now - self._chosen.since_hours * 3600, now) - OVERLAP_SECONDS
        parts: dict[str, tuple[list[Job | NodeEvent], str | None, str]] = {
            "squeue": self._ask(self._queued),
            "sacct": self._ask(lambda: self._accounted(since)),
            "nodes": self._ask(lambda: self._nodes(since)),
        }
        failed = {part: reason for part, (_, reason, _) in parts.items() if reason is not None}
        if "sacct" in failed and "squeue" in failed:
            raise SourceDown(f"{failed['sacct']}; {failed['squeue']}")
        self._log_sight(failed)
        records = [record for found, _, _ in parts.values() for record in found]
        # Counts come first: the incarnations that accounting tells of have none before 23.02.
        jobs = [record for record in records if isinstance(record, Job)]
        events = [record for record in records if isinstance(record, NodeEvent)]
        told = facts.take(_counted(jobs), events, as_of=int(now * SECOND))
        if "squeue" not in failed:
            told += facts.ends_of_runs(int(now * SECOND))
        self.runs = facts.runs or self.runs
        for part, (_, _, broken) in parts.items():
            told += sight.cannot_see(part, failed[part], self.runs) if part in failed else sight.sees(part)
            if broken:
                told += sight.cannot_see(f"{part} in part", broken, self.runs)
            elif part not in failed:
                told += sight.sees(f"{part} in part")
        memory["since"] = min([now, *(at / SECOND for at in facts.open_since())])
        return Polled(tuple(told), json.dumps(memory, separators=(",", ":"), sort_keys=True))

    def _log_sight(self, failed: Mapping[str, str]) -> None:
        """Its own log says once what cannot be seen, and once that it is seen again."""
        for part in sorted(failed.keys() - self._cannot_see):
            logger.warning("slurm %s cannot see: %s", part, failed[part])
        for part in sorted(self._cannot_see - failed.keys()):
            logger.info("slurm %s sees again", part)
        self._cannot_see = set(failed)

    def _ask(self, question: Callable[[], list[Job | NodeEvent]]) -> tuple[list[Job | NodeEvent], str | None, str]:
        """The records, why there are none, and what of them was passed over."""
        self._passed_over = ""
        try:
            return question(), None, self._passed_over
        except CommandFailed as error:
            return [], str(error), ""

    def _printed(self, words: Sequence[str]) -> bytes:
        """What a command prints, if none before it in this look hung with the same daemon. Raises `CommandFailed`."""
        is_accounting = words[0] in ACCOUNTING
        if is_accounting in self._hung:
            raise CommandFailed(f"{words[0]} was not asked: {self._hung[is_accounting]}")
        try:
            return self._run(words)
        except CommandHung as error:
            self._hung[is_accounting] = str(error)
            raise

    def _run_heeding(self, words: Sequence[str]) -> bytes:
        return run_command(words, stop=self._stop)

    def _records(self, printed: bytes) -> list[Job | NodeEvent]:
        """The records of an answer; those that make no sense are counted and said, with the first of them.

        One that holds nothing but those is no answer: raises `CommandFailed`.
        """
        found: list[Job | NodeEvent] = []
        refused: list[Refused] = []
        if printed[:100].strip().lower().startswith(NOTHING_THERE):
            return found
        count = 0
        for record in read(printed):
            if isinstance(record, Refused):
                count += 1
                refused = refused or [record]
            else:
                found.append(record)
        if refused:
            first = refused[0]
            said = f"{first.field}: {first.reason} (got {first.value[:80]!r})"
            if not found:
                raise CommandFailed(f"an answer that cannot be read: {said}")
            self._passed_over = f"{count} of {count + len(found)} records passed over, the first: {said}"
        return found

    def _accounted(self, since: float) -> list[Job | NodeEvent]:
        if self._columns is None:
            told = self._printed(("sacct", "--helpformat"))[:LONGEST_HELP].decode("ascii", "replace")
            known = {word.lower() for word in told.split()}
            self._columns = (*COLUMNS, *(column for column in NEWER_COLUMNS if column.lower() in known))
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since))
        words = [
            "sacct",
            "-D",
            "-P",
            "--noconvert",
            "-S",
            begin,
            "-o",
            ",".join(self._columns),
            *self._chosen.words("-a"),
        ]
        return self._records(self._printed(words))

    def _queued(self) -> list[Job | NodeEvent]:
        chosen = self._chosen.words("")
        words = ["squeue", "--json", "--states=all", *(chosen or ([] if self._chosen.all_users else ["--me"]))]
        began = time.monotonic()
        try:
            shown = self._records(self._printed(words))
        except CommandFailed as error:
            if time.monotonic() - began > SLOW_TO_FAIL_SECONDS:  # 22.05 tells so in an answer, and ends with 0
                self._hung.setdefault(False, str(error))
            if False in self._hung or "is not installed" in str(error):
                raise
            shown = None
        if shown is None:  # not asked while the error is handled, which holds what the first command printed
            shown = self._records(self._printed(["scontrol", "-d", "show", "job", "-o"]))
        return [job for job in shown if isinstance(job, Job) and self._chosen.holds(job)]

    def _nodes(self, since: float) -> list[Job | NodeEvent]:
        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since))
        columns = "format=Cluster,NodeName,TimeStart,TimeEnd,State,Reason,User"
        told, failed, _ = self._ask(
            lambda: self._records(self._printed(["sacctmgr", "-P", "show", "event", columns, f"start={begin}"]))
        )
        try:
            return told + self._shown_nodes(self._printed(["scontrol", "show", "node", "-o"]))
        except CommandFailed:
            if failed is not None:
                raise
            return told

    def _shown_nodes(self, printed: bytes) -> list[Job | NodeEvent]:
        """The nodes that `scontrol show node -o` prints: those with a reason are read whole, the others are at work.

        A cluster has thousands of nodes, and few of them have a reason. Raises `CommandFailed`.
        """
        with_reason = bytearray()
        found: list[Job | NodeEvent] = []
        for row in io.BytesIO(printed):
            name = _AT_WORK.match(row)
            if name is not None and b" Reason=" not in row:
                found.append(NodeEvent(name[1].decode("ascii"), name[2].decode("ascii"), None, is_shown=True))
            else:
                with_reason += row
        return found + self._records(bytes(with_reason))


def _counted(jobs: Sequence[Job]) -> list[Job]:
    """The jobs, those of which a count is told first among equals."""
    return sorted(jobs, key=lambda job: job.restarts is None)


def _memory(cursor: str | None) -> dict[str, Any]:
    """What a cursor holds; one that makes no sense is the beginning."""
    empty: dict[str, Any] = {"facts": {}, "blind": {}, "since": None}
    try:
        told = json.loads(cursor) if cursor else {}
    except ValueError:
        return empty
    fits = isinstance(told, dict) and isinstance(told.get("facts"), dict) and isinstance(told.get("blind"), dict)
    return {**empty, **told} if fits else empty


def _read_file(old: OldFile) -> Iterator[Fact]:
    return _read_files([old])


def _read_files(files: Sequence[OldFile]) -> Iterator[Fact]:
    """The facts of jobs and nodes, whichever file tells of which."""
    jobs: list[Job] = []
    events: list[NodeEvent] = []
    of_nodes: list[OldFile] = []
    for old in files:
        before = len(events)
        for record in read(old.content()):
            if isinstance(record, Refused):
                old.refuse(record.line, FactError(record.field, record.value, record.reason))
            elif isinstance(record, Job):
                jobs.append(record)
            else:
                events.append(record)
        if events[before:]:
            of_nodes.append(old)
        if any(event.start is None for event in events[before:]):
            old.remark("of nodes of which no instant is told, nothing is stated")
    run = files[0].run
    if of_nodes and not jobs and run is None:
        for old in of_nodes:
            reason = "nodes alone tell no run: name it with --run, or give the file of their jobs beside it"
            old.refuse(1, FactError("run", old.stem, reason))
        return
    yield from with_last_jobs(SlurmFacts(naming=Naming(run)).take(jobs, events), files[0])


FORMAT = ImportFormat(
    name="slurm",
    summary="what sacct, squeue, scontrol show and sacctmgr show event print (-P, --json): jobs, requeues, nodes",
    read=_read_file,
    read_together=_read_files,
    example="sacct.txt events.txt --run llm",
    tells="jobs and requeues as attempts, waits, exit codes, preemption, time limits, memory, nodes that "
    "failed, who cancelled",
    cannot_tell="steps, checkpoints, ranks, and why a person cancelled",
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", "-u", action="append", default=[], help="jobs of this user; may be given again")
    parser.add_argument("--all-users", "-a", action="store_true", help="everybody's jobs (default: your own)")
    parser.add_argument("--name", action="append", default=[], help="only jobs of this name; may be given again")
    parser.add_argument("--job", "-j", action="append", default=[], help="only this job id; may be given again")
    parser.add_argument(
        "--run-from", choices=("name", "comment", "wckey", "account", "partition", "user", "job"), default="name",
        help="what of a job names its run (default name)",
    )  # fmt: skip
    parser.add_argument(
        "--interval", type=number_between(1), default=30.0, help="seconds between two looks (default 30)"
    )
    parser.add_argument(
        "--since-hours", type=number_between(1), default=48.0, help="how far the first look goes back (default 48)"
    )


def _make(arguments: argparse.Namespace) -> tuple[Source, ...]:
    chosen = Chosen(
        tuple(arguments.user), tuple(arguments.name), tuple(arguments.job), arguments.all_users, arguments.since_hours
    )
    naming = Naming(arguments.run_id or settings().run, arguments.run_from)
    return (SlurmSource(naming, chosen, interval_seconds=arguments.interval),)


SOURCE = LiveSource(
    name="slurm",
    summary="jobs, requeues and nodes of a cluster, by sacct, squeue and sacctmgr",
    description="Asks Slurm's own commands and states attempts, ends, queues and lost nodes (docs/slurm.md).",
    add_arguments=_add_arguments,
    make=_make,
)
