"""The callbacks of Hugging Face Trainer and of Lightning, in real training runs on the CPU that break and resume."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rerail.collectors.ring import RingReader
from rerail.collectors.ring_facts import RingFacts, RingPlace
from rerail.server.core.facts import (
    CheckpointLoaded,
    CheckpointMoment,
    Evidence,
    Fact,
    PhaseSpan,
    RunEnded,
    RunStarted,
    Steps,
)

TRANSFORMERS = """
import sys, time, torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from rerail.collectors.transformers_hooks import recorder_callback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        guess = self.layer(x).squeeze(-1)
        return {"loss": ((guess - labels) ** 2).mean(), "logits": guess}

class Data(torch.utils.data.Dataset):
    def __init__(self, seconds=0.0): self.seconds = seconds
    def __len__(self): return 64
    def __getitem__(self, place):
        time.sleep(self.seconds)
        return {"x": torch.ones(4), "labels": torch.tensor(0.5)}

class Fault(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if sys.argv[2] == "break" and state.global_step == 7:
            raise RuntimeError("boom at 7")

args = TrainingArguments(output_dir=sys.argv[1], max_steps=10, per_device_train_batch_size=4, save_steps=4,
                         eval_steps=5, eval_strategy="steps", report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(model=Model(), args=args, train_dataset=Data(0.04), eval_dataset=Data(),
                  callbacks=[recorder_callback(), Fault()])
trainer.train(resume_from_checkpoint=sys.argv[2] == "resume")
"""

LIGHTNING = """
import sys, glob, torch, lightning
from rerail.collectors.lightning_hooks import recorder_callback

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, place): return (self.layer(batch[0]) ** 2).mean()
    def validation_step(self, batch, place): pass
    def on_train_batch_end(self, *_):
        if sys.argv[2] == "break" and self.global_step == 7:
            raise RuntimeError("boom at 7")
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(64, 4)), batch_size=4)
save = lightning.pytorch.callbacks.ModelCheckpoint(dirpath=sys.argv[1], every_n_train_steps=4, save_top_k=-1,
                                                   filename="{step}")
trainer = lightning.Trainer(max_steps=10, callbacks=[recorder_callback(), save], logger=False, accelerator="cpu",
                            enable_progress_bar=False, enable_model_summary=False, val_check_interval=5)
kept = sorted(glob.glob(sys.argv[1] + "/*.ckpt"))
trainer.fit(Model(), data, data, ckpt_path=kept[-1] if sys.argv[2] == "resume" else None)
"""


def train(script: str, how: str, folder: Path) -> list[Fact]:
    """Run it, and give what its recorder kept."""
    rings = folder / how
    environment = {"RERAIL_DIR": str(rings), "RERAIL_RUN": "trained", "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1",
                   "HOME": str(folder), "CUDA_VISIBLE_DEVICES": ""}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder / "out"), how],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) is (how == "resume"), done.stderr[-3000:]
    (path,) = (rings / "rings").glob("*.ring")
    reader = RingReader(path)
    facts = RingFacts(reader).read(RingPlace(), time.monotonic_ns(), until=0).facts
    reader.close()
    return list(facts)


def steps_of(facts: list[Fact]) -> list[int]:
    return [
        fact.first_step + place for fact in facts if isinstance(fact, Steps) for place in range(len(fact.durations_us))
    ]


@pytest.mark.slow
@pytest.mark.anywhere
@pytest.mark.parametrize("name", ["transformers", "lightning"])
def test_one_callback_tells_steps_saves_loads_and_evaluations(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip(name)
    script = {"transformers": TRANSFORMERS, "lightning": LIGHTNING}[name]
    before, after = train(script, "break", tmp_path), train(script, "resume", tmp_path)
    assert steps_of(before) == list(range(1, 8))
    assert steps_of(after) == list(range(5, 11))
    for facts, saved in ((before, {4}), (after, {8})):
        durable = {(fact.step, fact.mode) for fact in facts
                   if isinstance(fact, CheckpointMoment) and fact.stage == "durable"}  # fmt: skip
        assert {(step, "sync") for step in saved} <= durable
        phases = [fact.phase.value for fact in facts if isinstance(fact, PhaseSpan) and fact.end is not None]
        assert {"initializing", "evaluating", "saving"} <= set(phases)
        if name == "transformers":  # a batch takes 0.16 s, in a resumed epoch too; training began behind the first
            assert phases.count("data_wait") >= len(steps_of(facts)) - 1
    assert [fact.step for fact in after if isinstance(fact, CheckpointLoaded)] == [4]
    assert [fact.step for fact in before if isinstance(fact, CheckpointLoaded)] == []
    (run,) = [fact for fact in after if isinstance(fact, RunStarted)]
    assert (run.framework, run.target_step, run.world_size) == (name, 10, 1)
    assert [fact.outcome.value for fact in after if isinstance(fact, RunEnded)] == ["completed"]
    assert not any(isinstance(fact, RunEnded) for fact in before)
    if name == "lightning":
        assert any("boom at 7" in fact.text for fact in before if isinstance(fact, Evidence))
