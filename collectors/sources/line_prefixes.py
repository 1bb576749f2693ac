"""Line prefixes: who passed a line on, taken off from the outside in.

    2026-11-29T12:00:00.0Z         a container's runtime, with `stderr F` or without; `[pod/…] ` and `name | ` before it
    Nov 29 12:00:00 n5 job[12]:    syslog and journalctl; kernels' lines have a grammar of their own
    2026-11-29T12:00:00 n5:        whoever stamps lines and names their node
    worker-3:                      pdsh, clush and launchers that reach nodes by ssh
    llama-worker-0 pytorch         stern: a pod and its container
    <n0> <p1>                      a test rig that merges several nodes or processes
    3:                             srun --label, and NVRx's log of one cycle: the global rank
    [1,12]<stderr>:                mpirun --tag-output: the job and the global rank
    [default1]:                    torchrun --tee: the role and the local rank
    [gpu-d05:rank33]               wrappers that name the machine and the global rank
    (Worker pid=1)                 Ray

Rules
- Each kind is taken off once, in whatever order they come.
- A name before a colon, two words in front, or a stamp without a zone may as well be the line's own. They are taken off
  where a rank, a traceback or another prefix follows; from then on also before every other line (`Labels`), since the
  rest of a traceback looks like anything.
- Nothing here raises on any bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_LABELS = 20_000
_LONGEST_HEAD = 400

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_CONTAINER = re.compile(
    r"^(?P<label>\[pod/[\w./-]{1,200}\] |[A-Za-z][\w./-]{0,80} {1,20}\| )?"
    r"(?:(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?P<zone>Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?)?"
)
_SYSLOG = re.compile(
    rf"^(?:<\d{{1,3}}>)?(?:(?P<short>[A-Z][a-z]{{2}} {{1,2}}\d{{1,2}} \d\d:\d\d:\d\d)|(?P<iso>{_STAMP})"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?) (?P<host>[\w.-]{1,120}) (?!kernel|slurm|kube|systemd|containerd|dockerd)"
    r"[\w./@-]{1,120}\[\d{1,10}\]: "
)
_RIG = re.compile(r"^<[np]\d+> ")
_RANK = re.compile(r"^(?P<rank>\d{1,7}): ")
_RAY = re.compile(r"^\((?:[\w.-]{1,80} )?pid=\d+[^)]{0,200}\) ")
_ROLE = re.compile(r"^\[(?!rank\d)(?P<role>[A-Za-z_]\w{0,80}?)(?P<local>\d{1,7})\]:")
_MPI = re.compile(
    r"^(?:[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4} ?)?"
    r"\[(?:[\w.@-]{1,120}@)?\d{1,7},(?P<rank>\d{1,7})\]<std(?:out|err|diag)>: ?"
)
_HOST_AND_RANK = re.compile(
    r"^\[(?P<host>[A-Za-z][\w.-]{0,120})[:, |/] ?(?:[Gg]lobal_?)?[Rr]ank[ =:]?(?P<rank>\d{1,7})\]:? ?"
)
_STAMPED = re.compile(rf"^\[?(?P<stamp>{_STAMP})(?P<zone>Z|[+-]\d\d:?\d\d)?\]? ")
_HOST = re.compile(r"^(?P<host>(?:\d{1,3}\.){3}\d{1,3}|[A-Za-z](?=[\w.-]*[\d-])[\w-]{0,62}(?:\.[\w-]{1,62}){0,8}): ?")
_HOST_ALONE = re.compile(r"^(?P<host>[A-Za-z](?=[\w.-]*[\d-])[\w.-]{0,120}) ")
"""A machine behind a stamp, without a colon."""
_STERN = re.compile(
    r"^(?P<label>(?:[a-z0-9][a-z0-9-]{0,62} )?[a-z0-9][a-z0-9.]{0,62}-[a-z0-9.-]{1,190} [a-z0-9-]{1,63}) "
)
_NO_HOST = re.compile(
    r"^(?:step|epoch|iter|iteration|rank|local|layer|gpu|cuda|mlx|ib|eth|ens|enp|bond|batch|shard|loss|lr|attempt|cycle"
    r"|stage|phase|task|try|part|chunk|block|expert|head|group|device|v)[_-]?\d|(?:Error|Exception|Warning)$",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r"\[rank\d{1,7}\]:|\[[A-Za-z_]\w{0,80}?\d{1,7}\]:|Traceback \(most recent call last\)|\[\d{1,7},\d{1,7}\]<std"
    r"|[EWIFC]\d{4} \d\d:\d\d:\d\d|\[[EWIF]\d{3,4} \d\d:\d\d:\d\d|\{\"|[\w.-]{1,120}:\d{1,9}:\d{1,9} \[\d{1,4}\] "
)
"""What shows that the words before it belong to who passed the line on."""


@dataclass(slots=True)
class Labels:
    """Prefixes of one log that were seen before something that shows what they are."""

    known: set[str] = field(default_factory=set)

    def add(self, label: str) -> None:
        """Take a label; the number of them is bounded."""
        if len(self.known) < MOST_LABELS:
            self.known.add(label)


@dataclass(slots=True)
class PassedOn:
    """A line without the prefixes of those who passed it on, and what they said of it."""

    text: str
    stamp: str | None = None
    """As written, `2026-11-29 12:00:00.5`, or `Nov 29 12:00:00` with `is_short`."""
    zone: str | None = None
    is_short: bool = False
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    stream: str = ""
    """All of them but stamps: lines of one stream follow each other."""


def passed_on(text: str, labels: Labels) -> PassedOn:
    """Take off the prefixes of a line."""
    told = PassedOn(text)
    if text[:1] in " \t" or not text:
        return told
    seen: set[str] = set()
    while len(seen) < 8 and (kind := _one(told, labels, seen)):
        seen.add(kind)
    return told


def _one(told: PassedOn, labels: Labels, seen: set[str]) -> str | None:
    """Take off one prefix; its kind, or None where there is none."""
    text = told.text
    first = text[:1]
    if first == "[":
        if "role" not in seen and (match := _ROLE.match(text)):
            told.local_rank = _number(match["local"])
            return _taken(told, match, "role")
        if "mpi" not in seen and (match := _MPI.match(text)):
            told.rank = _number(match["rank"])
            return _taken(told, match, "mpi")
        if "rank" not in seen and (match := _HOST_AND_RANK.match(text)) and _is_host(match["host"]):
            told.rank, told.host = _number(match["rank"]), match["host"]
            return _taken(told, match, "rank")
    elif first == "<" and (match := _RIG.match(text)):
        return _taken(told, match, f"rig {first}{text[1:2]}")
    elif first == "(" and "ray" not in seen and (match := _RAY.match(text)):
        return _taken(told, match, "ray")
    elif first.isdigit() and "rank" not in seen and (match := _RANK.match(text)):
        told.rank = _number(match["rank"])
        return _taken(told, match, "rank")
    elif first.isupper() and "<std" in text[:200] and "mpi" not in seen and (match := _MPI.match(text)):
        told.rank = _number(match["rank"])
        return _taken(told, match, "mpi")
    return _stamped(told, labels, seen) or _labelled(told, labels, seen)


def _stamped(told: PassedOn, labels: Labels, seen: set[str]) -> str | None:
    text = told.text
    if "stamp" in seen or "kernel: " in text[:_LONGEST_HEAD]:
        return None
    match = _CONTAINER.match(text)
    if match is not None and match.end():
        if match["stamp"]:
            told.stamp, told.zone = match["stamp"].replace("T", " "), match["zone"]
        told.stream += (match["label"] or "").strip()
        told.text = text[match.end() :]
        return "stamp" if match["stamp"] else "container"
    if "]: " in text[:_LONGEST_HEAD] and (match := _SYSLOG.match(text)):
        told.stamp, told.zone = match["short"] or match["iso"].replace("T", " "), match["zone"]
        told.is_short = bool(match["short"])
        told.host = match["host"]
        return _taken(told, match, "stamp")
    if match := _STAMPED.match(text):
        behind = text[match.end() : match.end() + _LONGEST_HEAD]
        host = _HOST.match(behind)
        is_host = host is not None and _is_host(host["host"]) and (
            host["host"] in labels.known or _FOLLOWS.match(behind, host.end()) is not None
        )  # fmt: skip
        if is_host or _FOLLOWS.match(behind) or ("stamped" in labels.known and behind[:2] == "  "):
            labels.add("stamped")
            told.stamp, told.zone = match["stamp"].replace("T", " "), match["zone"]
            told.text = text[match.end() :]
            return "stamp"
        if "stamped" in labels.known and _is_end_of_traceback(behind):
            told.stamp, told.zone = match["stamp"].replace("T", " "), match["zone"]
            told.text = text[match.end() :]
            return "stamp"
    return None


def _labelled(told: PassedOn, labels: Labels, seen: set[str]) -> str | None:
    text = told.text
    if "host" not in seen and (match := _HOST.match(text[:_LONGEST_HEAD])):
        host = match["host"]
        if _is_host(host) and (host in labels.known or _FOLLOWS.match(text, match.end()) is not None):
            labels.add(host)
            told.host = host
            return _taken(told, match, "host")
    if "stamp" in seen and not {"host", "pod"} & seen and (match := _HOST_ALONE.match(text[:_LONGEST_HEAD])):
        host = match["host"]
        if _is_host(host) and (f"{host} " in labels.known or _FOLLOWS.match(text, match.end()) is not None):
            labels.add(f"{host} ")
            told.host = host
            return _taken(told, match, "host")
    match = None if "pod" in seen else _STERN.match(text[:_LONGEST_HEAD])
    if match is not None and (match["label"] in labels.known or _FOLLOWS.match(text, match.end()) is not None):
        labels.add(match["label"])
        return _taken(told, match, "pod")
    return None


_ENDS = re.compile(r"^[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout)(?::|$)")


def _is_end_of_traceback(behind: str) -> bool:
    return _ENDS.match(behind) is not None


def _is_host(host: str) -> bool:
    return _NO_HOST.search(host) is None


def _taken(told: PassedOn, match: re.Match[str], kind: str) -> str:
    if kind == "mpi":
        told.stream += f"[{told.rank}]<std>"
    elif kind != "stamp":
        told.stream += match.group()
    elif told.host:
        told.stream += told.host + " "
    told.text = told.text[match.end() :]
    return kind


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
