"""What the samples of a Prometheus server state, and what a file of rules may say."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.commands import say_how_many
from rerail.collectors.source import NotConfigured, Source, SourceDown
from rerail.collectors.sources.prometheus import SOURCE, PrometheusSource
from rerail.collectors.sources.prometheus_client import PrometheusClient, QueryFailed, Reach
from rerail.collectors.sources.prometheus_facts import Naming, RuleFacts
from rerail.collectors.sources.prometheus_memory import packed, unpacked
from rerail.collectors.sources.prometheus_rules import BUILT_IN, Kind, Rule, When, load_rules, rules_of
from rerail.collectors.sources.prometheus_samples import Series, read_answer
from rerail.server.core.causes import reading_of
from rerail.server.core.codec import FactError, decode_line, encode_line
from rerail.server.core.facts import Blind, Evidence, Fact, Metric, NodeCondition, NodeState
from rerail.server.core.view import CausalRole
from tests.collectors.sigv4 import CheckingServer, signature

BEGAN = 1_795_954_200
BY_NAME = {rule.name: rule for rule in BUILT_IN}
STEP = 15


class Recorded:
    """A server of which the samples are known: query → [(labels, {second: value})]."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[dict[str, str], dict[int, float]]]] = {}
        self.failing: dict[str, Exception] = {}
        self.most = 10_000

    def ranges(self, query: str, start: int, end: int, step: int) -> Iterator[tuple[int, int, object]]:
        if query in self.failing:
            raise self.failing[query]
        while start <= end:
            last = min(end, start + (self.most - 1) * step)
            result = []
            for labels, samples in self.series.get(query, []):
                values = [[at, str(samples[at])] for at in range(start, last + 1, step) if at in samples]
                if values:
                    result.append({"metric": labels, "values": values})
            yield start, last, result
            start = last + step

    def close(self) -> None:
        pass


def gpu(node: str = "node1", number: int = 2, **more: str) -> dict[str, str]:
    return {"Hostname": node, "gpu": str(number), "UUID": f"GPU-{number}", "instance": f"{node}:9400"} | more


def at(*values: float | None, first: int = 0) -> dict[int, float]:
    """One value a step; None: no sample."""
    return {BEGAN + (first + place) * STEP: v for place, v in enumerate(values) if v is not None}


def source_of(server: Recorded, rules: tuple[Rule, ...], passed: float = 1500.0, run: str | None = "llm", **naming):
    return PrometheusSource(
        server, Naming(run, **naming), rules, step_seconds=STEP, lag_seconds=30, since_hours=(passed + 0.0) / 3600,
        now=lambda: BEGAN + passed,
    )  # fmt: skip


def told(rule: Rule, *series: tuple[dict[str, str], dict[int, float]]) -> list[Fact]:
    server = Recorded()
    server.series[rule.query] = list(series)
    facts = list(source_of(server, (rule,)).finish(None).facts)
    for fact in facts:
        assert decode_line(encode_line(fact)) == fact
    return facts


