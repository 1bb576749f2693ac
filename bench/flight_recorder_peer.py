"""Flight recorder dumps: our analysis beside the analyser that comes with PyTorch, on the same files.

Each made case is written as one pickle per rank, with the groups told as NCCL tells them; then each analyser reads the
folder in a process of its own. Printed are what each says, how long it took from the first file to the answer, and the
most memory it held. PyTorch's analyser runs what a pickle says, so it is only ever given files that were made here;
without torch installed its columns stay empty.

The recorded cases are gloo's own dumps of `tests/corpus/flight_recorder`, of hangs whose truth is known since they were
made on purpose. gloo writes no members of its groups: each hang is given as it was recorded, and once more with them,
in the place where NCCL writes them. What was recorded as JSON is written as a pickle of
the same values, since PyTorch's analyser reads nothing else. `--recorded` prints these alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.analysis import analysis
from rerail.server.core.flight_recorder.dump import read_dump
from rerail.server.core.flight_recorder.summary import (
    DUMP_CODE,
    SOURCE,
    SUMMARY,
    sentence,
    summary,
    summary_text,
)

CORPUS = Path(__file__).parent.parent / "tests" / "corpus" / "flight_recorder"
BEGAN = 1_795_953_662_000_000_000
FRAMES = [
    {
        "name": "all_reduce",
        "filename": "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py",
        "line": 9,
    },
    {"name": "train_step", "filename": "/opt/train/loop.py", "line": 71},
]
Calls = dict[int, list[tuple[str, str, str, dict[str, object]]]]
"""Rank → `(group, operation, state, more)`, in the order of the calls."""

OURS = """
import json, resource, sys, time
from pathlib import Path
from rerail.server.core.flight_recorder.analysis import analysed
from rerail.server.core.flight_recorder.dump import rank_in, read_dump
from rerail.server.core.flight_recorder.summary import summary, summary_of, summary_text
began = time.perf_counter()
told = []
for path in Path(sys.argv[1]).iterdir():
    told.append(summary_of(summary_text(summary(read_dump(path.read_bytes()), rank_in(path.name)))))
