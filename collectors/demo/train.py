"""The training script of the demonstration: a small sharded model, real checkpoints, and faults on a schedule.

It runs under `ft_launcher` or `torchrun`, on CPUs with gloo. It is also the example of how a training script talks to
rerail: the lines that do are marked with `rerail`.

Every rank writes what truly happened to `truth.rank<N>.jsonl`, without going through the recorder, so that what
rerail says can be checked against it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import signal
import time
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from rerail.collectors.demo import in_process
from rerail.collectors.demo.schedule import LONGEST_SOCKET, Fault, label, parse, worker_socket
from rerail.collectors.identity import identity, is_set
from rerail.collectors.nvrx_hooks import observe_client  # rerail
from rerail.collectors.recorder import Recorder  # rerail
from rerail.collectors.torch_hooks import observe_checkpoints  # rerail

_servers: list[object] = []
"""The worker server of this process, kept alive."""


class Truth:
    """What happened, one JSON line each, written through at once."""

    def __init__(self, directory: Path, rank: int, attempt: int) -> None:
        self._file = (directory / f"truth.rank{rank}.jsonl").open("a", buffering=1, encoding="utf-8")
        self._common = {"rank": rank, "attempt": attempt}
        self.past_faults = _past_faults(directory / f"truth.rank{rank}.jsonl")

    def say(self, event: str, **told: object) -> None:
        """One line."""
        self._file.write(json.dumps({"t": time.time(), "event": event, **self._common, **told}) + "\n")


def _past_faults(path: Path) -> frozenset[tuple[int, str]]:
    """Faults that happened to this rank in earlier attempts."""
    told = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return frozenset((one["step"], one["kind"]) for one in told if one["event"] == "fault")


def arguments() -> argparse.Namespace:
    """What the runner of the demonstration asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--checkpoints", choices=("sync", "async"), default="async")
    parser.add_argument("--step-seconds", type=float, default=0.15)
    parser.add_argument("--collective-timeout", type=float, default=120.0)
    parser.add_argument("--faults", type=parse, default=())
    parser.add_argument("--in-process", action="store_true", help="restart in the same interpreter where that can be")
    parser.add_argument("--project", default=None)
    parser.add_argument("--arm", default=None, help="which arm of a comparison this is")
    return parser.parse_args()


def main() -> None:
    """Train to the last step, from the newest checkpoint there is."""
    asked = arguments()
    who = identity()
    rank, attempt = who.rank or 0, (who.restart or 0) + (who.requeue or 0)
    truth = Truth(asked.directory, rank, attempt)
    truth.say("process_start")
    recorder = Recorder(  # rerail: from the start of this process on, bring-up is `initializing`
        config={
            "checkpoint_interval_steps": asked.checkpoint_every,
            "checkpoint_mode": asked.checkpoints,
            "checkpoint_tier": "local",
            "collective_timeout_seconds": asked.collective_timeout,
            **(in_process.SETTINGS if asked.in_process else {}),
        },
        versions=library_versions(),
    )
    with recorder:
        if rank == 0 and attempt == 0:
            recorder.run(
                target_step=asked.steps, world_size=who.world_size, framework="torch FSDP2, gloo on CPUs",
                project=asked.project, name=asked.arm, labels={"fault_schedule": label(asked.steps, asked.faults)},
            )  # fmt: skip
        if asked.in_process:
            in_process.restarting(recorder, partial(train, asked, rank, attempt, truth, recorder), attempt)
        else:
            train(asked, rank, attempt, truth, recorder)


