"""What every page costs: the server's time for its data, and the bytes a browser gets of it, beside the aims.

    python bench/pages.py [--beside PYTHON] [--only demonstration,large,settings]

Three stores, each served by a process of its own that only answers: the demonstration of `make pictures` (recorded runs,
arms, a year of settings, a fleet of 60); a run of 10,000 ranks over 30 days with 200 faults; 1,000 runs of six settings
each with a fault between any two. Asked for are what a browser asks: the callback that draws a page, the rows of the table
of runs, the other definitions of goodput, and the picture of a run at every zoom. `first` is the first answer of the
process, when nothing is kept yet; then the median and the longest of the tries, by the clock, with whatever else the
machine does in it. Bytes are as sent, compressed. Aim: 300 ms, 200 kB.

`--beside` names the Python of another checkout of rerail with the same schema; its server is asked about the same
store, in turns with ours.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "docs")]
import take_pictures
from alerts import batch_of, facts_of
from fleet import synthesized
from run_page import free_port, wait_until

from rerail.server.core.facts import AttemptStarted
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.store import open_store

AIM_MS, AIM_KB = 300, 200
TRIES = 7
ZOOMS = (1, 2, 4, 10, 30, 100, 300, 1000, 10_000)
RUNS = 1000
ROWS = {"startRow": 0, "endRow": 100, "sortModel": [], "filterModel": {}}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One request, and what it is called in the table."""

    name: str
    path: str
    body: bytes | None = None

    def sent(self, url: str) -> tuple[float, int]:
        """Milliseconds until the whole answer was there, and its bytes."""
        kind = {} if self.body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(url + self.path, self.body, {"Accept-Encoding": "br", **kind})
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            size = len(answer.read())
        return (time.perf_counter() - began) * 1e3, size


def callback(outputs: list[str], inputs: dict[str, object], state: dict[str, object]) -> bytes:
    """What Dash's renderer posts; names are `component.property`."""

    def named(name: str) -> dict[str, object]:
        component, _, prop = name.rpartition(".")
        return {"id": component, "property": prop}

    def valued(values: dict[str, object]) -> list[dict[str, object]]:
        return [{**named(name), "value": value} for name, value in values.items()]

    several = [named(name) for name in outputs]
    told = {
        "output": outputs[0] if len(outputs) == 1 else f"..{'...'.join(outputs)}..",
        "outputs": several[0] if len(outputs) == 1 else several,
        "inputs": valued(inputs), "state": valued(state), "changedPropIds": [next(iter(inputs))],
    }  # fmt: skip
    return json.dumps(told).encode()


def page(name: str, address: str) -> Asked:
    """The callback that draws a page."""
    split = urlsplit(address)
    search = f"?{split.query}" if split.query else ""
    inputs = {"location.pathname": split.path, "again.data": None}
    body = callback(["page.children"], inputs, {"location.search": search})
    return Asked(name, "/_dash-update-component", body)


def run_rows() -> Asked:
    """The rows of the table of runs, with their strips."""
    body = callback(
        ["runs-grid.getRowsResponse", "runs-matches.children", "runs-sentence.children"],
        {"runs-grid.getRowsRequest": ROWS}, {"runs-search.value": "", "runs-state.value": ""},
    )  # fmt: skip
    return Asked("runs: 100 rows", "/_dash-update-component", body)


def definition(run: str, name: str) -> Asked:
    """Another definition of goodput over a run."""
    body = callback(
        ["run-definition.data-markup"],
        {"run-definition-wanted.data": name, "run-live.data": None}, {"run-id.data": run},
    )  # fmt: skip
    return Asked(f"run: as {name}", "/_dash-update-component", body)


def zooms(url: str, run: str) -> Iterator[Asked]:
    """The picture of a run at every zoom, in its middle."""
    path = f"/figures/runs/{quote(run, safe='')}/timeline?width=1400"
    yield Asked("timeline: whole", path)
    whole = got(url, path)
    start, end = int(whole["run_start"] or whole["start"]), int(whole["run_end"])
    for zoom in ZOOMS[1:]:
        first = start + (end - start) // 3
        yield Asked(f"timeline: 1/{zoom:,}", f"{path}&from={first}&to={first + max(1, (end - start) // zoom)}")
    yield Asked("timeline: window 1 h", f"{path}&window=3600")


def got(url: str, path: str) -> dict:
    """What an address answers."""
    with urllib.request.urlopen(url + path, timeout=120) as answer:
        return json.load(answer)


def wanted(url: str, run: str) -> Iterator[Asked]:
    """Every page of a store that has something to show, and the zooms of one run."""

    def first(path: str, *keys: str) -> str | None:
        rows = next((rows for rows in got(url, path).values() if isinstance(rows, list)), [])
        return next((str(row[key]) for row in rows for key in keys if row.get(key) is not None), None)

    lists = ("/", "/runs", "/alerts", "/problems", "/nodes", "/configs", "/configs/changes", "/knowledge", "/data")
    for path in lists:
        yield page(path, path)
    yield run_rows()
    yield page("/runs/RUN", f"/runs/{quote(run, safe='')}")
    yield from (definition(run, name) for name in ("google", "meta", "aws"))
    yield page("/knowledge?q=", "/knowledge?q=timeout")
    yield Asked("search as one types", "/figures/search?q=cause%3Acrash")
    found = {
        "/incidents/ID": (f"/api/v1/runs/{quote(run, safe='')}/incidents?limit=1", "/incidents/", "incident_id"),
        "/problems/ID": ("/api/v1/problems?sort=incidents&limit=1", "/problems/", "problem_id"),
        "/nodes/NAME": ("/api/v1/nodes?limit=1", "/nodes/", "node"),
        "/configs/FINGERPRINT": ("/api/v1/configs?sort=runs&limit=1", "/configs/", "fingerprint"),
        "/configs/changes/ID": ("/api/v1/configs/changes?limit=1", "/configs/changes/", "change_id"),
        "/notes/ID": ("/api/v1/notes?limit=1", "/notes/", "note"),
    }
    for name, (path, before, key) in found.items():
        one = first(path, key)
        if one is not None:
            yield page(name, before + quote(one if name != "/notes/ID" else note_name(one), safe=":"))
    configs = [row["fingerprint"] for row in got(url, "/api/v1/configs?sort=runs&limit=6")["configs"]]
    if len(configs) > 1:
        yield page("/configs/A?against=B", f"/configs/{configs[0]}?against={configs[1]}")
        for sides in (2, 6):
            if len(configs) >= sides:
                told = "&".join(f"with=config:{each}" for each in configs[:sides])
                yield page(f"/compare, {sides} configs", f"/compare?{told}")
    yield from zooms(url, run)


