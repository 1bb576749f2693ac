"""Dumps: one rank's flight recorder as typed values, whichever way it was written.

Rules
- Accepted: schema 2.x as pickle or JSON, and the older dumps that are a list of entries only. Another major version is
  refused by its number.
- A dump without `entries` was made with recording disabled: `entries` is None, which is not the same as none.
- `pg_config` tells ranks as a text. It is read as a JSON list of numbers and nothing else; it is never evaluated.
- In JSON the instants 0 are unknown; in pickle they are None. Here both are None.
- gloo tells one group without a name instead of its groups: such a group is left out. A side-car tells them.
- Which rank a dump is of stands in its file's name only.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rerail.server.core.flight_recorder.json_text import looks_like_json, read_json
from rerail.server.core.flight_recorder.pickles import is_pickle, read_pickle
from rerail.server.core.flight_recorder.refusal import LONGEST_TEXT, MOST_ENTRIES, MOST_VALUES, DumpRefusedError

MAJOR = 2
LARGEST = 2**63 - 1
MOST_RANKS = 262_144
"""More than any run has."""

MOST_FRAMES = 200
COMPLETED, STARTED, SCHEDULED = "completed", "started", "scheduled"
RANK = re.compile(r"rank[_-]?(\d{1,7})(?!\d)", re.IGNORECASE)
TRAILING = re.compile(r"(\d{1,7})(?:\.[A-Za-z]{1,10}){0,3}$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective or point-to-point operation as one rank recorded it."""

    record_id: int
    group: str
    """Name of the process group, the same on every rank."""
    description: str
    group_id: int
    """The rank's own number of that group: what the status of groups goes by."""
    sequence: int
    p2p_sequence: int
    backend: str
    operation: str
    """`all_reduce`, `send 0->1`; without the backend."""
    is_p2p: bool
    state: str
    is_retired: bool
    created_at: int | None
    started_at: int | None
    completed_at: int | None
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_types: tuple[str, ...]
    output_types: tuple[str, ...]
    timeout_ms: int | None
    thread: str | None
    frames: tuple[Frame, ...]
    """Innermost first; empty where no stacks were recorded."""

    @property
    def is_completed(self) -> bool:
        """Whether it is known to have completed. gloo never says so: there it was retired, also after a time-out."""
        if self.state == COMPLETED or self.completed_at is not None:
            return True
        return self.backend == "gloo" and self.is_retired


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as a dump or a side-car tells it."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """How far a rank got in a group, by its sequence numbers; None where it did not begin."""

    group_id: int
    enqueued: int | None
    started: int | None
    completed: int | None


@dataclass(frozen=True, slots=True)
class Dump:
    """Everything one rank's recorder told."""

    version: str | None
    """None for a dump that is a list of entries only."""
    entries: tuple[Entry, ...] | None
    """By their record number; None where recording was disabled."""
    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    library: str | None


@dataclass(frozen=True, slots=True)
class SideCar:
    """The groups of one rank, written beside a dump whose recorder does not tell them."""

    rank: int | None
    world_size: int | None
    groups: tuple[Group, ...]


def rank_in(name: str) -> int | None:
    """The rank that a dump's file name says: `nccl_trace_rank_12`, `fr_trace3.json`."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    told = RANK.findall(last)
    if told:
        return int(told[-1])
    trailing = TRAILING.search(last)
    return int(trailing.group(1)) if trailing else None


def value_of(content: bytes) -> object:
    """The plain value of a dump's bytes, pickle or JSON. Raises DumpRefusedError."""
    if is_pickle(content):
        return read_pickle(content)
    if looks_like_json(content):
        return read_json(content)
    raise DumpRefusedError("neither a pickle of protocol 2 to 5 nor JSON")


def is_side_car(value: object) -> bool:
    """Whether a value is a side-car: groups, and nothing recorded."""
    return isinstance(value, dict) and "pg_config" in value and "entries" not in value and "version" not in value


