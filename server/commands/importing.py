"""`rerail import`: facts of the past, through the same code as facts of now.

Rules
- Importing again changes nothing: the facts keep their identity, and a fact that is held is a duplicate.
- A context line holds to the end of its file, also where the file is cut into batches.
- Line numbers in messages are those of the file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from rerail.server.commands import opened_store, settings_of
from rerail.server.errors import RerailError, StoreError

BATCH_LINES = 2000
BATCH_BYTES = 4 * 1024 * 1024
TOLD_REFUSALS = 20


@dataclass(slots=True)
class _Counts:
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Answer:
    accepted: int
    duplicate: int
    rejected: tuple[tuple[int, str, str, str], ...]
    """`(line, field, value, reason)`, lines counted from 1."""


Send = Callable[[bytes], _Answer]


def import_facts(parsed: argparse.Namespace) -> int:
    """Import fact files."""
    if parsed.stdout:
        for path in parsed.paths:
            for line in _lines(path, parsed.run_id):
                sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        return 0
    settings = settings_of(parsed)
    counts = _Counts()
    if parsed.url or settings.url:
        send = _sender(str(parsed.url or settings.url).rstrip("/"), settings.token)
        for path in parsed.paths:
            _import_file(path, parsed.run_id, send, counts)
    else:
        from rerail.server.projector import Projector

        with opened_store(settings, may_make=True) as store:
            for path in parsed.paths:
                _import_file(path, parsed.run_id, _writer(store), counts)
            projector = Projector(store)
            while projector.derive_due():
                pass
    for example in counts.examples[:TOLD_REFUSALS]:
        print(example, file=sys.stderr)
    if len(counts.examples) > TOLD_REFUSALS:
        print(f"… and {len(counts.examples) - TOLD_REFUSALS} more refused lines", file=sys.stderr)
    print(
        f"{counts.accepted} facts taken, {counts.duplicate} held already, {counts.rejected} lines refused",
        file=sys.stderr,
    )
    return 1 if counts.rejected and not (counts.accepted or counts.duplicate) else 0


def _open(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return gzip.open(path, "rb") if path.endswith(".gz") else Path(path).open("rb")  # type: ignore[return-value]
    except OSError as error:
        raise RerailError(f"{path} cannot be read: {error.strerror or error}") from None


def _lines(path: str, run_id: str | None) -> Iterator[bytes]:
    """The lines of a file, in another run where one is named."""
    with _open(path) as file:
        for line in file:
            whole = line if line.endswith(b"\n") else line + b"\n"
            yield whole if run_id is None else _in_run(whole, run_id)


def _in_run(line: bytes, run_id: str) -> bytes:
    try:
        stated = json.loads(line)
    except ValueError:
        return line  # The intake refuses it, and says why.
    if not isinstance(stated, dict):
        return line
    return json.dumps({**stated, "run": run_id}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _import_file(path: str, run_id: str | None, send: Send, counts: _Counts) -> None:
    progress = _Progress(path)
    number = 0
    for context, lines in _batches(_lines(path, run_id)):
        answer = send(context + b"".join(lines))
        before = number - (1 if context else 0)
        counts.accepted += answer.accepted
        counts.duplicate += answer.duplicate
        counts.rejected += len(answer.rejected)
        counts.examples += [
            f"{path}:{before + line}: {name}: {reason} (got {value})" for line, name, value, reason in answer.rejected
        ]
        number += len(lines)
        progress.show(number, sum(map(len, lines)))
    progress.end()


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Batches of lines, each with the context line that was in force where it begins."""
    context_before = context = b""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if b'"context"' in line and _is_context(line):
            context = line
        if len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield context_before, batch
            batch, size, context_before = [], 0, context
    if batch:
        yield context_before, batch


def _is_context(line: bytes) -> bool:
    try:
        stated = json.loads(line)
    except ValueError:
        return False
    return isinstance(stated, dict) and stated.get("kind") == "context"


def _writer(store) -> Send:
    from rerail.server.decoding import decode_body

    def send(body: bytes) -> _Answer:
        decoded = decode_body(body, time.time_ns())
        (receipt,) = store.append([decoded.batch])
        refused = tuple((line.line, line.field, line.value, line.reason) for line in decoded.batch.refused)
        return _Answer(receipt.accepted, receipt.duplicate, refused)

    return send


def _sender(url: str, token: str | None) -> Send:
    def send(body: bytes) -> _Answer:
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{url}/api/v1/facts", gzip.compress(body, 1), headers)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    told = json.load(response)
                break
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise StoreError(f"{url} refused the batch: {error.code} {error_of(error)}") from None
                time.sleep(float(error.headers.get("Retry-After", "1")))
            except (urllib.error.URLError, TimeoutError) as error:
                raise StoreError(f"{url} does not answer: {getattr(error, 'reason', error)}") from None
        return _Answer(
            told["accepted"],
            told["duplicate"],
            tuple((line["line"], line["field"], line["value"], line["reason"]) for line in told["rejected"]),
        )

    return send


def error_of(error: urllib.error.HTTPError) -> str:
    """What a server said was wrong, and what would mend it."""
    try:
        told = json.load(error)["error"]
        return f"{told['message']}. {told['hint']}"
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


class _Progress:
    """How far a file is, on a terminal's last line; silent where standard error is none."""

    def __init__(self, path: str) -> None:
        self._name = Path(path).name if path != "-" else "standard input"
        plain = path != "-" and not path.endswith(".gz") and Path(path).is_file()
        self._size = Path(path).stat().st_size if plain else 0
        self._done = 0
        self._is_shown = sys.stderr.isatty()

    def show(self, lines: int, size: int) -> None:
        self._done += size
        if not self._is_shown:
            return
        share = min(1.0, self._done / self._size) if self._size else None
        bar = "" if share is None else f"[{'█' * int(share * 30):<30}] {share:4.0%} "
        print(f"\r{bar}{lines} lines of {self._name}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown and self._done:
            print(file=sys.stderr)
