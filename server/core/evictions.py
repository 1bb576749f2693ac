"""Evictions: for what a node ran short when the kubelet ended a pod, as patterns.

| what is printed | what ran short |
|---|---|
| `The node was low on resource: memory. …`, `The node had condition: [MemoryPressure].` | the node's memory |
| `The node was low on resource: ephemeral-storage.`, also `inodes`, `nodefs`, `imagefs`; `[DiskPressure]` | its disk |
| `Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.` and its kin | the pod's share of it |
"""

from __future__ import annotations

EVICTED_FOR_MEMORY = r"low on resource: memory\b[^\n]{0,160}|The node had condition: \[MemoryPressure\]"
EVICTED_FOR_DISK = (
    r"low on resource: (?:ephemeral-storage|inodes|nodefs|imagefs|containerfs)\b[^\n]{0,160}"
    r"|The node had condition: \[DiskPressure\]"
)
OVER_ITS_DISK = (
    r"[Pp]od ephemeral local storage usage exceeds the total limit[^\n]{0,80}"
    r"|exceeded its local ephemeral storage limit[^\n]{0,60}"
    r"|Usage of EmptyDir volume [^\n]{0,120} exceeds the limit[^\n]{0,40}"
)
