"""How fast a large log is read, and whether the cause in it is found.

    python bench/read_log.py [--megabytes 1024] [--ranks 10000] [--lines prose] [--keep FILE]
    python bench/read_log.py --lines steps [--count 200000]
    python bench/read_log.py --follow [--lines steps]

The first writes a log as 10,000 ranks print it (progress lines, then the death of one rank, the tracebacks of hundreds
of victims, a storm of watchdog lines), reads it on one core with the reader that `rerail classify` uses, and prints
megabytes and lines a second, the memory it took, and whether class and rank are right. The second reads logs of one
rank that hold nothing but steps, as each framework prints them. With `--follow` logs are read as `rerail collect logs`
reads them, look by look with a cursor in between: how fast a collector that was away catches up.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import tempfile
import time
from pathlib import Path

from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.sources.log_reader import read_log
from rerail.server.core.facts import Fact, Steps
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


def _stamp(number: int, point: str = ",") -> str:
    """Four steps a second."""
    seconds, milliseconds = divmod(number * 250, 1000)
    clock = f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"2026-11-{3 + seconds // 86400:02d} {clock}{point}{milliseconds:03d}"


def _megatron(number: int, generator: random.Random) -> str:
    loss, took = generator.random() * 9, 249.5 + generator.random()
    return (
        f" [{_stamp(number, '.')}] iteration {number:8d}/  500000 | consumed samples: {number * 256:12d} | "
        f"elapsed time per iteration (ms): {took:.1f} | throughput per GPU (TFLOP/s/GPU): 312.0 | "
        f"learning rate: {generator.random() / 1e4:.6E} | global batch size:   256 | lm loss: {loss:.6E} | "
        f"loss scale: 1.0 | grad norm: {generator.random():.3f} | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |"
    )


def _torchtitan(number: int, generator: random.Random) -> str:
    return (
        f"[rank0]:[titan] {_stamp(number)} - root - INFO - step: {number:2d}  loss: {generator.random() * 3:7.4f}  "
        f"grad_norm: {generator.random():7.4f}  memory: 47.52GiB(60.60%)  tps: {7000 + generator.randrange(90):,}  "
        f"tflops: {400 + generator.random():.2f}  mfu: {41 + generator.random():.2f}%"
    )


def _nemo(number: int, generator: random.Random) -> str:
    loss, took = generator.random() * 3, 0.25 + generator.random() / 100
    return (
        f"[NeMo I {_stamp(number)[:19]} nemo_logging:393] Training epoch {number // 1000}, iteration "
        f"{number % 1000}/999 | lr: {generator.random() / 1e5:.4g} | global_batch_size: 8 | global_step: {number} | "
        f"reduced_train_loss: {loss:.4g} | train_step_timing in s: {took:.4g}"
    )


def _deepspeed(number: int, generator: random.Random) -> str:
    return (
        f"[{_stamp(number)}] [INFO] [logging.py:96:log_dist] [Rank 0] step={number}, skipped=0, "
        f"lr=[{generator.random() / 1e4:.8f}], mom=[(0.9, 0.999)]\n"
        f"[{_stamp(number)}] [INFO] [timer.py:264:stop] epoch=0/micro_step={number * 4}/global_step={number}, "
        f"RunningAvgSamplesPerSec={199 + generator.random()}, CurrSamplesPerSec={210 + generator.random()}, "
        f"MemAllocated=0.06GB"
    )


def _maxtext(number: int, generator: random.Random) -> str:
    return (
        f"I1103 {_stamp(number, '.')[11:]}000 139886545450816 metric_logger.py:190] completed step: {number}, "
        f"seconds: {0.25 + generator.random() / 100:.3f}, TFLOP/s/device: {200 + generator.random():.3f}, "
        f"Tokens/s/device: 3341.2, total_weights: 4096, loss: {generator.random() * 9:.3f}"
    )


def _any(number: int, generator: random.Random) -> str:
    loss, speed = generator.random() * 3, 7000 + generator.random()
    return f"{_stamp(number)} INFO trainer: step {number} loss {loss:.4f} tokens/s {speed:.1f}"


def _json(number: int, generator: random.Random) -> str:
    stamp = _stamp(number, ".").replace(" ", "T")
    return (
        f'{{"ts": "{stamp}Z", "level": "INFO", "step": {number}, "loss": {generator.random() * 3:.4f}, "lr": 0.0001}}'
    )


def _bar(number: int, generator: random.Random) -> str:
    seconds = number // 4
    head = "" if number > 1 else "".join(
        f"[INFO|trainer.py:1] 2026-11-03 00:00:00,000 >> {words}\n"
        for words in ("***** Running training *****", "  Total optimization steps = 500,000")
    )  # fmt: skip
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{head}  0%|          | {number}/500000 [{clock}<12:30:10,  {4 + generator.random() / 50:.2f}it/s]"


def _drawn_over(number: int, generator: random.Random) -> str:
    """As a terminal is written to: each state over the one before, and a line of figures every 50 steps."""
    loss = f"\n{{'loss': {generator.random():.4f}, 'learning_rate': 1e-05, 'epoch': 0.1}}" if number % 50 == 0 else ""
    return f"{_bar(number, generator)}\r{loss}"


STEP_LINES = {
    "megatron": _megatron, "torchtitan": _torchtitan, "nemo": _nemo, "deepspeed": _deepspeed, "maxtext": _maxtext,
    "any": _any, "json": _json, "bars": _bar,
}  # fmt: skip


def read_steps(count: int) -> None:
    """Read a log of nothing but steps, as each framework prints them."""
    for framework, line in {**STEP_LINES, "bars drawn over": _drawn_over}.items():
        generator = random.Random(42)
        pieces = (line(number, generator) for number in range(1, count + 1))
        whole = (
            "".join(pieces).replace("}", "}\n") if line is _drawn_over else "".join(f"{piece}\n" for piece in pieces)
        )
        data = whole.encode()
        lines = data.count(b"\n")
        start = time.process_time()
        read = read_log(io.BytesIO(data), emitter="bench", run="bench", fallback_at=1)
        took = time.process_time() - start
        steps = sum(fact.step_count for fact in read.facts if isinstance(fact, Steps))
        is_right = "right" if steps == count else "WRONG"
        rates = f"{lines / took:10,.0f} lines/s, {steps / took:10,.0f} steps/s of one core"
        print(f"{framework:16s} {lines:8d} lines, {rates}, {steps} steps: {is_right}")


def follow(path: Path) -> tuple[float, int, list[Fact]]:
    """Processor seconds, polls and facts of following a log up to its end."""
    source = LauncherSource(node="bench", run="bench", log=path, zone_seconds=0)
    facts: list[Fact] = []
    cursor, polls = None, 0
    start = time.process_time()
    while (polled := source.poll(cursor)).cursor != cursor:
        facts += polled.facts
        cursor, polls = polled.cursor, polls + 1
    return time.process_time() - start, polls, facts


def follow_steps(count: int) -> None:
    """Follow a log of nothing but steps, as each framework prints them."""
    with tempfile.TemporaryDirectory() as folder:
        for framework, line in STEP_LINES.items():
            generator, path = random.Random(42), Path(folder) / f"{framework}.log"
            path.write_text("".join(f"{line(number, generator)}\n" for number in range(1, count + 1)))
            lines = path.read_bytes().count(b"\n")
            took, polls, facts = follow(path)
            steps = sum(fact.step_count for fact in facts if isinstance(fact, Steps))
            rate = f"{lines / took:10,.0f} lines/s of one core"
            print(f"{framework:16s} {lines:8d} lines, {polls} polls, {rate}, {steps} steps")


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
    parser.add_argument("--lines", choices=("progress", "prose", "steps"), default="progress", help="what ranks print")
    parser.add_argument("--count", type=int, default=200_000, help="steps of each log of --lines steps")
    parser.add_argument("--keep", type=Path, help="write the log here and leave it")
    parser.add_argument("--follow", action="store_true", help="read it as a log that grows is read")
    parsed = parser.parse_args()
    if parsed.lines == "steps":
        (follow_steps if parsed.follow else read_steps)(parsed.count)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = parsed.keep or Path(folder) / "train.log"
        if not path.exists():
            write(path, parsed.megabytes, parsed.ranks, parsed.lines)
        size = path.stat().st_size
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 22), b""))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if parsed.follow:
            took, polls, facts = follow(path)
            print(f"followed           {size / 1e6:10.0f} MB, {lines} lines, {polls} polls, {len(facts)} facts")
            rate = f"{size / 1e6 / took:.0f} MB/s, {lines / took:.0f} lines/s"
            print(f"in                 {took:10.1f} s of one core: {rate}")
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(f"peak memory        {memory / 1024:10.0f} MB ({(memory - before) / 1024:.0f} MB more than before)")
            return
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
