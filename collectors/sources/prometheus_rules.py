"""Prometheus rules: which queries are asked, and which fact what they answer becomes.

Rules
- A rule is a query and a kind: `metric` (every value), `evidence` (a value changed, rose, or a series appeared) or
  `node_state` (a value stands for a condition of a machine).
- What a series is called stays the same while its identity does: labels that come and go with what runs on a GPU, or
  with the value itself (`err_code`), are no part of it.
- DCGM's XID gauge holds the last code and is no count: only a change is an event, and the same code twice in a row
  cannot be seen. Metrics that an exporter does not have give no series, and no fact.
- A file of rules adds to these, replaces those of the same name, and turns others off. What is wrong with it is refused
  with its field, its value and why, before anything is asked.

Metric names: dcgm-exporter 3.x and 4.x, node_exporter, kube-state-metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rerail.collectors.source import NotConfigured
from rerail.server.core.codec import FactError
from rerail.server.core.facts import NodeCondition

LARGEST_FILE = 1024 * 1024
MOST_RULES = 200
LONGEST_QUERY = 8000
NODE_LABELS = ("Hostname", "hostname", "node", "nodename", "kubernetes_node", "instance")
PASSING_LABELS = frozenset(
    {"err_code", "err_msg", "pod", "container", "namespace", "exported_pod", "exported_container", "exported_namespace",
     "DCGM_FI_DRIVER_VERSION", "pod_uid", "hpc_job"}
)  # fmt: skip
"""Of DCGM's series: they change while the GPU stays."""
REPLICA_LABELS = frozenset({"prometheus_replica", "replica", "__replica__"})


class When(StrEnum):
    """What of a series makes evidence."""

    CHANGES = "changes"
    """Its value is another than before, and not 0."""
    INCREASES = "increases"
    """It is a counter, and counted."""
    APPEARS = "appears"
    """It is there, and was not: for conditions such as `x > 0`."""


class Kind(StrEnum):
    """The fact that a rule states."""

    METRIC = "metric"
    EVIDENCE = "evidence"
    NODE_STATE = "node_state"


@dataclass(frozen=True, slots=True)
class Rule:
    """One query and what it becomes."""

    name: str
    query: str
    kind: Kind
    when: When = When.APPEARS
    step_seconds: int | None = None
    """Distance of the instants asked for; None: the source's own."""
    node_labels: tuple[str, ...] = NODE_LABELS
    """The first of them that a series has names its machine."""
    ignored_labels: frozenset[str] = REPLICA_LABELS
    source: str = "dcgm"
    """Of evidence: whose words they are."""
    code: str | None = None
    text: str = ""
    states: tuple[tuple[float, NodeCondition], ...] = ()


def _dcgm(
    name: str, query: str, when: When, text: str, code: str | None = None, source: str = "dcgm",
    step_seconds: int | None = None,
) -> Rule:  # fmt: skip
    return Rule(
        name, query, Kind.EVIDENCE, when, step_seconds, ignored_labels=REPLICA_LABELS | PASSING_LABELS, source=source,
        code=code or name, text=text,
    )  # fmt: skip


def _rises(name: str, metric: str, text: str) -> Rule:
    """Of every GPU there is one; once a minute is what a server of thousands of them can be asked."""
    words = f"{{gpu}}: {text}: {{increase}} more, {{value}} in all ({metric})"
    return _dcgm(name, metric, When.INCREASES, words, step_seconds=60)


def _average(name: str, metric: str) -> Rule:
    by = "Hostname, hostname, instance"
    return Rule(name, f"avg by ({by}) ({metric})", Kind.METRIC, step_seconds=60)


def _of_machine(query: str) -> str:
    """The query with the name that node_exporter tells of its machine, also while it is down; else without one."""
    names = "max by (instance, nodename) (last_over_time(node_uname_info[1h]))"
    return f"{query} * on (instance) group_left (nodename) {names} or on (instance) {query}"


def _latency(name: str, seconds: str, operations: str) -> Rule:
    """Of the slowest disk of a machine."""
    query = f"max by (instance) (rate({seconds}[5m]) / (rate({operations}[5m]) > 0))"
    return Rule(name, _of_machine(query), Kind.METRIC, step_seconds=60)


