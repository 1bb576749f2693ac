"""XIDs: what NVIDIA's driver says of a GPU, and what its maker says to do about it.

Rules
- The catalogue is NVIDIA's own (`xid_catalogue.py`): meaning, immediate action, what to look into afterwards; the cause
  class is ours. 63 is an *event* (a row was remapped, nothing failed), 64 is the failure, 79 fell off the bus, 45 is
  the consequence of another one.
- A kernel line is understood wherever it stands in a text, whatever stands before it: time stamps, host names, JSON.
- 154 is the driver's own recommendation and is decoded. NVLink's 74 and 144–150 say in words whether they are fatal;
  one that does not say so is neither.
- A code that is not in the catalogue is still a code: everything about it is unknown, the number is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rerail.server.core.xid_catalogue import CATALOGUE

CODE_PREFIX = "xid:"
"""Evidence with the code `xid:79` tells of XID 79."""


@dataclass(frozen=True, slots=True)
class Xid:
    """What is known of one code."""

    code: int
    mnemonic: str
    """NVIDIA's name; empty for a code that is not in the catalogue."""
    meaning: str
    """NVIDIA's description. `Unused` says that current drivers do not report it."""
    action: str | None
    """NVIDIA's immediate action, verbatim (`RESET_GPU`); None where none is published."""
    investigatory_action: str | None
    """What NVIDIA says to look into afterwards, verbatim."""
    group: str
    """What it is about: `gpu_memory`, `nvlink5`, `engine`, …; `unused`, or `unknown`."""
    cause_class: str
    """Ours: `gpu_hw`, `nvlink`, `user_exception`, `informational`, `ignore`, `cascade`, `hint`, `unknown`."""

    @property
    def is_consequence(self) -> bool:
        """It follows another XID and is never the cause."""
        return self.cause_class == "cascade"

    @property
    def says_nothing_failed(self) -> bool:
        """By itself it ends no training: a record, a hint, or something to ignore."""
        return self.cause_class in ("informational", "ignore", "hint")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What XID 154 says: the recovery that the driver recommends from now on."""

    previous: str
    recommended: str


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What an NVLink XID says of a link."""

    unit: str | None
    """The part of the link that reports: `RLW_RXPIPE`; None for XID 74."""
    is_fatal: bool | None
    """None where the line does not say."""
    links: tuple[int, ...]
    sub_code: int | None
    """Bits 20–25 of the first word, by which NVIDIA's tables tell what happened."""


@dataclass(frozen=True, slots=True)
class XidLine:
    """One XID as the kernel log told it."""

    code: int
    pci: str
    """`0000:91:00`; which rank used that GPU is not known here."""
    pid: int | None
    process: str | None
    text: str
    recovery: Recovery | None = None
    link: LinkReport | None = None

    @property
    def xid(self) -> Xid:
        """What the catalogue says of its code."""
        return xid(self.code)


ACTIONS = {
    "CHECK_MECHANICALS": "check power and cables",
    "CHECK_UVM": "look at the memory driver's report that comes with it",
    "CONTACT_SUPPORT": "contact the vendor's support",
    "IGNORE": "nothing to do",
    "RESET_GPU": "reset the GPU",
    "RESTART_APP": "restart the application",
    "RESTART_BM": "reboot the node",
    "RESTART_VM": "restart the virtual machine",
    "UPDATE_SWFW": "update driver and firmware",
    "WORKFLOW_NVLINK5_ERR": "decode what the line says of the link; a fatal one needs a reset of the GPU",
    "WORKFLOW_NVLINK_ERR": "reset the GPU; where it comes again, test it and its peer on that link",
    "WORKFLOW_XID_45": "follow the XID that came with it",
    "WORKFLOW_XID_48": "with 63 or 64 drain and reset the GPU, with 94 restart the application, with 95 reset the GPU",
    "XID_154": "do what the line recommends",
}
"""NVIDIA's immediate actions in words."""

RECOVERIES = {0: "None", 1: "GPU Reset Required", 2: "Node Reboot Required", 3: "Drain P2P", 4: "Drain and Reset"}
"""The driver's recovery actions by number, for lines that do not spell them out."""

