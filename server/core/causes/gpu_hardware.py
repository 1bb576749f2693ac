"""A GPU failed: memory that cannot be corrected, a link that broke, or a device that is no longer there.

XIDs are read with NVIDIA's own catalogue (`xids.py`): 63 is an event and 154 a recommendation, both only support what
another line accuses; 45 is the consequence of another; 13, 31 and 43 are mostly the program's own doing and are read as
an exception of its own. A GPU can be lost without any XID.

What to do about an XID is what its maker says: of several of one node the action that goes farthest, and what the
driver itself recommends (154) beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core import cuda_errors
from rerail.server.core.cause_rules import Case, CauseRule, LinePattern, Match, Reading, Sign, Weight, from_sign, line
from rerail.server.core.facts import Evidence
from rerail.server.core.view import CausalRole, Domain
from rerail.server.core.wanted import Kind, Wanted
from rerail.server.core.xids import XidLine, code_of, xid, xids_in

SAYS = "{where}: a GPU failed ({words})."
NOT_READY_SAYS = "{where}: the GPUs were not ready for CUDA: their fabric was not set up ({words})."
NOT_READY_ADVICE = (
    "See that the fabric manager of that node runs and is of the driver's version (`nvidia-smi -q`, Fabric: State), "
    "then start again there; no GPU needs to be replaced."
)
ADVICE = {
    "IGNORE": "Nothing at once, says NVIDIA; where the same GPU fails again, take it out and ask the vendor's support.",
    "RESTART_APP": (
        "Restart the application: the driver kept the error within it, and the GPU serves on. Reset the GPU when the "
        "node is free, and replace it where this comes again."
    ),
    "CONTACT_SUPPORT": "Take the node out and contact the vendor's support with its log (`nvidia-bug-report.sh`).",
    "WORKFLOW_XID_48": (
        "Look which XID came with it: with 63 or 64 drain the node and reset the GPU, with 94 restart the application, "
        "with 95 reset the GPU. With none of them reset the GPU."
    ),
    "WORKFLOW_NVLINK_ERR": (
        "Drain the node and reset the GPU; where it comes again, test it and its peer on that link before either is "
        "replaced."
    ),
    "WORKFLOW_NVLINK5_ERR": (
        "Drain the node and reset the GPU where the line calls the error of the link fatal; where it comes again, look "
        "at the link and both its ends."
    ),
    "RESET_GPU": (
        "Drain the node and reset the GPU, then restart; until it is reset it fails again. Replace it where this comes "
        "again."
    ),
    "RESTART_VM": "Drain the node and restart its virtual machine; where the GPU is lost again, have it replaced.",
    "RESTART_BM": "Drain the node and reboot it; where the GPU is lost again, have it replaced.",
}
"""NVIDIA's immediate action as advice, the one that goes farthest last."""
FARTHEST = {words: place for place, words in enumerate(ADVICE.values())}
"""How far an advice goes beside the others."""
KERNEL = frozenset({"kernel", "dmesg", "journal", "dcgm"})
MISSING = (Wanted("the kernel log of the node (NVRM: Xid …), which names the GPU", Kind.KERNEL_LOG),)
APPLICATION = "user_exception"


def reads(evidence: Evidence) -> Reading | None:
    """The XID that counts most on a line."""
    if "Xid" not in evidence.text and code_of(evidence.code) is None:
        return None
    best: Reading | None = None
    for told in xids_in(evidence.text):
        reading = _reading(told)
        if best is None or _importance(reading) > _importance(best):
            best = reading
    stated = code_of(evidence.code)
    if best is None and stated is not None:
        best = _reading(XidLine(stated, "", None, None, ""))
    return best