BUILT_IN: tuple[Rule, ...] = (
    _dcgm("xid", "DCGM_FI_DEV_XID_ERRORS", When.CHANGES, "{gpu}: XID {value} {err_msg}", "xid:{value}"),
    _rises("ecc_uncorrectable", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "uncorrectable ECC error"),
    _rises("ecc_corrected", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "memory errors that were corrected"),
    _rises("rows_remapped_uncorrectable", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "rows remapped for good"),
    _rises("rows_remapped_corrected", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "rows remapped as a precaution"),
    _dcgm("row_remap_failure", "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0", When.APPEARS,
          "{gpu}: row remapping failed (DCGM_FI_DEV_ROW_REMAP_FAILURE)"),
    _rises("nvlink_crc_flit", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "CRC errors of NVLink flits"),
    _rises("nvlink_crc_data", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "CRC errors of NVLink data"),
    _rises("nvlink_replay", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "replays of NVLink"),
    _rises("nvlink_recovery", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "recoveries of NVLink"),
    _rises("pcie_replay", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "replays of PCIe"),
    _rises("thermal_throttle", "DCGM_FI_DEV_THERMAL_VIOLATION", "clocks lowered by heat"),
    _rises("power_throttle", "DCGM_FI_DEV_POWER_VIOLATION", "clocks lowered by the power limit"),
    _dcgm("gpu_unseen", "DCGM_FI_DEV_GPU_TEMP offset 1m unless ignoring (pod, container, namespace) "
          "DCGM_FI_DEV_GPU_TEMP and on (instance) up == 1", When.APPEARS,
          "{gpu}: its exporter answers and shows it no longer"),
    _dcgm("exporter_down", "max by (instance, Hostname, hostname) (max_over_time(DCGM_FI_DEV_GPU_TEMP[1h] offset 1m)) "
          "and on (instance) up == 0", When.APPEARS, "the exporter {instance} cannot be scraped", source="prometheus"),
    Rule("node_exporter_up", _of_machine('up{job=~"node|.*node[-_]?exporter.*"}'), Kind.NODE_STATE,
         text="node_exporter at {instance}: up is {value}", source="prometheus",
         states=((1.0, NodeCondition.READY), (0.0, NodeCondition.NOT_READY))),
    Rule("kube_node_ready", 'sum by (node) (kube_node_status_condition{condition="Ready",status="true"} or '
         '2 * kube_node_status_condition{condition="Ready",status="unknown"})', Kind.NODE_STATE,
         text="the Ready condition of {node}", source="prometheus",
         states=((1.0, NodeCondition.READY), (0.0, NodeCondition.NOT_READY), (2.0, NodeCondition.LOST))),
    _average("gpu_sm_active", "DCGM_FI_PROF_SM_ACTIVE"),
    _average("gpu_sm_occupancy", "DCGM_FI_PROF_SM_OCCUPANCY"),
    _average("gpu_utilization_percent", "DCGM_FI_DEV_GPU_UTIL"),
    _latency("storage_read_latency_seconds", "node_disk_read_time_seconds_total", "node_disk_reads_completed_total"),
    _latency("storage_write_latency_seconds", "node_disk_write_time_seconds_total", "node_disk_writes_completed_total"),
    Rule("queue_pending_workloads", "sum(kueue_pending_workloads)", Kind.METRIC, step_seconds=60),
)  # fmt: skip

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_FIELDS = {
    "name", "query", "kind", "when", "step_seconds", "node_labels", "ignored_labels", "source", "code", "text",
    "states",
}  # fmt: skip


def load_rules(path: Path | None) -> tuple[Rule, ...]:
    """The rules that are asked: the built-in ones, and those of a file. Raises `NotConfigured`."""
    if path is None:
        return BUILT_IN
    try:
        import yaml
    except ImportError:
        raise NotConfigured("--map: a YAML reader is missing: pip install 'rerail[prometheus]'") from None
    try:
        content = path.read_bytes()[: LARGEST_FILE + 1]
    except OSError as error:
        raise NotConfigured(f"--map: {path}: {error.strerror}") from None
    if len(content) > LARGEST_FILE:
        raise NotConfigured(f"--map: {path} is larger than {LARGEST_FILE} bytes")
    try:
        told = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotConfigured(f"--map: {path} is no YAML: {' '.join(str(error).split())[:300]}") from None
    try:
        return rules_of(told)
    except FactError as error:
        raise NotConfigured(f"--map: {path}: {error.field}: {error.reason} (got {error.value[:200]!r})") from None


