"""Similar incidents: what is alike, how much that weighs, and in which words."""

from __future__ import annotations

from rerail.server.core.similar import Traces, likeness, most_similar

DAY = 86_400 * 10**9


def traces(name: str = "a~0", fingerprint: str = "1:a", at: int = 0, run: str = "a", **told: str) -> Traces:
    parts = {
        "cause": told.get("cause", "user_exception"),
        **{key: told[key] for key in ("exception", "frame", "xid") if key in told},
    }
    facets = {key: told[key] for key in ("node", "step", "checkpoint", "config") if key in told}
    return Traces(name, run, at, fingerprint, tuple(parts.items()), tuple(facets.items()), told.get("group"))


def test_the_same_cause_alone_is_no_likeness():
    assert likeness(traces(), traces("b~0", "1:b", DAY, "b")) is None


def test_reasons_are_told_the_weightiest_first():
    one = traces(exception="ValueError", node="n1", step="100")
    other = traces("b~0", "1:b", DAY, "b", exception="ValueError", node="n1", step="101")
    found = likeness(one, other)
    assert found is not None
    assert found.reasons == ("The same exception: ValueError.", "The same node: n1.", "At the same step: 101.")


def test_the_same_fingerprint_weighs_most_then_xids_then_places():
    one = traces(xid="79", group="gpu", node="n1", exception="X", cause="gpu_hardware")
    others = [
        traces("time~0", "1:t", 60 * 10**9, "t", cause="network"),
        traces("node~0", "1:n", DAY, "n", node="n1"),
        traces("kind~0", "1:k", DAY, "k", xid="62", group="gpu"),
        traces("code~0", "1:c", DAY, "c", xid="79", group="gpu"),
        traces("same~0", "1:a", 9 * DAY, "s"),
        traces("none~0", "1:x", DAY, "x"),
    ]
    found = most_similar(one, others, 10)
    assert [each.incident_id for each in found] == ["same~0", "code~0", "kind~0", "node~0"]
    assert found[2].reasons == ("An XID of the same kind (gpu): 62.",)


def test_one_cause_outside_two_runs_is_supposed_where_one_outage_looks_like_both():
    one = traces(cause="nccl_timeout")
    others = [
        traces(f"{cause}~0", f"1:{cause}", 60 * 10**9, cause, cause=cause)
        for cause in ("host_oom", "network", "nccl_timeout", "checkpoint_io", "gpu_hardware")
    ]
    found = most_similar(one, others, 10)
    assert [each.incident_id for each in found] == ["nccl_timeout~0", "network~0"]
    assert found[0].reasons[0] == "The same cause: nccl timeout."
    assert "after" in found[1].reasons[0] and "perhaps one cause outside both" in found[1].reasons[0]
    assert found[0].weight > found[1].weight


def test_the_same_class_weighs_beside_a_place_and_one_outside_cause_is_not_supposed_of_programs():
    one = traces(node="n1", step="504", cause="host_oom")
    others = [
        traces("step~0", "1:s", DAY, "s", step="504", cause="network"),
        traces("other~0", "1:o", DAY, "o", node="n1", cause="network"),
        traces("class~0", "1:k", 9 * DAY, "k", node="n1", cause="host_oom"),
        traces("own~0", "1:w", 60 * 10**9, "w", cause="user_exception"),
        traces("alike~0", "1:l", 0, "l", cause="host_oom"),
    ]
    found = most_similar(one, others, 10)
    assert [each.incident_id for each in found] == ["class~0", "other~0"]
    assert found[0].reasons == ("The same node: n1.", "The same cause: host oom.")


def test_ties_go_to_the_nearer_one_and_the_list_is_cut():
    one = traces(at=10 * DAY)
    others = [traces(f"b~{day}", "1:a", day * DAY, "b") for day in (1, 9, 30)]
    assert [each.incident_id for each in most_similar(one, others, 2)] == ["b~9", "b~1"]


def test_a_config_counts_only_beside_something_else():
    one = traces(config="c1", node="n1")
    assert likeness(one, traces("b~0", "1:b", DAY, "b", config="c1")) is None
    found = likeness(one, traces("b~0", "1:b", DAY, "b", config="c1", node="n1"))
    assert found is not None and found.reasons[-1] == "The same recovery config: c1."
