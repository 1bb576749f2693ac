"""`rerail import`: facts of the past, and what other tools wrote, through the same code as facts of now.

Rules
- `facts` is the wire format itself; every other format is a file of `collectors/sources/` (`collectors/formats.py`).
- Importing again changes nothing: the facts keep their identity, and a fact that is held is a duplicate.
- A context line holds to the end of its file, also where the file is cut into batches.
- Line numbers in messages are those of the file.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import select
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import rerail
from rerail.collectors.formats import Ends, ImportFormat, OldFile, OldFolder, formats
from rerail.collectors.long_lines import lines_of
from rerail.collectors.masking import masked
from rerail.collectors.packed_files import open_packed
from rerail.collectors.sources.encodings import nul_words, text_stream
from rerail.collectors.sources.given_files import is_an_archive
from rerail.collectors.uploads import CUT_OFF
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.imported import Taken, told_of
from rerail.server.commands.open_ends import OpenEnds
from rerail.server.commands.zones import zone_seconds
from rerail.server.core.codec import FactError, encode_line
from rerail.server.core.facts import Fact
from rerail.server.core.view import RunView
from rerail.server.errors import RerailError, StoreError
from rerail.server.rules_version import rules_version
from rerail.server.store import Store

FACTS = "facts"
BATCH_LINES = 2000
BATCH_BYTES = 4 * 1024 * 1024
LARGEST_FILE = 256 * 1024 * 1024
"""Of a format that is read whole."""

PIPE_SECONDS = 30.0
"""How long a pipe may be silent before its first byte."""
TOLD_REFUSALS = 20
LONGEST_REFUSAL = 600
"""Of what is told of one refused line."""


@dataclass(slots=True)
class Counts:
    """What became of lines."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one batch."""

    accepted: int
    duplicate: int
    rejected: tuple[tuple[int, str, str, str], ...]
    """`(line, field, value, reason)`, lines counted from 1."""


Send = Callable[[bytes], Answer]


def import_files(parsed: argparse.Namespace) -> int:
    """Import files of one format."""
    old_format = None
    if parsed.format != FACTS:
        known = formats()
        old_format = known.get(parsed.format)
        if old_format is None:
            names = ", ".join([FACTS, *known])
            raise RerailError(f"no format is named {parsed.format!r}: {names}; a launcher's log is `logs`")
        if parsed.zone is not None and "--zone" not in old_format.options:
            raise RerailError(f"--zone {parsed.zone!r}: {parsed.format} does not heed it, only kernel and logs do")
    if parsed.node is not None and (old_format is None or "--node" not in old_format.options):
        raise RerailError(f"--node {parsed.node!r}: {parsed.format} does not heed it, only kernel does")
    counts = Counts()
    paths = [path for given in parsed.paths for path in _files_of(given, old_format)]
    taken = Taken()
    told: list[str] = []
    zone = zone_seconds(parsed.zone)
    now = None if parsed.still_running else time.time_ns()
    together = old_format is not None and len(paths) > 1 and (
        old_format.read_together is not None or _are_one_run(old_format, paths, parsed.run_id)
    )  # fmt: skip
    ends = OpenEnds()
    files = [
        _File(path, parsed.run_id, old_format, counts, taken, zone, now, paths if together else (), ends, parsed.node)
        for path in (paths[:1] if together else paths)
    ]
    if parsed.stdout:
        silent = []
        for file in files:
            is_silent = True
            for line in file.lines() if old_format is not None else _sound(file, counts):
                sys.stdout.buffer.write(line)
                is_silent = False
            if is_silent:
                silent.append(file.path)
        sys.stdout.buffer.flush()
        _tell_refused(counts)
        for path in silent:
            print(f"{path}: no fact is stated of it as {parsed.format}", file=sys.stderr)
        return 0
    settings = settings_of(parsed)
    if parsed.url or settings.url:
        url = str(parsed.url or settings.url).rstrip("/")
        send = sender(url, settings.token)
        ends.is_known = lambda run: _is_on(url, run, settings.token)
        for file in files:
            _import_file(file, send, counts)
        told = told_of(taken, ((run, None) for run in taken.runs), parsed.paths)
    else:
        with opened_store(settings, may_make=True) as store:
            ends.is_known = lambda run: store.view(run) is not None
            for file in files:
                _import_file(file, writer(store), counts)
            derive_waiting(store)
            told = told_of(taken, ((run, _view(store, run)) for run in taken.runs), parsed.paths)
    _tell_refused(counts)
    print(
        f"{counts.accepted} facts taken, {counts.duplicate} held already, {counts.rejected} lines refused",
        file=sys.stderr,
    )
    for line in told:
        print(line, file=sys.stderr)
    return 1 if counts.rejected and not (counts.accepted or counts.duplicate) else 0


