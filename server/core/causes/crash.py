"""A worker crashed: a segmentation fault, an abort, an illegal instruction.

An abort (−6) is often a victim's: the watchdog of a healthy rank aborts it after another one failed. Alone it counts
little; beside a word of the C library about a damaged heap it is that process's own. Where one rank alone aborted
without a word of a peer, and all that others tell is that they lost a connection, it is the one that they lost.

A kernel's line about a crash names the program. One that is not called as a training's processes are is a tool's until
an exit by that signal says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core.attempt_record import WorkerExit
from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line, who
from rerail.server.core.exit_words import exits, signalled
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted

SIGNALS = {
    -11: ("a segmentation fault", "SIGSEGV"),
    139: ("a segmentation fault", "SIGSEGV"),
    -7: ("a bus error", "SIGBUS"),
    -4: ("an illegal instruction", "SIGILL"),
    -8: ("a floating point exception", "SIGFPE"),
}
ABORTS = frozenset({-6, 134})
TERMINATED = frozenset({-15, -2, -1})
"""How a launcher ends the ranks that are left."""
WAITED = frozenset({"hang", "nccl_timeout", "nccl_error"})
"""Where a collective is told of, a watchdog may have aborted the rank for another one's sake."""
HEAP = (
    r"(?:free|(?:m|re|c)alloc|munmap_chunk|malloc_consolidate)\(\): [^\n]{0,60}|double free or corruption[^\n]{0,40}"
    r"|corrupted (?:size|double-linked)[^\n]{0,60}"
)
"""What the C library says before it aborts a process whose own code damaged its heap."""
OF_THE_RUN = (
    r"(?:py|pt[_-]|torch|ray|train|accel|deepspeed|java|julia|mega|nemo|worker|rank|srun|mpi|orted|cuda|nccl|gloo"
    r"|pin_mem|Thread|grpc|tf_|jax|data|load|omp|async|autograd|main|llm|gpt|run|exe|node)"
)
"""How processes and threads of a training are called, as the kernel cuts their names to 15 letters."""
MISSING = (Wanted("a core dump"), Wanted("a native stack of the rank that crashed", Kind.STACKS))
ABORTED = (Wanted("the exit codes of every rank", Kind.EXIT_CODES), Wanted("the last lines of the others"))


def match(case: Case) -> Match | None:
    """The earliest exit by a crash signal, or what the process printed while it crashed."""
    found = from_lines(case, RULE)
    for worker in case.exits:
        rank = worker.rank if worker.rank >= 0 else None
        if worker.exit_code in SIGNALS:
            words, signal = SIGNALS[worker.exit_code]
            traits = dict(found.traits) if found is not None else {}
            named = case.who_ended(worker)
            if rank is None and found is not None and found.rank is not None:
                rank, named = found.rank, who(found.rank, case.node_of(worker) or found.node)
            return Match(
                0.8, f"{named} died of {words}.", rank, case.node_of(worker),
                worker.at if found is None or found.at is None else min(found.at, worker.at),
                initiating=() if found is None else found.initiating, missing_evidence=MISSING,
                traits=tuple(sorted({**traits, "signal": signal}.items())),
            )  # fmt: skip
    aborts = [worker for worker in case.exits if worker.exit_code in ABORTS]
    if (lost := _lost(case, aborts)) is not None:
        rank, named = lost.rank if lost.rank >= 0 else None, case.who_ended(lost)
        resting = [sign.item for sign in case.accusing(RULE.name) if sign.rank in (None, rank)]
        return Match(
            0.75 if rank is not None else 0.6,
            f"{named} aborted (SIGABRT); all that the others tell is that they lost the connection to a peer.",
            rank, case.node_of(lost), lost.at, tuple(resting[:20]), MISSING, Weight.LINE, (("signal", "SIGABRT"),),
        )  # fmt: skip
    if found is not None:
        at_once = sorted({worker.rank for worker in aborts if worker.at == aborts[0].at and worker.rank >= 0})
        if found.weight is Weight.ECHO and len(at_once) > 1:
            return _several(found, at_once)
        aborted = aborts[0] if aborts else None
        rank = found.rank if found.rank is not None or aborted is None or aborted.rank < 0 else aborted.rank
        sentence = found.sentence
        if rank is not None and found.rank is None:
            spoke = next((sign.who for sign in case.signs if sign.item in found.initiating[:1]), who(None, found.node))
            sentence = sentence.replace(spoke, who(rank, found.node), 1)
        return Match(
            found.confidence, sentence, rank, found.node, found.at, found.initiating, MISSING, found.weight,
            found.traits,
        )  # fmt: skip
    for worker in case.exits:
        if worker.exit_code in ABORTS:
            rank = worker.rank if worker.rank >= 0 else None
            return Match(
                0.4, f"{case.who_ended(worker)} aborted; aborts are often the echo of another rank's death.", rank,
                case.node_of(worker), worker.at, missing_evidence=ABORTED,
                weight=Weight.ECHO, traits=(("signal", "SIGABRT"),),
            )  # fmt: skip
    return None


