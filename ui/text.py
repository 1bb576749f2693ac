"""Text: names, sizes and costs as people say them; durations, shares and counts are those of `core/words.py`.

Rules
- Unknown is the word `unknown` (in a table cell `–`), never 0.
"""

from __future__ import annotations

from rerail.server.core import words
from rerail.server.core.facts import Initiator, Outcome, Phase, Scope
from rerail.server.core.recovery_configs.knobs import OFF, Setting
from rerail.server.core.search.cause_names import WRITTEN_OUT
from rerail.server.core.view import CausalRole, Domain, FailureRates, Incident, RunState
from rerail.server.core.words import (  # noqa: F401 - as text.…
    DOWN_UNTOLD,
    THIN,
    UNKNOWN,
    at_least,
    count,
    duration,
    each_step,
    exit_code,
    number,
    points,
    share,
    steps_lost,
)

DASH = "–"
NO_NAME = "(without a name)"
"""Who did something and gave no name."""
NANOSECONDS = 1_000_000_000
HOUR_NS = 3600 * NANOSECONDS


def mttf(rates: FailureRates) -> str:
    """The mean time to failure with its limits: `4.2 h (2.1 h to 9.0 h)`; without a fault the bound alone."""
    if rates.mttf_low_ns is None:
        return UNKNOWN
    if rates.mttf_ns is None:
        return f"over {duration(rates.mttf_low_ns)}"
    return f"{duration(rates.mttf_ns)} ({duration(rates.mttf_low_ns)} to {duration(rates.mttf_high_ns)})"


def gpu_cost(incident: Incident, unknown: str = UNKNOWN) -> str:
    """What an incident cost, as far as that is known."""
    cost = gpu_hours(incident.lost_gpu_ns, unknown)
    return f"at least {cost}" if incident.is_cost_least else cost


def told_lost(known: str, told_every: int) -> str:
    """Lost steps or their time, with why it is only the least where it is."""
    return at_least(known, told_every) + (f" (only {each_step(told_every)} is told)" if told_every > 1 else "")


def to_restart(incident: Incident) -> str:
    """How long an incident was down until training stepped again."""
    return words.to_restart(
        incident.time_to_restart_ns, incident.untold_ns, is_restarted=incident.restarted_at is not None,
        is_open=incident.is_open, is_down_untold=incident.is_down_untold, is_step_untold=incident.is_step_untold,
    )  # fmt: skip


def gpu_hours(length_gpu_ns: int | None, unknown: str = UNKNOWN) -> str:
    """GPU·ns as GPU-hours."""
    if length_gpu_ns is None:
        return unknown
    hours = length_gpu_ns / HOUR_NS
    if hours >= 1000:
        return f"{number(round(hours))}{THIN}GPU-h"
    if hours >= 10:
        return f"{hours:.0f}{THIN}GPU-h"
    if hours >= 0.1 or hours == 0:
        return f"{hours:.1f}{THIN}GPU-h".replace(".0" + THIN, THIN)
    if hours >= 0.001:
        return f"{hours:.3f}{THIN}GPU-h"
    return f"<0.001{THIN}GPU-h"


