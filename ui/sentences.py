"""Sentences: what a page says before it shows anything.

Rules
- The first sentence answers the page's question with numbers; a reader who stops there has the answer.
- Losses are named largest first, at most two, and never one that is nothing.
- A phrase may be a link to what it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.infrastructure import known_words
from rerail.server.core.machine_words import most_serious
from rerail.server.core.view import Account, Incident, MachineWord, RunState, RunView
from rerail.ui import text
from rerail.ui.address import incident_path

LONGEST_WORD = 160

LOSSES = {
    "faults": "faults",
    "startup": "start-up",
    "planned": "planned down-time",
    "checkpoint": "checkpoint stalls",
    "rework": "rework",
    "stalls": "stalls",
    "overhead": "evaluation, data wait and overhead",
    "unknown": "silence",
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of a sentence."""

    words: str
    href: str | None = None
    is_strong: bool = False


def run_sentence(view: RunView) -> tuple[Phrase, ...]:
    """How good the run is, what took most, and the worst of its incidents."""
    account = view.account
    goodput = account.training_goodput
    if goodput is None and view.dumps_say is not None:
        said = view.dumps_say
        return (
            Phrase("Flight recorder dumps say: "),
            Phrase(said.sentence.removesuffix("."), None, True),
            Phrase(f" ({said.confidence * 100:.0f} % sure). {said.advice or ''}".rstrip()),
            Phrase(
                " There is no incident, since nobody told of an attempt: a launcher's log, or rerail agent beside the "
                "ranks, tells what it cost."
            ),
        )
    if goodput is None and view.machines_say:
        return _machines_sentence(view.machines_say)
    if goodput is None:
        return (Phrase("Nothing has happened yet: no attempt and no queue has been told of this run."),)
    if not view.sees_training:
        return _unseen_sentence(view)
    is_untold = view.has_untold_restart
    phrases = [
        Phrase(f"{known_words(goodput, is_most=is_untold)} training goodput", "#waterfall", True),
        Phrase(f" over {'at least ' if is_untold else ''}{text.duration(account.elapsed_ns)}. "),
    ]
    losses = largest_losses(account, 2)
    faults = view.unplanned_incidents
    if losses:
        for index, (name, share) in enumerate(losses):
            phrases.append(Phrase(" and " if index else ""))
            amount = text.points(share)
            amount = amount[0].upper() + amount[1:] if not index else amount
            phrases.append(Phrase(f"{amount} {'went to ' if not index else 'to '}"))
            phrases.append(Phrase(LOSSES[name], "#waterfall"))
        if faults:
            phrases.append(Phrase(", after " if any(name in ("faults", "rework") for name, _ in losses) else "; "))
            phrases.append(Phrase(text.count(len(faults), "incident"), "#incidents"))
        phrases.append(Phrase(". "))
    else:
        phrases.append(Phrase("Nothing was lost. "))
    worst = worst_incident(view)
    if worst is not None and len(faults) > 1:
        cost = (
            text.duration(worst.so_far_ns)
            if worst.lost_gpu_ns is None
            else f"{text.gpu_cost(worst)} and {text.duration(worst.so_far_ns)}"
        )
        phrases.append(Phrase("The worst, "))
        name = "of unknown cause" if worst.verdict.cause == "unknown" else text.cause(worst.verdict.cause)
        phrases.append(Phrase(name, incident_path(worst.incident_id)))
        phrases.append(Phrase(f", cost {cost}."))
    return tuple(phrases)


def _machines_sentence(said: Sequence[MachineWord]) -> tuple[Phrase, ...]:
    """The most serious that machines said, of a run of which nobody told an attempt."""
    first = most_serious(said)
    nodes = len({word.node for word in said})
    what = first.text if first.source else text.NODE_STATES.get(first.code or "", first.code or "")
    what = what.rstrip(".") if len(what) <= LONGEST_WORD else what[: LONGEST_WORD - 1] + "…"
    of_many = f", the most serious of {text.number(len(said))} statements of {text.count(nodes, 'node')}"
    return (
        Phrase("Its machines spoke: "),
        Phrase(f"{first.node}: {what}", "#machines", True),
        Phrase(f"{of_many if len(said) > 1 else ''}. "),
        Phrase(
            "There is no incident, since nobody told of an attempt: a launcher's log, or rerail agent beside the "
            "ranks, tells what it cost."
        ),
    )


def _unseen_sentence(view: RunView) -> tuple[Phrase, ...]:
    """What can be said of a run of which nobody tells steps: silence is neither work nor loss."""
    account = view.account
    said = [
        Phrase("Training goodput unknown", "#quality", True),
        Phrase(f": nobody speaks of its steps. Of {text.duration(account.elapsed_ns)}, "),
    ]
    if account.faults_ns:
        share = text.share(account.faults_ns / account.elapsed_ns)
        said.append(Phrase(f"{share} is known to have gone to restarts"))
    else:
        said.append(Phrase("what went to restarts is not known"))
    if view.incidents:
        said += [Phrase("; "), Phrase(text.count(len(view.incidents), "incident"), "#incidents")]
    return (*said, Phrase("."))


