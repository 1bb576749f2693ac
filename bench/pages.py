"""What every page costs: the server's time for its data, and the bytes a browser gets of it, beside the aims.

    python bench/pages.py [--beside PYTHON] [--only demonstration,large,settings]

Three stores, each served by a process of its own that only answers: the demonstration of `make pictures` (recorded
runs, arms, a year of settings, a fleet of 60); a run of 10,000 ranks over 30 days with 200 faults; 1,000 runs of six
settings each with a fault between any two. Asked for is what a browser asks: the callback that draws a page, the rows
of the table of runs, the other definitions of goodput, and the picture of a run at every zoom. `first` is the first
answer of the process, when nothing is kept yet; then the median and the longest of the tries, by the clock, with
whatever else the machine does in it. Bytes are as sent, compressed. Aim: 300 ms, 200 kB.

`--beside` names the Python of another checkout of rerail with the same schema; its server is asked about the same
store, in turns with ours.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
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

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import take_pictures
from alerts import batch_of, facts_of
from fleet import synthesized
from run_page import free_port, wait_until

from rerail.server.core.definitions import definitions
from rerail.server.core.facts import AttemptStarted
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.store import open_store

AIM_MS, AIM_KB = 300, 200
TRIES = 7
ZOOMS = (1, 2, 4, 10, 30, 100, 300, 1000, 10_000)
RUNS = 1000
ROWS = {"startRow": 0, "endRow": 100, "sortModel": [], "filterModel": {}}


@functools.cache
def callbacks(url: str) -> dict[str, dict]:
    """The callbacks of a server by what they draw: each release has its own inputs."""
    with urllib.request.urlopen(f"{url}/_dash-dependencies", timeout=60) as answer:
        return {told["output"]: told for told in json.load(answer)}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One request, and what it is called in the table; of a callback what it draws and what it is told."""

    name: str
    path: str = "/_dash-update-component"
    draws: str = ""
    told: tuple[tuple[str, object], ...] = ()
    """Values by `component.property`; what is not here is null."""

    def sent(self, url: str) -> tuple[float, int]:
        """Milliseconds until the whole answer was there, and its bytes."""
        body = self._body(callbacks(url)[self.draws]) if self.draws else None
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(url + self.path, body, {"Accept-Encoding": "br", **kind})
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            size = len(answer.read())
        return (time.perf_counter() - began) * 1e3, size

    def _body(self, callback: dict) -> bytes:
        """What Dash's renderer posts."""
        values = dict(self.told)

        def valued(wanted: list[dict]) -> list[dict]:
            return [{**each, "value": values.get(f"{each['id']}.{each['property']}")} for each in wanted]

        drawn = [each.rpartition(".") for each in self.draws.strip(".").split("...")]
        outputs = [{"id": component, "property": prop} for component, _, prop in drawn]
        inputs = valued(callback["inputs"])
        changed = next(f"{each['id']}.{each['property']}" for each in inputs if each["value"] is not None)
        return json.dumps({
            "output": self.draws, "outputs": outputs if self.draws.startswith("..") else outputs[0], "inputs": inputs,
            "state": valued(callback["state"]), "changedPropIds": [changed],
        }).encode()  # fmt: skip


def page(name: str, address: str) -> Asked:
    """The callback that draws a page."""
    split = urlsplit(address)
    search = f"?{split.query}" if split.query else ""
    return Asked(name, draws="page.children", told=(("location.pathname", split.path), ("location.search", search)))


def run_rows() -> Asked:
    """The rows of the table of runs, with their strips."""
    told = (("runs-grid.getRowsRequest", ROWS), ("runs-search.value", ""), ("runs-state.value", ""))
    return Asked(
        "runs: 100 rows",
        draws="..runs-grid.getRowsResponse...runs-matches.children...runs-sentence.children..",
        told=told,
    )


def definition(run: str, name: str) -> Asked:
    """Another definition of goodput over a run."""
    told = (("run-definition-wanted.data", name), ("run-id.data", run))
    return Asked(f"run: as {name}", draws="run-definition.data-markup", told=told)


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
    yield from (definition(run, name) for name in definitions() if name != "rerail")
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