def rules_of(told: object) -> tuple[Rule, ...]:
    """The built-in rules with what a parsed file changes of them. Raises `FactError`, which names field and value."""
    whole = _mapping("file", told)
    _known("file", whole, {"rules", "without"})
    rules = {rule.name: rule for rule in BUILT_IN}
    for place, name in enumerate(_items("without", whole.get("without") or [])):
        if name != "all" and name not in rules:
            raise _wrong(f"without[{place}]", name, f"is none of the rules: all, {', '.join(rules)}")
    without = {str(name) for name in _items("without", whole.get("without") or [])}
    kept = {} if "all" in without else {name: rule for name, rule in rules.items() if name not in without}
    named: set[str] = set()
    for place, each in enumerate(_items("rules", whole.get("rules") or [])):
        rule = _rule(f"rules[{place}]", each)
        if rule.name in named:
            raise _wrong(f"rules[{place}].name", rule.name, "is the name of another rule of this file")
        named.add(rule.name)
        kept[rule.name] = rule
    if not kept:
        raise _wrong("rules", whole.get("rules"), "no rule is left")
    if len(kept) > MOST_RULES:
        raise _wrong("rules", len(kept), f"more than {MOST_RULES} rules")
    return tuple(kept.values())


def _rule(field: str, told: object) -> Rule:
    mapping = _mapping(field, told)
    _known(field, mapping, _FIELDS)
    for needed in ("name", "query", "kind"):
        if mapping.get(needed) is None:
            raise _wrong(f"{field}.{needed}", None, "is missing")
    name = _text(f"{field}.name", mapping["name"], 100)
    if not _NAME.fullmatch(name):
        raise _wrong(f"{field}.name", name, "is not of lower-case letters, digits and _")
    kind = Kind(_choice(f"{field}.kind", mapping["kind"], [each.value for each in Kind]))
    if kind is not Kind.EVIDENCE:
        for only in ("when", "code"):
            if only in mapping:
                raise _wrong(f"{field}.{only}", mapping[only], "is for kind: evidence only")
    states = _states(f"{field}.states", mapping.get("states"), kind)
    step = mapping.get("step_seconds")
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= 86_400):
        raise _wrong(f"{field}.step_seconds", step, "is not a whole number from 1 to 86400")
    nodes = _labels(f"{field}.node_labels", mapping.get("node_labels"))
    ignored = _labels(f"{field}.ignored_labels", mapping.get("ignored_labels"))
    return Rule(
        name,
        _text(f"{field}.query", mapping["query"], LONGEST_QUERY),
        kind,
        When(_choice(f"{field}.when", mapping.get("when", "appears"), [each.value for each in When])),
        step,
        NODE_LABELS if nodes is None else nodes,
        REPLICA_LABELS | frozenset(ignored or ()),
        _text(f"{field}.source", mapping.get("source", "prometheus"), 100),
        _text(f"{field}.code", mapping.get("code", name), 200) if kind is Kind.EVIDENCE else None,
        _text(f"{field}.text", mapping.get("text", f"{name}: {{value}} {{labels}}"), 2000),
        states,
    )


def _states(field: str, told: object, kind: Kind) -> tuple[tuple[float, NodeCondition], ...]:
    if kind is not Kind.NODE_STATE:
        if told is not None:
            raise _wrong(field, told, "is for kind: node_state only")
        return ()
    if told is None:
        raise _wrong(field, told, "is missing: which value is which state")
    states = []
    for value, state in _mapping(field, told).items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _wrong(field, value, "is not a number")
        chosen = _choice(f"{field}[{value}]", state, [each.value for each in NodeCondition])
        states.append((float(value), NodeCondition(chosen)))
    if not states:
        raise _wrong(field, told, "names no value")
    return tuple(states)


def _wrong(field: str, value: object, reason: str) -> FactError:
    return FactError(field, str(value)[:200], reason)


def _mapping(field: str, told: object) -> Mapping[object, object]:
    if not isinstance(told, dict):
        raise _wrong(field, told, "is not a mapping")
    return told


def _items(field: str, told: object) -> Sequence[object]:
    if not isinstance(told, list):
        raise _wrong(field, told, "is not a list")
    return told


def _known(field: str, told: Mapping[object, object], names: set[str]) -> None:
    for name in told:
        if name not in names:
            raise _wrong(field, name, f"is not one of {', '.join(sorted(names))}")


def _text(field: str, told: object, longest: int) -> str:
    if not isinstance(told, str) or not told.strip():
        raise _wrong(field, told, "is not a text")
    if len(told) > longest:
        raise _wrong(field, told, f"is longer than {longest} characters")
    return told.strip()


def _choice(field: str, told: object, choices: Sequence[str]) -> str:
    if not isinstance(told, str) or told not in choices:
        raise _wrong(field, told, f"is not one of {', '.join(choices)}")
    return told


def _labels(field: str, told: object) -> tuple[str, ...] | None:
    if told is None:
        return None
    words = [told] if isinstance(told, str) else _items(field, told)
    return tuple(_text(f"{field}[{place}]", word, 200) for place, word in enumerate(words))