def _reading(told: XidLine) -> Reading:
    known = xid(told.code)
    words = f"XID {told.code}, {known.meaning.rstrip('.')}" if known.mnemonic else f"XID {told.code}"
    traits = (("xid", str(told.code)),)
    if known.is_consequence:
        return Reading(RULE.name, CausalRole.CASCADE, words=words, traits=traits)
    if known.says_nothing_failed:
        return Reading(RULE.name, CausalRole.CONFIRMATION, words=words, traits=traits)
    if told.link is not None and told.link.is_fatal is False:
        return Reading(
            RULE.name, CausalRole.INITIATING, SAYS, f"{words}, not fatal", 0.5, Weight.ECHO, traits=traits,
            advice=ADVICE["IGNORE"],
        )  # fmt: skip
    if known.cause_class == APPLICATION:
        says = "{where} made its GPU fail, as programs do ({words})."
        return Reading(APPLICATION, CausalRole.INITIATING, says, words, 0.5, Weight.ECHO, traits=traits)
    confidence = 0.95 if known.cause_class in ("gpu_hw", "nvlink") else 0.6
    weight = Weight.ESTABLISHED if confidence > 0.9 else Weight.LINE
    return Reading(
        RULE.name, CausalRole.INITIATING, says=SAYS, words=words, traits=traits, confidence=confidence, weight=weight,
        advice=ADVICE.get(known.action or ""),
    )  # fmt: skip


def _importance(reading: Reading) -> tuple[bool, float]:
    return reading.role is CausalRole.INITIATING, reading.confidence


def match(case: Case) -> Match | None:
    """The earliest line that tells of a failed device; the exception around it is how the program met it."""
    signs = case.accusing(RULE.name)
    if not signs:
        return None
    heaviest = max(sign.reading.weight for sign in signs)
    first = next(sign for sign in signs if sign.reading.weight is heaviest)
    kernel = next((sign for sign in signs if sign.item.evidence.source in KERNEL), first)
    chosen = kernel if first.reading.weight is kernel.reading.weight else first
    found = from_sign(chosen, RULE, signs)
    rank = found.rank if found.rank is not None else next((sign.rank for sign in signs if sign.rank is not None), None)
    if rank is None:
        pids = (str(told.pid) for sign in signs for told in xids_in(sign.text) if told.pid is not None)
        rank = next((known for known in map(case.rank_of_process, pids) if known is not None), None)
    node = found.node or next((sign.node for sign in signs if sign.node), None)
    return Match(
        found.confidence, found.sentence, rank, node, first.at, found.initiating,
        MISSING,
        found.weight, found.traits,
        advice=_advice(case, chosen, signs),
        confirming=tuple(
            sign.item for sign in case.signs
            if sign.reading.cause == RULE.name and sign.reading.role is CausalRole.CONFIRMATION
        ),
    )  # fmt: skip


def _advice(case: Case, chosen: Sign, signs: Sequence[Sign]) -> str | None:
    """NVIDIA's action where XIDs accuse, with what the driver recommends; None for the rule's own advice."""
    advice = chosen.reading.advice
    if advice is None or advice not in FARTHEST:
        return advice
    told = [sign.reading.advice or "" for sign in signs if sign.node == chosen.node]
    advice = max([advice, *(each for each in told if each in FARTHEST)], key=lambda words: FARTHEST[words])
    recommended = [
        line.recovery.recommended
        for sign in case.signs
        if sign.node == chosen.node
        for line in xids_in(sign.text)
        if line.recovery is not None and line.recovery.recommended != "None"
    ]
    return f"{advice} The driver itself recommends: {recommended[-1]} (XID 154)." if recommended else advice


