"""How right an import is: what `rerail import` makes of every recorded sample, beside what truly happened.

    python -m tests.import_truth [--wrong]

prints the table of docs/import_truth.md; `--wrong` lists each difference. Everything goes through the command itself
(`rerail import … --stdout`), folders as folders, and through the fold that the server uses.

Truths: the fault that was injected into each run (`verdicts.json`), the events that the training script of the NVRx
runs wrote by itself (`nvrx/events_truth.json`), the numbers that a training log was made of, the published figures of
two arms, and the histories' expected figures. Where a sample holds no truth about something, nothing is counted; what a
log cannot tell counts as unknown and not as wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rerail.server.cli import main as rerail
from rerail.server.core import goodput, report
from rerail.server.core.causes import reading_of
from rerail.server.core.codec import Context, decode_line, encode_lines
from rerail.server.core.facts import CheckpointLoaded, Evidence, Fact, MarkStage, RecoveryMark
from rerail.server.core.fold import RunFold
from rerail.server.core.view import RunView
from tests.histories import FOLDER, differences, histories
from tests.seed_replay import ARMS, arm_facts

CORPUS = Path(__file__).parent / "corpus"
SECOND = 1_000_000_000
DOWN_SECONDS = 0.1
"""Stamps of a launcher have milliseconds, some of NVRx whole tenths of seconds."""
START_SECONDS = 2.0
"""A launcher says that it starts workers; their first line comes a moment later."""

COLUMNS = ("attempts", "causes", "ranks or nodes", "starts", "steps", "rollbacks", "phases", "figures")

KNOWN = {
    "torchrun/fr_typemismatch 0.0 causes": "the log says that ranks waited; which collective differed is in the dumps",
    "node_lost.json attempts": "a node alone tells of no attempt; what it means is told where the pods are known",
    "job_failed.json attempts": "a Job without its pods tells that it gave up, and not when an attempt began",
}
"""Differences that stay, each with its reason; docs/import_truth.md names them."""


@dataclass
class Row:
    """One family of samples: right, unknown and counted of each column."""

    name: str
    samples: int = 0
    right: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, column: str, sample: str, truth: object, said: object, *, is_right: bool | None = None) -> None:
        """One thing that is known of a sample; `said` None is unknown."""
        assert column in COLUMNS
        self.counted[column] = self.counted.get(column, 0) + 1
        if (truth == said) if is_right is None else is_right:
            self.right[column] = self.right.get(column, 0) + 1
        elif said is None:
            self.unknown[column] = self.unknown.get(column, 0) + 1
        else:
            self.wrong.append(f"{sample} {column}: {truth!r} is said to be {said!r}")

    def cell(self, column: str) -> str:
        """`right/counted`, and how many are unknown."""
        if column not in self.counted:
            return ""
        unknown = self.unknown.get(column, 0)
        return f"{self.right.get(column, 0)}/{self.counted[column]}" + (f" ({unknown} unknown)" if unknown else "")


def imported(form: str, *paths: Path, run: str | None = "truth") -> list[Fact]:
    """What the command states. `run` None: whatever the file names."""
    told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    words = ["import", form, *map(str, paths), "--stdout", *(["--run", run] if run else [])]
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO()):
        assert rerail(words) == 0
    facts: list[Fact] = []
    defaults: dict[str, object] = {}
    for line in told.buffer.getvalue().splitlines():  # type: ignore[attr-defined]
        stated = decode_line(line, defaults)
        if isinstance(stated, Context):
            defaults = dict(stated.defaults)
        else:
            facts.append(stated)
    return facts


def folded(facts: Sequence[Fact], later: int = SECOND) -> tuple[RunFold, RunView]:
    """The fold of one run, and its view `later` ns after the last fact."""
    fold = RunFold(facts[0].run)
    fold.add(facts)
    return fold, fold.view(max(fact.at for fact in facts) + later)


def _one_of(told: str | list[str]) -> list[str]:
    return [told] if isinstance(told, str) else told


def launchers() -> Iterator[Row]:
    """Runs of NVRx and torchrun: the folder of each, with its dumps where it has some.

    An entry names its faults, and how many attempts there were where the last one did not fail.
    """
    rows: dict[str, Row] = {}
    events = json.loads((CORPUS / "nvrx/events_truth.json").read_text())
    for entry in json.loads((CORPUS / "verdicts.json").read_text()):
        row = rows.setdefault(entry["source"], Row(entry["source"]))
        row.samples += 1
        name = entry["path"]
        facts = imported("logs", CORPUS / "verdicts" / name)
        dumps = [path for pattern in entry.get("with", ()) for path in sorted(CORPUS.glob(pattern))]
        if dumps:
            facts += imported("flight-recorder", *dumps)
        _judged(row, name, entry["faults"], facts)
        if entry["source"].startswith("torchrun") and "dumps" not in entry["source"] and facts:
            row.count("attempts", name, entry.get("attempts", len(entry["faults"])), len(folded(facts)[1].attempts))
        if name in events:
            _as_the_script_wrote(row, name, events[name], facts)
    yield from rows.values()


def _judged(row: Row, name: str, faults: Sequence[dict], facts: Sequence[Fact]) -> None:
    endings = folded(facts)[0].endings() if facts else []
    if not faults:
        row.count("causes", name, "no fault", [verdict.cause for _, verdict, _ in endings] or "no fault")
    for fault in faults:
        place = (fault["restart"], fault["iteration"])
        verdict = next(
            (judged for attempt, judged, _ in endings if (attempt.restart or 0, attempt.iteration or 0) == place), None
        )
        classes = _one_of(fault["cause"])
        where = f"{name} {place[0]}.{place[1]}"
        said = None if verdict is None or (verdict.cause == "unknown" and "unknown" not in classes) else verdict.cause
        row.count("causes", where, classes[0], said, is_right=said in classes)
        rank = None if verdict is None else verdict.culprit_rank
        row.count("ranks or nodes", where, fault["rank"], rank)


def _as_the_script_wrote(row: Row, name: str, truth: dict, facts: Sequence[Fact]) -> None:
    """Attempts, when each began, from which checkpoint, and how far training came."""
    if "attempts" in truth:
        started = {
            fact.restart: fact.at for fact in facts
            if isinstance(fact, RecoveryMark) and fact.stage is MarkStage.WORKERS_STARTED and not fact.iteration
        }  # fmt: skip
        view = folded(facts)[1] if facts else None
        row.count("attempts", name, truth["attempts"], None if view is None else len(view.attempts))
        _down_between(row, name, truth.get("stepped", []), view)
        for number, at in enumerate(truth["starts"]):
            said = started.get(number)
            off = None if said is None else abs(said / SECOND - at)
            row.count("starts", f"{name} {number}", 0.0, off, is_right=off is not None and off <= START_SECONDS)
        loads = {fact.restart: fact.step for fact in facts if isinstance(fact, CheckpointLoaded)}
        for number, step in enumerate(truth["resumed_from"]):
            if step is not None:
                row.count("rollbacks", f"{name} {number}", step, loads.get(number))


def _down_between(row: Row, name: str, stepped: Sequence[list[float] | None], view: RunView | None) -> None:
    """What is known to be down between the last step of an attempt and the first of the next: no more than was."""
    if view is None:
        return
    of_attempt = {incident.attempts[0]: incident for incident in view.incidents if len(incident.attempts) == 1}
    for number, (before, after) in enumerate(pairwise(stepped)):
        if before is None or after is None or number not in of_attempt:
            continue
        known = of_attempt[number].time_to_restart_ns / SECOND
        down = after[0] - before[1]
        row.count(
            "phases", f"{name} {number}", round(down, 1), round(known, 1), is_right=0 < known <= down + DOWN_SECONDS
        )


CYCLES_ALONE = {
    "sigkill": (1795953579.872, 1795953587.793),
    "exit137": (1795953779.932, 1795953791.103),
    "hang_hb": (1795953650.946, 1795953664.121),
}
"""Run → when its workers began, by what they wrote themselves, attempt by attempt."""


def cycle_files_alone() -> Iterator[Row]:
    """Runs of which nothing is left but the cycle files of NVRx 0.7."""
    row = Row("cycle files alone")
    for name, starts in CYCLES_ALONE.items():
        row.samples += 1
        facts = imported("logs", CORPUS / "nvrx/cycles_alone" / name)
        _, view = folded(facts)
        row.count("attempts", name, len(starts), len(view.attempts))
        for number, (at, attempt) in enumerate(zip(starts, view.attempts, strict=False)):
            off = abs(attempt.started_at / SECOND - at)
            row.count("starts", f"{name} {number}", 0.0, off, is_right=off <= START_SECONDS)
    yield row


ELASTIC = {
    "events_exc.jsonl": (3, []),
    "events_fail.jsonl": (1, [("loss_anomaly", 1)]),
    "events_nodelost_0.jsonl": (2, []),
    "events_nodelost_1.jsonl": (1, []),  # of the node that was lost: it ends in the middle
}
"""File of torchelastic's events → its attempts, and cause and rank of those of which it tells why."""


