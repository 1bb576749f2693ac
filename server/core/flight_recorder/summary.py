"""Summaries: one rank's dump, reduced to what an analysis over all ranks needs; small enough for one piece of evidence.

Rules
- Of each process group: its members as told, the last sequence numbers enqueued, started and completed, the operations
  that are pending and the last few, each with sizes, types, state and the top frame of the user's own code.
- A summary is at most `LONGEST_SUMMARY` characters of JSON: of a dump with many groups or many pending operations the
  newest are kept, and how many were left out is told.
- Sizes are kept as text for people and as numbers of elements for comparison: a collective does not care for shapes.
- A side-car is summarised the same way: groups, and nothing recorded.
- Reading a summary back raises nothing: what is no summary of this version is None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rerail.server.core.flight_recorder import ranks as rank_text
from rerail.server.core.flight_recorder.dump import COMPLETED, Dump, Entry, Frame, Group, SideCar

SOURCE = "flight_recorder"
STACK_SOURCE = "stack"
"""Where the threads of a rank stood, as it answered while it hung."""

DUMP_CODE, GROUPS_CODE = "dump", "groups"
SUMMARY = "summary"
"""The attribute of an evidence fact that holds a summary."""

VERSION = 1
LONGEST_SUMMARY = 12_000
KEPT_CALLS = (12, 6, 3, 2, 1)
"""Latest operations kept of each group; the first number with which the summary is short enough is taken."""

MOST_PENDING = 40
MOST_GROUPS = 400
NOT_OWN = ("/torch/", "site-packages/", "dist-packages/", "<frozen", "<string>", "/torchrun")
"""Marks of files that are not the user's own code."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of one rank in one group."""

    sequence: int
    operation: str
    state: str
    """`completed`, `started`, `scheduled`; `retired` of one that ended, and nobody says whether well."""
    is_pending: bool
    is_p2p: bool = False
    sizes: str = ""
    """Input and output shapes, for people."""
    input_elements: int | None = None
    output_elements: int | None = None
    types: str = ""
    frame: str = ""
    """`function (file:line)` of the user's own code that called it."""
    created_at: int | None = None
    thread: str = ""
    record: int = 0


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One process group as one rank saw it."""

    name: str
    description: str
    members: str | None
    """As `ranks.packed` writes them, in the order of the group; None where this dump does not tell them."""
    enqueued: int | None = None
    """Highest sequence number enqueued, by status or by entry."""
    started: int | None = None
    completed: int | None = None
    calls: tuple[Call, ...] = ()
    """Newest last."""
    pending_count: int = 0
    """Pending operations, kept or not."""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RankSummary:
    """What one rank's dump comes to."""

    rank: int
    groups: tuple[GroupSummary, ...]
    is_recorded: bool = True
    """False where recording was disabled, or for a side-car."""
    is_side_car: bool = False
    version: str | None = None
    entry_count: int = 0
    first_record: int | None = None
    """Above 0: the ring had wrapped."""
    last_group: str | None = None
    """Group of the last operation that the rank called, in the order of its calls."""
    last_at: int | None = None
    """When that was."""
    world_size: int | None = None
    left_out: int = field(default=0)
    """Operations and groups that did not fit."""

    @property
    def last_call(self) -> tuple[GroupSummary, Call] | None:
        """The last operation the rank called."""
        latest: tuple[GroupSummary, Call] | None = None
        for group in self.groups:
            if group.calls and (latest is None or group.calls[-1].record > latest[1].record):
                latest = group, group.calls[-1]
        return latest


# --- making ---


def own_frame(frames: Sequence[Frame]) -> str:
    """The innermost frame of the user's own code, as `function (file:line)`; empty where there is none."""
    for frame in frames:
        path = frame.file.replace("\\", "/")
        if not path or any(mark in path for mark in NOT_OWN):
            continue
        return f"{frame.function} ({path.rsplit('/', 1)[-1]}:{frame.line})"[:160]
    return ""


def _elements(shapes: Sequence[Sequence[int]]) -> int | None:
    """Elements of all tensors together; None where none was recorded."""
    return sum(math.prod(shape) for shape in shapes) if shapes else None


def _shown(shapes: Sequence[Sequence[int]]) -> str:
    shown = ", ".join(str(list(shape)) for shape in shapes[:3])
    return shown + (f", … {len(shapes)} tensors" if len(shapes) > 3 else "")


