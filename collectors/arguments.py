"""Arguments: values of a command line that have limits, refused with the limits named."""

from __future__ import annotations

import argparse
from collections.abc import Callable

A_DAY = 86_400
MOST = 1_000_000.0


def number_between(least: float, most: float = MOST) -> Callable[[str], float]:
    """A type for argparse: a number, both limits included."""

    def read(told: str) -> float:
        try:
            number = float(told)
        except ValueError:
            number = float("nan")
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{told!r} is not a number between {least:g} and {most:.0f}")
        return number

    return read


def whole_seconds(told: str) -> int:
    """A type for argparse: whole seconds, at most a day."""
    if not (told.isascii() and told.isdigit() and 1 <= int(told[:9]) <= A_DAY):
        raise argparse.ArgumentTypeError(f"{told!r} is not a whole number between 1 and {A_DAY}")
    return int(told)
