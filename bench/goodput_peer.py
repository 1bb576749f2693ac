"""The same question, "how good was this run so far?", to rerail and to Google's ml-goodput-measurement.

    python bench/goodput_peer.py [most steps]

One history of 0.37 s steps and faults that throw it back is told to both. Asked are the first answer, with nothing in
memory, and the answer after one more step. Ours is measured with the database in it: from the fact's arrival to the
saved view and back (SQLite, synchronous=FULL). The peer reads its log from a list in memory, so that nothing of its
network is counted; it is installed from PyPI into an environment that is thrown away. Every row is a process of its
own, for its peak memory. Where the peer cannot be installed, that is said, and ours is measured alone.

CPU seconds, so that what else the machine does counts less. The picture is written to docs/images/goodput-peer.svg.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "goodput-peer.svg"
PEER = "ml-goodput-measurement"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
FAULTS = (10, 100)
MORE_STEPS = 5


def measured(cold: float, more: list[float], answer: float | None) -> None:
    """Say what was measured in this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cold": cold, "more": statistics.median(more), "peak": peak, "answer": answer}))


def ours(steps: int, faults: int) -> None:
    """Measure rerail."""
    sys.path.insert(0, str(HERE))
    from fold import history, one_more

    from rerail.server.core.codec import encode_lines
    from rerail.server.core.facts import Steps
    from rerail.server.decoding import decode_facts
    from rerail.server.preparing import prepare_database
    from rerail.server.projector import Projector
    from rerail.server.queries import Queries
    from rerail.server.store import open_store

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/bench.sqlite3"
        prepare_database(url)
        store = open_store(url)
        now, batch, last = 0, [], None
        for fact in history(steps, faults, 1000, thrown_back(steps, faults)):
            batch.append(fact)
            last = fact if isinstance(fact, Steps) else last
            now = max(now, fact.at + 10**9)
            if len(batch) == 1500:
                store.append((decode_facts(encode_lines(batch), now).batch,))
                batch = []
        store.append((decode_facts(encode_lines(batch), now).batch,))
        began = time.process_time()
        projector, queries = Projector(store, lambda: now), Queries(store, lambda: now)
        projector.derive_due()
        view = queries.run("bench")
        cold = time.process_time() - began
        more = []
        for number in range(MORE_STEPS):
            body = encode_lines([one_more([last], number, (view.current_step or 0) + number)])
            now += 2 * 10**9
            began = time.process_time()
            store.append((decode_facts(body, now).batch,))
            projector.derive_due()
            answer = queries.run("bench").account.training_goodput
            more.append(time.process_time() - began)
        store.close()
    measured(cold, more, answer)


def peer(entries: Path) -> None:
    """Measure the peer, in an environment where it is installed. `entries` are its log, one JSON object per line."""
    from datetime import UTC, datetime

    from ml_goodput_measurement.src import goodput

    class MemoryLog:
        """A log in memory that gives what came since it was read last."""

        def __init__(self) -> None:
            self.entries: list[tuple[datetime, dict]] = []
            self.read = 0

        def write_cloud_logging_entry(self, entry: dict) -> None:
            stamp = entry.get("step_start_time", entry.get("job_start_time"))
            self.entries.append((datetime.fromtimestamp(stamp, UTC), entry))

        def read_cloud_logging_entries(self, start_time=None, end_time=None, last_entry_info=None):  # noqa: ARG002
            new = self.entries[self.read :]
            self.read = len(self.entries)
            if not new:
                return [], (None, None)
            return [entry for _, entry in new], (new[-1][0], str(self.read))

    log = MemoryLog()
    with entries.open() as lines:
        for line in lines:
            log.write_cloud_logging_entry(json.loads(line))
    with tempfile.TemporaryDirectory() as folder:
        calculator = goodput.GoodputCalculator("bench", "log", cloud_logger=log, cache_dir=folder)
        began = time.process_time()
        calculator.get_job_goodput()
        cold = time.process_time() - began
        more = []
        last = log.entries[-1][1]
        for number in range(1, MORE_STEPS + 1):
            log.write_cloud_logging_entry(
                {
                    "job_name": "bench",
                    "step_count": last["step_count"] + number,
                    "step_start_time": last["step_start_time"] + 0.37 * number,
                }
            )
            began = time.process_time()
            answer = calculator.get_job_goodput()[0]
            more.append(time.process_time() - began)
    # The peer divides by the time of asking; by the time of the last step it is comparable.
    span = (log.entries[-1][0] - log.entries[0][0]).total_seconds()
    asked = (datetime.now(UTC) - log.entries[0][0]).total_seconds()
    measured(cold, more, answer / 100 * asked / span)


