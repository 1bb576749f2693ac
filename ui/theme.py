"""Theme: every colour of the pages, in both schemes, and the style sheet that carries them.

Rules
- One colour per phase, everywhere: bands, bars, sparklines, legends and tables take it from here.
- Calm is quiet: `training` is the palest, since it covers most of every picture; losses carry colour; the one saturated
  red, `stalled` and `danger`, is kept for what a person must act on.
- Any two phases, and each phase and the surface, are at least ΔE 12 (CIE 1976) apart for normal, protanope,
  deuteranope and tritanope sight (`tests/ui/test_theme.py`), and colour is never alone: `recomputing` and `excluded`
  are hatched, `silent` is an outline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rerail.server.core.facts import Phase
from rerail.server.core.view import SpanKind


class SchemeName(StrEnum):
    """Light or dark; the values are those of the `data-mantine-color-scheme` attribute."""

    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The colours of one scheme."""

    name: SchemeName
    page: str
    surface: str
    raised: str
    """Hovered rows, table heads, code."""
    line: str
    """Hairlines between things."""
    grid: str
    """Lines inside figures."""
    ink: str
    muted: str
    """Secondary text: 4.5 : 1 or more on `surface` and `page`."""
    accent: str
    """Links and focus."""
    danger: str
    """What a person must act on; nothing else."""
    danger_wash: str
    """Background of a danger badge."""
    good: str
    """The training goodput line, and a live run's dot."""
    durable: str
    """Marks and lines of durable checkpoints: the hue of `saving`, strong enough for a thin line."""
    phases: tuple[tuple[Phase, str], ...]

    def phase(self, phase: Phase) -> str:
        """Colour of a phase."""
        return dict(self.phases)[phase]


LIGHT = Scheme(
    name=SchemeName.LIGHT,
    page="#F5F6F8",
    surface="#FFFFFF",
    raised="#F0F2F5",
    line="#E2E5EA",
    grid="#ECEEF2",
    ink="#15181E",
    muted="#586172",
    accent="#2257A8",
    danger="#D12A1E",
    danger_wash="#FDECEA",
    good="#2E7D5B",
    durable="#9A7B0F",
    phases=(
        (Phase.EXCLUDED, "#C9C5CF"),
        (Phase.DETECTING, "#C44390"),
        (Phase.STOPPING, "#6A244F"),
        (Phase.QUEUED, "#586279"),
        (Phase.RENDEZVOUS, "#80BDEB"),
        (Phase.LOADING, "#A189E0"),
        (Phase.INITIALIZING, "#3267B6"),
        (Phase.SAVING, "#EDD265"),
        (Phase.EVALUATING, "#56A895"),
        (Phase.DATA_WAIT, "#869238"),
        (Phase.OVERHEAD, "#AA8866"),
        (Phase.STALLED, "#D12A1E"),
        (Phase.RECOMPUTING, "#ECA25D"),
        (Phase.TRAINING, "#D1E6D3"),
        (Phase.SILENT, "#92A1B6"),
    ),
)

DARK = Scheme(
    name=SchemeName.DARK,
    page="#0E1116",
    surface="#14181E",
    raised="#1D232B",
    line="#2A313B",
    grid="#222932",
    ink="#E9ECF1",
    muted="#9EA8B7",
    accent="#8DB8F5",
    danger="#FF5147",
    danger_wash="#3A1A1B",
    good="#63C29B",
    durable="#D5B64E",
    phases=(
        (Phase.EXCLUDED, "#2F3342"),
        (Phase.DETECTING, "#DB74B2"),
        (Phase.STOPPING, "#922964"),
        (Phase.QUEUED, "#748093"),
        (Phase.RENDEZVOUS, "#74B2DE"),
        (Phase.LOADING, "#9D8CE2"),
        (Phase.INITIALIZING, "#3375CD"),
        (Phase.SAVING, "#D5B64E"),
        (Phase.EVALUATING, "#4A9F8B"),
        (Phase.DATA_WAIT, "#A0AF5F"),
        (Phase.OVERHEAD, "#A98167"),
        (Phase.STALLED, "#FF5147"),
        (Phase.RECOMPUTING, "#CF811B"),
        (Phase.TRAINING, "#244439"),
        (Phase.SILENT, "#4D637D"),
    ),
)

SCHEMES = {scheme.name: scheme for scheme in (LIGHT, DARK)}

HATCHED = frozenset({Phase.RECOMPUTING, Phase.EXCLUDED})
"""Phases drawn with stripes."""

OUTLINED = frozenset({Phase.SILENT})
"""Phases drawn as an empty outline."""

PHASE_OF_KIND = {
    SpanKind.EXCLUDED: Phase.EXCLUDED,
    SpanKind.FAULT: Phase.DETECTING,
    SpanKind.STARTUP: Phase.INITIALIZING,
    SpanKind.PLANNED: Phase.QUEUED,
    SpanKind.CHECKPOINT: Phase.SAVING,
    SpanKind.REWORK: Phase.RECOMPUTING,
    SpanKind.STALL: Phase.STALLED,
    SpanKind.OVERHEAD: Phase.OVERHEAD,
    SpanKind.UNKNOWN: Phase.SILENT,
    SpanKind.PRODUCTIVE: Phase.TRAINING,
}
"""The colour a row of the loss waterfall borrows."""

FONT = (
    'Inter, -apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Helvetica Neue", Arial, '
    '"Noto Sans", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic", sans-serif'
)
"""Nothing is fetched: the first of these that the reader has."""

ORDER = (
    Phase.TRAINING,
    Phase.RECOMPUTING,
    Phase.SAVING,
    Phase.EVALUATING,
    Phase.DATA_WAIT,
    Phase.OVERHEAD,
    Phase.STALLED,
    Phase.DETECTING,
    Phase.STOPPING,
    Phase.QUEUED,
    Phase.RENDEZVOUS,
    Phase.INITIALIZING,
    Phase.LOADING,
    Phase.SILENT,
    Phase.EXCLUDED,
)
"""Phases as legends and bars list them: what moves the run first, then what it lost, then what is not known."""


def css_name(phase: Phase) -> str:
    """A phase as classes and custom properties spell it."""
    return phase.value.replace("_", "-")


def style_sheet() -> str:
    """Both schemes as CSS custom properties: `--ink`, `--phase-training`, …"""
    light = _properties(LIGHT)
    dark = _properties(DARK)
    return (
        f":root{{{light}--font:{FONT};color-scheme:light}}\n"
        f"[data-mantine-color-scheme=dark]{{{dark}color-scheme:dark}}\n"
    )


def _properties(scheme: Scheme) -> str:
    chrome = {
        "page": scheme.page,
        "surface": scheme.surface,
        "raised": scheme.raised,
        "line": scheme.line,
        "ink": scheme.ink,
        "muted": scheme.muted,
        "accent": scheme.accent,
        "danger": scheme.danger,
        "danger-wash": scheme.danger_wash,
        "good": scheme.good,
        "durable": scheme.durable,
    }
    phases = {f"phase-{css_name(phase)}": color for phase, color in scheme.phases}
    return "".join(f"--{name}:{value};" for name, value in (chrome | phases).items())
