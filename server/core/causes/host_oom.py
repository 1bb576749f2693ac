"""The kernel killed a worker, or an allocation was refused, because the host or its cgroup ran out of memory; Ray's own
monitor kills before the kernel does.

An exit by SIGKILL beside the kernel's line is this; the kernel's line beside exits of which none was a kill is another
process's story and counts little.
"""

from __future__ import annotations

import re

from rerail.server.core.cause_rules import Case, CauseRule, Match, Sign, Weight, from_sign, line, shown_words, who
from rerail.server.core.evictions import EVICTED_FOR_MEMORY
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Wanted

KILLED = frozenset({-9, 137})
NOT_KILLED = (Wanted("the exit codes of the other ranks: none that is known was a kill"),)
RAYS = "{where} was ended by Ray's own memory monitor: its node ran short of memory ({words})."
SAYS = "{where} was killed by the kernel: the host, or its memory limit, was exhausted ({words})."
EVICTED = "{where} was evicted by Kubernetes: its node ran short of memory ({words})."
OF_A_RUN = re.compile(r"py|pt_|torch|ray|train|accel|deepspeed|java|julia|mega|nemo|worker|rank|srun|mpi|exe|x$", re.I)
"""How processes of a training are called, as the kernel cuts their names to 15 letters."""
VICTIM = re.compile(r"Killed process (\d{1,10}) \(([^)\n]{1,60})\)")


def match(case: Case) -> Match | None:
    """The kernel's or the scheduler's word for it, joined with the exit it explains."""
    signs = [sign for sign in case.signs if sign.reading.cause == RULE.name and sign.reading.confidence > 0]
    killed = [worker for worker in case.exits if worker.oom_killed]
    kills = [worker for worker in case.exits if worker.exit_code in KILLED]
    kernel = [sign for sign in signs if sign.reading.weight is Weight.ESTABLISHED]
    if kernel:
        return _killed(case, kernel)
    if killed:
        rank = killed[0].rank if killed[0].rank >= 0 else None
        return Match(
            0.95, f"{who(rank)} was killed: its host was out of memory.", rank, killed[0].node or None, killed[0].at,
            weight=Weight.ESTABLISHED, traits=(("signal", "SIGKILL"),),
        )  # fmt: skip
    if signs:
        return from_sign(signs[0], RULE, signs[:1])
    if kills and case.says("oom"):
        return Match(0.7, f"Killed, and reported as out of memory ({case.says('oom')}).", at=kills[0].at)
    return None


def _killed(case: Case, kernel: list[Sign]) -> Match:
    first = next((sign for sign in kernel if VICTIM.search(sign.text)), kernel[0])
    placed = next((sign for sign in kernel if sign.reading.rank is not None), None)
    victim = VICTIM.search(first.text)
    kills = [worker for worker in case.exits if worker.exit_code in KILLED]
    told_codes = [code for _, code in case.exit_codes]
    told_codes += [worker.exit_code for worker in case.exits]
    on_node = [worker for worker in kills if first.node and worker.node == first.node] or kills
    rank = first.rank
    spoke = case.sign_of_process(victim.group(1)) if rank is None and victim is not None else None
    if spoke is not None:
        rank = spoke.rank
    if rank is None and placed is not None:
        rank = placed.reading.rank
    if rank is None and spoke is None:  # where its local rank is told, another exit does not say whose it was
        if on_node and on_node[0].rank >= 0:
            rank = on_node[0].rank
        else:
            rank = next((each for each, code in case.exit_codes if code in KILLED), None)
    told_nodes = {sign.node for sign in kernel if sign.node}
    node = first.node or (on_node[0].node if on_node else None) or (told_nodes.pop() if len(told_nodes) == 1 else None)
    words = f"process {victim.group(1)}, {victim.group(2)}" if victim else shown_words(first.reading.words, first.text)
    local = spoke.item.evidence.local_rank if spoke is not None else None
    sentence = (first.reading.says or SAYS).replace("{where}", who(rank, node, local)).replace("{words}", words)
    is_confirmed = bool(kills) or first.reading.says == EVICTED or any(code in KILLED for code in told_codes)
    if not is_confirmed and victim is not None and spoke is None and not OF_A_RUN.match(victim.group(2)):
        return Match(
            0.4, f"The kernel of {node or 'a node'} was out of memory and killed {victim.group(2)} (process "
            f"{victim.group(1)}), which is not known to be of the run.", None, node, first.at, (first.item,),
            NOT_KILLED, weight=Weight.ECHO,
        )  # fmt: skip
    if not is_confirmed and told_codes:
        return Match(
            0.4, sentence, rank, node, first.at, (first.item,), NOT_KILLED,
            weight=Weight.ECHO,
        )  # fmt: skip
    confirming = tuple(
        sign.item for sign in case.signs if sign.reading.cause == "sigkill" or (sign in kernel and sign is not first)
    )
    confidence = 0.97 if is_confirmed and first.reading.says != EVICTED else 0.9
    return Match(
        confidence, sentence, rank, node, first.at, (first.item,), (), Weight.ESTABLISHED,
        () if first.reading.says == EVICTED else (("signal", "SIGKILL"),), first.reading.domain, first.reading.advice,
        confirming=confirming,
    )  # fmt: skip


