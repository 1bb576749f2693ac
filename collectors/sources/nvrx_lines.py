"""NVRx lines: what the messages of ft_launcher, its rank monitors and the in-process wrapper say.

Checked against recorded logs of 0.4.1, 0.5.0, 0.6.0 and the 0.7 development tree. Traps, each with a test:

- `failure_detected` and `worker_terminated` carry the number of the *next* cycle: the counter is raised before the
  line is printed. `ENDING_EVENTS` names them.
- 0.4.1 prints no profiling events; its attempts are counted from `n/m attempts left`.
- A rank monitor names the global rank up to 0.5 and only the local rank from 0.6 on.
- In-process lines carry no iteration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ENDING_EVENTS = frozenset({"failure_detected", "worker_terminated"})

PROFILING = re.compile(
    r"- Cycle: (?P<cycle>\d{1,9}) Event: (?P<event>\w+) Node: (?P<node>\S+) Rank: (?P<rank>\d{1,9}|None) "
    r"Time: (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC"
)
MONITOR_TIMEOUT = re.compile(
    r"^(?:\[Cycle (?P<cycle>\d{1,9})\] )?(?P<text>Did not get (?:initial|subsequent) heartbeat\. "
    r"Waited [\d.]+ seconds\."
    r"|Section '[^']*' has been open for [\d.]+ seconds\. Timeout is [\d.]+ seconds\."
    r"|Was out of section for [\d.]+ seconds\. Timeout is [\d.]+ seconds\.)"
)
GROUP = re.compile(
    r"Worker group (?P<state>UNHEALTHY|FAILED)\. (?P<left>\d{1,6})/(?P<most>\d{1,6}) attempts left; "
    r"will restart worker group"
)
GROUP_SPENT = re.compile(
    r"Worker group (?:UNHEALTHY|FAILED)\. 0/(?P<most>[1-9]\d{0,5}) attempts left; will not restart worker group"
)
ANY_GROUP = re.compile(r"Worker group (?P<state>UNHEALTHY|FAILED)\b")
PEER = re.compile(r"Joining cluster restart \(group_rank=(?P<group>\d{1,6})\)")
JOINING = re.compile(r"The node '(?P<node>[^']*)' attempts to join the next round of the rendezvous '(?P<run>[^']*)'")
JOINED = re.compile(
    r"The node '(?P<node>[^']*)' has joined (?:round (?P<round>\d{1,9}) of )?the rendezvous '(?P<run>[^']*)' "
    r"as rank (?P<rank>\d{1,9}) in a world of size (?P<size>\d{1,9})"
)
ENTRYPOINT = "starting workers for entrypoint: "
STARTED_04 = "Environment variable 'TORCHELASTIC_ENABLE_FILE_TIMER'"
STOPPING = re.compile(r"^Stopping workers\.\.\.")
AGENT_OK = "Agent .run() is OK. No failures in the result."
AGENT_EXIT = re.compile(r"Agent(?:'s exit code = | exits with exit code = )(?P<code>-?\d{1,9})")
NO_RESTART = re.compile(r"must not be restarted(?: \((?P<why>[\w -]{1,60})\))?[^\n]{0,300}")
EARLY_END = re.compile(r"EARLY TERMINATION[^\n]{0,300}")
RANK_FAILURE = re.compile(
    r"(?P<rank>\d{1,9}): ProcessFailure\(local_rank=(?P<local>\d{1,9}), pid=(?P<pid>\d{1,10}), "
    r"exitcode=(?P<code>-?\d{1,9})"
)
NESTED = re.compile(
    r"\[NestedRestarter\] name=\[(?P<layer>InJob|InProcess)\] state=(?P<state>\w+)(?: stage=(?P<stage>\w+))?"
)
IN_PROCESS = re.compile(
    r"^(?:\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})\] )?rank=(?P<rank>\d{1,9}) "
    r"(?P<kind>init_ex|health_ex|fn_ex|async_ex|other_ex|term_ex|finalize_ex|restart_ex|exit_ex|terminate_ex"
    r"|completion_ex|abort_ex): (?P<said>.*)$"
)
MONITOR_INTERRUPTIONS = ("SOFT_TIMEOUT", "HARD_TIMEOUT", "UNRESPONSIVE")
CONFIG_BLOCK = "Starting elastic_operator with launch configs:"
CONFIG_LINE = re.compile(r"^\s{2}(?P<name>\w+)\s*: (?P<value>.*)$")

TELLING = re.compile(
    r"RankMonitorState\.ABORTED|could not send the heartbeat|WorkloadControlRequest|UnhealthyNode|EARLY TERMINATION"
    r"|made NO progress|must not be restarted|death signal|Section\(s\) .* were still open|AttrSvcResult"
    r"|NoRestartRequested|RendezvousTimeoutError|RendezvousClosedError"
)
"""Messages of NVRx that are evidence for a cause."""


@dataclass(frozen=True, slots=True)
class Profiling:
    """A profiling event, with the attempt it belongs to."""

    attempt: int
    event: str
    node: str
    group_rank: int | None
    time: str


def profiling(text: str) -> Profiling | None:
    """The profiling event on a line, its cycle corrected for the events that end one."""
    match = PROFILING.search(text)
    if match is None:
        return None
    cycle = int(match["cycle"]) - (1 if match["event"] in ENDING_EVENTS else 0)
    group = None if match["rank"] == "None" else int(match["rank"])
    return Profiling(max(0, cycle), match["event"], match["node"], group, match["time"])


def version(text: str, file: str) -> str | None:
    """The release family a line gives away."""
    if file == "ft_launcher":
        return "0.4"
    if "health_check_completed" in text:
        return "0.7"
    if file == "progress_tracker.py" or text.startswith("[Cycle "):
        return "0.6"
    return "0.5" if file == "_ft_rendezvous.py" else None