def words(facts: list[Fact]) -> list[tuple[int, str]]:
    return [((fact.at // 10**9 - BEGAN) // STEP, getattr(fact, "text", "")) for fact in facts]


def test_an_xid_is_an_event_when_it_changes_and_not_while_it_stays():
    rule = BY_NAME["xid"]
    fresh = gpu(err_code="79", err_msg="GPU has fallen off the bus")
    facts = told(
        rule,
        (gpu(err_code="0"), at(0, 0, 0)),
        (fresh, at(79, 79, 79, first=3)),
        (gpu(err_code="45"), at(45, 45, first=6)),
        (gpu(number=5, err_code="31"), at(31, 31, 31)),  # nobody saw when
    )
    assert [(fact.code, fact.node) for fact in facts if isinstance(fact, Evidence)] == [
        ("xid:79", "node1"), ("xid:45", "node1"),
    ]  # fmt: skip
    assert words(facts)[0] == (3, "GPU 2 (GPU-2) of node1: XID 79 GPU has fallen off the bus")
    assert facts[0].emitter == facts[1].emitter


def test_a_label_that_changes_without_a_stale_marker_makes_one_event():
    old, new = gpu(err_code="0"), gpu(err_code="79")
    facts = told(BY_NAME["xid"], (old, at(*[0] * 23)), (new, at(*[79] * 40, first=3)))
    assert [(step, fact.code) for (step, _), fact in zip(words(facts), facts, strict=True)] == [(3, "xid:79")]


def test_a_counter_tells_its_increases_together_and_survives_a_reset():
    rule = replace(BY_NAME["ecc_uncorrectable"], step_seconds=None)
    counts = [7, 7, 9, 10, 11, *[11] * 25, 12, *[2] * 20]
    facts = told(rule, (gpu(), at(*counts)))
    assert [(step, text.split(": ")[2].split(" (")[0]) for step, text in words(facts)] == [
        (2, "2 more, 9 in all"), (22, "2 more, 11 in all"), (42, "3 more, 2 in all"),
    ]  # fmt: skip


def test_what_a_counter_shows_when_it_begins_is_no_increase_and_what_it_gains_in_its_first_minute_is():
    """As Prometheus' own `increase`: since when the machine has counted is not known."""
    rule = replace(BY_NAME["ecc_uncorrectable"], step_seconds=None)
    begins = BEGAN + 4 * STEP
    rising = {begins - 9: 0.0, begins - 8: 1.0, begins: 3.0, begins + STEP: 3.0}
    facts = told(
        rule,
        (gpu(), at(0, 0, 0, 0, 0, 0)),
        (gpu(number=3), at(7, 7, first=4)),  # a machine that has counted since it started
        (gpu(number=4), rising),
        (gpu("node2"), {begins - 9: 6.0, begins: 8.0}),
    )
    assert sorted((step, text.split(": ")[2].split(" (")[0]) for step, text in words(facts)) == [
        (4, "2 more, 8 in all"), (4, "3 more, 3 in all"),
    ]  # fmt: skip


def test_the_last_xid_of_an_exporter_that_is_new_itself_is_no_event():
    """It may be days old. Where the machine's other GPUs were watched before, it came about now."""
    facts = told(
        BY_NAME["xid"],
        (gpu("new", 1), at(0, 0, 0, first=3)), (gpu("new", 2), at(13, 13, 13, 79, first=3)),
        (gpu("old", 1), at(0, 0, 0, 0, 0)), (gpu("old", 2), at(31, first=3)),
        (gpu("renamed", 1, job="a"), at(0, 45, 45)), (gpu("renamed", 1, job="b"), at(45, 45, first=3)),
    )  # fmt: skip
    assert [(fact.node, fact.code) for fact in facts if isinstance(fact, Evidence)] == [
        ("renamed", "xid:45"), ("old", "xid:31"), ("new", "xid:79"),
    ]  # fmt: skip


def test_what_appears_is_told_each_time_and_not_where_it_was_there_already():
    rule = BY_NAME["row_remap_failure"]
    facts = told(rule, (gpu(), at(1, 1, None, None, 1, 1)), (gpu(number=3), at(None, 1, 1)))
    assert [step for step, _ in words(facts)] == [1, 4]
    assert {fact.code for fact in facts if isinstance(fact, Evidence)} == {"row_remap_failure"}


def test_a_machine_is_told_as_it_changes_and_ready_ones_are_not_news():
    rule = BY_NAME["kube_node_ready"]
    facts = told(rule, ({"node": "a"}, at(1, 1, 2, 2, 0, 1)), ({"node": "b"}, at(0, 0)), ({"node": "c"}, at(1, 7)))
    states = [(fact.node, fact.state, step) for fact, (step, _) in zip(facts, words(facts), strict=True)
              if isinstance(fact, NodeState)]  # fmt: skip
    assert states == [
        ("b", NodeCondition.NOT_READY, 0), ("a", NodeCondition.LOST, 2), ("a", NodeCondition.NOT_READY, 4),
        ("a", NodeCondition.READY, 5),
    ]  # fmt: skip


def test_no_value_is_no_metric():
    rule = BY_NAME["gpu_sm_active"]
    samples = {BEGAN + 60 * place: value for place, value in enumerate([0.5, float("nan"), 9223372036854775794.0, 0.0])}
    facts = told(rule, ({"Hostname": "node1", "instance": "x:1"}, samples))
    values = [(fact.node, fact.value) for fact in facts if isinstance(fact, Metric)]
    assert values == [("node1", 0.5), ("node1", 0.0)]


def test_a_label_names_the_run_and_other_machines_are_left_out():
    server = Recorded()
    rule = BY_NAME["xid"]
    server.series[rule.query] = [
        (gpu("gpu-1", team="a"), at(0, 79)), (gpu("gpu-2"), at(0, 79)), (gpu("cpu-1", team="a"), at(0, 79)),
    ]  # fmt: skip
    source = source_of(server, (rule,), run=None, label="team", nodes=("gpu-*",))
    facts = source.finish(None).facts
    assert [(fact.run, fact.node) for fact in facts] == [("a", "gpu-1")]
    assert source.runs == ("a",)


def test_a_query_that_fails_is_blind_a_server_that_does_not_answer_is_down_and_no_series_is_neither(
    capsys: pytest.CaptureFixture[str],
):
    server = Recorded()
    xid, remap = BY_NAME["xid"], BY_NAME["row_remap_failure"]
    server.series[xid.query] = [(gpu(), at(0, 0, 79))]
    source = source_of(server, (xid, remap))
    assert isinstance(source, Source)
    assert [fact.kind for fact in source.finish(None).facts] == ["evidence"]
    assert source.empty == ("row_remap_failure",)
    say_how_many(SOURCE, (source,), 1)
    assert "nothing is there of: row_remap_failure" in capsys.readouterr().err
    server.failing[remap.query] = QueryFailed("HTTP 422: too slow")
    polled = source_of(server, (xid, remap)).finish(None)
    (blind,) = [fact for fact in polled.facts if isinstance(fact, Blind)]
    assert (blind.run, blind.source, blind.reason) == ("llm", "prometheus row_remap_failure", "HTTP 422: too slow")
    del server.failing[remap.query]
    (seen,) = source_of(server, (xid, remap)).finish(polled.cursor).facts
    assert isinstance(seen, Blind) and seen.since == blind.since and seen.until is not None
    server.failing = {xid.query: QueryFailed("x"), remap.query: QueryFailed("y")}
    with pytest.raises(SourceDown):
        source_of(server, (xid, remap)).finish(None)
    server.failing = {remap.query: SourceDown("gone")}
    with pytest.raises(SourceDown):
        source_of(server, (xid, remap)).finish(polled.cursor)


def test_a_server_without_samples_was_away():
    server = Recorded()
    server.series["count(up)"] = [({}, at(*[4] * 10, *[None] * 20, *[4] * 20))]
    facts = [fact for fact in source_of(server, (BY_NAME["xid"],)).finish(None).facts if isinstance(fact, Blind)]
    assert [((f.since // 10**9 - BEGAN) // STEP, f.until and (f.until // 10**9 - BEGAN) // STEP) for f in facts] == [
        (10, None), (10, 30), (50, None),
    ]  # fmt: skip


def test_after_a_failure_it_waits_longer_each_time():
    server = Recorded()
    rule = BY_NAME["xid"]
    server.failing[rule.query] = SourceDown("refused")
    clock = [float(BEGAN)]
    asked: list[float] = []
    source = PrometheusSource(server, Naming("llm"), (rule,), now=lambda: clock[0])
    original = server.ranges

    def counted(*words):
        asked.append(clock[0] - BEGAN)
        return original(*words)

    server.ranges = counted  # type: ignore[method-assign]
    for _ in range(300):
        with pytest.raises(SourceDown, match="refused"):
            source.poll(None)
        clock[0] += 1
    assert asked == [0, 30, 90, 210]


SERIES = st.lists(
    st.lists(st.sampled_from([None, 0.0, 1.0, 2.0, 79.0, 31.0, 5.5]), min_size=1, max_size=60), min_size=1, max_size=4
)


@given(SERIES, st.lists(st.integers(1, 99), max_size=4), st.integers(3, 50), st.sampled_from(list(BUILT_IN)))
def test_read_in_any_pieces_from_any_cursor_it_states_the_same(values, cuts, most, rule):
    server = Recorded()
    server.series[rule.query] = [(gpu(number=n) | {"node": f"n{n}"}, at(*each)) for n, each in enumerate(values)]
    whole = source_of(server, (rule,)).finish(None).facts
    server.most = most
    pieces: list[Fact] = []
    cursor = None
    for passed in [*sorted(cut * STEP for cut in cuts), 1500.0]:
        source = PrometheusSource(
            server, Naming("llm"), (rule,), step_seconds=STEP, lag_seconds=30, since_hours=passed / 3600,
            now=lambda passed=passed: BEGAN + passed,
        )  # fmt: skip
        polled = source.finish(cursor)
        again = source.finish(polled.cursor)
        assert again.facts == () and again.cursor == polled.cursor
        pieces += polled.facts
        cursor = polled.cursor
    assert len({(fact.emitter, fact.seq) for fact in pieces}) == len(pieces)
    assert sorted(pieces, key=lambda f: (f.emitter, f.seq)) == sorted(whole, key=lambda f: (f.emitter, f.seq))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["metric", "values", "gpu", "Hostname", "__name__", ""]), inner, max_size=4)
    ),
    max_leaves=20,
)
LIKE_SERIES = st.fixed_dictionaries(
    {
        "metric": st.dictionaries(st.sampled_from(["gpu", "Hostname", "err_code", ""]), ANYTHING, max_size=4),
        "values": st.lists(st.tuples(st.integers(BEGAN, BEGAN + 99) | ANYTHING, st.text(max_size=5) | ANYTHING)),
    }
)


@given(ANYTHING | st.lists(LIKE_SERIES | ANYTHING, max_size=5), st.sampled_from(BUILT_IN))
def test_any_answer_is_read_and_what_is_stated_is_what_the_server_takes(result, rule):
    answer = read_answer(result, BEGAN, BEGAN + 99)
    for series in answer.series:
        instants = [at for at, _ in series.samples]
        assert instants == sorted(set(instants)) and instants[0] >= BEGAN and instants[-1] <= BEGAN + 99
    for fact in RuleFacts(rule, {}, Naming("llm")).take(answer.series, 1, None):
        assert decode_line(encode_line(fact)) == fact


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "[]",
        '{"rules": 3}',
        '{"rules": {"xid": {}}, "blind": {}}',
        '{"rules": {"xid": {"query": "x", "series": {"a": 1}, "left_off": 0}}, "blind": {}}',
    ],
)
def test_a_cursor_that_makes_no_sense_is_the_beginning(cursor: str):
    server = Recorded()
    rule = BY_NAME["xid"]
    server.series[rule.query] = [(gpu(), at(0, 79))]
    assert source_of(server, (rule,)).finish(cursor).facts == source_of(server, (rule,)).finish(None).facts != ()