def _call(entry: Entry) -> Call:
    is_pending = not entry.is_completed
    is_surely_completed = entry.state == COMPLETED or entry.completed_at is not None
    state = COMPLETED if is_surely_completed else "retired" if entry.is_retired else entry.state
    inward, outward = _shown(entry.input_sizes), _shown(entry.output_sizes)
    inputs, outputs = ("+".join(sorted(set(types))[:3]) for types in (entry.input_types, entry.output_types))
    return Call(
        sequence=entry.p2p_sequence if entry.is_p2p else entry.sequence,
        operation=entry.operation[:80],
        state=state,
        is_pending=is_pending,
        is_p2p=entry.is_p2p,
        sizes=(inward if inward == outward else f"{inward} → {outward}")[:120],
        input_elements=_kept(_elements(entry.input_sizes)),
        output_elements=_kept(_elements(entry.output_sizes)),
        types=(inputs if inputs == outputs else f"{inputs} → {outputs}")[:80],
        frame=own_frame(entry.frames),
        created_at=entry.created_at,
        thread=(entry.thread or "")[:60],
        record=entry.record_id,
    )


def _kept(elements: int | None) -> int | None:
    return None if elements is None or abs(elements) >= 2**63 else elements


def summary(dump: Dump, rank: int) -> RankSummary:
    """What a dump of a rank comes to."""
    status = {each.group_id: each for each in dump.status}
    members = {group.name: group for group in dump.groups}
    entries: dict[str, list[Entry]] = {}
    for entry in dump.entries or ():
        entries.setdefault(entry.group, []).append(entry)
    groups = [
        _group(name, told, members.get(name), {status[entry.group_id] for entry in told if entry.group_id in status})
        for name, told in entries.items()
    ]
    groups += [
        GroupSummary(each.name, each.description, rank_text.packed(each.ranks))
        for each in dump.groups
        if each.name not in entries
    ]
    last = dump.entries[-1] if dump.entries else None
    return RankSummary(
        rank=rank,
        groups=tuple(groups),
        is_recorded=dump.entries is not None,
        version=dump.version,
        entry_count=len(dump.entries or ()),
        first_record=dump.entries[0].record_id if dump.entries else None,
        last_group=last.group if last else None,
        last_at=max((entry.created_at for entry in dump.entries or () if entry.created_at is not None), default=None),
    )


def _group(name: str, entries: Sequence[Entry], told: Group | None, statuses: set[object]) -> GroupSummary:
    collectives = [entry for entry in entries if not entry.is_p2p]
    pending = [entry for entry in entries if not entry.is_completed]

    def furthest(field_name: str, seen: Iterable[int]) -> int | None:
        # Where a group also sends and receives, its status counts those in another row of numbers.
        values = [getattr(each, field_name) for each in statuses] if len(collectives) == len(entries) else []
        return max([value for value in (*values, *seen) if value is not None], default=None)

    return GroupSummary(
        name=name,
        description=next((entry.description for entry in reversed(entries) if entry.description), ""),
        members=None if told is None else rank_text.packed(told.ranks),
        enqueued=furthest("enqueued", (entry.sequence for entry in collectives)),
        started=furthest(
            "started", (entry.sequence for entry in collectives if entry.state in ("started", "completed"))
        ),
        completed=furthest("completed", ()),
        calls=tuple(_call(entry) for entry in (*pending[:MOST_PENDING], *entries[-KEPT_CALLS[0] :])),
        pending_count=len(pending),
        timeout_ms=max((entry.timeout_ms for entry in entries if entry.timeout_ms is not None), default=None),
    )


def side_car_summary(side_car: SideCar, rank: int) -> RankSummary:
    """What a side-car comes to."""
    groups = tuple(
        GroupSummary(group.name, group.description, rank_text.packed(group.ranks)) for group in side_car.groups
    )
    return RankSummary(rank, groups, is_recorded=False, is_side_car=True, world_size=side_car.world_size)


# --- writing ---


