"""Runs that are over follow a version with other rules: slowly, oldest first, each once."""

from __future__ import annotations

from rerail.server.core.facts import Outcome
from rerail.server.projector import Projector
from rerail.server.queries import Queries
from rerail.server.rederiving import Rederiving
from rerail.server.rules_version import _bare, rules_version
from rerail.server.store import Store
from tests.story import Story

S = 10**9


def over(run: str, steps: int) -> Story:
    return Story(run).start().bring_up(5).steps(1, steps).finish(Outcome.COMPLETED)


def test_runs_that_are_over_are_derived_again_by_the_rules_of_this_version_oldest_first(store: Store, batch):
    stories = {name: over(name, steps) for name, steps in (("late", 300), ("early", 100), ("middle", 200))}
    going_on = Story("going-on").start().bring_up(5).steps(1, 50)
    store.append([batch(*story.facts) for story in (*stories.values(), going_on)])
    now = stories["late"].at + S
    projector = Projector(store, lambda: now)
    while projector.derive_due():
        pass
    views = {name: store.view(name) for name in stories}
    assert Queries(store).rules_progress() is None
    assert not store.is_outdated("early")

    store.begin_rules("other rules", "0.0", now)
    found = store.rules_progress()
    assert found is not None
    assert (found.rules, found.version, found.total, found.left, found.without_log) == ("other rules", "0.0", 3, 3, 0)
    assert store.begin_rules("other rules", "0.1", now + S) == found, "the same rules begin once"

    rederiving = Rederiving(store, lambda: now)
    order = []
    for _ in range(1000):
        rederiving._not_before = 0.0
        rederiving.work()
        projector.derive_due()
        order += [name for name in stories if name not in order and not store.is_outdated(name)]
        if rederiving._is_done:
            break
    assert order == ["early", "middle", "late"]
    found = store.rules_progress()
    assert found is not None
    assert (found.rules, found.total, found.left) == (rules_version(), 3, 0)
    for name, before in views.items():
        after = store.view(name)
        assert before is not None
        assert after is not None
        assert (after[0], after[1] > before[1]) == (before[0], True), "the same rules come to the same"
    assert projector.derive_due() == 0


def test_the_mark_of_the_rules_is_of_code_and_not_of_words():
    told = _bare('def f():\n    """Gives one."""\n    return 1')
    assert told == _bare("def f():\n    return 1  # always")
    assert told != _bare("def f():\n    return 2")
    assert len(rules_version()) == 12
