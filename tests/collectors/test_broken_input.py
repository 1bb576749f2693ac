"""Broken lines and half-written files: told, counted, and no reason to stop reading the rest."""

from __future__ import annotations

import json
from pathlib import Path

from rerail.collectors.sources.launcher import LauncherSource
from rerail.server.core.facts import Blind, Exit, Fact

STAMP = "2026-11-29 11:59:4{},000 [INFO] [vm] [workload:?(?) infra:?(?)] launcher.py:636 "
GOOD = (
    (STAMP.format(1) + "[default] Rendezvous complete for workers.\n").encode(),
    b"E1129 11:59:45.582000 22657 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    b"local_rank: 1 (pid: 22665) of binary: python\n",
    (STAMP.format(6) + "[default] Worker group UNHEALTHY. 3/3 attempts left; will restart worker group\n").encode(),
)


def told(log: Path, **more: object) -> list[Fact]:
    return list(LauncherSource(node="n", run="r", log=log, zone_seconds=0, **more).finish(None).facts)


def test_a_broken_line_is_told_with_its_place_and_the_rest_is_read(tmp_path: Path) -> None:
    log = tmp_path / "launcher.log"
    log.write_bytes(GOOD[0] + b"\xff\xfe half a line\n" + b"\0\0\0\0\n" + GOOD[1] + GOOD[2])
    facts = told(log)
    first, second = (fact for fact in facts if isinstance(fact, Blind))
    assert f"byte {len(GOOD[0])} " in str(first.reason)
    assert "not UTF-8" in str(first.reason)
    assert "NUL bytes, which were left out" in str(second.reason)
    assert "2 such lines" in str(second.reason)
    assert [fact.exit_code for fact in facts if isinstance(fact, Exit)] == [-9]


def test_a_storm_of_broken_lines_is_counted_and_not_told_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "launcher.log"
    log.write_bytes(b"\xff\n" + GOOD[0] + b"\xff\n" * 2500 + GOOD[1])
    blind = [fact for fact in told(log) if isinstance(fact, Blind)]
    assert len(blind) < 30
    assert "2000 such lines" in str(blind[-1].reason)
    assert len({(fact.emitter, fact.seq) for fact in blind}) == len(blind)


def test_a_half_written_cycle_info_is_told_once_and_read_when_it_is_whole(tmp_path: Path) -> None:
    log, infos = tmp_path / "launcher.log", tmp_path / "infos"
    log.write_bytes(b"".join(GOOD))
    infos.mkdir()
    path = infos / "cycle_info.4242.0.1"
    whole = json.dumps({"cycle_start_time": "2026-11-29T12:11:23.844840Z", "active_nodes": "n[1-2]"})
    path.write_text(whole[:30])
    source = LauncherSource(node="n", run="r", log=None, cycle_info=infos)
    waiting = source.poll(None)
    assert waiting.facts == ()
    given_up = source.finish(waiting.cursor)
    (blind,) = given_up.facts
    assert isinstance(blind, Blind)
    assert "cycle_info.4242.0.1: not whole JSON" in str(blind.reason)
    assert source.finish(given_up.cursor).facts == ()
    path.write_text(whole)
    (started,) = source.finish(given_up.cursor).facts
    assert started.kind == "attempt_started"
