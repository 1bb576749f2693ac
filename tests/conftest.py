"""What all tests share: property tests judge the code, never the speed of the machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_machine")
