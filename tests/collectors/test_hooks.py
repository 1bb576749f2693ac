"""Hooks state what NVRx and torch do, and change nothing about it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rerail.collectors.nvrx_hooks import (
    abort_hook,
    armed_timeout_us,
    finalize_hook,
    initialize_hook,
    observe_client,
    observe_ping,
    section_phase,
)
from rerail.collectors.recorder import Recorder
from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.server.core.facts import (
    AttemptStarted,
    CheckpointLoaded,
    CheckpointMoment,
    Evidence,
    Fact,
    Heartbeats,
    PhaseSpan,
    RecoveryMark,
    Steps,
)
from rerail.server.core.fold import RunFold
from rerail.server.core.recovery_configs.normalising import recovery_config


def read_all(directory: Path) -> tuple[Fact, ...]:
    (path,) = (directory / "rings").glob("*.ring")
    reader = RingReader(path)
    facts = RingFacts(reader).read(RingPlace(), time.monotonic_ns(), until=0).facts
    reader.close()
    return facts


@dataclass
class Timeouts:
    initial: float | None = 60.0
    subsequent: float | None = 10.0


class Client:
    """As `RankMonitorClient` of 0.4 … 0.7: these methods, these attributes."""

    def __init__(self) -> None:
        self.hb_timeouts: Timeouts | None = None
        self.calls: list[str] = []
        self.fails = False

    def init_workload_monitoring(self) -> None:
        self.hb_timeouts = Timeouts()

    def send_heartbeat(self) -> None:
        if self.fails:
            raise ConnectionError("broken pipe")
        self.calls.append("heartbeat")

    def start_section(self, section: str) -> None:
        self.calls.append(f"start {section}")

    def end_section(self, section: str) -> None:
        self.calls.append(f"end {section}")

    def end_all_sections(self) -> None:
        self.calls.append("end all")


def test_a_heartbeat_is_stated_with_the_timeout_that_guarded_it(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder()
    client = observe_client(Client(), recorder)
    client.init_workload_monitoring()
    client.send_heartbeat()
    recorder.ready()
    client.send_heartbeat()
    client.send_heartbeat()
    assert client.hb_timeouts is not None
    client.hb_timeouts.subsequent = None
    client.send_heartbeat()
    client.send_heartbeat()
    beats = [fact for fact in read_all(tmp_path) if isinstance(fact, Heartbeats)]
    told = [(fact.phase, fact.armed_timeout_us, fact.count) for fact in beats]
    assert told == [("initializing", 60_000_000, 1), ("training", 10_000_000, 3), ("training", None, 1)]
    assert client.calls == ["heartbeat"] * 5


def test_the_time_outs_that_a_client_is_told_are_recovery_settings_of_the_attempt(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    client = Client()
    client.section_timeouts = SimpleNamespace(section={"step": 6.0, "save": None}, out_of_section=30)  # type: ignore[attr-defined]
    observe_client(client, make_recorder(rank=0)).init_workload_monitoring()
    started = [fact for fact in read_all(tmp_path) if isinstance(fact, AttemptStarted)]
    settings = [json.loads(fact.config) for fact in started if fact.config]
    assert settings[-1] == {
        "initial_rank_heartbeat_timeout": 60.0, "rank_heartbeat_timeout": 10.0, "rank_out_of_section_timeout": 30.0,
        "rank_section_timeouts": {"save": None, "step": 6.0},
    }  # fmt: skip
    fold = RunFold(started[0].run)
    fold.add(started)
    config = recovery_config(fold.view(max(fact.at for fact in started)).attempts[-1].config, "ft_launcher")
    assert config is not None
    told = {name: config.setting(name).value for name in ("heartbeat_timeout", "initial_heartbeat_timeout",
            "section_timeouts", "out_of_section_timeout")}  # fmt: skip
    assert told == {"heartbeat_timeout": 10, "initial_heartbeat_timeout": 60, "section_timeouts": "step 6",
                    "out_of_section_timeout": 30}  # fmt: skip


def test_a_heartbeat_that_nvrx_refused_is_not_stated_and_its_error_passes(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    client = observe_client(Client(), make_recorder())
    client.fails = True
    with pytest.raises(ConnectionError):
        client.send_heartbeat()
    assert not [fact for fact in read_all(tmp_path) if isinstance(fact, Heartbeats)]


def test_sections_are_phases(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = make_recorder()
    recorder.ready()
    client = observe_client(Client(), recorder)
    client.start_section("step")
    client.end_section("step")
    client.start_section("checkpointing")
    client.end_section("checkpointing")
    client.start_section("my eval!")
    client.end_all_sections()
    client.end_section("never opened")
    spans = [fact for fact in read_all(tmp_path) if isinstance(fact, PhaseSpan) and fact.end is not None]
    assert [(span.phase.value, span.name) for span in spans[1:]] == [("saving", None), ("overhead", "my_eval_")]
    assert client.calls[-2:] == ["end all", "end never opened"]


@pytest.mark.parametrize(
    ("section", "phase"),
    [
        ("step", None), ("Setup", "initializing"), ("save", "saving"), ("", "overhead:section"),
        ("λ" * 300, "overhead:" + "λ" * 100),
    ],
)  # fmt: skip
def test_a_section_has_one_phase(section: str, phase: str | None) -> None:
    assert section_phase(section) == phase


@pytest.mark.parametrize(
    ("timeouts", "told"), [(None, None), (Timeouts(subsequent=None), None), (Timeouts(), 10_000_000)]
)
def test_no_timeout_is_not_a_timeout_of_nothing(timeouts: Timeouts | None, told: int | None) -> None:
    assert armed_timeout_us(SimpleNamespace(hb_timeouts=timeouts), "subsequent") == told


@pytest.mark.filterwarnings("ignore:The pynvml package is deprecated:FutureWarning")
def test_in_process_plugins_state_a_restart_and_its_cause(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    recorder = make_recorder()
    wrapper = SimpleNamespace(ping=lambda: "pong")
    observe_ping(wrapper, recorder, timeout_seconds=60)
    initialize_hook(recorder)(SimpleNamespace(iteration=0))
    recorder.ready()
    assert wrapper.ping() == "pong"
    abort_hook(recorder)(SimpleNamespace())
    state = SimpleNamespace(fn_exception=RuntimeError("loss is NaN"))
    assert finalize_hook(recorder)(state) is state
    initialize_hook(recorder)(SimpleNamespace(iteration=1))
    facts = read_all(tmp_path)
    assert [fact.stage.value for fact in facts if isinstance(fact, RecoveryMark)] == ["noticed", "workers_gone"]
    assert [fact.text for fact in facts if isinstance(fact, Evidence)] == ["RuntimeError: loss is NaN"]
    assert [fact.armed_timeout_us for fact in facts if isinstance(fact, Heartbeats)] == [60_000_000]
    last = [fact for fact in facts if isinstance(fact, PhaseSpan)][-1]
    assert (last.phase.value, last.end, last.iteration) == ("initializing", None, 1)


@pytest.mark.slow
@pytest.mark.anywhere
@pytest.mark.filterwarnings("ignore")
def test_torch_states_its_steps_saves_and_loads(make_recorder: Callable[..., Recorder], tmp_path: Path) -> None:
    import torch
    import torch.distributed as distributed
    import torch.distributed.checkpoint as checkpointing
    from torch.distributed.checkpoint.api import CheckpointException

    from rerail.collectors.torch_hooks import count_steps, observe_checkpoints

    recorder = make_recorder(rank=0)
    model: Any = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder.ready()
    remove = count_steps(recorder, optimizer)
    for _ in range(3):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    remove()
    optimizer.step()
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    original = checkpointing.save
    with observe_checkpoints(recorder, tier="local"):
        checkpointing.save({"model": model.state_dict()}, checkpoint_id=tmp_path / "step_3")
        checkpointing.async_save({"model": model.state_dict()}, checkpoint_id=str(tmp_path / "step_7")).result()
        checkpointing.load({"model": model.state_dict()}, checkpoint_id=tmp_path / "step_7")
        with pytest.raises(CheckpointException):
            checkpointing.load({"model": model.state_dict()}, checkpoint_id=tmp_path / "step_9")
    distributed.destroy_process_group()
    assert checkpointing.save is original
    deadline = time.monotonic() + 5
    while len(stages(tmp_path)) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert stages(tmp_path) == [
        (3, "started", "sync"), (3, "durable", "sync"),
        (7, "started", "async"), (7, "captured", "async"), (7, "durable", "async"),
    ]  # fmt: skip
    facts = read_all(tmp_path)
    assert sum(len(fact.durations_us) for fact in facts if isinstance(fact, Steps)) == 3
    loads = [(fact.step, fact.outcome) for fact in facts if isinstance(fact, CheckpointLoaded)]
    assert loads == [(7, None), (9, "failed")]


def stages(directory: Path) -> list[tuple[int, str, str | None]]:
    return [
        (fact.step, fact.stage.value, fact.mode)
        for fact in read_all(directory)
        if isinstance(fact, CheckpointMoment)
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.anywhere
@pytest.mark.filterwarnings("ignore")
def test_long_waits_for_data_and_compilations_are_told_and_short_ones_are_not(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    import torch

    from rerail.collectors.torch_hooks import observe_compile, watch_data

    recorder = make_recorder(rank=0)
    recorder.ready()

    def loader() -> Iterator[int]:
        for batch in range(4):
            time.sleep(0.15 if batch == 2 else 0)
            yield batch

    assert list(watch_data(recorder, loader())) == [0, 1, 2, 3]

    def slowly(graph: Any, _inputs: object) -> Any:
        time.sleep(0.2)
        return graph.forward

    remove = observe_compile(recorder)
    compiled = torch.compile(lambda value: value * 2 + 1, backend=slowly)
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    remove()
    told = {}
    for fact in read_all(tmp_path):
        if isinstance(fact, PhaseSpan) and fact.end is not None and fact.start is not None:
            told[fact.phase.value, fact.name] = fact.end - fact.start
    assert set(told) == {("initializing", None), ("data_wait", None), ("overhead", "compile")}
    assert 0.15e9 <= told["data_wait", None] < 0.5e9
    assert told["overhead", "compile"] >= 0.2e9


@pytest.mark.slow
def test_an_optimizer_of_accelerate_steps_where_its_gradients_are_whole(
    make_recorder: Callable[..., Recorder], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    accelerate = pytest.importorskip("accelerate")
    from rerail.collectors.torch_hooks import count_steps

    accelerator = accelerate.Accelerator(gradient_accumulation_steps=4, cpu=True)
    layer = torch.nn.Linear(4, 1)
    model, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), 0.1))
    recorder = make_recorder()
    remove = count_steps(recorder, optimizer)
    for _ in range(8):
        with accelerator.accumulate(model):
            accelerator.backward(model(torch.ones(4, 4)).mean())
            optimizer.step()
            optimizer.zero_grad()
    remove()
    recorder.close()
    steps = [fact for fact in read_all(tmp_path) if isinstance(fact, Steps)]
    assert [(fact.first_step, fact.step_count) for fact in steps] == [(1, 2)]