def elastic_records() -> Iterator[Row]:
    """What torchelastic's agent recorded: its events, and an error file on its own."""
    row = Row("torchelastic's events, an error file")
    for name, (attempts, faults) in ELASTIC.items():
        row.samples += 1
        fold, view = folded(imported("torchrun-events", CORPUS / "torchrun" / name))
        row.count("attempts", name, attempts, len(view.attempts))
        told = [(verdict.cause, verdict.culprit_rank) for _, verdict, _ in fold.endings() if verdict.cause != "unknown"]
        for place, (cause, rank) in enumerate(faults):
            said = told[place] if place < len(told) else (None, None)
            row.count("causes", name, cause, said[0])
            row.count("ranks or nodes", name, rank, said[1])
    row.samples += 1
    (raised,) = imported("error-file", CORPUS / "torchrun/error_files/agent_error_exc.json")
    assert isinstance(raised, Evidence)
    row.count("causes", "agent_error_exc.json", "loss_anomaly", reading_of(raised).cause)
    yield row


FRAMEWORKS = {
    "megatron.log": (50, [(1, 20)], "gpu_oom",
                     {"initializing": 60, "loading": 40, "saving": 20, "recomputing": 70, "training": 170}),
    "torchtitan.log": (40, [(1, 20)], "nccl_timeout",
                       {"initializing": 85, "loading": 15, "saving": 10, "recomputing": 28, "training": 88}),
    "deepspeed.log": (40, [(1, 20)], "sigkill",
                      {"initializing": 100, "loading": 10, "saving": 12, "recomputing": 30, "training": 80}),
    "maxtext.log": (5, [(1, 3)], None, {"initializing": 60, "recomputing": 12, "training": 20}),
    "transformers_5.24.log": (30, [(1, 16)], "user_exception", {}),
}  # fmt: skip
"""File → high-water step, `(attempt, resumed from)`, cause, seconds by phase."""


