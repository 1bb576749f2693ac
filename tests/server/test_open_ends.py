"""What `rerail classify` names for a log, an import of the same log makes an incident of."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from rerail.collectors.formats import OldFile, OldFolder, formats
from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import interruptions
from rerail.server.commands.open_ends import open_ends
from rerail.server.core.facts import Fact, Outcome
from rerail.server.core.fold import RunFold
from rerail.server.core.view import RunView

LOGS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "corpus/whole_logs.jsonl").read_text().splitlines()
]  # fmt: skip
THREE_DAYS = 3 * 86_400


def imported(path: Path) -> list[Fact]:
    logs, now = formats()["logs"], time.time_ns()
    quiet = {"refuse": lambda *_: None, "remark": lambda _: None, "now": now, "ends": open_ends}
    if path.is_dir():
        assert logs.read_folder is not None
        return list(logs.read_folder(OldFolder(str(path), "r", **quiet)))
    with path.open("rb") as file:
        old = OldFile(
            path=str(path), stem=path.stem, run="r", lines=enumerate(file, 1), content=path.read_bytes,
            at=path.stat().st_mtime_ns, **quiet,
        )  # fmt: skip
        return list(logs.read(old))


def derived(facts: list[Fact]) -> list[RunView]:
    views = []
    for run in sorted({fact.run for fact in facts}):
        fold = RunFold(run)
        fold.add([fact for fact in facts if fact.run == run])
        views.append(fold.view(time.time_ns()))
    return views


def written(log: dict, folder: Path, seconds: float = THREE_DAYS) -> list[Path]:
    paths = []
    for name, lines in log["files"].items():
        path = folder / name
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (time.time() - seconds,) * 2)
        paths.append(path)
    return paths


@pytest.mark.parametrize("log", LOGS, ids=[log["name"] for log in LOGS])
def test_an_import_has_the_incidents_that_classify_names_and_no_others(log: dict, tmp_path: Path):
    files = written(log, tmp_path)
    for path in [tmp_path, *(files if len(files) == 1 else [])]:
        found = interruptions(read_run_files([str(path)]))
        named = [each.verdict.cause for each in found if each.relaunch_of is None]
        views = derived(imported(path))
        causes = [incident.verdict.cause for view in views for incident in view.incidents]
        if named and named[-1] == "operator_stop":  # whoever stops a run ends it: no interruption, but how it ended
            assert views[-1].outcome is Outcome.STOPPED
            named = named[:-1]
        assert causes == named, path


ENDED = {
    "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-20T10:09:00 DUE TO TIME LIMIT ***": (
        "failed", "time_limit",
    ),
    "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-20T10:09:00 DUE TO PREEMPTION ***": (
        "preempted", "preemption",
    ),
    "srun: error: Node failure on node022": ("failed", "node_lost"),
    "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-20T10:09:00 ***": ("stopped", None),
}  # fmt: skip
STEPS = [
    f"[2026-11-20 10:00:{second:02}] iteration {second}/ 200 | elapsed time per iteration (ms): 1000.0 | lm loss: 1.0 |"
    for second in range(1, 20)
]


MEMORY = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."
RUN_LIMIT = "TERM_RUNLIMIT: job killed after reaching LSF run time limit."
ENDED |= {
    "=>> PBS: job killed: walltime 3610 exceeded limit 3600": ("failed", "time_limit"),
    "=>> PBS: job killed: mem 268435500kb exceeded limit 268435456kb": ("failed", "host_oom"),
    "=>> PBS: job killed: node 2 (node8) requested job terminate, 'EOF' (code 1099)": ("failed", "node_lost"),
}


def report(how: list[str], where: str = "is above this job summary.") -> list[str]:
    """What LSF writes into the output of a job that is over; it takes the times of the cluster, here UTC."""
    return [
        "", "------------------------------------------------------------", "Sender: LSF System <lsfadmin@node7>",
        "Subject: Job 48213: <llm> in cluster <lab> " + ("Done" if "Successfully" in how[-1] else "Exited"), "",
        "Job <llm> was submitted from host <login1> by user <me> in cluster <lab> at Fri Nov 20 09:59:55 2026",
        "Job was executed on host(s) <8*node7>, in queue <gpu>, as user <me> in cluster <lab>",
        "Started at Fri Nov 20 09:59:58 2026", "Terminated at Fri Nov 20 10:00:25 2026",
        "Results reported at Fri Nov 20 10:00:26 2026", "", "Your job looked like:", "",
        "------------------------------------------------------------", "# LSBATCH: User input", "torchrun train.py",
        "------------------------------------------------------------", "", *how, "", "Resource usage summary:", "",
        "    CPU time :                                   5014.20 sec.",
        "    Max Memory :                                 262144 MB",
        "    Total Requested Memory :                     262144.00 MB", "", f"The output (if any) {where}", "",
    ]  # fmt: skip


OF_LSF = {
    "completed": (["Successfully completed."], "completed", None),
    "memory": ([MEMORY, "Exited with exit code 137."], "failed", "host_oom"),
    "limit of time": ([RUN_LIMIT, "Exited with exit code 140."], "failed", "time_limit"),
    "owner": (["TERM_OWNER: job killed by owner.", "Exited with exit code 130."], "stopped", None),
    "administrator": (["TERM_ADMIN: job killed by root or LSF administrator.", "Exited by signal 9."], "stopped", None),
    "preempted": (
        ["TERM_PREEMPT: job killed after preemption.", "Exited with exit code 137."],
        "preempted",
        "preemption",
    ),
    "killed": (["Exited with exit code 137."], "failed", "sigkill"),
    "crashed": (["Exited by signal 11. The CPU time used is 33.2 seconds."], "failed", "crash"),
}


@pytest.mark.parametrize(("how", "outcome", "cause"), OF_LSF.values(), ids=OF_LSF)
@pytest.mark.parametrize(("is_above", "is_cut"), [(True, False), (False, False), (True, True)])
def test_lsf_s_report_says_how_a_run_ended(
    how: list[str], outcome: str, cause: str | None, is_above: bool, is_cut: bool, tmp_path: Path
):
    """Also where its last line is missing, by which it is told what stands above it."""
    lines = [*STEPS, *report(how)] if is_above else [*report(how, "follows:"), *STEPS]
    lines = lines[:-2] if is_cut else lines
    (path,) = written({"files": {"run.log": lines}}, tmp_path)
    (view,) = derived(imported(path))
    assert view.outcome == outcome
    assert [incident.verdict.cause for incident in view.incidents] == ([] if cause is None else [cause])
    ended = 1795168825 if is_above else 1795168819  # a report before the output is not put after it by its stamp
    assert view.ended_at is not None and view.ended_at // 10**9 == ended
    named = [each.verdict.cause for each in interruptions(read_run_files([str(path)]))]
    assert named == ([] if outcome == "completed" else [cause or "operator_stop"])


@pytest.mark.parametrize("goes_back", [True, False])
def test_what_follows_lsf_s_report_in_a_log_is_another_job(goes_back: bool, tmp_path: Path):
    """`bsub -o` appends; a job that saved at its last step goes on with the next."""
    first = 10 if goes_back else 20
    again = [
        f"[2026-11-20 11:00:{second:02}] iteration {first + second}/ 200 | elapsed time per iteration (ms): 1000.0 |"
        " lm loss: 1.0 |" for second in range(12)
    ]  # fmt: skip
    lines = [*STEPS, *report([RUN_LIMIT, "Exited with exit code 140."]), *again, *report(["Successfully completed."])]
    (path,) = written({"files": {"run.log": lines}}, tmp_path)
    (view,) = derived(imported(path))
    assert [(each.outcome, each.scope) for each in view.attempts] == [("failed", None), ("completed", "resubmit")]
    assert (view.outcome, view.high_water_step) == ("completed", first + 11)
    (incident,) = view.incidents
    assert incident.verdict.cause == "time_limit"
    assert [each.verdict.cause for each in interruptions(read_run_files([str(path)]))] == ["time_limit"]


@pytest.mark.parametrize(("line", "told"), ENDED.items())
def test_a_scheduler_s_word_alone_says_how_a_run_ended(line: str, told: tuple[str, str | None], tmp_path: Path):
    outcome, cause = told
    (path,) = written({"files": {"run.log": [*STEPS, line]}}, tmp_path)
    (view,) = derived(imported(path))
    assert view.outcome == outcome
    assert [incident.verdict.cause for incident in view.incidents] == ([] if cause is None else [cause])


def test_a_log_that_only_breaks_off_tells_no_failure(tmp_path: Path):
    (path,) = written({"files": {"run.log": STEPS}}, tmp_path)
    (view,) = derived(imported(path))
    assert (view.outcome, view.incidents) == (None, ())


@pytest.mark.parametrize(
    ("line", "is_over"),
    [
        ("srun: error: Node failure on node022", True),
        ("Spot Instance interruption notice: terminate in 2 minutes", False),
    ],
)
def test_of_a_log_that_is_still_written_only_an_end_that_is_told_is_one(line: str, is_over: bool, tmp_path: Path):
    now = time.time()
    lines = [time.strftime("[%Y-%m-%d %H:%M:%S]", time.gmtime(now - 20 + at)) + STEPS[at][21:] for at in range(19)]
    (path,) = written({"files": {"run.log": [*lines, line]}}, tmp_path, 0)
    (view,) = derived(imported(path))
    assert (view.ended_at is not None, len(view.incidents)) == (is_over, int(is_over))
