"""Codec: facts to and from the JSON lines of the wire format (`docs/facts.md`).

Rules
- Strict: a fact that does not fit raises `FactError`, which names the field, its value and why. Nothing is guessed,
  clamped or rounded.
- Unknown kinds become `UnknownFact`, unknown fields go to `extra`, and both are written out again unchanged.
- `null` for an optional field is the same as leaving it out.
- A line of kind `context` is no fact: it sets defaults for the lines after it.

`pack_durations` is the packed form of step durations, used on the wire (`blob`).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

from rerail.server.core.facts import (
    FACT_TYPES,
    SCHEMA_VERSION,
    STATED_PHASES,
    CheckpointStage,
    Fact,
    Initiator,
    MarkStage,
    NodeCondition,
    Outcome,
    Phase,
    PhaseSpan,
    Scope,
    Steps,
    UnknownFact,
    WindowState,
)

EARLIEST_INSTANT = 946_684_800_000_000_000
"""2000-01-01 UTC in ns. A clock before it was never set, and its fact says nothing about *when*."""

LATEST_INSTANT = 4_102_444_800_000_000_000
"""2100-01-01 UTC in ns. Seconds, milliseconds and microseconds sent as nanoseconds fall below `EARLIEST_INSTANT`."""

LONGEST_TEXT = 16_384
"""Characters of one piece of evidence or note."""

LONGEST_NAME = 200
MOST_STEPS = 1_000_000
LARGEST_STEP = 10**15
"""Far beyond any training, and far enough from 64 bit that no sum of steps leaves it."""

MOST_RANKS = 1_000_000
LARGEST_RANK = 2**31 - 1
"""Ranks that one window of heartbeats may tell of, and the first of them."""

LARGEST_INT = 2**63 - 1


class FactError(ValueError):
    """A line that is not a fact: which field, with which value, and why it was refused."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        shown = value if isinstance(value, str) else _shown(value)
        self.field = field
        self.value = shown if len(shown) <= 200 else shown[:197] + "..."
        self.reason = reason
        super().__init__(f"{field}: {reason} (got {self.value})")


@dataclass(frozen=True, slots=True)
class Context:
    """Defaults for the lines after it, to the end of the batch."""

    defaults: Mapping[str, object]


