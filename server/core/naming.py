"""Naming: the rank, the node, the exception and the own frame that a piece of text names.

Rules
- Text comes from logs and is hostile: every repetition in a pattern here is bounded, and nothing is evaluated.
- A rank is named by who printed the line (`[rank3]:`, `3: `, `rank=3`), or by the line about itself (`Rank 3: …`,
  `[PG ID 0 … Rank 3]`). Numbers that are merely near the word are not a name: `world size 8, rank of tensor 3`.
- An exception is the last line of a traceback: a dotted name, then nothing or `: ` and words.
- An own frame is the innermost one that is neither the interpreter's library nor an installed package: where a person
  would look first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_RANK_DIGITS = 7

_PRINTER = re.compile(
    r"^\s{0,8}(?:\[[A-Za-z_]{1,40}(\d{1,7})\]:\s?)?\[rank(\d{1,7})\]:?|^(\d{1,7}): |(?m:^)\[rank(\d{1,7})\]:"
)
_SELF = re.compile(
    r"\bPG [^\]\n]{0,160}?Rank (\d{1,7})\]|\[Rank (\d{1,7})\]|^\s{0,4}\[?Rank[ =:](\d{1,7})\b|\brank=(\d{1,7})\b"
    r"|^(?:\w{1,80}(?:Error|Exception): )Rank (\d{1,7})[,:]|\bglobal_rank[=: ]{1,2}(\d{1,7})\b"
    r"|^rank (\d{1,7}) EXC\b|^(\d{1,7}) EXC\b"
    r"|\bRank (\d{1,7}), node [\w.-]{1,120}, device \d{1,4}\b|\bnode [\w.-]{1,120}, device \d{1,4}, rank (\d{1,7})\b"
    r"|\bUnexpected result \S{1,40} on rank (\d{1,7})\b",
    re.IGNORECASE,
)
_NODE = re.compile(
    r"\bnode name: ([A-Za-z0-9][\w.:-]{0,120})|\bnode: ?([A-Za-z0-9][\w.-]{0,120})"
    r"|\bNode failure on ([A-Za-z0-9][\w.-]{0,120})"
    r"|\bnode ([A-Za-z0-9][\w.-]{0,120}),|(?:^|\s)node/([A-Za-z0-9][\w.-]{0,250})(?=\s|$)"
    r"|\bOwner Ip address: ([\d.]{7,40}) |\bmemory on node ([A-Za-z0-9][\w.-]{0,120}) is used"
    r"|\bat node \(ID: [0-9a-f]{1,64}, IP: ([\d.]{7,40})\)|\bthe node \(IP: ([\d.]{7,40}),"
    r"|\bnode ([A-Za-z][\w-]{0,60}\d[\w.-]{0,60})\b"
    r"|\bsrun: error: ([A-Za-z0-9][\w.-]{0,120}): tasks? |\bon node ([A-Za-z0-9][\w.-]{0,120}) exited"
    r"|\bNodes? ([A-Za-z0-9][\w.\[\],-]{0,120}) not responding"
)
_SYSLOG = re.compile(
    r"^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,+Z-]{8,30})"
    r" ([\w.-]{1,120}) kernel:"
)
_NCCL = re.compile(
    r"(?:^|[\s:\]])(?P<node>[A-Za-z0-9][\w.-]{0,120}):\d{1,10}:\d{1,10} \[(?:-1|(?P<device>\d{1,4}))\] "
    r"(?:\S{1,200} )?NCCL "
)
"""How NCCL begins its lines: machine, process, thread, and the GPU by its number on that machine."""
_PREFIX = re.compile(r"^(?:> {0,2}){0,3}(?:\[[A-Za-z_]{1,40}\d{1,7}\]:)?(?:\[rank\d{1,7}\]: ?){0,4}(?:\d{1,7}: )?")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]{0,200})(?::(?: |$)([^\n]{0,4000})|\s{0,8}$)")
_CALLED = re.compile(r"\brank=\d{1,7} (?:fn_ex|exit_ex|other_ex|init_ex): ([A-Za-z_]\w{0,100})\(([^\n]{0,4000})")
_PRINTED = re.compile(r"\bEXC ([A-Za-z_][\w.]{0,100}(?:Error|Exception))[: ]([^\n]{0,2000})")
_REPORTED = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Uncaught|Unhandled|failed|crashed|aborted)\b[^\n]{0,120}?"
    r"\b([A-Z]\w{0,80}(?:Error|Exception)): ([^\n]{0,400})"
)
_SUFFIXES = ("Error", "Exception", "Exit", "Interrupt", "Failure", "Fault", "Timeout", "Abort")
_FRAME = re.compile(r'File "([^"\n]{1,400})", line \d{1,9}, in ([^\s\n]{1,200})')
_FOREIGN = (
    "site-packages/",
    "dist-packages/",
    "/lib/python3",
    "<frozen ",
    "<string>",
    "/nvidia_resiliency_ext/",
    "/torch/",
)


@dataclass(frozen=True, slots=True)
class ExceptionNamed:
    """The last line of a traceback."""

    type: str
    """Without its module."""
    message: str
    full_type: str


def rank_in(text: str) -> int | None:
    """The rank a text names, or None."""
    found = _PRINTER.search(text[:300])
    if found is not None:
        return int(found.group(2) or found.group(3) or found.group(4))
    found = _SELF.search(text[:4000])
    if found is None:
        return None
    return int(next(group for group in found.groups() if group is not None))


def node_in(text: str) -> str | None:
    """The machine a text names, or None."""
    head = text[:2000]
    if "NCCL " in head and (spoke := _NCCL.search(head)):
        return spoke["node"]
    if "ode" not in head and "srun" not in head and " kernel:" not in head and "Owner Ip" not in head:
        return None
    found = _SYSLOG.match(head) or _NODE.search(head)
    if found is None:
        return None
    return next(group for group in found.groups() if group is not None).rstrip(".,")


def device_in(text: str) -> int | None:
    """The number of the GPU on its machine that a line of NCCL is about, or None."""
    found = _NCCL.search(text[:2000]) if "NCCL " in text[:2000] else None
    return int(found["device"]) if found is not None and found["device"] else None


def exception_in(text: str, code: str | None = None) -> ExceptionNamed | None:
    """The exception a text ends with, or None. `code` is its type where a reader has seen the whole traceback."""
    called = _CALLED.search(text) or _PRINTED.search(text[:4000])
    if called is not None:
        return _named(called.group(1), called.group(2).rstrip(")").strip("'\" "))
    for line in reversed(text[-8000:].splitlines()[-60:]):
        found = _EXCEPTION.match(_PREFIX.sub("", line, count=1).strip())
        if found is None:
            continue
        named = _named(found.group(1), (found.group(2) or "").strip())
        if named.type.endswith(_SUFFIXES) or (code is not None and named.type == code):
            return named
    return None


def reported_in(text: str) -> ExceptionNamed | None:
    """The exception that a line of a log reports in its midst (`ERROR - training failed: ValueError: x`), or None."""
    found = _REPORTED.search(text[:4000])
    return None if found is None else _named(found.group(1), found.group(2).strip())


def _named(full: str, message: str) -> ExceptionNamed:
    return ExceptionNamed(full.rpartition(".")[2], message, full)


def own_frame(text: str) -> str | None:
    """`file:function` of the innermost frame of a traceback that is the user's own, or None."""
    own = None
    for found in _FRAME.finditer(text):
        path, function = found.groups()
        if not any(part in path for part in _FOREIGN):
            own = frame_name(path, function)
    return own


def frame_name(path: str, function: str) -> str:
    """A frame as `file:function`: without folders, which differ from machine to machine, and without a line number."""
    return f"{path.replace(chr(92), '/').rpartition('/')[2][:120]}:{function[:120]}"


def is_foreign(path: str) -> bool:
    """A file of the interpreter's library or of an installed package."""
    return any(part in path for part in _FOREIGN)


def without_numbers(text: str) -> str:
    """A text with every number, address and quoted path made the same: what stays from one time to the next."""
    text = re.sub(r"0x[0-9a-fA-F]{2,16}", "#", text[:600])
    text = re.sub(r"(?<![\w.])/[\w./-]{1,200}", "/…", text)
    return re.sub(r"\d{1,40}", "#", text)
