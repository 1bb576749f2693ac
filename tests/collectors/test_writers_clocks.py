"""Several writers of one log whose clocks are zones apart: the order of the lines dates them."""

from __future__ import annotations

import io

import pytest

from rerail.collectors.sources.log_reader import Read, read_log
from rerail.server.core.facts import CLOCK_OFF, Evidence, Exit, Steps

STEPS = [f"[2026-10-21 14:13:{second:02d}] iteration {500 + second}/ 9000 | lm loss: 2.1" for second in range(0, 60, 5)]
XID = "Oct 21 {} gpu-3 kernel: NVRM: Xid (PCI:0000:9a:00): 79, pid=51000, name=python3, GPU has fallen off the bus."
ERROR = "[rank5]: RuntimeError: CUDA error: unspecified launch failure"
DIED = (
    "E1021 {}.114000 50990 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 5 "
    "(pid: 51000) of binary: /usr/bin/python"
)
CANCELLED = "slurmstepd: error: *** JOB 77 ON node033 CANCELLED AT 2026-10-21T{} DUE TO PREEMPTION ***"


def read(*lines: str) -> Read:
    return read_log(io.BytesIO(("\n".join(lines) + "\n").encode()), emitter="log/a", run="r", year=2026)


def clock(at: int) -> str:
    seconds = at // 10**9 % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def told(found: Read, words: str) -> Evidence:
    return next(fact for fact in found.facts if isinstance(fact, Evidence) and words in fact.text)


@pytest.mark.parametrize(
    ("stamp", "put", "words"),
    [
        ("06:14:02", "14:14:02", "8 h behind the others'"),
        ("13:14:02", "14:14:02", "1 h behind the others'"),
        ("08:44:02", "14:14:02", "5 h 30 min behind the others'"),
        ("19:44:02", "14:14:02", "5 h 30 min ahead of the others'"),
        ("14:14:02", "14:14:02", None),
        ("14:09:02", "14:09:02", None),  # minutes are no zone
        ("09:22:40", "09:22:40", None),  # old, and printed late: no zone puts it here
    ],
)
def test_a_kernels_line_is_put_where_it_stands(stamp: str, put: str, words: str | None):
    found = read(*STEPS, XID.format(stamp), ERROR, DIED.format("14:14:20"))
    xid = told(found, "Xid")
    assert clock(xid.at) == put
    assert dict(xid.attributes).get(CLOCK_OFF) == words
    assert found.off_clocks == (() if words is None else (f"the kernel's clock is {words}",))
    assert clock(told(found, "launch failure").at) == "14:14:20"


def test_steps_are_the_reference_and_a_launcher_behind_them_is_moved_with_all_that_it_dates():
    found = read(*STEPS, ERROR, DIED.format("13:14:20"))
    died = next(fact for fact in found.facts if isinstance(fact, Exit))
    assert (clock(died.at), clock(told(found, "launch failure").at)) == ("14:14:20", "14:14:20")
    assert found.off_clocks == ("the launcher's clock is 1 h behind the others'",)
    assert all(clock(fact.start).startswith("14:1") for fact in found.facts if isinstance(fact, Steps))


def test_a_schedulers_last_line_is_moved_where_it_contradicts_and_left_where_it_may_be_a_silence():
    assert clock(told(read(*STEPS, CANCELLED.format("06:14:30")), "CANCELLED").at) == "14:14:30"
    assert clock(told(read(*STEPS, CANCELLED.format("14:44:30")), "CANCELLED").at) == "14:44:30"


def test_an_old_line_before_the_run_and_a_second_attempt_move_nobody():
    later = [line.replace(" 14:", " 17:") for line in STEPS]
    assert read(XID.format("02:13:30"), *STEPS, DIED.format("14:14:20")).off_clocks == ()
    assert read(*STEPS, DIED.format("14:14:20"), *later, DIED.format("17:14:20")).off_clocks == ()


def test_what_lines_do_not_agree_on_is_not_moved():
    found = read(*STEPS, XID.format("02:13:59"), XID.format("07:14:01"), XID.format("14:14:02"), ERROR)
    assert found.off_clocks == ()
