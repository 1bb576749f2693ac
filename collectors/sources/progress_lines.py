"""Progress lines: what the lines of training frameworks say of steps, checkpoints and evaluations.

Read are Megatron-LM, NeMo (1 and 2), torchtitan, Hugging Face Trainer, Lightning, DeepSpeed, MaxText, nanoGPT, and any
line that names a step beside a loss or a rate, or a step beside a checkpoint.

Rules
- A step here is the number of steps that are done. Frameworks that count from 0 (NeMo 2, MaxText, nanoGPT) are
  counted on by one.
- A line of one framework is not read as a line of any: the first rule that fits decides.
- Nothing here raises, and no pattern takes more than linear time on any text of bounded length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

LONGEST = 2_000
"""Of a line, that is looked at."""

MOST_PARTS = 2_000


class Told(StrEnum):
    """What a line tells."""

    BANNER = "banner"
    """The program begins anew."""
    READY = "ready"
    """Bring-up is over: the loop begins."""
    FITTING = "fitting"
    """The trainer has shown its model: it begins to fit it."""
    FRESH = "fresh"
    """There is no checkpoint to load: training begins at 0."""
    CLOCK = "clock"
    """What time it is, and nothing else."""
    TARGET = "target"
    """How many steps there will be."""
    STEP = "step"
    SAVING = "saving"
    SCHEDULED = "scheduled"
    """An asynchronous save has its copy: training goes on."""
    SAVED = "saved"
    SAVE_TOOK = "save_took"
    """How long training waited for the save that was told before."""
    STALLED = "stalled"
    """So long training waited for a save that is told by these words alone; whether it is durable is told after."""
    STILL_SAVING = "still_saving"
    """A part of a save is written, and more follows."""
    LOADING = "loading"
    RESUMING = "resuming"
    """Which checkpoint it goes on from; how long its load takes may be told after, or never."""
    LOADED = "loaded"
    LOAD_TOOK = "load_took"
    """How long the load was that was told before."""
    EVALUATING = "evaluating"
    EVALUATED = "evaluated"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Progress:
    """What one line says."""

    told: Told
    framework: str
    step: int | None = None
    """Steps done; of a checkpoint, those in it."""
    seconds: float | None = None
    """Of a step: how long one took; of a save or a load: how long it was."""
    bar_seconds: int | None = None
    """A progress bar's own clock."""
    total: int | None = None
    """Steps of a progress bar, or of the whole run."""
    world_size: int | None = None
    epoch: int | None = None
    is_at_zero: bool = False
    """A bar that nothing of its epoch is done in yet."""
    of_epoch: int | None = None
    """Of a bar that names neither its epoch nor its total: how many batches of the epoch are done."""
    or_next: bool = False
    """Steps done are `step`, or one more: the number counts from 0 where training goes on, and from 1 at its end."""
    rule: int | None = None
    """By which rule it was read; None for a bar."""


_Make = Callable[[re.Match[str], str], Progress | None]


@dataclass(frozen=True, slots=True)
class _Rule:
    """`signs`: one of them stands in every line that may fit; `time`: where a step line tells how long a step took."""

    signs: tuple[str, ...]
    pattern: re.Pattern[str]
    make: _Make
    time: re.Pattern[str] | None = None


def _plain(told: Told, framework: str, add: int = 0) -> _Make:
    """A line with nothing but a step, in group `step` where there is one."""

    def make(match: re.Match[str], _text: str) -> Progress:
        groups = match.groupdict()
        step, seconds = groups.get("step"), groups.get("seconds")
        return Progress(
            told, framework, None if step is None else _count(step) + add, None if seconds is None else _real(seconds)
        )

    return make


def _count(digits: str) -> int:
    return int(digits.replace(",", "").replace("_", "")[:15] or 0)


def _real(digits: str) -> float | None:
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if 0 <= value < 1e8 else None


_MEGATRON_TIME = re.compile(r"elapsed time per iteration \(ms\): {0,12}([\d.]{1,20})")


def _megatron(match: re.Match[str], text: str) -> Progress:
    took = _MEGATRON_TIME.search(text)
    each = None if took is None else _real(took[1])
    return Progress(Told.STEP, "megatron", _count(match["step"]), None if each is None else each / 1000)


_NEMO_TIME = re.compile(r"train_step_timing in s[:=] ?([\d.]{1,20})")


def _nemo(match: re.Match[str], text: str) -> Progress:
    took = _NEMO_TIME.search(text)
    return Progress(Told.STEP, "nemo", _count(match["step"]) + 1, None if took is None else _real(took[1]))


