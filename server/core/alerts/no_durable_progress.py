"""No durable progress: attempt after attempt ends without a later checkpoint than the one before began with.

What was gained is told by where attempts resumed. Where no checkpoint was ever told of, going on from the same step
again and again proves it as well: the attempt at hand counts by where it began, until it passes what all before it
reached. Else only attempts without a single completed step count: progress that cannot be seen is not called none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerail.server.core.alert_rules import AlertRule, Finding, Severity, Threshold, Thresholds, deaths, incident_of
from rerail.server.core.view import Attempt, RunView


def _find(run: RunView, limits: Thresholds) -> Iterable[Finding]:
    wanted = round(limits["attempts"])
    again = None if run.checkpoint.count else _again(run, wanted)
    if again is not None:
        yield again
        return
    died = list(deaths(run))
    in_a_row, base = _without_a_save(run, died) if run.checkpoint.count else (_without_a_step(died), 0)
    if in_a_row < wanted:
        return
    newest, died = died[0], died[:in_a_row]
    if run.checkpoint.count:
        from_where = f"step {base}" if base else "the beginning"
        sentence = f"{in_a_row} attempts in a row ended without a durable checkpoint after {from_where}."
    else:
        sentence = f"{in_a_row} attempts in a row ended before they completed a step."
    incident = incident_of(run, newest.number)
    yield RULE.finding(
        run, sentence, since=died[-1].started_at, mark=f"attempt {newest.number}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


def _without_a_save(run: RunView, died: Sequence[Attempt]) -> tuple[int, int]:
    """How many of the newest attempts died without a later durable checkpoint than the oldest of them began with, and
    the step of that one."""
    durable = run.checkpoint.newest_durable_step
    highest, base, found = 0 if durable is None else durable, 0, (0, 0)
    for count, each in enumerate(died, 1):
        if each.resumed_from_step is not None:
            base = each.resumed_from_step
            highest = max(highest, base)
        if highest <= base:
            found = (count, base)
        elif base < highest and found[0]:
            break
    return found


def _without_a_step(died: Sequence[Attempt]) -> int:
    return next((count for count, each in enumerate(died) if each.step_count), len(died))


def _again(run: RunView, wanted: int) -> Finding | None:
    """What resuming at one step says of a run whose saves nobody states."""
    died = list(deaths(run))
    if not died:
        return None
    newest = run.attempts[-1]
    is_alive = newest.number != died[0].number
    step = newest.resumed_from_step
    same = [newest] if is_alive else []
    for each in died:
        if step is None or each.resumed_from_step != step:
            break
        same.append(each)
    reached = [each.last_step for each in died if each.last_step is not None]
    if step is None or len(same) < wanted or not reached:
        return None
    if is_alive and newest.last_step is not None and newest.last_step > max(reached):
        return None
    where = f"step {step}" if step else "the beginning"
    sentence = (
        f"{len(same)} attempts in a row went on from {where}: none before left a later checkpoint. No save was ever "
        "told of; this is concluded from where they resumed."
    )
    incident = incident_of(run, died[0].number)
    return RULE.finding(
        run, sentence, since=same[-1].started_at, mark=f"attempt {newest.number}",
        incident_id=None if incident is None else incident.incident_id,
    )  # fmt: skip


RULE = AlertRule(
    name="no_durable_progress",
    severity=Severity.URGENT,
    summary="Several attempts in a row ended without a later durable checkpoint: the run restarts and gets nowhere.",
    advice="Stop the restarts, read the fault trace of the incident, and mend the cause first.",
    find=_find,
    fewest_attempts=lambda limits: limits["attempts"],
    thresholds=(Threshold("attempts", 3, "attempts", "so many in a row", 2, 100, is_whole=True),),
)