def summary_text(told: RankSummary) -> str:
    """A summary as JSON of at most `LONGEST_SUMMARY` characters."""
    for most_calls in KEPT_CALLS:
        text = _written(told, most_calls, told.groups)
        if len(text) <= LONGEST_SUMMARY:
            return text
    # Groups in which something is pending first, then those used last.
    groups = sorted(told.groups, key=lambda group: (group.pending_count > 0, _last_record(group)), reverse=True)
    kept = min(len(groups), MOST_GROUPS)
    while kept > 1:
        text = _written(told, 1, groups[:kept])
        if len(text) <= LONGEST_SUMMARY:
            return text
        kept = min(kept - 1, kept * LONGEST_SUMMARY // len(text))
    return _written(told, 1, [])


def _last_record(group: GroupSummary) -> int:
    return group.calls[-1].record if group.calls else -1


def _written(told: RankSummary, most_calls: int, groups: Sequence[GroupSummary]) -> str:
    left_out = len(told.groups) - len(groups)
    rows = []
    for group in groups:
        calls = _unique(group.calls)
        pending = [call for call in calls if call.is_pending][: max(1, most_calls)]
        latest = calls[-most_calls:]
        kept = _unique((*pending, *latest))
        left_out += max(0, group.pending_count - sum(call.is_pending for call in kept))
        rows.append(
            {
                "n": group.name, "d": group.description,
                "m": group.members,
                "e": group.enqueued, "s": group.started, "c": group.completed,
                "p": group.pending_count, "t": group.timeout_ms,
                "calls": [_row(call) for call in kept],
            }
        )  # fmt: skip
    document = {
        "v": VERSION, "rank": told.rank, "recorded": told.is_recorded, "side_car": told.is_side_car,
        "version": told.version, "entries": told.entry_count, "first": told.first_record, "last": told.last_group,
        "at": told.last_at, "world": told.world_size, "left_out": left_out, "groups": rows,
    }  # fmt: skip
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _unique(calls: Iterable[Call]) -> list[Call]:
    """Each call once, in the order of the rank's records."""
    return sorted({(call.record, call.is_p2p, call.sequence): call for call in calls}.values(), key=lambda c: c.record)


def _row(call: Call) -> list[object]:
    return [
        call.sequence, call.operation, call.state, int(call.is_pending), int(call.is_p2p), call.sizes,
        call.input_elements, call.output_elements, call.types, call.frame, call.created_at, call.thread, call.record,
    ]  # fmt: skip


# --- reading ---


def summary_of(text: str) -> RankSummary | None:
    """The summary that `summary_text` wrote; None for what is none."""
    try:
        told = json.loads(text)
        if told["v"] != VERSION:
            return None
        return RankSummary(
            rank=_whole(told["rank"]),
            groups=tuple(_read_group(row) for row in told["groups"]),
            is_recorded=bool(told["recorded"]),
            is_side_car=bool(told["side_car"]),
            version=_words(told["version"]),
            entry_count=_whole(told["entries"]),
            first_record=_maybe(told["first"]),
            last_group=_words(told["last"]),
            last_at=_maybe(told["at"]),
            world_size=_maybe(told["world"]),
            left_out=_whole(told["left_out"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _read_group(row: dict[str, object]) -> GroupSummary:
    calls = row["calls"]
    if not isinstance(calls, list):
        raise TypeError("calls")
    return GroupSummary(
        name=_words(row["n"]) or "",
        description=_words(row["d"]) or "",
        members=_words(row["m"]),
        enqueued=_maybe(row["e"]),
        started=_maybe(row["s"]),
        completed=_maybe(row["c"]),
        calls=tuple(_read_call(call) for call in calls),
        pending_count=_whole(row["p"]),
        timeout_ms=_maybe(row["t"]),
    )


def _read_call(row: list[object]) -> Call:
    # Of ten thousand ranks these are a hundred thousand: checked in place, since helpers for each value add up.
    (sequence, operation, state, pending, p2p, sizes, inputs, outputs, types, frame, created_at, thread, record) = row
    if not (
        type(sequence) is int and type(record) is int and type(operation) is str and type(state) is str
        and type(sizes) is str and type(types) is str and type(frame) is str and type(thread) is str
        and (inputs is None or type(inputs) is int) and (outputs is None or type(outputs) is int)
        and (created_at is None or type(created_at) is int)
    ):  # fmt: skip
        raise TypeError("not an operation")
    return Call(
        sequence, operation, state, bool(pending), bool(p2p), sizes, inputs, outputs, types, frame, created_at, thread,
        record,
    )  # fmt: skip


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a whole number")
    return value


def _maybe(value: object) -> int | None:
    return None if value is None else _whole(value)


def _words(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("not text")
    return value


# --- for people ---

UNNAMED = ("undefined",)
"""What gloo tells of a group that the program gave no name."""
ENDED = {"retired": "ended"}
"""States that people call otherwise."""


def title_of(name: str, description: str, before: str = "") -> str:
    """What people call a group: as the program named it, else `before` and its number."""
    return f"unnamed group {name}" if description in UNNAMED else description or f"{before}{name}"


def sentence(told: RankSummary) -> str:
    """A summary in a sentence or two."""
    if told.is_side_car:
        return f"Process groups of rank {told.rank}: {len(told.groups)} of them, told beside its flight recorder."
    if not told.is_recorded:
        return (
            f"Flight recorder of rank {told.rank}: recording was disabled, nothing can be told. "
            "Set TORCH_FR_BUFFER_SIZE to a number above 0."
        )
    if not told.entry_count:
        return f"Flight recorder of rank {told.rank}: no operation was recorded."
    wrapped = " (the ring had wrapped)" if told.first_record else ""
    words = f"Flight recorder of rank {told.rank}: {told.entry_count} operations{wrapped}."
    last = told.last_call
    if last is not None:
        group, call = last
        at = f" at {call.frame}" if call.frame else ""
        state = ENDED.get(call.state, call.state)
        words += f" Last: {call.operation} #{call.sequence} of {title_of(group.name, group.description)}{at}, {state}."
    pending = sum(group.pending_count for group in told.groups)
    return words + (f" {pending} pending." if pending else " Nothing pending.")