def is_dump(value: object) -> bool:
    """Whether a value is a dump at all, readable or not."""
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and "profiling_name" in value[0]
    if not isinstance(value, dict) or is_side_car(value):
        return False
    return ("entries" in value or "pg_config" in value or "pg_status" in value) and "version" in value


def read_dump(content: bytes) -> Dump:
    """The dump in these bytes. Raises DumpRefusedError."""
    return dump_of(value_of(content))


def read_side_car(content: bytes) -> SideCar:
    """The side-car in these bytes. Raises DumpRefusedError."""
    return side_car_of(read_json(content))


def dump_of(value: object) -> Dump:
    """A typed dump of a plain value. Raises DumpRefusedError."""
    walk = _Walk()
    if isinstance(value, list):
        return Dump(None, walk.entries(value), (), (), None)
    if not isinstance(value, dict):
        raise DumpRefusedError("not a flight recorder dump: neither an object nor a list of entries")
    version = value.get("version")
    if not isinstance(version, str):
        raise DumpRefusedError(f"version: not text (got {_shown(version)}); not a flight recorder dump")
    major = version.split(".", 1)[0]
    if major != str(MAJOR):
        raise DumpRefusedError(f"version: {version[:40]} is not known; {MAJOR}.x is")
    entries = value.get("entries")
    return Dump(
        version=version[:40],
        entries=None if entries is None else walk.entries(entries),
        groups=tuple(walk.groups(value.get("pg_config", {}))),
        status=tuple(walk.statuses(value.get("pg_status", {}))),
        library=walk.text("comm_lib_version", value.get("comm_lib_version", ""))[:100] or None,
    )


def side_car_of(value: object) -> SideCar:
    """A typed side-car of a plain value. Raises DumpRefusedError."""
    walk = _Walk()
    if not isinstance(value, dict) or not is_side_car(value):
        raise DumpRefusedError("not a side-car: pg_config is missing")
    return SideCar(
        rank=walk.count("rank", value.get("rank"), MOST_RANKS),
        world_size=walk.count("world_size", value.get("world_size"), MOST_RANKS),
        groups=tuple(walk.groups(value["pg_config"])),
    )


def _shown(value: object) -> str:
    """A value for a sentence; never more of it than a glance."""
    if value is None or isinstance(value, (str, int, float)):
        return repr(value)[:80]
    return f"a {type(value).__name__}"


