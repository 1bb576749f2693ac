"""Recorded histories with the figures they must give, and the comparison of the two.

Each folder of `corpus/histories` holds `facts.jsonl`, `expected.json` and `scenario.txt`. An expected value is a plain
value, `{"range": [low, high]}`, `{"any_of": […]}` or `{"omit": true}`. Seconds agree within 1 ms, counts exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rerail.server.core.codec import Context, decode_line
from rerail.server.core.facts import Fact

FOLDER = Path(__file__).parent / "corpus" / "histories"
MILLISECOND = 0.001
SHARES = ("training_goodput", "infrastructure_goodput", "checkpoint_efficiency")
NOT_FIGURES = ("case", "assumes", "truth", "windows", "rollbacks", "incidents", "attempts", "as_of")


@dataclass(frozen=True)
class History:
    """One recorded run."""

    name: str

    @property
    def lines(self) -> bytes:
        """The batch as emitters sent it."""
        return (FOLDER / self.name / "facts.jsonl").read_bytes()

    @property
    def expected(self) -> dict:
        """The figures it must give."""
        return json.loads((FOLDER / self.name / "expected.json").read_text())

    def facts(self) -> list[Fact]:
        """The facts, defaults of context lines filled in."""
        facts: list[Fact] = []
        defaults: dict = {}
        for line in self.lines.splitlines():
            stated = decode_line(line, defaults)
            if isinstance(stated, Context):
                defaults = dict(stated.defaults)
            else:
                facts.append(stated)
        return facts


def histories() -> list[History]:
    """Every recorded history, by name."""
    return [History(path.name) for path in sorted(FOLDER.iterdir()) if path.is_dir()]


@dataclass
class Differences:
    """What does not agree, one sentence each."""

    elapsed_seconds: float
    found: list[str] = field(default_factory=list)
    compared: int = 0

    def tolerance(self, path: str) -> float:
        """How far a figure may be off."""
        leaf = path.rsplit(".", 1)[-1]
        if leaf in SHARES:
            return 1e-6 + MILLISECOND / max(self.elapsed_seconds, MILLISECOND)
        if leaf == "checkpoint_slowdown":
            return 2e-3
        return MILLISECOND if "seconds" in path else 0.0

    def value(self, path: str, expected: object, actual: object) -> None:
        """Compare one figure."""
        if isinstance(expected, dict) and expected.get("omit"):
            return
        self.compared += 1
        if isinstance(expected, dict) and "range" in expected:
            low, high = expected["range"]
            near = self.tolerance(path)
            agrees = isinstance(actual, (int, float)) and low - near <= actual <= high + near
        elif isinstance(expected, dict) and "any_of" in expected:
            agrees = any(self._same(path, each, actual) for each in expected["any_of"])
        else:
            agrees = self._same(path, expected, actual)
        if not agrees:
            self.found.append(f"{path}: expected {expected}, got {actual}")

    def _same(self, path: str, expected: object, actual: object) -> bool:
        if expected is None or actual is None or isinstance(expected, (str, bool)):
            return expected == actual
        return isinstance(actual, (int, float)) and abs(expected - actual) <= self.tolerance(path) + 1e-12

    def tree(self, path: str, expected: dict, actual: dict) -> None:
        """Compare everything that is expected under a path."""
        for name, want in expected.items():
            here = f"{path}.{name}" if path else name
            if name in ("seconds_by_phase", "parts_seconds"):
                self.phases(here, want, actual[name])
            elif isinstance(want, dict) and not {"range", "any_of", "omit"} & set(want):
                self.tree(here, want, actual[name])
            else:
                self.value(here, want, actual[name])

    def phases(self, path: str, expected: dict, actual: dict) -> None:
        """Phases that are not mentioned are expected to be 0; what only one side can know is left out."""
        left_out = ("first_step", "excluded", "silent") if path.endswith("parts_seconds") else ()
        for name in sorted({*expected, *actual} - set(left_out)):
            self.value(f"{path}.{name}", expected.get(name, 0), actual.get(name, 0))

    def rollbacks(self, expected: list[dict], actual: list[dict]) -> None:
        """Every rollback of more than 0 steps must be matched, and no other may be there."""
        left = [each for each in actual if each["steps"]]
        for want in expected:
            hit = next(
                (
                    each
                    for each in left
                    if each["steps"] == want["steps"] and each["attempt"] in want["attempt"]["any_of"]
                ),
                None,
            )
            if hit is None:
                if not want["optional"]:
                    self.found.append(f"rollbacks: none of {want['steps']} steps")
                continue
            left.remove(hit)
            if sorted((hit["from_step"], hit["to_step"])) != sorted(want["edge_steps"]):
                self.found.append(f"rollbacks: expected {want['edge_steps']}, got {hit}")
            self.value("rollbacks.seconds", want["seconds"], hit["seconds"])
        self.found.extend(f"rollbacks: unexpected {each}" for each in left)

    def incidents(self, expected: list[dict], actual: list[dict]) -> None:
        """Incidents in order of their beginning, anatomies included."""
        position = 0
        for number, want in enumerate(expected):
            spec = want["started_at"]
            low, high = spec["range"] if isinstance(spec, dict) else (spec, spec)
            hit = actual[position] if position < len(actual) else None
            if hit is None or not low - 10**6 <= nanoseconds(hit["started_at"]) <= high + 10**6:
                if not want["optional"]:
                    self.found.append(f"incidents[{number}]: none begins in {low}…{high}")
                continue
            position += 1
            figures = {key: value for key, value in want.items() if key not in ("optional", "started_at")}
            self.tree(f"incidents[{number}]", figures, hit)
            total = hit["time_to_recover_seconds"]
            if total is not None and abs(sum(hit["parts_seconds"].values()) - total) > MILLISECOND:
                self.found.append(f"incidents[{number}]: parts do not sum to {total}")
        self.found.extend(f"incidents: unexpected one at {each['started_at']}" for each in actual[position:])


def nanoseconds(text: str) -> int:
    """An ISO instant in ns."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1_000_000) * 1000


def differences(expected: dict, actual: dict, windows: Iterable[tuple[dict, dict]] = ()) -> list[str]:
    """Everything in which a run's figures are not what they must be; `windows` are pairs of expected and actual."""
    elapsed = actual["elapsed_seconds"]
    found = Differences(elapsed)
    found.tree("", {key: value for key, value in expected.items() if key not in NOT_FIGURES}, actual)
    found.value("attempts.count", expected["attempts"]["count"], len(actual["attempts"]))
    if "rollbacks" in expected:
        found.rollbacks(expected["rollbacks"], actual["rollbacks"])
    if "incidents" in expected:
        found.incidents(expected["incidents"], actual["incidents"])
    total = sum(length for phase, length in actual["seconds_by_phase"].items() if phase != "excluded")
    if abs(total - elapsed) > MILLISECOND:
        found.found.append(f"phases without excluded sum to {total}, elapsed is {elapsed}")
    for want, got in windows:
        found.elapsed_seconds = got["elapsed_seconds"] or MILLISECOND
        name = want["name"]
        found.tree(f"windows.{name}", {key: want[key] for key in want if key not in ("name", "from_ns", "to_ns")}, got)
    return found.found
