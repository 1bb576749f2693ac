"""A rank stopped making progress, and a time-out ended the attempt.

Flight recorder dumps name the rank that did not come, or say that none is missing, and decide where they are there.

The exit codes that follow (mostly −9, the monitor's own signal) are consequences. In a collective every rank waits, so
the rank that a time-out names is a victim as often as it is the culprit: a rank is blamed only where somebody says that
it did not arrive, or where every other rank is known to have waited.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Sign, Weight, from_sign, line
from rerail.server.core.flight_recorder.verdict import HANG, DumpVerdict, dump_verdict
from rerail.server.core.stepped_on import waited_ns, worked_on
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted

DEADLY = frozenset({-4, -6, -7, -8, -9, -11, 132, 134, 135, 136, 137, 139})
"""Exit codes of processes that a signal ended; SIGTERM is the launcher's own."""

KILLS = frozenset({"sigkill", "sigterm"})
"""What a monitor's own signals look like in a launcher's table."""
STOPS = frozenset({"operator_stop", "sigterm"})
"""What ends a hang that nobody else noticed, and explains none that began before."""

MISSING = (
    Wanted("a flight recorder dump of every rank (it names the one that did not arrive)", Kind.DUMPS),
    Wanted("when each rank began its last step"),
)
JAX_TASK = r"/job:\w{1,60}/(?:replica:\d{1,4}/)?task:"
"""A process of JAX, by its index: one that its coordination service no longer hears of."""
SILENT_TASK = "{where} stopped sending heartbeats ({words})."
STUCK = re.compile(r"watchdog got stuck|watchdog hang", re.IGNORECASE)
"""A watchdog that does not come to look at its collectives: none is known to have timed out."""
MOST_NAMED = 8
SEVERAL = "Several ranks did not come to the barrier ({words})."
NOT_HUNG = (
    "See that every rank sends its heartbeats from where it steps, and closes its sections; else the time-out is "
    "shorter than what a healthy run takes."
)
KEPT = (Wanted("the stack of that rank", Kind.STACKS), Wanted("its last lines"))


def match(case: Case) -> Match | None:
    """What the dumps say; else a monitor's time-out, a collective's own, or somebody who says that it hung."""
    told_by_dumps = dump_verdict(case.evidence, case.noticed_at, case.last_step_at, case.world_size)
    if told_by_dumps is not None and told_by_dumps.cause == HANG:
        return _by_dumps(case, told_by_dumps)
    signs = case.accusing(RULE.name)
    named = [sign for sign in signs if sign.reading.rank is not None]
    lines = [sign for sign in signs if sign.reading.weight is Weight.LINE and sign.reading.rank is None]
    waits = [sign for sign in signs if sign.reading.weight is Weight.WAIT]
    tasks = [sign for sign in named if sign.reading.says == SILENT_TASK]
    if tasks and tasks[0] is named[0]:
        return _of_tasks(case, tasks)
    if named and not (lines and lines[0].at < named[0].at):
        found = from_sign(named[0], RULE, named)
        return Match(
            found.confidence, found.sentence, found.rank, None, waits[0].at if waits else found.at,
            tuple(sign.item for sign in [*named, *waits][:20]), KEPT,
            Weight.LINE, found.traits,
        )  # fmt: skip
    if lines and lines[0].reading.says == SEVERAL:
        return replace(from_sign(lines[0], RULE, lines), rank=None, missing_evidence=MISSING)
    if lines:
        return _monitored(case, lines, waits)
    if waits:
        return _waited(case, waits)
    told = case.says("hang", "heartbeat timeout", "heartbeat_timeout")
    if told:
        return Match(0.7, f"Reported as a hang ({told}).", missing_evidence=MISSING)
    return None


def _of_tasks(case: Case, tasks: list[Sign]) -> Match:
    """The only process that was missed; of several none is blamed."""
    found = from_sign(tasks[0], RULE, tasks)
    ranks = sorted({sign.reading.rank for sign in tasks if sign.reading.rank is not None})
    waits = [sign for sign in case.accusing(RULE.name) if sign.reading.rank is None]
    at = min([tasks[0].at, *(sign.at for sign in waits[:1])])
    if len(ranks) > 1:
        named = ", ".join(map(str, ranks[:MOST_NAMED])) + ("" if len(ranks) <= MOST_NAMED else ", …")
        said = f"Ranks {named} stopped sending heartbeats; which was first is not told."
        return replace(found, sentence=said, rank=None, node=None, at=at, missing_evidence=MISSING)
    return replace(found, node=None, at=at, missing_evidence=KEPT)


