"""`rerail synth`: a fleet that never was, through the same door as facts of real ones.

Rules
- The same `--seed` and `--end` give the same facts; sent again they are duplicates, and nothing changes.
- Runs are told one after the other, in batches as an agent sends them. The large run comes last, so that a page that is
  open meanwhile fills with small ones first.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from rerail.collectors.synth.history import facts_of
from rerail.collectors.synth.plans import RunPlan, fleet, large_run
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.importing import Send, derive_waiting, sender, writer
from rerail.server.core.codec import encode_line
from rerail.server.errors import RerailError
from rerail.server.instants import parse_instant

BATCH_LINES = 1000
BATCH_BYTES = 2 * 1024 * 1024


def synthesize(parsed: argparse.Namespace) -> int:
    """Make runs up and state their facts."""
    try:
        end = time.time_ns() if parsed.end is None else parse_instant(parsed.end)
        plans = list(fleet(parsed.seed, parsed.runs, end))
        if parsed.ranks:
            plans.append(large_run(parsed.seed, parsed.ranks, parsed.days, parsed.faults, end))
    except ValueError as error:
        raise RerailError(str(error)) from None
    if parsed.stdout:
        for plan in plans:
            sys.stdout.buffer.writelines(map(encode_line, facts_of(plan)))
        sys.stdout.buffer.flush()
        return 0
    settings = settings_of(parsed)
    if parsed.url or settings.url:
        _tell(plans, sender(str(parsed.url or settings.url).rstrip("/"), settings.token))
        return 0
    with opened_store(settings, may_make=True) as store:
        _tell(plans, writer(store))
        derive_waiting(store, _say_left)
        _say_end()
    return 0


def _tell(plans: list[RunPlan], send: Send) -> None:
    """State the facts of these runs, with a bar. Raises RerailError where a line is refused: none may be."""
    began, accepted, held = time.monotonic(), 0, 0
    for number, plan in enumerate(plans, 1):
        for body in _batches(plan):
            answer = send(body)
            if answer.rejected:
                line, field, value, reason = answer.rejected[0]
                raise RerailError(f"run {plan.run}: line {line} was refused: {field}: {reason} (got {value})")
            accepted += answer.accepted
            held += answer.duplicate
            rate = (accepted + held) / max(1e-9, time.monotonic() - began)
            share = number / len(plans)
            _say(
                f"[{'█' * int(share * 30):<30}] {share:4.0%} {number:,} of {len(plans):,} runs, {accepted + held:,} "
                f"facts, {rate:,.0f} a second"
            )
    _say_end()
    seconds = time.monotonic() - began
    print(
        f"{len(plans):,} {'run' if len(plans) == 1 else 'runs'}: {accepted:,} facts taken, {held:,} held already, "
        f"in {seconds:.1f} s "
        f"({(accepted + held) / max(1e-9, seconds):,.0f} a second)",
        file=sys.stderr,
    )


def _batches(plan: RunPlan) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for fact in facts_of(plan):
        lines.append(encode_line(fact))
        size += len(lines[-1])
        if len(lines) >= BATCH_LINES or size >= BATCH_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<100}", end="", file=sys.stderr, flush=True)


def _say_left(left: int) -> None:
    _say(f"{left:,} runs are to be derived")


def _say_end() -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
