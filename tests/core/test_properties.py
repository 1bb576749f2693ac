"""What must hold for every run that can be told, not only for the recorded ones."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.server.core.facts import Clock, Fact, Initiator, Outcome, Phase
from rerail.server.core.fold import RunFold
from rerail.server.core.timeline import DOWN_PHASES
from rerail.server.core.view import RunView
from tests.story import SECOND, Story

lengths = st.integers(0, 200).map(lambda tenths: tenths / 10)
few = settings(max_examples=settings.default.max_examples * 6 // 10)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Runs of several attempts with saves, stalls, failed relaunches, planned stops, losses of ground and gaps."""
    story = Story(gpus=draw(st.sampled_from([None, 8, 512])))
    step, durable = 0, 0
    if draw(st.booleans()):
        story.queue(draw(lengths))
    for attempt in range(draw(st.integers(1, 5))):
        story.start(Initiator.FAULT if attempt else None)
        if draw(st.booleans()):
            story.phase(Phase.RENDEZVOUS, draw(lengths), "launcher")
        if draw(st.integers(0, 5)) == 0:
            story.die(after=draw(lengths), by="relaunch").stop(draw(lengths))
            continue
        story.bring_up(draw(lengths))
        if attempt and draw(st.booleans()):
            story.load(durable, took=draw(lengths))
        step = durable
        for _ in range(draw(st.integers(0, 6))):
            action = draw(st.sampled_from(["steps", "steps", "save", "async", "eval", "gap", "long step"]))
            if action == "steps":
                count = draw(st.integers(1, 30))
                story.steps(step + 1, step + count, each=draw(st.sampled_from([0.25, 1.0, 3.5])))
                step += count
            elif action == "save":
                story.save(step, blocked=draw(lengths))
                durable = step
            elif action == "async":
                story.save(step, blocked=0.5, write=draw(lengths))
                durable = step
            elif action == "eval":
                story.phase(Phase.EVALUATING, draw(lengths))
            elif action == "gap":
                story.wait(draw(lengths))
            else:
                story.steps(step + 1, step + 1, each=120)
                step += 1
        ending = draw(st.sampled_from(["die", "die", "stop", "open"]))
        if ending == "open":
            return story
        if ending == "die":
            story.die(after=draw(lengths), exit_code=-9).stop(draw(lengths))
        else:
            story.stop(draw(lengths), Outcome.STOPPED)
        if draw(st.booleans()):
            story.queue(draw(lengths))
    return story.finish()


def folded(facts: list[Fact], as_of: int) -> tuple[RunFold, RunView]:
    run = RunFold("story")
    run.add(facts)
    return run, run.view(as_of)


@few
@given(stories())
def test_spans_tile_the_life_and_every_figure_adds_up(story: Story):
    run, view = folded(story.facts, story.at)
    assert view.started_at is not None
    assert all(span.start < span.end for span in run.spans)
    assert all(one.end == other.start for one, other in zip(run.spans, run.spans[1:], strict=False))
    if run.spans:
        assert (run.spans[0].start, run.spans[-1].end) == (view.account.start, view.account.end)
    by_phase = dict(view.account.ns_by_phase)
    assert sum(by_phase.values()) - by_phase.get(Phase.EXCLUDED, 0) == view.account.elapsed_ns
    assert 0 <= view.account.productive_ns <= view.account.elapsed_ns
    assert 0 <= view.account.debt_ns <= by_phase.get(Phase.TRAINING, 0)
    losses = sum(row.length_ns for row in view.account.waterfall if not row.is_total)
    assert view.account.elapsed_ns - losses == view.account.productive_ns
    assert all(row.length_ns >= 0 for row in view.account.waterfall)


