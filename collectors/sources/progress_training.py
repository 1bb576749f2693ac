"""The training that a log tells of: what its parts share, each of which reads another kind of line.

Rules
- What is known of it is one `ProgressState`. Another attempt puts another in its place, so nobody keeps the one before:
  each asks `Training.state` anew.
- Its facts are stated through `Attempts`, which numbers them by the line that is taken, as of the attempt that the
  state is of.
"""

from __future__ import annotations

from typing import Any

from rerail.collectors.sources.attempts import Attempts
from rerail.collectors.sources.progress_state import ProgressState


class Training:
    """What the log tells the progress of."""

    def __init__(self, attempts: Attempts, state: ProgressState) -> None:
        self.attempts = attempts
        self.state = state
        self.is_counted_on = False
        """The instant of what is told now is that of no stamp: it follows from what was told before, or after."""

    @property
    def tells_attempts(self) -> bool:
        """Nobody else tells here when attempts begin: no launcher that says so, and no in-process wrapper.

        A launcher that only tells of ends (a signal it passes on, at torchrun's usual log level) is silent about what
        comes after them; an exit it reaped is followed by `Attempts.next_where_untold`.
        """
        known = self.attempts.state
        return not (known.tells_starts or known.exits or known.iterations)

    def say(self, kind: type, at: int, **told: Any) -> None:
        """State a fact of the line that is taken."""
        self.attempts.state_fact(kind, at, **{"restart": self.state.attempt, **told})