def rule_file(**changed: object) -> dict[str, object]:
    rule = {"name": "slow_reads", "query": "x > 1", "kind": "evidence"} | changed
    return {"rules": [{key: value for key, value in rule.items() if value != "left out"}]}


@pytest.mark.parametrize(
    ("told", "field", "value"),
    [
        ([], "file", "[]"),
        ({"rule": []}, "file", "rule"),
        ({"rules": [], "without": ["all"]}, "rules", "[]"),
        ({"rules": 7}, "rules", "7"),
        ({"without": ["xids"]}, "without[0]", "xids"),
        ({"rules": [3]}, "rules[0]", "3"),
        (rule_file(name="left out"), "rules[0].name", "None"),
        (rule_file(name="Slow"), "rules[0].name", "Slow"),
        (rule_file(query=""), "rules[0].query", ""),
        (rule_file(kind="alert"), "rules[0].kind", "alert"),
        (rule_file(when="falls"), "rules[0].when", "falls"),
        (rule_file(step_seconds=0), "rules[0].step_seconds", "0"),
        (rule_file(step_seconds=True), "rules[0].step_seconds", "True"),
        (rule_file(states={1: "ready"}), "rules[0].states", "{1: 'ready'}"),
        (rule_file(kind="node_state"), "rules[0].states", "None"),
        (rule_file(kind="node_state", states={"up": "ready"}), "rules[0].states", "up"),
        (rule_file(kind="node_state", states={1: "fine"}), "rules[0].states[1]", "fine"),
        (rule_file(kind="metric", code="x"), "rules[0].code", "x"),
        (rule_file(querry="x"), "rules[0]", "querry"),
        ({"rules": [*rule_file()["rules"], *rule_file()["rules"]]}, "rules[1].name", "slow_reads"),  # type: ignore[misc]
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_field_and_value(told: object, field: str, value: str):
    with pytest.raises(FactError) as refused:
        rules_of(told)
    assert (refused.value.field, refused.value.value) == (field, value)


LIKE_RULE = st.dictionaries(
    st.sampled_from(["name", "query", "kind", "when", "states", "step_seconds", "text"]), ANYTHING, max_size=6
)


@given(ANYTHING | st.fixed_dictionaries({"rules": st.lists(LIKE_RULE, max_size=3)}))
def test_any_file_of_rules_is_taken_or_refused(told: object):
    try:
        rules = rules_of(told)
    except FactError as error:
        assert error.field and error.reason
    else:
        assert rules


def test_a_file_of_rules_adds_replaces_and_turns_off(tmp_path: Path):
    path = tmp_path / "rules.yaml"
    path.write_text(
        "without: [gpu_utilization_percent]\nrules:\n"
        "- {name: xid, query: my_xid, kind: evidence, when: changes, code: 'xid:{value}', source: dcgm, "
        "text: '{Hostname} {value} {nothing}'}\n"
        "- {name: racks, query: rack_up, kind: node_state, node_labels: rack, states: {0: drained, 1: ready}}\n"
    )
    rules = {rule.name: rule for rule in load_rules(path)}
    assert rules.keys() == (BY_NAME.keys() | {"racks"}) - {"gpu_utilization_percent"}
    (xid,) = told(rules["xid"], (gpu(), at(0, 79)))
    assert isinstance(xid, Evidence) and (xid.text, xid.code) == ("node1 79", "xid:79")
    (drained,) = told(rules["racks"], ({"rack": "r7"}, at(1, 0)))
    assert isinstance(drained, NodeState) and (drained.node, drained.state) == ("r7", NodeCondition.DRAINED)
    path.write_text("rules: [\n")
    with pytest.raises(NotConfigured, match="is no YAML"):
        load_rules(path)
    with pytest.raises(NotConfigured, match="No such file"):
        load_rules(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("missing", "extra", "reach"),
    [
        ("prometheus_api_client", "rerail\\[prometheus\\]", Reach("http://127.0.0.1:1")),
        ("botocore.auth", "rerail\\[aws\\]", Reach("http://127.0.0.1:1", sigv4_region="eu-west-1")),
    ],
)
def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, missing: str, extra: str, reach: Reach):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(NotConfigured, match=extra):
        PrometheusClient(reach)


def test_an_address_that_is_none_is_refused():
    with pytest.raises(NotConfigured, match="--prometheus: 'prometheus:9090'"):
        PrometheusClient(Reach("prometheus:9090"))


@pytest.mark.parametrize(
    ("target", "more", "right"),
    [
        ("/", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("/?Param2=value2&Param1=value1", {}, "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
        ("/", {"My-Header1": "value2,value2,value1"},
         "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"),
    ],
)  # fmt: skip
def test_what_checks_signatures_here_agrees_with_the_published_test_suite(target, more, right):
    """AWS' suite: get-vanilla, get-vanilla-query-order-key-case, get-header-key-duplicate."""
    headers = {"Host": "example.amazonaws.com", "X-Amz-Date": "20150830T123600Z", **more}
    told = (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders={';'.join(sorted(name.lower() for name in headers))}, Signature={right}"
    )
    assert signature("GET", target, headers, b"", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", told) == right


QUERIES = (
    "count(up)", "a + b", 'up{job=~"node|.*node[-_]?exporter.*"} * 2', "sum by (node) (x) or -1 % 2",
    'x{name="größe & 100%"}', 'x{path="a/b?c=d&e=+"}',
)  # fmt: skip


def test_requests_to_amazon_are_signed_as_a_server_that_checks_wants_it(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "not/a+token==")
    server = CheckingServer("not-a-secret", "eu-west-1")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/workspaces/ws-1"
        client = PrometheusClient(Reach(url, sigv4_region="eu-west-1"))
        for query in QUERIES:
            assert [last for _, last, _ in client.ranges(query, BEGAN, BEGAN + 60, 15)] == [BEGAN + 60]
        client.close()
        assert tuple(server.queries) == QUERIES
        for wrong in (Reach(url, sigv4_region="us-east-1"), Reach(url)):
            with pytest.raises(SourceDown, match="HTTP 403"):
                list(PrometheusClient(wrong).ranges("up", BEGAN, BEGAN, 15))
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(SourceDown, match=r"HTTP 403: .*signature we calculated does not match"):
            list(PrometheusClient(Reach(url, sigv4_region="eu-west-1")).ranges("up", BEGAN, BEGAN, 15))
    finally:
        server.shutdown()
        server.server_close()


def test_what_accuses_a_gpu_is_read_so_and_what_is_a_hint_is_not():
    accusing = set()
    for rule in BUILT_IN:
        if rule.kind is Kind.EVIDENCE:
            memory: dict[str, list[object]] = {}
            facts = RuleFacts(rule, memory, Naming("llm"))
            labels = tuple(sorted(gpu().items()))
            assert facts.take([Series(labels, ((BEGAN, 0.0),))], STEP, BEGAN) == []
            (fact,) = facts.take([Series(labels, ((BEGAN + 900, 79.0),))], STEP, None)
            assert isinstance(fact, Evidence)
            if reading_of(fact).role is CausalRole.INITIATING:
                assert reading_of(fact).cause == "gpu_hardware"
                accusing.add(rule.name)
    assert accusing == {"xid", "ecc_uncorrectable", "row_remap_failure"}


def test_cursors_stay_small_while_series_come_and_go():
    memory: dict[str, list[object]] = {}
    rule = Rule("x", "x", Kind.EVIDENCE, When.CHANGES)
    facts = RuleFacts(rule, memory, Naming("llm"))
    day = 86_400
    for number in range(30):
        series = Series((("Hostname", f"n{number}"),), ((BEGAN + number * day, 1.0),))
        facts.take([series], STEP, None)
    assert len(memory) == 8
    assert len(json.dumps(memory)) < 1000


def test_the_cursor_of_many_quiet_series_is_ten_characters_each():
    keys = [f"{number * 2654435761:016x}" for number in range(5000)]
    series: dict[str, list[object]] = {key: [0.0, BEGAN, 0.0, 0] for key in keys}
    series[keys[7]] = [3.0, BEGAN, 2.0, BEGAN - 60]
    written = json.dumps(packed(series))
    assert unpacked(json.loads(written)) == series
    assert len(written) < 5000 * 10 + 200


@given(ANYTHING | st.fixed_dictionaries({"alike": st.dictionaries(st.text(max_size=6), ANYTHING), "single": ANYTHING}))
def test_what_a_cursor_tells_of_series_is_read_or_is_none(told: object):
    found = unpacked(told)
    assert found is None or all(len(entry) == 4 for entry in found.values())
