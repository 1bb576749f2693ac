"""A run of 10,000 ranks over 30 days with 200 faults, and a fleet of 1,000 runs: pictures, lists, sums, disk.

    python bench/fleet.py [runs]

Made by `rerail synth` with seed 1, kept in SQLite files. Each picture is asked for at several zooms, as Python
(`Queries.timeline`) and over HTTP from a server of its own (`/figures/runs/…/timeline`, what the page draws). Beside
the rollups in the same run: the same sums made from every span. Then smaller runs and fleets, to see how it grows. The
first number of each is the median by the clock, in which is what else the machine does; the second is CPU time, ours or
the server's.

The picture is written to docs/images/fleet.svg.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from drawing.lines import Chart, Line, draw
from run_page import free_port, get, wait_until

from rerail.server.cli import main as rerail
from rerail.server.core.rollup import Resolution, rolled_up
from rerail.server.queries import Queries
from rerail.server.store import Store, open_store

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "fleet.svg"
DAYS = (3, 10, 30)
ZOOMS = (1, 2, 4, 10, 100, 1000)
TRIES = 15


def timed(ask: Callable[[], object], cpu: Callable[[], float] = time.process_time) -> tuple[float, float]:
    """Median by the clock, and mean CPU time, in ms. The first of all is not counted: it builds what is built once."""
    ask()
    times, used = [], cpu()
    for _ in range(TRIES):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times), (cpu() - used) / TRIES * 1e3


def cpu_of(process: int) -> Callable[[], float]:
    """Reads the CPU seconds another process has used (Linux)."""

    def read() -> float:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return read


def shown(pair: tuple[float, float]) -> str:
    """A pair of times."""
    return f"{pair[0]:>7.1f} ms, {pair[1]:>5.1f} of CPU"


@contextlib.contextmanager
def synthesized(*arguments: object):
    """The store of a fresh database with what `rerail synth` makes, and its size on disk in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.sqlite3"
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = rerail(["synth", "--seed", "1", *map(str, arguments), "--database-url", f"sqlite:///{path}"])
        if code:
            raise SystemExit(said.getvalue())
        store = open_store(f"sqlite:///{path}")
        try:
            yield store, path, path.stat().st_size / 1e6, said.getvalue().strip().splitlines()[-1]
        finally:
            store.close()


@contextlib.contextmanager
def served(path: Path):
    """Address of a server over a database, and its CPU time; it only answers, so that nothing else is measured."""
    port = free_port()
    command = [sys.executable, "-m", "rerail", "serve", "--port", str(port), "--role", "web"]
    server = subprocess.Popen([*command, "--database-url", f"sqlite:///{path}"])
    try:
        wait_until(f"http://127.0.0.1:{port}/healthz", bool)
        yield f"http://127.0.0.1:{port}", cpu_of(server.pid)
    finally:
        server.terminate()
        server.wait(20)


def large_run(days: int, is_whole: bool) -> dict[str, float]:
    """Measure the large run at one length."""
    arguments = ("--runs", 0, "--days", days, "--faults", round(200 * days / 30))
    with synthesized(*arguments) as (store, path, size, said):
        queries = Queries(store)
        (row,) = queries.runs().rows
        run, start, end = row.run_id, row.started_at or 0, row.as_of
        print(f"\n10,000 ranks, {days} days: {said}")
        print(f"  {row.attempts} attempts, {row.incidents} incidents, {size:.1f} MB on disk")
        whole = timed(lambda: queries.timeline(run, start, end))
        if is_whole:
            picture(store, queries, path, run, start, end)
        return {"disk": size, "timeline": whole[1]}


def picture(store: Store, queries: Queries, path: Path, run: str, start: int, end: int) -> None:
    """Print every zoom of the run's picture."""
    with served(path) as (url, cpu):
        for zoom in ZOOMS:
            first = start + (end - start) // 3 if zoom > 1 else start
            last = first + (end - start) // zoom
            asked = timed(lambda first=first, last=last: queries.timeline(run, first, last))
            address = f"{url}/figures/runs/{run}/timeline?width=1400&from={first}&to={last}"
            http = timed(lambda address=address: get(address), cpu)
            kilobytes = get(address)[0] / 1e3
            print(f"  1/{zoom:<5} of it: {shown(asked)}; over HTTP {shown(http)}, {kilobytes:.0f} kB")
        page = timed(lambda: get(f"{url}/runs/{run}"), cpu)
        print(f"  the page's document: {shown(page)}, {get(f'{url}/runs/{run}')[0] / 1e3:.0f} kB")
    for resolution in (Resolution.DAY, Resolution.HOUR):
        read = timed(lambda resolution=resolution: store.rollup(run, resolution, start, end))
        gpus = store_capacities(queries, run)
        made = timed(lambda resolution=resolution, gpus=gpus: rolled_up(store.spans(run, start, end), resolution, gpus))
        print(f"  sums by the {resolution.name.lower()}: {shown(read)}; made from every span {shown(made)}")


def store_capacities(queries: Queries, run: str):
    """The numbers of GPUs told with the attempts of a run."""
    from rerail.server.core.goodput import Capacities

    return Capacities((each.started_at, each.gpus) for each in queries.run(run).attempts if each.gpus is not None)


def fleet(runs: int, is_whole: bool) -> dict[str, float]:
    """Measure a fleet of one size."""
    with synthesized("--runs", runs, "--ranks", 0) as (store, path, size, said):
        queries = Queries(store)
        print(f"\n{runs:,} runs: {said}")
        facts = store.storage().facts
        print(
            f"  {facts:,} facts, {size:.1f} MB on disk, {size * 1e6 / facts:.0f} bytes a fact with everything derived"
        )
        now = time.time_ns()
        rows = timed(lambda: queries.runs(limit=50))
        everything = timed(lambda: queries.runs(limit=1000))
        sums = timed(lambda: queries.fleet(now - 30 * Resolution.DAY, now))
        print(f"  a page of 50 rows: {shown(rows)}; all rows {shown(everything)}")
        print(f"  sums over all runs, 30 days: {shown(sums)}")
        hours = timed(lambda: queries.fleet(now - 2 * Resolution.DAY, now))
        print(f"  sums over all runs, 48 hours by the hour: {shown(hours)}")
        if is_whole:
            with served(path) as (url, cpu):
                for what in ("/api/v1/runs?limit=1000", "/api/v1/fleet", "/runs"):
                    print(f"  {what} over HTTP: {shown(timed(lambda what=what: get(url + what), cpu))}")
        return {"disk": size, "rows": everything[1], "sums": sums[1]}


def main(runs: int) -> None:
    """Print everything and draw how it grows."""
    lengths = {days: large_run(days, days == DAYS[-1]) for days in DAYS}
    counts = [max(1, runs // 10), max(2, runs // 3), runs]
    fleets = {count: fleet(count, count == runs) for count in counts}
    one, many = list(lengths.values()), list(fleets.values())
    charts = [
        Chart("one run of 10,000 ranks", "days", "CPU ms, MB", [
            Line("whole picture, ms", DAYS, [each["timeline"] for each in one], "#0b6e4f"),
            Line("disk, MB", DAYS, [each["disk"] for each in one], "#555555"),
        ]),
        Chart("a fleet", "runs", "CPU ms, MB", [
            Line("all rows, ms", counts, [each["rows"] for each in many], "#1f5fa8"),
            Line("sums of 30 days, ms", counts, [each["sums"] for each in many], "#b3541e"),
            Line("disk, MB", counts, [each["disk"] for each in many], "#555555"),
        ]),
    ]  # fmt: skip
    print("\n" + draw(charts, PICTURE))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
