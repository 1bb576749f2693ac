"""Dumps as they appear, and dumps fetched from ranks that hang."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.collectors.formats import OldFile
from rerail.collectors.recorder import Recorder
from rerail.collectors.source import Source, SourceDown
from rerail.collectors.sources.flight_recorder import read
from rerail.collectors.sources.flight_recorder_live import FlightRecorderLive
from rerail.collectors.step_watch import StepWatch
from rerail.collectors.worker_server import WorkerSilentError, ask
from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import Evidence
from rerail.server.core.flight_recorder.summary import DUMP_CODE

CORPUS = Path(__file__).parent.parent / "corpus" / "flight_recorder"
DUMPS = sorted(path for path in CORPUS.glob("hang4*_rank_*") if path.is_file())


def live(*places: str | Path, **named: object) -> FlightRecorderLive:
    named = {"node": "n", "run": "r", "look_ns": 0, **named}
    return FlightRecorderLive([str(place) for place in places], **named)  # type: ignore[arg-type]


def old_file(path: Path) -> OldFile:
    """As an import opens it."""
    return OldFile(
        path=str(path), stem=path.stem, run="r", lines=(), content=path.read_bytes, refuse=lambda *_: None,
        remark=lambda *_: None, at=path.stat().st_mtime_ns,
    )  # fmt: skip


def test_a_folder_states_what_an_import_of_it_states_and_nothing_twice(tmp_path: Path):
    assert DUMPS
    for path in DUMPS:
        shutil.copy(path, tmp_path)
    source = live(tmp_path, wants_all=True)
    polled = source.finish(None)
    imported = [fact for path in sorted(tmp_path.iterdir()) for fact in read(old_file(path))]
    assert len(polled.facts) > 8 and set(polled.facts) == set(imported)
    assert len({(fact.emitter, fact.seq) for fact in polled.facts}) == len(polled.facts)
    assert source.finish(polled.cursor).facts == ()
    assert live(tmp_path, wants_all=True).finish(polled.cursor).facts == ()
    for fact in polled.facts:
        assert decode_line(encode_line(fact)) == fact
    shutil.copy(DUMPS[0], tmp_path / f"again_{DUMPS[0].name}")
    assert source.finish(polled.cursor).facts == ()  # the same bytes under another name


def test_a_file_is_taken_when_it_grows_no_more_and_old_ones_are_of_another_run(tmp_path: Path):
    old = tmp_path / "nccl_trace_rank_0"
    shutil.copyfile(DUMPS[0], old)
    source = live(tmp_path / "nccl_trace_rank_")
    first = source.poll(None)
    assert first.facts == ()
    shutil.copyfile(DUMPS[0], tmp_path / "nccl_trace_rank_1")
    assert source.poll(first.cursor).facts == ()  # it may still be written
    time.sleep(2.2)
    (fact,) = source.poll(first.cursor).facts
    assert isinstance(fact, Evidence) and (fact.rank, fact.run) == (1, "r")


def test_what_cannot_be_seen_is_said(tmp_path: Path):
    source = live(tmp_path / "nowhere" / "rank_")
    assert isinstance(source, Source)
    with pytest.raises(SourceDown, match="no such folder"):
        source.poll(None)
    with pytest.raises(ValueError, match="say whose it is"):
        live("http://127.0.0.1:1")
    with pytest.raises(WorkerSilentError):
        ask("unix:" + str(tmp_path / "no.sock"), "ping")
    with pytest.raises(WorkerSilentError):
        ask("http://nothing", "ping")


def test_a_worker_that_hangs_and_does_not_answer_is_blindness_until_it_steps_again(
    make_recorder: Callable[..., Recorder], tmp_path: Path
):
    recorder = make_recorder(run="r", rank=3)
    (rings,) = {path.parent for path in tmp_path.rglob("*.ring")}
    recorder.ready()
    recorder.step(1)
    watch = StepWatch(rings, least_silence_ns=50_000_000)
    source = live(f"3=unix:{tmp_path}/no.sock", run=None, watch=watch, look_ns=10**7)
    time.sleep(0.1)
    for _ in range(3):  # also between two looks: what is down does not come up by itself
        with pytest.raises(SourceDown, match="rank 3"):
            source.poll("{}")
    for _ in range(40):
        recorder.step()
    time.sleep(0.02)
    assert source.poll(None).facts == ()


@pytest.mark.parametrize(
    ("armed_seconds", "silent_seconds", "hangs"),
    [
        (None, 59, False),
        (None, 61, True),
        (300, 61, True),
        (40, 19, False),
        (40, 21, True),
        (2, 5, False),
        (2, 7, True),
    ],
)
def test_a_rank_is_asked_before_the_time_out_of_its_heartbeats_kills_it(
    make_recorder: Callable[..., Recorder], tmp_path: Path, armed_seconds, silent_seconds, hangs
):
    """Steps take 3 s here: whatever is armed, two of them are waited."""
    recorder = make_recorder(run="r", rank=3)
    (rings,) = {path.parent for path in tmp_path.rglob("*.ring")}
    watch = StepWatch(rings)
    recorder.ready()
    recorder.arm(None if armed_seconds is None else armed_seconds * 10**6)
    recorder.heartbeat()
    recorder.step(1)
    now = time.monotonic_ns()
    watch.look(now)
    for ring in watch._rings.values():
        ring.lengths.extend([3 * 10**9] * 9)
    assert watch.look(now + silent_seconds * 10**9)[3].is_hanging is hangs
    watch.close()


HANG = """
import os, sys, time
os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _WorkerServer
from rerail.collectors.recorder import Recorder
server = _WorkerServer(sys.argv[1] + "/worker_rank_0.sock")
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
recorder = Recorder()
recorder.ready()
for step in range(5):
    dist.all_reduce(torch.ones(2))
    recorder.step(step)

def stuck_here():
    print("up", flush=True)
    time.sleep(100)

stuck_here()
"""


@pytest.mark.slow
def test_a_real_worker_that_hangs_is_asked_once_for_its_dump_and_its_stacks(tmp_path: Path):
    environment = {"RERAIL_DIR": str(tmp_path), "RERAIL_RUN": "live", "PATH": "/usr/bin:/bin", "RANK": "0",
                   "HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HANG), str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        time.sleep(0.6)
        watch = StepWatch(tmp_path / "rings", least_silence_ns=500_000_000)
        source = live(f"unix:{tmp_path}/worker_rank_*.sock", run=None, watch=watch)
        polled = source.poll(None)
        dumps = [fact for fact in polled.facts if isinstance(fact, Evidence) and fact.code == DUMP_CODE]
        stacks = [fact for fact in polled.facts if isinstance(fact, Evidence) and fact.code == "stack_dump"]
        assert [(fact.run, fact.rank, fact.source) for fact in dumps] == [("live", 0, "flight_recorder")]
        assert len(stacks) == 1 and "stuck_here" in stacks[0].text
        assert source.poll(polled.cursor).facts == ()
        assert live(f"unix:{tmp_path}/worker_rank_*.sock", run=None, watch=watch).poll(polled.cursor).facts == ()
    finally:
        process.kill()
        process.communicate()
    assert source.poll(polled.cursor).facts == ()  # gone, and nobody is asked
    source.close()
