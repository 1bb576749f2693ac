"""Recovery configs: every launcher's settings as the same knobs, and what is not known stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.facts import AttemptStarted, Scope
from rerail.server.core.fold import RunFold
from rerail.server.core.recovery_configs.change_actions import (
    ChangeAction,
    ChangeActionKind,
    LinkKind,
    refusal_of,
    said_of,
)
from rerail.server.core.recovery_configs.changes import changes
from rerail.server.core.recovery_configs.knobs import KNOBS, OFF, Standing
from rerail.server.core.recovery_configs.nesting import violations
from rerail.server.core.recovery_configs.normalising import fingerprint_of, normalised
from rerail.server.core.recovery_configs.settings_text import settings_in
from rerail.server.core.recovery_configs.stretches import stretches
from tests.story import BEGINNING, Story

SETTINGS = Path(__file__).parent.parent / "corpus" / "nvrx_settings"
NVRX = "nvidia-resiliency-ext"


def told(**settings: object) -> dict[str, object]:
    return settings


def test_hang_detection_is_off_by_default_since_0_6_and_the_page_says_so_aloud():
    new = normalised(told(max_restarts=3), "ft_launcher", ((NVRX, "0.6.0"),))
    old = normalised(told(max_restarts=3), "ft_launcher", ((NVRX, "0.4.1"),))
    assert (new.setting("heartbeat_timeout").value, old.setting("heartbeat_timeout").value) == (OFF, 2700)
    assert new.setting("heartbeat_timeout").standing is Standing.DEFAULT
    assert any("Hang detection is off" in remark for remark in new.remarks)
    assert not any("Hang detection is off" in remark for remark in old.remarks)


def test_of_an_unknown_release_the_heartbeat_timeout_is_unknown_not_off():
    config = normalised(told(max_restarts=3), "ft_launcher")
    assert config.setting("heartbeat_timeout").standing is Standing.UNKNOWN
    assert any("unknown" in remark for remark in config.remarks)


@pytest.mark.parametrize(("release", "heartbeat"), [("0.4.1", 2700), ("0.6.0", OFF)])
def test_the_settings_objects_of_nvrx_are_read_whole(release: str, heartbeat: object):
    config = normalised(json.loads((SETTINGS / f"{release}.json").read_text()), "ft_launcher", ((NVRX, release),))
    assert config.setting("heartbeat_timeout").value == heartbeat
    assert config.setting("in_process_heartbeat_timeout").value == 30
    assert [config.setting(name).value for name in ("soft_timeout", "hard_timeout", "barrier_timeout")] == [60, 90, 120]
    assert config.refused == ()


def test_a_stated_default_is_the_same_config_as_one_left_out():
    versions = ((NVRX, "0.4.1"),)
    assert (
        normalised(told(max_restarts=3), "ft_launcher", versions).fingerprint
        == normalised(told(max_restarts=3, rank_heartbeat_timeout=2700.0), "ft_launcher", versions).fingerprint
    )


def test_paths_and_addresses_make_no_other_config():
    one = fingerprint_of('{"max_restarts":3,"log_dir":"/a"}', "torchrun")
    assert one == fingerprint_of('{"max_restarts":3,"log_dir":"/b"}', "torchrun") is not None
    assert fingerprint_of(None) is None
    assert fingerprint_of('{"log_dir":"/a"}') is None


@pytest.mark.parametrize(
    ("name", "value", "knob", "expected"),
    [
        ("--ft-rank-heartbeat-timeout", "90s", "heartbeat_timeout", 90),
        ("ft_param_rank_heartbeat_timeout", 90.0, "heartbeat_timeout", 90),
        ("soft_timeout", "0:01:30", "soft_timeout", 90),
        ("distributed-timeout-minutes", 10, "collective_timeout", 600),
        ("async_save", True, "checkpoint_mode", "async"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "480", "nccl_heartbeat_timeout", 480),
        ("rank_section_timeouts", {"step": 60, "setup": None}, "section_timeouts", "step 60"),
        ("slurm_time_limit", "1-02:00:00", "scheduler_limit", 93_600),
        ("nnodes", "8:10", "spares", 2),
    ],
)
def test_a_setting_is_known_by_whatever_name_a_launcher_gives_it(name: str, value: object, knob: str, expected: object):
    assert normalised({name: value}).setting(knob).value == expected


def test_what_cannot_be_read_is_refused_by_name_and_leaves_its_knob_unknown():
    config = normalised(told(rank_heartbeat_timeout="soon", max_restarts=2), "ft_launcher", ((NVRX, "0.4.1"),))
    assert config.refused == (("rank_heartbeat_timeout", "soon", "not a length of time"),)
    assert config.setting("heartbeat_timeout").value is None
    assert config.setting("max_restarts").value == 2


def test_timeouts_in_the_wrong_order_are_told_in_a_sentence():
    config = normalised(told(collective_timeout=1800, rank_heartbeat_timeout=600, soft_timeout=90, hard_timeout=60))
    first, second = violations(config)
    assert (first.inner, first.outer) == ("collective_timeout", "heartbeat_timeout")
    assert "30\u202fmin" in first.sentence and "who did not come" in first.sentence
    assert (second.inner, second.outer) == ("soft_timeout", "hard_timeout")


def test_every_pair_in_the_wrong_order_is_told_and_not_neighbours_alone():
    config = normalised(
        told(rank_section_timeouts={"step": 2000}, collective_timeout=1800, rank_heartbeat_timeout=60, time_limit=600)
    )
    pairs = {(each.inner, each.outer) for each in violations(config)}
    assert ("section_timeouts", "heartbeat_timeout") in pairs and ("section_timeouts", "collective_timeout") in pairs
    assert all(each.sentence for each in violations(config))


def test_what_is_off_or_unknown_is_stepped_over():
    config = normalised(told(rank_section_timeouts={"step": 700}, rank_heartbeat_timeout=600, collective_timeout=None))
    assert [(each.inner, each.outer) for each in violations(config)] == [("section_timeouts", "heartbeat_timeout")]
    assert violations(normalised(told(rank_heartbeat_timeout=None, collective_timeout=10))) == ()


def test_settings_are_found_in_scripts_yaml_and_toml():
    script = "#SBATCH --time=02:00:00\nexport TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=480\nft_launcher --max-restarts=3 \\\n"
    script += "  --ft-rank-heartbeat-timeout 300 train.py\n"
    config = normalised(settings_in(script), "ft_launcher")
    assert config.setting("scheduler_limit").value == 7200
    assert config.setting("heartbeat_timeout").value == 300
    assert config.setting("nccl_heartbeat_timeout").value == 480
    yaml = normalised(
        settings_in("fault_tolerance:\n  rank_heartbeat_timeout: 300\n  rank_out_of_section_timeout: null\n")
    )
    assert (yaml.setting("heartbeat_timeout").value, yaml.setting("out_of_section_timeout").value) == (300, OFF)
    assert normalised(settings_in("max_restarts = 4\n")).setting("max_restarts").value == 4


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["rank_heartbeat_timeout", "soft_timeout", "max_restarts", "nnodes", "async_save", "sections"])


@given(st.dictionaries(NAMES | st.text(max_size=20), VALUES, max_size=6))
def test_whatever_is_told_gives_every_knob_and_the_same_fingerprint_again(settings: dict[str, object]):
    config = normalised(settings, "ft_launcher")
    assert [each.name for each in config.settings] == [knob.name for knob in KNOBS]
    assert config == normalised(dict(reversed(settings.items())), "ft_launcher")
    violations(config)


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str):
    normalised(settings_in(text))


def changing(heartbeats: tuple[int, ...]) -> Story:
    story = Story()
    for index, heartbeat in enumerate(heartbeats):
        story.start(config=json.dumps({"rank_heartbeat_timeout": heartbeat})).bring_up(10)
        story.steps(1 + 50 * index, 50 + 50 * index)
        if index < len(heartbeats) - 1:
            story.die(after=20).stop(1)
    return story.finish()


def test_a_stretch_is_successive_attempts_under_one_config_and_their_time_sums_to_the_run():
    story = changing((300, 300, 600))
    fold = story.fold()
    view = fold.view(story.at)
    first, second = stretches(view, fold.spans)
    assert (first.attempts, second.attempts) == (2, 1)
    assert first.elapsed_ns + second.elapsed_ns == view.account.elapsed_ns
    assert first.kept_steps + second.kept_steps == view.high_water_step == 150


def test_a_change_names_the_knob_its_old_and_new_value_and_where_it_took_effect():
    story = changing((300, 300, 600))
    fold = story.fold()
    (change,) = changes(stretches(fold.view(story.at), fold.spans))
    assert (change.change_id, change.before_attempt) == ("story@2", 1)
    assert [(each.name, each.old.value, each.new.value) for each in change.knobs] == [("heartbeat_timeout", 300, 600)]


def test_the_latest_explanation_that_was_not_undone_holds_and_nothing_is_undone_twice():
    first = ChangeAction(1, 10, "a@1", ChangeActionKind.EXPLAIN, "Ada", "Ada", "too slow")
    second = ChangeAction(2, 20, "a@1", ChangeActionKind.EXPLAIN, "Ben", "Ben", "wrong")
    undo = ChangeAction(3, 30, "a@1", ChangeActionKind.UNDO, "Ada", undoes=2)
    assert said_of("a@1", [first, second]).reason == "wrong"
    assert said_of("a@1", [undo, second, first]).reason == "too slow"
    assert refusal_of(undo, [first, second]) is None
    assert refusal_of(undo, [first, second, undo]) == ("undoes", "undone already")
    link = ChangeAction(4, 40, "a@1", ChangeActionKind.LINK, target_kind=LinkKind.INCIDENT, target="a~0")
    assert refusal_of(link, [link]) == ("target", "linked already")


def test_an_in_process_restart_keeps_the_settings_of_its_process():
    told_once = AttemptStarted(
        run="a", emitter="rank/0", seq=0, at=BEGINNING, restart=0, iteration=0, config='{"max_restarts":3}'
    )
    again = AttemptStarted(
        run="a", emitter="rank/0", seq=1, at=BEGINNING + 10**9, restart=0, iteration=1, scope=Scope.IN_PROCESS
    )
    for order in ([told_once, again], [again, told_once]):
        fold = RunFold("a")
        for fact in order:
            fold.add([fact])
            fold.view(BEGINNING + 2 * 10**9)
        view = fold.view(BEGINNING + 3 * 10**9)
        assert [attempt.config for attempt in view.attempts] == ['{"max_restarts":3}'] * 2
        assert len(stretches(view, fold.spans)) == 1