def training_logs() -> Iterator[Row]:
    """Logs of training frameworks without any launcher."""
    row = Row("training logs")
    for name, (high_water, rollbacks, cause, seconds) in FRAMEWORKS.items():
        row.samples += 1
        fold, view = folded(imported("logs", CORPUS / "training_logs" / name), later=0)
        row.count("attempts", name, 1 + len(rollbacks), len(view.attempts))
        row.count("steps", name, high_water, view.high_water_step)
        row.count("rollbacks", name, rollbacks, [(each.attempt, each.to_step) for each in view.rollbacks])
        if cause is not None:
            row.count("causes", name, [cause], [verdict.cause for _, verdict, _ in fold.endings()])
        told = report.figures(view)["seconds_by_phase"]
        assert isinstance(told, dict)
        for phase, length in seconds.items():
            row.count(
                "phases", f"{name} {phase}", length, told.get(phase), is_right=abs(told.get(phase, 0) - length) < 1
            )
    yield row


SCHEDULERS = {
    "slurm": {
        "sacct.psv": {
            "pretrain-llm": [("preemption", None)], "tl": [("time_limit", None)], "exit3": [("user_exception", "n1")],
            "sigk": [("sigkill", "n1")], "pretrain2": [("node_lost", None)],
            "oomjob": [("sigkill", "n0")],  # the first job of that name had ended well
            "manualrq": [("operator_stop", None)], "cancelme": [("operator_stop", None)], "urgent": [],
        },
    },
    "kubernetes": {
        "pod_oomkilled_from_apiserver.json": {"": [("host_oom", "gpu-0")]},
        "node_lost.json": {"": [("node_lost", "gpu-1")]},
        "job_failed.json": {"": [("retry_budget", None)]},
        "events.json": {"": [("preemption", None)]},
    },
}  # fmt: skip
"""Scheduler → file → run → `(cause, node)` of each interruption; `` is every run of the file."""


def schedulers() -> Iterator[Row]:
    """What Slurm's accounting and objects of Kubernetes tell, run by run."""
    for scheduler, files in SCHEDULERS.items():
        row = Row(scheduler)
        for name, truths in files.items():
            row.samples += 1
            runs: dict[str, list[Fact]] = {}
            for fact in imported(scheduler, CORPUS / scheduler / name, run=None):
                runs.setdefault(fact.run, []).append(fact)
            for run, truth in truths.items():
                own = [runs[run]] if run in runs else list(runs.values()) if not run else []
                found = [verdict for facts in own for _, verdict, _ in folded(facts)[0].endings()]
                where = f"{name} {run}".strip()
                row.count("attempts", where, len(truth), len(found))
                for (cause, node), verdict in zip(truth, found, strict=False):
                    row.count("causes", where, cause, verdict.cause)
                    row.count("ranks or nodes", where, node, verdict.culprit_node)
        yield row


