"""Three stories, told as they happen: who is alerted when, and that a healthy month wakes nobody."""

from __future__ import annotations

from collections.abc import Callable

from rerail.server.alert_watch import AlertWatch
from rerail.server.core.facts import Fact, Initiator
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.store import Batch, Store
from rerail.server.store.alert_rows import ChannelRow
from tests.story import BEGINNING, SECOND, Story

DAY = 86_400


class OnCall:
    """A server that hears a story piece by piece, and whom it wakes."""

    def __init__(self, store: Store, batch: Callable[..., Batch]) -> None:
        self._store = store
        self._batch = batch
        self._at = BEGINNING
        self._projector = Projector(store, lambda: self._at)
        self._watch = AlertWatch(store, lambda: self._at)
        self._heard = 0
        store.alerts.put_channel(ChannelRow(0, "night", "webhook", "http://127.0.0.1:9/", False, True, 0, None), None)

    def hear(self, story: Story) -> set[str]:
        """What the story told since, and the rules that fire as of its clock."""
        new: list[Fact] = story.facts[self._heard :]
        self._heard = len(story.facts)
        self._at = story.at + SECOND
        if new:
            self._store.append([self._batch(*new)])
        self._projector.derive_due()
        self._watch.round()
        page = Queries(self._store, lambda: self._at).alerts.alerts("open")
        return {each.row.rule for each in page.rows}

    @property
    def messages(self) -> int:
        """How many were decided on."""
        return len(self._store.alerts.messages(None, 1000))


def test_44_identical_loops_of_90_seconds_alert_by_the_third_and_end_as_few_messages(store: Store, batch):
    on_call = OnCall(store, batch)
    story = Story("loop", gpus=512).start().bring_up(60).steps(1, 100).save(100, blocked=2)
    assert on_call.hear(story) == set()
    fired: dict[str, int] = {}
    for number in range(1, 45):
        story.die(after=5).stop(5).start(Initiator.FAULT).bring_up(65).load(100, took=5).steps(101, 110)
        for rule in on_call.hear(story):
            fired.setdefault(rule, number)
    assert fired["same_fault_again"] <= 3
    assert fired["no_durable_progress"] <= 4, "the attempt that died first had saved; the third after it had not"
    (row,) = [
        each.row for each in Queries(store, lambda: story.at).alerts.alerts("open").rows
        if each.row.rule == "same_fault_again"
    ]  # fmt: skip
    assert "44 times" in row.sentence
    assert on_call.messages <= 12, "44 deaths are not 44 messages"


def test_24_restarts_of_a_healthy_run_alert_by_the_second(store: Store, batch):
    on_call = OnCall(store, batch)
    story = Story("healthy", gpus=64).start().bring_up(30).steps(1, 200).save(200, blocked=2)
    assert on_call.hear(story) == set()
    fired: dict[str, int] = {}
    for number in range(1, 25):
        story.wait(5).start(Initiator.MONITOR).bring_up(30).load(200 * number, took=5)
        story.steps(200 * number + 1, 200 * (number + 1)).save(200 * (number + 1), blocked=2)
        for rule in on_call.hear(story):
            fired.setdefault(rule, number)
    assert fired["restart_without_fault"] <= 2
    assert "same_fault_again" not in fired, "no fault is told, so none came again"


def test_a_healthy_month_is_silent(store: Store, batch):
    on_call = OnCall(store, batch)
    story = Story("month", gpus=1024, step=30.0).start().bring_up(300)
    steps_a_day = 2880
    for day in range(30):
        for quarter in range(4):
            first = day * steps_a_day + quarter * steps_a_day // 4 + 1
            last = first + steps_a_day // 4 - 1
            story.steps(first, last).save(last, blocked=20)
            if (day * 4 + quarter) % 5 == 0 or quarter == 3:
                assert on_call.hear(story) == set(), f"day {day}"
    assert on_call.hear(story.finish()) == set()
    assert on_call.messages == 0
    assert (story.at - BEGINNING) / SECOND > 30 * DAY