def note_name(told: str) -> str:
    """A note's name in an address."""
    return told if told.startswith("note-") else f"note-{told}"


@contextlib.contextmanager
def served(path: Path, python: str) -> Iterator[str]:
    """Address of a server over a database that only answers."""
    port = free_port()
    command = [python, "-m", "rerail", "serve", "--port", str(port), "--role", "web"]
    server = subprocess.Popen([*command, "--database-url", f"sqlite:///{path}"], cwd=tempfile.gettempdir())
    try:
        wait_until(f"http://127.0.0.1:{port}/healthz", bool)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def measured(title: str, path: Path, run: Callable[[str], str], beside: str | None) -> int:
    """Print the table of one store; how many are over an aim."""
    over = 0
    print(f"\n{title}")
    print(f"  {'':<24} {'first':>7} {'p50 ms':>7} {'max':>7} {'kB':>7}" + ("   before: p50, kB" if beside else ""))
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(served(path, sys.executable))
        other = stack.enter_context(served(path, beside)) if beside else None
        for asked in wanted(url, run(url)):
            first, size = asked.sent(url)
            old_size = 0 if other is None else asked.sent(other)[1]
            times, old_times = [], []
            for _ in range(TRIES):
                times.append(asked.sent(url)[0])
                if other is not None:
                    old_times.append(asked.sent(other)[0])
            middle, kilobytes = statistics.median(times), size / 1e3
            is_over = middle > AIM_MS or kilobytes > AIM_KB
            over += is_over
            line = f"  {asked.name:<24} {first:>7.0f} {middle:>7.0f} {max(times):>7.0f} {kilobytes:>7.1f}"
            if old_times:
                line += f"   {statistics.median(old_times):>5.0f} ms {old_size / 1e3:>7.1f}"
            print(line + ("  OVER" if is_over else ""), flush=True)
    return over


def demonstration(beside: str | None) -> int:
    """The data of the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        with take_pictures.Server(Path(folder)) as server:
            with contextlib.redirect_stdout(sys.stderr):
                take_pictures.fill(server)
                take_pictures.say(server)
            server.settle()

        def busiest(url: str) -> str:
            rows = got(url, "/api/v1/runs?limit=200")["rows"]
            return max(
                (row for row in rows if row["run_id"].startswith("recorded-")), key=lambda row: row["incidents"]
            )["run_id"]

        return measured("the demonstration", Path(folder) / "rerail.sqlite3", busiest, beside)


def newest(url: str) -> str:
    """The run that a list of runs shows first."""
    return got(url, "/api/v1/runs?limit=1")["rows"][0]["run_id"]


def large(beside: str | None) -> int:
    """The run of 10,000 ranks."""
    with synthesized("--runs", 0, "--days", 30, "--faults", 200) as (store, path, _size, _said):
        store.close()
        return measured("one run of 10,000 ranks, 30 days, 200 faults", path, newest, beside)


def settings(beside: str | None) -> int:
    """Many runs whose settings change at every attempt."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.sqlite3"
        prepare_database(f"sqlite:///{path}")
        store = open_store(f"sqlite:///{path}")
        now = time.time_ns()
        for first in range(0, RUNS, 50):
            runs = range(first, first + 50)
            store.append([batch_of(_changing(number, now - 3600 * 10**9 * (1 + number % 100)), now) for number in runs])
        projector = Projector(store, lambda: now)
        while projector.derive_due(100):
            pass
        store.close()
        return measured(f"{RUNS:,} runs of six settings each", path, newest, beside)


def _changing(number: int, began: int) -> list:
    """A run that is told another time-out at each attempt; 60 configs are used by all of them together."""
    return [
        dataclasses.replace(fact, config=json.dumps({
            "rank_heartbeat_timeout": 300 + 60 * ((number + fact.restart) % 20),
            "save_interval": (100, 250, 500)[number % 3], "max_restarts": 5, "path": f"/checkpoints/{number}",
        })) if isinstance(fact, AttemptStarted) else fact
        for fact in facts_of(f"run-{number}", began)
    ]  # fmt: skip


STORES = {"demonstration": demonstration, "large": large, "settings": settings}


def main() -> None:
    """Measure, print, and say how many are over an aim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="PYTHON")
    parser.add_argument("--only", default=",".join(STORES))
    told = parser.parse_args()
    over = sum(STORES[name](told.beside) for name in told.only.split(","))
    print(f"\nover the aim of {AIM_MS} ms or {AIM_KB} kB: {over or 'none'}")


if __name__ == "__main__":
    main()