def _is_on(url: str, run: str, token: str | None) -> bool:
    """Whether a server knows a run; True where it does not say."""
    request = urllib.request.Request(f"{url}/api/v1/runs/{urllib.parse.quote(run, safe='')}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60):
            return True
    except urllib.error.HTTPError as error:
        return error.code != 404
    except (urllib.error.URLError, TimeoutError):
        return True


def _are_one_run(old_format: ImportFormat, paths: Sequence[str], run_id: str | None) -> bool:
    """Whether files and folders are read as what one run left behind: a launcher's log, and its workers' folder."""
    return (
        old_format.read_folder is not None
        and run_id is not None
        and "-" not in paths
        and any(Path(path).is_dir() for path in paths)
    )


def _view(store: Store, run: str) -> RunView | None:
    """A run as it was derived; None where no view of it was made."""
    found = store.view(run)
    return None if found is None else found[0]


def _tell_refused(counts: Counts) -> None:
    for example in counts.examples[:TOLD_REFUSALS]:
        print(_for_a_terminal(example), file=sys.stderr)
    if len(counts.examples) > TOLD_REFUSALS:
        print(f"… and {len(counts.examples) - TOLD_REFUSALS} more refused lines", file=sys.stderr)


def _for_a_terminal(words: str) -> str:
    """One line of what a file may have in it, without secrets and without anything that steers a terminal."""
    shown = masked(" ".join(words.split()))
    return shown if len(shown) <= LONGEST_REFUSAL else shown[: LONGEST_REFUSAL - 1] + "…"


def _files_of(path: str, old_format: ImportFormat | None) -> list[str]:
    """A path itself, or the files of a folder that belong to the format, by name."""
    if path == "-" or not Path(path).is_dir():
        return [path]
    if old_format is not None and old_format.read_folder is not None:
        return [path]
    belongs = None if old_format is None else old_format.in_folder
    if belongs is None:
        raise RerailError(f"{path} is a folder: name the files in it")
    within = Path(path).rglob("*") if old_format is not None and old_format.in_subfolders else Path(path).iterdir()
    found = sorted(str(each) for each in within if each.is_file() and belongs(each.name))
    if not found:
        raise RerailError(f"{path} holds no file of this format")
    return found


def _is_folder(path: str) -> bool:
    """Whether a path stands for several files: a folder, or an archive."""
    return Path(path).is_dir() or (Path(path).is_file() and is_an_archive(Path(path)))


class _File:
    """One file of a format, as the lines of facts that it comes to."""

    def __init__(
        self, path: str, run_id: str | None, old_format: ImportFormat | None, counts: Counts, taken: Taken,
        zone: int = 0, now: int | None = None, together: Sequence[str] = (), ends: Ends | None = None,
        node: str | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        self._node = node
        self._zone = zone
        self._now = now
        self._ends = ends
        self._together = together
        """The paths that are read as one; empty where this one is read alone."""
        self._taken = taken
        self._run_id = run_id
        self._format = old_format
        self._counts = counts
        self._progress = _Progress(path)

    def lines(self) -> Iterator[bytes]:
        """Lines of facts; of the wire format itself they are those of the file."""
        if self._format is None:
            for _, line in self._read():
                yield line if self._run_id is None else _in_run(line, self._run_id)
        else:
            for fact in self._facts(self._format):
                self._taken.add(fact)
                yield encode_line(fact)
        self._progress.end()

    def _facts(self, old_format: ImportFormat) -> Iterator[Fact]:
        if self._together and old_format.read_together is None and old_format.read_folder is not None:
            whole = os.path.commonpath([Path(path).resolve().parent for path in self._together])
            return old_format.read_folder(
                OldFolder(
                    whole,
                    self._run_id or self._stem,
                    self._refuse,
                    self._remark,
                    self._zone,
                    self._now,
                    self._ends,
                    tuple(str(Path(path).resolve()) for path in self._together),
                )
            )
        if old_format.read_folder is not None and self.path != "-" and _is_folder(self.path):
            run = self._run_id or (Path(self.path).is_dir() and Path(self.path).resolve().name) or self._stem
            return old_format.read_folder(
                OldFolder(self.path, run, self._refuse, self._remark, self._zone, self._now, self._ends)
            )
        if self._together and old_format.read_together is not None:
            every = [_File(path, self._run_id, old_format, self._counts, self._taken, self._zone, self._now)
                     for path in self._together]  # fmt: skip
            return old_format.read_together([file._old() for file in every])
        return old_format.read(self._old())

    @property
    def _stem(self) -> str:
        return Path(self.path).name.removesuffix(".gz").rsplit(".", 1)[0] if self.path != "-" else "stdin"

    def _old(self) -> OldFile:
        return OldFile(
            path=self.path,
            stem=self._stem,
            run=self._run_id,
            lines=self._read(),
            content=self._content,
            at=self._written_at(),
            zone_seconds=self._zone,
            now=self._now,
            ends=self._ends,
            node=self._node,
            refuse=self._refuse,
            remark=self._remark,
        )

    def _remark(self, words: str) -> None:
        print(_for_a_terminal(f"{self.path}: {words}"), file=sys.stderr)

    def at(self, line: int) -> str:
        """Where a line of facts stands, for a person."""
        return f"{self.path}:{line}" if self._format is None else f"{self.path}, fact {line}"

    def _read(self) -> Iterator[tuple[int, bytes]]:
        with _open(self.path, self._is_cut) as file, _readable(self.path):
            number = size = 0
            for number, line in lines_of(file, self._refuse, left_out=self._left_out):
                size += len(line)
                if not number % BATCH_LINES:
                    self._progress.show(number, size)
                    size = 0
                yield number, line if line.endswith(b"\n") else line + b"\n"
            self._progress.show(number, size)

    def _left_out(self, zeros: int) -> None:
        self._remark(nul_words(zeros))

    def _is_cut(self, packing: str) -> None:
        self._remark(CUT_OFF.format(packing=packing))

    def _content(self) -> bytes:
        with _open(self.path, self._is_cut) as file, _readable(self.path):
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise RerailError(f"{self.path} is larger than {LARGEST_FILE} bytes")
        self._progress.show(1, len(content))
        return content

    def _written_at(self) -> int | None:
        if self.path == "-":
            return None
        try:
            return Path(self.path).stat().st_mtime_ns
        except OSError as error:
            raise RerailError(f"{self.path} cannot be read: {error.strerror or error}") from None

    def _refuse(self, line: int, error: FactError) -> None:
        self._counts.rejected += 1
        self._counts.examples.append(f"{self.path}:{line}: {error}")


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RerailError(f"{path} cannot be read: {error.strerror or error}") from None


def _open(path: str, on_cut: Callable[[str], object] = lambda _: None) -> BinaryIO:
    if path == "-":
        return text_stream(sys.stdin.buffer)
    try:
        pipe = _opened_pipe(path) if stat.S_ISFIFO(Path(path).stat().st_mode) else None
        return text_stream(open_packed(Path(path), on_cut, pipe))
    except OSError as error:
        raise RerailError(f"{path} cannot be read: {error.strerror or error}") from None


def _opened_pipe(path: str) -> io.BufferedReader:
    """A pipe into which something is written. Raises OSError where nothing came for `PIPE_SECONDS`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else opening it waits for a writer, maybe for ever
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    if not ready.poll(PIPE_SECONDS * 1000):
        os.close(descriptor)
        raise OSError(f"it is a pipe, and nothing was written into it for {PIPE_SECONDS:g} s")
    os.set_blocking(descriptor, True)
    return open(descriptor, "rb")


def _in_run(line: bytes, run_id: str) -> bytes:
    try:
        stated = json.loads(line)
    except (ValueError, RecursionError):
        return line  # The intake refuses it, and says why.
    if not isinstance(stated, dict):
        return line
    return json.dumps({**stated, "run": run_id}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _sound(file: _File, counts: Counts) -> Iterator[bytes]:
    """The lines of a file of facts that an intake would take, as they are; the others are refused as it would."""
    from rerail.server.decoding import decode_body

    number = 0
    for context, lines in _batches(file.lines()):
        before = number - (1 if context else 0)
        refused = decode_body(context + b"".join(lines), time.time_ns()).batch.refused
        _refuse_lines(file, counts, before, [(line.line, line.field, line.value, line.reason) for line in refused])
        left_out = {before + line.line for line in refused}
        yield from (line for place, line in enumerate(lines, number + 1) if place not in left_out and line.strip())
        number += len(lines)


def _refuse_lines(file: _File, counts: Counts, before: int, refused: Sequence[tuple[int, str, str, str]]) -> None:
    counts.rejected += len(refused)
    counts.examples += [
        f"{file.at(before + line)}: {name}: {reason} (got {value})" for line, name, value, reason in refused
    ]


def _import_file(file: _File, send: Send, counts: Counts) -> None:
    number = 0
    for context, lines in _batches(file.lines()):
        answer = send(context + b"".join(lines))
        before = number - (1 if context else 0)
        counts.accepted += answer.accepted
        counts.duplicate += answer.duplicate
        _refuse_lines(file, counts, before, answer.rejected)
        number += len(lines)


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
    except (ValueError, RecursionError):
        return False
    return isinstance(stated, dict) and stated.get("kind") == "context"


def writer(store: Store) -> Send:
    """Batches into a database, as the intake would write them."""
    from rerail.server.decoding import decode_body

    def send(body: bytes) -> Answer:
        decoded = decode_body(body, time.time_ns())
        (receipt,) = store.append([decoded.batch])
        refused = tuple((line.line, line.field, line.value, line.reason) for line in decoded.batch.refused)
        return Answer(receipt.accepted, receipt.duplicate, refused)

    return send


def derive_waiting(store: Store, say: Callable[[int], None] | None = None) -> None:
    """Derive every run whose facts no view shows yet; `say` is told how many are left.

    It ends with those: open runs are due again every second, and would keep it busy for ever where they are many.
    """
    from rerail.server.projector import Projector

    if store.rules_progress() is None:  # no server was here yet: what is derived now is of this version
        store.begin_rules(rules_version(), rerail.__version__, time.time_ns())
    projector = Projector(store, held_folds=1)
    while waiting := store.storage().waiting_runs:
        if say is not None:
            say(waiting)
        if not projector.derive_due():
            return


def sender(url: str, token: str | None) -> Send:
    """Batches to a server's intake, gzipped; waits where the server asks for it. Raises StoreError where it is away."""

    def send(body: bytes) -> Answer:
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
        return Answer(
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
