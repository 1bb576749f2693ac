"""Changes near an incident: what became different before it, with the reason to look at it, and no more."""

from __future__ import annotations

from rerail.server.core.changes_near import changes_near
from rerail.server.core.node_histories import Held, NodeChange, NodeHistory
from rerail.server.core.view import Attempt, Domain, Incident, Verdict

S = 10**9


def attempt(number: int, config: str | None = None, **told: object) -> Attempt:
    return Attempt(number, number * 1000 * S, (number * 1000 + 900) * S, config=config, **told)


def incident(number: int) -> Incident:
    at = (number * 1000 + 800) * S
    verdict = Verdict("hang", Domain.UNKNOWN, 0.5, "It hung.")
    return Incident(
        incident_id=f"r~{number}", run_id="r", attempts=(number,), started_at=at, noticed_at=at + S, restarted_at=None,
        ended_at=None, is_planned=False, is_open=True, scope=None, verdict=verdict,
        parts=(), time_to_restart_ns=0, time_to_recover_ns=None, lost_steps=0, lost_ns=0, lost_gpu_ns=None,
    )  # fmt: skip


def test_settings_versions_and_nodes_that_became_different_are_told_newest_first():
    attempts = [
        attempt(0, '{"heartbeat": 60}', versions=(("torch", "2.12"),), nodes=("a", "b")),
        attempt(1, '{"heartbeat": 10}', versions=(("torch", "2.12"),), nodes=("a", "b")),
        attempt(2, '{"heartbeat": 10}', versions=(("torch", "2.13"),), nodes=("a", "c")),
        attempt(3, '{"heartbeat": 99}'),
    ]
    found = changes_near(incident(2), attempts, ())
    assert [(each.what, each.name, each.old, each.new) for each in found] == [
        ("nodes", "nodes", "b", "c"),
        ("version", "torch", "2.12", "2.13"),
        ("config", "heartbeat", "60", "10"),
    ]
    assert found[1].reason == "It came with the attempt that failed."
    assert found[2].reason == "It came with the attempt before the one that failed."


def test_what_one_side_did_not_tell_is_not_known_to_have_changed():
    assert changes_near(incident(1), [attempt(0), attempt(1, '{"a": 1}', nodes=("x",))], ()) == ()


def test_a_node_that_the_run_held_and_that_changed_within_the_day_is_told():
    attempts = [attempt(0, nodes=("a",))]
    near = NodeChange(700 * S, "not_ready", "kubelet stopped")
    late = NodeChange(2000 * S, "ready")
    histories = [
        NodeHistory("a", (Held(0, None),), states=(near, late)),
        NodeHistory("z", (Held(0, None),), states=(near,)),
    ]
    (found,) = changes_near(incident(0), attempts, histories)
    assert (found.name, found.new, found.reason) == ("a", "not ready", "The run held this node. kubelet stopped")
