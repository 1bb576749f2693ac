"""What all tests share: property tests judge the code, never the speed of the machine.

`make test` takes the same examples every time, so that a red suite is caused by the change at hand; `make explore`
takes new ones, twenty times as many.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", calm, derandomize=True, database=None)
settings.register_profile("explore", calm, max_examples=2000)
settings.load_profile("explore" if os.environ.get("RERAIL_EXPLORE") else "same")
