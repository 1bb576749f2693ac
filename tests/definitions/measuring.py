"""What tests of definitions share: facts to a measurement, without a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rerail.collectors.formats import OldFile, formats
from rerail.server.core.codec import FactError
from rerail.server.core.definitions import DefinitionInput, Measured, definitions
from rerail.server.core.facts import Fact
from rerail.server.core.fold import RunFold
from rerail.server.core.goodput import account, clipped
from rerail.server.core.view import RunView
from rerail.server.query_histories import history_of
from tests.story import BEGINNING, SECOND


class Reading:
    """One run as of an instant, under any definition."""

    def __init__(self, facts: Sequence[Fact], as_of: int, run: str = "story") -> None:
        self._facts = [fact for fact in facts if fact.at <= as_of]
        self._fold = RunFold(run)
        self._fold.add(self._facts)
        self.view: RunView = self._fold.view(as_of)

    def under(self, name: str, window: tuple[float, float] | None = None) -> Measured:
        """What a definition says; `window` in seconds since the beginning of a story."""
        definition = definitions()[name]
        spans, of, edges = self._fold.spans, self.view.account, None
        if window is not None:
            edges = (BEGINNING + round(window[0] * SECOND), BEGINNING + round(window[1] * SECOND))
            spans, of = clipped(spans, *edges), account(spans, *edges)
        history = history_of(self._facts, self.view) if definition.needs_history else None
        return definition.measure(DefinitionInput(self.view, of, spans, edges, history))


def imported(name: str, lines: Iterable[object], run: str | None = None) -> tuple[list[Fact], list[FactError]]:
    """The facts that a format makes of lines, and what it refused."""
    refused: list[FactError] = []
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    file = OldFile(
        path="log",
        stem="log",
        run=run,
        lines=list(enumerate(raw, 1)),
        content=lambda: b"\n".join(raw),
        refuse=lambda _, error: refused.append(error),
        remark=lambda _: None,
    )
    return list(formats()[name].read(file)), refused
