"""Fabric words: how NCCL's network layers say that the other end of a link did not answer, as patterns.

| layer | what is printed |
|---|---|
| verbs | `NET/IB : Got completion from peer … with status=IBV_WC_RETRY_EXC_ERR(12)`, in old releases `status=12` |
| verbs, of its own port | `NET/IB : mlx5_3:1 Got async event : port error`; `port active` is its return |
| libfabric (EFA) | `NET/OFI Request 0x… completed with error. RC: 101. Error: … Unresponsive receiver …` |

Other statuses (a work request that was flushed, a protection error) follow from something else and are not here.
"""

from __future__ import annotations

UNANSWERED = (
    r"Got completion[^\n]{0,160}\bstatus=(?:1[23]\b|IBV_WC_(?:RNR_)?RETRY_EXC_ERR)[^\n]{0,80}"
    r"|NET/OFI [^\n]{0,160}(?:[Uu]nresponsive|[Uu]nreachable)[^\n]{0,80}"
)
PORT_LOST = (
    r"(?:NET/IB|mlx5_\d{1,3}|ibv_)[^\n]{0,80}"
    r"(?:\bport error|link down|(?:local|CA|device)[a-z ]{0,12} catastrophic error|device fatal)[^\n]{0,60}"
)
"""What an adapter tells of its own port."""
