"""What was told about a run and its attempts in so many words: names, sizes, versions, settings.

Of each field the latest word counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter

from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.attempts import scope_between
from rerail.server.core.facts import Initiator, Pairs, RunStarted, Scope
from rerail.server.core.gathering import Gathering


class Metadata:
    """What `run_started` facts said, the latest word of each field."""

    def __init__(self, gathering: Gathering) -> None:
        self.name: str | None = None
        self.project: str | None = None
        self.labels: Pairs = ()
        self.framework: str | None = None
        self.gpu_type: str | None = None
        self.world_size: int | None = None
        self.nodes: int | None = None
        self.target_step: int | None = None
        for *_, fact in sorted(gathering.run_wide.started, key=lambda entry: entry[:3]):
            self.name = fact.name if fact.name is not None else self.name
            self.project = fact.project if fact.project is not None else self.project
            self.labels = fact.labels or self.labels
            self.framework = fact.framework if fact.framework is not None else self.framework
            self.gpu_type = fact.gpu_type if fact.gpu_type is not None else self.gpu_type
            self.world_size = fact.world_size if fact.world_size is not None else self.world_size
            self.nodes = fact.nodes if fact.nodes is not None else self.nodes
            self.target_step = fact.target_step if fact.target_step is not None else self.target_step


class Started:
    """What `attempt_started` facts of one attempt said, the latest word of each field."""

    def __init__(self, record: AttemptRecord) -> None:
        self.scope: Scope | None = None
        self.initiator: Initiator | None = None
        self.world_size: int | None = None
        self.gpus: int | None = None
        self.nodes: tuple[str, ...] = ()
        self.launcher: str | None = None
        self.versions: Pairs = ()
        self.config: str | None = None
        for *_, fact in record.started:
            self.scope = fact.scope or self.scope
            self.initiator = fact.initiator or self.initiator
            self.world_size = fact.world_size if fact.world_size is not None else self.world_size
            self.gpus = fact.gpus if fact.gpus is not None else self.gpus
            self.nodes = tuple(sorted({*self.nodes, *fact.nodes}))
            self.launcher = fact.launcher or self.launcher
            self.versions = fact.versions or self.versions
            self.config = _merged(self.config, fact.config)


def initiator_of(record: AttemptRecord) -> Initiator | None:
    """Who asked for an attempt; the latest word, without putting the rest together (it may name a thousand nodes)."""
    return next((fact.initiator for *_, fact in reversed(record.started) if fact.initiator), None)


def world_size_of(record: AttemptRecord, started: Sequence[tuple[int, str, int, RunStarted]]) -> int | None:
    """How many ranks an attempt had: as told of it, else of the run; None where nobody told."""
    own = next((fact.world_size for *_, fact in reversed(record.started) if fact.world_size), None)
    return own or next(
        (entry[3].world_size for entry in sorted(started, key=itemgetter(0, 1, 2)) if entry[3].world_size), None
    )


def _merged(before: str | None, after: str | None) -> str | None:
    """Settings told by several emitters (the launcher, a rank) as one object; of each the latest word counts."""
    if before is None or after is None:
        return after if before is None else before
    return json.dumps({**json.loads(before), **json.loads(after)}, sort_keys=True, separators=(",", ":"))


def scope_of(records: Sequence[AttemptRecord], number: int) -> Scope | None:
    """The scope of the restart that began an attempt; None for the first."""
    if number == 0:
        return None
    told = next((fact.scope for *_, fact in reversed(records[number].started) if fact.scope), None)
    if told is not None:
        return told
    before, after = records[number - 1], records[number]
    return scope_between(before.job, before.key, after.job, after.key)