class _Walk:
    """Walks over a plain value once, and counts what it looks at."""

    def __init__(self) -> None:
        self._looked_at = 0

    def _look(self, count: int = 1) -> None:
        self._looked_at += count
        if self._looked_at > MOST_VALUES:
            raise DumpRefusedError(f"the dump holds more than {MOST_VALUES} values")

    # --- single values ---

    def text(self, field: str, value: object) -> str:
        """Text, without what no text of a recorder holds."""
        if not isinstance(value, str):
            raise DumpRefusedError(f"{field}: not text (got {_shown(value)})")
        if len(value) > LONGEST_TEXT:
            raise DumpRefusedError(f"{field}: a text of {len(value)} characters; the most is {LONGEST_TEXT}")
        if value.isprintable():
            return value
        return "".join(letter if letter.isprintable() else "�" for letter in value)

    def number(self, field: str, value: object) -> int:
        """An integer, also where JSON tells it as text."""
        if isinstance(value, str) and len(value) <= 20:
            with contextlib.suppress(ValueError):
                value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not -LARGEST <= value <= LARGEST:
            raise DumpRefusedError(f"{field}: not a whole number of 64 bit (got {_shown(value)})")
        return value

    def count(self, field: str, value: object, most: int = LARGEST) -> int | None:
        """A number from 0 on, or None where there is none."""
        if value is None:
            return None
        number = self.number(field, value)
        if not 0 <= number <= most:
            raise DumpRefusedError(f"{field}: not between 0 and {most} (got {number})")
        return number

    def reached(self, field: str, value: object) -> int | None:
        """A sequence number; what is below 0 was not reached."""
        if value is None:
            return None
        number = self.number(field, value)
        return None if number < 0 else number

    def instant(self, field: str, value: object) -> int | None:
        """Nanoseconds since 1970; 0 is unknown."""
        return self.count(field, value) or None

    # --- groups ---

    def groups(self, told: object) -> Iterator[Group]:
        """The groups of a `pg_config`, without the nameless one that gloo tells."""
        if not isinstance(told, dict):
            raise DumpRefusedError(f"pg_config: not an object (got {_shown(told)})")
        for name, group in told.items():
            field = f"pg_config.{str(name)[:80]}"
            self._look()
            if not isinstance(group, dict):
                raise DumpRefusedError(f"{field}: not an object (got {_shown(group)})")
            ranks = self._ranks(f"{field}.ranks", group.get("ranks"))
            if name == "" or not ranks:
                continue
            description = self.text(f"{field}.desc", group.get("desc", ""))
            yield Group(self.text("pg_config", str(name))[:200], description[:200], ranks)

    def _ranks(self, field: str, told: object) -> tuple[int, ...]:
        if isinstance(told, str):
            try:
                told = json.loads(told or "[]")
            except (ValueError, RecursionError):
                raise DumpRefusedError(f"{field}: not a list of ranks (got {_shown(told)})") from None
        if not isinstance(told, (list, tuple)):
            raise DumpRefusedError(f"{field}: not a list of ranks (got {_shown(told)})")
        self._look(len(told))
        ranks = []
        for rank in told:
            if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < MOST_RANKS:
                raise DumpRefusedError(f"{field}: not a rank (got {_shown(rank)})")
            ranks.append(rank)
        return tuple(ranks)

    def statuses(self, told: object) -> Iterator[Status]:
        """How far the rank got in each of its groups."""
        if not isinstance(told, dict):
            raise DumpRefusedError(f"pg_status: not an object (got {_shown(told)})")
        for name, status in told.items():
            field = f"pg_status.{str(name)[:80]}"
            self._look()
            if not isinstance(status, dict):
                raise DumpRefusedError(f"{field}: not an object (got {_shown(status)})")
            yield Status(
                self.number("pg_status", name),
                self.reached(f"{field}.last_enqueued_collective", status.get("last_enqueued_collective")),
                self.reached(f"{field}.last_started_collective", status.get("last_started_collective")),
                self.reached(f"{field}.last_completed_collective", status.get("last_completed_collective")),
            )

    # --- entries ---

    def entries(self, told: object) -> tuple[Entry, ...]:
        """Every entry, by record number."""
        if not isinstance(told, list):
            raise DumpRefusedError(f"entries: not a list (got {_shown(told)})")
        if len(told) > MOST_ENTRIES:
            raise DumpRefusedError(f"entries: {len(told)} of them; the most is {MOST_ENTRIES}")
        found: list[Entry] = []
        try:
            for entry in told:
                found.append(self._entry(len(found), entry))
        except DumpRefusedError as error:
            # Which entry it was is told only here: naming the place of every field of every entry costs time.
            raise DumpRefusedError(f"entries[{len(found)}].{error}".replace("].not", "]: not")) from None
        return tuple(sorted(found, key=lambda entry: entry.record_id))

    def _entry(self, index: int, entry: object) -> Entry:
        if not isinstance(entry, dict):
            raise DumpRefusedError(f"not an object (got {_shown(entry)})")
        self._look(len(entry))
        name = self.text("profiling_name", entry.get("profiling_name", ""))[:300]
        backend, colon, operation = name.partition(":")
        group_id = self.number("pg_id", entry.get("pg_id", 0))
        group, description = self._group_of("process_group", entry.get("process_group"), group_id)
        sequence = entry.get("collective_seq_id", entry.get("seq_id", 0))
        return Entry(
            record_id=self.number("record_id", entry.get("record_id", index)),
            group=group,
            description=description,
            group_id=group_id,
            sequence=self.number("collective_seq_id", sequence),
            p2p_sequence=self.number("p2p_seq_id", entry.get("p2p_seq_id", 0)),
            backend=backend if colon else "",
            operation=operation if colon else name,
            is_p2p=self._flag("is_p2p", entry.get("is_p2p", False)),
            state=self.text("state", entry.get("state", ""))[:40],
            is_retired=self._flag("retired", entry.get("retired", False)),
            created_at=self.instant("time_created_ns", entry.get("time_created_ns")),
            started_at=self.instant("time_discovered_started_ns", entry.get("time_discovered_started_ns")),
            completed_at=self.instant("time_discovered_completed_ns", entry.get("time_discovered_completed_ns")),
            input_sizes=self._sizes("input_sizes", entry.get("input_sizes")),
            output_sizes=self._sizes("output_sizes", entry.get("output_sizes")),
            input_types=self._types("input_dtypes", entry.get("input_dtypes")),
            output_types=self._types("output_dtypes", entry.get("output_dtypes")),
            timeout_ms=self.count("timeout_ms", entry.get("timeout_ms")),
            thread=self._thread(entry),
            frames=self._frames("frames", entry.get("frames")),
        )

    def _flag(self, field: str, value: object) -> bool:
        if value is None or isinstance(value, bool):
            return bool(value)
        raise DumpRefusedError(f"{field}: not true or false (got {_shown(value)})")

    def _group_of(self, field: str, told: object, group_id: int) -> tuple[str, str]:
        if told is None:
            return str(group_id), ""
        if not isinstance(told, (list, tuple)) or len(told) != 2:
            raise DumpRefusedError(f"{field}: not a name and a description (got {_shown(told)})")
        return self.text(field, told[0])[:200], self.text(field, told[1])[:200]

    def _thread(self, entry: Mapping[object, object]) -> str | None:
        name, number = entry.get("thread_name"), entry.get("thread_id")
        if name is None and number is None:
            return None
        shown = self.text("thread_name", name or "")[:60]
        return f"{shown} {str(number)[:24]}".strip() if isinstance(number, (str, int)) else shown or None

    def _sizes(self, field: str, told: object) -> tuple[tuple[int, ...], ...]:
        if told is None:
            return ()
        if not isinstance(told, (list, tuple)):
            raise DumpRefusedError(f"{field}: not a list of shapes (got {_shown(told)})")
        self._look(len(told))
        shapes = []
        for shape in told:
            if not isinstance(shape, (list, tuple)) or len(shape) > 64:
                raise DumpRefusedError(f"{field}: not a shape (got {_shown(shape)})")
            self._look(len(shape))
            shapes.append(tuple([self.number(field, size) for size in shape]))
        return tuple(shapes)

    def _types(self, field: str, told: object) -> tuple[str, ...]:
        if told is None:
            return ()
        if isinstance(told, str):
            return (self.text(field, told)[:40],)
        if not isinstance(told, (list, tuple)):
            raise DumpRefusedError(f"{field}: not a list of types (got {_shown(told)})")
        self._look(len(told))
        return tuple([self.text(field, each)[:40] for each in told])

    def _frames(self, field: str, told: object) -> tuple[Frame, ...]:
        if told is None:
            return ()
        if not isinstance(told, (list, tuple)):
            raise DumpRefusedError(f"{field}: not a list of frames (got {_shown(told)})")
        frames = []
        for frame in told[:MOST_FRAMES]:
            self._look()
            if not isinstance(frame, dict):
                raise DumpRefusedError(f"{field}: not a frame (got {_shown(frame)})")
            frames.append(
                Frame(
                    self.text("frames.name", frame.get("name", ""))[:200],
                    self.text("frames.filename", frame.get("filename", ""))[-300:],
                    self.number("frames.line", frame.get("line", 0)),
                )
            )
        return tuple(frames)
