"""Step lines that are written alike are read at once, and tell what each of them tells when it is read by itself."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.collectors.sources import log_reader, progress_alike
from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.sources.log_reader import read_log
from rerail.server.core.facts import CheckpointMoment, Evidence, Fact, Steps


def stamp(number: int, point: str = ",") -> str:
    seconds, milliseconds = divmod(number * 250, 1000)
    return f"2026-11-03 {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{milliseconds:03d}"


LINES: dict[str, Callable[[int, float], str]] = {
    "megatron": lambda number, part: (
        f" [{stamp(number, '.')}] iteration {number:8d}/  5000 | consumed samples: {number * 8:9d} | elapsed time per "
        f"iteration (ms): {249 + part:.1f} | learning rate: {part / 1e4:.6E} | lm loss: {part:.3E} |"
    ),
    "torchtitan": lambda number, part: (
        f"[rank0]:[titan] {stamp(number)} - root - INFO - step: {number:2d}  loss: {part * 20:7.4f}  "
        f"tps: {9e3 * part:,.0f}"
    ),
    "nemo": lambda number, part: (
        f"[NeMo I {stamp(number)[:19]} nemo_logging:393] Training epoch {number // 90}, iteration {number % 90}/89 | "
        f"lr: {part:.4g} | global_step: {number} | train_step_timing in s: {0.2 + part / 10:.4g}"
    ),
    "deepspeed": lambda number, part: (
        f"[{stamp(number)}] [INFO] [logging.py:96:log_dist] [Rank 0] step={number}, skipped=0, lr=[{part}]\n"
        f"[{stamp(number)}] [INFO] [timer.py:264:stop] epoch=0/micro_step={number}/global_step={number}, Samples={part}"
    ),
    "maxtext": lambda number, part: (
        f"I1103 {stamp(number, '.')[11:]}000 1398 metric_logger.py:190] completed step: {number}, "
        f"seconds: {0.2 + part / 9:.3f}, loss: {part:.3f}"
    ),
    "any": lambda number, part: f"{stamp(number)} INFO step {number} loss {part:.3f}",
    "zoned": lambda number, part: f"{stamp(number, '.').replace(' ', 'T')}+09:00 step {number}/5000 loss {part:.3f}",
    "bars": lambda number, part: (
        ("" if number > 1 else "[INFO|trainer.py:1] 2026-11-03 00:00:00,000 >> ***** Running training *****\n"
         "[INFO|trainer.py:1] 2026-11-03 00:00:00,000 >>   Total optimization steps = 5,000\n")
        + f"  {number // 50}%|{'█' * (number // 200):10s}| {number}/5000 "
        f"[{number // 240:02d}:{number // 4 % 60:02d}<10:00,  {3.9 + part / 5:.2f}it/s]"
    ),
    "record": lambda number, part: f'{{"ts": "{stamp(number, ".")}", "step": {number}, "loss": {part:.4f}}}',
}  # fmt: skip


def log_of(framework: str, seed: int) -> bytes:
    """A log of steps with everything between them that ends a run of lines."""
    generator = random.Random(seed)
    number, stride, rows = 1, generator.choice([1, 1, 10]), []
    for _ in range(250):
        line = LINES[framework](number, generator.random())
        match generator.randrange(60):
            case 0:
                rows.append("a line that says nothing, 12 times")
            case 1:
                rows.append(
                    'Traceback (most recent call last):\n  File "a.py", line 3, in f\nRuntimeError: out of memory'
                )
            case 2:
                number = max(1, number - generator.randrange(1, 20))
            case 3:
                rows += [f"saving checkpoint at iteration {number:7d} to /c",
                         f"  successfully saved checkpoint from iteration {number:7d} to /c"]  # fmt: skip
            case 4:
                rows.append(line.replace("Rank 0", "Rank 1").replace("rank0", "rank1"))
            case 5:
                line = line.replace("0.", "1e-3 x ", 1)
            case 6:
                line += " | more 12"
            case 7:
                line = f"\r{line}"
            case 8:
                line = line.replace(":59", ":61")
        rows.append(line)
        number += stride
    return "\n".join([*rows, ""]).encode()


def facts_of(log: bytes) -> list[Fact]:
    return read_log(io.BytesIO(log), emitter="log", run="r", fallback_at=1).facts


@pytest.mark.parametrize("framework", LINES)
def test_what_is_read_at_once_is_what_is_read_line_by_line(framework: str, monkeypatch: pytest.MonkeyPatch):
    for seed in range(6):
        log = log_of(framework, seed)
        monkeypatch.setattr(log_reader, "BLOCK_BYTES", 4_000 if seed % 2 else 4_000_000)
        monkeypatch.setattr(progress_alike, "MOST_ALIKE_MADE", 0)
        one_by_one = facts_of(log)
        monkeypatch.setattr(progress_alike, "MOST_ALIKE_MADE", 200)
        assert facts_of(log) == one_by_one


@pytest.mark.parametrize("framework", LINES)
def test_most_lines_of_steps_are_read_at_once(framework: str, monkeypatch: pytest.MonkeyPatch):
    """No line but the first few goes the long way: else a log of steps takes three to fifty times as long."""
    quickly: list[int] = []
    take = progress_alike.AlikeSteps.take_quickly
    monkeypatch.setattr(
        progress_alike.AlikeSteps,
        "take_quickly",
        lambda self, raw, offset: quickly.append(offset) or take(self, raw, offset),
    )
    log = "".join(f"{LINES[framework](number, 0.1 + number % 7 / 10)}\n" for number in range(1, 1200)).encode()
    facts = facts_of(log)
    last = 1200 if framework in ("nemo", "maxtext") else 1199
    steps = [fact for fact in facts if isinstance(fact, Steps)]
    assert max(fact.first_step + fact.step_count - 1 for fact in steps) == last
    assert len(quickly) < 20


def test_steps_of_one_second_share_the_time_until_the_next():
    """Stamps of whole seconds put several steps into one instant: none of them is lost."""
    facts = facts_of("".join(f"{LINES['nemo'](number, 0.5)}\n" for number in range(1, 31)).encode())
    told = [(fact.first_step, fact.step_count, sum(fact.durations_us)) for fact in facts if isinstance(fact, Steps)]
    assert told[2:4] == [(6, 4, 1_000_000), (10, 4, 1_000_000)]
    assert sum(count for _, count, _ in told) == 30 and told[-1] == (30, 2, 0)


@pytest.mark.parametrize(
    "framework", sorted(LINES.keys() - {"bars", "torchtitan"})
)  # dated by the file; saves of another's
def test_a_log_that_is_followed_states_what_is_stated_when_it_is_imported(framework: str, tmp_path: Path):
    for seed in range(3):
        log = log_of(framework, seed)
        path, source, cursor, followed = tmp_path / f"{seed}.log", followed_by(tmp_path / f"{seed}.log"), None, []
        for cut in (len(log) // 3, len(log) // 2, len(log)):
            path.write_bytes(log[:cut])
            polled = source.poll(cursor)
            cursor, followed = polled.cursor, [*followed, *polled.facts]
        followed += source.finish(cursor).facts
        assert told_by(followed) == told_by(facts_of(log))


def test_a_log_that_is_followed_is_read_by_blocks_from_one_look_to_the_next(tmp_path: Path):
    """No line but the first few goes the long way, and none because a look ended."""
    path = tmp_path / "train.log"
    rows = [f"{LINES['any'](number, 0.25)}\nwhatever else is printed: {number}\n" for number in range(1, 1201)]
    source, cursor, steps = followed_by(path), None, 0
    for count in (400, 800, 1200):
        path.write_text("".join(rows[:count]))
        polled = source.poll(cursor)
        cursor, steps = polled.cursor, steps + sum(f.step_count for f in polled.facts if isinstance(f, Steps))
    assert steps == 1200
    assert source.lines_looked_at < 20


def followed_by(path: Path) -> LauncherSource:
    return LauncherSource(node="n", run="r", log=path, zone_seconds=0)


def told_by(facts: list[Fact]) -> tuple[set[tuple[int, int]], list[tuple[int, int, str]], list[tuple[int, str]]]:
    """Attempts and steps done in them; checkpoints; evidence and when it was. Of both in the order of the log."""
    return (
        {(fact.restart or 0, fact.first_step + place)
         for fact in facts if isinstance(fact, Steps) for place in range(fact.step_count)},
        [(fact.at, fact.step, fact.stage) for fact in facts if isinstance(fact, CheckpointMoment)],
        sorted((fact.at, fact.text) for fact in facts if isinstance(fact, Evidence)),
    )  # fmt: skip
