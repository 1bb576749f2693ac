"""How often the verdict is right: class, domain and rank over recorded failures whose truth is known.

    python bench/verdicts.py [--wrong]

The failures are real runs of NVRx's ft_launcher and in-process wrapper (three versions) and of torchrun, in
`tests/corpus/verdicts`, with the fault that was injected in `tests/corpus/verdicts.json`; and single lines of public
logs in `tests/corpus/log_lines.tsv`; excerpts of public logs in `tests/corpus/public_failures.jsonl`; and whole logs in
`tests/corpus/whole_logs.jsonl`, written to hold what a run survived or what is told of others. Beside ours stands what
NVRx's own restart agent (0.7 development tree, deterministic mode) answered for some of them, as recorded in
`tests/corpus/restart_agent.json`.

A rank counts as right where the truth names one and the verdict names it; naming none is *silent*, another is *wrong*.
Where the truth names none, naming one is wrong.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from rerail.collectors.sources.run_files import read_run_files
from rerail.server.commands.classifying import Interruption, interruptions
from rerail.server.core.causes import reading_of
from rerail.server.core.facts import Evidence

CORPUS = Path(__file__).parent.parent / "tests" / "corpus"
AGENT_CLASSES = {
    "observed_exception": "user_exception",
    "cuda_oom": "gpu_oom",
    "linux_oom_kill_confirmation": "host_oom",
}
LINE_CLASSES = {
    "collective_timeout_gloo": "hang", "config": "configuration", "desync": "collective_mismatch",
    "gpu_hw": "gpu_hardware", "gpu_hw_info": "gpu_hardware", "heartbeat_timeout": "hang", "nan": "loss_anomaly",
    "nccl_remote": "nccl_error network", "nvlink": "gpu_hardware", "oom_gpu": "gpu_oom", "oom_host": "host_oom",
    "rendezvous_timeout": "rendezvous", "segv": "crash", "sigkill_unknown": "sigkill",
    "storage": "checkpoint_io checkpoint_corrupt", "straggler_or_hang": "hang", "teardown": "sigterm",
}  # fmt: skip
"""Class names of the collection → ours."""
LINE_ROLES = {
    "root": "initiating", "cascade": "cascade", "teardown": "teardown", "confirmation": "confirmation",
    "detail": "confirmation informational initiating", "hint": "confirmation informational",
    "lifecycle": "initiating confirmation", "restart_failure": "initiating",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """One failure with its truth and what was said of it."""

    name: str
    kind: str
    cause: str
    """The first of the classes that count as right."""
    said: str
    is_class_right: bool
    is_domain_right: bool
    rank: int | None
    said_rank: int | None

    @property
    def rank_is(self) -> str:
        """right, silent or wrong."""
        if self.rank == self.said_rank:
            return "right"
        return "silent" if self.said_rank is None else "wrong"


def _allowed(told: str | list[str]) -> list[str]:
    return [told] if isinstance(told, str) else told


def outcomes() -> tuple[list[Outcome], list[str]]:
    """Every known failure; and the runs without a fault in which one was seen all the same."""
    found: list[Outcome] = []
    false_alarms = []
    for entry in json.loads((CORPUS / "verdicts.json").read_text()):
        beside = [str(path) for pattern in entry.get("with", ()) for path in sorted(CORPUS.glob(pattern))]
        files = read_run_files([str(CORPUS / "verdicts" / entry["path"]), *beside])
        judged = interruptions(files)
        if not entry["faults"] and judged:
            false_alarms.append(f"{entry['path']}: {[each.verdict.cause for each in judged]}")
        for fault in entry["faults"]:
            name = entry["path"] + (" with dumps" if beside else "")
            found.append(_outcome(name, fault, judged))
    return found, false_alarms


def _outcome(path: str, fault: dict, judged: list[Interruption]) -> Outcome:
    place = (fault["restart"], fault["iteration"])
    match = next((each for each in judged if (each.restart or 0, each.iteration or 0) == place), None)
    classes = _allowed(fault["cause"])
    said = match.verdict.cause if match is not None else "nothing"
    domain = match.verdict.domain.value if match is not None else "nothing"
    return Outcome(
        f"{path} {place[0]}.{place[1]}", fault["kind"], classes[0], said, said in classes,
        domain in _allowed(fault["domain"]), fault["rank"], match.verdict.culprit_rank if match is not None else None,
    )  # fmt: skip


def lines() -> list[tuple[str, str, str, str, str]]:
    """`(class, role, our class, our role, line)` of every single line."""
    found = []
    for row in (CORPUS / "log_lines.tsv").read_text().splitlines()[1:]:
        told, text, role = row.split("\t")
        source = "kernel" if "NVRM" in text or text.startswith("Out of memory") else "stderr"
        reading = reading_of(Evidence(run="r", emitter="e", seq=0, at=0, source=source, text=text))
        found.append((LINE_CLASSES.get(told, told), LINE_ROLES[role], reading.cause, reading.role.value, text))
    return found


def agent() -> list[tuple[str, bool, str, str, str]]:
    """`(run, whether the class of NVRx's agent is right, class, rank, true class)` of each log that it was given."""
    recorded = json.loads((CORPUS / "restart_agent.json").read_text())
    truths = {entry["path"]: entry["faults"] for entry in json.loads((CORPUS / "verdicts.json").read_text())}
    found = []
    for name, told in recorded.items():
        faults = truths.get(name.removesuffix(" (cycle log)"), [])
        if not faults:
            continue
        fault = faults[0]
        said = AGENT_CLASSES.get(told["failure_class"] or "", told["failure_class"] or "nothing")
        rank = None if told["rank"] in (None, "") else int(told["rank"])
        is_right = said in _allowed(fault["cause"])
        rank_is = "right" if rank == fault["rank"] else "silent" if rank is None else "wrong"
        found.append((name, is_right, said, rank_is, _allowed(fault["cause"])[0]))
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """One excerpt of a public log with what was said of it; each of the four is right, silent or wrong."""

    name: str
    set: str
    cause: str
    """The first of the classes that count as right; empty for a healthy log."""
    said: str
    cause_is: str
    domain_is: str
    rank_is: str
    node_is: str
    named: str
    """Rank and node that were said."""


def _compared(said: object, allowed: list) -> str:
    """Right also where nothing is said and nothing is known; silent where only the truth says something."""
    if said in allowed:
        return "right"
    return "silent" if said is None else "wrong"


def public() -> list[Judged]:
    """Every excerpt of `public_failures.jsonl`, each judged as the only log of a run."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "excerpt.log"
        for row in (CORPUS / "public_failures.jsonl").read_text().splitlines():
            entry = json.loads(row)
            path.write_text("\n".join(entry["lines"]) + "\n")
            found.append(_judged(entry, [each.verdict for each in interruptions(read_run_files([str(path)]))]))
    return found


