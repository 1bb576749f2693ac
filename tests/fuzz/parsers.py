"""Coverage-guided fuzzing of the parsers: `make fuzz`, or one of them for as long as one likes.

    python tests/fuzz/parsers.py log|kernel|flight-recorder|scheduler [-max_total_time=600] [FOLDER]

atheris is asked for when this runs (`pip install atheris`); the suite does not need it. What it finds is written to
`crash-…` or `timeout-…` in the folder where it runs, and becomes a line of
`tests/collectors/test_fuzz_findings.py`: the suite replays it for ever.

Every target holds an input to the same promises: nothing is raised, whatever the bytes are; what is stated is what the
server takes; no fact is stated twice; it takes no longer than `SECONDS_AN_INPUT`.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rerail.collectors.sources import journal, kmsg
from rerail.collectors.sources.error_files import evidence_of_error_file
from rerail.collectors.sources.kernel_live import KernelSource, Said
from rerail.collectors.sources.log_reader import read_log
from rerail.collectors.sources.run_files import kind_of
from rerail.collectors.sources.scheduler_files import SchedulerFiles
from rerail.collectors.uploads import understood
from rerail.server.core.codec import FactError, decode_line, encode_line
from rerail.server.core.facts import Fact

CORPUS = Path(__file__).parent.parent / "corpus"
SECONDS_AN_INPUT = 5.0
MOST_BYTES = 4_096
AT = 1_795_954_200_000_000_000


class BrokenPromise(Exception):  # noqa: N818 - named as the condition it tells
    """A parser stated what the server refuses, said something twice, or took too long."""


def checked(facts: Iterable[Fact]) -> None:
    """Raises `BrokenPromise` where a fact is none, or comes twice."""
    seen: set[tuple[str, str, int]] = set()
    for fact in facts:
        identity = (fact.run, fact.emitter, fact.seq)
        if identity in seen:
            raise BrokenPromise(f"stated twice: {fact}")
        seen.add(identity)
        if fact.at <= 1:
            continue  # no line tells when it was: whoever imports it refuses it with those words
        try:
            again = decode_line(encode_line(fact))
        except FactError as error:
            raise BrokenPromise(f"{error} of {fact}") from error
        if again != fact:
            raise BrokenPromise(f"{fact} is read again as {again}")


def read_as_log(content: bytes) -> None:
    """Any text, as `rerail import logs` and `rerail classify` read it."""
    for worker_only in (False, True):
        checked(read_log(io.BytesIO(content), emitter="log/fuzz", run="fuzz", year=2026, fallback_at=AT,
                         worker_only=worker_only).facts)  # fmt: skip


class _Lines:
    """The kernel's words as lines of a file."""

    interval_seconds = 1.0
    left_out = 0

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, memory: dict[str, object], since: int) -> Iterator[Said]:
        for number, raw in enumerate(self._content.splitlines()[int(str(memory.get("offset", 0))) :]):
            record, entry = kmsg.read_record(raw), journal.read_entry(raw)
            if record is not None:
                yield Said("kmsg", number, AT + record.at, record.text)
            elif entry is not None:
                yield Said("journal", number, entry.at, entry.text)
            else:
                yield Said("file", number, AT, raw.decode("utf-8", "replace"))
        memory.update(mark="m", from_since=0, offset=len(self._content))

    def close(self) -> None:
        """Nothing is open."""


def read_as_kernel(content: bytes) -> None:
    """Records of `/dev/kmsg`, entries of a journal, lines of a file."""
    checked(KernelSource(_Lines(content), "n", lambda: "fuzz").finish(None).facts)


def read_as_flight_recorder(content: bytes) -> None:
    """A dump as pickle or JSON, an error file, or whatever else somebody gives to an incident."""
    found = understood("dump_rank_3", content)
    if not isinstance(found.pieces, tuple):
        raise BrokenPromise("pieces of a file are no tuple")
    try:
        checked(evidence_of_error_file(content, path="attempt_0/1/error.json", run="fuzz", emitter="f", fallback_at=AT))
    except FactError as error:
        if not (error.field and error.reason):
            raise BrokenPromise("a refusal without field or reason") from error


def read_as_scheduler(content: bytes) -> None:
    """What Slurm's commands print, objects of Kubernetes."""
    for kind in ("slurm", "kubernetes"):
        files = SchedulerFiles("fuzz")
        files.add(kind, content)
        for facts in files.facts().values():
            checked(facts)
    kind_of(Path("x.json"), content[:4096])


TARGETS: dict[str, tuple[Callable[[bytes], None], tuple[str, ...]]] = {
    "log": (read_as_log, ("training_logs/*.log", "nvrx/*/*.log", "torchrun/*.log", "log_lines.tsv")),
    "kernel": (read_as_kernel, ("kernel/*", "causes/gpu_hardware.tsv", "causes/host_oom.tsv")),
    "flight-recorder": (read_as_flight_recorder, ("flight_recorder/*", "verdicts/torchrun/*_files/**/error.json")),
    "scheduler": (read_as_scheduler, ("slurm/*", "kubernetes/*.json")),
}


def held_to_time(target: Callable[[bytes], None], content: bytes) -> None:
    """Read `content`, in time."""
    began = time.process_time()
    target(content)
    took = time.process_time() - began
    if took > SECONDS_AN_INPUT:
        raise BrokenPromise(f"{len(content)} bytes took {took:.1f} s")


def seeds(patterns: Iterable[str]) -> Iterator[bytes]:
    """Pieces of the recorded files: whole ones are too long to be varied."""
    for pattern in patterns:
        for path in sorted(CORPUS.glob(pattern)):
            content = path.read_bytes()
            for begin in range(0, min(len(content), 24_000), 1_500):
                yield content[begin : begin + 1_500]


def main() -> None:
    """Fuzz one parser until it is stopped."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        raise SystemExit(f"which parser? {', '.join(TARGETS)}")
    try:
        import atheris
    except ImportError:
        raise SystemExit("atheris is not installed: pip install atheris") from None
    name = sys.argv.pop(1)
    target, patterns = TARGETS[name]
    folder = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), None)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for number, piece in enumerate(seeds(patterns)):
            (folder / f"seed-{number}").write_bytes(piece)
    words = [*sys.argv, f"-max_len={MOST_BYTES}", "-rss_limit_mb=1500", f"-artifact_prefix={name}-"]
    atheris.instrument_all()
    atheris.Setup(words, lambda content: held_to_time(target, content))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