def run_now(view: RunView) -> tuple[Phrase, ...]:
    """What the run is doing as of now."""
    opened = next((incident for incident in view.incidents if incident.is_open), None)
    steps = _steps(view)
    if view.state is RunState.ENDED:
        how = "" if view.outcome is None else f": {text.OUTCOMES[view.outcome]}"
        reason = f" ({view.reason})" if view.reason else ""
        return (Phrase(f"Ended{how}{reason}{steps}."),)
    if view.state is RunState.SILENT:
        known = () if opened is None else (
            Phrase(" Last known: "), Phrase(text.cause(opened.verdict.cause), incident_path(opened.incident_id), True),
            Phrase("."),
        )  # fmt: skip
        return (Phrase("Nothing is heard of it", None, True), Phrase(f"{steps}. Whether it runs is not known."), *known)
    if opened is not None:
        return (
            Phrase(f"Not training: {text.cause(opened.verdict.cause)}", incident_path(opened.incident_id), True),
            Phrase(f", {text.duration(opened.so_far_ns)} so far{steps}."),
        )
    if view.current_phase is None or view.current_phase is Phase.SILENT:
        return (Phrase(f"Alive{steps}; what it does right now has not been told yet."),)
    quiet = ()
    if view.quiet_ranks is not None:
        quiet = (
            Phrase(" "),
            Phrase(f"{text.count(view.quiet_ranks.count, 'rank')} heard no longer", "#heartbeats", True),
            Phrase(f" ({text.rank_ranges(view.quiet_ranks.ranks[:16])})."),
        )
    verbs = {Phase.TRAINING: "Training", Phase.STALLED: "Stalled"}
    doing = verbs.get(view.current_phase, text.PHASES[view.current_phase].capitalize())
    return (Phrase(f"{doing} now{steps}.", None, view.current_phase is Phase.STALLED), *quiet)


def runs_sentence(total: int, alive: int, silent: int, ended: int) -> str:
    """How many runs there are and how they are."""
    if not total:
        return "No run yet."
    parts = []
    if alive:
        parts.append(f"{text.number(alive)} alive")
    if silent:
        parts.append(f"{text.number(silent)} silent")
    if ended:
        parts.append(f"{text.number(ended)} ended")
    return f"{text.count(total, 'run')}: {', '.join(parts)}."


def incident_sentence(incident: Incident, *, sees_training: bool = True) -> tuple[Phrase, ...]:
    """What the incident cost, and when training went on; where nobody tells of steps, when the run did."""
    recover = text.duration(incident.so_far_ns)
    restart = text.to_restart(incident)
    phrases: list[Phrase] = []
    if incident.is_open:
        phrases.append(Phrase(f"Not over: {recover} so far", "#anatomy", True))
        phrases.append(Phrase(". "))
        if incident.restarted_at is not None:
            phrases.append(Phrase(f"Training stepped again after {restart}, and is still regaining lost ground. "))
    elif incident.ended_at is None:
        phrases.append(Phrase("Never regained", "#anatomy", True))
        phrases.append(Phrase(f": the run ended {recover} later. "))
    else:
        if not sees_training:
            spent = "" if incident.lost_gpu_ns is None else f"; {text.gpu_hours(incident.lost_gpu_ns)} spent"
            return (
                Phrase(f"Ran again after {recover}", "#anatomy", True),
                Phrase(f". Nobody speaks of its steps: what ground was lost is not known{spent}."),
            )
        at_least = "at least " if incident.is_down_untold else ""
        phrases.append(Phrase(f"Recovered in {at_least}{recover}", "#anatomy", True))
        phrases.append(
            Phrase(f": {text.DOWN_UNTOLD}" if incident.is_down_untold else f": {restart} until training stepped again")
        )
        regained = incident.so_far_ns - incident.time_to_restart_ns - incident.untold_ns
        phrases.append(Phrase(f", then {text.duration(regained)} to regain lost ground. " if regained > 0 else ". "))
    if incident.is_open and incident.rollback is None:
        phrases.append(Phrase("Lost steps show when it resumes"))
    elif incident.lost_steps is None:
        phrases.append(Phrase("How many steps were lost is not known: no restart told a step"))
    else:
        phrases.append(Phrase(text.headline(text.steps_lost(incident.lost_steps, incident.told_every))))
        if incident.is_loss_least:
            phrases.append(Phrase(f" (only {text.each_step(incident.told_every)} is told)"))
    if incident.lost_gpu_ns is not None:
        phrases.append(Phrase(f", {text.gpu_cost(incident)} spent"))
    if incident.failed_relaunches:
        phrases.append(Phrase(f", {text.count(incident.failed_relaunches, 'failed relaunch', 'failed relaunches')}"))
    phrases.append(Phrase("."))
    return tuple(phrases)


def largest_losses(account: Account, most: int) -> list[tuple[str, float]]:
    """The largest losses of the waterfall as `(name, share)`, largest first, only what is 0.05 points or more."""
    losses = [
        (row.name, row.share)
        for row in account.waterfall
        if not row.is_total and row.share is not None and row.share >= 0.0005
    ]
    return sorted(losses, key=lambda loss: -loss[1])[:most]


def worst_incident(view: RunView) -> Incident | None:
    """The unplanned incident that cost most, by GPU time where it is known."""
    return max(
        view.unplanned_incidents, key=lambda incident: (incident.lost_gpu_ns or 0, incident.so_far_ns), default=None
    )


def _steps(view: RunView) -> str:
    if view.high_water_step is None:
        return ", no step completed" if view.sees_training else ""
    if view.target_step:
        part = view.high_water_step / view.target_step
        return f" at step {text.number(view.high_water_step)} of {text.number(view.target_step)} ({text.share(part)})"
    return f" at step {text.number(view.high_water_step)}"
