"""Google's log as a format of `rerail import`: what is read, what is refused, and what stays the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.cli import main
from rerail.server.core.facts import Phase
from tests.definitions.measuring import Reading, imported
from tests.story import BEGINNING, SECOND, seconds_by_phase

T = BEGINNING / SECOND
JOB = {"job_name": "j"}


def entries() -> list[dict[str, object]]:
    """A job with every kind of record, one restart, and its end."""
    return [
        {**JOB, "job_start_time": T},
        {**JOB, "tpu_init_start_time": T}, {**JOB, "tpu_init_end_time": T + 2},
        {**JOB, "training_prep_start_time": T + 2}, {**JOB, "training_prep_end_time": T + 5},
        {**JOB, "data_loading_start_time": T + 5}, {**JOB, "data_loading_end_time": T + 6},
        *({**JOB, "step_count": step, "step_start_time": T + 6 + step} for step in range(5)),
        {**JOB, "custom_badput_event_start_time": T + 10.25, "custom_badput_event_type": "Eval"},
        {**JOB, "custom_badput_event_end_time": T + 10.75, "custom_badput_event_type": "EVAL"},
        {**JOB, "step_count": 5, "step_start_time": T + 11},
        {"step": 4, "event_type": "save", "directory": "gs://bucket", "synchronous": True,
         "checkpoint_manager_blocking_start_time": T + 11.25, "checkpoint_manager_blocking_duration_secs": 0.5},
        {**JOB, "job_start_time": T + 30},
        {"step": 4, "event_type": "restore", "directory": "gs://bucket",
         "checkpoint_manager_start_time": T + 31, "checkpoint_manager_duration_secs": 2.0},
        *({**JOB, "step_count": step, "step_start_time": T + 30 + step} for step in range(5, 9)),
        {**JOB, "job_end_time": T + 39},
    ]  # fmt: skip


def test_every_kind_of_record_has_its_phase() -> None:
    facts, refused = imported("google-goodput", entries())
    assert refused == []
    reading = Reading(facts, BEGINNING + 39 * SECOND, "j")
    seconds = seconds_by_phase(reading.view)
    assert seconds["rendezvous"] == 2
    assert seconds["saving"] == 0.5
    assert seconds["loading"] == 2
    assert seconds["overhead"] == 0.5
    assert reading.view.checkpoint.newest_durable_step == 4
    assert [rollback.steps for rollback in reading.view.rollbacks] == [0]
    shown = {each.name: each.length_ns / SECOND for each in reading.under("google").buckets}
    assert shown["CUSTOM_BADPUT_EVENTS.EVAL"] == 0.5
    assert shown["UNPRODUCTIVE_CHECKPOINT_SAVE_TIME"] == 0.5
    assert shown["UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME"] == 2
    assert shown["INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION"] == 19


def test_a_log_that_grew_states_what_it_stated_before_and_more() -> None:
    whole, _ = imported("google-goodput", entries())
    for length in range(1, len(entries())):
        part, _ = imported("google-goodput", entries()[:length])
        assert part == [fact for fact in whole if fact in part]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"not json", ""),
        (b"[]", ""),
        (b'{"job_name": "j"}', ""),
        (b'{"job_name": "j", "job_start_time": 5}', "job_start_time"),
        (b'{"job_name": "j", "job_start_time": "now"}', "job_start_time"),
        (b'{"job_name": "j", "job_start_time": 1e300}', "job_start_time"),
        (b'{"job_name": "j", "job_start_time": NaN}', "job_start_time"),
        (b'{"job_name": 7, "job_start_time": 1767225600}', "job_name"),
        (b'{"job_name": "j", "step_start_time": 1767225600}', "step_count"),
        (b'{"job_name": "j", "step_count": 1.5, "step_start_time": 1767225600}', "step_count"),
        (b'{"job_name": "j", "step_count": -1, "step_start_time": 1767225600}', "step_count"),
        (b'{"event_type": "save", "step": 1}', "checkpoint_manager_blocking_start_time"),
        (b'{"entries": 5}', "entries"),
    ],
)
def test_a_bad_entry_is_refused_by_name_and_costs_only_itself(line: bytes, field: str) -> None:
    good = [json.dumps(entry).encode() for entry in entries()]
    facts, refused = imported("google-goodput", [*good[:9], line, *good[9:]])
    assert [error.field for error in refused] == [field]
    assert Reading(facts, BEGINNING + 39 * SECOND, "j").view.high_water_step == 8


@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from(entries())), max_size=12))
def test_nothing_that_a_file_may_hold_raises(lines: list[object]) -> None:
    facts, refused = imported("google-goodput", lines)
    assert len(refused) <= len(lines)
    assert all(fact.run for fact in facts)


def test_a_packed_file_of_two_jobs_goes_into_runs_of_the_name_that_was_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = entries() + [{**entry, "job_name": "k"} for entry in entries() if "job_name" in entry]
    packed = tmp_path / "cloud.jsonl.gz"
    # An export of Cloud Logging holds each entry under a key of its own.
    packed.write_bytes(gzip.compress("".join(json.dumps({"jsonPayload": line}) + "\n" for line in lines).encode()))
    assert main(["import", "google-goodput", str(packed), "--run", "old", "--stdout"]) == 0
    runs = {json.loads(line)["run"] for line in capsys.readouterr().out.splitlines()}
    assert runs == {"old/j", "old/k"}


def test_an_unknown_format_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "wandb", "file"]) == 1
    assert (
        "aws-nvrx, error-file, flight-recorder, google-goodput, kernel, kubernetes, one-logger, slurm, logs"
        in capsys.readouterr().err
    )


def test_data_that_is_loaded_under_steps_blocks_nothing() -> None:
    lines = [
        {**JOB, "job_start_time": T},
        *({**JOB, "step_count": step, "step_start_time": T + step} for step in range(5)),
        {**JOB, "data_loading_start_time": T + 4.25},
        {**JOB, "data_loading_end_time": T + 4.75},
        {**JOB, "job_end_time": T + 5},
    ]
    facts, _ = imported("google-goodput", lines)
    reading = Reading(facts, BEGINNING + 5 * SECOND, "j")
    assert dict(reading.view.account.ns_by_phase) == {Phase.TRAINING: 5 * SECOND}
