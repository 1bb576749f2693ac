"""Kernel logs of the past into a run: `rerail import kernel FILE --run ID`; see `text_logs.py`."""

from __future__ import annotations

from rerail.collectors.formats import ImportFormat
from rerail.collectors.sources.text_logs import read_kernel

FORMAT = ImportFormat(
    name="kernel",
    summary="a kernel log (dmesg -T, journalctl -k, syslog): XIDs, lost GPUs, OOM kills",
    read=read_kernel,
    example="--run llm dmesg.txt --node gpu-17 --zone Europe/Berlin",
    tells="XIDs, lost GPUs, kills for memory, crashed machines, links that went down, with the machine's name",
    cannot_tell="which run a line is about, whose a line is that names no machine (dmesg -T: give --node), and "
    "lines whose stamps count from the machine's start (dmesg without -T)",
    options=frozenset({"--zone", "--node"}),
)
