"""The Kubernetes source against a server that replays lists and watches, and goes away in every way one can."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rerail.collectors.agent import Agent
from rerail.collectors.outlet import HttpOutlet
from rerail.collectors.source import NotConfigured, Source, SourceDown
from rerail.collectors.sources import kube_watch, kubernetes
from rerail.collectors.sources.kube_client import Access, Client, access
from rerail.collectors.sources.kube_facts import Naming
from rerail.collectors.sources.kubernetes import KubernetesSource, Scope
from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import AttemptStarted, Blind, Exit, Fact, NodeState
from tests.collectors.kube_api import PATHS, KubeApi
from tests.collectors.kube_story import condition, ended, event, node, pod, running, terminated, workload


@pytest.fixture
def api() -> Iterator[KubeApi]:
    server = KubeApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(kube_watch, "LONGEST_WAIT_SECONDS", 0.05)


class Following:
    """A source that is polled until what is waited for has been stated."""

    def __init__(self, api: KubeApi, cursor: str | None = None, **options: Any) -> None:
        options.setdefault("first_seconds", 5.0)
        self.source = KubernetesSource(Client(Access(api.url), watch_seconds=30), **options)
        self.cursor = cursor
        self.facts: list[Fact] = []
        self.down: list[str] = []

    def until(self, is_there: Callable[[list[Fact]], bool], seconds: float = 15.0) -> list[Fact]:
        deadline = time.monotonic() + seconds
        while not is_there(self.facts):
            assert time.monotonic() < deadline, f"not stated: {[fact.kind for fact in self.facts]}"
            try:
                polled = self.source.poll(self.cursor)
            except SourceDown as error:
                self.down.append(str(error))
            else:
                self.facts += polled.facts
                self.cursor = polled.cursor
            time.sleep(0.01)
        return self.facts

    def stop(self) -> None:
        self.source.close()


@pytest.fixture
def follow(api: KubeApi) -> Iterator[Callable[..., Following]]:
    made: list[Following] = []

    def start(cursor: str | None = None, **options: Any) -> Following:
        made.append(Following(api, cursor, **options))
        return made[-1]

    yield start
    for each in made:
        each.stop()


def exits(facts: list[Fact]) -> list[tuple[int | None, str | None]]:
    return [(fact.exit_code, fact.node) for fact in facts if isinstance(fact, Exit)]


def is_sound(facts: list[Fact]) -> None:
    identities = [(fact.run, fact.emitter, fact.seq) for fact in facts]
    assert len(set(identities)) == len(identities)
    for fact in facts:
        assert decode_line(encode_line(fact)) == fact


def test_what_is_there_is_listed_and_what_changes_is_watched(api: KubeApi, follow: Callable[..., Following]) -> None:
    for number in range(3):
        api.put(pod(f"llm-{number}", node=f"gpu-{number}", status=running(10)))
    api.put(node("gpu-1", 0))
    following = follow()
    following.until(lambda facts: len([fact for fact in facts if isinstance(fact, AttemptStarted)]) == 3)
    api.put(node("gpu-1", 60, "Unknown", "NodeStatusUnknown"))
    api.put(event("NodeNotReady", "Node is not ready", 61, pod("llm-1")))
    api.put(pod("llm-1", node="gpu-1", status=terminated(ended(10, 70, 137))))
    facts = following.until(lambda facts: bool(exits(facts)) and any(isinstance(fact, NodeState) for fact in facts))
    assert exits(facts) == [(137, "gpu-1")]
    is_sound(facts)


def test_pages_of_a_large_list_are_put_together(api: KubeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rerail.collectors.sources.kube_client.PAGE", 7)
    for number in range(40):
        api.put(pod(f"llm-{number}", node=f"gpu-{number}", status=running(10)))
    facts = KubernetesSource(Client(Access(api.url))).finish(None).facts
    assert sum(isinstance(fact, AttemptStarted) for fact in facts) == 40
    is_sound(list(facts))


def test_a_new_instance_goes_on_from_the_cursor_of_the_one_before(
    api: KubeApi, follow: Callable[..., Following]
) -> None:
    api.put(pod("llm-0", status=running(10)))
    first = follow()
    first.until(lambda facts: any(isinstance(fact, AttemptStarted) for fact in facts))
    first.stop()
    api.put(pod("llm-0", status=running(100, 1, ended(10, 90, 137, "OOMKilled"))))
    second = follow(first.cursor)
    told = second.until(lambda facts: bool(exits(facts)))
    lists = [path for path, asked, _ in api.requests if "watch" not in asked]
    assert lists.count(PATHS["Pod"]) == lists.count(PATHS["Node"]) == 1
    is_sound(first.facts + told)
    assert [fact.requeue for fact in first.facts + told if isinstance(fact, AttemptStarted)] == [0, 1]


@pytest.mark.parametrize("how", ["410", "gone event", "cut", "hang up", "nonsense", "500", "429"])
def test_however_a_watch_ends_nothing_is_missed_and_nothing_told_twice(
    api: KubeApi, follow: Callable[..., Following], how: str
) -> None:
    api.put(pod("llm-0", status=running(10)))
    following = follow()
    following.until(lambda facts: any(isinstance(fact, AttemptStarted) for fact in facts))
    api.behaviours[f"watch {PATHS['Pod']}"] = [how, how]
    following.stop()
    api.put(pod("llm-0", status=running(100, 1, ended(10, 90, 1))))
    api.put(pod("llm-0", status=running(200, 2, ended(100, 190, 139))))
    again = follow(following.cursor)
    facts = following.facts + again.until(lambda facts: (139, "gpu-0") in exits(facts))
    assert api.behaviours[f"watch {PATHS['Pod']}"] == []
    assert again.down == [] or how not in ("410", "gone event")  # only a list that fails is blind
    starts = [fact.requeue for fact in facts if isinstance(fact, AttemptStarted)]
    # A list shows the last state alone: after 410 the life in between may not be there any more.
    assert starts in ([0, 1, 2], [0, 2]) if how in ("410", "gone event") else starts == [0, 1, 2]
    is_sound(facts)


def test_a_version_that_is_forgotten_means_a_new_list_without_duplicates(
    api: KubeApi, follow: Callable[..., Following]
) -> None:
    for number in range(5):
        api.put(pod(f"llm-{number}", node=f"gpu-{number}", status=running(10)))
    first = follow()
    first.until(lambda facts: len(facts) >= 6)
    first.stop()
    gone = pod("llm-4", node="gpu-4", status=running(10))
    api.delete(gone)
    api.forget()
    api.put(pod("llm-0", status=terminated(ended(10, 90, 1))))
    second = follow(first.cursor)
    told = second.until(lambda facts: bool(exits(facts)))
    is_sound(first.facts + told)
    assert [fact for fact in told if isinstance(fact, AttemptStarted)] == []
    assert "uid-llm-4" not in json.loads(second.cursor or "")["facts"]["pods"]


def test_bookmarks_move_the_cursor_on(api: KubeApi, follow: Callable[..., Following]) -> None:
    api.put(pod("llm-0", status=running(10)))
    following = follow()
    following.until(lambda facts: bool(facts))
    for number in range(20):  # changes of a kind that tells nothing
        api.put(workload("Job", f"quiet-{number}", uid=f"quiet-{number}"))
    target = str(api.version)

    def is_moved(_: list[Fact]) -> bool:
        return json.loads(following.cursor or "{}").get("versions", {}).get("pods") == target

    following.until(is_moved)


def test_without_pods_the_source_is_down_and_says_why(api: KubeApi, follow: Callable[..., Following]) -> None:
    api.behaviours[PATHS["Pod"]] = ["403"] * 50
    with pytest.raises(SourceDown, match=r"403.*forbidden"):
        KubernetesSource(Client(Access(api.url))).finish(None)
    following = follow()
    api.put(pod("llm-0", status=running(10)))
    following.until(lambda _: len(following.down) > 3)
    assert "forbidden" in following.down[0]
    api.behaviours[PATHS["Pod"]] = []
    following.until(lambda facts: any(isinstance(fact, AttemptStarted) for fact in facts))


def test_what_cannot_be_looked_at_is_known_before_any_pod_is(api: KubeApi) -> None:
    api.behaviours[PATHS["Node"]] = ["403"]
    source = KubernetesSource(Client(Access(api.url)))
    assert source.finish(None).facts == (), "no run is known that could be told"
    assert list(source.unseen) == ["nodes"] and "forbidden" in source.unseen["nodes"]


def test_a_kind_that_may_not_be_read_is_blind_until_it_may_and_the_rest_goes_on(
    api: KubeApi, follow: Callable[..., Following]
) -> None:
    api.behaviours[PATHS["Node"]] = ["403"] * 1000
    api.put(pod("llm-0", status=running(10)))
    following = follow()
    following.until(lambda facts: any(isinstance(fact, Blind) for fact in facts))
    api.behaviours[PATHS["Node"]] = []
    facts = following.until(lambda facts: sum(isinstance(fact, Blind) for fact in facts) == 2)
    began, over = (fact for fact in facts if isinstance(fact, Blind))
    assert (began.run, began.source, began.until) == ("llm", "kubernetes nodes", None)
    assert "forbidden" in (began.reason or "")
    assert over.since == began.since < (over.until or 0)
    assert any(isinstance(fact, AttemptStarted) for fact in facts)
    is_sound(facts)


def test_broken_items_of_a_list_are_counted_and_said(api: KubeApi, follow: Callable[..., Following]) -> None:
    api.put(pod("llm-0", status=running(10)))
    api.objects[PATHS["Pod"]] |= {"broken": {"metadata": None}, "unnamed": {"metadata": {"name": 7}}}
    source = KubernetesSource(Client(Access(api.url)))
    first = source.finish(None)
    assert any(isinstance(fact, AttemptStarted) for fact in first.facts)
    said = '/api/v1/pods: 2 of 3 items of the list passed over, which are no objects with a name in their metadata, the first: {"metadata": null}'  # fmt: skip # noqa: E501
    assert source.unseen == {"pods in part": said}
    (blind,) = (fact for fact in first.facts if isinstance(fact, Blind))
    assert (blind.source, blind.until, blind.reason) == ("kubernetes pods in part", None, said)
    following = follow()
    following.until(lambda facts: any(isinstance(fact, Blind) and fact.reason == said for fact in facts))
    del api.objects[PATHS["Pod"]]["broken"], api.objects[PATHS["Pod"]]["unnamed"]
    second = source.finish(first.cursor)
    assert [fact.until is None for fact in second.facts if isinstance(fact, Blind)] == [False]
    assert source.unseen == {}


def test_a_blindness_is_ended_by_another_instance(api: KubeApi) -> None:
    api.put(pod("llm-0", status=running(10)))
    api.behaviours[PATHS["Node"]] = ["403"]
    first = KubernetesSource(Client(Access(api.url))).finish(None)
    second = KubernetesSource(Client(Access(api.url))).finish(first.cursor)
    assert [(fact.source, fact.until is None) for fact in first.facts if isinstance(fact, Blind)] == [
        ("kubernetes nodes", True)
    ]
    assert [(fact.source, fact.until is None) for fact in second.facts] == [("kubernetes nodes", False)]


def test_a_server_that_is_away_is_told_to_every_run_that_is_open(api: KubeApi, intake: Any, tmp_path: Path) -> None:
    for run in ("one", "two"):
        api.put(pod(f"{run}-0", job=run, job_uid=run, status=running(10)))
    source = KubernetesSource(Client(Access(api.url)), first_seconds=5.0)
    agent = Agent(tmp_path, HttpOutlet(intake.url), "collector", sources=[source])
    deadline = time.monotonic() + 15
    while not agent.spool.waiting() and time.monotonic() < deadline:
        agent.look()
    api.behaviours |= {key: ["403"] * 1000 for path in PATHS.values() for key in (path, f"watch {path}")}
    api.watch_seconds = 0.0

    def blind() -> list[dict[str, object]]:
        return [fact for fact in intake.of_kind("blind") if fact["source"] == "kubernetes"]

    while len(blind()) < 2 and time.monotonic() < deadline:
        agent.look()
        agent.sender.drain(1)
    api.behaviours.clear()
    api.watch_seconds = 5.0
    while len(blind()) < 4 and time.monotonic() < deadline:
        agent.look()
        agent.sender.drain(1)
    agent.close()
    assert sorted((str(fact["run"]), "until" in fact) for fact in blind()) == [
        ("one", False), ("one", True), ("two", False), ("two", True)
    ]  # fmt: skip


def test_a_token_is_read_again_for_every_request(api: KubeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    client = Client(Access(api.url, token_file=token))
    for word in ("first", "second"):
        token.write_text(f"{word}\n")
        list(client.pages("/api/v1/pods"))
        assert api.requests[-1][2] == f"Bearer {word}"
    token.unlink()
    with pytest.raises(SourceDown, match="No such file"):
        KubernetesSource(client).finish(None)


def test_namespaces_and_selectors_are_asked_for(api: KubeApi) -> None:
    api.objects["/api/v1/namespaces/train/pods"] = {}
    source = KubernetesSource(Client(Access(api.url)), scope=Scope(("train",), "team=llm", has_nodes=False))
    source.finish(None)
    asked = {path: query for path, query, _ in api.requests}
    assert asked["/api/v1/namespaces/train/pods"]["labelSelector"] == "team=llm"
    assert not any("nodes" in path for path in asked)


def test_a_kubeconfig_tells_where_the_server_is(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    told = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", "certificate-authority-data": "eA=="}}
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    config.write_text(json.dumps(told))
    found = access(kubeconfig=config)
    assert (found.url, found.token) == ("https://10.0.0.1:6443", "secret")
    assert Path(found.ca_file or "").read_text() == "x"
    told["users"][0]["user"] = {"exec": {"command": "aws"}}  # type: ignore[index]
    config.write_text(json.dumps(told))
    with pytest.raises(NotConfigured, match="kubectl proxy"):
        access(kubeconfig=config)
    with pytest.raises(NotConfigured, match="--api"):
        access("ftp://nowhere")
    with pytest.raises(NotConfigured, match="--kubeconfig"):
        access(kubeconfig=tmp_path / "none")


def test_it_is_a_source_and_a_cursor_that_makes_no_sense_is_the_beginning(api: KubeApi) -> None:
    api.put(pod("llm-0", status=running(10)))
    whole = KubernetesSource(Client(Access(api.url))).finish(None)
    for cursor in ("", "nonsense", "[]", "{}", '{"facts": [], "versions": {}}'):
        assert KubernetesSource(Client(Access(api.url))).finish(cursor).facts == whole.facts
    assert isinstance(KubernetesSource(Client(Access(api.url))), Source)
    assert KubernetesSource(Client(Access(api.url))).finish(whole.cursor).facts == ()


def test_a_slow_reader_slows_the_watch_and_not_the_memory(
    api: KubeApi, follow: Callable[..., Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "MOST_WAITING", 50)
    monkeypatch.setattr(kubernetes, "MOST_AT_ONCE", 20)
    for number in range(300):
        api.put(pod(f"llm-{number}", node=f"gpu-{number}", status=running(10)))
    following = follow()
    time.sleep(0.3)
    assert following.source._queue.qsize() <= 50
    facts = following.until(lambda facts: sum(isinstance(fact, AttemptStarted) for fact in facts) == 300)
    is_sound(facts)


def test_the_threads_end_with_the_source(api: KubeApi, follow: Callable[..., Following]) -> None:
    following = follow(naming=Naming(run="mine"))
    following.source.poll(None)
    api.watch_seconds = 0.1
    following.stop()
    deadline = time.monotonic() + 10
    while any(each.name.startswith("rerail-watch") for each in threading.enumerate()) and time.monotonic() < deadline:
        api.put(workload("Job", "llm", condition("Suspended", 5)))
        time.sleep(0.05)
    assert [each.name for each in threading.enumerate() if each.name == "rerail-watch-pods"] == []
