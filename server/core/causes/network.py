"""A connection failed: to a peer, to the store, to something outside.

Connections fail whenever the process at the other end dies, so almost every such line is an echo. Only where a process
fails to reach something from which nobody died is it an accusation, and a weak one. A time-out alone is none
(`lone_timeouts.py`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from rerail.server.core.cause_rules import (
    Case,
    CauseRule,
    Match,
    Reading,
    Weight,
    exception_traits,
    from_lines,
    line,
)
from rerail.server.core.causes.lone_timeouts import is_lone
from rerail.server.core.fabric_words import PORT_LOST, UNANSWERED
from rerail.server.core.facts import Evidence
from rerail.server.core.naming import exception_in
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted

MISSING = (
    Wanted("the log of the other side (whether it died first)"),
    Wanted("the exit codes of every rank", Kind.EXIT_CODES),
)
OWN = frozenset(
    [
        "ConnectionError",
        "ConnectionClosedError",
        "ReadTimeoutError",
        "HTTPClientError",
        "ConnectTimeout",
        "ReadTimeout",
        "MaxRetryError",
        "NewConnectionError",
        "EndpointConnectionError",
        "ProxyError",
        "ConnectTimeoutError",
        "gaierror",
        "HTTPError",
        "SSLError",
        "CommError",
        "URLError",
        "ServiceUnavailable",
        "RemoteDisconnected",
        "ProtocolError",
        "ClientConnectorError",
        "ServerDisconnectedError",
    ]
)
SOCKET = frozenset({"ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "BrokenPipeError"})


OUTSIDE = (
    "See whether that service answers from that node (DNS, proxy, certificates, its own state); what a run needs from "
    "outside is better fetched before it starts, to a place that every node reads."
)
HUB = re.compile(
    r"We couldn't connect to 'http[^'\n]{1,200}'|Couldn't reach (?:the Hugging Face Hub|'?http)[^\n]{0,120}"
    r"|(?:Cannot|Can't|couldn't|could not) reach http[^\n]{0,120}"
    r"|An error happened while trying to locate the files? on the Hub[^\n]{0,120}"
)
"""How libraries that fetch models and data sets say that they got no answer."""


def reads(evidence: Evidence) -> Reading | None:
    """A connection's exception: a socket's is mostly an echo, that of a client to the outside is not."""
    named = exception_in(evidence.text, evidence.code)
    if named is None:
        return None
    through = dict(evidence.attributes).get("through")
    if through and HUB.search(named.message) is None:
        return None
    traits = tuple(sorted(exception_traits(evidence).items()))
    words = f"{named.type}: {named.message}"[:240]
    is_own = named.type in OWN and "torch" not in named.full_type
    if is_own and is_lone(f"{named.type}: {named.message}"):
        return None  # an exception like any other: who did not answer, and why, is not told
    if is_own or HUB.search(named.message):
        return Reading(
            RULE.name, CausalRole.INITIATING, "{where} could not reach a service ({words}).", words, 0.65, Weight.LINE,
            traits=traits, advice=OUTSIDE,
        )  # fmt: skip
    if named.type in SOCKET:
        return Reading(RULE.name, CausalRole.CASCADE, words=words, traits=traits)
    return None


def match(case: Case) -> Match | None:
    """A line that accuses, or else the first echo, for what it is worth."""
    found = from_lines(case, RULE)
    if found is not None:
        rank = None if found.weight is Weight.WAIT else found.rank
        return replace(found, rank=rank, missing_evidence=MISSING)
    echoes = [
        sign
        for sign in case.signs
        if sign.reading.cause == RULE.name and sign.reading.role is CausalRole.CASCADE and not is_lone(sign.text)
    ]
    if not echoes:
        return None
    first = echoes[0]
    return Match(
        0.3, f"{first.who} lost a connection; whether the other side died or the network failed is not told.",
        None, None, first.at, (first.item,), MISSING, Weight.ECHO, first.reading.traits, Domain.UNKNOWN,
    )  # fmt: skip


RULE = CauseRule(
    name="network",
    domain=Domain.INFRASTRUCTURE,
    advice="See whether the other side was alive; then test the path between the two (links, DNS, proxies).",
    match=match,
    order=36,
    reads=reads,
    lines=(
        line(
            r"Network is unreachable|No route to host"
            r"|Temporary failure in name resolution|Name or service not known"
            r"|Could not resolve host|Link is Down\b[^\n]{0,60}|NIC Link is Down"
            r"|\bLink (?:is )?down\b[^\n]{0,60}|[Cc]able (?:is )?unplugged|link status definitely down[^\n]{0,60}"
            r"|\bport \d{1,4} (?:state )?(?:is )?DOWN\b"
            r"|carrier lost|link flap[^\n]{0,60}|NETDEV WATCHDOG[^\n]{0,80}"
            r"|(?:NIC|network) health check[^\n]{0,30}fail[^\n]{0,80}",
            "{where} lost the network: {words}.",
            confidence=0.75,
            unless=r"Disable NIC health|IPv6 network addresses of",
        ),
        line(PORT_LOST, "{where} lost its link to the fabric: {words}.", confidence=0.8),
        line(r"NET/IB[^\n]{0,80}Got async event[^\n]{0,80}", role=CausalRole.INFORMATIONAL),
        line(
            rf"{UNANSWERED}"
            r"|Transport retry count exceeded on[^\n]{0,80}|efa_rdm_\w{1,40}error\(\)[^\n]{0,160}"
            r"|\bIBV_WC_(?!SUCCESS)\w{1,40}|wc_status[ =:]{1,3}(?!0\b|IBV_WC_SUCCESS)\S{1,40}"
            r"|Failed to modify QP to \w{1,12}: (?!Connection timed out)[^\n]{0,80}"
            r"|libfabric:[^\n]{0,120}(?:unresponsive|unreachable)[^\n]{0,80}",
            "{where} got no answer over the fabric: {words}.",
            confidence=0.6,
            weight=Weight.WAIT,
        ),
        line(
            r"(?:SlowDown|Slow Down|ServiceUnavailable|RequestLimitExceeded|TooManyRequests|rateLimitExceeded)\b"
            r"[^\n]{0,40}"
            r"(?:when calling|: |reduce your request rate)[^\n]{0,120}",
            "{where} was refused by a storage service ({words}).",
            confidence=0.6,
            unless=r"automatically retried",
        ),
        line(
            r"Gloo connectFullMesh failed[^\n]{0,160}"
            r"|gloo/transport/tcp/address\.cc[^\n]{0,100}"
            r"|gloo/transport/tcp/[^\n]{0,60}Connect timeout[^\n]{0,60}"
            r"|timed out connecting: SO_ERROR[^\n]{0,80}"
            r"|Getting socket times out\. Reason: [^\n]{0,80}",
            "{where} could not connect to its peers at start-up ({words}).",
            confidence=0.5,
            weight=Weight.WAIT,
            domain=Domain.UNKNOWN,
        ),
        line(
            r"thrown while requesting (?:GET|HEAD|POST|PUT) |IPv6 network addresses of \(",
            role=CausalRole.INFORMATIONAL,
        ),
        line(
            r"Connection closed by peer|Connection reset by peer|Connection refused"
            r"|PMIX ERROR: (?:UNREACHABLE|LOST_CONNECTION|COMM_FAILURE)[^\n]{0,80}"
            r"|UCX\s{1,3}ERROR[^\n]{0,160}|[Rr]emote (?:side|peer) unexpectedly closed"
            r"|UNAVAILABLE: (?:Socket closed|Connection|failed to connect)"
            r"|Broken pipe|Socket Timeout|recvValue(?:WithTimeout)? failed"
            r"|sendBytes failed|failed to (?:recv|send)|Failed to recv, got \d{1,6} bytes"
            r"|Connection was likely closed|DistNetworkError"
            r"|Software caused connection abort|Socket (?:recv|send) failed"
            r"|should dump\" flag|remote server shutdown or crash|Connection aborted"
            r"|peer [^\n]{0,60}closed",
            role=CausalRole.CASCADE,
        ),
        line(
            r"DistBackendError|Original exception:|due to (?:a )?previous error"
            r"|caused by (?:a )?previous error"
            r"|NCCL[^\n]{0,200}(?:aborted|remote process exited)|RankShouldRestart"
            r"|Interruption\.EXCEPTION"
            r"|watchdog thread terminated with exception: (?!CUDA)",
            role=CausalRole.CASCADE,
            unless=r"Interruption\.(?:TERMINATED|BASE_EXCEPTION)",
        ),
    ),
)
