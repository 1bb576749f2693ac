"""Errors that were not the end: caught, logged, retried, or only mentioned."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import Interruption, interruptions
from rerail.server.core.causes import reading_of
from rerail.server.core.facts import Evidence
from rerail.server.core.mentions import is_mention
from rerail.server.core.view import CausalRole

UPLOAD = [
    "Traceback (most recent call last):",
    '  File "/opt/lib/python3.11/site-packages/wandb/sdk/internal/sender.py", line 3, in send',
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api', port=443): Max retries exceeded",
]
OWN = [
    "Traceback (most recent call last):",
    '  File "/home/me/train.py", line 4, in step',
    "ValueError: bad batch 8",
]
EXIT = (
    "E1129 12:03:40.228000 30487 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
    "local_rank: 0 (pid: 30501) of binary: python3\n"
)


def judged(tmp_path: Path, text: str) -> list[Interruption]:
    (tmp_path / "train.log").write_text(text)
    return interruptions(read_run_files([str(tmp_path)]))


def steps(first: int, last: int, prefix: str = "") -> str:
    return "".join(f"{prefix}step {step} loss {3 - step / 100:.3f}\n" for step in range(first, last))


def block(lines: list[str], prefix: str = "") -> str:
    return "".join(f"{prefix}{line}\n" for line in lines)


SURVIVED = {
    "an upload thread": steps(1, 9) + "Exception in thread NetThr:\n" + block(UPLOAD) + steps(9, 60) + "Training done\n",
    "a caught exception": steps(1, 9) + "ERROR:root:skipped a batch\n" + block(OWN) + steps(9, 15),
    "one with a prefix": steps(1, 9, "3: ") + block(["WARNING caught:", *OWN], "3: ") + steps(9, 15, "3: "),
    "one line": steps(1, 9) + "wandb: ERROR Network error (ConnectionError), entering retry loop.\n" + steps(9, 15),
    "progress bars": steps(1, 9) + "WARNING: x failed: OSError: [Errno 28] No space left on device\n"
    + "".join(f"\r 10%|█  | {step}/50 [00:01<00:10,  4.3it/s]\n" for step in range(9, 20)),
    "what nobody announced, but training was done": steps(1, 9) + block(OWN) + steps(9, 12) + "Training complete.\n",
    "what nobody announced, long before": steps(1, 9) + block(OWN) + steps(9, 900),
    "what nobody announced, in a log that waits for no buffer": steps(1, 9) + block(OWN) + steps(9, 15),
    "the same with a prefix": steps(1, 9, "[rank0]: ") + block(OWN, "[rank0]: ") + steps(9, 15, "[rank0]: "),
    "what a logger wrote after": "x" * 9000 + "\n" + block(OWN)
    + "".join(f"2026-11-29 12:00:0{n},000 - INFO - step {n} loss 2\n" for n in range(1, 5)),
    "another rank's, training done": steps(1, 9) + block(OWN, "[rank3]: ") + "Training finished\n",
}  # fmt: skip
NOT_SURVIVED = {
    "no step after it": steps(1, 9) + "ERROR:root:failed\n" + block(OWN),
    "what was still in the buffer": block(OWN) + steps(1, 40),
    "what may have been in the buffer": steps(1, 900) + block(OWN) + steps(900, 940),
    "another process's steps": steps(1, 9) + block(OWN, "[rank3]: ") + steps(9, 900),
    "a restart": steps(1, 90) + "ERROR:root:failed\n" + block(OWN) + "Resuming from step 80\n" + steps(81, 95),
    "steps that fall back": steps(1, 90) + "ERROR:root:failed\n" + block(OWN) + steps(81, 95),
    "one step only": steps(1, 9) + "ERROR:root:failed\n" + block(OWN) + steps(9, 10),
    "the same step again": steps(1, 9) + "ERROR:root:failed\n" + block(OWN) + "saved at step 8\n" * 3,
    "done before it": steps(1, 9) + "Training done\n" + block(OWN),
    "not yet done": steps(1, 9) + block(OWN) + "will upload after training is done\n",
}


@pytest.mark.parametrize("text", SURVIVED.values(), ids=SURVIVED)
def test_an_error_that_its_process_trained_on_after_is_no_interruption(tmp_path: Path, text: str):
    assert judged(tmp_path, text) == []


@pytest.mark.parametrize("text", NOT_SURVIVED.values(), ids=NOT_SURVIVED)
def test_an_error_after_which_that_is_not_known_stays_one(tmp_path: Path, text: str):
    (found,) = judged(tmp_path, text)
    assert found.verdict.cause == "user_exception"


def test_what_came_after_a_survived_error_is_the_cause(tmp_path: Path):
    text = steps(1, 9) + "ERROR:root:skipped\n" + block(UPLOAD) + steps(9, 50)
    text += block([*OWN[:-1], "IndexError: list index out of range"])
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, dict(found.verdict.traits)["exception"]) == ("user_exception", "IndexError")
    roles = {line.code: line.role for line in found.trace}
    assert roles["ConnectionError"] is CausalRole.UNKNOWN
    assert roles["trained_on"] is CausalRole.INFORMATIONAL


def test_where_an_exit_proves_the_end_the_survived_error_is_better_than_nothing_and_says_so(tmp_path: Path):
    (found,) = judged(tmp_path, steps(1, 9) + "ERROR:root:failed\n" + block(OWN) + steps(9, 15) + EXIT)
    assert found.verdict.cause == "user_exception"
    assert found.verdict.confidence < 0.5
    assert "went on after that" in found.verdict.sentence


@given(st.integers(2, 400), st.integers(2, 40), st.sampled_from(["step", "iteration", "Epoch", "global_step="]))
def test_two_rising_numbers_of_whatever_is_counted_take_it_back(
    tmp_path_factory: pytest.TempPathFactory, first: int, count: int, word: str
):
    path = tmp_path_factory.mktemp("log")
    told = [f"{word} {number} | loss 2.1\n" for number in range(first, first + count)]
    text = f"{word} {first - 1} | loss 2.2\nWARNING caught\n" + block(OWN) + "".join(told)
    assert judged(path, text) == []


# --- mentions ---

MENTIONS = [
    ("loading No space left on device handler", "No space left on device"),
    ("Registered handler for Segmentation fault", "Segmentation fault"),
    ("installing hook: CUDA out of memory detector", "CUDA out of memory"),
    ("if you see CUDA out of memory, lower the batch size", "CUDA out of memory"),
    ("testing for Connection refused before start", "Connection refused"),
    ("Connection refused, retrying in 5 s", "Connection refused"),
]
REPORTS = [
    ("write: No space left on device", "No space left on device"),
    ("OSError: [Errno 28] No space left on device", "No space left on device"),
    ("No space left on device", "No space left on device"),
    ("loading the checkpoint failed: No space left on device", "No space left on device"),
    ("gave up: Connection refused after 5 retries", "Connection refused"),
    ("Segmentation fault (core dumped)", "Segmentation fault"),
    ("RuntimeError: CUDA out of memory. If reserved memory is large try max_split_size_mb", "CUDA out of memory"),
]


@pytest.mark.parametrize(("text", "words"), MENTIONS)
def test_a_line_that_only_mentions_an_error_accuses_nobody(text: str, words: str):
    assert is_mention(text, words)
    assert reading_of(Evidence(run="r", emitter="e", seq=0, at=1, source="stderr", text=text)).role is not (
        CausalRole.INITIATING
    )


@pytest.mark.parametrize(("text", "words"), REPORTS)
def test_a_line_that_reports_one_does(text: str, words: str):
    assert not is_mention(text, words)


@given(st.text(max_size=300), st.text(max_size=30))
def test_any_text_may_be_asked(text: str, words: str):
    assert is_mention(text, words) in (True, False)
