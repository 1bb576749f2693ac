"""Flight recorder dumps for tests: those recorded with gloo, and dumps of the shape that NCCL writes.

An NCCL dump is told rank by rank: `nccl_dump({"default_pg": [...]}, …)` with the members of each group, and per call
its group, number, operation and how far it got.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.analysis import analysed
from rerail.server.core.flight_recorder.conclusions import Analysis
from rerail.server.core.flight_recorder.dump import dump_of, rank_in, read_dump, read_side_car
from rerail.server.core.flight_recorder.summary import (
    DUMP_CODE,
    SOURCE,
    SUMMARY,
    RankSummary,
    sentence,
    side_car_summary,
    summary,
    summary_of,
    summary_text,
)

CORPUS = Path(__file__).parent / "corpus" / "flight_recorder"
BEGAN = 1_795_953_662_000_000_000
Call = Mapping[str, object]


def recorded(name: str) -> bytes:
    """A recorded file of the corpus."""
    packed = CORPUS / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (CORPUS / name).read_bytes()


def summary_from(content: bytes, rank: int) -> RankSummary:
    """What is left of a dump after it was a fact."""
    kept = summary_of(summary_text(summary(read_dump(content), rank)))
    assert kept is not None
    return kept


def recorded_analysis(*names: str, side_cars: Sequence[str] = ()) -> Analysis:
    """The analysis of recorded dumps."""
    dumps = [summary_from(recorded(name), rank_in(name) or 0) for name in names]
    cars = [read_side_car(recorded(name)) for name in side_cars]
    return analysed(dumps, [side_car_summary(car, car.rank or 0) for car in cars])


def call(
    group: str, sequence: int, operation: str = "all_reduce", state: str = "completed", **other: object
) -> dict[str, object]:
    """One call of a rank."""
    return {"group": group, "sequence": sequence, "operation": operation, "state": state, **other}


def nccl_dump(groups: Mapping[str, Sequence[int]], calls: Sequence[Call], first_record: int = 0) -> dict[str, object]:
    """A dump as NCCL's recorder writes it, as JSON."""
    names = list(groups)
    entries = []
    reached: dict[str, dict[str, int]] = {}
    for index, told in enumerate(calls):
        group, state = str(told["group"]), str(told["state"])
        sizes = told.get("sizes", [[16]])
        is_p2p = str(told["operation"]).startswith(("send", "recv"))
        at = BEGAN + index * 1_000_000 + int(str(told.get("late_ms", 0))) * 1_000_000
        entries.append(
            {
                "record_id": first_record + index, "pg_id": names.index(group),
                "process_group": [str(names.index(group)), group],
                "collective_seq_id": 0 if is_p2p else told["sequence"], "p2p_seq_id": told["sequence"] if is_p2p else 0,
                "op_id": index + 1, "profiling_name": f"nccl:{told['operation']}", "time_created_ns": at,
                "input_sizes": sizes, "output_sizes": told.get("output_sizes", sizes),
                "input_dtypes": [told.get("type", "Float")], "output_dtypes": [told.get("type", "Float")],
                "state": state, "time_discovered_started_ns": at + 1000 if state != "scheduled" else 0,
                "time_discovered_completed_ns": at + 2000 if state == "completed" else 0,
                "retired": state == "completed", "timeout_ms": 600_000, "is_p2p": is_p2p,
                "thread_id": "1", "thread_name": "pt_main_thread",
                **({"frames": told["frames"]} if "frames" in told else {}),
            }
        )  # fmt: skip
        if not is_p2p:
            known = reached.setdefault(str(names.index(group)), {"enqueued": -1, "started": -1, "completed": -1})
            sequence = int(str(told["sequence"]))
            known["enqueued"] = sequence
            known["started"] = sequence if state != "scheduled" else known["started"]
            known["completed"] = sequence if state == "completed" else known["completed"]
    return {
        "version": "2.10",
        "comm_lib_version": "2.27.5",
        "nccl_comm_state": {},
        "pg_config": {
            str(index): {"name": str(index), "desc": name, "ranks": json.dumps(list(groups[name]))}
            for index, name in enumerate(names)
        },
        "pg_status": {
            group: {f"last_{stage}_collective": str(number) for stage, number in known.items()}
            for group, known in reached.items()
        },
        "entries": entries,
    }


def nccl_analysis(groups: Mapping[str, Sequence[int]], calls: Mapping[int, Sequence[Call]]) -> Analysis:
    """The analysis of NCCL dumps, told by what each rank called."""
    told = [summary(dump_of(nccl_dump(groups, each)), rank) for rank, each in calls.items()]
    kept = [summary_of(summary_text(each)) for each in told]
    return analysed([each for each in kept if each is not None])


def evidence_of(content: bytes, rank: int, **fields: object) -> Evidence:
    """A dump as the fact it becomes."""
    told = summary(read_dump(content), rank)
    return Evidence(  # type: ignore[arg-type]
        **{
            "run": "story", "emitter": f"artefact/{rank}", "seq": 0, "at": BEGAN, "rank": rank, "source": SOURCE,
            "code": DUMP_CODE, "text": sentence(told), "attributes": ((SUMMARY, summary_text(told)),), **fields,
        }
    )  # fmt: skip