found = analysed(told)
took = time.perf_counter() - began
print(json.dumps({"says": f"{found.conclusion.value} {list(found.culprits) or ''}".strip(), "seconds": took,
                  "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

STOCK = """
import json, resource, sys, time
from torch.distributed.flight_recorder.fr_trace import main
began = time.perf_counter()
failure = None
try:
    main([sys.argv[1], "--prefix", "rank_", "--allow-incomplete-ranks"])
except BaseException as error:
    failure = type(error).__name__
took = time.perf_counter() - began
print(json.dumps({"failure": failure, "seconds": took,
                  "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def said_by_torch(log: str) -> str:
    """What its log says: per operation the ranks that are missing, and those it calls culprits."""
    missing = [f"{title} missing {ranks}" for title, ranks in re.findall(
        r"group info: [^:\s]+:(\S+).{0,200}?missing ranks: (\{[^}]*\})", log, re.DOTALL)]  # fmt: skip
    culprits = sorted({f"culprit {rank}: {kind.lower()}" for rank, kind in re.findall(
        r"Culprit rank (\d+); Error type: (\w+)", log)})  # fmt: skip
    return "; ".join(dict.fromkeys([*missing, *culprits])) or "nothing"


def layout(world: int) -> dict[str, list[int]]:
    """Data × tensor parallel: everybody, pairs that hold a layer, and those that hold the same half of it."""
    groups = {"default_pg": list(range(world))}
    groups |= {f"tp{pair}": [2 * pair, 2 * pair + 1] for pair in range(world // 2)}
    groups |= {f"dp{half}": list(range(half, world, 2)) for half in range(2)}
    return groups


def steps(world: int, count: int) -> Calls:
    """So many whole steps of every rank: in its pair, among its equals, and a barrier of everybody."""
    calls: Calls = {}
    for rank in range(world):
        step = [(f"tp{rank // 2}", "all_reduce", "completed", {}), (f"dp{rank % 2}", "all_gather", "completed", {}),
                ("default_pg", "barrier", "completed", {})]  # fmt: skip
        calls[rank] = [call for _ in range(count) for call in step]
    return calls


def a_rank_missing(world: int, count: int = 20) -> tuple[dict[str, list[int]], Calls]:
    """The last rank leaves after its pair's operation: its equals wait, and the others wait for those."""
    calls = steps(world, count)
    for rank in range(world):
        calls[rank].append((f"tp{rank // 2}", "all_reduce", "completed", {}))
        if rank == world - 1:
            continue
        is_equal = rank % 2 == (world - 1) % 2
        calls[rank].append((f"dp{rank % 2}", "all_gather", "started" if is_equal else "completed", {}))
        if not is_equal:
            calls[rank].append(("default_pg", "barrier", "started", {}))
    return layout(world), calls


def everybody_joined(world: int) -> tuple[dict[str, list[int]], Calls]:
    """All call the same and it does not end."""
    calls = steps(world, 5)
    for rank in range(world):
        calls[rank].append(("default_pg", "all_reduce", "started", {}))
    return layout(world), calls


def another_operation(world: int) -> tuple[dict[str, list[int]], Calls]:
    """One rank calls broadcast where the others call all_reduce."""
    calls = steps(world, 5)
    for rank in range(world):
        calls[rank].append(("default_pg", "broadcast" if rank == 2 else "all_reduce", "started", {}))
    return layout(world), calls


def another_size(world: int) -> tuple[dict[str, list[int]], Calls]:
    """One rank brings half as many elements."""
    calls = steps(world, 5)
    for rank in range(world):
        calls[rank].append(("default_pg", "all_reduce", "started", {"sizes": [[8]] if rank == 2 else [[16]]}))
    return layout(world), calls


def a_different_order(world: int) -> tuple[dict[str, list[int]], Calls]:
    """Two ranks of a pair call two groups in opposite order."""
    calls = steps(world, 5)
    for rank in range(world):
        calls[rank].append(
            ("tp0", "all_reduce", "started", {}) if rank == 0 else ("default_pg", "barrier", "started", {})
        )
    return layout(world), calls


def a_dump_missing(world: int) -> tuple[dict[str, list[int]], Calls]:
    """All that left a dump wait in the same operation; one left none."""
    groups, calls = everybody_joined(world)
    del calls[3]
    return groups, calls


CASES: tuple[tuple[str, Callable[[int], tuple[dict[str, list[int]], Calls]], str], ...] = (
    ("a rank is missing", a_rank_missing, "missing [7]"),
    ("all joined", everybody_joined, "all_joined"),
    ("another operation", another_operation, "mismatch [2]"),
    ("another size", another_size, "mismatch [2]"),
    ("different order", a_different_order, "deadlock of 0 and 1"),
    ("a dump is missing", a_dump_missing, "not_seen"),
)


def dump(groups: dict[str, list[int]], rank: int, calls: list[tuple[str, str, str, dict[str, object]]]) -> bytes:
    """One rank's dump as a pickle."""
    numbers = {name: name for name in groups}
    own = [name for name, members in groups.items() if rank in members]
    sequences: dict[str, int] = {}
    entries, status = [], {name: [-1, -1, -1] for name in own}
    for record, (group, operation, state, more) in enumerate(calls):
        sequence = sequences[group] = sequences.get(group, 0) + 1
        at = BEGAN + record * 1_000_000
        sizes = more.get("sizes", [[16]])
        members = len(groups[group])
        gathered = [[members, 16]] if operation == "all_gather" else sizes
        entries.append(
            {
                "frames": FRAMES, "record_id": record, "pg_id": own.index(group),
                "process_group": (numbers[group], group), "collective_seq_id": sequence, "p2p_seq_id": 0,
                "op_id": sequence, "profiling_name": f"nccl:{operation}",
                "time_created_ns": at, "input_sizes": sizes, "output_sizes": gathered, "input_dtypes": ["Float"],
                "output_dtypes": ["Float"], "state": state, "retired": state == "completed", "timeout_ms": 600_000,
                "time_discovered_started_ns": at, "is_p2p": False,
                "time_discovered_completed_ns": at if state == "completed" else None,
            }
        )  # fmt: skip
        status[group] = [sequence, sequence, sequence if state == "completed" else sequence - 1]
    return pickle.dumps(
        {
            "version": "2.10", "entries": entries, "comm_lib_version": "2.27.5",
            "pg_config": {numbers[name]: {"name": numbers[name], "desc": name, "ranks": json.dumps(groups[name])}
                          for name in own},
            "pg_status": {
                str(own.index(name)): dict(zip(("last_enqueued_collective", "last_started_collective",
                                                "last_completed_collective"), numbers_of, strict=True))
                for name, numbers_of in status.items()
            },
        },
        protocol=2,
    )  # fmt: skip


def written(groups: dict[str, list[int]], calls: Calls, folder: Path) -> None:
    """The dumps of all ranks, one file each."""
    for rank, told in calls.items():
        (folder / f"rank_{rank}").write_bytes(dump(groups, rank, told))


def recorded(pattern: str, folder: Path, groups: dict[str, list[int]] | None = None) -> None:
    """The recorded dumps of a name as pickles; `groups`: the members of each, by the name that the program gave it."""
    for path in sorted(CORPUS.glob(pattern)):
        content = path.read_bytes()
        told = json.loads(content) if path.suffix == ".json" else pickle.loads(content)  # written here, by torch
        if groups is not None:
            names = {desc: name for name, desc in (tuple(entry["process_group"]) for entry in told["entries"])}
            told["pg_config"] = {
                names[desc]: {"name": names[desc], "desc": desc, "ranks": json.dumps(members)}
                for desc, members in groups.items() if desc in names
            }  # fmt: skip
        found = re.search(r"rank_(\d{1,7})", path.name)
        (folder / f"rank_{found[1] if found else 0}").write_bytes(pickle.dumps(told, protocol=2))


FOUR = {"default_pg": [0, 1, 2, 3], "tp0": [0, 1], "tp1": [2, 3], "dp0": [0, 2], "dp1": [1, 3]}
THREE = {"default_pg": [0, 1, 2], "dp_pair": [0, 1]}
RECORDED: tuple[tuple[str, str, dict[str, list[int]], str], ...] = (
    ("slept in its data loader, 4 ranks, while it hung", "hang4_rank_[0-3]", FOUR, "3 is missing"),
    ("the same, 40 s later: it has come", "hang4_end_rank_*.json", FOUR, "3 came late"),
    ("left early, 3 ranks, after the time-out", "missing_end_rank_[0-2]", THREE, "2 is missing"),
    ("the same while it hung, without a dump of rank 0", "missing_hang_rank_*.json", THREE, "2 is missing"),
)


def print_recorded(longest: float) -> None:
    """The table of the recorded cases."""
    print("| recorded, a rank | members | truth | ours | | torch's | |\n|---|---|---|---|---|---|---|")
    for name, pattern, groups, truth in RECORDED:
        for members, told in (("not told", None), ("told", groups)):
            with tempfile.TemporaryDirectory() as folder:
                recorded(pattern, Path(folder), told)
                print(f"| {name} | {members} | {truth} | {' | '.join(both(Path(folder), longest))} |", flush=True)


def asked(script: str, folder: Path, longest: float) -> dict[str, object]:
    """What an analyser says of a folder, in a process of its own."""
    try:
        answer = subprocess.run(
            [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=longest, check=False
        )
    except subprocess.TimeoutExpired:
        return {"says": f"no answer in {longest:.0f} s", "seconds": longest, "megabytes": 0.0}
    lines = [line for line in answer.stdout.splitlines() if line.startswith('{"')]
    if not lines:
        return {"says": "fails", "seconds": 0.0, "megabytes": 0.0}
    told = json.loads(lines[-1])
    if "says" not in told:
        told["says"] = f"fails: {told['failure']}" if told["failure"] else said_by_torch(answer.stderr + answer.stdout)
    return told


def both(folder: Path, longest: float) -> Iterator[str]:
    """The cells of both analysers."""
    for name, script in (("ours", OURS), ("torch", STOCK)):
        if name == "torch" and importlib.util.find_spec("torch") is None:
            yield "torch is not installed"
            continue
        told = asked(script, folder, longest)
        says = str(told["says"])
        yield f"{says if len(says) <= 110 else says[:109] + '…'} | {told['seconds']:.2f} s, {told['megabytes']:.0f} MB"


def from_facts(world: int) -> str:
    """The analysis of dumps that are facts already: what the server does for a verdict."""
    groups, calls = a_rank_missing(world, 4)
    facts = []
    for rank, told in calls.items():
        own = {name: groups[name] for name in ("default_pg", f"tp{rank // 2}", f"dp{rank % 2}")}
        summed = summary(read_dump(dump(own, rank, told)), rank)
        facts.append(
            Evidence(
                run="bench", emitter=f"artefact/{rank}", seq=0, at=BEGAN, source=SOURCE, code=DUMP_CODE, rank=rank,
                text=sentence(summed), attributes=((SUMMARY, summary_text(summed)),),
            )
        )  # fmt: skip
    began = time.process_time()
    found = analysis(facts)
    first = time.process_time() - began
    analysis(facts)
    again = time.process_time() - began - first
    assert found is not None
    size = sum(len(fact.attributes[0][1]) for fact in facts) / 1e6
    says = f"{found.conclusion.value} {list(found.culprits)}"
    return f"| {world} ranks, {size:.1f} MB of summaries | {says} | {first:.2f} s of CPU, asked again {again:.3f} s |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", default="4,64,256,1024", help="ranks, separated by commas")
    parser.add_argument("--facts", type=int, default=10_000, help="ranks whose dumps are facts already")
    parser.add_argument("--longest", type=float, default=300.0, help="seconds that one analyser may take")
    parser.add_argument("--recorded", action="store_true", help="the recorded cases alone")
    parsed = parser.parse_args()
    print_recorded(parsed.longest)
    if parsed.recorded:
        return
    print()
    print("| case, 8 ranks | truth | ours | | torch's | |\n|---|---|---|---|---|---|")
    for name, case, truth in CASES:
        with tempfile.TemporaryDirectory() as folder:
            written(*case(8), Path(folder))
            print(f"| {name} | {truth} | {' | '.join(both(Path(folder), parsed.longest))} |", flush=True)
    print("\n| a rank is missing | ours | | torch's | |\n|---|---|---|---|---|")
    for world in map(int, parsed.worlds.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            written(*a_rank_missing(world), Path(folder))
            size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
            cells = " | ".join(both(Path(folder), parsed.longest))
            print(f"| {world} ranks, {size:.1f} MB | {cells} |", flush=True)
            print(f"written in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print("\n| from facts | ours | |\n|---|---|---|")
    print(from_facts(parsed.facts))


if __name__ == "__main__":
    main()