def _by_dumps(case: Case, told: DumpVerdict) -> Match:
    """The dumps decide, unless something else is told of the culprit: then its absence is a consequence of that.

    Where they blame nobody, they say no more than that ranks waited: whatever is told of any rank goes before.
    """
    waits = [sign for sign in case.signs if sign.accuses and sign.reading.cause in (RULE.name, "nccl_timeout")]
    by_monitor = KILLS if _is_monitored(case) else frozenset()
    has_own_failure = any(
        sign.accuses
        and sign.reading.weight >= Weight.LINE
        and sign.reading.cause not in (RULE.name, *by_monitor)
        and not (sign.reading.cause in STOPS and sign.at > told.at)
        and (told.rank is None or sign.rank is None or sign.rank == told.rank)
        for sign in case.signs
    ) or _was_killed(case, told.rank)
    return Match(
        min(told.confidence, 0.6) if has_own_failure else told.confidence,
        told.sentence, told.rank, told.node, min([told.at, *(sign.at for sign in waits[:1])]), told.initiating,
        told.missing_evidence, Weight.WAIT if has_own_failure else Weight.LINE, told.traits,
        confirming=tuple(sign.item for sign in waits[:20]),
    )  # fmt: skip


def _is_monitored(case: Case) -> bool:
    """Whether a monitor told that its patience was over: then it killed the ranks itself."""
    return any(sign.reading.weight is Weight.LINE for sign in case.accusing(RULE.name))


def _was_killed(case: Case, rank: int | None) -> bool:
    """Whether a rank (any, where none is asked for) died by a signal that no monitor's time-out explains."""
    if _is_monitored(case):
        return False
    return any(worker.exit_code in DEADLY and rank in (None, worker.rank) for worker in case.exits)


def _ranks(signs: list[Sign]) -> str:
    ranks = sorted({sign.rank for sign in signs if sign.rank is not None})
    if len(ranks) > 6:
        return f"{len(ranks)} ranks, {ranks[0]}–{ranks[-1]}"
    return ", ".join(f"rank {rank}" for rank in ranks)


def _traits(signs: list[Sign]) -> tuple[tuple[str, str], ...]:
    return next((sign.reading.traits for sign in signs if sign.reading.traits), ())


def _monitored(case: Case, lines: list[Sign], waits: list[Sign]) -> Match:
    ranks = _ranks(lines)
    if not waits and _stepped_on(case, lines):
        who = f" of {ranks}" if ranks else ""
        return Match(
            0.4,
            f"A monitor ended it for want of a sign of life{who}, while it went on completing steps: it had not hung.",
            at=lines[0].at, initiating=tuple(sign.item for sign in lines[:20]), missing_evidence=MISSING,
            traits=_traits(lines), advice=NOT_HUNG,
        )  # fmt: skip
    after = "" if case.last_step is None else f" after step {case.last_step}"
    suspect = _silent_rank(case, waits)
    stayed = _stayed_in_section(lines) if suspect is None and not waits else None
    if stayed is not None:
        suspect, section = stayed
        blame = f" Rank {suspect} alone stayed too long in its section {section!r}."
    else:
        blame = _blame(suspect, waits)
    return Match(
        0.9,
        f"The run hung{after}: a monitor waited in vain for signs of life{f' ({ranks} timed out)' if ranks else ''}."
        + blame,
        suspect,
        at=min(lines[0].at, waits[0].at) if waits else lines[0].at,
        initiating=tuple(sign.item for sign in lines[:20]),
        missing_evidence=MISSING,
        traits=_traits(lines),
    )


def _stayed_in_section(lines: list[Sign]) -> tuple[int, str] | None:
    """The only rank of which a monitor complains, where it is of a section that it never closed; and which.

    Ranks that wait for each other miss their heartbeats together: a complaint of those blames nobody. A section is one
    rank's own.
    """
    sections = {dict(sign.reading.traits).get("section") for sign in lines}
    ranks = {sign.reading.rank if sign.reading.rank is not None else sign.rank for sign in lines}
    if len(sections) != 1 or len(ranks) != 1:
        return None
    section, rank = sections.pop(), ranks.pop()
    return None if section is None or rank is None else (rank, section)


def _stepped_on(case: Case, lines: list[Sign]) -> bool:
    """Whether the last completed step contradicts the first monitor's line."""
    waited = next(((sign.at, told) for sign in lines if (told := waited_ns(sign.text)) is not None), None)
    if waited is None or case.last_step_at is None or case.last_step_at > waited[0]:
        return False
    return worked_on(waited[0] - case.last_step_at, waited[1])


