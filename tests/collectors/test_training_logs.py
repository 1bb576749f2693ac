"""Training logs without any instrumentation: steps, saves, loads and attempts as their lines tell them."""

from __future__ import annotations

import io
import os
import random
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.sources.log_reader import read_log
from rerail.collectors.sources.progress_lines import Progress, Told, may_tell, read_progress
from rerail.collectors.sources.tail import MOST_BYTES
from rerail.server.cli import main as rerail
from rerail.server.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    Evidence,
    Exit,
    Fact,
    RunEnded,
    RunStarted,
    Steps,
)
from rerail.server.core.fold import RunFold
from rerail.server.core.report import incident_figures
from rerail.server.core.steps import stated_ends
from rerail.server.core.view import Checkpoint, RunView
from rerail.ui import text
from tests.import_truth import imported
from tests.story import seconds_by_phase

LOGS = Path(__file__).parent.parent / "corpus" / "training_logs"


def facts_of(name: str) -> list[Fact]:
    return list(LauncherSource(node="vm", run="r", log=LOGS / name, zone_seconds=0).finish(None).facts)


def view_of(facts: list[Fact]) -> RunView:
    fold = RunFold("r")
    fold.add(facts)
    return fold.view(max(fact.at for fact in facts))


def told_by(text: str) -> Progress:
    ((told, _),) = read_progress(text)
    return told


@pytest.mark.parametrize(
    ("name", "framework", "high_water", "cause", "lost", "every", "redone_from", "seconds"),
    [
        ("megatron.log", "megatron", 50, "gpu_oom", 20, 10, 20,
         {"initializing": 60, "loading": 40, "saving": 20, "recomputing": 70, "training": 170}),
        ("torchtitan.log", "torchtitan", 40, "nccl_timeout", 10, 10, 20,
         {"initializing": 85, "loading": 15, "saving": 10, "recomputing": 28, "training": 88}),
        ("deepspeed.log", "deepspeed", 40, "sigkill", 10, 10, 20,
         {"initializing": 100, "loading": 10, "saving": 12, "recomputing": 30, "training": 80}),
        ("maxtext.log", "maxtext", 5, "unknown", 1, 1, 3, {"initializing": 60, "recomputing": 12, "training": 20}),
        ("transformers_5.24.log", "transformers", 30, "user_exception", 3, 1, 16, {}),
    ],
)  # fmt: skip
def test_a_log_of_a_framework_tells_its_attempts_and_where_the_time_went(
    name: str,
    framework: str,
    high_water: int,
    cause: str,
    lost: int,
    every: int,
    redone_from: int,
    seconds: dict[str, float],
):
    facts = facts_of(name)
    (started,) = [fact for fact in facts if isinstance(fact, RunStarted)]
    assert started.framework == framework
    view = view_of(facts)
    (incident,) = view.incidents
    assert incident.verdict.cause == cause
    assert (incident.attempts, incident.lost_steps) == ((0,), lost)
    assert (incident.told_every, incident.is_loss_least) == (every, every > 1)  # of the steps between nothing is known
    assert view.high_water_step == high_water
    (rollback,) = view.rollbacks
    assert (rollback.attempt, rollback.to_step, rollback.told_every) == (1, redone_from, every)
    assert any("is told" in note for note in view.data_quality.notes) == (every > 1)
    assert view.data_quality.contradictions == () or name == "torchtitan.log"
    told = seconds_by_phase(view)
    assert {phase: told.get(phase) for phase in seconds} == pytest.approx(seconds, abs=0.01)


def test_the_bars_of_a_real_run_are_read_to_a_tenth_of_a_second():
    """The instants are those of the run itself, kept by a callback of it: the ends of steps 8, 19, 24 and 30."""
    steps = [fact for fact in facts_of("transformers_5.24.log") if isinstance(fact, Steps)]
    ends = {}
    for fact in steps:
        for number, end in enumerate(stated_ends(fact.start, fact.durations_us, fact.count), fact.first_step):
            ends[fact.restart, number] = end / 1e9
    base = 1795998800.0
    assert ends[0, 8] - base == pytest.approx(88.27, abs=0.1)
    assert ends[0, 19] - base == pytest.approx(91.18, abs=0.1)
    assert ends[1, 24] - base == pytest.approx(106.44, abs=0.1)
    assert ends[1, 30] - base == pytest.approx(107.98, abs=0.1)
    assert [number for attempt, number in ends if attempt == 0] == list(range(1, 20))
    assert {fact.every for fact in steps if fact.restart == 0} == {None}  # every state that was drawn is read


def test_bars_between_the_lines_of_torchrun_tell_attempts_crash_resume_and_steps():
    """A real run at the usual verbosity of both: no line says how many steps there are, nor from where it goes on.

    Rank 1 raised before step 26 of attempt 0; attempt 1 loaded step 20. The run itself saw step 40 end at …7089.533.
    """
    facts = whole((LOGS / "whole" / "transformers_5.24_torchrun.log").read_text(), 1796047090 * 10**9)
    view = view_of(facts)
    (incident,) = view.incidents
    assert (incident.verdict.cause, incident.verdict.culprit_rank) == ("user_exception", 1)
    assert [(each.first_step, each.last_step, each.resumed_from_step) for each in view.attempts] == [
        (1, 25, 0), (21, 40, 20)
    ]  # fmt: skip
    assert (incident.lost_steps, incident.is_loss_least, view.outcome) == (5, False, "completed")
    assert distinct(facts)
    (last,) = [fact for fact in facts if isinstance(fact, Steps) and fact.first_step + fact.step_count == 41]
    assert last.at / 1e9 == pytest.approx(1796047089.533, abs=1)  # a bar's clock has whole seconds


def test_the_launcher_of_deepspeed_tells_attempts_where_no_step_is_printed():
    """A real run of 0.19.8 with two processes, started once more into the same log: rank 1 raised at step 17, what
    followed completed. At its usual verbosity no step is printed."""
    facts = whole((LOGS / "whole" / "deepspeed_0.19.8_relaunched.log").read_text(), 1796048490 * 10**9)
    view = view_of(facts)
    (incident,) = view.incidents
    assert (incident.verdict.cause, incident.verdict.culprit_rank, incident.lost_steps) == ("user_exception", 1, None)
    assert [(each.outcome, each.launcher, each.world_size, dict(each.exit_codes)) for each in view.attempts] == [
        ("failed", "deepspeed", 2, {}), ("completed", "deepspeed", 2, {0: 0, 1: 0})
    ]  # fmt: skip
    assert (view.outcome, view.data_quality.contradictions) == ("completed", ())
    assert distinct(facts)


LIGHTNING_RUNS = {
    "tqdm": (1796050265.760, [(1, 80, 0, "completed")], [], 0),
    "tqdm_killed": (1796050002.380, [(1, 45, 0, None), (41, 80, 40, "completed")], [40], 5),
    "rich": (1796050265.596, [(1, 80, 0, "completed")], [], 0),
    "rich_terminal_killed": (1796049636.495, [(1, 45, 0, None), (41, 80, 40, "completed")], [], 5),
    "rich_killed": (1796049579.531, [(None, None, None, None), (61, 80, None, "completed")], [], None),
}
"""Real runs of Lightning 2.6.6 on one machine, 80 steps in four epochs: when the log was written last, and attempts as
`(first step, last step, resumed from, outcome)`, loads that are told, and steps that were lost.

The killed ones died in step 46, which no bar shows any more, and went on from step 40 of `last.ckpt`. In a file rich
draws one bar, at the end: `rich_killed` shows two starts, a load and the steps from 61 on."""


def is_as_it_was(facts: list[Fact], name: str) -> None:
    _, attempts, loads, lost = LIGHTNING_RUNS[name]
    view = view_of(facts)
    told = [(each.first_step, each.last_step, each.resumed_from_step, each.outcome) for each in view.attempts]
    assert told == attempts
    assert [fact.step for fact in facts if isinstance(fact, CheckpointLoaded)] == loads
    assert [each.lost_steps or 0 for each in view.incidents] == ([lost or 0] if len(attempts) > 1 else [])
    assert (view.outcome, view.high_water_step, view.data_quality.contradictions) == ("completed", 80, ())
    assert distinct(facts)


@pytest.mark.parametrize("name", LIGHTNING_RUNS)
def test_bars_of_lightning_tell_no_restart_load_or_end_that_was_not(name: str, tmp_path: Path):
    """Imported, and followed from one look to the next by new instances, wherever the log had come to."""
    content = (LOGS / "whole" / f"lightning_2.6.6_{name}.log").read_bytes()
    written_at = LIGHTNING_RUNS[name][0]
    is_as_it_was(read_log(io.BytesIO(content), emitter="e", run="r", written_at=round(written_at * 1e9)).facts, name)
    growing = tmp_path / "train.log"
    for seed in range(3):
        facts: list[Fact] = []
        cursor: str | None = None
        for cut in [*sorted(random.Random(seed).sample(range(1, len(content)), k=8)), len(content), len(content)]:
            growing.write_bytes(content[:cut])
            os.utime(growing, (written_at - 40 * (1 - cut / len(content)),) * 2)
            source = LauncherSource(node="vm", run="r", log=growing, zone_seconds=0)
            polled = source.poll(cursor) if cut < len(content) else source.finish(cursor)
            facts, cursor = [*facts, *polled.facts], polled.cursor
        is_as_it_was(facts, name)


def test_a_bar_that_goes_on_in_mid_epoch_tells_which_checkpoint_was_loaded():
    """As above, had the run gone on from step 46: the first state of its bar is the seventh batch of the epoch."""
    begun = (LOGS / "whole" / "lightning_2.6.6_tqdm_killed.log").read_bytes().decode()
    before, _, behind = begun.rpartition("Restored all states")
    kept = [part for part in behind.split("\r") if not any(f"| {done}/?" in part for done in range(1, 7))]
    facts = whole(f"{before}Restored all states{chr(13).join(kept)}", 1796050002 * 10**9)
    assert [fact.step for fact in facts if isinstance(fact, CheckpointLoaded)] == [46]
    assert [(each.first_step, each.last_step) for each in view_of(facts).attempts] == [(1, 45), (47, 80)]