_RATE = re.compile(r"[ ,]([\d.]{1,12}) ?(it/s|s/it)\b")
_GLOBAL_STEP = re.compile(r"\bglobal_step=(\d{1,12})(?:\.\d{1,4})?")


def _bar(match: re.Match[str], text: str) -> Progress:
    """A bar of Hugging Face Trainer, or of Lightning (and NeMo 1) where it names an epoch."""
    done, total = _count(match["done"]), _count(match["total"])
    clock = sum(int(part) * 60**place for place, part in enumerate(reversed(match["clock"].split(":"))))
    rate = _RATE.search(text)
    each = None if rate is None else _real(rate[1]) or None
    if each is not None and rate is not None and rate[2] == "it/s":
        each = 1 / each
    if match["epoch"] is None:
        return Progress(Told.STEP, "transformers", done, each, clock, total)
    clock = clock if done else 0  # a bar of rich still shows that of the epoch before
    took, told = _NEMO_TIME.search(text), _GLOBAL_STEP.search(text)
    step = _count(match["epoch"]) * total + done if told is None else _count(told[1]) + 1
    framework = "lightning" if took is None else "nemo"
    seconds = None if took is None else _real(took[1])
    return Progress(
        Told.STEP, framework, step, seconds, clock, total, epoch=_count(match["epoch"]), is_at_zero=not done
    )  # fmt: skip


def _unnamed_bar(match: re.Match[str], _text: str) -> Progress:
    """A bar of Lightning in the epoch that it goes on in: it tells the epoch and its length only when that is over."""
    clock = sum(int(part) * 60**place for place, part in enumerate(reversed(match["clock"].split(":"))))
    return Progress(Told.STEP, "lightning", bar_seconds=clock, of_epoch=_count(match["done"]))


def _world(match: re.Match[str], _text: str) -> Progress:
    return Progress(Told.BANNER, "megatron", world_size=_count(match["ranks"]))


def _target(match: re.Match[str], _text: str) -> Progress:
    return Progress(Told.TARGET, "transformers", total=_count(match["total"]))


_ANY_TIME = re.compile(
    r"(?:step[_ ]?time|iter(?:ation)?[_ ]?time|time per (?:step|iteration)|s/step|dt|step took|elapsed)(?: ?\(m?s\))?"
    r"[\"']?[:=]? {0,4}([\d.]{1,20}) ?(ms|s|sec)?\b"
)
_BESIDE = re.compile(r"loss\b|\blr\b|learning.rate|tokens|samples|grad.?norm|TFLOP|mfu\b|it/s|s/it", re.I)
_SETTING = re.compile(
    r"(?:accum\w{0,10}|warm\w{0,4}|max|total|every|per|num\w{0,3}|optimi\w{0,8}|save|log\w{0,4}|eval|decay|val\w{0,7}|\bat"
    r"|\bfrom|\buntil|\bafter)"
    r"[_ -]{0,2}(?:step|iter(?:ation)?)[\"' ]{0,2}[:=# ]{0,3}$",
    re.I,
)
"""A step that is a setting, or one of an evaluation."""


def _any_step(match: re.Match[str], text: str) -> Progress | None:
    if _BESIDE.search(text) is None or _SETTING.search(text[: match.start("step")]) is not None:
        return None
    took = _ANY_TIME.search(text)
    seconds = None
    if took is not None and took[2] is not None:
        seconds = _real(took[1])
        seconds = seconds / 1000 if seconds is not None and took[2] == "ms" else seconds
    return Progress(Told.STEP, "any", _count(match["step"]), seconds)


_PLACE = r"[^\s`]{0,600}/(?P<step>\d{1,12})(?:/[a-z_]{1,40})?[.`]{0,3}$"
"""Where Orbax writes a checkpoint, and `params` or `items` of one."""
_NOTHING = Progress(Told.CLOCK, "lightning")

_NUMBER = r"[-_ =:#]{0,3}(?P<step>\d[\d,]{0,11})"
_STEP_NAME = r"(?:global_?step|step|iter(?:ation)?)"
_IN_NAME = r"(?:global_?step|step|iter(?:ation)?|checkpoint|ckpt)"
_WHICH = r"(?:(?:the|a|an|model|full|latest|last|new|training|state|from) ){0,3}"
_IS_KEPT = (
    r"\b(?:[Cc]heckpoint|[Cc]kpt|CHECKPOINT) (?:(?:file|was|is|has been|successfully|now) ){0,3}"
    r"(?:saved|written|committed|finalized|persisted)\b"
)
"""A checkpoint is kept, in words that begin with it."""

