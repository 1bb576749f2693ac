"""Lone time-outs: words that say that somebody waited in vain, and nothing of what the other side or the way there did.

Nobody can tell a peer that did not come from a way that does not carry by the waiting alone, so that is never called a
fault of the network: `reading_of` asks here of every line that `network` reads, whichever row of it that was.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.server.core.cause_rules import Reading, Weight
from rerail.server.core.view import CausalRole, Domain

SAYS = "{where} waited in vain for its peers to connect ({words})."
_TIMED_OUT = re.compile(
    r"\btim(?:e[ds]?|ing)[ _-]?out\b|(?<!With)Time-?out(?:Error)?\b(?! ?[=:(] ?\d)|ETIMEDOUT|\berrno:? {0,2}110\b"
    r"|DEADLINE_EXCEEDED|socket times out",
    re.IGNORECASE,
)
_SAYS_WHY = re.compile(
    r"refused|\breset\b|aborted|closed|broken pipe|unreachable|no route|unresponsive|retry (?:count )?exceeded"
    r"|(?:RNR_)?RETRY_EXC|status=1[23]\b|\bport error|catastrophic|link (?:is )?down|NETDEV WATCHDOG|carrier|unplugged"
    r"|port \d{1,4} (?:state )?(?:is )?down|definitely down|health check|name resolution|not known|resolve host"
    r"|gaierror|ss_family|address\.cc|certificate|\bSSL|shutdown|crash|exited|Slow ?Down|Service ?Unavailable"
    r"|TooMany|rateLimit|\b(?:4\d\d|50[0-357-9]) (?:Client|Server|Too|Bad|Service|Internal)|got \d{1,6} bytes|\bUCX\b"
    r"|efa_rdm_|libfabric|\bPMIX\b|wc_status|IBV_WC_|previous error|earlier error",
    re.IGNORECASE,
)
"""What happened to the connection, or who did something to it: then it is no mere waiting."""


def is_lone(text: str) -> bool:
    """Whether a text says that something timed out, and nothing of why."""
    text = text[:8000]
    return _TIMED_OUT.search(text) is not None and _SAYS_WHY.search(text) is None


def without_network(reading: Reading, text: str) -> Reading:
    """A reading of `network` that accuses, as what it is where the line only tells of a time-out: nobody was met."""
    if reading.role is not CausalRole.INITIATING or not is_lone(text):
        return reading
    return replace(
        reading, cause="rendezvous", says=SAYS, confidence=min(reading.confidence, 0.5), weight=Weight.WAIT,
        domain=Domain.UNKNOWN, advice=None,
    )  # fmt: skip