def test_an_attempt_that_only_ends_was_there_since_the_first_stamp_of_its_log():
    """A terminal of no width shows no bar, and torchrun at its usual level tells no start."""
    ends = "torch/distributed/elastic/multiprocessing/api.py"
    facts = whole(
        'Script started on 2026-11-30 14:38:53+00:00 [COMMAND="torchrun train.py"]\n'
        "[rank1]:[W1130 14:39:10.415577898 reducer.cpp:1529] Warning: find_unused_parameters=True was specified\n"
        "{'loss': '0.3384', 'grad_norm': '0.8356', 'learning_rate': '4.667e-05', 'epoch': '0.002'}\n"
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/hf.py", line 33, in <module>\n'
        "[rank0]: ValueError: bad batch\n"
        f"W1130 14:39:23.720000 2618 {ends}:1028] Sending process 2647 closing signal SIGTERM\n"
        f"E1130 14:39:23.954000 2618 {ends}:1002] failed (exitcode: 1) local_rank: 0 (pid: 2646) of binary: python\n"
    )
    (attempt,) = view_of(facts).attempts
    assert attempt.started_at == 1796049533 * 10**9
    assert [(fact.at, fact.exit_code) for fact in facts if isinstance(fact, Exit)] == [(1796049563954 * 10**6, 1)]


def test_followed_bars_of_transformers_begin_where_the_first_look_saw_them(tmp_path: Path):
    """Which bar is that of training is told by what the trainer prints beside it, after the first look."""
    states = [f"\r  {step}%|#| {step}/60 [00:0{step // 4}<00:15, {' 3.93' if step else '?'}it/s]" for step in range(10)]
    beside = "\r          \r{'loss': '0.3345', 'grad_norm': '0.8569', 'epoch': '0.001'}\n"
    growing, text, facts, cursor = tmp_path / "train.log", "Using 1 device\n", [], None
    for part in ["".join(states[:4]), "".join(states[4:6]) + beside, "".join(states[6:]) + beside]:
        text += part
        growing.write_text(text)
        polled = LauncherSource(node="vm", run="r", log=growing, zone_seconds=0).poll(cursor)
        facts, cursor = [*facts, *polled.facts], polled.cursor
    (attempt,) = view_of(facts).attempts
    assert (attempt.first_step, attempt.last_step, attempt.resumed_from_step) == (1, 9, 0)


def bars(epoch: int, *, end: str = "\n") -> str:
    """Of Lightning: fifty batches in twenty seconds, without any stamp."""
    return "".join(
        f"Epoch {epoch}: {2 * done:3d}%|{'#' * (done // 5):10s}| {done}/50 [00:{done * 2 // 5:02d}<00:01, 2.5it/s]{end}"
        for done in range(1, 51)
    )


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_bars_without_a_stamp_are_dated_by_their_clock_from_an_instant_behind_them(end: str):
    """Epoch 0 by the next line, epoch 2 by when the file was written; epoch 1 has the time between them as a whole."""
    text = (
        "GPU available: True (cuda), used: True\n" + bars(0, end=end) + "\n2026-11-03 10:00:21,000 INFO validating\n"
        + bars(1, end=end) + "\n" + bars(2, end=end) + "\n"
    )  # fmt: skip
    written = 1_793_700_200 * 10**9
    read = read_log(io.BytesIO(text.encode()), emitter="log", run="r", written_at=written)
    assert (read.steps_undated, read.bars_dated_back) == (50, 50)
    assert len({fact.seq for fact in read.facts}) == len(read.facts)
    told = {step: fact for fact in read.facts if isinstance(fact, Steps)
            for step in range(fact.first_step, fact.first_step + fact.step_count)}  # fmt: skip
    assert set(told) == set(range(1, 151))
    between = (told[51].first_step, told[51].step_count, told[51].start, told[51].at)
    assert between == (51, 50, told[50].at, told[101].start)
    assert (told[1].start, told[50].at) == (1_793_700_001 * 10**9, 1_793_700_021 * 10**9)
    assert (told[101].start, told[150].at) == (written - 20 * 10**9, written)
    without = read_log(io.BytesIO(text.encode()), emitter="log", run="r")
    assert (without.steps_undated, without.bars_dated_back) == (100, 0)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_the_epochs_of_bars_that_nothing_dates_go_on_with_the_count(end: str):
    """Each was over when the next began, as far as that is known; of many the first states are let go, no step is."""
    written = 1_793_700_200 * 10**9
    text = "".join(bars(epoch, end=end) + "\n" for epoch in range(12))
    read = read_log(io.BytesIO(text.encode()), emitter="log", run="r", written_at=written)
    steps = sorted(
        (fact.first_step, fact.step_count, fact.start, fact.at) for fact in read.facts if isinstance(fact, Steps)
    )
    assert sum(count for _, count, _, _ in steps) == 600 and read.steps_undated == 0
    assert (steps[0][2], steps[-1][3]) == (written - 12 * 20 * 10**9, written)
    assert all(before[3] == after[2] and before[0] + before[1] == after[0] for before, after in pairwise(steps))
    assert len({fact.seq for fact in read.facts}) == len(read.facts) and read.bars_dated_back <= 12 * 50


def test_an_asynchronous_save_is_captured_first_and_durable_later():
    moments = [(fact.step, fact.stage.value, fact.at % 10**12 // 10**9) for fact in facts_of("nemo.log")
               if isinstance(fact, CheckpointMoment)]  # fmt: skip
    assert [each[:2] for each in moments] == [(3, "captured"), (3, "durable")]
    assert moments[1][2] - moments[0][2] == 3


def test_the_last_failure_of_a_whole_log_is_one_too():
    """The log of a run that failed twice ends with the second traceback: nobody says that the attempt is over."""
    lines = (LOGS / "megatron.log").read_bytes().split(b"\n")
    broke = [b"[rank5]: Traceback (most recent call last):", b'[rank5]:   File "/opt/train.py", line 7, in step',
             b"[rank5]: KeyError: 'shard_12'", b""]  # fmt: skip
    read = read_log(io.BytesIO(b"\n".join([*lines[:-2], *broke])), emitter="log", run="r")
    incidents = view_of(read.facts).incidents
    assert [(each.attempts, each.verdict.cause, each.verdict.culprit_rank) for each in incidents] == [
        ((0,), "gpu_oom", 3), ((1,), "user_exception", 5),
    ]  # fmt: skip
    whole = read_log(io.BytesIO(b"\n".join(lines)), emitter="log", run="r")
    assert [each.attempts for each in view_of(whole.facts).incidents] == [(0,)]


@pytest.mark.parametrize(
    ("text", "told", "step", "seconds"),
    [
        (" iteration       10/  500000 | consumed samples: 2560 | elapsed time per iteration (ms): 5000.0 |",
         Told.STEP, 10, 5.0),
        ("Training epoch 1, iteration 0/99 | lr: 1.9e-06 | global_step: 100 | reduced_train_loss: 1.3 | "
         "train_step_timing in s: 7.126", Told.STEP, 101, 7.126),
        ("iter 250: loss 3.1122, time 412.53ms, mfu 31.20%", Told.STEP, 251, 0.41253),
        ("steps: 40 loss: 4.2211 iter time (s): 1.250 samples/sec: 12.8", Told.STEP, 40, 1.25),
        ("Epoch 1:  30%|███       | 30/100 [00:15<00:35,  2.00it/s, v_num=0, train_loss=0.5]", Told.STEP, 130, None),
        ("Epoch 0: : 1%| | 100/9999 [02:00<3:18:00, reduced_train_loss=6.1, global_step=99.00, consumed_samples=1, "
         "train_step_timing in s=1.20]", Told.STEP, 100, 1.2),
        ("Epoch 1/2  ━━━━━━━━━╸          5/10 0:00:01 • 0:00:02 4.72it/s train_loss: 0.009", Told.STEP, 15, None),
        ("[train] cycle=0 step=5 loss=0.12", Told.STEP, 5, None),
        ("Step 510, Loss: 3.1416, Wall: 190s, Restarts: 1", Told.STEP, 510, None),
        ("train | step 1200/50000 | loss 2.31 | step_time: 512.0 ms | lr 3e-4", Told.STEP, 1200, 0.512),
        ('{"step": 77, "loss": 1.25, "tokens_per_sec": 100}', Told.STEP, 77, None),
        ("[train] checkpoint step 15 finalized", Told.SAVED, 15, None),
        ("Saved checkpoint to /ckpt/step_900", Told.SAVED, 900, None),
        ("[train] rank=1 cycle=1 resumed from step 10", Told.LOADED, 10, None),
        ("[default0]:2026-11-28 10:00:13 INFO Resumed from checkpoint step_24 in 8.0 s", Told.LOADED, 24, 8.0),
        ("Resuming from checkpoint /ckpt/step_24", Told.RESUMING, 24, None),
        ("INFO train: Checkpoint saved to ck/latest.pt (step 13)", Told.SAVED, 13, None),
        ("checkpoint saved at step 13", Told.SAVED, 13, None),
        ("Saved checkpoint to ck/latest.pt", Told.SAVED, None, None),
        ("Loading checkpoint from ck/latest.pt", Told.LOADING, None, None),
        ("Loading checkpoint from ck/step_10.pt", Told.LOADING, 10, None),
        ("Loaded checkpoint from ck/latest.pt", Told.LOADED, None, None),
        ("Loaded checkpoint from ck/latest.pt (step 10)", Told.LOADED, 10, None),
        ("Saved checkpoint to /ckpt/step_8 in 400 ms", Told.SAVED, 8, 0.4),
        ("Restoring states from the checkpoint path at runs/step=800.ckpt", Told.LOADING, 800, None),
        ("Restored all states from the checkpoint at runs/epoch=1-step=800-v1.ckpt", Told.LOADED, 800, None),
        ("restoring from this run's directory step 2", Told.RESUMING, 3, None),
        ("    load-checkpoint ................................: (9000.12, 9002.50)", Told.LOAD_TOOK, None, 9.0025),
        ("Configuration saved in out/checkpoint-15/config.json", Told.STILL_SAVING, 15, None),
        ("[NeMo I 2026-02-17 17:58:40 nemo_logging:393] Global Checkpoint Save : Rank: 0 : Iteration: 24 : Start time: "
         "1771351120.135s : Save duration: 25.537s", Told.STALLED, 24, 25.537),
        ("[NeMo I 2025-04-11 14:46:18 nemo_logging:393] Global Checkpoint Load : Rank : 0 : Start time : "
         "1744407969.270s : Time spent in load_checkpoint: 9.712s", Told.LOADED, None, 9.712),
        ("I0519 09:40:54.181736 1 checkpointer.py:277] Restoring checkpoint from gs://b/2026/run/checkpoints/20.",
         Told.LOADING, 20, None),
        ("Finished restoring checkpoint in 6.74 seconds from /assets/pi0/16800/params.", Told.LOADED, 16800, 6.74),
        ("[process=0] [sync] Finished load in 0.03 seconds @ /out/20", Told.LOADED, 20, 0.03),
        ("[process=0] [sync] Finished save in 3.89 seconds @ /out/5", Told.SAVED, 5, 3.89),
        ("[process=0] Saving checkpoint at step 20", Told.SAVING, 20, None),
        ("[process=0] [async] Finished save (blocking + background) in 0.06 seconds @ /out/20", Told.SAVED, 20, None),
        ("[process=0] [async] Finished blocking save in 1.55 seconds. Continuing save @ /out/20.", Told.SCHEDULED, 20,
         1.55),
        ("[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `/ckpt/pi0/9999`.",
         Told.SAVED, 9999, None),
        ("Finished asynchronous save (blocking + background) in 192.92 seconds to /ckpt/20.", Told.SAVED, 20, None),
    ],
)  # fmt: skip
def test_a_line_of_progress_is_read(text: str, told: Told, step: int | None, seconds: float | None):
    assert may_tell(text.encode()), "a reader of whole logs would not look at it"
    found = told_by(text)
    assert (found.told, found.step) == (told, step)
    if seconds is not None:
        assert found.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "Loading checkpoint shards: 100%",
        "Checkpoints are saved to ck/ every 100 steps",
        "Checkpoint not saved: disk full",
        "RuntimeError: loading checkpoint from ck/latest.pt: file is truncated",
        "failed: checkpoint saved to ck/latest.pt cannot be read",
    ],
)
def test_what_only_speaks_of_checkpoints_is_no_save_and_no_load(text: str):
    assert read_progress(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Gradient Accumulation steps = 4, loss scale 1",
        "warmup_steps: 2000, lr: 0.1",
        "save_interval=500 loss=mse",
        "RuntimeError: injected exception at step 7",
        "Step 3: install the package",
        "loss is NaN at step 100",
        "INJECTING FAULT at step 100! type=oom",
        "val step 10 loss 3.3",
        "",
    ],
)
def test_a_setting_and_an_error_are_no_progress(text: str):
    assert [told for told, _ in read_progress(text) if told.told is Told.STEP] == []


