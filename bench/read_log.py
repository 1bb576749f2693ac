"""How fast a large log is read, and whether the cause in it is found.

    python bench/read_log.py [--megabytes 1024] [--ranks 10000] [--lines prose] [--keep FILE]

It writes a log as 10,000 ranks print it (progress lines, then the death of one rank, the tracebacks of hundreds of
victims, a storm of watchdog lines), reads it on one core with the reader that `rerail classify` uses, and prints
megabytes and lines a second, the memory it took, and whether class and rank are right.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path

from rerail.collectors.sources.log_reader import read_log
from rerail.server.core.fold import RunFold

CULPRIT = 4711


MINUTE, ITERATION = "@MINUTE@", "@ITERAT@"
"""What is put in when a piece is written: every rank prints every iteration."""


def progress(generator: random.Random, ranks: int, count: int) -> str:
    """Lines as training frameworks print them."""
    rows = []
    for number in range(count):
        rank = generator.randrange(ranks)
        rows.append(
            f"{rank}: [2026-11-29 {MINUTE}:{number * 60 // count:02d},{number % 1000:03d}] [INFO] [trainer.py:88] "
            f"iteration {ITERATION}/ 100000 | consumed samples: 512 | "
            f"elapsed time per iteration (ms): {generator.random() * 900:.1f} | "
            f"learning rate: 1.2E-04 | lm loss: {generator.random():.4E} | grad norm: {generator.random():.3f}\n"
        )
    return "".join(rows)


def prose(generator: random.Random, ranks: int, count: int) -> str:
    """Lines of which no two are alike even without their digits: samples of generated text."""
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randrange(3, 9))) for _ in range(5000)]
    return "".join(
        f"{generator.randrange(ranks)}: sample: {' '.join(generator.choices(words, k=22))}\n" for _ in range(count)
    )


def death(ranks: int) -> str:
    """One rank raises; its peers lose their connections; everybody's watchdog complains."""
    rows = [
        f"[rank{CULPRIT}]: Traceback (most recent call last):\n",
        f'[rank{CULPRIT}]:   File "/home/me/train.py", line 88, in step\n',
        f"[rank{CULPRIT}]:     loss = model(batch)\n",
        f"[rank{CULPRIT}]: ValueError: Target 50304 is out of bounds.\n",
    ]
    for rank in range(0, ranks, 25):
        rows += [
            f"[rank{rank}]: Traceback (most recent call last):\n",
            f'[rank{rank}]:   File "/opt/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward\n',
            f"[rank{rank}]:     torch.autograd.backward(\n",
            f"[rank{rank}]: RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.{rank % 250}]:{rank}.\n",
        ]
    for rank in range(ranks):
        rows.append(
            f"[rank{rank}]:[E1129 23:10:44.{rank:06d}000 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
            f"collective operation timeout: WorkNCCL(SeqNum=2635, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
            f"Timeout(ms)=600000) ran for 600024 milliseconds before timing out.\n"
        )
    rows.append(
        "E1129 23:11:00.228000 30487 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
        f"local_rank: {CULPRIT % 8} (pid: 30501) of binary: /usr/bin/python3\n"
    )
    return "".join(rows)


def write(path: Path, megabytes: int, ranks: int, lines: str) -> None:
    """The log."""
    generator = random.Random(42)
    if lines == "prose":
        pieces = [prose(generator, ranks, 20_000) for _ in range(4)]
    else:
        pieces = [progress(generator, ranks, 20_000) for _ in range(4)]
    end = death(ranks)
    left = megabytes * 1_000_000 - len(end)
    with path.open("w") as file:
        index = 0
        while left > 0:
            minute = f"{index // 60 % 24:02d}:{index % 60:02d}"
            file.write(pieces[index % 4].replace(MINUTE, minute).replace(ITERATION, f"{index:8d}"))
            left -= len(pieces[index % 4])
            index += 1
        file.write(end)


def main() -> None:
    """Write, read, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--lines", choices=("progress", "prose"), default="progress", help="what healthy ranks print")
    parser.add_argument("--keep", type=Path, help="write the log here and leave it")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = parsed.keep or Path(folder) / "train.log"
        if not path.exists():
            write(path, parsed.megabytes, parsed.ranks, parsed.lines)
        size = path.stat().st_size
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 22), b""))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, cpu = time.perf_counter(), time.process_time()
        with path.open("rb") as file:
            read = read_log(file, emitter="bench", run="bench", fallback_at=1)
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fold = RunFold("bench")
        fold.add(read.facts)
        fold.view(max(fact.at for fact in read.facts) + 1_000_000_000)
        endings = fold.endings()
        verdict = endings[0][1] if endings else None
        print(f"size               {size / 1e6:10.0f} MB, {lines} lines")
        rate = f"{size / 1e6 / took:.0f} MB/s, {lines / took:.0f} lines/s"
        print(f"read in            {took:10.1f} s ({cpu:.1f} s of one core): {rate}")
        kept = f"{read.lines_counted} more counted by kind, {len(read.facts)} facts"
        print(f"looked at          {read.lines_looked_at:10d} lines, {kept}")
        print(
            f"peak memory        {memory / 1024:10.0f} MB ({(memory - before) / 1024:.0f} MB more than before reading)"
        )
        if verdict is None:
            print("verdict            none")
        else:
            right = (verdict.cause, verdict.culprit_rank) == ("user_exception", CULPRIT)
            print(f"verdict            {verdict.cause}, rank {verdict.culprit_rank}: {'right' if right else 'WRONG'}")


if __name__ == "__main__":
    main()