RULE = CauseRule(
    name="host_oom",
    domain=Domain.WORKLOAD,
    advice="Look at data loader workers and pinned memory; raise the memory limit or lower the number of workers.",
    match=match,
    order=12,
    lines=(
        line(
            EVICTED_FOR_MEMORY,
            EVICTED,
            role=CausalRole.CONFIRMATION,
            confidence=0.9,
            weight=Weight.ESTABLISHED,
            domain=Domain.INFRASTRUCTURE,
            advice="See who used that node's memory; give the pod a request and a limit that it keeps to.",
        ),
        line(
            r"Out of memory: Killed process[^\n]{0,80}"
            r"|Memory cgroup out of memory[^\n]{0,80}|oom-kill:[^\n]{0,80}|\bOOMKilled\b"
            r"|\bOOMKilling\b|Detected \d{1,6} oom[_-]kill event[^\n]{0,60}"
            r"|exceeded (?:job )?memory limit[^\n]{0,60}|OUT_OF_MEMORY\b"
            r"|systemd-oomd[^\n]{0,60}Killed[^\n]{0,60}|have been OOM Killed"
            r"|oom_reaper: reaped process|\btask (?P<task>\d{1,7}): Out Of Memory"
            r"|\btasks [\d,-]{1,60}: Out Of Memory"
            r"|oom[_-]kill event\(s\)",
            SAYS,
            role=CausalRole.CONFIRMATION,
            confidence=0.95,
            weight=Weight.ESTABLISHED,
            unless=r"CUDA|RESOURCE_EXHAUSTED",
        ),
        line(
            r"\b(?!0 )\d{1,6} Workers \(tasks / actors\) killed due to memory pressure"
            r"|node running low on memory|exceeds the memory usage threshold of [\d.]{1,10}\. Ray killed this worker"
            r"|RayOutOfMemoryError: [^\n]{0,80}",
            RAYS,
            role=CausalRole.CONFIRMATION,
            confidence=0.95,
            weight=Weight.ESTABLISHED,
        ),
        line(
            r"TERM_(?:MEMLIMIT|SWAP): job killed[^\n]{0,60}|PBS: job killed: [pv]?mem\b[^\n]{0,80}"
            r"|Cgroup mem(?:ory|sw)? limit exceeded[^\n]{0,80}",
            "The scheduler killed the job: it used more memory than it asked for ({words}).",
            role=CausalRole.CONFIRMATION,
            confidence=0.95,
            weight=Weight.ESTABLISHED,
            advice="Ask for more memory, or look at data loader workers and pinned memory.",
        ),
        line(r"invoked oom-killer", role=CausalRole.CONFIRMATION),
        line(
            r"(?:\b|_Array)MemoryError\b[^\n]{0,120}|DefaultCPUAllocator: can'?t allocate memory"
            r"|Cannot allocate memory|bad_alloc|not enough memory: you tried to allocate"
            r"|unable to mmap \d{1,20} bytes[^\n]{0,40}Cannot allocate",
            "{where} could not get host memory ({words}).",
            confidence=0.85,
            unless=r"CUDA|GPU",
        ),
    ),
)