def _waited(case: Case, waits: list[Sign]) -> Match:
    named = _ranks(waits) or "a rank"
    suspect = _silent_rank(case, waits)
    said = f"A collective timed out ({named} waited in vain) and no other rank failed before: one did not arrive."
    if all(STUCK.search(sign.text) for sign in waits):
        said = (
            f"NCCL's watchdog got stuck on {named} and no other rank failed before: a call of NCCL or CUDA did not end."
        )
    return Match(
        0.7,
        said + _blame(suspect, waits),
        suspect,
        at=waits[0].at,
        initiating=tuple(sign.item for sign in waits[:20]),
        missing_evidence=MISSING,
        weight=Weight.WAIT,
        traits=_traits(waits),
    )


def _blame(suspect: int | None, waits: list[Sign]) -> str:
    return "" if suspect is None or not waits else f" Every other rank is known to have waited for rank {suspect}."


def _silent_rank(case: Case, waits: list[Sign]) -> int | None:
    """The one rank that is not known to have waited, where all the others are; None without a known world size."""
    size = case.world_size
    if size is None or size < 2 or size > 100_000:
        return None
    waited = {sign.rank for sign in waits if sign.rank is not None}
    waited |= {sign.rank for sign in case.signs if sign.reading.role is CausalRole.CASCADE and sign.rank is not None}
    silent = set(range(size)) - waited
    return silent.pop() if len(silent) == 1 and len(waited) == size - 1 else None


RULE = CauseRule(
    name="hang",
    domain=Domain.UNKNOWN,
    advice="Look at the rank that stopped first; compare the time-out with the longest healthy gap.",
    match=match,
    order=30,
    lines=(
        line(
            r"Ranks? (?P<rank>\d{1,7}) failed to pass monitoredBarrier[^\n]{0,60}",
            "{where} did not come to the barrier ({words}).",
            confidence=0.85,
        ),
        line(
            r"Ranks (?P<several>\d{1,7}(?:, \d{1,7}){1,200}) failed to pass monitoredBarrier[^\n]{0,60}",
            SEVERAL,
            confidence=0.85,
        ),
        line(
            r"Interruption\.(?:SOFT_TIMEOUT|HARD_TIMEOUT|UNRESPONSIVE) (?:affecting ranks "
            r"|on ranks=)\{(?P<rank>\d{1,7})\}",
            "{where} stopped giving signs of life ({words}).",
            confidence=0.9,
        ),
        line(
            rf"^{JAX_TASK}(?P<rank>\d{{1,7}})\s{{0,8}}$"
            r"|\btask:(?P<rank_>\d{1,7})\b[^\n]{0,40}(?:heartbeat time-?out|unhealthy|stopped sending)[^\n]{0,60}",
            SILENT_TASK,
            confidence=0.85,
        ),
        line(
            r"Did not get (?:initial|subsequent) heartbeat[^\n]{0,60}"
            r"|Section '?(?P<section>[^'\n]{1,120}?)'? (?:has been|is) open for[^\n]{0,80}"
            r"|Was out of section for[^\n]{0,80}"
            r"|Interruption\.(?:SOFT_TIMEOUT|HARD_TIMEOUT|UNRESPONSIVE)[^\n]{0,80}"
            r"|FT timeout elapsed"
            r"|no progress (?:for|in) \d{1,9} ?(?:s|sec|min)[^\n]{0,60}"
            r"|training (?:appears|seems) (?:to be )?(?:hung|stuck|hanging)[^\n]{0,60}"
            r"|DEADLINE_EXCEEDED: Barrier timed out[^\n]{0,60}"
            r"|tasks are unhealthy \(stopped sending heartbeats\)[^\n]{0,120}"
            r"|coordination service[^\n]{0,80}heartbeat[^\n]{0,40}"
            r"|(?:hang|stall|deadlock) detected[^\n]{0,80}"
            r"|step (?:timed out|time-?out)[^\n]{0,60}",
            confidence=0.9,
        ),
        line(
            r"Timed out waiting \d{1,12} ?ms for (?:recv|send) operation"
            r"|Application timeout caused pair closure"
            r"|Heartbeat monitor timed out[^\n]{0,80}"
            r"|watchdog got stuck for \d{1,9} seconds[^\n]{0,60}|due to ProcessGroupNCCL(?:'s)? watchdog hang"
            r"|Could not acquire GIL within[^\n]{0,60}|possible GIL induced hang"
            r"|monitoredBarrier[^\n]{0,60}timed? ?out"
            r"|The wait execution of the Notify register times out|Stream synchronize timeout"
            r"|lame workers found[^\n]{0,80}",
            confidence=0.7,
            weight=Weight.WAIT,
        ),
        line(r"Section\(s\) [^\n]{0,80} were still open", role=CausalRole.CONFIRMATION),
    ),
)