def thrown_back(steps: int, faults: int) -> int:
    """By how many steps a fault throws back: less than an attempt has."""
    return min(50, steps // (faults + 1) // 2)


def write_entries(steps: int, faults: int, path: Path) -> None:
    """The history as the peer's recorder would have logged it: a start of the job, and of each step."""
    sys.path.insert(0, str(HERE))
    from fold import history

    from rerail.server.core.facts import AttemptStarted, Steps

    with path.open("w") as file:
        for fact in history(steps, faults, 1000, thrown_back(steps, faults)):
            if isinstance(fact, AttemptStarted):
                file.write(json.dumps({"job_name": "bench", "job_start_time": fact.at / 1e9}) + "\n")
            elif isinstance(fact, Steps):
                at = fact.start
                for number, length in enumerate(fact.durations_us, fact.first_step):
                    entry = {"job_name": "bench", "step_count": number, "step_start_time": at / 1e9}
                    file.write(json.dumps(entry) + "\n")
                    at += length * 1000


def installed_peer(folder: Path) -> Path | None:
    """The Python of a new environment with the peer in it; None, and why, where it cannot be installed."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", PEER]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        print(f"{PEER} could not be installed in 15 minutes: rerail alone")
        return None
    if done.returncode:
        print(f"{PEER} cannot be installed here: rerail alone ({done.stderr.strip().splitlines()[-1:]})")
        return None
    return python


def asked(python: Path | str, *arguments: object) -> dict[str, float]:
    """What this file measures with these arguments in a process of its own."""
    command = [str(python), str(Path(__file__).resolve()), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(most: int) -> None:
    """Print the table and draw the picture."""
    from drawing.lines import Chart, Line, draw

    sizes = [size for size in SIZES if size <= most]
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = installed_peer(folder / "peer")
        print("    steps faults |   first answer, CPU s     | one more step, CPU ms     | peak memory, MB | goodput")
        print(
            "                 |  rerail     peer  ratio   |  rerail     peer   ratio  | rerail    peer  | rerail   peer"
        )
        for steps in sizes:
            for faults in FAULTS:
                us = found["rerail", steps, faults] = asked(sys.executable, "--ours", steps, faults)
                them = None
                if python is not None:
                    write_entries(steps, faults, folder / "entries.jsonl")
                    them = found["peer", steps, faults] = asked(python, "--peer", folder / "entries.jsonl")
                print(f"{steps:>9,} {faults:>6} | {row(us, them)}", flush=True)
    colours = {"rerail": "#0b6e4f", "peer": "#b3541e"}
    charts = []
    for title, unit, key, scale in (
        ("one more step", "CPU ms", "more", 1e3),
        ("first answer", "CPU s", "cold", 1),
        ("peak memory", "MB", "peak", 1),
    ):
        lines = [
            Line(
                f"{'rerail, database included' if side == 'rerail' else PEER}, {faults} faults",
                sizes,
                [found[side, steps, faults][key] * scale for steps in sizes],
                colours[side],
                faults == FAULTS[0],
            )
            for side in colours
            for faults in FAULTS
            if (side, sizes[0], faults) in found
        ]
        charts.append(Chart(title, "steps", unit, lines))
    print(draw(charts, PICTURE))


def row(us: dict[str, float], them: dict[str, float] | None) -> str:
    """One row of the table."""
    if them is None:
        return (
            f"{us['cold']:>7.2f}        –      –   | {us['more'] * 1e3:>7.1f}        –       –  |"
            f" {us['peak']:>6.0f}       –  | {us['answer']:.4f}      –"
        )
    return (
        f"{us['cold']:>7.2f} {them['cold']:>8.2f} {them['cold'] / us['cold']:>6.1f}   |"
        f" {us['more'] * 1e3:>7.1f} {them['more'] * 1e3:>8.1f} {them['more'] / us['more']:>7.1f}  |"
        f" {us['peak']:>6.0f} {them['peak']:>7.0f}  | {us['answer']:.4f} {them['answer']:.4f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        ours(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["--peer"]:
        peer(Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1])
