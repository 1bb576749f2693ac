"""Alerts on both databases: what rules see, what people do, what is told; nothing lost, nothing told twice at once."""

from __future__ import annotations

import threading
from collections.abc import Collection
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.server.alert_watch import LAPSED_EVERY, AlertWatch
from rerail.server.alerts import AlertDesk
from rerail.server.core.alert_life import Change
from rerail.server.core.alert_rules import Finding, Severity, key_of
from rerail.server.core.facts import Evidence, Initiator, Outcome, Phase
from rerail.server.core.stakes import stake
from rerail.server.core.view import RunState
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.query_dry_runs import DryRuns, dry_run
from rerail.server.store import Store
from rerail.server.store.alert_messages import enqueue_groups
from rerail.server.store.alert_rows import ChannelRow, Looked
from rerail.ui.markup import html
from rerail.ui.pages.fleet import content
from tests.generated import runs
from tests.story import Story

S = 10**9
HOUR = 3600 * S
numbers = count()


class Clock:
    """A clock that stands where it is put."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at


def looping(run: str = "a", deaths: int = 4) -> Story:
    story = Story(run).start().bring_up(20).steps(1, 50)
    for _ in range(deaths):
        story.die(after=5).stop(2).start().bring_up(20).steps(51, 53)
    return story


@pytest.fixture
def clock() -> Clock:
    return Clock(looping().at + 2 * S)


@pytest.fixture
def seen(store: Store, clock: Clock, batch) -> Store:
    """A store in which the rules saw a crash loop, with one channel."""
    store.alerts.put_channel(ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), "secret")
    store.append([batch(*looping().facts)])
    Projector(store, clock).derive_due()
    assert AlertWatch(store, clock).round() == 1
    return store


def looked(run: str, rule: str = "silence", at: int = 1, is_there: bool = True, mark: str = "") -> Looked:
    finding = Finding(rule, run, f"Nothing is heard of {run}.", Severity.URGENT, mark=mark) if is_there else None
    return Looked(key_of(rule, run, ""), run, rule, "", at, finding, False)


def test_a_crash_loop_is_an_open_alert_with_its_problem_and_one_message(seen: Store, clock: Clock):
    page = Queries(seen, clock).alerts.alerts()
    assert {each.row.rule for each in page.rows} >= {"same_fault_again"}
    assert dict(page.standings)["open"] == len(page.rows)
    row = next(each.row for each in page.rows if each.row.rule == "same_fault_again")
    assert row.group_key == f"problem:{row.problem_id}"
    assert seen.problems.problem_sums([row.problem_id])
    messages = seen.alerts.messages(None, 10)
    assert [message.group_key for message in messages].count(row.group_key) == 1


def test_looking_again_and_replaying_change_nothing_that_people_did(seen: Store, clock: Clock):
    desk = AlertDesk(seen, clock)
    key = Queries(seen, clock).alerts.alerts().rows[0].row.key
    desk.act(key, {"action": "acknowledge", "author": "Ada", "reason": "looking"})
    before = seen.alerts.events(key)
    messages = len(seen.alerts.messages(None, 10))
    seen.make_all_due()
    for _ in range(3):
        Projector(seen, clock).derive_due()
        AlertWatch(seen, clock).round()
    assert seen.alerts.events(key) == before
    assert len(seen.alerts.messages(None, 10)) == messages
    assert Queries(seen, clock).alerts.alert(key).life.acknowledged_by == "Ada"


def test_people_act_on_what_they_saw_and_undo_it(seen: Store, clock: Clock):
    desk = AlertDesk(seen, clock)
    alerts = Queries(seen, clock).alerts
    key = alerts.alerts().rows[0].row.key
    revision = alerts.alert(key).life.revision
    done = desk.act(key, {"action": "silence", "seconds": 3600, "author": "Ada", "revision": revision})
    assert alerts.alert(key).standing == "silenced"
    assert alerts.alerts("silenced").total == 1
    with pytest.raises(RefusedRequestError, match="Ada did “silence”"):
        desk.act(key, {"action": "resolve", "revision": revision})
    desk.act(key, {"action": "undo", "undoes": done.event_id})
    assert alerts.alert(key).standing == "open"
    clock.at += 1
    desk.act(key, {"action": "resolve", "reason": "smaller batch"})
    assert alerts.alert(key).life.resolution == "smaller batch"
    assert alerts.alerts("resolved").total == 1
    with pytest.raises(NotFoundError):
        desk.act("silence::nobody", {"action": "acknowledge"})


def test_what_a_list_is_narrowed_to_narrows_what_is_done_to_a_group(store: Store, clock: Clock):
    assert store.alerts.record(0, 1, [looked(f"{name} 1", at=clock.at) for name in "aabbbc"[1:]], clock.at)
    desk, alerts, group = AlertDesk(store, clock), Queries(store, clock).alerts, "rule:silence"
    assert alerts.alerts(search="b").groups == {group: {"open": 1}}
    assert {each.key for each in desk.act_on_group(group, {"action": "acknowledge", "search": "B 1"})} == {
        "silence::b 1"
    }
    clock.at += 1
    assert [each.standing.value for each in alerts.alerts().rows] == ["open", "open", "acknowledged"]
    silenced = desk.act_on_group(group, {"action": "silence", "seconds": 60, "standing": "open", "run": "c 1"})
    assert [each.key for each in silenced] == ["silence::c 1"]
    assert [each.standing.value for each in alerts.alerts().rows] == ["open", "acknowledged", "silenced"]
    clock.at += 1
    for said, field in (({"search": "nobody"}, "action"), ({"standing": "asleep"}, "standing")):
        with pytest.raises(RefusedRequestError, match=f": {field}: "):
            desk.act_on_group(group, {"action": "resolve", **said})


def test_a_new_channel_is_told_of_what_is_open_already_where_that_is_asked_for(store: Store, clock: Clock):
    assert store.alerts.record(0, 1, [looked(f"run {number}", at=clock.at) for number in range(3)], clock.at)
    desk = AlertDesk(store, clock)
    said = {"name": "day", "kind": "webhook", "address": "http://127.0.0.1:9/"}
    desk.put_channel(0, said)
    assert store.alerts.messages(None, 5) == ()
    told = desk.put_channel(0, {**said, "tell_standing": True})
    (message,) = store.alerts.messages(None, 5)
    assert (message.channel_id, message.group_key, message.count) == (told.channel_id, "rule:silence", 3)


def test_a_whole_group_is_taken_silenced_resolved_and_given_back_at_once(store: Store, clock: Clock):
    keys = [f"silence::run {number}" for number in range(3)]
    assert store.alerts.record(0, 1, [looked(f"run {number}", at=clock.at) for number in range(3)], clock.at)
    desk, alerts, group = AlertDesk(store, clock), Queries(store, clock).alerts, "rule:silence"

    def standings() -> list[str]:
        return [alerts.alert(key).standing.value for key in keys]

    desk.act(keys[0], {"action": "acknowledge", "author": "Ada"})
    assert alerts.alerts().groups == {group: {"acknowledged": 1, "open": 2}}
    clock.at += 1
    taken = desk.act_on_group(group, {"action": "acknowledge", "author": "Ben"})
    assert [each.key for each in sorted(taken, key=lambda each: each.key)] == keys[1:]
    assert [alerts.alert(key).life.acknowledged_by for key in keys] == ["Ada", "Ben", "Ben"]
    with pytest.raises(RefusedRequestError, match="Ben did “acknowledge”"):
        desk.act_on_group(group, {"action": "resolve", "revision": taken[0].event_id - 1})
    assert standings() == ["acknowledged"] * 3
    clock.at += 1
    assert len(desk.act_on_group(group, {"action": "silence", "seconds": 60})) == 3
    store.alerts.put_channel(ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), None)
    clock.at += 1
    done = desk.act_on_group(group, {"action": "resolve", "reason": "new switch"})
    assert standings() == ["resolved"] * 3
    assert [message.count for message in store.alerts.messages("waiting", 5)] == [3]
    assert alerts.alerts().groups == {}
    clock.at += 1
    assert len(desk.act_on_group(group, {"action": "undo", "undoes": done[1].event_id})) == 3
    assert standings() == ["silenced"] * 3
    clock.at += 1
    desk.act_on_group(group, {"action": "undo", "undoes": taken[0].event_id})
    desk.act_on_group(group, {"action": "unsilence"})
    assert standings() == ["acknowledged", "open", "open"]
    for said, field in (
        ({"action": "undo", "undoes": done[0].event_id}, "undoes"),
        ({"action": "undo"}, "undoes"),
        ({"action": "reopen"}, "action"),
        ({"action": "unsilence"}, "action"),
        ({"action": "silence", "until": 5}, "until"),
    ):
        with pytest.raises(RefusedRequestError, match=f": {field}: "):
            desk.act_on_group(group, said)
    with pytest.raises(NotFoundError):
        desk.act_on_group("problem:nobody", {"action": "acknowledge"})


@pytest.mark.parametrize("before", [None, "acknowledge", "silence"])
@pytest.mark.parametrize("is_group", [False, True])
def test_resolving_covers_what_an_alert_grew_to_since_it_fired(store: Store, clock: Clock, batch, before, is_group):
    """Every alert of a crash loop: fired at its third death, resolved after its tenth, opened again by one more."""
    desk, watch = AlertDesk(store, clock), AlertWatch(store, clock)

    def tell(story: Story) -> None:
        store.append([batch(*story.facts)])
        clock.at = story.at + 2 * S
        Projector(store, clock).derive_due()
        watch.round()

    def alerts(standing: str | None = None) -> dict[str, str]:
        return {each.row.key: each.row.sentence for each in Queries(store, clock).alerts.alerts(standing).rows}

    tell(looping("a", 3))
    fired = alerts("open")
    assert any("3 times in a row" in sentence for sentence in fired.values())
    tell(looping("a", 10))
    assert set(alerts("open")) >= set(fired)
    assert any("10 times in a row" in sentence for sentence in alerts("open").values()), "told as it is by now"
    groups = {row.row.group_key for row in Queries(store, clock).alerts.alerts("open").rows}
    for action in (before, "resolve"):
        if action is None:
            continue
        said = {"action": action, **({"seconds": 3600} if action == "silence" else {})}
        for what in groups if is_group else alerts():
            (desk.act_on_group if is_group else desk.act)(what, said)
    assert set(alerts("resolved")) == set(alerts())
    for _ in range(3):
        clock.at += 10 * S
        store.make_all_due()
        Projector(store, clock).derive_due()
        watch.round()
        watch.start_over()
    assert [key for key in alerts() if key not in alerts("resolved")] == []
    tell(looping("a", 11))
    is_back = {key for key in alerts() if key not in alerts("resolved")}
    assert is_back >= {key for key in fired if key.startswith(("same_fault_again", "short_attempts"))}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"action": "explode"}, "action"),
        ({"action": "fired"}, "action"),
        ({"action": "silence"}, "until"),
        ({"action": "silence", "until": 5}, "until"),
        ({"action": "acknowledge", "until": 5}, "until"),
        ({"action": "undo", "undoes": 99999}, "undoes"),
        ({"action": "acknowledge", "colour": 1}, "colour"),
        ({"action": "acknowledge", "author": 5}, "author"),
        ({"action": "acknowledge", "reason": "x" * 5000}, "reason"),
        ({"action": "unsilence"}, "action"),
        ({"action": "reopen"}, "action"),
    ],
)
def test_nonsense_is_refused_with_its_field(seen: Store, clock: Clock, said, field):
    key = Queries(seen, clock).alerts.alerts().rows[0].row.key
    with pytest.raises(RefusedRequestError) as refused:
        AlertDesk(seen, clock).act(key, said)
    assert refused.value.message.startswith(field)


def test_who_looked_from_an_old_place_writes_nothing(store: Store):
    assert store.alerts.record(0, 5, [looked("a")], S) is not None
    assert store.alerts.record(0, 6, [looked("b")], S) is None
    assert store.alerts.seen() == 5
    assert store.alerts.alerts([looked("b").key]) == {}


def test_two_watches_at_once_see_everything_once(store: Store, clock: Clock, batch):
    store.append([batch(*looping(run).facts) for run in ("a", "b", "c")])
    Projector(store, clock).derive_due()
    watches = [threading.Thread(target=AlertWatch(store, clock).round) for _ in range(4)]
    for each in watches:
        each.start()
    for each in watches:
        each.join()
    AlertWatch(store, clock).round()
    for row in Queries(store, clock).alerts.alerts().rows:
        changes = [each.change for each in store.alerts.events(row.row.key)]
        assert changes == [Change.FIRED]


def test_a_storm_of_ten_thousand_ends_as_a_few_messages(store: Store):
    store.alerts.put_channel(ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), None)
    seen = 0
    for first in range(0, 10_000, 2500):
        storm = [looked(f"run-{number}") for number in range(first, first + 2500)]
        assert len(store.alerts.record(seen, first + 1, storm, first + S) or ()) == 2500
        seen = first + 1
    messages = store.alerts.messages(None, 100)
    assert len(messages) == 1
    assert messages[0].count == 10_000
    assert len(messages[0].entries) <= 1000
    claimed = store.alerts.claim(10 * S, HOUR, ())
    assert len(claimed) == 1
    more = [looked(f"late-{number}") for number in range(100)]
    store.alerts.record(seen, 20_000, more, 11 * S)
    later = store.alerts.messages("waiting", 10)[0]
    assert later.due_at - messages[0].due_at == 300 * S, "the next of a group comes later"


def test_the_first_urgent_word_of_a_group_does_not_wait_behind_a_notice(store: Store):
    store.alerts.put_channel(ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), None)

    def told(run: str, rule: str, at: int) -> int:
        with store.alerts._messages._write.begin() as connection:
            enqueue_groups(connection, at, {"problem:1": [(key_of(rule, run, ""), Change.FIRED.value, at)]})
        return store.alerts.messages("waiting", 10)[0].due_at

    assert told("a", "same_node", 10 * S) == 11 * S
    (claimed,) = store.alerts.claim(11 * S, S, ())
    store.alerts.finish(claimed.message_id, 11 * S, None, None)
    assert told("a", "timeout_headroom", 12 * S) == 311 * S
    assert told("a", "same_fault_again", 20 * S) == 21 * S, "and what waited goes with it"
    (claimed,) = store.alerts.claim(21 * S, S, ())
    assert len(claimed.entries) == 2
    store.alerts.finish(claimed.message_id, 21 * S, None, None)
    assert told("b", "same_fault_again", 30 * S) == 321 * S, "the group was told that it is urgent"


def test_many_groups_at_once_are_one_message(store: Store):
    store.alerts.put_channel(ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), None)
    store.alerts.record(0, 1, [looked(f"r{number}", rule=f"rule_{number}") for number in range(30)], S)
    assert [message.group_key for message in store.alerts.messages(None, 10)] == ["storm"]


def test_a_claim_is_a_lease_and_a_dead_letter_can_be_revived(store: Store):
    channel = store.alerts.put_channel(
        ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), None
    )
    message = store.alerts.enqueue(channel.channel_id, "test", (), S)
    assert [each.message_id for each in store.alerts.claim(2 * S, HOUR, ())] == [message]
    assert store.alerts.claim(3 * S, HOUR, ()) == ()
    assert [each.tries for each in store.alerts.claim(2 * S + HOUR, HOUR, ())] == [2]
    store.alerts.finish(message, 3 * HOUR, "it answered 500", None)
    assert [each.error for each in store.alerts.messages("dead", 5)] == ["it answered 500"]
    assert store.alerts.revive(message, 4 * HOUR)
    assert not store.alerts.revive(message, 4 * HOUR)
    assert len(store.alerts.claim(4 * HOUR, HOUR, ())) == 1
    assert store.alerts.claim(9 * HOUR, HOUR, (channel.channel_id,)) == (), "a busy channel gets nothing more"


def test_thresholds_are_kept_with_their_history_and_undone(store: Store, clock: Clock):
    desk = AlertDesk(store, clock)
    first = desk.change_thresholds(
        {"rule": "silence", "values": {"seconds": 60}, "author": "Ada", "reason": "small runs"}
    )
    desk.change_thresholds({"rule": "silence", "project": "atlas", "values": {"seconds": 900}})
    views = {view.rule.name: view for view in Queries(store, clock).alerts.rules()}
    assert dict(views["silence"].values)["seconds"] == 60
    assert views["silence"].projects == (("atlas", (("seconds", 900.0),)),)
    desk.change_thresholds({"rule": "silence", "undoes": first.change_id})
    views = {view.rule.name: view for view in Queries(store, clock).alerts.rules()}
    assert dict(views["silence"].values)["seconds"] == 300
    assert [gone for _, gone in views["silence"].history] == [False, False, True]
    with pytest.raises(RefusedRequestError, match="seconds"):
        desk.change_thresholds({"rule": "silence", "values": {"seconds": float("nan")}})


def test_a_dry_run_tells_what_other_thresholds_would_have_found(seen: Store, clock: Clock):
    alerts = Queries(seen, clock).alerts
    before = seen.alerts.messages(None, 10)
    done = alerts.dry_run("same_fault_again", {"times": 500})
    assert (done.runs, done.looked_at, done.alerts, done.alerts_now) == (1, 1, 0, 1)
    done = alerts.dry_run("same_fault_again", {"times": 2})
    assert done.alerts >= 1
    assert done.examples[0].run_id == "a"
    assert seen.alerts.messages(None, 10) == before


def test_a_dry_run_looks_at_what_has_most_attempts_first_and_says_how_far_it_came(store: Store, clock: Clock, batch):
    """A long loop among short ones, of which the rule need not read those with too few attempts."""
    store.append([batch(*looping("zz", 25).facts), *(batch(*looping(f"b{one}", 2).facts) for one in range(3))])
    clock.at = looping("zz", 25).at + 2 * S
    while Projector(store, clock).derive_due():
        pass
    first, *others, done = dry_run(store, clock.at, "same_fault_again", {"times": 20}, "", 30)
    assert (first.looked_at, first.alerts, first.is_done, first.is_whole) == (1, 1, False, False)
    assert [each.alerts for each in others] == [1] * len(others)
    assert (done.runs, done.looked_at, done.alerts, done.alerts_now, done.is_whole) == (4, 4, 1, 1, True)
    assert done.examples[0].sentence.startswith("The same fault 20 times in a row")


def test_dry_runs_go_on_in_the_background_and_the_oldest_gives_way(seen: Store, clock: Clock):
    runs = DryRuns(seen, clock)
    numbers = [runs.begin("silence", {"seconds": 60.0 + one}, "", 30) for one in range(4)]
    states = [runs.state(number, 20.0) for number in numbers]
    assert all(each.is_done for each in states)
    assert states[-1].is_whole
    assert runs.state(numbers[-1]) == states[-1], "asked again it is the same"
    for what in (lambda: runs.state("77"), lambda: runs.begin("nothing", {}, "", 30)):
        with pytest.raises(NotFoundError):
            what()


def test_a_channel_never_gives_its_secret_back(seen: Store):
    row = seen.alerts.channels()[0]
    assert row.has_secret
    assert "secret" not in repr(row).replace("has_secret", "").replace("secret_end", "")
    seen.alerts.put_channel(row._replace(name="day"), None)
    assert seen.alerts.channel_secrets() == {row.channel_id: "secret"}
    assert seen.alerts.drop_channel(row.channel_id)
    assert seen.alerts.messages("waiting", 10) == ()
    assert not seen.alerts.drop_channel(row.channel_id)


def test_the_fleet_is_summed_with_the_period_before(seen: Store, clock: Clock):
    view = Queries(seen, clock).fleet_page.view()
    assert view.now.elapsed_ns > 0
    assert view.before.elapsed_ns == 0
    assert 0 < view.now.training_goodput < view.now.infrastructure_goodput < 1
    assert sum(each.elapsed_ns for each in view.columns) == view.now.elapsed_ns
    assert [each.run.run_id for each in view.wanting] == ["a"]
    assert view.wanting[0].reason == "alert"
    assert sum(each.incidents for each in view.causes) == 2


def test_what_runs_without_a_gpu_number_lost_is_unknown_and_never_nothing(store: Store, batch):
    nobody, both = Story("nobody", gpus=None), Story("counted", gpus=8)
    for story in (nobody, both):
        story.start().steps(1, 20).die(after=5).stop(1).start(Initiator.FAULT).steps(21, 25).finish()
    clock = Clock(nobody.at + 2 * S)
    store.append([batch(*nobody.facts)])
    Projector(store, clock).derive_due()
    view = Queries(store, clock).fleet_page.view()
    assert (view.now.lost_gpu_ns, view.now.uncounted_ns) == ((), view.now.elapsed_ns - view.now.productive_ns)
    shown = html.Div(content(view)).words()
    assert "lostunknownbefore" in shown
    assert "Unknown: no run told its GPUs." in shown
    store.append([batch(*both.facts)])
    Projector(store, clock).derive_due()
    view = Queries(store, clock).fleet_page.view()
    assert view.now.uncounted_ns > 0
    assert (view.runs_lived, view.runs_without_gpus) == (2, 1)
    assert view.now.elapsed_gpu_ns == 8 * (view.now.elapsed_ns - view.now.elapsed_ns // 2)
    assert "1 of 2 runs tells no GPUs and is left out of these" in html.Div(content(view)).words()


def test_a_run_of_whose_steps_nobody_tells_is_in_no_goodput_of_the_fleet(store: Store, batch):
    seen, unseen = Story("seen", gpus=8), Story("unseen", gpus=8)
    seen.start().bring_up(10).steps(1, 90).finish()
    unseen.start().wait(500).die(after=5).stop(40).start(Initiator.FAULT).wait(455)
    clock = Clock(unseen.at + 2 * S)
    told = [fact for fact in unseen.facts if fact.emitter == "launcher"]
    store.append([batch(*told)])
    Projector(store, clock).derive_due()
    view = Queries(store, clock).fleet_page.view()
    assert (view.now.training_goodput, view.now.infrastructure_goodput) == (None, None)
    assert "is unknown: nobody tells the steps of 1 run" in html.Div(content(view)).words()
    store.append([batch(*seen.facts)])
    Projector(store, clock).derive_due()
    view = Queries(store, clock).fleet_page.view()
    assert (view.now.training_goodput, view.now.elapsed_ns) == (0.9, 100 * S)
    assert (view.runs_lived, view.runs_unseen, view.runs_without_gpus) == (2, 1, 0)
    assert dict(view.now.lost_gpu_ns)[Phase.STOPPING] == 8 * 40 * S, "what its faults cost is known all the same"
    assert "without 1 of 2 runs of which nobody tells steps" in html.Div(content(view)).words()


def test_who_needs_a_person_is_ranked_by_what_is_being_lost(store: Store, batch):
    """A small crash loop, a large run that does nothing, one of unknown size, one that is over; not who trains."""
    loop, large, training, unknown, over = (
        looping("loop"), Story("large", gpus=512), looping("training"), Story("unknown", gpus=None), looping("over"),
    )  # fmt: skip
    loop.die(after=5).stop(2)
    large.start().bring_up(20).steps(1, 50).die(after=5).stop(2)
    training.steps(54, 4000)
    unknown.start().bring_up(20).steps(1, 50)
    over.die(after=5).stop(2).finish(Outcome.FAILED)
    clock = Clock(training.at + 2 * S)
    stories = (loop, large, training, unknown, over)
    store.append([batch(*story.facts) for story in stories])
    Projector(store, clock).derive_due()
    watch = AlertWatch(store, clock)
    while watch.round():
        pass
    found = Queries(store, clock).fleet_page.view().wanting
    assert [each.run.run_id for each in found] == ["large", "loop", "unknown", "over"]
    said = {each.run.run_id: each.stake.sentence for each in found}
    assert said["large"] == "512 GPUs may stand idle: 512 GPU-h an hour at stake."
    assert said["over"] == "It is over: nothing is being lost."


@pytest.mark.parametrize(
    ("told", "rate", "sentence"),
    [
        ((RunState.ALIVE, Phase.DETECTING, 64, 0.5, False), 64.0, "64 GPUs without progress: 64 GPU-h lost an hour."),
        ((RunState.ALIVE, Phase.TRAINING, 1, 0.5, True), 1.0, "1 GPU without progress: 1 GPU-h lost an hour."),
        ((RunState.ALIVE, Phase.TRAINING, 8, 0.75, False), 2.0, "It trains; 2.0 of 8 GPU-h an hour were lost so far."),
        (
            (RunState.ALIVE, Phase.TRAINING, None, 0.75, False),
            None,
            "What it loses is unknown: no GPU number was told.",
        ),
        ((RunState.ALIVE, Phase.TRAINING, 8, None, False), None, "8 GPUs; what it loses is unknown."),
    ],
)
def test_a_stake_says_what_is_lost_an_hour(told, rate, sentence):
    *state, is_open = told
    found = stake(*state, has_open_incident=is_open)
    assert (found.rate, found.sentence) == (rate, sentence)


def firing(store: Store, runs: Collection[str] | None = None) -> dict[str, bool]:
    """Every alert that was ever written down, of some runs or of all, and whether its condition holds."""
    rows, _ = store.alerts.rows(None, "", None, 0, 0, 10_000)
    return {row.key: row.is_firing for row in rows if runs is None or row.run in runs}


@settings(
    max_examples=max(6, settings.default.max_examples // 12),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(st.data())
def test_looking_at_what_changed_comes_to_what_looking_at_everything_does(store: Store, batch, data: st.DataObject):
    """Runs that share nodes, told bit by bit; some end; thresholds change, alerts are silenced, and time passes."""
    name = f"{next(numbers)}"
    made = data.draw(runs(run=f"generated-{name}", most_attempts=4))
    left = {f"generated-{name}": list(made.facts)}
    for run, is_over in ((f"ended-{name}", True), (f"open-{name}", False)):
        story = Story(run).start().bring_up(20).steps(1, 5)
        xid = Evidence(run=run, emitter="kernel", seq=0, at=story.at + S, source="kernel_log", node=f"node-{name}",
                       text="NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus.", job="1")  # fmt: skip
        story.die(after=5).stop(2).start().bring_up(20).steps(6, 9)
        left[run] = [xid, *(story.finish() if is_over else story).facts]
    clock = Clock(made.as_of + S)
    watch, projector = AlertWatch(store, clock), Projector(store, clock)
    desk = AlertDesk(store, clock)
    for _ in range(6):
        for run, facts in left.items():
            told = data.draw(st.integers(0, len(facts)), label=f"facts of {run}")
            if told:
                store.append([batch(*facts[:told], received_at=clock.at)])
                del facts[:told]
        done = data.draw(st.sampled_from(["nothing", "thresholds", "silence", "resolve"]))
        if done == "thresholds":
            rule, value = data.draw(
                st.sampled_from([("same_node", 0), ("silence", 0), ("silence", 1), ("same_node", 1)])
            )
            desk.change_thresholds({"rule": rule, "values": {"on": value}})
        elif (standing := sorted(key for key, holds in firing(store, left).items() if holds)) and done != "nothing":
            key = data.draw(st.sampled_from(standing))
            if not store.alerts.alerts([key])[key][1].is_resolved:
                desk.act(key, {"action": done} | ({"seconds": 600} if done == "silence" else {}))
        # What time alone changes is looked for so often: sooner, the two may differ.
        clock.at += data.draw(st.sampled_from([LAPSED_EVERY, 60 * S, HOUR, 25 * HOUR]))
        while projector.derive_due():
            pass
        while watch.round():
            pass
        stands = firing(store, left)  # other examples have another clock
        everything = AlertWatch(store, clock)
        everything.start_over()
        while everything.round():
            pass
        assert firing(store, left) == stands
        watch.lost()


def test_alerts_of_a_run_that_is_over_follow_the_time(store: Store, clock: Clock, batch):
    """Nobody saves the run any more: a silence ends all the same, and a day later nothing is found of it."""
    store.append([batch(*looping().finish().facts)])
    Projector(store, clock).derive_due()
    watch, desk = AlertWatch(store, clock), AlertDesk(store, clock)
    assert watch.round() == 1
    key = next(key for key, holds in firing(store).items() if holds)
    desk.act(key, {"action": "silence", "seconds": 600})
    clock.at += 601 * S
    watch.round()
    assert store.alerts.events(key)[-1].change is Change.UNSILENCE
    assert Queries(store, clock).alerts.alert(key).standing == "open"
    clock.at += 24 * HOUR
    watch.round()
    assert store.alerts.events(key)[-1].change is Change.CLEARED
    assert not any(firing(store).values())


def test_alerts_and_config_changes_lie_on_the_timeline_of_their_run(store: Store, clock: Clock, batch):
    story = Story("a").start(config='{"rank_heartbeat_timeout": 300}').bring_up(20).steps(1, 50)
    story.die(after=5).stop(2).start(config='{"rank_heartbeat_timeout": 90}').bring_up(20).steps(51, 53)
    for _ in range(3):
        story.die(after=5).stop(2).start().bring_up(20).steps(51, 53)
    store.append([batch(*story.facts), batch(*looping("other").facts)])
    clock.at = story.at + 2 * S
    Projector(store, clock).derive_due()
    AlertWatch(store, clock).round()
    queries = Queries(store, clock)
    whole = queries.timeline("a", None, None)
    (change,) = whole.config_changes
    assert change.at == queries.run("a").attempts[1].started_at
    assert [(one.name, one.old.value, one.new.value) for one in change.knobs] == [("heartbeat_timeout", 300, 90)]
    fired = {row.row.rule for row in queries.alerts.alerts(run="a").rows}
    assert {mark.rule for mark in whole.alerts} == fired
    assert all(mark.end is None and mark.start == clock.at for mark in whole.alerts)
    firsts = {store.alerts.events(row.row.key)[0].event_id for row in queries.alerts.alerts(run="a").rows}
    assert {mark.link for mark in whole.alerts} == {f"/alerts?run=a#alert-{each}" for each in firsts}
    before = queries.timeline("a", whole.start, change.at - 1)
    assert (before.alerts, before.config_changes) == ((), ())
    key = next(row.row.key for row in queries.alerts.alerts(run="a").rows if row.row.rule == "same_fault_again")
    clock.at += HOUR
    AlertDesk(store, clock).act(key, {"action": "resolve", "author": "Ada", "reason": "mended"})
    (resolved,) = (mark for mark in queries.alerts.marks("a", 0, clock.at) if mark.end is not None)
    assert (resolved.rule, resolved.end, resolved.ended_by) == ("same_fault_again", clock.at, "Ada")
