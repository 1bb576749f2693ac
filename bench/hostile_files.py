"""What hostile files cost: time and memory of reading each, and of masking what is kept of it.

    python bench/hostile_files.py [--megabytes 20]

Each file is read in a process of its own, as it would be on the page of an incident. Time is processor time; memory is
the most of the process, with its imports (first line: a file of one word).
"""

from __future__ import annotations

import argparse
import gzip
import io
import lzma
import multiprocessing
import pickle
import random
import resource
import time
import zipfile
from collections.abc import Callable, Iterator
from multiprocessing.queues import SimpleQueue

from rerail.collectors.archives import MOST_FILES, is_archive, members
from rerail.collectors.kept_files import kept
from rerail.collectors.uploads import understood

MEGABYTE = 1_000_000


def _ring(entries: int) -> bytes:
    frames = [{"name": f"f{depth}", "filename": "model.py", "line": depth} for depth in range(30)]
    entry = {
        "record_id": 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 1, "p2p_seq_id": 0,
        "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 1_700_000_000_000_000_000,
        "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
        "state": "completed", "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
        "retired": True, "timeout_ms": 600_000, "is_p2p": False,
    }  # fmt: skip
    return pickle.dumps(
        {
            "version": "2.10",
            "entries": [
                {**entry, "record_id": number, "collective_seq_id": number, "frames": [dict(one) for one in frames]}
                for number in range(entries)
            ],
        },
        protocol=2,
    )


def _lines(size: int) -> Iterator[bytes]:
    chance = random.Random(2)
    for step in range(size // 60):
        yield b"2026-11-03 12:00:00 [rank%d] step %07d loss %.6f lr 0.0003\n" % (step % 8, step, chance.random())


def _nested_lists() -> bytes:
    return b"\x80\x02" + b"]" * 900_000 + b"a" * 899_999 + b"."


def _small_files() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(MOST_FILES):
            archive.writestr(f"{number}.log", f"[rank{number}]: KeyError: {number}\n")
    return packed.getvalue()


def cases(size: int) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """What is given: name of the case → name of the file and how it is made. `size` in bytes."""
    return {
        "one word": ("a.log", lambda: b"hello\n"),
        "a ring of 20,000 calls, 30 frames each": ("trace_rank_0", lambda: _ring(20_000)),
        "a pickle of nothing but None": ("trace_rank_0", lambda: b"\x80\x02" + b"N" * size),
        "a pickle of short texts": ("trace_rank_0", lambda: b"\x80\x02" + b"\x8c\x03abc" * (size // 5)),
        "JSON of brackets": ("trace_rank_0.json", lambda: b'{"entries":' + b"[" * size),
        "random bytes": ("a.log", lambda: random.Random(1).randbytes(size).replace(b"\0", b"x")),
        "tracebacks that never end": (
            "a.log", lambda: b'Traceback (most recent call last):\n  File "x", line 3\n' * (size // 54),
        ),
        "one error, again and again": ("a.log", lambda: b"RuntimeError: NCCL error\n" * (size // 25)),
        "one line": ("a.log", lambda: b"a=b " * (size // 4)),
        "escape sequences": ("a.log", lambda: b"\x1b[31m" * (size // 5)),
        "words of secrets": ("a.log", lambda: b"token=" * (size // 6)),
        "keys that are never closed": ("a.log", lambda: b"-----BEGIN RSA PRIVATE KEY-----\n" * (size // 32)),
        "zero bytes": ("a.log", lambda: b"\0" * size),
        "a pickle of lists in one another": ("trace_rank_0", _nested_lists),
        "a zip of 16,384 small files": ("a.zip", _small_files),
        "xz of a log of 200 MB": ("a.log.xz", lambda: lzma.compress(b"".join(_lines(2 * MEGABYTE)) * 100, preset=0)),
        "xz of 200 MB of zeros": ("a.log.xz", lambda: lzma.compress(b"\0" * 200 * MEGABYTE)),
        "gzip of 300 MB of zeros": ("a.log.gz", lambda: gzip.compress(b"\0" * 300 * MEGABYTE, 9)),
    }  # fmt: skip


def measure(case: str, size: int, told: SimpleQueue[tuple[int, float, float, float, str]]) -> None:
    """Read and mask one file."""
    name, make = cases(size)[case]
    content = make()
    begin = time.process_time()
    is_one = not is_archive(content)
    files = [(name, content)] if is_one else [(each.name, each.content) for each in members(content, len(content))]
    found = [understood(*file) for file in files]
    read = time.process_time() - begin
    begin = time.process_time()
    refused = ""
    try:
        for _, one in files:
            kept(one)
    except ValueError:
        refused = ", not kept"
    masking = time.process_time() - begin
    words = "; ".join(word for each in found[:3] for word in (*each.refused, *each.remarks))
    words = words or f"{sum(len(each.pieces) for each in found)} pieces of evidence"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    told.put((len(content), read, masking, memory, words[:60] + refused))


def main() -> None:
    """Print one row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=20)
    size = parser.parse_args().megabytes * MEGABYTE
    context = multiprocessing.get_context("spawn")
    print(f"{'file':40s} {'MB':>6s} {'read':>8s} {'masked':>8s} {'memory':>8s}  outcome")
    for case in cases(size):
        told = context.SimpleQueue()
        process = context.Process(target=measure, args=(case, size, told))
        process.start()
        process.join()
        length, read, masking, memory, words = told.get()
        print(f"{case:40s} {length / MEGABYTE:6.1f} {read:6.1f} s {masking:6.1f} s {memory:5.0f} MB  {words}")


if __name__ == "__main__":
    main()
