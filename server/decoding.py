"""Decoding: the body of a batch to lines of the log, and to refusals that say what was wrong.

Rules
- `core.codec` decides what is a fact. Lines that `store.lines` is certain of are taken as they are; every other line
  goes to the codec, for its facts and for its words of refusal. A property test compares both ways.
- Two things are refused here that the codec does not judge: a fact more than a day ahead of the server's clock, and
  half a surrogate pair in a field it does not know, which is no character and which no database keeps.
- A context is written into the lines after it, so that each line of the log says everything by itself.
- Evidence is masked once more, whoever states it, and so is what is kept of a refused line: a sender that is not ours
  may send a log as it is.
- One bad line costs that line. Line numbers count from 1, blank lines included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rerail.collectors.masking import masked
from rerail.server.core import codec
from rerail.server.core.codec import LATEST_INSTANT, LONGEST_NAME
from rerail.server.core.facts import Clock, Evidence, Fact
from rerail.server.store import Batch, LoggedFact, RefusedLine, Stated
from rerail.server.store.lines import SOUND, EvidenceLine, Line, quick_line, quick_lines

FURTHEST_AHEAD_NS = 86_400 * 10**9
"""A fact may be stated for one day ahead of the server's clock; beyond that the clock is wrong."""

# `tuple.__new__` makes a named tuple in half the time of its own constructor, which is written in Python.
_new = tuple.__new__


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body, decoded."""

    batch: Batch
    line_count: int


def decode_body(body: bytes, received_at: int) -> Decoded:
    """Everything a body states, and everything of it that was refused. Raises nothing for what is in it."""
    return _Decoding(body, received_at).decode()


def decode_facts(body: bytes, received_at: int) -> Decoded:
    """The same by the codec alone: slow, and what `decode_body` is compared with."""
    return _Decoding(body, received_at).decode_slowly()


class _Decoding:
    """One body on its way to rows."""

    def __init__(self, body: bytes, received_at: int) -> None:
        self._body = body
        self._received_at = received_at
        self._latest = min(received_at + FURTHEST_AHEAD_NS, LATEST_INSTANT)
        self._defaults: Mapping[str, object] | None = None
        self._defaults_text = b""
        self._stated: dict[tuple[str, str], Stated] = {}
        self._refused: list[RefusedLine] = []
        self._lines: list[bytes] | None = None

    def decode(self) -> Decoded:
        lines = self._all_lines()
        first = 0
        if b'"context"' in self._body:
            for index, line in enumerate(lines):
                if b'"context"' in line:
                    self._decode_stretch(lines[first:index], first + 1)
                    self._decode_by_codec(index + 1, line)
                    first = index + 1
        self._decode_stretch(lines[first:] if first else lines, first + 1)
        return self._result(len(lines))

    def _decode_stretch(self, lines: Sequence[bytes], number: int) -> None:
        """Lines under one context, all at once where they are as they should be, else one by one."""
        whole = [self._with_defaults(line.strip()) for line in lines] if self._defaults_text else lines
        quick = quick_lines(self._body if whole is self._lines else b"\n".join(whole))
        if quick is not None and len(quick) == len(lines):
            for index in self._take_all(quick, whole):
                self._decode_by_codec(number + index, lines[index])
            return
        for index, line in enumerate(lines):
            stripped = line.strip()
            if not stripped:
                continue
            with_defaults = self._with_defaults(stripped)
            judged = quick_line(with_defaults)
            if judged is None or self._take_all((judged,), (with_defaults,)):
                self._decode_by_codec(number + index, line)

    def decode_slowly(self) -> Decoded:
        lines = self._all_lines()
        for index, line in enumerate(lines):
            if line.strip():
                self._decode_by_codec(index + 1, line)
        return self._result(len(lines))

    def _result(self, line_count: int) -> Decoded:
        return Decoded(Batch(self._received_at, tuple(self._stated.values()), tuple(self._refused)), line_count)

    def _all_lines(self) -> list[bytes]:
        if self._lines is None:
            self._lines = self._body.split(b"\n")
            if not self._lines[-1]:
                self._lines.pop()
        return self._lines

    def _with_defaults(self, line: bytes) -> bytes:
        """A line with its context in front: of a name told twice the last one counts."""
        if not self._defaults_text or not line.startswith(b"{"):
            return line
        inner = line[1:].lstrip()
        return self._defaults_text + inner if inner.startswith(b"}") else self._defaults_text + b"," + inner

    # --- the fast path ---------------------------------------------------------------------------------------------

    def _take_all(self, quick: Sequence[Line], lines: Sequence[bytes]) -> list[int]:
        """Keep the lines that need no judgement; the indexes of the others. One loop: here intake spends its time."""
        left: list[int] = []
        latest, stated_by, sound = self._latest, self._stated, SOUND
        # Most lines repeat the names of the line before: to compare is cheaper than to look up.
        run = job = node = None
        emitters: dict[str, list[LoggedFact]] = {}
        for index, line in enumerate(quick):
            at = line.at
            if line.job != job:
                if line.job is not None and not line.job.isprintable():
                    left.append(index)
                    continue
                job = line.job
            if line.node != node:
                if line.node is not None and not line.node.isprintable():
                    left.append(index)
                    continue
                node = line.node
            if at > latest or not sound[type(line)](line):
                left.append(index)
                continue
            if line.run != run:
                run, emitters = line.run, {}
            facts = emitters.get(line.emitter)
            if facts is None:
                key = (line.run, line.emitter)
                # A name of nothing but dots and blanks is left to the codec, which refuses some of them.
                if not (key[0].isprintable() and key[1].isprintable() and key[0].strip(". ")):
                    left.append(index)
                    continue
                stated = stated_by.get(key)
                if stated is None:
                    stated = stated_by[key] = Stated(*key)
                facts = emitters[key[1]] = stated.facts
            raw = lines[index]
            if type(line) is EvidenceLine:
                raw = _without_secrets(raw, line.text)
            facts.append(_new(LoggedFact, (line.seq, at, raw)))
        return left

    # --- the codec -------------------------------------------------------------------------------------------------

    def _decode_by_codec(self, number: int, line: bytes) -> None:
        stated: Mapping[str, object] = {}
        try:
            stated = codec.parse_line(line)
            if b"\\u" in line:
                _refuse_half_surrogates(stated)
            fact = codec.decode(stated, self._defaults)
            if isinstance(fact, codec.Context):
                self._set_defaults(fact.defaults)
                return
            self._keep(fact, self._with_defaults(line.strip()))
        except codec.FactError as error:
            self._refuse(number, line, stated, error)
        except (OverflowError, RecursionError) as error:
            self._refuse(number, line, stated, codec.FactError("", line.decode("utf-8", "replace"), str(error)))

    def _keep(self, fact: Fact, raw: bytes) -> None:
        if fact.at > self._latest:
            raise codec.FactError("at", fact.at, "more than a day ahead of the server's clock")
        key = (fact.run, fact.emitter)
        stated = self._stated.get(key)
        if stated is None:
            stated = self._stated[key] = Stated(*key)
        if isinstance(fact, Evidence):
            raw = _without_secrets(raw, fact.text)
        stated.facts.append(LoggedFact(fact.seq, fact.at, raw))
        if isinstance(fact, Clock):
            stated.clock_offset_ns = fact.offset_us * 1000

    def _set_defaults(self, defaults: Mapping[str, object]) -> None:
        self._defaults = defaults
        inner = json.dumps(defaults, separators=(",", ":"), ensure_ascii=True)[1:-1]
        self._defaults_text = b"{" + inner.encode("ascii") if inner else b""

    def _refuse(self, number: int, line: bytes, stated: Mapping[str, object], error: codec.FactError) -> None:
        self._refused.append(
            RefusedLine(
                line=number,
                field=error.field,
                value=error.value,
                reason=error.reason,
                raw=masked(line[:4096].decode("utf-8", "replace")).encode(),
                run=self._readable("run", stated),
                emitter=self._readable("emitter", stated),
            )
        )

    def _readable(self, field: str, stated: Mapping[str, object]) -> str | None:
        """A name of a refused line, where it can be trusted to be one."""
        value = stated.get(field)
        if value is None and self._defaults is not None:
            value = self._defaults.get(field)
        return value if isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable() else None


def _without_secrets(raw: bytes, text: str) -> bytes:
    """A line of evidence whose text is masked; as it is where nothing had to be."""
    shown = masked(text)
    if shown == text:
        return raw
    try:
        stated = {**json.loads(raw), "text": shown}
        return json.dumps(stated, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    except RecursionError:
        raise codec.FactError("", raw[:80].decode("utf-8", "replace"), "nested too deeply") from None


def _refuse_half_surrogates(stated: Mapping[str, object]) -> None:
    for field, value in stated.items():
        try:
            json.dumps([field, value], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise codec.FactError(
                field, ascii(value), "holds half of a surrogate pair, which is no character"
            ) from None