def train(
    asked: argparse.Namespace, rank: int, attempt: int, truth: Truth, recorder: Recorder, iteration: int | None = None
) -> None:
    """Everything that needs torch. `iteration` counts in-process restarts; None where there are none."""
    import torch
    import torch.distributed as distributed
    import torch.distributed.checkpoint as checkpointing
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    truth.say("imports_done")
    answer_while_it_hangs(worker_socket(asked.directory, rank))  # for rerail, which asks before somebody kills it
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=asked.collective_timeout)
    # A group that is formed again in the same process needs a meeting place of its own.
    place = None if iteration is None else f"file://{asked.directory}/meeting.{attempt}.{iteration}"
    members = {} if place is None else {"rank": rank, "world_size": identity().world_size or 1}
    distributed.init_process_group("gloo", init_method=place, timeout=timeout, **members)
    saving_group = distributed.new_group(backend="gloo", timeout=timeout)
    truth.say("pg_init")
    client = monitor_client() if iteration is None else None
    if client is not None:
        observe_client(client, recorder)  # rerail: heartbeats and the timeout that guards them
        client.init_workload_monitoring()
    torch.manual_seed(7)
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(6)), torch.nn.Linear(256, 1))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    root = asked.directory / "checkpoints"
    pending: Any = None
    with observe_checkpoints(recorder, tier="local"):  # rerail: every save and load from here on
        done = newest_checkpoint(root)
        # A step makes the optimizer's state, so that there is something for a load to fill.
        model(torch.zeros(1, 256)).sum().backward()
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        if done:
            model_state, optimizer_state = get_state_dict(model, optimizer)
            state = {"model": model_state, "optimizer": optimizer_state}
            checkpointing.load(state, checkpoint_id=root / f"step_{done}")
            set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
            truth.say("load", step=done)
        distributed.barrier()
        if client is not None:
            client.send_heartbeat()
        recorder.ready()  # rerail: bring-up is over, the first step begins
        for step in range(done + 1, asked.steps + 1):
            began = time.monotonic()
            loss = model(torch.randn(64, 256)).square().mean()
            maybe_fail(asked.faults, step, rank, truth)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(max(0.0, asked.step_seconds - (time.monotonic() - began)))
            recorder.step(step)  # rerail: this step is completed
            truth.say("step", step=step)
            if client is not None:
                client.send_heartbeat()
            if step % asked.checkpoint_every == 0 or step == asked.steps:
                truth.say("save", step=step)
                if pending is not None:
                    with recorder.phase("saving") if not pending.done() else nullcontext():
                        pending.result()
                model_state, optimizer_state = get_state_dict(model, optimizer)
                state = {"model": model_state, "optimizer": optimizer_state}
                folder = root / f"step_{step}"
                if asked.checkpoints == "async":
                    pending = checkpointing.async_save(state, checkpoint_id=folder, process_group=saving_group)
                else:
                    checkpointing.save(state, checkpoint_id=folder)
            if rank == 0 and step % 10 == 0:
                print(f"[train] attempt={attempt} step={step} loss={float(loss.detach()):.5f}", flush=True)  # noqa: T201
        if pending is not None:
            with recorder.phase("saving"):
                pending.result()
    truth.say("done")
    with recorder.phase("overhead:teardown"):
        distributed.barrier()
        if client is not None:
            client.shutdown_workload_monitoring()
        distributed.destroy_process_group()


def maybe_fail(faults: tuple[Fault, ...], step: int, rank: int, truth: Truth) -> None:
    """Fail where the schedule says so."""
    for fault in faults:
        if (fault.step, fault.rank) != (step, rank) or (fault.step, fault.kind) in truth.past_faults:
            continue
        truth.say("fault", kind=fault.kind, step=step)
        truth.past_faults |= {(fault.step, fault.kind)}
        if fault.kind == "exception":
            raise RuntimeError(f"loss is NaN at step {step} (the demonstration's scheduled exception)")
        if fault.kind == "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            time.sleep(3600)


def monitor_client() -> Any:
    """NVRx's client, where its launcher started this process; None elsewhere."""
    try:
        from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient
        from nvidia_resiliency_ext.fault_tolerance.data import FT_RANK_MONITOR_IPC_SOCKET_ENV_VAR
    except ImportError:
        return None
    return RankMonitorClient() if is_set(FT_RANK_MONITOR_IPC_SOCKET_ENV_VAR) else None


def answer_while_it_hangs(path: Path) -> None:
    """Serve this worker's flight recorder and stacks on a unix socket, once in a process, where this torch can."""
    if _servers or len(str(path)) > LONGEST_SOCKET:
        return
    with suppress(ImportError, RuntimeError, OSError):
        from torch._C._distributed_c10d import _WorkerServer

        path.unlink(missing_ok=True)  # of the attempt before
        _servers.append(_WorkerServer(str(path)))


def library_versions() -> dict[str, str]:
    """Versions that decide how a restart goes."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("torch", "nvidia-resiliency-ext"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def newest_checkpoint(root: Path) -> int:
    """The step of the newest complete checkpoint: the one whose metadata was written. 0: there is none."""
    steps = [int(match[1]) for path in root.glob("step_*/.metadata") if (match := re.search(r"step_(\d+)", str(path)))]
    return max(steps, default=0)


if __name__ == "__main__":
    main()