def whole() -> list[Judged]:
    """Every log of `whole_logs.jsonl`, as the only one of a run or beside those of other ranks; the last end counts."""
    found = []
    for row in (CORPUS / "whole_logs.jsonl").read_text().splitlines():
        entry = json.loads(row)
        with tempfile.TemporaryDirectory() as folder:
            for name, lines in entry["files"].items():
                (Path(folder) / name).write_text("\n".join(lines) + "\n")
            found.append(_judged(entry, [each.verdict for each in interruptions(read_run_files([folder]))][-1:]))
    return found


def _told(domain: str | None) -> str | None:
    """A domain; None where it is not known, which says nothing."""
    return None if domain == "unknown" else domain


def _judged(entry: dict, verdicts: list) -> Judged:
    """A second interruption that the excerpt does not tell of makes the class wrong."""
    known = [each for each in verdicts if each.cause != "unknown"]
    said = " ".join(each.cause for each in known) or "nothing"
    if "cause" not in entry:
        return Judged(entry["name"], entry["set"], "", said, "wrong" if verdicts else "right", "", "", "", "")
    first = known[0] if known else None
    truth = [None if cause == "unknown" else cause for cause in entry["cause"]]
    causes = [_compared(each.cause, truth) for each in known] or [_compared(None, truth)]
    ranks, nodes = (told if isinstance(told, list) else [told] for told in (entry["rank"], entry["node"]))
    rank = first.culprit_rank if first else None
    node = first.culprit_node if first else None
    return Judged(
        entry["name"], entry["set"], entry["cause"][0], said, "wrong" if "wrong" in causes else causes[0],
        _compared(_told(first.domain.value if first else None), [_told(each) for each in entry["domain"]]),
        _compared(rank, ranks),
        _compared(node, nodes), f"rank {rank}, node {node}",
    )  # fmt: skip


