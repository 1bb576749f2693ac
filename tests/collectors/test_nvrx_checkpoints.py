"""Asynchronous and local checkpoints of NVRx, saved by the real library on the CPU."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rerail.collectors.nvrx_checkpoints import observe_async_checkpoint
from rerail.collectors.recorder import Recorder
from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.server.core.facts import CheckpointLoaded, CheckpointMoment, Fact, Phase, PhaseSpan

PRELUDE = """
import sys, torch
import torch.distributed as dist
torch.cuda.synchronize = lambda *a, **k: None          # NVRx calls these without a GPU too
torch.cuda.current_device = lambda: torch.device("cpu")
from nvidia_resiliency_ext.checkpointing.async_ckpt.core import AsyncCallsQueue, AsyncRequest
from nvidia_resiliency_ext.checkpointing.async_ckpt.torch_ckpt import TorchAsyncCheckpoint
from rerail.collectors.nvrx_checkpoints import observe_async_checkpoint
from rerail.collectors.recorder import Recorder
folder = sys.argv[1]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
recorder = Recorder()
recorder.ready()
recorder.step(7)
"""

TORCH = """
saver = observe_async_checkpoint(TorchAsyncCheckpoint(persistent_queue=False), recorder)
saver.async_save({"weight": torch.ones(1000)}, f"{folder}/step_12.pt")
saver.finalize_async_save(blocking=True)
assert torch.load(f"{folder}/step_12.pt")["weight"].sum() == 1000
saver.async_save({"weight": torch.ones(10)}, f"{folder}/nowhere/step_13.pt")
saver.finalize_async_save(blocking=True)
saver.async_save({"weight": torch.ones(10)}, f"{folder}/step_14.pt")
recorder.close()
saver.finalize_async_save(blocking=True)
"""

LOCAL = """
from nvidia_resiliency_ext.checkpointing.local.basic_state_dict import BasicTensorAwareStateDict
from nvidia_resiliency_ext.checkpointing.local.ckpt_managers.local_manager import LocalCheckpointManager
manager = observe_async_checkpoint(LocalCheckpointManager(folder + "/local"), recorder)
queue = observe_async_checkpoint(AsyncCallsQueue(persistent=False), recorder)
manager.save(BasicTensorAwareStateDict({"rate": 0.1}), 20)
queue.schedule_async_request(manager.save(BasicTensorAwareStateDict({"rate": 0.1}), 21, is_async=True))
queue.maybe_finalize_async_calls(blocking=True, no_dist=True)
def wrong():
    raise ValueError("the marker cannot be moved")
queue.schedule_async_request(AsyncRequest(print, ("wrote",), [wrong]))
try:
    queue.maybe_finalize_async_calls(blocking=True, no_dist=True)
except ValueError:
    pass
else:
    raise SystemExit("NVRx's exception was swallowed")
assert manager.find_latest() == 21
manager.load()
recorder.close()
"""


def facts_of(script: str, folder: Path) -> list[Fact]:
    environment = {"RERAIL_DIR": str(folder / "rings"), "RERAIL_RUN": "r", "PATH": "/usr/bin:/bin", "RANK": "0",
                   "HOME": str(folder), "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PRELUDE + script), str(folder)],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = (folder / "rings" / "rings").glob("*.ring")
    reader = RingReader(path)
    facts = RingFacts(reader).read(RingPlace(), time.monotonic_ns(), until=0).facts
    reader.close()
    return list(facts)


def stages(facts: list[Fact]) -> list[tuple[int, str, str | None, str | None]]:
    return [(fact.step, str(fact.stage), fact.mode, fact.tier) for fact in facts if isinstance(fact, CheckpointMoment)]


@pytest.mark.slow
@pytest.mark.anywhere
def test_torch_saves_are_durable_when_nvrx_finalised_them_and_failed_where_the_writer_died(tmp_path: Path):
    pytest.importorskip("nvidia_resiliency_ext.checkpointing")
    facts = facts_of(TORCH, tmp_path)
    told = stages(facts)
    assert told[:3] == [(12, stage, "async", None) for stage in ("started", "captured", "durable")]
    assert told[3:6] == [(13, stage, "async", None) for stage in ("started", "captured", "failed")]
    assert told[6:8] == [(14, stage, "async", None) for stage in ("started", "captured")]
    blocked = [fact.blocked_us for fact in facts if isinstance(fact, CheckpointMoment) and fact.stage == "captured"]
    assert all(each is not None and each > 0 for each in blocked)
    saving = [fact for fact in facts if isinstance(fact, PhaseSpan) and fact.phase is Phase.SAVING and fact.end]
    assert len(saving) >= 4  # three captures, and the waits for a writer that went on


@pytest.mark.slow
@pytest.mark.anywhere
def test_local_checkpoints_lie_in_their_tier_and_a_failed_finalisation_is_told(tmp_path: Path):
    pytest.importorskip("nvidia_resiliency_ext.checkpointing")
    facts = facts_of(LOCAL, tmp_path)
    assert stages(facts) == [
        (20, "started", "sync", "local"), (20, "durable", "sync", "local"),
        (21, "started", "async", "local"), (21, "captured", "async", "local"), (21, "durable", "async", "local"),
        (7, "started", "async", None), (7, "captured", "async", None), (7, "failed", "async", None),
    ]  # fmt: skip
    (loaded,) = [fact for fact in facts if isinstance(fact, CheckpointLoaded)]
    assert (loaded.step, loaded.tier) == (21, "local")


def test_an_object_that_is_no_checkpointing_is_refused_by_name(make_recorder: Callable[..., Recorder]):
    with pytest.raises(TypeError, match="saver: dict is no checkpointing object"):
        observe_async_checkpoint({}, make_recorder())