def _shown(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


# --- checks of one field: each returns the value as the dataclass holds it, or raises FactError ---

Check = Callable[[str, object], object]


def _integer(low: int, high: int = LARGEST_INT) -> Check:
    def check(field: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise FactError(field, value, "not an integer")
        if value < low:
            raise FactError(field, value, "negative" if low == 0 else f"below {low}")
        if value > high:
            raise FactError(field, value, f"above {high}")
        return value

    return check


def _instant(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FactError(field, value, "not an integer of nanoseconds since 1970")
    if value < EARLIEST_INSTANT:
        raise FactError(field, value, "before the year 2000: the clock was not set, or the unit is not nanoseconds")
    if value > LATEST_INSTANT:
        raise FactError(field, value, "after the year 2100: the clock is wrong, or the unit is not nanoseconds")
    return value


def _text(longest: int) -> Check:
    def check(field: str, value: object) -> str:
        if not isinstance(value, str):
            raise FactError(field, value, "not text")
        if len(value) > longest:
            raise FactError(field, value, f"longer than {longest} characters ({len(value)})")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise FactError(field, repr(value), "not valid Unicode: half of a surrogate pair")
        return value

    return check


def _name(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise FactError(field, value, "not text")
    if not value:
        raise FactError(field, value, "empty")
    if len(value) > LONGEST_NAME:
        raise FactError(field, value, f"longer than {LONGEST_NAME} characters ({len(value)})")
    if not value.isprintable():
        raise FactError(field, value, "holds control characters")
    return value


def _finite(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FactError(field, value, "not a number")
    try:
        number = float(value)
    except OverflowError:
        raise FactError(field, value, "larger than any float") from None
    if not math.isfinite(number):
        raise FactError(field, value, "not a finite number")
    return number


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise FactError(field, value, "not true or false")
    return value


def _one_of(names: type[StrEnum]) -> Check:
    def check(field: str, value: object) -> StrEnum:
        if not isinstance(value, str):
            raise FactError(field, value, "not text")
        try:
            return names(value)
        except ValueError:
            raise FactError(field, value, f"not one of {', '.join(names)}") from None

    return check


def _list_of(item: Check, most: int) -> Check:
    def check(field: str, value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise FactError(field, value, "not a list")
        if len(value) > most:
            raise FactError(field, f"{len(value)} entries", f"more than {most} entries")
        return tuple(item(f"{field}[{index}]", entry) for index, entry in enumerate(value))

    return check


def _pairs(field: str, value: object) -> tuple[tuple[str, str], ...]:
    """A mapping of text to scalars, its values turned into text."""
    if not isinstance(value, dict):
        raise FactError(field, value, "not an object")
    pairs = []
    for key, entry in value.items():
        if isinstance(entry, (dict, list)):
            raise FactError(f"{field}.{key}", entry, "not a single value")
        text = entry if isinstance(entry, str) else _shown(entry)
        pairs.append((_text(LONGEST_NAME)(f"{field}.{key}", key), _text(LONGEST_TEXT)(f"{field}.{key}", text)))
    return tuple(sorted(pairs))  # type: ignore[arg-type]


def _exit_codes(field: str, value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, dict):
        raise FactError(field, value, "not an object of rank to exit code")
    codes = []
    for key, code in value.items():
        if not key.isdigit():
            raise FactError(f"{field}.{key}", key, "not a rank")
        codes.append((int(key), _integer(-1_000_000, 1_000_000)(f"{field}.{key}", code)))
    return tuple(sorted(codes))  # type: ignore[arg-type]


def _json_object(field: str, value: object) -> str:
    if not isinstance(value, dict):
        raise FactError(field, value, "not an object")
    return canonical(value)


def _stated_phase(field: str, value: object) -> Phase:
    if not isinstance(value, str):
        raise FactError(field, value, "not text")
    name = value.split(":", 1)[0]
    try:
        phase = Phase(name)
    except ValueError:
        phase = Phase.SILENT
    if phase not in STATED_PHASES:
        known = ", ".join(sorted(STATED_PHASES))
        raise FactError(field, value, f"not a phase that can be stated: {known} or overhead:<name>")
    return phase


def _run(field: str, value: object) -> str:
    """A run's id stands in addresses: it must not vanish there."""
    name = _name(field, value)
    if not name.strip() or name in (".", ".."):
        raise FactError(field, value, "cannot stand in an address: blank, or a dot directory")
    return name


def _window(field: str, value: object) -> str:
    """The identity of the fact that declared a window: `<emitter>~<seq>`."""
    if not isinstance(value, str):
        raise FactError(field, value, "not text")
    emitter, tilde, seq = value.rpartition("~")
    if not tilde or not (seq.isascii() and seq.isdigit()) or str(int(seq[:20])) != seq or int(seq) > LARGEST_INT:
        raise FactError(field, value, "not the identity of a window: <emitter>~<seq>")
    _name(field, emitter)
    return value


_NAME, _TEXT, _COUNT, _STEP = _name, _text(LONGEST_TEXT), _integer(0), _integer(0, LARGEST_STEP)
_REQUIRED, _OPTIONAL = True, False

_COMMON: dict[str, tuple[bool, Check]] = {
    "run": (_REQUIRED, _run),
    "emitter": (_REQUIRED, _NAME),
    "seq": (_REQUIRED, _COUNT),
    "at": (_REQUIRED, _instant),
    "v": (_OPTIONAL, _integer(1)),
    "job": (_OPTIONAL, _NAME),
    "requeue": (_OPTIONAL, _COUNT),
    "restart": (_OPTIONAL, _COUNT),
    "iteration": (_OPTIONAL, _COUNT),
    "rank": (_OPTIONAL, _COUNT),
    "local_rank": (_OPTIONAL, _COUNT),
    "node": (_OPTIONAL, _NAME),
}

_FIELDS: dict[str, dict[str, tuple[bool, Check]]] = {
    "run_started": {
        "name": (_OPTIONAL, _text(LONGEST_NAME)),
        "project": (_OPTIONAL, _text(LONGEST_NAME)),
        "labels": (_OPTIONAL, _pairs),
        "world_size": (_OPTIONAL, _integer(1)),
        "gpus": (_OPTIONAL, _COUNT),
        "nodes": (_OPTIONAL, _integer(1)),
        "framework": (_OPTIONAL, _text(LONGEST_NAME)),
        "target_step": (_OPTIONAL, _STEP),
        "gpu_type": (_OPTIONAL, _text(LONGEST_NAME)),
    },
    "run_ended": {"outcome": (_OPTIONAL, _one_of(Outcome)), "reason": (_OPTIONAL, _TEXT)},
    "attempt_started": {
        "scope": (_OPTIONAL, _one_of(Scope)),
        "initiator": (_OPTIONAL, _one_of(Initiator)),
        "world_size": (_OPTIONAL, _integer(1)),
        "gpus": (_OPTIONAL, _COUNT),
        "nodes": (_OPTIONAL, _list_of(_NAME, 100_000)),
        "launcher": (_OPTIONAL, _text(LONGEST_NAME)),
        "versions": (_OPTIONAL, _pairs),
        "config": (_OPTIONAL, _json_object),
        "down_untold": (_OPTIONAL, _flag),
    },
    "attempt_ended": {
        "outcome": (_OPTIONAL, _one_of(Outcome)),
        "reason": (_OPTIONAL, _TEXT),
        "exit_codes": (_OPTIONAL, _exit_codes),
    },
    "phase": {
        "phase": (_REQUIRED, _stated_phase),
        "start": (_OPTIONAL, _instant),
        "end": (_OPTIONAL, _instant),
        "span": (_OPTIONAL, _NAME),
    },
    "steps": {
        "first_step": (_REQUIRED, _STEP),
        "start": (_REQUIRED, _instant),
        "durations_us": (_REQUIRED, _list_of(_COUNT, MOST_STEPS)),
        "count": (_OPTIONAL, _integer(1, MOST_STEPS)),
        "loss": (_OPTIONAL, _list_of(_finite, MOST_STEPS)),
        "every": (_OPTIONAL, _integer(1, MOST_STEPS)),
    },
    "checkpoint": {
        "step": (_REQUIRED, _STEP),
        "stage": (_REQUIRED, _one_of(CheckpointStage)),
        "checkpoint": (_OPTIONAL, _NAME),
        "mode": (_OPTIONAL, _text(LONGEST_NAME)),
        "tier": (_OPTIONAL, _text(LONGEST_NAME)),
        "bytes": (_OPTIONAL, _COUNT),
        "location": (_OPTIONAL, _TEXT),
        "ranks_missing": (_OPTIONAL, _list_of(_COUNT, 1_000_000)),
        "checksum": (_OPTIONAL, _text(LONGEST_NAME)),
        "blocked_us": (_OPTIONAL, _COUNT),
    },
    "checkpoint_loaded": {
        "step": (_REQUIRED, _STEP),
        "start": (_REQUIRED, _instant),
        "end": (_REQUIRED, _instant),
        "checkpoint": (_OPTIONAL, _NAME),
        "tier": (_OPTIONAL, _text(LONGEST_NAME)),
        "location": (_OPTIONAL, _TEXT),
        "outcome": (_OPTIONAL, _text(LONGEST_NAME)),
    },
    "heartbeats": {
        "start": (_REQUIRED, _instant),
        "end": (_REQUIRED, _instant),
        "count": (_REQUIRED, _COUNT),
        "max_gap_us": (_REQUIRED, _COUNT),
        "phase": (_OPTIONAL, _text(LONGEST_NAME)),
        "sketch": (_OPTIONAL, _TEXT),
        "armed_timeout_us": (_OPTIONAL, _COUNT),
        "first_rank": (_OPTIONAL, _integer(0, LARGEST_RANK)),
        "rank_counts": (_OPTIONAL, _list_of(_COUNT, MOST_RANKS)),
        "rank_max_gaps_us": (_OPTIONAL, _list_of(_COUNT, MOST_RANKS)),
    },
    "recovery_mark": {
        "stage": (_REQUIRED, _one_of(MarkStage)),
        "by": (_OPTIONAL, _text(LONGEST_NAME)),
        "text": (_OPTIONAL, _TEXT),
    },
    "exit": {
        "exit_code": (_REQUIRED, _integer(-1_000_000, 1_000_000)),
        "signal": (_OPTIONAL, _COUNT),
        "core_dumped": (_OPTIONAL, _flag),
        "oom_killed": (_OPTIONAL, _flag),
    },
    "evidence": {
        "source": (_REQUIRED, _NAME),
        "text": (_REQUIRED, _TEXT),
        "code": (_OPTIONAL, _text(LONGEST_NAME)),
        "attributes": (_OPTIONAL, _pairs),
        "artefact": (_OPTIONAL, _TEXT),
    },
    "node_state": {
        "node": (_REQUIRED, _NAME),
        "state": (_REQUIRED, _one_of(NodeCondition)),
        "reason": (_OPTIONAL, _TEXT),
        "until": (_OPTIONAL, _instant),
    },
    "capacity": {"gpus": (_REQUIRED, _COUNT)},
    "scheduler_state": {"state": (_REQUIRED, _NAME), "reason": (_OPTIONAL, _TEXT)},
    "metric": {"name": (_REQUIRED, _NAME), "value": (_REQUIRED, _finite), "step": (_OPTIONAL, _STEP)},
    "clock": {
        "offset_us": (_REQUIRED, _integer(-(10**15), 10**15)),
        "error_us": (_OPTIONAL, _COUNT),
        "method": (_OPTIONAL, _text(LONGEST_NAME)),
    },
    "blind": {
        "source": (_REQUIRED, _NAME),
        "since": (_REQUIRED, _instant),
        "until": (_OPTIONAL, _instant),
        "reason": (_OPTIONAL, _TEXT),
    },
    "note": {"text": (_REQUIRED, _TEXT), "author": (_OPTIONAL, _text(LONGEST_NAME))},
    "excluded": {
        "start": (_REQUIRED, _instant),
        "end": (_REQUIRED, _instant),
        "reason": (_OPTIONAL, _TEXT),
        "author": (_OPTIONAL, _text(LONGEST_NAME)),
    },
    "artefact_state": {
        "artefact": (_REQUIRED, _NAME),
        "state": (_REQUIRED, _one_of(WindowState)),
        "reason": (_OPTIONAL, _TEXT),
        "author": (_OPTIONAL, _text(LONGEST_NAME)),
    },
    "exclusion_state": {
        "window": (_REQUIRED, _window),
        "state": (_REQUIRED, _one_of(WindowState)),
        "reason": (_OPTIONAL, _TEXT),
        "author": (_OPTIONAL, _text(LONGEST_NAME)),
    },
}


def wire_fields(kind: str) -> Mapping[str, bool]:
    """The fields a kind may carry beside the common ones, each with whether it is required."""
    return {name: required for name, (required, _) in _FIELDS[kind].items()}


def common_fields() -> Mapping[str, bool]:
    """The fields every kind may carry, each with whether it is required."""
    return {name: required for name, (required, _) in _COMMON.items()}


# --- reading ---


def parse_line(line: bytes | str) -> dict[str, object]:
    """The JSON object on one line. NaN and Infinity pass here, so that the field that holds one can be named."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        text = line if isinstance(line, str) else line.decode("utf-8", "replace")
        reason = getattr(error, "msg", None) or str(error)
        raise FactError("", text, f"not a JSON object: {reason}") from None
    if not isinstance(value, dict):
        raise FactError("", value, "not a JSON object")
    return value


def decode_line(line: bytes | str, defaults: Mapping[str, object] | None = None) -> Fact | Context:
    """The fact, or the context, on one line of a batch. Raises `FactError`."""
    return decode(parse_line(line), defaults)


def decode(stated: Mapping[str, object], defaults: Mapping[str, object] | None = None) -> Fact | Context:
    """The fact in a JSON object; `defaults` fill the fields it leaves out. Raises `FactError`."""
    kind = stated.get("kind")
    if not isinstance(kind, str):
        raise FactError("kind", kind, "missing" if kind is None else "not text")
    if kind == "context":
        return Context({key: value for key, value in stated.items() if key != "kind"})
    if not kind or len(kind) > LONGEST_NAME or not kind.isprintable():
        raise FactError("kind", kind, "not a name")
    merged: Mapping[str, object] = {**defaults, **stated} if defaults else stated
    own_fields = _FIELDS.get(kind, {})
    known: dict[str, object] = {}
    unknown: dict[str, object] = {}
    for field, value in merged.items():
        if field == "kind" or value is None:
            continue
        check = own_fields.get(field) or _COMMON.get(field)
        if check is not None:
            known[field] = check[1](field, value)
        elif field == "blob" and kind == "steps":
            known["durations_us"] = _packed_durations(field, value)
        else:
            unknown[field] = value
    for table in (_COMMON, own_fields):
        for field, (required, _) in table.items():
            if required and field not in known:
                raise FactError(field, merged.get(field), "missing")
    if unknown:
        known["extra"] = canonical(unknown)
    if kind not in FACT_TYPES:
        return UnknownFact(stated_kind=kind, **known)  # type: ignore[arg-type]
    _check_whole(kind, known, merged)
    return FACT_TYPES[kind](**known)  # type: ignore[arg-type]


def _check_whole(kind: str, known: dict[str, object], merged: Mapping[str, object]) -> None:
    """Rules that bind two fields of one fact."""
    start, end = known.get("start"), known.get("end")
    if isinstance(start, int) and isinstance(end, int) and end < start:
        raise FactError("end", end, f"before start ({start})")
    if kind == "steps":
        durations, count, loss = known["durations_us"], known.get("count"), known.get("loss", ())
        assert isinstance(durations, tuple) and isinstance(loss, tuple)
        if not durations:
            raise FactError("durations_us", "[]", "empty")
        if count is not None and len(durations) != 1:
            raise FactError("durations_us", f"{len(durations)} entries", "with count, exactly one duration is told")
        assert isinstance(start, int)
        if start + sum(durations) * 1000 > LATEST_INSTANT:
            raise FactError("durations_us", f"{sum(durations)} in all", "the last step ends after the year 2100")
        if count is None and loss and len(loss) != len(durations):
            raise FactError("loss", f"{len(loss)} entries", f"not one per step ({len(durations)})")
    elif kind == "phase":
        stated = str(merged["phase"])
        if ":" in stated:
            phase, name = stated.split(":", 1)
            if phase != Phase.OVERHEAD:
                raise FactError("phase", stated, "only overhead takes a name of its own")
            known["name"] = _name("phase", name)
        if start is None and (end is None or known.get("span") is None):
            raise FactError("start", None, "missing: only a fact that closes a span by its id may leave it out")
    elif kind == "heartbeats":
        _check_ranks(known)
    elif kind == "blind":
        since, until = known["since"], known.get("until")
        if isinstance(until, int) and isinstance(since, int) and until < since:
            raise FactError("until", until, f"before since ({since})")


def _check_ranks(known: dict[str, object]) -> None:
    """A window of a range of ranks tells both numbers of each, and what they come to."""
    counts, gaps = known.get("rank_counts", ()), known.get("rank_max_gaps_us", ())
    assert isinstance(counts, tuple) and isinstance(gaps, tuple)
    if not counts and not gaps and "first_rank" not in known:
        return
    if "first_rank" not in known:
        raise FactError("first_rank", None, "missing: it says which rank the first of rank_counts is")
    if not counts:
        raise FactError("rank_counts", "[]", "empty: first_rank begins a range of ranks")
    if len(gaps) != len(counts):
        raise FactError("rank_max_gaps_us", f"{len(gaps)} entries", f"not one per rank ({len(counts)})")
    if "rank" in known:
        raise FactError("rank", known["rank"], "told beside first_rank: one rank, or a range of them")
    if known["count"] != sum(counts):
        raise FactError("count", known["count"], f"not the sum of rank_counts ({sum(counts)})")
    if known["max_gap_us"] != max(gaps):
        raise FactError("max_gap_us", known["max_gap_us"], f"not the longest of rank_max_gaps_us ({max(gaps)})")


# --- writing ---

_MAPPINGS = frozenset({"labels", "versions", "attributes", "exit_codes"})


def encode(fact: Fact) -> dict[str, object]:
    """The fact as the JSON object of the wire format; fields that were not told are left out."""
    stated_kind = fact.stated_kind if isinstance(fact, UnknownFact) else fact.kind
    wire: dict[str, object] = {"kind": stated_kind}
    for field in fields(fact):
        name, value = field.name, getattr(fact, field.name)
        if (
            value is None
            or value == ()
            or name in ("extra", "stated_kind")
            or (name == "v" and value == SCHEMA_VERSION)
        ):
            continue
        if name in _MAPPINGS:
            wire[name] = {str(key): entry for key, entry in value}
        elif name == "config":
            wire[name] = json.loads(value)
        elif isinstance(value, tuple):
            wire[name] = list(value)
        elif isinstance(value, StrEnum):
            wire[name] = value.value
        else:
            wire[name] = value
    if isinstance(fact, PhaseSpan) and fact.name is not None:
        wire["phase"] = f"{fact.phase.value}:{wire.pop('name')}"
    if isinstance(fact, Steps):
        wire["durations_us"] = list(fact.durations_us)
    if fact.extra is not None:
        wire.update(json.loads(fact.extra))
    return wire


def encode_line(fact: Fact) -> bytes:
    """The fact as one JSON line, newline included."""
    wire = encode(fact)
    try:
        return json.dumps(wire, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair in a field this version does not know
        return json.dumps(wire, separators=(",", ":")).encode() + b"\n"


def encode_lines(facts: Iterable[Fact]) -> bytes:
    """A batch as `POST /api/v1/facts` takes it."""
    return b"".join(map(encode_line, facts))


def canonical(value: object) -> str:
    """JSON text that is equal for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- packed durations ---


def pack_durations(durations_us: Iterable[int]) -> bytes:
    """Durations packed: varint count, varint median, then one zig-zag varint of `duration − median` each.

    About 3 bytes a step at 1 % jitter, within 14 % of the best general codecs; compressing it again makes it larger.
    Raises ValueError on a negative one.
    """
    durations = list(durations_us)
    if min(durations, default=0) < 0:
        raise ValueError("durations: one is negative")
    median = sorted(durations)[len(durations) // 2] if durations else 0
    packed = bytearray()
    _put_varint(packed, len(durations))
    _put_varint(packed, median)
    for duration in durations:
        difference = duration - median
        _put_varint(packed, difference << 1 if difference >= 0 else (-difference << 1) - 1)
    return bytes(packed)


def unpack_durations(packed: bytes) -> tuple[int, ...]:
    """Durations out of `pack_durations`. Raises ValueError on bytes that are not such a block."""
    numbers: list[int] = []
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            if shift > 63:
                raise ValueError("packed durations: a number is longer than 64 bit")
        else:
            numbers.append(value)
            value = shift = 0
    if shift or len(numbers) < 2 or len(numbers) != numbers[0] + 2:
        raise ValueError("packed durations: cut off or not such a block")
    median = numbers[1]
    return tuple(median + ((number >> 1) if not number & 1 else -((number + 1) >> 1)) for number in numbers[2:])


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _packed_durations(field: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, str):
        raise FactError(field, value, "not base64 text")
    try:
        durations = unpack_durations(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError) as error:
        raise FactError(field, value, str(error)) from None
    if len(durations) > MOST_STEPS:
        raise FactError(field, f"{len(durations)} entries", f"more than {MOST_STEPS} entries")
    for index, duration in enumerate(durations):
        if duration < 0:
            raise FactError(f"{field}[{index}]", duration, "negative")
    return durations
