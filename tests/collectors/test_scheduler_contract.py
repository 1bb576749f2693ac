"""What every source promises (`collectors/source.py`), held for the sources that ask a scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rerail.collectors.source import Source, SourceDown
from rerail.collectors.sources.kube_client import Access, Client
from rerail.collectors.sources.kubernetes import KubernetesSource
from rerail.collectors.sources.slurm import CommandFailed, SlurmSource
from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import AttemptStarted, Fact
from tests.collectors.kube_api import PATHS, KubeApi
from tests.collectors.kube_story import ended, pod, running


def identities(facts: list[Fact]) -> list[tuple[str, int]]:
    return [(fact.emitter, fact.seq) for fact in facts]


class AskedKubernetes:
    """A cluster with a story, and sources that watch it."""

    def __init__(self, folder: Path) -> None:
        self.api = KubeApi()
        self.api.start()
        self.turns = 0

    def turn(self) -> None:
        """Something happens."""
        life = self.turns
        last = ended(100 * life - 90, 100 * life, 137, "OOMKilled") if life else None
        self.api.put(pod("llm-0", status=running(100 * life + 10, life, last)))
        self.turns += 1

    def source(self) -> Source:
        return KubernetesSource(Client(Access(self.api.url)))

    def break_down(self) -> None:
        self.api.behaviours[PATHS["Pod"]] = ["403"] * 1000

    def stop(self) -> None:
        self.api.stop()


class AskedSlurm:
    """Programs that answer as Slurm's would, and sources that ask them."""

    ROWS = (
        "7|7|chain|{}|0:0|1795954463|1795954463|1795954470|{}|n[0-1]",
        "7|7|chain|{}|0:0|1795955000|1795955000|1795955100|{}|n[0-1]",
        "7|7|chain|{}|0:0|1795956000|1795956000|1795956100|{}|n[0-1]",
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.turns = 0
        self.is_broken = False

    def turn(self) -> None:
        """A job is requeued after its node failed."""
        self.turns += 1

    def _run(self, words: Sequence[str]) -> bytes:
        if self.is_broken or words[0] != "sacct":
            raise CommandFailed(f"{words[0]}: Unable to contact slurm controller")
        if "--helpformat" in words:
            return b"JobID State"
        header = "JobID|JobIDRaw|JobName|State|ExitCode|Submit|Eligible|Start|End|NodeList"
        ends = (str(1795954900 + 1000 * index) for index in range(self.turns))
        shown = [
            row.format(
                "NODE_FAIL" if index < self.turns - 1 else "RUNNING", end if index < self.turns - 1 else "Unknown"
            )
            for index, (row, end) in enumerate(zip(self.ROWS, ends, strict=False))
        ]
        return "\n".join([header, *shown]).encode()

    def source(self) -> Source:
        return SlurmSource(run=self._run, now=lambda: 1_795_957_000.0)

    def break_down(self) -> None:
        self.is_broken = True

    def stop(self) -> None:
        pass


@pytest.fixture(params=[AskedKubernetes, AskedSlurm])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AskedKubernetes | AskedSlurm]:
    world = request.param(tmp_path)
    yield world
    world.stop()


def test_asked_again_with_any_cursor_it_states_the_same_under_the_same_identity(
    asked: AskedKubernetes | AskedSlurm,
) -> None:
    cursors: list[str | None] = [None]
    told: dict[tuple[str, int], Fact] = {}
    for _ in range(3):
        asked.turn()
        polled = asked.source().finish(cursors[-1])  # type: ignore[attr-defined]
        assert polled.facts
        assert len(set(identities(list(polled.facts)))) == len(polled.facts)
        assert not told.keys() & set(identities(list(polled.facts)))
        told.update({(fact.emitter, fact.seq): fact for fact in polled.facts})
        cursors.append(polled.cursor)
        assert asked.source().finish(polled.cursor).facts == ()  # type: ignore[attr-defined]
    assert [fact.requeue for fact in told.values() if isinstance(fact, AttemptStarted)] == [0, 1, 2]
    for fact in told.values():
        assert decode_line(encode_line(fact)) == fact
    for cursor in cursors[1:]:
        for fact in asked.source().finish(cursor).facts:  # type: ignore[attr-defined]
            assert told[fact.emitter, fact.seq] == fact


def test_who_cannot_ask_is_down_and_never_empty(asked: AskedKubernetes | AskedSlurm) -> None:
    asked.turn()
    source = asked.source()
    assert isinstance(source, Source)
    cursor = source.finish(None).cursor  # type: ignore[attr-defined]
    asked.break_down()
    with pytest.raises(SourceDown):
        asked.source().finish(cursor)  # type: ignore[attr-defined]
