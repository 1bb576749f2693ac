"""Problems over many incidents: the list, one problem, similar incidents, nodes; and what saving an incident costs.

    python bench/problems.py [incidents] [postgresql://…]

Made up: runs of 100 incidents each on 64 of 2,000 nodes, 40 kinds of fault (a few of them most of the faults) and one
fault in fifty of which nothing is known. They are saved as a projector saves them, on SQLite or on the database named.
Medians by the clock of several askings, and CPU time of this process; the first is not counted. A live step is the save
of a view in which one of 100 incidents is open and changes; beside it one in which none changes.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rerail.server.core import codec
from rerail.server.core.facts import Capacity, Phase, Scope
from rerail.server.core.fingerprints import fingerprint_of
from rerail.server.core.node_histories import Held, NodeHistory
from rerail.server.core.problems import ActionKind, ProblemAction
from rerail.server.core.view import (
    Account,
    CausalRole,
    Domain,
    EvidenceLine,
    Incident,
    Part,
    RunState,
    RunView,
    Verdict,
)
from rerail.server.preparing import upgrade_database
from rerail.server.problems import ProblemDesk
from rerail.server.queries import Queries
from rerail.server.store import Batch, DerivedRun, LoggedFact, Stated, Store, open_store

T = 1_760_000_000_000_000_000
S = 10**9
DAY = 86_400 * S
PER_RUN = 100
NODES = [f"gpu-{number:04d}" for number in range(2000)]
TRIES = 9
CAUSES = ("user_exception", "gpu_hardware", "hang", "host_oom", "sigkill", "node_lost", "gpu_oom", "crash")


def incident(run: str, number: int, nodes: list[str], chance: random.Random) -> Incident:
    """One of a run."""
    kind = min(39, int(chance.expovariate(0.15)))
    is_unknown = chance.random() < 0.02
    node = chance.choice(nodes) if chance.random() < 0.6 else None
    traits = (("exception", f"Error{kind % 13}"), ("frame", f"part{kind}.py:run"))
    cause = "unknown" if is_unknown else CAUSES[kind % len(CAUSES)]
    if cause == "gpu_hardware":
        traits = (("xid", str((48, 63, 74, 79, 94)[kind % 5])),)
    domain = Domain.WORKLOAD if cause == "user_exception" else Domain.INFRASTRUCTURE
    rank = chance.randrange(512) if node else None
    verdict = Verdict(cause, domain, 0.9, "It fell.", rank, node, traits=() if is_unknown else traits)
    at = T + round(chance.uniform(0, 90) * DAY)
    text = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus. " * 3
    facets = [("step", str(number * 500)), ("config", f"{chance.randrange(8):08x}"), ("run", run)]
    if node is not None:
        facets = [("node", node), ("rank", str(rank)), *facets]
    return Incident(
        incident_id=f"{run}~{number}", run_id=run, attempts=(number,), started_at=at, noticed_at=at + S,
        restarted_at=at + 90 * S, ended_at=at + 400 * S, is_planned=False, is_open=False, scope=Scope.IN_JOB,
        verdict=verdict, parts=(Part("detecting", 60 * S), Part("catch_up", 340 * S)), time_to_restart_ns=90 * S,
        time_to_recover_ns=400 * S, lost_steps=40, lost_ns=40 * S, lost_gpu_ns=512 * 400 * S,
        evidence=(EvidenceLine(at, "kernel", text, CausalRole.INITIATING, rank, node),),
        fingerprint=fingerprint_of(verdict, "training", run), facets=tuple(facets),
    )  # fmt: skip


def view(run: str, incidents: list[Incident]) -> RunView:
    """As the fold would make it."""
    account = Account(T, T + 90 * DAY, 90 * DAY, ((Phase.TRAINING, 90 * DAY),), 90 * DAY, 0, 0, 0, 0, 0, ())
    return RunView(
        run_id=run, as_of=T + 90 * DAY, state=RunState.ALIVE, started_at=T, ended_at=None, last_heard_at=T + 90 * DAY,
        silent_since=None, account=account, gpu_account=None, incidents=tuple(incidents),
    )  # fmt: skip


def fill(store: Store, count: int) -> tuple[str, list[Incident], int | None]:
    """Save the runs; the last of them, and its revision."""
    chance = random.Random(1)
    began = time.perf_counter()
    for number in range(count // PER_RUN):
        run = f"run-{number:04d}"
        fact = Capacity(run=run, emitter="e", seq=0, at=T, gpus=512)
        line = LoggedFact(0, T, codec.encode_line(fact).rstrip())
        store.append([Batch(T, (Stated(run, "e", [line]),))])
        nodes = sorted(chance.sample(NODES, 64))
        incidents = [incident(run, each, nodes, chance) for each in range(PER_RUN)]
        histories = tuple(NodeHistory(node, (Held(T, T + 90 * DAY),)) for node in nodes)
        revision = store.save(DerivedRun(view(run, incidents), 1, (), (), nodes=histories), None)
    took = time.perf_counter() - began
    print(f"{count:,} incidents of {count // PER_RUN:,} runs saved in {took:.0f} s ({took / count * 1e6:.0f} µs each)")
    return run, incidents, revision


def timed(name: str, ask: Callable[[], object], tries: int = TRIES) -> None:
    """Print the median in ms, and the mean CPU time of this process."""
    ask()
    times, used = [], time.process_time()
    for _ in range(tries):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e3)
    cpu = (time.process_time() - used) / tries * 1e3
    print(f"{name:<52} {statistics.median(times):7.1f} ms, {cpu:6.1f} of CPU  (worst {max(times):.1f})")


def live_steps(store: Store, run: str, incidents: list[Incident], revision: int | None) -> None:
    """Saves of a live run, with and without an incident that changes."""
    nodes = tuple(NodeHistory(node, (Held(T, None),)) for node in NODES[:64])
    state = {"revision": revision, "turn": 0}

    def save(changes: bool) -> None:
        state["turn"] += 1
        last = replace(incidents[-1], is_open=True, ended_at=None, time_to_recover_ns=None)
        if changes:
            parts = (Part("detecting", state["turn"] * S),)
            last = replace(last, parts=parts)
        derived = DerivedRun(
            view(run, [*incidents[:-1], last]), 1, (), (), nodes=nodes, base_revision=state["revision"]
        )
        state["revision"] = store.save(derived, None)

    timed("a live step: one of 100 incidents is open", lambda: save(True), 30)
    timed("a live step: no incident changes", lambda: save(False), 30)


def main() -> None:
    """Fill a database and ask it."""
    count = int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        address = sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{Path(folder) / 'rerail.sqlite3'}"
        upgrade_database(address)
        store = open_store(address)
        last = fill(store, count)
        queries = Queries(store)
        began = time.perf_counter()
        queries.problems.problems()
        print(f"the first question of a process, which reads all sums: {(time.perf_counter() - began) * 1e3:.0f} ms")
        page = queries.problems.problems(sort="incidents")
        worst, second = page.rows[0], page.rows[1]
        print(f"{page.total:,} problems; the largest has {worst.incidents:,} incidents on {worst.nodes:,} nodes")
        timed("list of problems, 50 of them", lambda: queries.problems.problems())
        timed("the same, searched and by cost", lambda: queries.problems.problems("error3", sort="lost_gpu_ns"))
        timed("the same, of one node", lambda: queries.problems.problems(node=NODES[3]))
        timed("the largest problem", lambda: queries.problems.problem(worst.problem_id, 0, 200))
        middle = queries.problems.problem(second.problem_id, 100, 1).occurrences[0].incident_id
        timed("similar incidents of one", lambda: queries.problems.similar(middle))
        timed("list of nodes, 50 of them", lambda: queries.nodes.nodes())
        timed("one node", lambda: queries.nodes.node(NODES[3]))
        live_steps(store, *last)
        desk = ProblemDesk(store)

        def merged_and_undone() -> None:
            action = ProblemAction(0, 0, ActionKind.MERGE, worst.problem_id, into=second.problem_id)
            done = desk.act(worst.problem_id, action)
            desk.act(worst.problem_id, ProblemAction(0, 0, ActionKind.UNDO, "", undoes=done.action_id))

        timed(f"merging {worst.incidents:,} incidents away, and undoing it", merged_and_undone, 3)
        store.close()


if __name__ == "__main__":
    main()
