"""Kernel logs of the past into a run: `rerail import kernel FILE --run ID`; see `text_logs.py`."""

from __future__ import annotations

from rerail.collectors.formats import ImportFormat
from rerail.collectors.sources.text_logs import read_kernel

FORMAT = ImportFormat(
    name="kernel",
    summary="a kernel log (dmesg -T, journalctl -k, syslog): XIDs, lost GPUs, OOM kills",
    read=read_kernel,
)