def article() -> Iterator[Row]:
    """Two published arms: rollbacks and both goodputs."""
    row = Row("the article's two arms")
    published = {"in_process": (0.310, 0.870), "ft_launcher": (0.255, 0.859)}
    for arm in ARMS:
        row.samples += 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "facts.jsonl"
            path.write_bytes(encode_lines(arm_facts(arm)))
            facts = imported("facts", path, run=None)
        _, view = folded(facts, later=0)
        row.count("attempts", arm, 6, len(view.attempts))
        row.count("steps", arm, 2000, view.high_water_step)
        row.count("rollbacks", arm, [62, 239, 74, 320, 29], [each.steps for each in view.rollbacks])
        told = report.figures(view)
        for name, truth in zip(("training_goodput", "infrastructure_goodput"), published[arm], strict=True):
            said = told[name]
            assert isinstance(said, float)
            row.count("figures", f"{arm} {name}", truth, said, is_right=abs(said - truth) < 0.0005)
    yield row


def recorded_histories() -> Iterator[Row]:
    """Whole runs in the wire format: every figure of each."""
    row = Row("histories")
    for history in histories():
        row.samples += 1
        expected = history.expected
        facts = imported("facts", FOLDER / history.name / "facts.jsonl", run=None)
        fold = RunFold(facts[0].run)
        fold.add(facts)
        figures = json.loads(json.dumps(report.figures(fold.view(expected["as_of"]))))
        windows = []
        for want in expected["windows"]:
            account = goodput.account(fold.spans, want["from_ns"], want["to_ns"])
            windows.append((want, json.loads(json.dumps(report.account_figures(account)))))
        row.count("figures", history.name, [], differences(expected, figures, windows))
    yield row


def single_lines() -> Iterator[Row]:
    """Lines of public logs, each imported alone."""
    row = Row("single log lines")
    classes = {
        "collective_timeout_gloo": "hang", "config": "configuration", "desync": "collective_mismatch",
        "gpu_hw": "gpu_hardware", "gpu_hw_info": "gpu_hardware", "heartbeat_timeout": "hang", "nan": "loss_anomaly",
        "nccl_remote": "nccl_error network", "nvlink": "gpu_hardware", "oom_gpu": "gpu_oom", "oom_host": "host_oom",
        "rendezvous_timeout": "rendezvous", "segv": "crash", "sigkill_unknown": "sigkill",
        "storage": "checkpoint_io checkpoint_corrupt", "straggler_or_hang": "hang", "teardown": "sigterm",
    }  # fmt: skip
    for told in (CORPUS / "log_lines.tsv").read_text().splitlines()[1:]:
        name, text, _ = told.split("\t")
        row.samples += 1
        is_kernel = "NVRM" in text or text.startswith("Out of memory")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "line.log"
            path.write_text(
                ("2026-11-29T12:00:00+00:00 n0 kernel: " if is_kernel else "2026-11-29 12:00:00,000 ") + text + "\n"
            )
            found = [reading_of(fact).cause for fact in imported("logs", path) if isinstance(fact, Evidence)]
        allowed = classes.get(name, name).split()
        said = next((cause for cause in found if cause in allowed), found[0] if found else None)
        row.count("causes", text[:60], allowed[0], said, is_right=said in allowed)
    yield row


FAMILIES: tuple[Callable[[], Iterable[Row]], ...] = (
    launchers, cycle_files_alone, elastic_records, training_logs, schedulers, single_lines, article, recorded_histories,
)  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    used = [column for column in COLUMNS if any(column in row.counted for row in rows)]
    lines = ["| samples | n | " + " | ".join(used) + " |", "|---" * (2 + len(used)) + "|"]
    lines += [
        f"| {row.name} | {row.samples} | " + " | ".join(row.cell(column) for column in used) + " |" for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    rows = [row for family in FAMILIES for row in family()]
    print(table(rows))  # noqa: T201
    if "--wrong" in sys.argv:
        for row in rows:
            for each in row.wrong:
                print(f"{row.name}: {each}")  # noqa: T201


if __name__ == "__main__":
    main()
