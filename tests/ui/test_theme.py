"""Colours: far enough apart for every kind of sight, and quiet where nothing is wrong."""

from __future__ import annotations

import itertools

import pytest

from rerail.server.core.facts import Phase
from rerail.ui.theme import DARK, LIGHT, ORDER, Scheme, style_sheet

LEAST_DISTANCE = 12.0

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
    ),
}  # fmt: skip


def linear(color: str) -> tuple[float, ...]:
    parts = (int(color[index : index + 2], 16) / 255 for index in (1, 3, 5))
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def lab(color: str, sight: str) -> tuple[float, float, float]:
    """CIE L*a*b* of a colour as that sight sees it."""
    rgb = linear(color)
    red, green, blue = (
        min(1.0, max(0.0, sum(weight * part for weight, part in zip(row, rgb, strict=True)))) for row in SIGHTS[sight]
    )
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883

    def bent(value: float) -> float:
        return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116

    return 116 * bent(y) - 16, 500 * (bent(x) - bent(y)), 200 * (bent(y) - bent(z))


def distance(one: str, other: str, sight: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(lab(one, sight), lab(other, sight), strict=True)) ** 0.5


def contrast(one: str, other: str) -> float:
    bright, dim = sorted(
        (0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in (linear(one), linear(other))),
        reverse=True,
    )
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=lambda scheme: scheme.name.value)
@pytest.mark.parametrize("sight", SIGHTS)
def test_any_two_phases_and_the_surface_can_be_told_apart(scheme: Scheme, sight: str):
    colors = dict(scheme.phases) | {"surface": scheme.surface}
    near = {
        (str(one), str(other)): round(distance(colors[one], colors[other], sight), 1)
        for one, other in itertools.combinations(colors, 2)
        if distance(colors[one], colors[other], sight) < LEAST_DISTANCE
    }
    assert near == {}


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=lambda scheme: scheme.name.value)
def test_text_can_be_read_on_every_ground(scheme: Scheme):
    for ground in (scheme.page, scheme.surface, scheme.raised):
        assert contrast(scheme.ink, ground) >= 7
        assert contrast(scheme.muted, ground) >= 4.5
        assert contrast(scheme.accent, ground) >= 4.5
    assert contrast(scheme.danger, scheme.danger_wash) >= 3.9


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=lambda scheme: scheme.name.value)
def test_healthy_training_is_the_phase_nearest_to_the_ground_it_lies_on(scheme: Scheme):
    contrasts = {
        phase: contrast(color, scheme.surface) for phase, color in scheme.phases if phase is not Phase.EXCLUDED
    }
    assert min(contrasts, key=lambda phase: contrasts[phase]) is Phase.TRAINING


def test_every_phase_has_a_colour_a_place_in_the_order_and_a_property():
    sheet = style_sheet()
    for scheme in (LIGHT, DARK):
        assert {phase for phase, _ in scheme.phases} == set(Phase)
    assert set(ORDER) == set(Phase)
    assert all(f"--phase-{phase.value.replace('_', '-')}:" in sheet for phase in Phase)
