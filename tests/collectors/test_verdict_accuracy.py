"""The accuracy of verdicts over recorded failures cannot fall unnoticed (docs/verdicts.md has the table)."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "verdicts.py"


@functools.cache
def bench():
    spec = importlib.util.spec_from_file_location("bench_verdicts", BENCH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.outcomes = functools.cache(module.outcomes)  # several tests ask for the same
    module.whole = functools.cache(module.whole)
    module.public = functools.cache(module.public)
    return module


def test_recorded_failures_are_judged_as_well_as_when_this_was_written():
    found, false_alarms = bench().outcomes()
    assert len(found) == 116
    assert false_alarms == []
    assert sum(each.is_class_right for each in found) >= 115
    assert sum(each.is_domain_right for each in found) >= 115
    assert sum(each.rank_is == "right" for each in found) >= 103
    assert [each.name for each in found if each.rank_is == "wrong"] == []


def test_single_lines_of_public_logs_are_read_in_their_class_and_role():
    lines = bench().lines()
    assert len(lines) == 69
    assert [row for row in lines if row[2] not in row[0].split()] == []
    assert [row for row in lines if row[3] not in row[1].split()] == []


def test_of_the_runs_that_another_judge_saw_more_are_judged_right_here():
    module = bench()
    theirs = module.agent()
    found, _ = module.outcomes()
    ours = {each.name.rsplit(" ", 1)[0]: each for each in reversed(found)}
    right = sum(ours[name.removesuffix(" (cycle log)")].is_class_right for name, *_ in theirs)
    assert right >= 23 > sum(row[1] for row in theirs)


def test_excerpts_of_public_logs_are_judged_as_well_as_when_this_was_written():
    found = bench().public()
    failures = [each for each in found if each.cause]
    assert len(failures) >= 270
    assert [(each.name, each.said) for each in failures if each.cause_is != "right"] == []
    assert [(each.name, each.named) for each in failures if {each.rank_is, each.node_is} != {"right"}] == []


def test_frightening_words_of_healthy_logs_make_no_interruption():
    healthy = [each for each in bench().public() if not each.cause]
    assert len(healthy) >= 60
    assert [(each.name, each.said) for each in healthy if each.cause_is != "right"] == []


def test_what_a_run_survived_and_what_is_told_of_others_is_not_why_it_ended():
    found = bench().whole()
    failures = [each for each in found if each.cause]
    wrong = [(each.name, each.said) for each in found if each.cause_is != "right"]
    assert len(failures) >= 156
    assert wrong == [("preempted-requeued-then-module-not-found", "preemption")]  # it died before a step told of it
    assert [(each.name, each.named) for each in failures if {each.rank_is, each.node_is} != {"right"}] == []