def _lost(case: Case, aborts: list[WorkerExit]) -> WorkerExit | None:
    """The one rank that aborted without a word of a peer, where all others only lost one; None where it is not so."""
    if len({worker.rank for worker in aborts}) != 1 or (aborts[0].rank < 0 and len(aborts) > 1):
        return None
    aborted = aborts[0]
    others = (
        worker for worker in case.exits if worker is not aborted and (aborted.rank < 0 or worker.rank != aborted.rank)
    )
    if any(worker.exit_code < 0 and worker.exit_code not in TERMINATED for worker in others):
        return None
    losers = case.losers_of(aborted.rank)
    waited = any(
        sign.reading.cause in WAITED or (sign.accuses and sign.reading.weight is Weight.WAIT) for sign in case.signs
    )
    raised = all(sign.item.evidence.code is not None for sign in losers)  # who raises in Python does not abort
    return aborted if losers and not waited and (aborted.rank >= 0 or raised) else None


def _several(found: Match, ranks: list[int]) -> Match:
    """Several ranks aborted at one instant: which was first is not told."""
    named = ", ".join(map(str, ranks[:8])) + ("" if len(ranks) <= 8 else f", … ({len(ranks)} in all)")
    said = f"Ranks {named} aborted; aborts are often the echo of another rank's death."
    return replace(found, sentence=said, rank=None, missing_evidence=ABORTED)


RULE = CauseRule(
    name="crash",
    domain=Domain.UNKNOWN,
    advice="Collect a core dump or a native stack; compare driver and library versions with the last good attempt.",
    match=match,
    order=38,
    lines=(
        line(
            r"\btask (?P<task>\d{1,7}): (?:Segmentation fault|Bus error|Illegal instruction"
            r"|Floating point exception)"
            r"|process rank (?P<rank>\d{1,7}) with PID[^\n]{0,120}exited on signal (?:4|7|8|11)\b"
            rf"|exits with return code = -(?:4|7|8|11)\b|{exits('-?(?:4|7|8|11)|132|135|139', group='rank_')}"
            rf"|{signalled('SIG(?:SEGV|BUS|ILL|FPE)', 'Segmentation fault|Bus error|Illegal instruction')}",
            "{where} crashed: {words}.",
            confidence=0.8,
        ),
        line(
            r"[^\s\[\]]{1,20}\[\d{1,10}\]:? (?:segfault at [0-9a-f]{1,16}|general protection|trap )[^\n]{0,80}",
            "A program that is not known to be of the run crashed on {where}: {words}.",
            confidence=0.4,
            weight=Weight.ECHO,
            unless=rf"(?:^|[\s:]){OF_THE_RUN}[^\s\[\]]{{0,20}}\[\d{{1,10}}\]:? (?:segfault|general|trap)",
        ),
        line(
            r"Fatal Python error: (?!Aborted)[^\n]{0,80}|Segmentation fault\b[^\n]{0,60}"
            r"|Signal 11 \(SIGSEGV\)|\*\*\* SIG(?:SEGV|BUS|ILL|FPE)\b[^\n]{0,60}"
            r"|Caught signal 11\b[^\n]{0,60}|segfault at [0-9a-f]{1,16} ip[^\n]{0,80}"
            rf"|{HEAP}|Illegal instruction\b|stack smashing detected"
            r"|traps: [^\n]{0,40}(?:trap|general protection)[^\n]{0,60}"
            r"|died with <Signals\.SIG(?:SEGV|BUS|ILL|FPE)"
            r"|\(exitcode: (?:-11|139|-7|-4|-8)\)|exitcode\s{0,4}: (?:-11|139|-7|-4|-8) ",
            "{where} crashed: {words}.",
            confidence=0.8,
            unless=r"DataLoader worker|PyEval_RestoreThread",
        ),
        line(
            r"terminate called after throwing an instance of '[^'\n]{1,120}'",
            "{where} crashed: {words}.",
            confidence=0.55,
            weight=Weight.ECHO,
        ),
        line(
            r"\(exitcode: (?:-6|134)\)|exitcode\s{0,4}: (?:-6|134) |Signal 6 \(SIGABRT\)"
            r"|Fatal Python error: Aborted|Aborted \(core dumped\)"
            rf"|\btask \d{{1,7}}: Aborted|exits with return code = -6\b|{exits('-?6|134')}"
            rf"|{signalled('SIGABRT', 'Aborted')}",
            "{where} aborted; aborts are often the echo of another rank's death.",
            confidence=0.4,
            weight=Weight.ECHO,
        ),
        line(r"core dumped", role=CausalRole.CONFIRMATION),
    ),
)
