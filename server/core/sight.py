"""Sight: what a person can do so that a source that is blind sees again.

Rules
- The first row whose source and reason fit is the advice. A source that is not listed gets none: nothing is guessed.
- Sources are named as `collectors/` names them, reasons as operating systems, Slurm, Kubernetes and Prometheus do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Advice:
    source: re.Pattern[str]
    reason: re.Pattern[str]
    words: str
    page: str
    """Where it is explained, a file of `docs/`."""


def _advice(source: str, reason: str, words: str, page: str) -> _Advice:
    return _Advice(re.compile(source), re.compile(reason, re.IGNORECASE), words, page)


_ADVICES = (
    _advice(r"^slurm", r"not installed", "run `rerail collect slurm` where Slurm's commands are: a login or management "
            "node", "slurm.md"),
    _advice(r"^slurm", r"permission|denied|not authori[sz]ed", "let the collector's user see the jobs (PrivateData, "
            "an operator or the jobs' own user)", "slurm.md"),
    _advice(r"^slurm", r"", "run the command that is named by hand as the collector's user: `scontrol ping` tells "
            "whether slurmctld answers, `sacctmgr show cluster` whether slurmdbd does", "slurm.md"),
    _advice(r"^kubernetes", r"\b40[13]\b|forbidden|unauthori[sz]ed", "give the service account of the collector the "
            "rights that collectors/kubernetes.yaml lists", "kubernetes.md"),
    _advice(r"^kubernetes", r"\b404\b.*/apis/|/apis/.*\b404\b", "the API server does not serve this group or version: "
            "`kubectl api-resources` lists what it serves; batch/v1 needs Kubernetes 1.21, other kinds the operator "
            "that brings them, and the address must be that of the API server itself", "kubernetes.md"),
    _advice(r"^kubernetes", r"\b404\b", "something answers, and does not know what was asked for: look whether the "
            "address is that of the API server, and whether the namespace and its kinds are there", "kubernetes.md"),
    _advice(r"^kubernetes", r"", "look whether the API server can be reached from where the collector runs",
            "kubernetes.md"),
    _advice(r"^prometheus", r"\b40[13]\b|token|signed", "renew the token or the credentials that the collector is "
            "given", "prometheus.md"),
    _advice(r"^prometheus", r"no samples|not there", "the server answers and scrapes nothing of these: look at its "
            "targets, and at the labels that the collector asks for", "prometheus.md"),
    _advice(r"^prometheus", r"not Prometheus", "something else answers at this address: a login page, a proxy, or a "
            "path is missing", "prometheus.md"),
    _advice(r"^prometheus", r"", "look whether the server can be reached from where the collector runs",
            "prometheus.md"),
    _advice(r"^kernel", r"permi|denied", "let the agent read the kernel's messages: CAP_SYSLOG for /dev/kmsg, or the "
            "group `systemd-journal` for the journal", "prometheus.md"),
    _advice(r"^kernel", r"no date", "give lines that tell when they were: `dmesg -T`, `journalctl -k -o short-iso`",
            "prometheus.md"),
    _advice(r"^kernel", r"not installed|no such file", "choose another opening: /dev/kmsg, the journal, or a log file "
            "of the kernel's (`rerail collect kernel --help`)", "prometheus.md"),
    _advice(r"^(?:launcher|log of|flight recorder)", r"no such file", "give the path under which this node sees the "
            "file, or begin once the launcher has made it", "training_logs.md"),
    _advice(r"^(?:launcher|log of|flight recorder)", r"permi|denied", "let the agent's user read the file",
            "training_logs.md"),
    _advice(r"^(?:launcher|log of)", r"cannot be read", "the file holds bytes that are no text: look whether two "
            "processes write to it, or its disk is ill", "training_logs.md"),
    _advice(r"^recorder of", r"no space|disk|full", "make room where recorders write (RERAIL_DIR)",
            "reading.md"),
    _advice(r"^recorder of", r"permi|denied", "let ranks and agent share the folder where recorders write (RERAIL_DIR)",
            "reading.md"),
    _advice(r"^ring ", r"", "give recorder and agent one release of rerail and one user", "reading.md"),
    _advice(r"^agent", r"spool|disk", "make room on the disk under the spool of the agent (--dir)", "reading.md"),
)  # fmt: skip


def how_to_mend(source: str, reason: str | None) -> tuple[str, str] | None:
    """`(what to do, page of docs/)` for a source that cannot see; None where nothing is known that would help."""
    for each in _ADVICES:
        if each.source.search(source) and each.reason.search(reason or ""):
            return each.words, each.page
    return None