_BAR = re.compile(
    r"(?:Epoch (?P<epoch>\d{1,9})[^%]{0,20})?\d{1,3}%\|[^|]{0,200}\| {0,4}"
    r"(?P<done>\d{1,12})/(?P<total>\d{1,12}) \[(?P<clock>\d{1,6}(?::\d\d){1,3})<"
)

_TRAINERS_WORD = re.compile(rb"/(\d{1,12}) \[[^\]\r\n]{1,60}\][\r\n ]{1,400}\{'(?:loss|train_runtime)': ")
_IN_TRAINER = re.compile(rb'/transformers/trainer\.py", line \d')
_NAMELESS = re.compile(rb"^\s{0,3}\d{1,3}%\|[^|\r\n]{0,200}\| {0,4}\d{1,12}/(\d{1,12}) \[", re.MULTILINE)


def total_of_trainer(block: bytes) -> int | None:
    """How many steps the bar of Transformers' trainer counts to, where no line says so: it is the bar beside which the
    trainer prints what it measured; where it broke before that, the first that names nothing else. None without either.
    """
    if b"%|" not in block:
        return None
    beside = _TRAINERS_WORD.search(block)
    if beside is None and _IN_TRAINER.search(block) is not None:
        beside = _NAMELESS.search(block)
    return None if beside is None else int(beside[1])


