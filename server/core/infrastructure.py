"""Infrastructure goodput as far as it is known: one rule for pages, the API and the terminal.

Rules
- Where somebody speaks for the ranks it is known; time after faults of which nobody told anything is silent, and not
  down (docs/accounting.md). Had all of it been down, it would be `least`.
- Where nothing dates a restart it is at most so much too.
- Where only a launcher speaks, what was told of being down is the least that was lost: it is at most so much, and
  unknown where nothing was told of being down.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.unexplained import Reason
from rerail.server.core.view import RunView
from rerail.server.core.words import THIN, UNKNOWN, duration, share

NEARLY = {f">99.9{THIN}%": f"100{THIN}%", f"<0.1{THIN}%": f"0.1{THIN}%"}
UNTOLD_DOWN = frozenset({Reason.BRING_UP.value, Reason.BETWEEN_ATTEMPTS.value})
"""Reasons of silent time in which a run that was relaunched may have been queueing, loading or stepping untold."""


@dataclass(frozen=True, slots=True)
class InfrastructureGoodput:
    """What is known of it; shares 0…1."""

    share: float | None
    """None: unknown, or nothing elapsed."""
    is_most: bool = False
    """It is at most `share`."""
    least: float | None = None
    """What it is at least, were all of `untold_ns` down too; None where nothing is untold."""
    untold_ns: int = 0
    """Time after faults of which nobody told anything."""


def infrastructure_goodput(view: RunView) -> InfrastructureGoodput:
    """Of the whole life of a run."""
    account = view.account
    silent = sum(each.length_ns for each in view.data_quality.unexplained if each.reason in UNTOLD_DOWN)
    untold = (silent if view.restarts else 0) + sum(
        each.untold_ns for each in view.unplanned_incidents if each.is_open
    )  # fmt: skip
    least = None
    if untold and account.elapsed_ns:
        least = max(0.0, 1 - (account.faults_ns + untold) / account.elapsed_ns)
    known = account.infrastructure_goodput
    if not view.sees_training and not account.faults_ns:
        known = None
    is_most = known is not None and (not view.sees_training or view.has_untold_restart)
    return InfrastructureGoodput(known, is_most, least, 0 if least is None else untold)


def known_words(known: float | None, *, is_most: bool, unknown: str = UNKNOWN) -> str:
    """`97.5 %`, `≤ 97.5 %` or `unknown`; a share that is as good as all or nothing is so much at most."""
    if known is None or not is_most:
        return share(known, unknown)
    return f"≤ {NEARLY.get(words := share(known), words)}"


def least_words(least: float | None, untold_ns: int) -> str:
    """`at least 1.2 %, were 4 min down too of which nobody told`; empty where nothing is untold."""
    if least is None:
        return ""
    return f"at least {share(least)}, were {duration(untold_ns)} down too of which nobody told"
