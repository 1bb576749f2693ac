"""Exclusions: the windows that people declared out of account, and what became of them.

Rules
- A window is known by the identity of the fact that declared it, `<emitter>~<seq>`. Declarations are never edited.
- Undoing is a fact too, and so is undoing that: of all that was said about the state of a window the latest word
  counts, by its instant. A window of which nothing more was said is out of account.
- Windows may overlap, reach over an edge of the run's life, or lie in the future: the timeline takes what lies in it.
- The result depends only on the set of facts.
"""

from __future__ import annotations

from collections.abc import Iterable

from rerail.server.core.facts import Excluded, ExclusionState, Fact, WindowState
from rerail.server.core.view import Exclusion, ExclusionChange


def window_id(fact: Excluded) -> str:
    """What the window of a declaration goes by."""
    return f"{fact.emitter}~{fact.seq}"


class Exclusions:
    """Windows of one run, whatever the order their facts come in."""

    __slots__ = ("_declared", "_states")

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._declared: dict[str, Excluded] = {}
        self._states: dict[str, list[ExclusionState]] = {}
        for fact in facts:
            if isinstance(fact, (Excluded, ExclusionState)):
                self.take(fact)

    def take(self, fact: Excluded | ExclusionState) -> None:
        """One declaration, or one word about the state of a window. Each fact once."""
        if isinstance(fact, Excluded):
            self._declared[window_id(fact)] = fact
        else:
            self._states.setdefault(fact.window, []).append(fact)

    def windows(self) -> tuple[Exclusion, ...]:
        """Every window, undone ones too, by its start."""
        found = []
        for name, fact in self._declared.items():
            told = sorted(self._states.get(name, ()), key=lambda state: (state.at, state.emitter, state.seq))
            found.append(
                Exclusion(
                    window=name,
                    start=fact.start,
                    end=fact.end,
                    declared_at=fact.at,
                    reason=fact.reason,
                    author=fact.author,
                    is_withdrawn=bool(told) and told[-1].state is WindowState.WITHDRAWN,
                    changes=tuple(
                        ExclusionChange(each.at, each.state.value, each.reason, each.author) for each in told
                    ),
                )
            )
        return tuple(sorted(found, key=lambda window: (window.start, window.end, window.window)))

    def in_force(self) -> list[tuple[int, int]]:
        """`[start, end)` of the windows that are out of account, in order."""
        if not self._declared:
            return []
        return [(window.start, window.end) for window in self.windows() if not window.is_withdrawn]

    def unheard_of(self) -> list[ExclusionState]:
        """Words about windows that were never declared."""
        return [state for name, states in self._states.items() if name not in self._declared for state in states]
