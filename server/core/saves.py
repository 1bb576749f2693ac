"""Saves: the checkpoints of a run and what their writes do to the steps under them, kept up as facts come in."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.attempt_pass import Surroundings
from rerail.server.core.attempt_record import AttemptRecord
from rerail.server.core.attempts import AttemptKey
from rerail.server.core.checkpoints import CheckpointRecord, CheckpointShelf
from rerail.server.core.durations import AttemptSamples, DurationCounts, Window
from rerail.server.core.gathering import Gathering
from rerail.server.core.quality import Suspicion, suspicions_of_checkpoint
from rerail.server.core.run_timeline import Folded


class Saves:
    """Checkpoints by name and by attempt, and the step times with and without a write in flight."""

    def __init__(self, gathering: Gathering) -> None:
        self.shelf = CheckpointShelf()
        self.counts = DurationCounts()
        self._gathering = gathering
        self._order: list[tuple[int, str | None, AttemptKey]] = []
        self._checkpoints: dict[str, list[CheckpointRecord]] = {}
        self._saves: dict[int, dict[tuple[str, int], CheckpointRecord]] = {}
        """By the attempt that began them."""
        self._suspicions: dict[str, list[Suspicion]] = {}
        self._changed_saves: set[int] = set()
        self._samples: dict[int, AttemptSamples] = {}
        self._sampled: list[Folded] = []

    def renew_checkpoints(self, records: Sequence[AttemptRecord]) -> None:
        """Bring the checkpoints up to date with what was stated of them."""
        gatherings = self._gathering.gatherings
        order = [(gatherings, record.job, record.key) for record in records]
        names = set(self._gathering.changed_checkpoints)
        if order[: len(self._order)] != self._order:
            names |= set(self._gathering.moments) | self.shelf.names()
        self._order = order
        for name in names:
            for number, old in enumerate(self._checkpoints.pop(name, ())):
                if old.attempt is not None:
                    self._saves[old.attempt].pop((name, number), None)
                    self._changed_saves.add(old.attempt)
            known = self._gathering.checkpoints(name) if name in self._gathering.moments else []
            for number, new in enumerate(known):
                if new.attempt is not None:
                    self._saves.setdefault(new.attempt, {})[name, number] = new
                    self._changed_saves.add(new.attempt)
            found = [suspicion for each in known for suspicion in suspicions_of_checkpoint(each)]
            self._suspicions.pop(name, None)
            if found:
                self._suspicions[name] = found
            if known:
                self._checkpoints[name] = known
            self.shelf.put(name, [each.view() for each in known])
        self._gathering.changed_checkpoints.clear()

    def suspicions(self) -> list[Suspicion]:
        """What contradicts within the lives of checkpoints."""
        return [suspicion for found in self._suspicions.values() for suspicion in found]

    def renew_samples(
        self, records: Sequence[AttemptRecord], surroundings: Sequence[Surroundings], all_folded: Sequence[Folded]
    ) -> None:
        """Bring step durations up to date for the attempts of which anything changed."""
        if self._sampled and all_folded and self._sampled[0].version.gathering != self._gathering.gatherings:
            self._samples, self.counts, self._sampled = {}, DurationCounts(), []
        for number, (record, around) in enumerate(zip(records, surroundings, strict=True)):
            folded = all_folded[number]
            is_sampled = number < len(self._sampled) and self._sampled[number] is folded
            if is_sampled and number not in self._changed_saves:
                continue
            ended = record.ended_at if around.is_over and record.ended_at is not None else around.end
            windows = []
            for save in self._saves.get(number, {}).values():
                started, until = save.started_at, save.in_flight_until
                if started is not None:
                    windows.append(Window(started, ended if until is None else min(until, ended)))
            windows.sort(key=lambda window: (window.start, window.end))
            samples = self._samples.setdefault(number, AttemptSamples())
            samples.update(record.blocks(), windows, folded.result.overlays, self.counts)
        for number in [number for number in self._samples if number >= len(records)]:
            self._samples.pop(number).forget(self.counts)
        self._changed_saves.clear()
        self._sampled = list(all_folded)

    def seal(self, number: int, until: int, blocks: int) -> None:
        """Let go of what bears on the settled beginning of an attempt."""
        self._saves[number] = {
            key: save
            for key, save in self._saves.get(number, {}).items()
            if save.in_flight_until is None or save.in_flight_until > until
        }
        self._samples[number].seal(blocks)
