"""Config answers: recovery configs, changes and comparisons as JSON. Lengths are seconds, shares fractions 0…1."""

from __future__ import annotations

from rerail.server.api.answers import plain
from rerail.server.core.comparison.comparing import ArmFigures, Difference
from rerail.server.core.comparison.resampling import Interval
from rerail.server.core.recovery_configs.changes import KnobChange
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.nesting import Violation, violations
from rerail.server.core.report import seconds
from rerail.server.query_config_results import (
    ChangeAbout,
    ChangePage,
    ChangeRow,
    ChangeSide,
    ComparisonView,
    ConfigDifference,
    ConfigPage,
    ConfigRow,
    ConfigView,
)


def config_answer(config: RecoveryConfig, found: tuple[Violation, ...] | None = None) -> dict[str, object]:
    """A recovery config with what must be said of it."""
    return {
        "fingerprint": config.fingerprint,
        "launcher": config.launcher,
        "release": config.release,
        "knobs": {
            each.name: {
                "value": each.value,
                "unit": each.knob.unit or None,
                "standing": each.standing.value,
                "source": each.source or None,
            }
            for each in config.settings
        },
        "others": dict(config.others),
        "refused": [{"field": name, "value": value, "reason": why} for name, value, why in config.refused],
        "remarks": list(config.remarks),
        "violations": plain(violations(config) if found is None else found),
    }


def config_row_answer(row: ConfigRow) -> dict[str, object]:
    """One config over all runs."""
    shown = plain(row)
    assert isinstance(shown, dict)
    return {**shown, "config": config_answer(row.config, row.violations), "violations": plain(row.violations)}


def config_page_answer(page: ConfigPage) -> dict[str, object]:
    """A list of configs."""
    return {"configs": [config_row_answer(row) for row in page.rows], "total": page.total}


def config_view_answer(view: ConfigView) -> dict[str, object]:
    """One config with its uses and changes."""
    return {
        **config_row_answer(view.row),
        "uses": plain(view.uses),
        "changes": [change_answer(each) for each in view.changes],
    }


def difference_answer(found: ConfigDifference) -> dict[str, object]:
    """Two configs."""
    return {
        "first": config_row_answer(found.first),
        "second": config_row_answer(found.second),
        "knobs": [_knob(each) for each in found.knobs],
    }


def change_answer(row: ChangeRow) -> dict[str, object]:
    """One change."""
    change, said = row.change, row.said
    return {
        "change_id": change.change_id,
        "run_id": change.run_id,
        "attempt": change.attempt,
        "at": plain(change.at, "at"),
        "before_run": change.before_run,
        "before_attempt": change.before_attempt,
        "before": change.before,
        "after": change.after,
        "between_runs": change.is_between_runs,
        "initiator": change.initiator,
        "project": change.project,
        "name": change.name,
        "knobs": [_knob(each) for each in change.knobs],
        "told_apart": [_knob(each) for each in change.told_apart],
        "changed_by": said.changed_by,
        "reason": said.reason,
        "explained_by": said.explained_by,
        "explained_at": plain(said.explained_at, "at"),
        "links": [{"kind": kind.value, "id": target, "action": action} for kind, target, action in said.links],
        "actions": plain(said.actions),
        "undone": list(said.undone),
        "sides": {"before": _side(row.before), "after": _side(row.after)},
    }


def change_about_answer(each: ChangeAbout) -> dict[str, object]:
    """A change that has to do with an incident or problem: which of its knobs, why, and who said so."""
    return {
        "why_here": each.reason,
        "is_linked": each.is_linked,
        "incidents": each.incidents,
        "touched": [_knob(one) for one in each.knobs],
        **change_answer(each.row),
    }


def change_page_answer(page: ChangePage) -> dict[str, object]:
    """The ledger."""
    return {"changes": [change_answer(each) for each in page.rows], "total": page.total}


def comparison_answer(view: ComparisonView) -> dict[str, object]:
    """A comparison."""
    return {
        "with": list(view.wanted),
        "sentence": view.comparison.sentence,
        "arms": [_arm(each) for each in view.comparison.arms],
        "differences": [_difference(each) for each in view.comparison.differences],
    }


def _side(side: ChangeSide) -> object:
    return plain(side)


def _knob(each: KnobChange) -> dict[str, object]:
    return {
        "name": each.name,
        "unit": each.old.knob.unit or None,
        "old": each.old.value,
        "old_standing": each.old.standing.value,
        "new": each.new.value,
        "new_standing": each.new.standing.value,
    }


def _arm(figures: ArmFigures) -> dict[str, object]:
    arm = figures.arm
    gpu, plain_time = arm.gpu_ns_per_1000_steps, arm.ns_per_1000_steps
    return {
        "key": arm.key,
        "title": arm.title,
        "runs": list(arm.runs),
        "reference": arm.is_reference,
        "about": arm.about,
        "fault_schedule": arm.schedule,
        "elapsed_seconds": seconds(arm.elapsed_ns),
        "training_goodput": arm.training_goodput,
        "infrastructure_goodput": arm.infrastructure_goodput,
        "infrastructure_goodput_low": figures.infrastructure_low,
        "infrastructure_goodput_high": figures.infrastructure_high,
        "productive_seconds": seconds(arm.productive_ns),
        "losses_seconds": {name: seconds(length) for name, length in arm.losses},
        "kept_steps": arm.kept_steps,
        "gpu_hours_per_1000_steps": None if gpu is None else gpu / 3.6e12,
        "seconds_per_1000_steps": None if plain_time is None else plain_time / 1e9,
        "faults": len(arm.faults),
        "recovered": figures.recovered,
        "failed_relaunches": figures.failed_relaunches,
        "recover": {
            **{name: _interval(each) for name, each in figures.quantiles},
            "max_seconds": seconds(figures.max_ns),
        },
        "restart_p50": _interval(figures.restart_p50),
        "detecting_p50": _interval(figures.detecting_p50),
        "curve": [[length / 1e9, share] for length, share in figures.curve],
        "config": None if arm.config is None else config_answer(arm.config),
    }


def _difference(each: Difference) -> dict[str, object]:
    return {
        "first": each.first,
        "second": each.second,
        "refused": each.is_refused,
        "sentence": each.sentence,
        "caveats": plain(each.caveats),
        "paired_by": each.pairing.paired_by.value,
        "pairs": len(each.pairing.pairs),
        "without_partner": list(each.pairing.alone),
        "training_goodput": each.training,
        "infrastructure_goodput": each.infrastructure,
        "rows": plain(each.rows),
        "recover_paired": _interval(each.paired),
        "recover_median": _interval(each.median),
        "knobs": None if each.knobs is None else [_knob(knob) for knob in each.knobs],
    }


def _interval(each: Interval | None) -> dict[str, object] | None:
    if each is None:
        return None
    return {
        "n": each.n,
        "seconds": each.figure / 1e9,
        "low_seconds": None if each.low is None else each.low / 1e9,
        "high_seconds": None if each.high is None else each.high / 1e9,
    }
