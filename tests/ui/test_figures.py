"""Figures as pure functions: what is decided to be drawn, and what Plotly is told."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace

import pytest

from rerail.server.core.facts import Phase
from rerail.server.core.recovery_configs.changes import difference
from rerail.server.core.recovery_configs.normalising import recovery_config
from rerail.server.core.view import Checkpoint, SlidingPoint, SpanKind, StepPoint
from rerail.server.query_results import AlertMark, ConfigMark, NoteMark
from rerail.ui.figures.axis import Axis
from rerail.ui.figures.curves import goodput_curves, step_curves
from rerail.ui.figures.lanes import Tone, checkpoint_blocks
from rerail.ui.figures.run_picture import RunPicture, empty_figure, run_figure
from rerail.ui.figures.signs import alert_signs, config_signs, note_signs, sign_legend
from rerail.ui.figures.strip import recovery_strip
from rerail.ui.figures.timeline import RASTER_ROWS, bar_traces, column_traces, timeline_bars, timeline_columns
from rerail.ui.figures.waterfall import waterfall_bars
from rerail.ui.theme import DARK, LIGHT, ORDER
from tests.ui.samples import ACCOUNT, CHECKPOINTS, SECOND, SPANS, START, at

AXIS = Axis(START, at(1000))


@dataclass(frozen=True)
class Bin:
    start: int
    end: int
    ns_by_phase: tuple[tuple[Phase, int], ...]


def test_an_instant_is_wall_clock_text_in_the_offset_of_the_axis():
    assert AXIS.text(START) == "2026-09-21 14:13:20"
    assert replace(AXIS, offset_minutes=-240).text(START) == "2026-09-21 10:13:20"
    assert replace(AXIS, offset_minutes=-240).name == "UTC−04:00"
    assert replace(AXIS, offset_minutes=330).name == "UTC+05:30"


def test_a_figure_tells_plotly_no_instant_as_a_number():
    picture = RunPicture(
        AXIS,
        bars=timeline_bars(SPANS, AXIS),
        goodput=goodput_curves((SlidingPoint(at(0), None, None), SlidingPoint(at(500), 0.9, 1.0))),
        steps=step_curves((StepPoint(at(40), 0, None, 0),), (), at(1000)),
    )
    figure = run_figure(picture, LIGHT)
    assert all(isinstance(base, str) for trace in figure["data"] for base in trace.get("base", []))
    assert all(isinstance(x, str) for trace in figure["data"] if trace["type"] == "scatter" for x in trace["x"])


def test_goodput_that_nobody_could_see_is_called_unknown_and_not_drawn_as_none():
    curves = goodput_curves((SlidingPoint(at(0), None, 1.0), SlidingPoint(at(500), None, 0.9)))
    figure = run_figure(RunPicture(AXIS, goodput=curves), LIGHT)
    (upper,) = [trace for trace in figure["data"] if trace.get("name") == "infrastructure goodput"]
    assert "at most" in upper["hovertemplate"]
    said = " ".join(note["text"] for note in figure["layout"]["annotations"])
    assert "training goodput unknown" in said
    assert "━ training goodput" not in said


def test_every_span_is_one_bar_and_says_what_it_was():
    bars = timeline_bars(SPANS, AXIS, gpus=8)
    assert [(bar.start, bar.end, bar.phase) for bar in bars] == [(span.start, span.end, span.phase) for span in SPANS]
    assert "steps 501–600" in bars[4].hover
    assert "attempt 1" in bars[4].hover
    assert "GPU-h" in bars[4].hover


def test_recomputing_is_hatched_and_silence_is_an_outline():
    spans = (replace(SPANS[4]), replace(SPANS[4], phase=Phase.SILENT))
    traces = {trace["name"]: trace for trace in bar_traces(timeline_bars(spans, AXIS), AXIS, LIGHT, "y")}
    assert traces["recomputing"]["marker"]["pattern"]["shape"] == "/"
    assert traces["silent"]["marker"]["color"] == LIGHT.surface
    assert traces["silent"]["marker"]["line"]["color"] == LIGHT.phase(Phase.SILENT)


def test_a_custom_name_cannot_bring_markup_into_a_hover():
    (bar,) = timeline_bars((replace(SPANS[0], phase=Phase.OVERHEAD, name="<a href=x>"),), AXIS)
    assert "<a" not in bar.hover


def test_a_short_stall_in_a_long_bin_keeps_a_cell():
    piece = Bin(at(0), at(1000), ((Phase.TRAINING, 999 * SECOND), (Phase.STALLED, SECOND)))
    raster, _ = column_traces(timeline_columns((piece,)), AXIS, LIGHT, "y")
    cells = base64.b64decode(raster["z"]["bdata"])
    assert len(cells) == RASTER_ROWS
    assert cells.count(ORDER.index(Phase.STALLED)) == 1


def test_a_picture_of_very_many_bins_stays_small():
    bins = tuple(
        Bin(at(i), at(i + 1), ((Phase.TRAINING, SECOND // 2), (Phase.SAVING, SECOND // 2))) for i in range(1500)
    )
    picture = RunPicture(AXIS, columns=timeline_columns(bins))
    assert len(json.dumps(run_figure(picture, LIGHT))) < 120_000


def test_a_run_without_steps_keeps_the_row_its_time_axis_stands_on():
    figure = run_figure(RunPicture(AXIS, steps=step_curves((), (), at(1000))), LIGHT)
    assert [(len(trace["x"]), trace["y"]) for trace in figure["data"]] == [(0, []), (2, [None, None])]
    axis = figure["layout"]["xaxis"]["anchor"].replace("y", "yaxis")
    assert figure["layout"][axis]["range"] == [0, 1]


def test_a_fall_back_is_a_drop_and_not_a_slope():
    points = (StepPoint(at(0), 0, None, 0), StepPoint(at(600), 600, None, 0), StepPoint(at(760), 500, None, 1))
    step, _ = step_curves(points, (), at(1000))
    assert step.points == ((at(0), 0), (at(600), 600), (at(760), 600), (at(760), 500), (at(1000), 500))


def test_the_durable_step_comes_from_checkpoints_where_no_point_tells_it():
    _, durable = step_curves((StepPoint(at(0), 0, None, 0),), CHECKPOINTS, at(1000))
    assert durable.points == ((at(560), 500), (at(1000), 500))


def test_a_write_that_never_ended_ends_with_its_attempt():
    lost = Checkpoint("c", 10, 0, started_at=at(100))
    (block,) = checkpoint_blocks((lost,), at(1000), AXIS, {0: at(730)})
    assert (block.tone, block.end) == (Tone.SAVE_IN_FLIGHT, at(730))
    (block,) = checkpoint_blocks((lost,), at(1000), AXIS, {})
    assert block.end == at(1000)


def test_a_failed_checkpoint_is_hollow():
    blocks = checkpoint_blocks(CHECKPOINTS, at(1000), AXIS, {})
    assert [block.tone for block in blocks] == [Tone.SAVE, Tone.FAILED_SAVE]


def test_the_waterfall_hangs_each_loss_from_the_level_before():
    bars = waterfall_bars(ACCOUNT.waterfall)
    level = 1.0
    for bar in bars[1:]:
        if bar.kind is None:
            assert bar.width == pytest.approx(level)
        else:
            assert bar.left + bar.width == pytest.approx(level)
            level = bar.left
    assert {bar.kind for bar in bars} - {None} == set(SpanKind) - {SpanKind.EXCLUDED, SpanKind.PRODUCTIVE}


def test_equal_recoveries_stand_above_each_other():
    strip = recovery_strip([("a", 60 * SECOND), ("b", 60 * SECOND), ("c", 3000 * SECOND)])
    assert [(dot.key, dot.row) for dot in strip.dots] == [("a", 0), ("b", 1), ("c", 0)]
    assert all(0 <= dot.position <= 1 for dot in strip.dots)
    assert recovery_strip([]).dots == ()


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_an_empty_picture_is_as_high_as_a_full_one(scheme):
    full = run_figure(RunPicture(AXIS), scheme)
    assert empty_figure(scheme)["layout"]["height"] == full["layout"]["height"]


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_alerts_changes_and_notes_are_marks_with_links_and_words_that_cannot_bring_markup(scheme):
    axis = Axis(START, START + 100 * SECOND)
    hostile = "<b>x</b>"
    open_one = AlertMark(START - 50 * SECOND, None, "same_step", hostile, True, None, "/alerts?run=a#alert-1")
    over = AlertMark(START + SECOND, START + 9 * SECOND, "stall", "stood still", True, hostile, "/alerts?run=a#alert-2")
    knob = difference(recovery_config('{"max_restarts": 3}'), recovery_config('{"max_restarts": 9}'))
    change = ConfigMark(START + 20 * SECOND, "a@1", knob, hostile, None, "/configs/changes/a%401")
    note = NoteMark(START + 30 * SECOND, None, None, hostile, "#note-1")
    alerts = alert_signs([open_one, over], START + 100 * SECOND, axis)
    changes, notes = config_signs([change], axis), note_signs([note], axis)
    figure = run_figure(RunPicture(axis, alerts=alerts, config_changes=changes, notes=notes), scheme)
    marks = [trace for trace in figure["data"] if trace.get("mode") == "markers"]
    assert {link for trace in marks for link in trace["customdata"]} == {
        "/alerts?run=a#alert-1", "/alerts?run=a#alert-2", "/configs/changes/a%401", "#note-1",
    }  # fmt: skip
    assert len({trace["marker"]["symbol"] for trace in marks}) == 4
    hovers = " ".join(hover for trace in marks for hover in trace["hovertext"])
    assert hostile not in hovers
    assert "&lt;b&gt;x&lt;/b&gt;" in hovers
    assert "restarts by the launcher: 3 → 9" in hovers
    assert "nobody said why" in hovers
    red = [trace for trace in marks if trace["marker"]["color"] == scheme.danger]
    assert [trace["customdata"] for trace in red] == [["/alerts?run=a#alert-1"]]
    assert red[0]["x"] == [axis.text(START)]
    assert [name for _, name, _ in sign_legend([*alerts, *changes, *notes])] == [
        "open alert", "resolved alert", "config change", "note",
    ]  # fmt: skip
