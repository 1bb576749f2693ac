"""The workers did not find each other: the rendezvous or the store timed out or was closed."""

from __future__ import annotations

from dataclasses import replace

from rerail.server.core.cause_rules import Case, CauseRule, Match, Weight, from_lines, line
from rerail.server.core.causes.lone_timeouts import is_lone
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted


def match(case: Case) -> Match | None:
    """The first line that tells of it; who waited in vain for the others is not to blame.

    Where all that is known are waits for an answer that are nobody's accusation, that somebody waited.
    """
    found = from_lines(case, RULE)
    if found is not None:
        return replace(found, rank=None)
    echoes = [
        sign for sign in case.signs if sign.reading.role is CausalRole.CASCADE and sign.reading.cause == "network"
    ]
    if not echoes or not all(is_lone(sign.text) for sign in echoes):
        return None
    first = echoes[0]
    return Match(
        0.3, f"{first.who} waited in vain for an answer; who did not give it, and why, is not told.", None, None,
        first.at, (first.item,), RULE.settles, Weight.ECHO, first.reading.traits,
    )  # fmt: skip


RULE = CauseRule(
    name="rendezvous",
    domain=Domain.UNKNOWN,
    advice="See which node did not come and why; compare the join time-out with the time a node takes to start.",
    match=match,
    order=28,
    settles=(
        Wanted(
            "the launcher's log of every node (who came, and what the others did meanwhile)",
            Kind.LAUNCHER_LOG,
            "the launchers' logs of the other nodes (whether they came, and what they did meanwhile)",
        ),
    ),
    lines=(
        line(
            r"RendezvousTimeoutError[^\n]{0,80}|RendezvousConnectionError[^\n]{0,120}"
            r"|The connection to the C10d store has failed"
            r"|Rendezvous(?:State|GracefulExit)Error[^\n]{0,80}"
            r"|(?:rendezvous|rdzv)[^\n]{0,60}(?:timed out|time-?out)[^\n]{0,60}"
            r"|Timed out after \d{1,9} seconds waiting for clients[^\n]{0,60}"
            r"|The client socket has timed out after \d{1,9} ?ms[^\n]{0,100}"
            r"|DistStoreError[^\n]{0,120}"
            r"|wait timeout after \d{1,12} ?ms, keys[^\n]{0,80}"
            r"|Socket Timeout[^\n]{0,40}store"
            r"|failed to join (?:the )?rendezvous[^\n]{0,80}"
            r"|Timed out initializing process group in store based barrier[^\n]{0,160}"
            r"|client socket has failed to connect to any network address[^\n]{0,100}"
            r"|min(?:imum)? (?:number of )?nodes[^\n]{0,40}not (?:reached|available)[^\n]{0,40}",
            "The workers did not find each other ({words}).",
            confidence=0.75,
            weight=Weight.LINE,
            unless=r"retrying",
        ),
        line(
            r"RendezvousClosedError",
            "The rendezvous was closed before the workers had met ({words}).",
            confidence=0.5,
            weight=Weight.ECHO,
        ),
        line(r"TCP client failed to connect[^\n]{0,80}retrying", role=CausalRole.INFORMATIONAL),
    ),
)