_LINE = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,20})\): {0,4}(\d{1,4})(?!\d)(?:, {0,4}([^\r\n]{0,2000}))?")
_FIELD = re.compile(r"(pid|name)=([^,]{0,200})(?:, {0,4}|$)")
_RECOVERY = re.compile(
    r"changed from (0x[0-9A-Fa-f]{1,8})(?: \(([^)]{1,80})\))? to (0x[0-9A-Fa-f]{1,8})(?: \(([^)]{1,80})\))?"
)
_LINK = re.compile(r"(?i)\blinks? (-?\d{1,3})\b")
_LINK_XIDS = frozenset({74, *range(144, 151)})
_UNIT = re.compile(r"^([A-Z][A-Z0-9_]{1,40}) (?:Non-?fatal|Fatal)\b", re.IGNORECASE)
_WORD = re.compile(r"\((0x[0-9A-Fa-f]{1,8})")
_SEVERITY = re.compile(r"\b(non-?fatal|fatal)\b", re.IGNORECASE)

_XIDS = {row[0]: Xid(row[0], row[1], row[2], row[3] or None, row[4] or None, row[5], row[6]) for row in CATALOGUE}


def xid(code: int) -> Xid:
    """What is known of a code; one that is not in the catalogue has an empty mnemonic."""
    known = _XIDS.get(code)
    return known or Xid(code, "", "Not in the catalogue", None, None, "unknown", "unknown")


def known_codes() -> tuple[int, ...]:
    """Every code of the catalogue, in order."""
    return tuple(_XIDS)


def xids_in(text: str) -> Iterator[XidLine]:
    """Every XID that a text tells of, in the order of the text."""
    if "Xid (" not in text:
        return
    for found in _LINE.finditer(text):
        pci, code, rest = found.group(1), int(found.group(2)), found.group(3) or ""
        pid, process = None, None
        while field := _FIELD.match(rest):
            name, value = field.groups()
            value = value.strip("'\" ")
            if name == "pid" and value.isdecimal():
                pid = int(value)
            elif name == "name" and value and value != "<unknown>":
                process = value
            rest = rest[field.end() :]
        recovery = _recovery(rest) if code == 154 else None
        link = _link(rest) if code in _LINK_XIDS else None
        yield XidLine(code, pci, pid, process, rest.strip(), recovery, link)


def _recovery(text: str) -> Recovery | None:
    found = _RECOVERY.search(text)
    if found is None:
        return None
    before, before_name, after, after_name = found.groups()
    return Recovery(
        before_name or RECOVERIES.get(int(before, 16), before), after_name or RECOVERIES.get(int(after, 16), after)
    )


def _link(text: str) -> LinkReport:
    severity = _SEVERITY.search(text)
    unit = _UNIT.match(text)
    word = _WORD.search(text)
    links = sorted({number for number in map(int, _LINK.findall(text)) if number >= 0})
    return LinkReport(
        unit=unit.group(1) if unit else None,
        is_fatal=None if severity is None else severity.group(1).lower() == "fatal",
        links=tuple(links),
        sub_code=(int(word.group(1), 16) >> 20) & 0x3F if word and unit else None,
    )


def code_of(code: str | None) -> int | None:
    """The XID that evidence with this code tells of, or None: `xid:79` is 79."""
    if code is None or not code.lower().startswith(CODE_PREFIX):
        return None
    number = code[len(CODE_PREFIX) :].strip()
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= 4 else None


def official_meaning(text: str, code: str | None = None) -> str | None:
    """What NVIDIA says of the XIDs that a piece of evidence tells of and what to do; None where it tells of none."""
    lines = list(xids_in(text))
    told = [_sentence(line.xid, line) for line in lines]
    stated = code_of(code)
    if stated is not None and stated not in {line.code for line in lines}:
        told.append(_sentence(xid(stated), None))
    return " ".join(dict.fromkeys(told)) or None


def _sentence(known: Xid, line: XidLine | None) -> str:
    if not known.mnemonic:
        return f"XID {known.code} is not in the catalogue of this version."
    if known.meaning == "Unused":
        words = f"XID {known.code} ({known.mnemonic}): not used by current drivers."
    else:
        words = f"XID {known.code}: {known.meaning.rstrip('.')}."
    if line is not None and line.recovery is not None:
        return f"{words} The driver now recommends: {line.recovery.recommended}."
    if line is not None and line.link is not None and line.link.is_fatal is not None:
        links = ", ".join(str(number) for number in line.link.links)
        words += f" {'Fatal' if line.link.is_fatal else 'Not fatal'}{f', link {links}' if links else ''}."
    if known.action is None:
        return f"{words} NVIDIA publishes no action for it."
    return f"{words} NVIDIA's action: {ACTIONS.get(known.action, known.action)} ({known.action})."