_RULES: tuple[_Rule, ...] = (
    # Megatron-LM, and what is built on it
    _Rule(
        ("iteration",),
        re.compile(r"(?<!\d, )\biteration {1,12}(?P<step>\d{1,12})/ {0,12}\d{1,12} \|"),
        _megatron,
        _MEGATRON_TIME,
    ),
    _Rule(
        ("uccessfully saved",),
        re.compile(r"(?P<nemo>S)?(?(nemo)|s)uccessfully saved checkpoint from iteration {1,12}(?P<step>\d{1,12})"),
        lambda match, _: Progress(
            Told.SAVED, "nemo" if match["nemo"] else "megatron", _count(match["step"]), or_next=bool(match["nemo"])
        ),
    ),
    _Rule(
        ("save-checkpoint ..",),
        re.compile(r"^ {0,8}save-checkpoint \.{2,80}: \( {0,12}[\d.]{1,20}, {0,12}(?P<ms>[\d.]{1,20})\)"),
        lambda match, _: Progress(Told.SAVE_TOOK, "megatron", None, (_real(match["ms"]) or 0.0) / 1000),
    ),
    _Rule(
        ("load-checkpoint ..",),
        re.compile(r"^ {0,8}load-checkpoint \.{2,80}: \( {0,12}[\d.]{1,20}, {0,12}(?P<ms>[\d.]{1,20})\)"),
        lambda match, _: Progress(Told.LOAD_TOOK, "megatron", None, (_real(match["ms"]) or 0.0) / 1000),
    ),
    _Rule(
        ("scheduled an async checkpoint",),
        re.compile(r"scheduled an async checkpoint save at iteration {1,12}(?P<step>\d{1,12})"),
        _plain(Told.SCHEDULED, "megatron"),
    ),
    _Rule(
        ("saving checkpoint at iteration",),
        re.compile(r"saving checkpoint at iteration {1,12}(?P<step>\d{1,12})"),
        _plain(Told.SAVING, "megatron"),
    ),
    _Rule(
        ("successfully loaded",),
        re.compile(r"successfully loaded checkpoint from .{0,600} at iteration {1,12}(?P<step>\d{1,12})"),
        _plain(Told.LOADED, "megatron"),
    ),
    _Rule(
        ("checkpoint from",),
        re.compile(r"^ {0,3}loading (?:\w{1,20} ){0,2}checkpoint from \S{1,600}(?: at iteration {1,12}(?P<step>\d+))?"),
        _plain(Told.LOADING, "megatron"),
    ),
    _Rule(
        ("will not load any checkpoints",),
        re.compile(r"will not load any checkpoints and will start from random"),
        _plain(Told.FRESH, "megatron"),
    ),
    _Rule(("using world size",), re.compile(r"using world size: (?P<ranks>\d{1,9}),"), _world),
    _Rule(
        ("before the start of training",),
        re.compile(r"\[before the start of training step\]"),
        _plain(Told.READY, "megatron"),
    ),
    _Rule(("after training is done",), re.compile(r"\[after training is done\]"), _plain(Told.FINISHED, "megatron")),
    _Rule(
        ("validation loss at iteration",),
        re.compile(r"validation loss at iteration {1,12}\d"),
        _plain(Told.EVALUATED, "megatron"),
    ),
    _Rule(("] datetime: ",), re.compile(r"\] datetime: \d{4}-"), _plain(Told.CLOCK, "megatron")),
    # A program that begins
    _Rule(("Starting job: ",), re.compile(r"\bStarting job: "), _plain(Told.BANNER, "torchtitan")),
    _Rule(
        ("Initializing TorchBackend",),
        re.compile(r"Initializing TorchBackend in DeepSpeed"),
        _plain(Told.BANNER, "deepspeed"),
    ),
    _Rule(("System Information: Jax",), re.compile(r"System Information: Jax Version"), _plain(Told.BANNER, "maxtext")),
    _Rule(
        ("PyTorch: setting up devices",),
        re.compile(r">> PyTorch: setting up devices"),
        _plain(Told.BANNER, "transformers"),
    ),
    _Rule(("GPU available: ",), re.compile(r"^GPU available: "), _plain(Told.BANNER, "lightning")),
    _Rule(
        ("Training: ",),
        re.compile(
            r"^\s{0,3}Training: {1,8}\|[^|]{0,200}\| {0,4}(?P<done>\d{1,12})/\? "
            r"\[(?P<clock>\d{1,6}(?::\d\d){1,3})<"
        ),
        _unnamed_bar,
    ),
    _Rule(("rainable params",), re.compile(r"^(?:.{1,20}\s)?Trainable params\b"), _plain(Told.FITTING, "lightning")),
    # NeMo 2
    _Rule(
        ("Training epoch",),
        re.compile(r"Training epoch \d{1,9}, iteration \d{1,12}/\d{1,12} \|.{0,200}?\bglobal_step: (?P<step>\d{1,12})"),
        _nemo,
        _NEMO_TIME,
    ),
    _Rule(
        ("Global Checkpoint Save",),
        re.compile(
            r"Global Checkpoint Save : Rank: 0 : Iteration: (?P<step>\d{1,12}) : .{0,60}Save duration: "
            r"(?P<seconds>[\d.]{1,20})s"
        ),
        lambda match, _: Progress(Told.STALLED, "nemo", _count(match["step"]), _real(match["seconds"]), or_next=True),
    ),
    _Rule(
        ("Global Checkpoint Load",),
        re.compile(r"Global Checkpoint Load : Rank ?: 0 : .{0,60}load_checkpoint: (?P<seconds>[\d.]{1,20})s"),
        _plain(Told.LOADED, "nemo"),
    ),
    _Rule(
        ("sync checkpoint save for step",),
        re.compile(r"Async checkpoint save for step (?P<step>\d{1,12}) .{0,600}finalized successfully"),
        _plain(Told.SAVED, "nemo"),
    ),
    _Rule(
        ("Scheduled async checkpoint save",),
        re.compile(r"Scheduled async checkpoint save for \S{0,500}step=?(?P<step>\d{1,12})"),
        lambda match, _: Progress(Told.SCHEDULED, "nemo", _count(match["step"]), or_next=True),
    ),
    _Rule(
        ("Restoring states from",),
        re.compile(r"Restoring states from (?:.{0,500}\bstep=?(?P<step>\d{1,12}))?"),
        _plain(Told.LOADING, "lightning"),
    ),
    _Rule(
        ("Restored all states from",),
        re.compile(r"Restored all states from (?:.{0,500}\bstep=?(?P<step>\d{1,12}))?"),
        _plain(Told.LOADED, "lightning"),
    ),
    _Rule(("[NeMo ",), re.compile(r"\[NeMo [A-Z] \d{4}-\d\d-\d\d "), _plain(Told.CLOCK, "nemo")),
    _Rule(
        ("global step ",),  # what it chose to save, and by which measure
        re.compile(
            r"\bEpoch \d{1,9}, global step (?P<step>\d{1,12}): .{1,300}?(?P<saves>, saving model to )?(?(saves)|$)"
        ),
        lambda match, _: Progress(Told.SAVING, "lightning", _count(match["step"])) if match["saves"] else _NOTHING,
    ),
    _Rule(("stopped: `max_",), re.compile(r"`Trainer\.fit` stopped: `max_"), _plain(Told.FINISHED, "lightning")),
    # torchtitan
    _Rule(("step: ",), re.compile(r"\bstep: {1,6}(?P<step>\d{1,12}) {1,6}loss: "), _plain(Told.STEP, "torchtitan")),
    _Rule(
        ("Saving the checkpoint", "Saving a full checkpoint"),
        re.compile(r"Saving (?:the|a full) checkpoint(?:.{0,80} step (?P<step>\d{1,12}))?"),
        _plain(Told.SAVING, "torchtitan"),
    ),
    _Rule(
        ("Finished saving the checkpoint",),
        re.compile(r"Finished saving the checkpoint.{0,60}in (?P<seconds>[\d.]{1,20}) seconds"),
        _plain(Told.SAVED, "torchtitan"),
    ),
    _Rule(
        ("Loading the checkpoint",),
        re.compile(r"Loading the checkpoint (?:from \S{0,500}step-|at step )(?P<step>\d{1,12})"),
        _plain(Told.LOADING, "torchtitan"),
    ),
    _Rule(
        ("Finished loading the checkpoint",),
        re.compile(r"Finished loading the checkpoint in (?P<seconds>[\d.]{1,20}) seconds"),
        _plain(Told.LOADED, "torchtitan"),
    ),
    _Rule(("Training starts at step",), re.compile(r"Training starts at step"), _plain(Told.READY, "torchtitan")),
    _Rule(
        ("Training completed. Do not forget",),
        re.compile(r"\bTraining completed\. Do not forget"),
        _plain(Told.FINISHED, "transformers"),
    ),
    _Rule(("Training completed",), re.compile(r"\bTraining completed\b"), _plain(Told.FINISHED, "torchtitan")),
    # DeepSpeed
    _Rule(
        ("global_step=",),
        re.compile(r"\bepoch=\d{1,9}/micro_step=\d{1,12}/global_step=(?P<step>\d{1,12}),"),
        _plain(Told.STEP, "deepspeed"),
    ),
    _Rule(
        ("step=",), re.compile(r"\[Rank \d{1,7}\] step=(?P<step>\d{1,12}), skipped="), _plain(Told.STEP, "deepspeed")
    ),
    _Rule(
        ("iter time (s):",),
        re.compile(r"\bsteps: (?P<step>\d{1,12}) loss: .{0,100}iter time \(s\): {0,4}(?P<seconds>[\d.]{1,20})"),
        _plain(Told.STEP, "deepspeed"),
    ),
    _Rule(
        ("is about to be saved",),
        re.compile(r"Checkpoint \w{0,40}?(?P<step>\d{1,12}) is about to be saved"),
        _plain(Told.SAVING, "deepspeed"),
    ),
    _Rule(
        ("is ready now",),
        re.compile(r"Checkpoint \w{0,40}?(?P<step>\d{1,12}) is ready now"),
        _plain(Told.SAVED, "deepspeed"),
    ),
    _Rule(
        ("Loading checkpoint from",),
        re.compile(r"Loading checkpoint from \S{0,500}?global_step(?P<step>\d{1,12})"),
        _plain(Told.LOADING, "deepspeed"),
    ),
    _Rule(
        ("Loaded checkpoint from",),
        re.compile(r"Loaded checkpoint from \S{0,500}?global_step(?P<step>\d{1,12})"),
        _plain(Told.LOADED, "deepspeed"),
    ),
    # MaxText
    _Rule(
        ("completed step",),
        re.compile(r"\bcompleted step: (?P<step>\d{1,12}), seconds: (?P<seconds>[\d.]{1,20})"),
        _plain(Told.STEP, "maxtext", 1),
    ),
    _Rule(
        ("completed profiler",),  # its time is hidden: the profiler began or ended in it
        re.compile(r"\bcompleted profiler activation/deactivation step: (?P<step>\d{1,12})"),
        _plain(Told.STEP, "maxtext", 1),
    ),
    _Rule(
        ("saved a checkpoint at step", "asynchronous checkpoint save"),
        re.compile(
            r"(?:\bsaved a checkpoint at step|Started an asynchronous checkpoint save for step) (?P<step>\d{1,12})"
        ),
        _plain(Told.SCHEDULED, "maxtext", 1),
    ),
    _Rule(
        ("Saved a checkpoint at step",),
        re.compile(r"\bSaved a checkpoint at step (?P<step>\d{1,12})\."),
        _plain(Told.SAVED, "maxtext", 1),
    ),
    _Rule(
        ("Finished async_save",),
        re.compile(r"Finished async_save .{0,600}/(?P<step>\d{1,12})(?:\D|$)"),
        _plain(Told.SAVED, "maxtext", 1),
    ),
    _Rule(
        ("restoring from this run",),
        re.compile(r"restoring from this run's directory (?:latest )?step {1,40}(?P<step>\d{1,12})"),
        _plain(Told.RESUMING, "maxtext", 1),
    ),
    # Orbax, of MaxText or of any other
    _Rule(
        ("Restoring checkpoint from", "Started load checkpoint"),
        re.compile(r"\b(?:Restoring checkpoint from|Started load checkpoint @) " + _PLACE),
        _plain(Told.LOADING, "orbax"),
    ),
    _Rule(
        ("Finished restoring checkpoint", "Finished load in"),
        re.compile(r"Finished (?:restoring checkpoint|load) in (?P<seconds>[\d.]{1,20}) seconds (?:from|@) " + _PLACE),
        _plain(Told.LOADED, "orbax"),
    ),
    _Rule(
        ("Finished blocking save",),
        re.compile(
            r"(?<!\[sync\] )Finished blocking save in (?P<seconds>[\d.]{1,20}) seconds\. Continuing "
            r".{0,40}(?: to|@) " + _PLACE
        ),
        _plain(Told.SCHEDULED, "orbax"),
    ),
    _Rule(
        ("Saving checkpoint at step",),
        re.compile(r"\[process=\d{1,7}\](?:\[[^\]]{1,60}\])? Saving checkpoint at step (?P<step>\d{1,12})$"),
        _plain(Told.SAVING, "orbax"),
    ),
    _Rule(
        ("Finished save in", "Finished save ("),
        re.compile(
            r"Finished save (?:\(blocking \+ background\) in [\d.]{1,20}|in (?P<seconds>[\d.]{1,20})) seconds @ "
            + _PLACE
        ),
        _plain(Told.SAVED, "orbax"),
    ),
    _Rule(
        ("Finished saving checkpoint (", "Finished asynchronous save"),
        re.compile(
            r"Finished (?:saving checkpoint \(finalized|asynchronous save \().{0,80} to [^\s]{0,600}/(?P<step>\d{1,12})"
            r"[.`]{0,3}$"
        ),
        _plain(Told.SAVED, "orbax"),
    ),
    # Hugging Face Trainer
    _Rule(
        ("\u2501",),
        re.compile(
            r"Epoch (?P<epoch>\d{1,9})/\d{1,9} {1,8}[^\d]{1,200}(?P<done>\d{1,12})/(?P<total>\d{1,12}) "
            r"(?P<clock>\d{1,6}:\d\d:\d\d) "
        ),
        _bar,
    ),
    _Rule(
        ("Total optimization steps",),
        re.compile(r"Total optimization steps = (?P<total>[\d,]{1,15})"),
        _target,
    ),
    _Rule(("Running training",), re.compile(r"\*\*\*\*\* Running training"), _plain(Told.READY, "transformers")),
    _Rule(
        ("Running Evaluation",), re.compile(r"\*\*\*\*\* Running Evaluation"), _plain(Told.EVALUATING, "transformers")
    ),
    _Rule(("eval_runtime",), re.compile(r"'eval_runtime': "), _plain(Told.EVALUATED, "transformers")),
    _Rule(
        ("Saving model checkpoint",),
        re.compile(r"Saving model checkpoint to \S{0,500}checkpoint-(?P<step>\d{1,12})"),
        _plain(Told.SAVING, "transformers"),
    ),
    # Accelerate: each process writes its random states last
    _Rule(
        ("Saving current state to",),
        re.compile(r"Saving current state to \S{0,500}(?:step|checkpoint)[_-](?P<step>\d{1,12})"),
        _plain(Told.SAVING, "transformers"),
    ),
    _Rule(
        ("Random states saved in",),
        re.compile(r"Random states saved in \S{0,500}(?:step|checkpoint)[_-](?P<step>\d{1,12})"),
        _plain(Told.SAVED, "transformers"),
    ),
    _Rule(
        ("Loading states from",),
        re.compile(r"Loading states from \S{0,500}(?:step|checkpoint)[_-](?P<step>\d{1,12})"),
        _plain(Told.LOADING, "transformers"),
    ),
    _Rule(
        ("All random states loaded",),
        re.compile(r"All random states loaded successfully"),
        _plain(Told.LOADED, "transformers"),
    ),
    _Rule(
        (" saved in ",),
        re.compile(r"\b[\w ]{4,40} saved in \S{0,500}checkpoint-(?P<step>\d{1,12})/"),
        _plain(Told.STILL_SAVING, "transformers"),
    ),
    _Rule(
        ("Loading model from",),
        re.compile(r"Loading model from \S{0,500}checkpoint-(?P<step>\d{1,12})"),
        _plain(Told.LOADING, "transformers"),
    ),
    _Rule(
        ("Continuing training from global step",),
        re.compile(r"Continuing training from global step (?P<step>\d{1,12})"),
        _plain(Told.LOADED, "transformers"),
    ),
    _Rule(
        ("Resuming training from checkpoint with",),
        re.compile(r"Resuming training from checkpoint with .{0,40}global step (?P<step>\d{1,12})"),
        _plain(Told.LOADED, "transformers"),
    ),
    _Rule(("train_runtime",), re.compile(r"'train_runtime': "), _plain(Told.FINISHED, "transformers")),
    # nanoGPT
    _Rule(
        ("iter ",),
        re.compile(r"^iter (?P<step>\d{1,12}): loss [^,]{1,30}, time (?P<ms>[\d.]{1,20})ms"),
        lambda match, _: Progress(Told.STEP, "nanogpt", _count(match["step"]) + 1, (_real(match["ms"]) or 0.0) / 1000),
    ),
    # Any other
    _Rule(
        ("esum", "estor", "oaded", "tarting from"),
        re.compile(
            rf"\b(?:(?P<done>[Rr]esumed|[Rr]estored|[Ll]oaded)|[Rr]esum\w{{1,4}}|[Rr]estor\w{{1,4}}|[Ss]tarting) "
            rf"[^\n]{{0,300}}?\b{_IN_NAME}{_NUMBER}\b"
        ),
        lambda match, text: Progress(
            Told.LOADED if match["done"] else Told.RESUMING,
            "any",
            _count(match["step"]),
            _took(match, text) if match["done"] else None,
        ),
    ),
    _Rule(
        ("heckpoint", "ckpt", "CHECKPOINT"),
        re.compile(
            rf"\b{_IN_NAME}{_NUMBER}\b[^\n]{{0,200}}?"
            r"\b(?:(?P<done>saved|finalized|written|committed|complete[d]?|persisted)|(?P<start>saving|writing))\b"
        ),
        lambda match, text: _any_save(match, text),
    ),
    _Rule(
        ("heckpoint", "ckpt", "CHECKPOINT"),
        re.compile(rf"{_IS_KEPT}[^\n]{{0,300}}?\b{_STEP_NAME}{_NUMBER}\b"),
        lambda match, text: _unless_in_trouble(Told.SAVED, match, text),
    ),
    _Rule(
        ("aved", "aving", "rote"),
        re.compile(
            r"\b(?:(?P<done>[Ss]aved|[Ww]rote)|(?P<start>[Ss]aving)) [^\n]{0,20}?"
            rf"(?:checkpoint|ckpt|state)[^\n]{{0,300}}?{_IN_NAME}{_NUMBER}\b"
        ),
        lambda match, text: _any_save(match, text),
    ),
    _Rule(
        ("step", "Step", "STEP", "iter", "Iter"),
        re.compile(
            r"(?:^|[\s\[|,({])[\"']?(?:global[_ ]?|train[_ ]?)?(?:step|Step|STEP|iteration|Iteration|iter|Iter)[\"']?"
            r"[ :=#\[]{1,4}(?P<step>\d{1,12})(?:\s?/\s?\d{1,12})?(?=[\s,:;|\])}]|$)"
        ),
        _any_step,
        _ANY_TIME,
    ),
    # … and in words without a number: what ends so is what its writer began
    _Rule(
        ("heckpoint", "ckpt", "CHECKPOINT"),
        re.compile(
            rf"{_IS_KEPT}|\b(?:[Ss]aved|[Ww]rote|(?:[Ff]inished|[Dd]one|[Cc]ompleted) (?:saving|writing)) {_WHICH}"
            r"(?:checkpoint|ckpt)\b(?! every)"
        ),
        lambda match, text: _unless_in_trouble(Told.SAVED, match, text),
    ),
    _Rule(
        ("oading", "estoring", "esuming"),
        re.compile(
            rf"\b(?:[Ll]oading|[Rr]estoring|[Rr]esuming) {_WHICH}(?:checkpoint|ckpt)"
            r"(?: from\b|: | at\b|\.\.|$| \S{0,300}/)"
            rf"(?:[^\n]{{0,300}}?\b{_STEP_NAME}{_NUMBER}\b)?"
        ),
        lambda match, text: _unless_in_trouble(Told.LOADING, match, text),
    ),
    _Rule(
        ("oaded", "estored", "esumed"),
        re.compile(
            rf"\b(?:[Ll]oaded|[Rr]estored|[Rr]esumed) {_WHICH}(?:checkpoint|ckpt)\b"
            r"|\b(?:[Cc]heckpoint|[Cc]kpt) (?:(?:was|has been|successfully) ){0,2}(?:loaded|restored)\b"
        ),
        lambda match, text: _unless_in_trouble(Told.LOADED, match, text),
    ),
)