@given(
    st.text(
        st.sampled_from("step iteration=:/|[]%0123456789.,<\r checkpoint saved loss \x1b\0é"), max_size=300
    )
)  # fmt: skip
def test_whatever_a_line_holds_it_is_read_or_passed_over(text: str):
    for told, part in read_progress(text):
        assert isinstance(told.told, Told)
        assert part in text
        assert told.step is None or told.step >= 0


def test_lines_of_nemo_without_a_stamp_are_counted_on_by_the_times_they_tell():
    line = (
        "[default0]:Training epoch 0, iteration {0}/99 | global_step: {0} | train_step_timing in s: 2.0 | consumed: 5\n"
    )
    log = "[default0]:[NeMo I 2026-11-20 10:00:00 nemo_logging:393] Experiments will be logged at /r\n"
    log += "".join(line.format(step) for step in range(3))
    log += "[default0]:[NeMo I 2026-11-20 10:01:00 nemo_logging:393] Validated\n" + line.format(3)
    facts = read_log(io.BytesIO(log.encode()), emitter="e", run="r").facts
    told = [
        (fact.first_step, fact.durations_us, fact.at % 10**12 // 10**9) for fact in facts if isinstance(fact, Steps)
    ]
    assert [(first, len(durations)) for first, durations, _ in told] == [(1, 3), (4, 1)]
    assert [at for *_, at in told] == [806, 862]


def test_what_is_restored_was_durable_by_then():
    saved = "I1120 10:0{0}:00.000000 1 max_logging.py:17] {1}\n".format
    log = "".join(saved(minute, f"completed step: {minute}, seconds: 60.0, loss: 9.0") for minute in range(3))
    log += saved(2, "saved a checkpoint at step 2") + saved(3, "completed step: 3, seconds: 60.0, loss: 9.0")
    log += saved(9, "restoring from this run's directory step 2") + saved(
        9, "completed step: 3, seconds: 9.0, loss: 9.0"
    )
    facts = read_log(io.BytesIO(log.encode()), emitter="e", run="r", year=2026).facts
    stages = [(fact.step, fact.stage.value, fact.restart) for fact in facts if isinstance(fact, CheckpointMoment)]
    assert stages == [(3, "captured", 0), (3, "durable", 1)]


CLOSING = (
    "W1120 10:00:30.000000 1 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 9 closing signal "
    "SIGTERM\n"
)
DEATH = (
    "W1120 10:00:29.900000 1 torch/distributed/elastic/agent/server/api.py:725] Received 15 death signal, shutting "
    "down workers\n"
)
STEP = "[2026-11-20 {}] iteration {}/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |\n"


def slurm(why: str) -> str:
    return f"slurmstepd: error: *** STEP 4242.0 ON gpu-1 CANCELLED AT 2026-11-20T10:00:30 DUE TO {why} ***\n"


@pytest.mark.parametrize(
    ("tail", "cause", "scope"),
    [
        ("", "unknown", "in_job"),
        (CLOSING, "unknown", "in_job"),
        (DEATH + CLOSING, "sigterm", "resubmit"),
        (slurm("PREEMPTION") + DEATH + CLOSING, "preemption", "requeue"),
        (DEATH + CLOSING + slurm("PREEMPTION"), "preemption", "requeue"),
        (DEATH + CLOSING + slurm("TIME LIMIT"), "time_limit", "resubmit"),
    ],
)
@pytest.mark.parametrize("is_followed", [False, True])
def test_a_launcher_that_only_tells_of_an_end_does_not_hide_what_begins_after_it(
    tail: str, cause: str, scope: str, is_followed: bool, tmp_path: Path
):
    before = STEP.format("10:00:02", 10) + STEP.format("10:00:22", 20)
    after = STEP.format("10:10:22", 10) + STEP.format("10:10:42", 20) + STEP.format("10:11:02", 30)
    if is_followed:
        log = tmp_path / "train.log"
        log.write_text(before + tail)
        source = LauncherSource(node="vm", run="r", log=log, zone_seconds=0)
        first = source.poll(None)
        with log.open("a") as file:
            file.write(after)
        facts = [*first.facts, *source.finish(first.cursor).facts]
    else:
        content = io.BytesIO((before + tail + after).encode())
        facts = read_log(content, emitter="e", run="r", year=2026).facts
    view = view_of(facts)
    assert [attempt.scope for attempt in view.attempts] == [None, scope]
    (incident,) = view.incidents
    assert (incident.verdict.cause, incident.lost_steps) == (cause, 11)


NEMO_LINE = (
    "Training epoch 0, iteration {0}/999 | lr: 1e-05 | global_step: {0} | reduced_train_loss: 3.2 | "
    "train_step_timing in s: 2.5\n"
)
MAXTEXT_LINE = "completed step: {0}, seconds: 2.500, TFLOP/s/device: 17.022, total_weights: 196608, loss: 12.038\n"
MEGATRON_LINE = (
    " iteration {0:8d}/  5000 | consumed samples: {0} | elapsed time per iteration (ms): 2500.0 | loss: 3.1 |\n"
)


@pytest.mark.parametrize(
    ("line", "steps", "told"),
    [
        (NEMO_LINE, range(400), [(1, 400)]),  # it counts from 0
        (NEMO_LINE, [*range(100), *range(50, 200)], [(1, 100), (51, 200)]),
        (MEGATRON_LINE, range(10, 1001, 10), [(1, 1000)]),
        (MEGATRON_LINE, range(501, 601), [(501, 600)]),
        (MAXTEXT_LINE, range(10), [(1, 10)]),
    ],
)
def test_steps_that_nothing_dates_end_when_the_file_was_written_and_took_what_their_lines_tell(line, steps, told):
    """What stood still between them, as at the restart of the second, is not known and takes no time."""
    text = "".join(line.format(step) for step in steps)
    text += 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 5\n'
    written = 1_793_700_200 * 10**9
    read = read_log(io.BytesIO(text.encode()), emitter="log", run="r", written_at=written)
    by_attempt: dict[int, list[Steps]] = {}
    for fact in read.facts:
        if isinstance(fact, Steps):
            by_attempt.setdefault(fact.restart or 0, []).append(fact)
    ends = [(each[0].first_step, each[-1].first_step + each[-1].step_count - 1) for each in by_attempt.values()]
    assert ends == told
    length = sum(last - first + 1 for first, last in told) * 2_500_000_000
    facts = [fact for each in by_attempt.values() for fact in each]
    assert sum(sum(fact.durations_us) for fact in facts) * 1000 == length == read.counted_ns
    assert (min(fact.start for fact in facts), max(fact.at for fact in facts)) == (written - length, written)
    assert [fact.at for fact in read.facts if isinstance(fact, Evidence)] == [written]
    assert (read.is_stamped, read.steps_undated) == (False, 0)
    without = read_log(io.BytesIO(text.encode()), emitter="log", run="r")
    assert not [fact for fact in without.facts if isinstance(fact, Steps)]


def test_of_a_bar_that_is_printed_a_thousand_times_all_steps_are_told():
    text = "".join(
        f"Epoch 0: :  {done // 10}%|#         | {done}/1000 [{done // 240:02d}:{done // 4 % 60:02d}<01:00, "
        f"global_step={done - 1}.0, train_step_timing in s=0.249]\n"
        for done in range(1, 1001)
    )
    written = 1_793_700_200 * 10**9
    read = read_log(io.BytesIO(text.encode()), emitter="log", run="r", written_at=written)
    steps = [fact for fact in read.facts if isinstance(fact, Steps)]
    assert sum(fact.step_count for fact in steps) == 1000
    assert (steps[-1].at, read.steps_undated, read.bars_dated_back) == (written, 0, 500)  # those that are kept


@pytest.mark.parametrize(
    ("line", "told", "step"),
    [
        ("completed step: 4, seconds: 5.669, TFLOP/s/device: 134.884, loss: 11.110", Told.STEP, 5),
        ("[Rampup Batch Size Phase], completed step: 4, seconds: 5.669, total_weights: 8, loss: 11.1", Told.STEP, 5),
        ("completed profiler activation/deactivation step: 4, total_weights: 8, loss: 11.110", Told.STEP, 5),
        ("saved a checkpoint at step 4", Told.SCHEDULED, 5),
        ("Started an asynchronous checkpoint save for step 4", Told.SCHEDULED, 5),
        ("Saved a checkpoint at step 4.", Told.SAVED, 5),
        ("restoring from this run's directory step 4", Told.RESUMING, 5),
        ("restoring from this run's directory latest step           4", Told.RESUMING, 5),
    ],
)
def test_the_words_of_maxtext_from_its_first_release_to_the_latest(line: str, told: Told, step: int):
    assert may_tell(line.encode())
    (found,) = [each for each, _ in read_progress(line)]
    assert (found.told, found.framework, found.step) == (told, "maxtext", step)


LAST_SAVE = (
    "[before the start of training step] datetime: 2026-11-30 08:00:00\n"
    " [2026-11-30 08:00:20] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 6.1E+00 |\n"
    "saving checkpoint at iteration      10 to /ckpt\n"
    "  successfully saved checkpoint from iteration      10 to /ckpt\n"
)
BROKE = (
    "[rank3]: Traceback (most recent call last):\n"
    '[rank3]:   File "/opt/m/t.py", line 1, in step\n'
    "[rank3]:     x()\n"
    "[rank3]: RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n"
)
WENT_ON = " [2026-11-30 08:00:45] iteration 20/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 6.1E+00 |\n"
WATCHDOG = (
    "[rank0]:[E1130 08:10:20.000000000 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE) ran for 600077 milliseconds before timing out.\n"
)
AGAIN = (
    "using world size: 8, data-parallel size: 1,\n"
    " loading distributed checkpoint from /ckpt at iteration 10\n"
    "  successfully loaded checkpoint from /ckpt at iteration 10\n"
    "[before the start of training step] datetime: 2026-11-30 08:02:20\n"
    " [2026-11-30 08:02:40] iteration 20/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 6.1E+00 |\n"
)


def whole(text: str, written_at: int | None = None) -> list[Fact]:
    return read_log(io.BytesIO(text.encode()), emitter="e", run="r", written_at=written_at, year=2026).facts


def checkpoints_of(facts: list[Fact]) -> list[Checkpoint]:
    fold = RunFold("r")
    fold.add(facts)
    fold.view(max(fact.at for fact in facts))
    return list(fold.checkpoints)


@pytest.mark.parametrize(
    ("after", "blocked"),
    [("", None), (BROKE, None), (WENT_ON, 5_000_000), (WATCHDOG, None), (AGAIN, None), (BROKE + AGAIN, None)],
)
def test_the_last_save_of_a_log_is_durable_though_its_line_has_no_stamp(after: str, blocked: int | None):
    """How long training waited for it is told only where it went on."""
    facts = whole(LAST_SAVE + after)
    (checkpoint,) = checkpoints_of(facts)
    assert checkpoint.durable_at == 1796025620 * 10**9 + (blocked or 0) * 1000
    assert checkpoint.blocked_ns == (None if blocked is None else blocked * 1000)
    before = {(fact.emitter, fact.seq): fact for fact in whole(LAST_SAVE) if isinstance(fact, CheckpointMoment)}
    assert all(before.get((fact.emitter, fact.seq), fact) == fact for fact in facts)


def bar_of(step: int, clock: int, total: int = 40) -> str:
    return f" {100 * step // total}%|#| {step}/{total} [{clock // 60:02d}:{clock % 60:02d}<01:00, 2.00s/it]"


HF_BEGINS = ("***** Running training *****", "  Total optimization steps = 40")
HF_CRASH = (
    "Traceback (most recent call last):",
    '  File "run_clm.py", line 9, in <module>',
    "RuntimeError: NaN in loss",
)
HF_RESUMES = (*HF_BEGINS, "  Continuing training from global step 20")


def followed(log: Path, *looks: tuple[float, str]) -> list[Fact]:
    """Facts of a log that grows: each look comes so many seconds after the first, and finds that much more."""
    source = LauncherSource(node="vm", run="r", log=log, zone_seconds=0)
    cursor, facts = None, []
    begins = time.time() - 12
    for seconds, more in looks:
        with log.open("a") as file:
            file.write(more)
        os.utime(log, (begins + seconds, begins + seconds))
        polled = source.poll(cursor)
        cursor = polled.cursor
        facts += [replace(fact, at=fact.at - round(begins * 1e9)) for fact in polled.facts]
    return facts


def test_a_log_that_grows_and_tells_no_time_is_dated_by_when_it_was_read(tmp_path: Path, caplog):
    facts = followed(
        tmp_path / "train.log", (0, "step 1 loss=0.5\n"), (2, "step 2 loss=0.5\nstep 3 loss=0.5\n"),
        (4, "step 4 loss=0.5\n"), (6, "saved checkpoint step 4\n"), (8, "step 5 loss=0.5\n"),
        (10, "step 6 loss=0.5\n"),
    )  # fmt: skip
    steps = {fact.first_step + fact.step_count - 1: round(fact.at / 1e9) for fact in facts if isinstance(fact, Steps)}
    assert (steps[2], steps[4], steps[5], steps[6]) == (2, 4, 8, 10)
    (saved,) = [fact for fact in facts if isinstance(fact, CheckpointMoment)]
    assert (saved.step, round(saved.at / 1e9)) == (4, 6)
    assert distinct(facts)
    assert caplog.text.count("dated by when it was read") == 1


def test_of_a_log_that_tells_times_nothing_is_dated_by_when_it_was_read(tmp_path: Path):
    stamped = (
        " [2026-11-30 08:00:20] iteration 10/ 200 | elapsed time per iteration (ms): 2000.0 | lm loss: 6.1E+00 |\n"
    )
    facts = followed(tmp_path / "train.log", (0, stamped), (2, "step 11 loss=0.5\n"))
    assert {fact.first_step + fact.step_count - 1 for fact in facts if isinstance(fact, Steps)} <= {10}


def test_a_followed_log_that_holds_only_an_error_ends_once_it_was_silent_for_an_hour(tmp_path: Path):
    crash = "\n".join((*HF_CRASH, ""))
    assert not any(isinstance(fact, RunEnded) for fact in followed(tmp_path / "young.log", (0, crash), (0, "")))
    facts = followed(tmp_path / "old.log", (-7200, crash), (-7200, ""), (-7200, ""))
    (ended,) = [fact for fact in facts if isinstance(fact, RunEnded)]
    assert (ended.outcome, round(ended.at / 1e9)) == ("failed", -7200)
    assert distinct(facts)
    view = view_of([replace(fact, at=fact.at + 1796025600 * 10**9) for fact in facts])
    assert [each.verdict.cause for each in view.incidents] == ["loss_anomaly"]


def lines_of(name: str, *, without: str = "$") -> list[str]:
    return [line for line in (LOGS / name).read_text().splitlines() if without not in line]


def behind(lines: list[str], sign: str, *more: str) -> str:
    at = next(number for number, line in enumerate(lines) if sign in line) + 1
    return "\n".join([*lines[:at], *more, *lines[at:], ""])


TIMERS = (
    "(min, max) time across ranks (ms):\n    save-checkpoint ................................: (4201.33, 4230.80)\n"
)
TITAN = lines_of("torchtitan.log", without="aving the checkpoint")
DEEPSPEED_OF_TWO = "[2026-11-03 10:00:00,500] [INFO] [launch.py:146:main] nnodes=1, num_local_procs=2, node_rank=0"
MAXTEXT = "I1103 10:01:{} 1 m.py:1] "


@pytest.mark.parametrize(
    ("text", "saves", "outcome"),
    [
        # Megatron's timer, also where a step tells a time that holds the save, and where a crash follows
        (LAST_SAVE + TIMERS, [(10, "sync", 4.231, True)], None),
        (LAST_SAVE + TIMERS + BROKE + AGAIN, [(10, "sync", 4.231, True)], None),
        (LAST_SAVE + TIMERS + WENT_ON.replace("08:00:45", "08:00:40"), [(10, "sync", 4.231, True)], None),
        # words of others in a log of torchtitan; how long a save of steps that tell no time blocked is not known
        (behind(TITAN, "step: 20", "[rank0]:Finished saving the checkpoint in 1.2 seconds"),
         [(20, "sync", 1.2, True)], "completed"),
        (behind(TITAN, "step: 20", "saving checkpoint at iteration      20 to /ckpt in torch_dist format",
                "  successfully saved checkpoint from iteration      20 to /ckpt"),
         [(20, None, None, True)], "completed"),
        (behind(TITAN, "step: 20", "[rank0]:2026-11-03 10:01:31,000 INFO saved checkpoint step-20"),
         [(20, None, None, True)], "completed"),
        # a save of MaxText waits for the one before; of the last nobody says that it is over
        ("".join(f"{MAXTEXT.format(f'{20 + 2 * done}.000000')}completed step: {done}, seconds: 2.000, loss: 10.788\n"
                 + f"{MAXTEXT.format(f'{20 + 2 * done}.500000')}saved a checkpoint at step {done + 1}\n" * (done % 2)
                 for done in range(6)),
         [(3, "async", None, True), (5, "async", None, True), (7, "async", None, False)], None),
        # Lightning says before it saves that it will
        ("GPU available: True (cuda), used: True\n" + bars(0) + "Epoch 0, global step 50: 'val_loss' reached 0.50000 "
         "(best 0.50000), saving model to '/ckpt/epoch=0-step=50.ckpt' as top 1\n" + bars(1)
         + "Epoch 1, global step 100: 'val_loss' was not in top 1\n`Trainer.fit` stopped: `max_epochs=2` reached.\n",
         [(50, None, None, True)], "completed"),
        # DeepSpeed's launcher: the last of its processes ended well, also where another attempt failed
        (behind(lines_of("deepspeed.log"), "cdb=None", DEEPSPEED_OF_TWO)
         + "".join(f"[2026-11-03 10:07:0{local},000] [INFO] [launch.py:351:main] Process {local} exits successfully.\n"
                   for local in range(2)), [(20, "sync", 12.0, True)], "completed"),
        (behind(lines_of("deepspeed.log"), "cdb=None", DEEPSPEED_OF_TWO)
         + "[2026-11-03 10:07:00,000] [INFO] [launch.py:351:main] Process 0 exits successfully.\n",
         [(20, "sync", 12.0, True)], None),
    ],
)  # fmt: skip
def test_saves_and_ends_as_each_framework_tells_them(text: str, saves: list[tuple[object, ...]], outcome: str | None):
    facts = whole(text, 1796025600 * 10**9)
    assert distinct(facts)
    assert [
        (one.step, one.mode, None if one.blocked_ns is None else round(one.blocked_ns / 1e9, 3), bool(one.durable_at))
        for one in checkpoints_of(facts)
    ] == saves
    assert view_of(facts).outcome == outcome


def test_a_step_that_maxtext_saved_before_it_told_of_it_was_done():
    """It tells of a step when the next is under way: where it dies in between, the save is the last word of it."""
    steps = "".join(
        f"{MAXTEXT.format(f'{20 + 2 * done}.000000')}completed step: {done}, seconds: 2.000, loss: 10.788\n"
        for done in range(2)
    )
    saved = f"{MAXTEXT.format('25.000000')}saved a checkpoint at step 3\n"
    again = saved.replace("10:01", "10:05").replace("saved a checkpoint at", "restoring from this run's directory")
    anew = "I1103 10:05:12.000000 1 m.py:1] System Information: Jax Version: 0.4.35\n"
    more = "I1103 10:05:30.000000 1 m.py:1] completed step: 4, seconds: 2.000, loss: 10.788\n"
    view = view_of(whole(steps + saved + "\n".join((*HF_CRASH, "")) + anew + again + more))
    (incident,) = view.incidents
    assert (view.attempts[0].last_step, incident.lost_steps, view.high_water_step) == (4, 0, 5)
    assert view.data_quality.contradictions == ()


def test_a_load_lasts_no_longer_than_from_its_first_line_to_its_last():
    """No stamp stands between the last step and the loop: queue, start and load share that time, unexplained."""
    told = seconds_by_phase(view_of(whole(LAST_SAVE + BROKE + AGAIN)))
    assert "loading" not in told
    clock = "[after megatron is initialized] datetime: 2026-11-30 08:01:50\n"
    world, load = AGAIN.split("\n", 1)
    told = seconds_by_phase(view_of(whole(f"{LAST_SAVE}{BROKE}{world}\n{clock}{load}")))
    assert told["loading"] == 30


def nemo(second: int, words: str) -> str:
    return f"[NeMo I 2026-11-20 10:{second // 60:02d}:{second % 60:02d} nemo_logging:393] {words}\n"


def nemo_steps(second: int, first: int, last: int) -> str:
    """Steps of five seconds each, as NeMo 2 numbers them: from 0."""
    return "".join(
        f"2026-11-20 10:{at // 60:02d}:{at % 60:02d} Training epoch 0, iteration {step - 1}/99 | lr: 1e-05 | "
        f"global_step: {step - 1} | reduced_train_loss: 3.2 | train_step_timing in s: 5.0\n"
        for step, at in zip(range(first, last + 1), range(second + 5, 10**6, 5), strict=False)
    )


def nemo_save(second: int, iteration: int, *, is_async: bool = False) -> str:
    name = f"/ckpt/model_name=0--val_loss=0.00-step={iteration}-consumed_samples=8.0.ckpt"
    done = nemo(second + is_async * 3, f"Successfully saved checkpoint from iteration {iteration:7d} to {name}")
    return (
        nemo(second, f"Global Checkpoint Save : Rank: 0 : Iteration: {iteration} : Start time: 1763632900.000s : Save "
             "duration: 4.000s")
        + (nemo(second, f"Scheduled async checkpoint save for {name}") if is_async else "") + done
    )  # fmt: skip


NEMO_LOADED = nemo(
    140, "Global Checkpoint Load : Rank : 0 : Start time : 1763633010.000s : Time spent in load_checkpoint: 10.000s"
)
NEMO_NAMED = "{} from the checkpoint{} at /ckpt/model_name=0--val_loss=0.00-step=3-consumed_samples=8.0.ckpt"
NEMO_RUN = nemo(0, "Experiments will be logged at /results") + nemo_steps(30, 1, 4)


def maxtext(second: int, words: str) -> str:
    return f"I1120 10:{second // 60:02d}:{second % 60:02d}.000000 1 m.py:1] {words}\n"


def maxtext_steps(second: int, first: int, last: int) -> str:
    return "".join(
        maxtext(at, f"completed step: {step}, seconds: 7.000, loss: 8.1")
        for step, at in zip(range(first, last + 1), range(second + 7, 10**6, 7), strict=False)
    )


ORBAX = maxtext(130, "Restoring checkpoint from gs://b/2026/checkpoints/3.") + maxtext(
    140, "Finished restoring checkpoint in 10.00 seconds from gs://b/2026/checkpoints/3."
)
REMARK = "restoring from this run's directory step 3"
MAXTEXT_RUN = maxtext(0, "System Information: Jax Version: 0.5") + maxtext_steps(30, 0, 5)
MAXTEXT_SAVE = maxtext(73, "saved a checkpoint at step 3")
MAXTEXT_BANNER = maxtext(125, "System Information: Jax Version: 0.5")
MEGATRON_LOAD = (
    "(min, max) time across ranks (ms):\n    load-checkpoint ................................: (9000.12, 9002.50)\n"
)


def home_made(second: int, words: str) -> str:
    return f"[default0]:2026-11-20 10:{second // 60:02d}:{second % 60:02d} INFO {words}\n"


def home_made_steps(second: int, first: int, last: int) -> str:
    return "".join(
        home_made(at, f"step={step} loss=2.1 lr=1e-4")
        for step, at in zip(range(first, last + 1), range(second + 3, 10**6, 3), strict=False)
    )


LIGHTNING = "GPU available: True (cuda), used: True"


def stamped(second: float, words: str) -> str:
    return f"2026-11-20T10:{int(second) // 60:02d}:{second % 60:06.3f}Z {words}\n"


def stamped_epochs(second: int, first: int, last: int, until: int) -> str:
    """Bars of Lightning: ten steps of two seconds an epoch, the last of them as far as `until`; a save behind each."""
    lines, at = [], second
    for epoch in range(first, last):
        for done in range(1, 1 + (10 if epoch < last - 1 else until)):
            at += 2
            lines.append(stamped(at, f"Epoch {epoch}: {10 * done}%|#| {done}/10 [00:{2 * done:02d}<00:01, 0.50it/s]"))
        if done == 10:
            lines.append(
                stamped(at, f"Epoch {epoch}, global step {10 * epoch + 10}: 'val_loss' reached 0.5 (best 0.5), saving "
                        f"model to '/ckpt/epoch={epoch}.ckpt' as top 1")
            )  # fmt: skip
    return "".join(lines) + (stamped(at, "`Trainer.fit` stopped: `max_epochs=2` reached.") if until == 10 else "")


def american(second: int, words: str, logger: str = "__main__") -> str:
    return f"11/20/2026 10:{second // 60:02d}:{second % 60:02d} - INFO - {logger} - {words}\n"


def american_bars(_second: int, first: int, last: int, clock: int = 2) -> str:
    """Two seconds a step; nothing stands in front, and their clock begins with the first."""
    return "".join(f"{bar_of(step, clock + 2 * number)}\n" for number, step in enumerate(range(first, last + 1)))


HOME_MADE = home_made(0, "starting training") + home_made_steps(10, 1, 6)


@pytest.mark.parametrize(
    ("text", "saves", "loads", "seconds"),
    [
        # NeMo 2: a save that training waits for, and how long it was; one that goes on behind it
        (NEMO_RUN + nemo_save(54, 3), [(4, "sync", 4.0, True)], [], {"saving": 4}),
        (NEMO_RUN + nemo_save(54, 4), [(4, "sync", 4.0, True)], [], {"saving": 4}),  # at the end
        (NEMO_RUN + nemo_save(54, 3, is_async=True), [(4, "async", 4.0, True)], [], {"saving": 4}),
        # … and a load: its line names no step, the first step does, or who asked for it
        (NEMO_RUN + nemo_save(54, 3) + nemo_steps(54, 5, 6) + NEMO_LOADED + nemo_steps(150, 5, 9),
         [(4, "sync", 4.0, True)], [(1, 4, 10.0)], {"loading": 10, "saving": 4, "recomputing": 10}),
        (NEMO_RUN + nemo_save(54, 3) + nemo_steps(54, 5, 6) + nemo(130, NEMO_NAMED.format("Restoring states", " path"))
         + NEMO_LOADED + nemo(141, NEMO_NAMED.format("Restored all states", "")) + nemo_steps(150, 5, 9),
         [(4, "sync", 4.0, True)], [(1, 4, 10.0)], {"loading": 10, "saving": 4, "recomputing": 10}),
        (nemo(100, "Experiments") + NEMO_LOADED + nemo_steps(150, 1, 3), [], [], {"loading": 10}),  # of others
        # Orbax times the load of MaxText; the remark stands before it or, without a stamp, behind, or alone
        *((MAXTEXT_RUN + MAXTEXT_SAVE + "\n".join((*HF_CRASH, "")) + MAXTEXT_BANNER + load + maxtext_steps(150, 4, 9),
           [(4, "async", None, True)], [(1, 4, length)], {"loading": length or None, "recomputing": 14})
          for load, length in ((ORBAX, 10), (maxtext(130, REMARK) + ORBAX, 10), (f"{ORBAX}{REMARK}\n", 10),
                               (f"{REMARK}\n", 0), (maxtext(130, REMARK), 0))),
        (MAXTEXT_RUN + maxtext(73, "Finished blocking save in 1.00 seconds. Continuing to write to gs://b/checkpoints/5.")
         + maxtext(80, "[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to "
                   "`gs://b/checkpoints/5`."), [(6, "async", 1.0, True)], [], {"saving": 1}),
        # … as a real run of it writes them
        ((LOGS / "whole" / "maxtext_orbax_0.12.8.log").read_text(),
         [(1, "async", 0.009, True), (11, "async", 0.003, True), (21, "async", 0.01, True), (31, "async", 0.026, True)],
         [(1, 21, 0.029559)], {"loading": 0.03, "saving": 0.04, "recomputing": 0.7}),
        # … into whatever folder
        ((LOGS / "whole" / "maxtext_orbax_0.12.8.log").read_text().replace("/ckpt/", "/out/run/"),
         [(1, "async", 0.009, True), (11, "async", 0.003, True), (21, "async", 0.01, True), (31, "async", 0.026, True)],
         [(1, 21, 0.029559)], {"loading": 0.03, "saving": 0.04, "recomputing": 0.7}),
        # Megatron's timer is how long the load took, where nothing else tells
        (LAST_SAVE + TIMERS + BROKE + AGAIN.replace("[before", MEGATRON_LOAD + "[before"), [(10, "sync", 4.231, True)],
         [(1, 10, 9.0025)], {"loading": 9.0025}),
        (LAST_SAVE.replace("successfully saved checkpoint from", "scheduled an async checkpoint save at") + TIMERS
         + WENT_ON, [(10, "async", 4.231, False)], [], {"saving": 4.231}),
        # Lightning goes on from a checkpoint whose name tells no step: the next epoch does
        (stamped_epochs(10, 0, 2, 6) + stamped(80, LIGHTNING)
         + stamped(82, "Restoring states from the checkpoint path at /ckpt/last.ckpt")
         + stamped(89, "Restored all states from the checkpoint at /ckpt/last.ckpt")
         + stamped_epochs(95, 1, 2, 10), [(10, None, None, True), (20, None, None, True)], [(1, 10, 7.0)],
         {"loading": 7, "recomputing": 12}),
        # Accelerate stamps as the examples do, its bars do not; they began later than the loop was said to
        (american(8, HF_BEGINS[0]) + american(8, HF_BEGINS[1]) + american_bars(16, 1, 4)
         + american(24, "Saving current state to out/step_4", "accelerate.accelerator")
         + american(25, "Model weights saved in out/step_4/model.safetensors", "accelerate.checkpointing")
         + american(27, "Random states saved in out/step_4/random_states_0.pkl", "accelerate.checkpointing")
         + american_bars(27, 5, 6, 11) + "\n".join((*HF_CRASH, ""))
         + american(60, HF_BEGINS[0]) + american(60, HF_BEGINS[1]) + "Resuming from checkpoint step_4\n"
         + american(61, "Loading states from out/step_4", "accelerate.accelerator")
         + american(66, "All model weights loaded successfully", "accelerate.checkpointing")
         + american(67, "All random states loaded successfully", "accelerate.checkpointing") + american_bars(68, 5, 8),
         [(4, "sync", 3.0, True)], [(1, 4, 6.0)],
         {"loading": 6, "saving": 3, "recomputing": 4}),
        # a program that nobody knows says what it goes on from, and that it did
        (HOME_MADE + home_made(29, "Saved checkpoint to /ckpt/step_6 in 1.0s")
         + home_made_steps(29, 7, 8) + home_made(40, "Resuming from checkpoint /ckpt/step_6")
         + home_made_steps(50, 7, 9),
         [(6, "sync", 1.0, True)], [(1, 6, 0)], {"saving": 1, "recomputing": 6}),
        (HOME_MADE + home_made(29, "Saved checkpoint to /ckpt/step_6 in 1.0s")
         + home_made(40, "Resuming from checkpoint /ckpt/step_6")
         + home_made(48, "Resumed from checkpoint step_6 in 8.0 s") + home_made_steps(48, 7, 9),
         [(6, "sync", 1.0, True)], [(1, 6, 8.0)], {"loading": 8, "saving": 1, "training": 27}),
        (home_made(0, "Starting from step 0") + home_made_steps(10, 1, 3), [], [], {"loading": None, "training": 9}),
        # … in usual words: the line that ends it names no number, or another wording does
        *((HOME_MADE + home_made(29, "Saving checkpoint at step 6 to ck/latest.pt") + home_made(31, saved)
           + home_made_steps(31, 7, 8) + home_made(40, "Loading checkpoint from ck/latest.pt") + home_made(44, loaded)
           + home_made_steps(44, 7, 9),
           [(6, "sync", 2.0, True)], [(1, 6, 4.0)], {"loading": 4, "saving": 2, "recomputing": 6})
          for saved in ("Saved checkpoint to ck/latest.pt", "Checkpoint saved to ck/latest.pt (step 6)",
                        "checkpoint saved at step 6")
          for loaded in ("Resumed from checkpoint at step 6", "Loaded checkpoint at step 6",
                         "Loaded checkpoint from ck/latest.pt")),
        # … of which training went on meanwhile; and what it loads where no step comes again is something else
        (HOME_MADE + home_made(29, "Saving checkpoint at step 6 to ck/latest.pt") + home_made_steps(29, 7, 7)
         + home_made(33, "Saved checkpoint to ck/latest.pt") + home_made(34, "Loading checkpoint from ck/best.pt")
         + home_made(35, "Loaded checkpoint from ck/best.pt") + home_made_steps(35, 8, 9),
         [(6, None, None, True)], [], {"loading": None, "saving": None}),
        # … and of another rank's save it says nothing
        (HOME_MADE + home_made(29, "Saving checkpoint at step 6 to ck/latest.pt")
         + home_made(31, "Saved checkpoint to ck/latest.pt").replace("default0", "default1"),
         [(6, None, None, False)], [], {}),
        # Trainer saves at least until the last of its words; how long it blocked is not told
        ("".join(f"2026-11-20T10:00:{second:02d}.000000000Z stdout F {words}\n" for second, words in (
            (10, HF_BEGINS[0]), (10, HF_BEGINS[1]), (12, bar_of(1, 2)), (14, bar_of(2, 4)),
            (14, "Saving model checkpoint to out/checkpoint-2"),
            (16, "Configuration saved in out/checkpoint-2/config.json"),
            (18, "Model weights saved in out/checkpoint-2/model.safetensors"),
            (21, bar_of(3, 11)), (23, bar_of(4, 13)))),
         [(2, None, None, True)], [], {"saving": 4, "training": 9}),
    ],
)  # fmt: skip
def test_how_long_saves_and_loads_were_as_far_as_a_log_tells(
    text: str, saves: list[tuple[object, ...]], loads: list[tuple[int, int, float]], seconds: dict[str, float | None]
):
    """Whatever is said to have blocked training is its `saving` too, and the other way round."""
    facts = whole(text)
    assert distinct(facts)
    assert [
        (one.step, one.mode, None if one.blocked_ns is None else round(one.blocked_ns / 1e9, 3), bool(one.durable_at))
        for one in checkpoints_of(facts)
    ] == saves
    assert [
        (fact.restart, fact.step, (fact.end - fact.start) / 1e9) for fact in facts if isinstance(fact, CheckpointLoaded)
    ] == [(attempt, step, pytest.approx(length)) for attempt, step, length in loads]
    view = view_of(facts)
    assert view.data_quality.contradictions == ()
    told = seconds_by_phase(view)
    assert {phase: told.get(phase) for phase in seconds} == pytest.approx(seconds, abs=0.01)
    if all(blocked is None for _, _, blocked, _ in saves):
        assert view.checkpoint.blocked_ns is None


def test_what_slurm_says_behind_a_death_is_of_the_attempt_that_died():
    exited = (
        "E1130 08:01:00.818000 900 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) "
        "local_rank: 3 (pid: 1004) of binary: /usr/bin/python\n"
    )
    oom = "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"
    view = view_of(whole(LAST_SAVE + exited + oom + AGAIN))
    assert [(one.attempts, one.verdict.cause) for one in view.incidents] == [((0,), "host_oom")]


def test_a_process_of_lightning_that_was_killed_is_named():
    died = (
        "[rank: 1] Child process with PID 93 terminated with code -9. Forcefully terminating all other processes to "
        "avoid zombies\n"
    )
    view = view_of(whole(stamped_epochs(10, 0, 2, 6) + died + stamped(80, LIGHTNING) + stamped_epochs(95, 1, 2, 10)))
    assert [(one.verdict.cause, one.verdict.culprit_rank) for one in view.incidents] == [("sigkill", 1)]


def test_a_stamp_that_goes_back_does_not_begin_an_attempt_before_what_was_done():
    banner = "[2026-11-30 07:00:00] using world size: 8, data-parallel size: 1,\n"
    view = view_of(whole(LAST_SAVE + WATCHDOG + banner + AGAIN.split("\n", 1)[1].replace("08:02", "08:12")))
    assert view.data_quality.contradictions == ()
    assert (view.attempts[0].last_step, seconds_by_phase(view)["detecting"]) == (10, 600)


def hugging_face(steps: int, *, every: int, end: str) -> str:
    """What Trainer prints beside its bar: one state a step, two seconds each, and a save `every` so many steps."""
    lines = ["***** Running training *****", f"  Total optimization steps = {steps}"]
    for step in range(1, steps + 1):
        lines.append(
            f" {100 * step // steps}%|#| {step}/{steps} [{step // 30:02d}:{2 * step % 60:02d}<01:00, 2.00s/it]"
        )
        if step % every == 0:
            lines.append(f"Saving model checkpoint to out/checkpoint-{step}")
    return "\n".join([*lines, end, ""])


@pytest.mark.parametrize(("steps", "every"), [(60, 20), (800, 100)])
def test_saves_beside_bars_that_nothing_dates_are_durable_when_the_next_step_is_done(steps: int, every: int):
    end = "Training completed. Do not forget to share your model on huggingface.co/models =)"
    written_at = 1796025600 * 10**9
    facts = whole(hugging_face(steps, every=every, end=end), written_at)
    began = written_at - 2 * steps * 10**9
    assert [(one.step, one.started_at, one.durable_at) for one in checkpoints_of(facts)] == [
        (step, began + 2 * step * 10**9, min(began + 2 * (step + 1) * 10**9, written_at))
        for step in range(every, steps + 1, every)
    ]
    view = view_of(facts)
    assert view.outcome == "completed" and view.high_water_step == steps


def test_of_very_many_saves_beside_bars_that_nothing_dates_the_last_are_told():
    written_at = 1796025600 * 10**9
    checkpoints = checkpoints_of(whole(hugging_face(900, every=3, end=""), written_at))
    assert len(checkpoints) >= 50
    assert [(one.step, one.started_at) for one in checkpoints[-50:]] == [
        (step, written_at - 2 * (900 - step) * 10**9) for step in range(900 - 49 * 3, 901, 3)
    ]
    assert [one.durable_at is None for one in checkpoints[-50:]] == [*[False] * 49, True]


HF_DONE = "Training completed. Do not forget to share your model on huggingface.co/models =)"


@pytest.mark.parametrize("end", ["\n", "\r"])
@pytest.mark.parametrize("loads", [("Loading model from out/checkpoint-20.", *HF_RESUMES), HF_RESUMES, HF_BEGINS])
def test_bars_that_begin_again_behind_a_crash_are_another_attempt(end: str, loads: tuple[str, ...]):
    """Of bars that nothing dates, drawn line by line or over each other."""
    before = end.join(bar_of(step, 2 * step) for step in range(1, 28))
    after = end.join(bar_of(step, 2 * (step - 20)) for step in range(21, 41))
    written_at = 1796025600 * 10**9
    facts = whole("\n".join((*HF_BEGINS, before, *HF_CRASH, *loads, after, HF_DONE, "")), written_at)
    assert distinct(facts)
    view = view_of(facts)
    (incident,) = view.incidents
    assert incident.verdict.cause == "loss_anomaly"
    assert incident.started_at == written_at - 40 * 10**9
    assert view.outcome == "completed" and view.high_water_step == 40
    assert [fact.restart for fact in facts if isinstance(fact, Evidence) and "NaN" in fact.text] == [0]
    assert all(fact.restart == 1 for fact in facts if isinstance(fact, Evidence) and "completed" in fact.text)
    assert incident.is_down_untold and incident_figures(incident)["time_to_restart_seconds"] is None
    assert text.to_restart(incident) == text.UNKNOWN and view.recoveries_ns == () and view.recovery[0].restart is None
    assert any("how long the run was down is unknown" in note for note in view.data_quality.notes)


@pytest.mark.parametrize(
    ("begins", "resumes", "ends", "down", "is_untold"),
    [
        ("", "", "", 0, True),
        ("", "", "2026-11-30 08:10:00,000 INFO done", 0, True),
        # the loop began at a stamp; behind the crash the bar's clock is counted back
        ("[INFO|trainer.py:1618] 2026-11-30 08:00:00,000 >> ", "", "", 546, False),
        ("[INFO|trainer.py:1618] 2026-11-30 08:00:00,000 >> ", "", "2026-11-30 08:05:00,000 INFO done", 206, False),
        ("[INFO|trainer.py:1618] 2026-11-30 08:00:00,000 >> ", "[INFO|trainer.py:1618] 2026-11-30 08:03:00,000 >> ", "",
         126, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r"])
def test_how_long_a_run_was_down_between_bars_is_known_by_a_stamp_or_not_at_all(
    begins: str, resumes: str, ends: str, down: int, is_untold: bool, end: str
):
    before = end.join(bar_of(step, 2 * step) for step in range(1, 28))
    after = end.join(bar_of(step, 2 * (step - 20)) for step in range(21, 41))
    written_at = 1_796_026_240 * 10**9  # 08:10:40
    lines = (
        begins + HF_BEGINS[0],
        *HF_BEGINS[1:],
        before,
        *HF_CRASH,
        *(resumes + line for line in HF_RESUMES),
        after,
        ends,
    )
    view = view_of(whole("\n".join((*lines, "")), written_at))
    (incident,) = view.incidents
    assert incident.is_down_untold == is_untold
    assert round((incident.time_to_restart_ns + incident.untold_ns) / 1e9) == down


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_an_epoch_that_begins_again_behind_a_crash_is_redone(end: str):
    def epoch(number: int, steps: int) -> str:
        return end.join(f"Epoch {number}: {bar_of(step, step, 20)}" for step in range(1, steps + 1))

    crash = ("Traceback (most recent call last):", '  File "fit.py", line 9, in <module>', "ValueError: bad batch")
    restored = "Restored all states from the checkpoint at /ck/epoch=0-step=20.ckpt"
    done = "`Trainer.fit` stopped: `max_epochs=2` reached."
    lines = (epoch(0, 20), epoch(1, 7), *crash, restored, epoch(1, 20), done, "")
    view = view_of(whole("\n".join(lines), 1796025600 * 10**9))
    assert len(view.incidents) == 1 and view.outcome == "completed" and view.high_water_step == 40
    told = seconds_by_phase(view)
    assert {phase: told.get(phase) for phase in ("training", "recomputing", "detecting")} == {
        "training": 40, "recomputing": 7, "detecting": None,
    }  # fmt: skip


def distinct(facts: list[Fact]) -> bool:
    return len({(fact.emitter, fact.seq) for fact in facts}) == len(facts)


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.name)
def test_no_two_facts_of_a_log_have_the_same_number(log: Path):
    """A server keeps one of each number."""
    written_at = 1796025600 * 10**9
    assert distinct(
        read_log(io.BytesIO(log.read_bytes()), emitter="e", run="r", written_at=written_at, year=2026).facts
    )
    assert distinct(facts_of(log.name))


SOUP = st.one_of(
    st.tuples(st.integers(0, 45), st.integers(0, 200)).map(lambda told: bar_of(*told)),
    st.tuples(st.integers(0, 2), st.integers(0, 20)).map(
        lambda told: f"Epoch {told[0]}: {bar_of(told[1], told[1], 20)}"
    ),
    st.integers(0, 45).map("Saving model checkpoint to out/checkpoint-{}".format),
    st.integers(0, 45).map("Loading model from out/checkpoint-{}.".format),
    st.integers(0, 45).map("  Continuing training from global step {}".format),
    st.integers(0, 45).map("Restored all states from the checkpoint at /ck/epoch=0-step={}.ckpt".format),
    st.integers(0, 45).map("  successfully saved checkpoint from iteration {} to /ckpt".format),
    st.integers(0, 45).map("  successfully loaded checkpoint from /ckpt at iteration {}".format),
    st.tuples(st.integers(0, 59), st.integers(0, 45)).map(
        lambda told: (
            f" [2026-11-30 08:02:{told[0]:02d}] iteration {told[1]}/ 200 | elapsed time per iteration (ms): 1.0 |"
        )
    ),
    st.integers(0, 59).map("2026-11-30 08:03:{:02d},000 a line".format),
    st.sampled_from(["\n".join(HF_CRASH), "\n".join(HF_BEGINS), HF_DONE, "validation is over", ""]),
)


@given(
    lines=st.lists(st.tuples(SOUP, st.integers(1, 30), st.sampled_from("\n\n\r")), max_size=40),
    written_at=st.sampled_from([None, 1796025600 * 10**9]),
)
def test_whatever_bars_saves_loads_and_crashes_come_no_two_facts_have_the_same_number(lines, written_at: int | None):
    assert distinct(whole("".join((line + end) * often for line, often, end in lines), written_at))


@given(
    lines=st.lists(st.tuples(SOUP, st.integers(1, 30), st.sampled_from("\n\n\r")), max_size=40),
    cuts=st.lists(st.floats(0, 1), max_size=3),
)
def test_nor_have_they_where_a_log_is_followed_and_every_look_goes_on_from_the_cursor(lines, cuts: list[float]):
    log = "".join((line + end) * often for line, often, end in lines).encode()
    cursor, facts = None, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        for cut in [*sorted(cuts), 1]:
            path.write_bytes(log[: int(len(log) * cut)])
            polled = LauncherSource(node="vm", run="r", log=path, zone_seconds=0).poll(cursor)
            cursor, facts = polled.cursor, [*facts, *polled.facts]
        facts += LauncherSource(node="vm", run="r", log=path, zone_seconds=0).finish(cursor).facts
    assert len(set(facts)) == len({(fact.emitter, fact.seq) for fact in facts})


def _titan(second: int, text: str) -> str:
    clock = f"{10 + second // 3600}:{second // 60 % 60:02}:{second % 60:02}"
    return f"[rank0]:[titan] 2026-11-28 {clock},000 - root - INFO - {text}\n"


WAITED = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=600000)"
)
DIED_AFTER = {
    "torch's own stamp": (f"[rank0]:[E1128 10:11:42.000000000 ProcessGroupNCCL.cpp:685] {WAITED}\n", 702),
    "glog's, with a thread": (f"[rank0]:[E1128 10:11:42.000000 4242 ProcessGroupNCCL.cpp:685] {WAITED}\n", 702),
    "while something else is printed": (
        "".join(_titan(140 + each, "gpu memory: 30.1GiB") for each in range(0, 560, 80))
        + f"[rank0]:[E1128 10:11:42.000000000 ProcessGroupNCCL.cpp:685] {WAITED}\n",
        702,
    ),
    "a scheduler's end": (
        "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-11-28T10:11:42 DUE TO PREEMPTION ***\n", 702
    ),
    "nothing": ("", 100),
    "an error at once": (_titan(101, "ERROR CUDA error: an illegal memory access was encountered"), 101),
}  # fmt: skip
"""What a log says behind its step at 100 s → the second until which its attempt was there; the next begins at 760 s."""


@pytest.mark.parametrize("name", DIED_AFTER)
def test_an_attempt_was_there_until_its_last_word_and_what_followed_is_not_known(name: str, tmp_path: Path):
    words, died = DIED_AFTER[name]
    steps = [_titan(20 + 4 * step, f"step: {step:2}  loss:  7.1  tps: 4,096") for step in range(1, 21)]
    again = [_titan(780 + 4 * step, f"step: {step:2}  loss:  7.1  tps: 4,096") for step in range(1, 21)]
    log = tmp_path / "titan.log"
    bring_up = _titan(760, "Starting job: x") + _titan(780, "Training starts at step 1")
    log.write_text(_titan(0, "Starting job: x") + "".join(steps) + words + bring_up + "".join(again))
    facts = imported("logs", log)
    begins = next(fact.at for fact in facts if isinstance(fact, AttemptStarted) and not fact.restart)
    ended = [(fact.at - begins) // 10**9 for fact in facts if isinstance(fact, AttemptEnded) and not fact.restart]
    begun = [(fact.at - begins) // 10**9 for fact in facts if isinstance(fact, AttemptStarted) and fact.restart]
    assert (ended, begun) == ([died], [760])


def test_a_save_that_ends_within_the_second_of_the_last_stamp_was_durable_when_the_run_ended(tmp_path: Path):
    log = tmp_path / "megatron.log"
    steps = "".join(
        f" [2026-11-28 10:00:{5 * step:02}] iteration {step:8}/ 6 | consumed samples: 8 |"
        " elapsed time per iteration (ms): 5000.0 | lm loss: 1.0 |\n"
        for step in range(1, 7)
    )
    log.write_text(
        "[before the start of training step] datetime: 2026-11-28 10:00:00 \n" + steps
        + "saving checkpoint at iteration       6 to /ckpt in torch_dist format\n"
        "  successfully saved checkpoint from iteration       6 to /ckpt [ t 1/4, p 1/1 ]\n"
        "(min, max) time across ranks (ms):\n"
        "    save-checkpoint ................................: (8000.10, 8010.22)\n"
        "[after training is done] datetime: 2026-11-28 10:00:38 \n"
    )  # fmt: skip
    facts = imported("logs", log)
    fold = RunFold("truth")
    fold.add(facts)
    view = fold.view(max(fact.at for fact in facts) + 3600 * 10**9)
    assert view.checkpoint.newest_durable_step == 6


@pytest.mark.parametrize("seconds", [(1, 1, 2, 2, 3), (1, 2, 3, 4, 5), (1, 3, 5, 7, 9)])
def test_the_first_step_that_a_log_tells_counts_where_it_is_the_first_of_all(seconds: tuple[int, ...]):
    """Also where a stamp of whole seconds puts two steps into one instant."""
    lines = "".join(f"[2026-11-28 10:00:{second:02}] step {step} loss 1.0\n" for step, second in enumerate(seconds, 1))
    view = view_of(whole(lines))
    assert [(each.first_step, each.last_step, each.resumed_from_step) for each in view.attempts] == [(1, 5, 0)]


@pytest.mark.parametrize("own_zone_hours", [0, 9, -5])
def test_the_clock_of_who_received_every_line_dates_those_of_the_launcher_too(own_zone_hours: int):
    """`| ts '%.s'`: one clock for the whole log, in whatever zone the launcher's own stamps are."""
    begun = 1_796_050_400

    def received(second: float, words: str) -> str:
        return f"{begun + second:.6f} {words}\n"

    def launcher(second: int, level: str, words: str) -> str:
        told = time.strftime("%m%d %H:%M:%S", time.gmtime(begun + second + own_zone_hours * 3600))
        return received(second + 0.5, f"{level}{told}.000000 700 torch/distributed/elastic/api.py:1002] {words}")

    steps = "".join(received(second, f"epoch 0 step {second} loss 0.3") for second in range(1, 6))
    failed = "failed (exitcode: 1) local_rank: 1 (pid: 702) of binary: /usr/bin/python"
    text = (
        steps + received(5.2, "[rank1]: Traceback (most recent call last):") + received(5.2, "[rank1]: ValueError: no")
        + launcher(6, "W", "Sending process 701 closing signal SIGTERM") + launcher(6, "E", failed)
        + received(10, "Resumed from checkpoint at step 3")
        + "".join(received(second + 8, f"epoch 0 step {second} loss 0.3") for second in range(4, 9))
    )  # fmt: skip
    view = view_of(whole(text))
    assert [(one.first_step, one.last_step, one.started_at / 1e9) for one in view.attempts] == [
        (1, 5, begun + 1), (4, 8, begun + 6.5)
    ]  # fmt: skip
    told = seconds_by_phase(view)
    assert (told["recomputing"], told["training"]) == pytest.approx((3, 7))


TEARDOWN = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nRuntimeError: CUDA error\n'


def plain_loop(minute: int, first: int, last: int) -> str:
    return "".join(
        f"2026-11-29 10:{minute:02}:{2 * (step - first + 1):02},000 INFO step {step} loss 2.9\n"
        for step in range(first, last + 1)
    )


@pytest.mark.parametrize(
    ("between", "outcomes", "scope", "interruptions"),
    [
        ("2026-11-29 10:00:11,000 INFO Training finished\n", ["completed", "completed"], "resubmit", 0),
        ("2026-11-29 10:00:11,000 INFO Finished training epoch 0\n", [None, "completed"], "in_job", 1),
        ("", [None, "completed"], "in_job", 1),
        ("2026-11-29 10:00:11,000 INFO Training finished\n" + TEARDOWN, ["failed", "completed"], "in_job", 1),
    ],
)  # fmt: skip
def test_what_follows_a_training_that_is_done_is_more_work(
    between: str, outcomes: list[str | None], scope: str, interruptions: int
):
    done = "2026-11-29 10:50:17,000 INFO Training finished\n"
    facts = whole(plain_loop(0, 1, 5) + between + plain_loop(50, 1, 8) + done)
    assert [fact.outcome for fact in facts if isinstance(fact, AttemptEnded)] == outcomes
    assert [fact.scope for fact in facts if isinstance(fact, AttemptStarted)] == [None, scope]
    (ended,) = [fact for fact in facts if isinstance(fact, RunEnded)]
    assert (ended.outcome, ended.at % (60 * 10**9)) == ("completed", 17 * 10**9)
    assert view_of(facts).interruptions == interruptions


def test_training_that_goes_on_was_not_done():
    done = "2026-11-29 10:00:11,000 INFO Training finished\n"
    facts = whole(plain_loop(0, 1, 5) + done + plain_loop(1, 6, 9))
    told = [type(fact) for fact in facts if isinstance(fact, (AttemptStarted, AttemptEnded, RunEnded))]
    assert told == [AttemptStarted]


def test_a_look_at_all_of_a_log_reads_to_its_end_however_long_it_is(tmp_path: Path):
    log = tmp_path / "train.log"
    log.write_text(plain_loop(0, 1, 5) + ("nothing of interest " * 50 + "\n") * 9_000 + plain_loop(1, 6, 9))
    assert log.stat().st_size > MOST_BYTES
    facts = list(LauncherSource(node="vm", run="r", log=log, zone_seconds=0).finish(None).facts)
    assert [(each.first_step, each.last_step) for each in view_of(facts).attempts] == [(1, 9)]


def test_an_import_that_told_no_steps_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = tmp_path / "train.log"
    log.write_text("2026-11-29 10:00:11,000 ERROR it broke\nRuntimeError: CUDA error: out of memory\n")
    assert rerail(["import", "logs", str(log), "--run", "r", "--stdout"]) == 0
    assert "no steps told: " in capsys.readouterr().err


def clock_goes_back(seconds: int, words: str) -> str:
    """Ten steps of two seconds; from the sixth on the stamps are `seconds` early."""
    lines = []
    for step in range(1, 11):
        at = time.gmtime(1_795_946_400 + 2 * step - (seconds if step > 5 else 0))
        lines.append(f"{time.strftime('%Y-%m-%d %H:%M:%S', at)},000 INFO step {step} {words}\n")
        if step == 7:
            lines.append(f"{time.strftime('%Y-%m-%d %H:%M:%S', at)},500 INFO Saved checkpoint at step 7 to ck/7.pt\n")
    return "".join(lines)


@pytest.mark.parametrize("words", ["loss 2.9", "loss 2.9 lr 1e-4 grad_norm 0.4"])
@pytest.mark.parametrize("hours", [1, 9])
def test_stamps_that_go_back_by_hours_where_steps_go_on_are_of_the_same_clock(hours: int, words: str, tmp_path: Path):
    text = clock_goes_back(hours * 3600, words)
    log = tmp_path / "train.log"
    half = text.index("step 8")
    for facts in (whole(text), followed(log, (0, text[:half]), (5, text[half:]))):
        begun = 0 if facts[0].at > 10**18 else min(fact.at for fact in facts) - 1_795_946_402 * 10**9
        (saved,) = [fact for fact in facts if isinstance(fact, CheckpointMoment)]
        assert saved.at - begun == 1_795_946_414_500_000_000
        steps = [fact for fact in facts if isinstance(fact, Steps)]
        assert sum(fact.step_count for fact in steps) == 10
        assert max(fact.at for fact in steps) - begun == 1_795_946_420 * 10**9


def test_stamps_that_go_back_by_no_hours_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = tmp_path / "train.log"
    for seconds, said in ((1000, "its stamps go back 1 time where steps go on, by 998 s"), (3600, "go back by 1 h")):
        log.write_text(clock_goes_back(seconds, "loss 2.9"))
        assert rerail(["import", "logs", str(log), "--run", "r", "--stdout"]) == 0
        assert said in capsys.readouterr().err


def two_ranks(steps: int, *, every: int, behind: float) -> str:
    """Steps of two seconds, printed by two that do not say who they are; one so many seconds behind."""
    begun = 1_795_946_400
    lines = [(2.0 * step + late, step) for step in range(every, steps + 1, every) for late in (0, behind)]
    return "".join(
        f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(begun + at))},{round(at % 1 * 1000):03} step {step} loss 2\n"
        for at, step in sorted(lines)
    )


@pytest.mark.parametrize(("every", "behind"), [(1, 0.2), (1, 1.5), (1, 2.2), (1, 3.0), (1, 5.0), (5, 11.0)])
def test_two_that_print_the_same_steps_and_do_not_say_who_they_are_are_one_attempt(every: int, behind: float):
    view = view_of(whole(two_ranks(40, every=every, behind=behind)))
    assert [(each.first_step, each.last_step) for each in view.attempts] == [(1, 40)]
    assert view.incidents == ()


@pytest.mark.parametrize("stall", [0, 15])
def test_a_restart_without_a_word_is_one_also_behind_a_step_that_took_long(stall: int):
    """It takes longer than a step; that the last one held a save or a hang says nothing of the usual."""
    text = plain_loop(0, 1, 8) + f"2026-11-29 10:00:{18 + stall:02},000 INFO step 9 loss 2.9\n"
    again = "".join(
        f"2026-11-29 10:00:{20 + stall + 2 * step:02},000 INFO step {step + 3} loss 2.9\n" for step in range(1, 9)
    )
    assert [(each.first_step, each.last_step) for each in view_of(whole(text + again)).attempts] == [(1, 9), (5, 11)]
