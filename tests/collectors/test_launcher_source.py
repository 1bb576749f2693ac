"""What the launcher source tells, against what truly happened in recorded runs."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from rerail.collectors.sources.cycle_info import node_names
from rerail.collectors.sources.launcher import LauncherSource
from rerail.server.core.codec import encode_line
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    Exit,
    Fact,
    MarkStage,
    Outcome,
    RecoveryMark,
    RunEnded,
)

CORPUS = Path(__file__).parent.parent / "corpus"
CANCELLED = "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-11-29T12:11:45 ***\n"
TRUTHS = [
    path
    for path in sorted(CORPUS.glob("nvrx/*/*.truth.json"))
    if not path.name.startswith("inproc") and json.loads(path.read_text())["attempts"]
]
EXPECTED_CODE = {"sigkill": -9, "exit137": 137, "segv": -11}


def facts_of(truth: Path) -> tuple[Fact, ...]:
    name = truth.name.removesuffix(".truth.json")
    beside = truth.parent / name
    log = beside / "nvrx.log"
    if not log.exists():
        log = truth.parent / f"{name}.log"
    infos = beside / "cycle_infos"
    apps = f"{beside}/app_cycle*.log" if (beside / "nvrx.log").exists() else f"{beside}/**/std*.log"
    return LauncherSource(
        node="vm", log=log, cycle_info=infos if infos.is_dir() else None, app_logs=apps, zone_seconds=0
    ).finish(None).facts  # fmt: skip


def of_attempt(facts: Iterable[Fact], kind: type, attempt: int) -> list[Fact]:
    return [fact for fact in facts if isinstance(fact, kind) and fact.restart == attempt]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.truth.json')}"


@pytest.mark.parametrize("truth", TRUTHS, ids=name_of)
def test_every_attempt_is_found_with_its_own_number(truth: Path) -> None:
    told = json.loads(truth.read_text())
    starts = [fact.restart for fact in facts_of(truth) if isinstance(fact, AttemptStarted)]
    assert starts == list(range(told["attempts"]))


@pytest.mark.parametrize("truth", TRUTHS, ids=name_of)
def test_every_fault_is_noticed_after_it_happened_and_soon(truth: Path) -> None:
    told, facts = json.loads(truth.read_text()), facts_of(truth)
    for fault in told["faults"]:
        if fault["step"] == 0:
            continue  # injected before the first heartbeat; the monitor then fails on its own account
        noticed = [
            fact.at / 1e9
            for fact in of_attempt(facts, RecoveryMark, fault["cycle"])
            if isinstance(fact, RecoveryMark) and fact.stage is MarkStage.NOTICED
        ]
        assert noticed, fault
        delay = min(noticed) - fault["t"]
        assert -0.01 < delay < (10 if fault["kind"] == "hang" else 5), fault


@pytest.mark.parametrize("truth", TRUTHS, ids=name_of)
def test_every_fault_leaves_the_trace_that_tells_its_cause(truth: Path) -> None:
    told, facts = json.loads(truth.read_text()), facts_of(truth)
    for fault in told["faults"]:
        exits = of_attempt(facts, Exit, fault["cycle"])
        evidence = [fact for fact in of_attempt(facts, Evidence, fault["cycle"]) if isinstance(fact, Evidence)]
        assert exits, fault
        if fault["kind"] in EXPECTED_CODE:
            code = EXPECTED_CODE[fault["kind"]]
            assert any(fact.rank == fault["rank"] and fact.exit_code == code for fact in exits), fault
            assert all(fact.signal == -code for fact in exits if fact.exit_code == code and code < 0)
        elif fault["kind"] == "exception" and fault["step"]:
            line = f"[rank{fault['rank']}]: RuntimeError: injected exception at step {fault['step']}"
            found = [fact for fact in evidence if fact.text == line]
            assert found, fault
            assert {(fact.source, fact.rank) for fact in found} == {("stderr", fault["rank"])}
        elif fault["kind"] == "hang":
            found = [fact for fact in evidence if fact.code == "monitor_timeout"]
            assert found, fault
            assert all(
                (fact.source == "nvrx" and "Waited" in fact.text) or "has been open" in fact.text for fact in found
            )


@pytest.mark.parametrize("truth", TRUTHS, ids=name_of)
def test_the_end_is_the_end_of_the_launcher(truth: Path) -> None:
    told, facts = json.loads(truth.read_text()), facts_of(truth)
    ends = [fact.outcome for fact in facts if isinstance(fact, RunEnded)]
    last = [fact for fact in facts if isinstance(fact, AttemptEnded)][-1]
    codes = set() if "TIMEOUT" in told["exit"] else set(re.findall(r"-?\d+", told["exit"]))
    if codes == {"0"}:
        assert ends == [Outcome.COMPLETED]
        assert last.outcome is Outcome.COMPLETED
    elif codes:
        assert ends == [Outcome.FAILED]
        assert last.restart == told["attempts"] - 1


@pytest.mark.parametrize("truth", TRUTHS, ids=name_of)
def test_marks_of_an_attempt_come_in_the_order_of_a_recovery(truth: Path) -> None:
    order = [
        MarkStage.RENDEZVOUS_STARTED, MarkStage.RENDEZVOUS_COMPLETED, MarkStage.WORKERS_STARTED, MarkStage.INITIALIZED,
        MarkStage.NOTICED, MarkStage.ABORTING, MarkStage.WORKERS_GONE,
    ]  # fmt: skip
    facts = facts_of(truth)
    for attempt in range(json.loads(truth.read_text())["attempts"]):
        marks = [fact for fact in of_attempt(facts, RecoveryMark, attempt) if isinstance(fact, RecoveryMark)]
        first_at = {}
        for fact in marks:
            first_at.setdefault(fact.stage, fact.at)
        times = [first_at[stage] for stage in order if stage in first_at]
        assert times == sorted(times)
        begun = of_attempt(facts, AttemptStarted, attempt)
        assert all(begun[0].at <= fact.at for fact in marks)


def test_the_number_on_a_detection_line_is_that_of_the_next_attempt() -> None:
    facts = facts_of(CORPUS / "nvrx/0.7.0.dev89/sigkill.truth.json")
    ending = (MarkStage.NOTICED, MarkStage.WORKERS_GONE)
    marks = [fact for fact in facts if isinstance(fact, RecoveryMark) and fact.stage in ending]
    assert {fact.restart for fact in marks} == {0}


def test_settings_of_the_command_line_are_told_with_the_first_attempt() -> None:
    facts = facts_of(CORPUS / "nvrx/0.7.0.dev89/sigkill.truth.json")
    first = next(fact for fact in facts if isinstance(fact, AttemptStarted))
    assert first.config is not None
    config = json.loads(first.config)
    assert (config["rank_heartbeat_timeout"], config["max_restarts"], config["monitor_interval"]) == (5, 3, 0.3)
    assert (first.launcher, first.world_size, first.run) == ("ft_launcher", 2, "demo-run")


def test_on_a_node_that_is_not_the_first_the_rank_is_the_global_one() -> None:
    facts = facts_of(CORPUS / "nvrx/0.7.0.dev89/two_agents.truth.json")
    assert [(fact.rank, fact.local_rank, fact.exit_code) for fact in facts if isinstance(fact, Exit)] == [(1, 0, -9)]


def test_a_final_table_tells_every_rank_and_who_was_only_ended_by_the_launcher() -> None:
    log = CORPUS / "torchrun/sigkill.log"
    command = ("torchrun", "--nproc-per-node", "2", "eh.py")
    facts = LauncherSource(node="vm", log=log, command=command).finish(None).facts
    exits = [(fact.restart, fact.rank, fact.exit_code) for fact in facts if isinstance(fact, Exit)]
    assert exits == [(0, 1, -9), (1, 1, 1), (1, 0, -15)]
    assert [fact.outcome for fact in facts if isinstance(fact, RunEnded)] == [Outcome.FAILED]


def test_where_nothing_tells_how_many_nodes_there_are_a_local_rank_is_only_that(monkeypatch) -> None:
    def ranks(*command: str) -> list[tuple[int | None, int | None]]:
        log = CORPUS / "torchrun/sigkill.log"
        facts = LauncherSource(node="vm", log=log, command=command).finish(None).facts
        return [(fact.rank, fact.local_rank) for fact in facts if isinstance(fact, Exit)]

    # the final table names a rank that no line before it had named; what was stated before stays as it was
    assert ranks() == [(None, 1), (None, 1), (0, 0)]
    assert ranks("torchrun", "eh.py")[0] == (1, 1)
    monkeypatch.setenv("PET_NNODES", "4")  # what Kubeflow's operators set
    assert ranks("torchrun", "eh.py")[0] == (None, 1)


@pytest.mark.parametrize("scenario", ["inproc_exception", "inproc_multi"])
def test_in_process_restarts_are_attempts_inside_one(scenario: str) -> None:
    truth = CORPUS / f"nvrx/0.7.0.dev89/{scenario}.truth.json"
    faults = json.loads(truth.read_text())["faults"]
    facts = LauncherSource(node="vm", log=truth.parent / f"{scenario}.log", zone_seconds=0).finish(None).facts
    starts = [(fact.restart, fact.iteration) for fact in facts if isinstance(fact, AttemptStarted)]
    assert starts == [(0, None), *((0, number + 1) for number in range(len(faults)))]
    for fault in faults:
        raised = [
            fact for fact in facts
            if isinstance(fact, Evidence) and fact.code == "fn_ex" and fact.iteration == fault["iteration"]
        ]  # fmt: skip
        assert raised[0].rank == fault["rank"]
        assert f"injected exception at step {fault['step']}" in raised[0].text


@pytest.mark.parametrize(
    ("signal", "before", "after", "outcome"),
    [
        (15, "", "", Outcome.FAILED),  # whose signal it was is not told
        (2, "", "", Outcome.STOPPED),
        (15, CANCELLED, "", Outcome.STOPPED),
        (15, "", CANCELLED, Outcome.STOPPED),
        (15, "", CANCELLED.replace("***\n", "DUE TO TIME LIMIT ***\n"), Outcome.FAILED),
    ],
)
def test_a_signal_alone_does_not_say_that_somebody_stopped_the_run(
    signal: int, before: str, after: str, outcome: Outcome, tmp_path: Path
) -> None:
    told = (CORPUS / "torchrun/agent_sigterm.log").read_text().splitlines(keepends=True)[:5]
    path = tmp_path / "torchrun.log"
    path.write_text("".join(told[:2]) + before + "".join(told[2:]).replace("Received 15", f"Received {signal}") + after)
    facts = LauncherSource(node="vm", log=path).finish(None).facts
    assert [fact.outcome for fact in facts if isinstance(fact, RunEnded)][-1] is outcome


def test_inside_a_scheduler_s_job_a_failed_launcher_does_not_end_the_run() -> None:
    log = CORPUS / "torchrun/exc.log"
    facts = LauncherSource(node="vm", log=log, job="4242", requeue=0).finish(None).facts
    assert not [fact for fact in facts if isinstance(fact, RunEnded)]
    assert {fact.job for fact in facts} == {"4242"}


def test_a_line_with_both_times_tells_the_zone(tmp_path: Path) -> None:
    path = tmp_path / "far.log"
    path.write_text(
        "2026-11-29 20:59:44,000 [INFO] [vm] [workload:?(?) infra:?(?)] profiling.py:93   - Cycle: 0 "
        "Event: rendezvous_started Node: n_1_0 Rank: None Time: 2026-11-29 11:59:44.000 UTC\n"
        "2026-11-29 20:59:45,000 [WARNING] [vm] [workload:?(0) infra:?(?)] rank_monitor_server.py:497 [Cycle 0] "
        "Did not get subsequent heartbeat. Waited 5.00 seconds.\n"
    )
    facts = LauncherSource(node="vm", log=path, zone_seconds=3600).finish(None).facts
    assert max(fact.at for fact in facts) - min(fact.at for fact in facts) == 1_000_000_000


def test_cycle_files_alone_tell_when_attempts_formed(tmp_path: Path) -> None:
    infos = CORPUS / "nvrx/0.7.0.dev89/applog/cycle_infos"
    source = LauncherSource(node="vm", run="story", cycle_info=infos)
    facts = source.poll(None)
    assert [fact.restart for fact in facts.facts if isinstance(fact, AttemptStarted)] == [0, 1]
    assert source.poll(facts.cursor).facts == ()
    (tmp_path / "cycle_info..0.0").write_text('{"cycle_start_time": "2026-11-29T12:')
    (tmp_path / "cycle_info..0.1").write_bytes(b"\xff\xfe[]")
    (tmp_path / "cycle_info.x").write_text("[]")
    (tmp_path / "cycle_info.7.2.3").write_text(
        '{"cycle_start_time": "2026-11-29T12:00:00Z", "active_nodes": "n[01-03]"}'
    )
    (only,) = LauncherSource(node="vm", run="story", cycle_info=tmp_path).poll(None).facts
    assert isinstance(only, AttemptStarted)
    assert (only.job, only.requeue, only.restart, only.nodes) == ("7", 2, 3, ("n01", "n02", "n03"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[001-003,007],other", ("node001", "node002", "node003", "node007", "other")),
        ("a,b,a", ("a", "b")),
        ("", ()),
        ("n[9-1]", ()),
        ("n[1-99999999999]", ()),
        ("n[", ("n",)),
        (None, ()),
    ],
)
def test_node_lists_are_slurm_s_short_form(text: object, names: tuple[str, ...]) -> None:
    assert node_names(text) == names


def test_a_traceback_before_a_long_silence_is_told_at_the_time_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "launcher.log"
    path.write_text("[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: nobody waits for me\n")
    source = LauncherSource(node="vm", log=path)
    first = source.poll(None)
    assert source.poll(first.cursor).facts == ()
    os.utime(path, ns=(0, 1_790_000_000_000_000_000))
    evidence, *end = source.poll(first.cursor).facts
    assert [fact.kind for fact in end] == ["attempt_started", "attempt_ended", "run_ended"]  # an hour and more ago
    assert isinstance(evidence, Evidence)
    assert (evidence.at, evidence.rank) == (1_790_000_000_000_000_000, 1)


def test_what_a_launcher_repeats_without_end_is_told_a_limited_number_of_times(tmp_path: Path) -> None:
    path = tmp_path / "launcher.log"
    line = "[2026-11-29 13:02:26,134] [ERROR] [RankMonServer1@vm:0] current state: RankMonitorState.ABORTED\n"
    path.write_text(line * 5000)
    facts = LauncherSource(node="vm", log=path).finish(None).facts
    assert sum(isinstance(fact, Evidence) for fact in facts) == 24


def test_secrets_in_a_log_and_on_its_command_line_do_not_leave_the_node(tmp_path: Path) -> None:
    path = tmp_path / "launcher.log"
    path.write_text(
        "# CMD: ft_launcher --ft-attribution-export-url=https://me:hunter2@h/x --max-restarts=3 train.py --api-key k1\n"
        "[2026-11-29 13:02:17,540] [INFO] [ft_launcher1@vm] The node 'n_1_0' attempts to join the next round of the "
        "rendezvous 'r'.\n"
        "[rank0]: Traceback (most recent call last):\n"
        "[rank0]: OSError: PUT https://bucket/x?X-Amz-Signature=deadbeef failed, token=abc\n"
        "[2026-11-29 13:02:18,540] [INFO] [ft_launcher1@vm] Stopping workers... Timeout = 30 sec.\n"
    )
    facts = LauncherSource(node="vm", log=path).finish(None).facts
    text = b"".join(map(encode_line, facts)).decode()
    assert "Stopping" not in text
    assert "max_restarts" in text
    assert "OSError" in text
    for secret in ("hunter2", "k1", "deadbeef", "abc"):
        assert secret not in text


def _attempts_of(facts: Iterable[Fact]) -> list[tuple[str, int | None]]:
    return [(fact.kind, fact.restart) for fact in facts if isinstance(fact, (AttemptStarted, AttemptEnded, RunEnded))]


def test_a_relaunch_that_torchrun_does_not_tell_is_seen_by_what_its_workers_print(tmp_path: Path) -> None:
    whole = (CORPUS / "torchrun" / "ok_after_restart.log").read_bytes()
    log = tmp_path / "launcher.log"
    log.write_bytes(whole)
    begun_twice = [("attempt_ended", 0), ("attempt_started", 1), ("attempt_ended", 1), ("attempt_started", 2)]
    followed = LauncherSource(node="vm", log=log, zone_seconds=0)
    first = followed.poll(None)
    assert _attempts_of(first.facts) == begun_twice[:2]
    os.utime(log, (time.time() - 60, time.time() - 60))  # it has been silent
    assert _attempts_of((*first.facts, *followed.poll(first.cursor).facts)) == begun_twice
    assert _attempts_of(LauncherSource(node="vm", log=log, zone_seconds=0).finish(None).facts) == begun_twice


@pytest.mark.parametrize("name", ["exc", "sigkill", "norecord", "oom"])
def test_the_end_of_torchrun_is_no_relaunch_however_its_last_lines_come(name: str, tmp_path: Path) -> None:
    whole = (CORPUS / "torchrun" / f"{name}.log").read_bytes()
    log = tmp_path / "launcher.log"
    source, cursor, told = LauncherSource(node="vm", log=log, zone_seconds=0), None, []
    for line in whole.splitlines(keepends=True):
        with log.open("ab") as file:
            file.write(line)
        polled = source.poll(cursor)
        cursor, told = polled.cursor, [*told, *polled.facts]
    log.write_bytes(whole)
    at_once = LauncherSource(node="vm", log=log, zone_seconds=0).finish(None).facts
    assert _attempts_of(told) == _attempts_of(at_once)
    assert _attempts_of(told)[-1][0] == "run_ended"


WITHOUT_JOINING = [truth for truth in TRUTHS if truth.parent.name == "0.4.1"]


@pytest.mark.parametrize("kept", ["has joined", "starting workers for entrypoint"])
@pytest.mark.parametrize("truth", WITHOUT_JOINING, ids=name_of)
def test_attempts_are_found_where_lines_between_them_are_missing(truth: Path, kept: str, tmp_path: Path) -> None:
    """Of what the launcher says at the beginning of an attempt one line is there."""
    lines = (truth.parent / f"{truth.name.removesuffix('.truth.json')}.log").read_text().splitlines(keepends=True)
    told = ("has joined", "attempts to join", "starting workers for entrypoint")
    first = next(line for line in lines if "starting workers for entrypoint" in line)
    again = [
        first.replace(first[:25], line[:25]) if kept in first and "has joined" in line else line
        for line in lines
        if kept in line or not any(word in line for word in told) or (kept in first and "has joined" in line)
    ]
    log = tmp_path / "launcher.log"
    log.write_text("".join(again))
    facts = LauncherSource(node="vm", log=log, zone_seconds=0).finish(None).facts
    attempts = json.loads(truth.read_text())["attempts"]
    assert {fact.restart for fact in facts if isinstance(fact, AttemptEnded)} == set(range(attempts))