def size(length_bytes: int | None, unknown: str = UNKNOWN) -> str:
    """Bytes in decimal units."""
    if length_bytes is None:
        return unknown
    value = float(length_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000:
            return f"{value:.0f}{THIN}{unit}" if unit == "B" or value >= 100 else f"{value:.1f}{THIN}{unit}"
        value /= 1000
    return f"{value:.1f}{THIN}PB"


PHASES = {
    Phase.EXCLUDED: "excluded",
    Phase.DETECTING: "detecting",
    Phase.STOPPING: "stopping",
    Phase.QUEUED: "queued",
    Phase.RENDEZVOUS: "rendezvous",
    Phase.LOADING: "loading",
    Phase.INITIALIZING: "initializing",
    Phase.SAVING: "saving",
    Phase.EVALUATING: "evaluating",
    Phase.DATA_WAIT: "data wait",
    Phase.OVERHEAD: "overhead",
    Phase.STALLED: "stalled",
    Phase.RECOMPUTING: "recomputing",
    Phase.TRAINING: "training",
    Phase.SILENT: "silent",
}

PHASE_MEANINGS = {
    Phase.EXCLUDED: "a window that a person declared out of account",
    Phase.DETECTING: "from the last completed work to the first notice of the fault",
    Phase.STOPPING: "aborting and tearing down the workers",
    Phase.QUEUED: "waiting for the scheduler, for capacity, or in back-off",
    Phase.RENDEZVOUS: "forming the process group",
    Phase.LOADING: "reading a checkpoint",
    Phase.INITIALIZING: "bringing up process, model and data before the first step",
    Phase.SAVING: "blocked by writing a checkpoint",
    Phase.EVALUATING: "evaluating the model",
    Phase.DATA_WAIT: "waiting for input data",
    Phase.OVERHEAD: "other work of the training script",
    Phase.STALLED: "inside a step that takes far too long",
    Phase.RECOMPUTING: "redoing steps that were done before and lost",
    Phase.TRAINING: "stepping above the high-water step: the only productive time",
    Phase.SILENT: "not known: nobody said what the run was doing",
}

PARTS = {phase.value: name for phase, name in PHASES.items()} | {"catch_up": "catch-up"}
"""Names of the parts of an incident."""

SCOPES = {
    Scope.IN_PROCESS: "in process",
    Scope.IN_JOB: "in job",
    Scope.REQUEUE: "requeue",
    Scope.RESUBMIT: "resubmit",
}

OUTCOMES = {
    Outcome.COMPLETED: "completed",
    Outcome.FAILED: "failed",
    Outcome.STOPPED: "stopped",
    Outcome.PREEMPTED: "preempted",
}

INITIATORS = {
    Initiator.FAULT: "a fault",
    Initiator.OPERATOR: "an operator",
    Initiator.SCHEDULER: "the scheduler",
    Initiator.MONITOR: "a monitor",
}

NODE_STATES = {"not_ready": "not ready", "ready": "ready", "drained": "drained", "lost": "lost"}

TELLERS = {"kernel": "its kernel log", "dcgm": "DCGM (Prometheus)", "prometheus": "Prometheus"}
"""Who tells of a machine, by the source of evidence."""

STATES = {RunState.ALIVE: "alive", RunState.SILENT: "silent", RunState.ENDED: "ended"}

DOMAINS = {Domain.WORKLOAD: "workload", Domain.INFRASTRUCTURE: "infrastructure", Domain.UNKNOWN: "unknown domain"}

ROLES = {
    CausalRole.INITIATING: "initiating",
    CausalRole.CASCADE: "cascade",
    CausalRole.TEARDOWN: "teardown",
    CausalRole.CONFIRMATION: "confirmation",
    CausalRole.INFORMATIONAL: "for information",
    CausalRole.UNKNOWN: "unknown role",
}


ABBREVIATIONS = WRITTEN_OUT | {
    "cpu": "CPU", "cuda": "CUDA", "ecc": "ECC", "gpu": "GPU", "hbm": "HBM", "ib": "IB", "nccl": "NCCL", "nfs": "NFS",
    "nvlink": "NVLink", "pcie": "PCIe", "rdma": "RDMA", "sigabrt": "SIGABRT", "sigbus": "SIGBUS", "sigkill": "SIGKILL",
    "sigsegv": "SIGSEGV", "sigterm": "SIGTERM", "xid": "XID",
}  # fmt: skip
"""Words of cause classes that are not written as they are spelled."""


def cause(name: str) -> str:
    """A cause class as words: `node_lost` → `node lost`, `gpu_oom` → `GPU out of memory`."""
    if name in ("", "unknown"):
        return "cause unknown"
    return " ".join(ABBREVIATIONS.get(word, word) for word in name.split("_"))


def headline(words: str) -> str:
    """With a capital letter at its beginning; the others stay as they are."""
    return words[:1].upper() + words[1:]


def rank_ranges(ranks: tuple[int, ...]) -> str:
    """Ranks as ranges: `0–3, 7`."""
    ranges: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if ranges and rank == ranges[-1][1] + 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in ranges)


def setting(told: Setting) -> str:
    """A knob's value as people say it."""
    if told.value is None:
        return UNKNOWN
    if told.value == OFF or isinstance(told.value, str):
        return str(told.value).replace("_", " ") if told.knob.unit != "s" or told.value == OFF else told.value
    if told.knob.unit == "s":
        return duration(round(float(told.value) * 1_000_000_000))
    return f"{number(int(told.value))} {told.knob.unit}".strip()


def teller(source: str) -> str:
    """Who told something of a machine, in words; a source that has none as it is called."""
    return TELLERS.get(source, source)
