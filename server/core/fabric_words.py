"""Fabric words: how NCCL's network layers say that the other end of a link did not answer, as patterns.

| layer | what is printed |
|---|---|
| verbs | `NET/IB : Got completion from peer … with status=IBV_WC_RETRY_EXC_ERR(12)`, in old releases `status=12` |
| libfabric (EFA) | `NET/OFI Request 0x… completed with error. RC: 101. Error: … Unresponsive receiver …` |

Other statuses (a work request that was flushed, a protection error) follow from something else and are not here.
"""

from __future__ import annotations

UNANSWERED = (
    r"Got completion[^\n]{0,160}\bstatus=(?:1[23]\b|IBV_WC_(?:RNR_)?RETRY_EXC_ERR)[^\n]{0,80}"
    r"|NET/OFI [^\n]{0,160}(?:[Uu]nresponsive|[Uu]nreachable)[^\n]{0,80}"
)