SIGNS: tuple[bytes, ...] = (
    b"step", b"Step", b"STEP", b"iter", b"Iter", b"heckpoint", b"tates", b"ckpt", b"CHECKPOINT", b"%|", b"world size",
    b"datetime", b"raining", b"rainable params", b"unning Eval", b"_runtime", b"async_save", b"stopped: `max_",
    b"Starting job", b"TorchBackend", b"Jax Version", b"setting up devices",
    b"GPU available", b"[NeMo ", b"\xe2\x94\x81", b"Finished save", b"Finished load in", b"blocking save",
)  # fmt: skip
"""One of them stands in every line that tells something; none holds a digit."""


def may_tell(raw: bytes) -> bool:
    """Whether a line must be read to know."""
    return any(sign in raw for sign in SIGNS)


def _any_save(match: re.Match[str], text: str) -> Progress | None:
    if re.search(r"\b(?:checkpoint|ckpt)", text, re.I) is None:
        return None
    seconds = _took(match, text) if match["done"] else None
    return Progress(Told.SAVED if match["done"] else Told.SAVING, "any", _count(match["step"]), seconds)


_TROUBLE = re.compile(
    r"error|exception|fail|could ?n.t|cannot|can't|unable|corrupt|invalid|missing|retry|skip|not found|abort"
    r"|before\b|will\b",
    re.I,
)