LINES: tuple[LinePattern, ...] = (
    line(
        r"uncorrectable (?:NVLink error|ECC error)[^\n]{0,40}"
        r"|double[- ]bit ECC[^\n]{0,60}",
        SAYS,
        confidence=0.95,
        weight=Weight.ESTABLISHED,
        unless=r"Xid \(",
    ),
    line(
        r"fallen off the bus|GPU is lost|GPU has been lost|GPU_IS_LOST"
        r"|Unable to determine the device handle for (?:GPU|gpu) ?[0-9A-Fa-f:.]{0,20}: [^\n]{0,40}"
        r"|cudaErrorECCUncorrectable|cudaErrorDevicesUnavailable|GPU requires reset"
        r"|ERROR_GPU_IS_LOST|CUDA_ERROR_ECC_UNCORRECTABLE|CUDA_ERROR_NVLINK_UNCORRECTABLE|RmInitAdapter failed"
        r"|DCGM_FR_(?:VOLATILE_DBE_DETECTED|FALLEN_OFF_BUS|UNCORRECTABLE_ROW_REMAP|ROW_REMAP_FAILURE|NVLINK_DOWN"
        r"|XID_ERROR|GPU_LOST|FABRIC_PROBE_STATE)[^\n]{0,120}",
        SAYS,
        confidence=0.95,
        weight=Weight.ESTABLISHED,
        unless=r"Xid \(",
    ),
    line(
        rf"{cuda_errors.pattern('fabric')}|cuda\w{{0,40}} returned 802\b|cudaErrorSystemNotReady"
        r"|CUDA_ERROR_SYSTEM_NOT_READY",
        NOT_READY_SAYS,
        confidence=0.9,
        weight=Weight.ESTABLISHED,
        advice=NOT_READY_ADVICE,
    ),
    line(
        rf"{cuda_errors.pattern('gpu_hardware')}|CUDA error: (?:unspecified NVLink error|uncorrectable[^\n]{{0,40}})",
        SAYS,
        confidence=0.9,
        weight=Weight.ESTABLISHED,
    ),
    line(
        r"\bGSP Timeout\b|_kgsp\w{0,40}TimedOut: [^\n]{0,40}",
        "{where}: the firmware of a GPU does not answer ({words}).",
        confidence=0.85,
        weight=Weight.ESTABLISHED,
        unless=r"Xid \(",
    ),
    line(
        r"HW Exception by GPU node-\d{1,4}[^\n]{0,80}|amdgpu[^\n]{0,60}GPU reset begin",
        SAYS,
        confidence=0.8,
    ),
    line(
        r"!!!! FATAL ERROR !!!! for \[/dev/accel\d{1,4}[^\n]{0,60}|SLICE_FAILURE_(?:CHIP|HARDWARE|HW)\w{0,40}",
        "{where}: a TPU failed ({words}).",
        confidence=0.9,
        weight=Weight.ESTABLISHED,
    ),
    line(
        r"HyperPod UnschedulablePending(?:Replacement|Reboot)[^\n]{0,200}(?:nvidia|gpu|xid|dcgm|neuron)[^\n]{0,200}",
        SAYS,
        confidence=0.9,
        weight=Weight.ESTABLISHED,
        sources=("kubernetes",),
    ),
    line(
        r"gres/gpu count reported lower than configured \(\d{1,4} < \d{1,4}\)",
        "Slurm finds fewer GPUs on the node than it is configured to have ({words}).",
        confidence=0.7,
        sources=("slurm",),
    ),
    line(
        r"row remap(?:ping|per)[^\n]{0,30}fail[^\n]{0,60}"
        r"|DBE[^\n]{0,40}count[^\n]{0,30}[1-9]|NVSwitch[^\n]{0,60}fatal[^\n]{0,60}"
        r"|SXid[^\n]{0,80}fatal[^\n]{0,60}",
        SAYS,
        confidence=0.9,
        weight=Weight.ESTABLISHED,
        unless=r"(?<!S)Xid \(PCI|non-?fatal",
    ),
    line(
        r"GPU health check[^\n]{0,30}fail[^\n]{0,120}"
        r"|UnhealthyNode[^\n]{0,120}(?:GPU|NVLink)[^\n]{0,80}"
        r"|unhealthy GPU[^\n]{0,80}"
        r"|\bdcgm\w{0,12}\b[^\n]{0,80}(?:health|diag)\w{0,8}\b[^\n]{0,40}\bfail(?:ed|ure)?\b[^\n]{0,120}"
        r"|Overall Health\s{0,4}\|\s{0,4}Failure",
        SAYS,
        confidence=0.8,
    ),
    line(
        r"HW (?:Thermal |Power Brake )?Slowdown\s{1,60}: Active|thermal (?:slowdown|violation)[^\n]{0,80}"
        r"|DCGM_FR_(?:CLOCK_THROTTLE|THERMAL)\w{0,30}[^\n]{0,80}|temperature above threshold[^\n]{0,60}"
        r"|pending (?:row remap|page retirement)[^\n]{0,60}",
        role=CausalRole.CONFIRMATION,
        unless=r"Not Active|: No\b|: 0\b|not (?:detected|present)",
    ),
)

RULE = CauseRule(
    name="gpu_hardware",
    domain=Domain.INFRASTRUCTURE,
    advice="Drain the node, reset or replace the GPU, and restart without it; the same GPU will fail again.",
    match=match,
    lines=LINES,
    order=10,
    reads=reads,
)
