"""What each hook adds to a step of training.

    python bench/hooks.py [--rounds 200]

Every hook stands beside the same call without it: blocks of both are timed in turns, so that both see the same noise.
Printed is the median of the differences between neighbouring blocks, per step, with its 95 % interval (bootstrap over
the pairs). The optimizer, the compiled function, Transformers' callback handler and Lightning's trainer are the real
ones; of NVRx's client and call wrapper only what the hook puts around a call is timed, since their own cost is a
message to another process. Hooks of checkpoints cost nothing per step; theirs is per save.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from rerail.collectors import lightning_hooks, nvrx_hooks, transformers_hooks
from rerail.collectors.identity import Identity, Settings
from rerail.collectors.recorder import Recorder
from rerail.collectors.torch_hooks import count_steps, observe_checkpoints, observe_compile, watch_data

Call = Callable[[], object]
CALLS = 200
RESAMPLES = 2000
now = time.perf_counter_ns


def _block(call: Call, calls: int) -> float:
    """Nanoseconds of one call, over a block of them."""
    before = now()
    for _ in repeat(None, calls):
        call()
    return (now() - before) / calls


def measure(name: str, bare: Call, hooked: Call, rounds: int, calls: int = CALLS) -> None:
    """Time both in turns and print what the hook adds."""
    measure_blocks(name, lambda: _block(bare, calls), lambda: _block(hooked, calls), rounds)


def measure_blocks(name: str, bare: Callable[[], float], hooked: Callable[[], float], rounds: int) -> None:
    """The same for blocks that prepare themselves; each gives nanoseconds per call."""
    bare()
    hooked()
    alone, added = [], []
    for number in range(rounds):
        if number % 2:
            alone.append(bare())
            added.append(hooked() - alone[-1])
        else:
            with_hook = hooked()
            alone.append(bare())
            added.append(with_hook - alone[-1])
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(added, k=len(added))) for _ in range(RESAMPLES))
    low, high = medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
    print(
        f"{name:58s} {statistics.median(added) / 1000:9.2f} µs [{low / 1000:.2f}, {high / 1000:.2f}]"
        f"   beside {statistics.median(alone) / 1000:.2f} µs"
    )


def _nothing() -> None:
    pass


def _optimizer() -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.zeros(8))
    weight.grad = torch.ones(8)
    return torch.optim.SGD([weight], lr=0.0)


def _batches(loader: Iterator[object]) -> Call:
    return lambda: next(loader)


def _transformers(recorder: Recorder) -> tuple[Call, Call]:
    """Both callbacks of a step, as Transformers' own handler calls them."""
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_callback import CallbackHandler, TrainerCallback

    arguments = TrainingArguments(output_dir=tempfile.gettempdir(), use_cpu=True, report_to=[])

    def steps(callback: TrainerCallback) -> Call:
        handler = CallbackHandler([callback], None, None, None, None)
        state, control = TrainerState(), TrainerControl()

        def step() -> None:
            state.global_step += 1
            handler.on_step_begin(arguments, state, control)
            handler.on_step_end(arguments, state, control)

        return step

    return steps(TrainerCallback()), steps(transformers_hooks.recorder_callback(recorder))


def _lightning(recorder: Recorder) -> tuple[Call, Call]:
    """The callback of a batch, with a real trainer whose step goes on."""
    from lightning.pytorch import Callback, Trainer

    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    progress = trainer.fit_loop.epoch_loop.automatic_optimization.optim_progress.optimizer.step.total

    def steps(callback: Callback) -> Call:
        def step() -> None:
            progress.completed += 1
            callback.on_train_batch_end(trainer, None, None, None, 0)

        return step

    return steps(Callback()), steps(lightning_hooks.recorder_callback(recorder))


class _Client:
    """As much of NVRx's client as a hook wraps."""

    hb_timeouts = SimpleNamespace(initial=60.0, subsequent=30.0)

    def init_workload_monitoring(self) -> None:
        """Nothing: nobody listens here."""

    def send_heartbeat(self) -> None:
        """Nothing."""

    def start_section(self, name: str) -> None:
        """Nothing."""

    def end_section(self, name: str) -> None:
        """Nothing."""

    def end_all_sections(self) -> None:
        """Nothing."""

    def ping(self) -> None:
        """Nothing."""


def _sections(client: Any) -> Call:
    def step() -> None:
        client.start_section("step")
        client.end_section("step")

    return step


def _saves(place: Path) -> Call:
    import torch.distributed.checkpoint as dcp

    state = {"weight": torch.zeros(8)}

    def save() -> None:
        dcp.save(state, checkpoint_id=str(place / "step-1"), no_dist=True)

    return save


def _observed(call: Call, recorder: Recorder) -> Call:
    def observed() -> None:
        with observe_checkpoints(recorder):
            call()

    return observed


def main() -> None:
    """Measure every hook."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="pairs of blocks (200)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for library in ("transformers", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(library).setLevel(logging.ERROR)
    print(f"load {os.getloadavg()[0]:.1f}; median of {rounds} pairs of blocks [95 % interval], per step")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Path(folder)
        recorder = Recorder(who=Identity("bench", "n", rank=0), where=Settings(place))
        stack.callback(recorder.close)
        recorder.ready()
        measure("Recorder.step()", _nothing, recorder.step, rounds)
        measure("Recorder.heartbeat()", _nothing, recorder.heartbeat, rounds)
        bare, hooked = _optimizer(), _optimizer()
        count_steps(recorder, hooked)
        measure("count_steps(recorder, optimizer)", bare.step, hooked.step, rounds)
        loader = watch_data(recorder, repeat(1))
        measure("watch_data(recorder, loader)", _batches(repeat(1)), _batches(loader), rounds)
        _compiled(recorder, rounds)
        measure("Transformers callback", *_transformers(recorder), rounds)
        measure("Lightning callback", *_lightning(recorder), rounds)
        alone, client = _Client(), nvrx_hooks.observe_client(_Client(), recorder)
        measure("NVRx: observe_client, a heartbeat", alone.send_heartbeat, client.send_heartbeat, rounds)
        measure("NVRx: observe_client, a section", _sections(alone), _sections(client), rounds)
        wrapper = _Client()
        nvrx_hooks.observe_ping(wrapper, recorder, 60.0)
        measure("NVRx: observe_ping, a ping", alone.ping, wrapper.ping, rounds)
        save = _saves(place)
        measure("observe_checkpoints, per save of DCP", save, _observed(save, recorder), max(10, rounds // 10), 3)


def _compiled(recorder: Recorder, rounds: int) -> None:
    """A compiled function that needs no compiling any more."""
    compiled = torch.compile(lambda value: value + 1, backend="eager")
    value = torch.zeros(8)
    compiled(value)

    def call() -> object:
        return compiled(value)

    def observed() -> float:
        remove = observe_compile(recorder)
        try:
            return _block(call, CALLS)
        finally:
            remove()

    measure_blocks("observe_compile(recorder), nothing to compile", lambda: _block(call, CALLS), observed, rounds)


if __name__ == "__main__":
    main()