def _unless_in_trouble(told: Told, match: re.Match[str], text: str) -> Progress | None:
    """A save or load in usual words, but for one that failed, or that did not happen yet."""
    if _TROUBLE.search(text) is not None:
        return None
    step = match.groupdict().get("step")
    if step is None:
        return Progress(told, "any")
    return Progress(told, "any", _count(step), None if told is Told.LOADING else _took(match, text))


_TOOK = re.compile(r"(?: in| took) {1,3}(?P<time>\d[\d.]{0,19}) ?(?P<unit>ms|s|sec|secs|seconds)\b")


def _took(match: re.Match[str], text: str) -> float | None:
    """How long a save or a load was, where its line says so behind the step."""
    told = _TOOK.match(text, match.end())
    seconds = None if told is None else _real(told["time"])
    return seconds / 1000 if seconds is not None and told is not None and told["unit"] == "ms" else seconds


def read_progress(text: str) -> list[tuple[Progress, str]]:
    """What a line tells of the progress of training, each with the part of the line that tells it.

    A line of a terminal is several, parted by carriage returns, and what is printed beside a bar stands behind it. Of a
    bar the last state counts.
    """
    found: list[tuple[Progress, str]] = []
    bar: tuple[Progress, str] | None = None
    for part in text.split("\r", MOST_PARTS) if "\r" in text else (text,):
        part = part[:LONGEST]
        if "%|" in part and (match := _BAR.search(part)) is not None:
            made = _bar(match, part)
            end = part.find("]", match.end()) + 1
            behind = part[end:] if end else ""
            bar = made, part
            part = behind
        if (told := _read(part)) is not None:
            found.append((told, part))
    return found if bar is None else [bar, *found]


def read_again(rule: int, text: str) -> Progress | None:
    """A step line, by the rule that read the one before; None where it does not fit."""
    match = _RULES[rule].pattern.search(text)
    return None if match is None else _RULES[rule].make(match, text)


def places_of(rule: int, text: str) -> tuple[tuple[int, int], tuple[int, int] | None] | None:
    """Where a step line, read by a rule, tells its step and, if it does, how long the step took: `(first, behind)`.

    None where the rule does not say by itself where that is.
    """
    one = _RULES[rule]
    match = one.pattern.search(text)
    if match is None or "step" not in one.pattern.groupindex:
        return None
    for group in ("seconds", "ms"):
        if group in one.pattern.groupindex:
            return match.span("step"), match.span(group)
    took = None if one.time is None else one.time.search(text)
    return match.span("step"), None if took is None else took.span(1)


def _read(text: str) -> Progress | None:
    for number, rule in enumerate(_RULES):
        for sign in rule.signs:
            if sign in text:
                match = rule.pattern.search(text)
                if match is not None and (made := rule.make(match, text)) is not None:
                    return replace(made, rule=number)
                break
    return None