def _print_judged(found: list[Judged], *, lists_wrong: bool) -> None:
    print(f"{'set':14}{'n':>5}{'class':>12}{'domain':>12}{'rank':>12}{'node':>12}")
    for name in dict.fromkeys(each.set for each in found):
        rows = [each for each in found if each.set == name]
        cells = []
        for aspect in ("cause_is", "domain_is", "rank_is", "node_is"):
            count = Counter(getattr(row, aspect) for row in rows)
            cells.append("/".join(str(count[word]) for word in ("right", "silent", "wrong")) if not count[""] else "")
        print(f"{name:14}{len(rows):5}" + "".join(f"{cell:>12}" for cell in cells))
    for each in found if lists_wrong else ():
        words = (each.cause_is, each.domain_is, each.rank_is, each.node_is)
        if set(words) - {"right", ""}:
            print(f"  {each.set} {each.name}: {'/'.join(words)}: said {each.said}, {each.named} (truth {each.cause})")


def _print_agent(found: list[Outcome]) -> None:
    """NVRx's restart agent and ours on the logs that it was given, by the true class."""
    mine = {each.name.rsplit(" ", 1)[0]: each for each in reversed(found)}
    recorded = [(row, mine[row[0].removesuffix(" (cycle log)")]) for row in agent()]
    print("logs that NVRx's restart agent was given: class right, then rank right/silent/wrong")
    print(f"{'class':22}{'n':>4}{'agent class':>13}{'rank':>9}{'our class':>12}{'rank':>9}  what the agent said")
    for name in [*sorted({row[4] for row, _ in recorded}), "all"]:
        rows = [pair for pair in recorded if name in (pair[0][4], "all")]
        theirs = "/".join(str(sum(row[3] == word for row, _ in rows)) for word in ("right", "silent", "wrong"))
        ours = "/".join(str(sum(each.rank_is == word for _, each in rows)) for word in ("right", "silent", "wrong"))
        said = Counter(row[2] for row, _ in rows)
        words = "" if name == "all" else ", ".join(f"{word} {count}" for word, count in said.most_common())
        print(
            f"{name:22}{len(rows):4}{sum(row[1] for row, _ in rows):13}{theirs:>9}"
            f"{sum(each.is_class_right for _, each in rows):12}{ours:>9}  {words}"
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, one by one")
    parsed = parser.parse_args()
    found, false_alarms = outcomes()
    by_class: dict[str, list[Outcome]] = defaultdict(list)
    for each in found:
        by_class[each.cause].append(each)
    print(f"{'class':22}{'n':>4}{'class':>8}{'domain':>8}{'rank right':>12}{'silent':>8}{'wrong':>7}")
    for name, rows in [*sorted(by_class.items()), ("all", found)]:
        ranks = [row.rank_is for row in rows]
        print(
            f"{name:22}{len(rows):4}{sum(row.is_class_right for row in rows):8}"
            f"{sum(row.is_domain_right for row in rows):8}{ranks.count('right'):12}{ranks.count('silent'):8}"
            f"{ranks.count('wrong'):7}"
        )
    print(f"false alarms in runs without a fault: {len(false_alarms)} {'; '.join(false_alarms)}")
    single = lines()
    classes = sum(said in told.split() for told, _, said, _, _ in single)
    roles = sum(said in told.split() for _, told, _, said, _ in single)
    print(f"single lines of public logs: {len(single)}; class right {classes}, role right {roles}")
    _print_agent(found)
    print("excerpts of public logs, right/silent/wrong")
    _print_judged(public(), lists_wrong=parsed.wrong)
    print("whole logs, right/silent/wrong")
    _print_judged(whole(), lists_wrong=parsed.wrong)
    if parsed.wrong:
        for each in found:
            if not each.is_class_right or not each.is_domain_right or each.rank_is != "right":
                print(f"  {each.name}: {each.kind}: said {each.said}, rank {each.said_rank} (truth {each.rank})")
        for told, role, said, said_role, text in single:
            if said not in told.split() or said_role not in role.split():
                print(f"  line {told}/{role}: said {said}/{said_role}: {text[:100]}")


if __name__ == "__main__":
    main()
