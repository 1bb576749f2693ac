"""What all tests share: property tests judge the code, never the speed of the machine.

`make test` takes the same examples every time, so that a red suite is caused by the change at hand; `make explore`
takes new ones, twenty times as many.

What trains, serves or opens a browser for real runs one after the other, whatever the number of workers: two trainings
at once would measure each other. What only calls a library for real (`anywhere`) measures nothing, and runs beside it.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", calm, derandomize=True, database=None)
settings.register_profile("explore", calm, max_examples=2000)
settings.load_profile("explore" if os.environ.get("RERAIL_EXPLORE") else "same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real things first: the first share of the tests goes to one worker, and all of them are in it."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    is_real = item.get_closest_marker("browser") or item.get_closest_marker("slow")
    return 1 if not is_real else 2 if item.get_closest_marker("anywhere") else 0
