"""torchrun lines: what torchelastic's agent says, for the launcher it is and for the one NVRx built on it.

Rules
- Match on messages, never on file or line numbers: both move with every release.
- Only warnings and errors appear unless `LOGLEVEL=INFO`. Then an attempt is seen by its end alone.
- An exit line names the first rank that was reaped, which need not be the one at fault. Ranks that ended by SIGTERM
  were ended by the agent.
- The table of all failures is printed only when no restart is left.
- The exit line comes when every worker of the attempt is gone, and its output was passed on: what workers print behind
  it is of the next attempt.
"""

from __future__ import annotations

import re

EXIT = re.compile(r"failed \(exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<local>\d{1,9}) \(pid: (?P<pid>\d{1,10})\)")
CLOSING = re.compile(r"^Sending process \d+ closing signal SIG\w+")
RENDEZVOUS = re.compile(r"\[\w+\] Rendezvous'ing worker group")
GROUP_FAILED = re.compile(r"Local worker group finished \(WorkerState\.FAILED\)")
"""No restart is left: the agent waits for the others, and then ends."""
RENDEZVOUS_DONE = re.compile(r"\[\w+\] Rendezvous complete for workers")
STARTED = re.compile(r"\[\w+\] Starting worker group")
STOPPING = re.compile(r"\[\w+\] Stopping worker group")
RESULT = re.compile(
    r"^\s{2}(?P<name>restart_count|group_rank|group_world_size|global_ranks|global_world_sizes)=(?P<value>.*)$"
)
GROUP_SUCCEEDED = re.compile(
    r"worker group successfully finished|Local worker group finished \(WorkerState\.SUCCEEDED\)"
)
DONE = re.compile(r"Done waiting for other agents")
DEATH_SIGNAL = re.compile(r"Received (?P<signal>\d{1,3}|Signals\.\w+) death signal, shutting down workers")
INTERRUPTS = frozenset({"2", "SIGINT", "Signals.SIGINT"})
"""A person at a terminal sends them. SIGTERM and SIGHUP are sent by schedulers, services and machines too."""
CHILD_FAILED = re.compile(r"^(?:torch\.distributed\.elastic\.multiprocessing\.errors\.)?ChildFailedError")
ROOT_CAUSE = re.compile(r"^Root Cause \(first observed failure\):")
TABLE_TIME = re.compile(r"^\s+time\s+: (?P<day>\d{4}-\d\d-\d\d)_(?P<clock>\d\d:\d\d:\d\d)\s*$")
TABLE_HOST = re.compile(r"^\s+host\s+: (?P<host>[\w.-]{1,120})\s*$")
TABLE_RANK = re.compile(r"^\s+rank\s+: (?P<rank>\d{1,9}) \(local_rank: (?P<local>\d{1,9})\)")
TABLE_EXIT = re.compile(r"^\s+exitcode\s+: (?P<code>-?\d{1,9}) \(pid: (?P<pid>\d{1,10})\)")
TABLE_RAISED = re.compile(
    r"^ {2}(?P<last>(?P<type>[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Failure))(?:: .{0,4000})?)$"
)
"""The end of the traceback that a rank left in its error file."""
_EXIT_LINE = re.compile(rb"failed \(exitcode: -?\d{1,9}\) local_rank: \d{1,9} \(pid: \d{1,10}\)[^\n]*\n?")
_OF_THE_AGENT = re.compile(
    rb"\s|$|[IWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (?:site-packages/)?torch/|[*=-]{3}|Traceback"
    rb"|torch\.distributed\.|Failures:|Root Cause"
)
"""How lines begin that the agent prints, the first ones of the traceback it ends with among them."""
_ITS_OWN_END = (b"ChildFailedError", b"torch/distributed/run.py", b"/bin/torchrun", b"death signal")

NOT_TELLING = re.compile(
    r"^(?:pynvml\.NVML|\[train\]|# (?:CMD|ENV|EXIT)\b)|NVML Shared Library Not Found|libnvidia-ml\.so"
)
"""What a machine without GPUs prints at every start."""


def relaunched_behind(tail: bytes) -> bool:
    """Whether workers printed something behind the last exit line of a log, and torchrun said nothing there of its own
    end: then it launched them once more. `tail`: the last bytes of the log; all of them came behind the exit line where
    it is not in them."""
    behind = _EXIT_LINE.split(tail)[-1]
    if any(word in behind for word in _ITS_OWN_END):
        return False
    return any(not _OF_THE_AGENT.match(line) for line in behind.split(b"\n"))
