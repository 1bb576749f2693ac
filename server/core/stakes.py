"""Stakes: what a run loses just now, so that the one that costs most is looked at first.

Rules
- A run whose incident is open, or that does anything but training above its high-water step, loses the time of all of
  its GPUs. One that trains loses what it has lost so far of every hour: 1 − its training goodput.
- A run that is heard no more may train or not: all of its GPUs are at stake, and the words say that it is not known.
- A run that is over loses nothing now.
- Where no GPU number was told the stake is unknown, which is not nothing: it is ranked behind what is known to be lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from rerail.server.core.facts import Phase
from rerail.server.core.view import RunState


@dataclass(frozen=True, slots=True)
class Stake:
    """What a run loses, in GPU-hours an hour."""

    gpus: int | None
    rate: float | None
    """GPU-h lost an hour; None where that is not known."""
    sentence: str

    @property
    def rank(self) -> tuple[int, float]:
        """Sorts what is lost fastest first, then what is unknown, then what loses nothing."""
        if self.rate is None:
            return 1, 0.0
        return (0, -self.rate) if self.rate > 0 else (2, 0.0)


def stake(
    state: RunState, phase: Phase | None, gpus: int | None, training_goodput: float | None, *, has_open_incident: bool
) -> Stake:
    """What is at stake in a run as it stands."""
    if state is RunState.ENDED:
        return Stake(gpus, 0.0, "It is over: nothing is being lost.")
    if gpus is None:
        return Stake(None, None, "What it loses is unknown: no GPU number was told.")
    size = f"{gpus} GPU{'' if gpus == 1 else 's'}"
    if state is RunState.SILENT:
        return Stake(gpus, float(gpus), f"{size} may stand idle: {gpus} GPU-h an hour at stake.")
    if has_open_incident or phase is not Phase.TRAINING:
        return Stake(gpus, float(gpus), f"{size} without progress: {gpus} GPU-h lost an hour.")
    if training_goodput is None:
        return Stake(gpus, None, f"{size}; what it loses is unknown.")
    lost = gpus * (1 - training_goodput)
    return Stake(gpus, lost, f"It trains; {lost:.1f} of {gpus} GPU-h an hour were lost so far.")