@few
@given(stories())
def test_an_incident_is_the_sum_of_its_parts_and_lies_in_the_life(story: Story):
    _, view = folded(story.facts, story.at)
    for incident in view.incidents:
        assert incident.so_far_ns == sum(part.length_ns for part in incident.parts)
        assert incident.time_to_recover_ns in (None, incident.so_far_ns)
        assert 0 <= incident.time_to_restart_ns <= incident.so_far_ns
        down = sum(part.length_ns for part in incident.parts if part.name in {phase.value for phase in DOWN_PHASES})
        assert incident.time_to_restart_ns <= down
        assert (incident.lost_steps or 0) >= 0
        assert view.account.start <= incident.started_at <= (incident.ended_at or view.account.end)
    interrupted = [attempt.number for attempt in view.attempts if attempt.is_interrupted]
    assert sorted(number for incident in view.incidents for number in incident.attempts) == interrupted


@few
@given(stories(), st.randoms(use_true_random=False))
def test_any_order_any_duplicates_and_any_batches_give_the_same_view(story: Story, chance):
    whole, expected = folded(story.facts, story.at)
    told = [*story.facts, *chance.choices(story.facts, k=5)]
    chance.shuffle(told)
    piecewise = RunFold("story")
    saved: dict[str, list[object]] = {"spans": [], "step_points": [], "checkpoints": []}
    while told:
        size = chance.randint(1, 12)
        piecewise.add(told[:size])
        del told[:size]
        piecewise.view(story.at)
        for name, before in saved.items():
            now, settled = list(getattr(piecewise, name)), getattr(piecewise, f"settled_{name}")
            assert now[:settled] == before[:settled], "what is settled is what was there before"
            saved[name] = now
    view = piecewise.view(story.at)
    quality = replace(view.data_quality, late=0, duplicates=0)
    assert replace(view, data_quality=quality) == replace(
        expected, data_quality=replace(expected.data_quality, late=0, duplicates=0)
    )
    for name, at_last in saved.items():
        assert at_last == list(getattr(whole, name))


@few
@given(stories(), st.randoms(use_true_random=False))
def test_a_fold_that_holds_no_fact_and_reads_the_log_again_gives_the_same(story: Story, chance):
    whole, expected = folded(story.facts, story.at)
    told = list(story.facts)
    chance.shuffle(told)
    log: list[Fact] = []
    reader = RunFold("story", lambda: log)
    while told:
        size = chance.randint(1, 12)
        log += told[:size]
        reader.add(told[:size])
        del told[:size]
        reader.view(story.at)
    view = reader.view(story.at)
    assert replace(view, data_quality=replace(view.data_quality, late=0)) == replace(
        expected, data_quality=replace(expected.data_quality, late=0)
    )
    assert reader.spans == whole.spans


@few
@given(stories(), st.integers(-300, 300))
def test_a_clock_that_is_off_and_says_so_changes_no_figure(story: Story, offset_seconds: int):
    _, expected = folded(story.facts, story.at)
    off = offset_seconds * SECOND
    shifted: list[Fact] = []
    workers = set()
    for fact in story.facts:
        if not fact.emitter.startswith("rank/"):
            shifted.append(fact)
            continue
        workers.add(fact.emitter)
        moved = {name: getattr(fact, name) + off for name in ("start", "end") if getattr(fact, name, None) is not None}
        shifted.append(replace(fact, at=fact.at + off, **moved))
    for worker in sorted(workers):
        shifted.append(
            Clock(run="story", emitter=worker, seq=10_000, at=story.at + off, offset_us=off // 1000, error_us=0)
        )
    _, view = folded(shifted, story.at)
    assert view.account == expected.account
    assert [each.parts for each in view.incidents] == [each.parts for each in expected.incidents]


@few
@given(stories(), st.integers(0, 100))
def test_windows_that_follow_one_another_add_up_to_the_whole(story: Story, percent: int):
    from rerail.server.core.goodput import account

    run, view = folded(story.facts, story.at)
    start, end = view.account.start, view.account.end
    cut = start + (end - start) * percent // 100
    whole, first, second = (
        dict(account(run.spans, since, until).ns_by_phase) for since, until in ((start, end), (start, cut), (cut, end))
    )
    assert whole == {
        phase: first.get(phase, 0) + second.get(phase, 0) for phase in Phase if first.get(phase) or second.get(phase)
    }
