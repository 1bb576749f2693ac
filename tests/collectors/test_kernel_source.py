"""The kernel's words as they come: `/dev/kmsg`, the journal, a file."""

from __future__ import annotations

import calendar
import errno
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail.collectors.agent import Agent
from rerail.collectors.outlet import FileOutlet
from rerail.collectors.source import Source, SourceDown
from rerail.collectors.sources import journal, kmsg
from rerail.collectors.sources.kernel_live import FileOpening, JournalOpening, KernelSource, KmsgOpening
from rerail.collectors.sources.run_files import read_run_files
from rerail.server.cli import main
from rerail.server.core.codec import decode_line, encode_line
from rerail.server.core.facts import Blind, Evidence, Fact

S = 10**9
BOOTED = 1_795_900_000 * S
RECORDS = [
    b"".join(lines)
    for lines in [
        [line] for line in (Path(__file__).parent.parent / "corpus/kernel/kmsg.txt").read_bytes().splitlines(True)
        if not line.startswith(b" ")
    ]
]  # fmt: skip


class Ring(kmsg.Device):
    """A device with these records; opened anew it begins with the oldest."""

    def __init__(self, records: Sequence[bytes]) -> None:
        super().__init__()
        self.kept = list(records)
        self.place = 0
        self.failure: str | None = None

    def close(self) -> None:
        self.place = 0

    def records(self, most: int) -> Iterator[bytes]:
        if self.failure:
            raise SourceDown(self.failure)
        for raw in self.kept[self.place : self.place + most]:
            self.place += 1
            yield raw


def on(ring: Ring, boot: str = "boot-1", booted: int = BOOTED, since_hours: float = 100.0) -> KernelSource:
    opening = KmsgOpening(ring, lambda: boot, lambda: booted)
    return KernelSource(opening, "node17", lambda: "llm", since_hours=since_hours, now=lambda: BOOTED / S + 20_000)


def checked(facts: Sequence[Fact]) -> list[Fact]:
    assert len({(fact.emitter, fact.seq) for fact in facts}) == len(facts)
    for fact in facts:
        assert decode_line(encode_line(fact)) == fact
    return list(facts)


def test_what_the_kernel_says_is_told_with_its_number_and_the_wall_clock():
    facts = checked(on(Ring(RECORDS)).finish(None).facts)
    assert [(fact.seq, fact.code) for fact in facts if isinstance(fact, Evidence)] == [
        (700, "xid:79"), (701, "xid:63"), (702, None), (703, None),
    ]  # fmt: skip
    assert facts[0].at == BOOTED + 12345678901 * 1000
    assert {(fact.node, fact.run, fact.source) for fact in facts if isinstance(fact, Evidence)} == {
        ("node17", "llm", "kernel")
    }
    assert isinstance(facts[3], Evidence) and facts[3].text.startswith("Out of memory: Killed process 4242")


def test_another_instance_goes_on_where_the_cursor_stands():
    ring = Ring(RECORDS[:4])
    first = on(ring).finish(None)
    assert [fact.seq for fact in first.facts] == [700]
    ring = Ring(RECORDS)
    second = on(ring, booted=BOOTED + 5_000_000).finish(first.cursor)  # the clock is slewed a little
    assert [fact.seq for fact in second.facts] == [701, 702, 703]
    assert second.facts[0].at == BOOTED + 12345679000 * 1000
    again = on(ring).finish(second.cursor)
    assert (again.facts, again.cursor) == ((), second.cursor)
    assert on(Ring(RECORDS)).finish(first.cursor).facts == second.facts


def test_what_was_overwritten_is_blind_from_the_last_that_was_read():
    first = on(Ring(RECORDS[:4])).finish(None)
    facts = checked(on(Ring(RECORDS[6:])).finish(first.cursor).facts)
    assert isinstance(facts[0], Blind)
    assert facts[0].reason == "2 messages were overwritten before they were read"
    assert (facts[0].since, facts[0].until) == (BOOTED + 12345678901 * 1000, BOOTED + 12360000000 * 1000)
    assert [fact.seq for fact in facts[1:]] == [703]


def test_a_machine_that_was_started_anew_is_read_from_its_beginning():
    first = on(Ring(RECORDS)).finish(None)
    booted = BOOTED + 15_000 * S
    facts = checked(
        on(Ring([RECORDS[0].replace(b"697,", b"0,"), RECORDS[3].replace(b"700,", b"1,")]), "boot-2", booted)
        .finish(first.cursor)
        .facts
    )
    assert isinstance(facts[0], Blind) and "started anew" in (facts[0].reason or "")
    assert (facts[0].since, facts[0].until) == (BOOTED + 12360000001 * 1000, booted)
    assert [(fact.seq, fact.emitter == first.facts[0].emitter) for fact in facts[1:]] == [(1, False)]


def test_of_a_first_look_only_what_is_recent_is_told():
    assert [f.seq for f in on(Ring(RECORDS), since_hours=7645 / 3600).finish(None).facts] == [703]


def test_a_device_that_cannot_be_read_is_down(tmp_path: Path):
    source = KernelSource(KmsgOpening(kmsg.Device(tmp_path / "none"), lambda: "b"), "n", lambda: "llm")
    assert isinstance(source, Source)
    for _ in range(2):
        with pytest.raises(SourceDown, match="No such file"):
            source.poll(None)


def test_an_overwritten_read_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    path = tmp_path / "kmsg"
    path.write_bytes(b"")
    answers: list[bytes | OSError] = [OSError(errno.EPIPE, "overwritten"), RECORDS[3], BlockingIOError()]

    def read(*_: object) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    device = kmsg.Device(path)
    monkeypatch.setattr(os, "read", read)
    assert list(device.records(10)) == [RECORDS[3]]
    device.close()


@pytest.mark.skipif(not os.access(kmsg.DEVICE, os.R_OK), reason="/dev/kmsg cannot be read here")
def test_the_real_device_is_read_and_its_records_understood():
    device = kmsg.Device()
    try:
        raw = list(device.records(100_000))
    except SourceDown as error:
        pytest.skip(str(error))
    finally:
        device.close()
    records = [kmsg.read_record(each) for each in raw]
    assert raw and all(records)
    numbers = [record.sequence for record in records if record]
    assert numbers == sorted(set(numbers))
    source = KernelSource(KmsgOpening(), "vm", lambda: "llm", since_hours=1000)
    polled = source.finish(None)
    assert source.finish(polled.cursor).facts == ()
    source.close()


def entry(number: int, message: object, second: int = 0, journal_id: str = "ab12") -> bytes:
    told = {
        "__CURSOR": f"s={journal_id};i={number:x};b=77;m=1;t=2;x=3", "MESSAGE": message, "_TRANSPORT": "kernel",
        "__REALTIME_TIMESTAMP": str((BOOTED // S + second) * 1_000_000), "_HOSTNAME": "node17",
    }  # fmt: skip
    return json.dumps(told).encode() + b"\n"


XID = "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
ENTRIES = [
    entry(7, "usb 1-1: new device", 1), entry(8, XID, 2), b"{broken\n", entry(9, list(XID.encode()), 3),
    entry(10, None, 4), entry(11, "oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=4242", 5),
]  # fmt: skip


class Journal:
    """`journalctl` with these entries."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        self.entries = list(entries)
        self.lost = False

    def __call__(self, words: Sequence[str]) -> bytes:
        after = next((word.split("=", 1)[1] for word in words if word.startswith("--after-cursor=")), None)
        if after is None:
            assert any(word.startswith("--since=@") for word in words)
            return b"".join(self.entries)
        if self.lost:
            raise journal.CursorLost("Failed to seek to cursor")
        place = next(i for i, each in enumerate(self.entries) if after.encode() in each)
        return b"".join(self.entries[place + 1 :])


def of(told: Journal) -> KernelSource:
    return KernelSource(JournalOpening(told), "node17", lambda: "llm", now=lambda: BOOTED / S)


def test_the_journal_is_read_from_its_cursor_on():
    whole = of(Journal(ENTRIES)).finish(None)
    facts = checked(whole.facts)
    assert [(fact.seq, fact.code) for fact in facts if isinstance(fact, Evidence)] == [
        (8, "xid:79"), (9, "xid:79"), (11, None),
    ]  # fmt: skip
    assert facts[0].at == BOOTED + 2 * S
    part = of(Journal(ENTRIES[:2])).finish(None)
    rest = of(Journal(ENTRIES)).finish(part.cursor)
    assert part.facts + rest.facts == whole.facts
    assert of(Journal(ENTRIES)).finish(whole.cursor).facts == ()


def test_a_journal_that_forgot_is_blind_in_between():
    part = of(Journal(ENTRIES[:2])).finish(None)
    told = Journal([entry(20, XID, 50, "cd34")])
    told.lost = True
    opening = JournalOpening(told)
    memory = json.loads(part.cursor)
    said = list(opening.read(memory, 0))
    assert [(one.gap_since, one.at) for one in said] == [(BOOTED + 2 * S, BOOTED + 50 * S), (None, BOOTED + 50 * S)]


def test_a_journal_that_cannot_be_asked_is_down(tmp_path: Path):
    with pytest.raises(SourceDown, match="is not installed"):
        journal.run_journalctl([str(tmp_path / "journalctl")])
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho Failed to open journal >&2\nexit 1\n")
    failing.chmod(0o700)
    with pytest.raises(SourceDown, match="Failed to open journal"):
        journal.run_journalctl([str(failing)])
    failing.write_text("#!/bin/sh\necho Failed to seek to cursor: Invalid argument >&2\nexit 1\n")
    with pytest.raises(journal.CursorLost):
        journal.run_journalctl([str(failing)])
    failing.write_text("#!/bin/sh\nwhile :; do echo '{}'; done\n")
    begun = journal.run_journalctl([str(failing)], largest=1000)  # of a long backlog the beginning, in whole lines
    assert set(begun.splitlines(keepends=True)) == {b"{}\n"} and len(begun) == 999
    failing.write_text("#!/bin/sh\nwhile :; do printf '{}'; done\n")
    with pytest.raises(SourceDown, match="printed more than 1000 bytes, and no entry of them is whole"):
        journal.run_journalctl([str(failing)], largest=1000)


def test_a_file_is_followed_and_undated_lines_are_blind_until_a_dated_one(tmp_path: Path):
    path = tmp_path / "kern.log"
    dated = f"2026-11-29T12:00:00+00:00 node17 kernel: {XID}\n"
    path.write_text("2026-11-29T11:00:00+00:00 node17 kernel: usb\n" + dated)

    def source() -> KernelSource:
        return KernelSource(FileOpening(path), "node17", lambda: "llm", since_hours=1e5)

    first = source().finish(None)
    assert [fact.code for fact in checked(first.facts) if isinstance(fact, Evidence)] == ["xid:79"]
    with path.open("a") as file:
        file.write(f"[12345.678] {XID}\n")
    second = source().finish(first.cursor)
    (blind,) = checked(second.facts)
    assert isinstance(blind, Blind) and blind.until is None and "no date" in (blind.reason or "")
    with path.open("a") as file:
        file.write(dated)
    third = checked(source().finish(second.cursor).facts)
    assert [fact.kind for fact in third] == ["blind", "evidence"]
    assert isinstance(third[0], Blind) and third[0].until is not None
    path.unlink()
    with pytest.raises(SourceDown):
        source().finish(None)


STAMPED = {
    "journalctl -o short": "Nov 29 {clock} gpu-7 kernel: {said}",
    "journalctl -o short-iso": "2026-11-29T{clock}+0000 gpu-7 kernel: {said}",
    "journalctl -o json": (
        '{{"__REALTIME_TIMESTAMP":"{micro}","_HOSTNAME":"gpu-7","_TRANSPORT":"kernel","MESSAGE":"{said}"}}'
    ),
    "dmesg --time-format iso": "2026-11-29T{clock},000000+00:00 {said}",
}


@pytest.mark.parametrize("written", STAMPED.values(), ids=STAMPED)
def test_a_first_look_says_how_much_it_left_out_and_keeps_the_machine_of_a_line(
    written: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    path = tmp_path / "kern.log"
    noon = calendar.timegm((2026, 11, 29, 12, 0, 0))
    lines = [
        written.format(clock=time.strftime("%H:%M:%S", time.gmtime(at)), micro=at * 1_000_000, said=said)
        for at, said in ((noon - 7200, XID), (noon - 7200, "NVRM: loading"), (noon - 60, XID))
    ]
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (noon, noon))
    source = KernelSource(FileOpening(path), "node17", lambda: "llm", now=lambda: noon)
    (fact,) = source.finish(None).facts
    assert isinstance(fact, Evidence)
    assert (fact.node, fact.at) == ("gpu-7" if "gpu-7" in written else "node17", (noon - 60) * S)
    assert "(lines: 1); --since-hours" in caplog.text
    farther = KernelSource(FileOpening(path), "node17", lambda: "llm", since_hours=3, now=lambda: noon)
    caplog.clear()
    assert len(farther.finish(None).facts) == 2
    assert not caplog.text


def test_words_that_a_journal_spells_as_bytes_are_read_alike_followed_imported_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """As bytes no word of the record can be searched; one that is like it but for its numbers says something else."""

    def record(at: int, said: str, is_spelled: bool) -> str:
        told = {"__REALTIME_TIMESTAMP": f"{1795953947000000 + at}", "_HOSTNAME": "gpu-7", "_TRANSPORT": "kernel",
                "MESSAGE": list(said.encode()) if is_spelled else said}  # fmt: skip
        return json.dumps(told, separators=((",", ":") if at % 2 else (", ", ": "))) + "\n"

    path = tmp_path / "kern.json"
    said = (("mlx5_core 0000:a1:00.0 ib0: Link down", False), ("usb 1-1: new device", True), (XID, True), (XID, False),
            ("usb 1-1: new device", True), (XID.replace("79", "63"), True))  # fmt: skip
    path.write_text("".join(record(at, *each) for at, each in enumerate(said)))
    source = KernelSource(FileOpening(path), "node17", lambda: "llm", since_hours=1e5)
    followed = [fact for fact in source.finish(None).facts if isinstance(fact, Evidence)]
    judged = [fact for fact in read_run_files([str(path)]).facts if isinstance(fact, Evidence)]
    assert main(["import", "kernel", str(path), "--run", "llm", "--stdout"]) == 0
    imported = [decode_line(line.encode()) for line in capsys.readouterr().out.splitlines()]
    told = [
        [(fact.at, fact.node, fact.code, fact.text) for fact in facts if isinstance(fact, Evidence)]
        for facts in (followed, imported, judged)
    ]
    assert [code for _, _, code, _ in told[0]] == [None, "xid:79", "xid:79", "xid:63"]
    assert told[1] == told[0]
    assert told[2] == told[0]


def test_a_line_that_names_another_machine_is_of_that_one(tmp_path: Path):
    """A log daemon that collects the lines of many machines: this one is not to blame for them."""
    path = tmp_path / "kern.log"
    hosts = ("gpu-7", "node17", "node17.cluster", "localhost", "login", "10.0.0.9")
    path.write_text("".join(f"2026-11-29T12:00:00+00:00 {host} kernel: {XID}\n" for host in hosts))
    source = KernelSource(FileOpening(path), "node17", lambda: "llm", known_as=("login.site",), since_hours=1e5)
    facts = checked(source.finish(None).facts)
    assert [fact.node for fact in facts] == ["gpu-7", *["node17"] * 4, "10.0.0.9"]
    assert len({fact.emitter for fact in facts}) == 1


def test_whose_the_lines_of_another_machine_are_is_asked_and_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "dmesg.txt"
    dmesg = f"[Sun Nov 29 12:00:00 2026] {XID}\n"
    path.write_text(dmesg * 2 + f"2026-11-29T12:00:00+00:00 gpu-7 kernel: {XID}\n")

    def told(*words: str) -> tuple[list[str | None], str]:
        assert main([*words, "--stdout"]) == 0
        printed = capsys.readouterr()
        facts = [decode_line(line.encode()) for line in printed.out.splitlines()]
        return [fact.node for fact in facts if isinstance(fact, Evidence)], printed.err

    imported, said = told("import", "kernel", str(path), "--run", "llm")
    assert imported == [None, None, "gpu-7"]
    assert "2 lines that matter name no machine (`dmesg -T`): --node NAME says whose they are" in said
    named, said = told("import", "kernel", str(path), "--run", "llm", "--node", "gpu-9")
    assert (named, said) == (["gpu-9", "gpu-9", "gpu-7"], "")
    followed = ("collect", "kernel", "--file", str(path), "--run-id", "llm", "--once", "--since-hours", "100000")
    here, _ = told(*followed)
    assert here[0] == here[1] != "gpu-7" and here[2] == "gpu-7"
    assert caplog.text.count("--node says whose they are") == 1
    assert told(*followed, "--node", "gpu-9")[0] == named
    assert main(["import", "logs", str(path), "--run", "llm", "--node", "gpu-9"]) == 1
    assert "--node 'gpu-9': logs does not heed it, only kernel does" in capsys.readouterr().err


def test_while_no_run_is_known_nothing_is_read():
    run: list[str] = []
    source = KernelSource(KmsgOpening(Ring(RECORDS), lambda: "b", lambda: BOOTED), "n", lambda: run[0] if run else None,
                          since_hours=100, now=lambda: BOOTED / S + 20_000)  # fmt: skip
    assert source.finish(None).facts == () and source.runs == ()
    run.append("llm")
    assert len(source.finish(None).facts) == 4


def test_an_agent_tells_its_kernel_and_that_it_cannot_hear_it(tmp_path: Path):
    with (tmp_path / "told").open("wb") as told:
        ring = Ring(RECORDS)
        agent = Agent(tmp_path / "agent", FileOutlet(told), "node17", run="llm", sources=[on(ring)])
        agent.look()
        agent.sender.drain(5)
        ring.failure = "/dev/kmsg: Operation not permitted"
        agent._sources = [on(ring)]
        agent.look()
        agent.sender.drain(5)
        agent.close()
    facts = [decode_line(line) for line in (tmp_path / "told").read_bytes().splitlines()]
    assert [getattr(fact, "code", None) for fact in facts][:2] == ["xid:79", "xid:63"]
    assert isinstance(facts[-1], Blind)
    assert (facts[-1].source, facts[-1].reason) == ("kernel", "/dev/kmsg: Operation not permitted")


@given(st.lists(st.binary(max_size=80) | st.sampled_from(RECORDS) | st.sampled_from(ENTRIES), max_size=20))
def test_any_bytes_are_a_device_and_a_journal(raw: list[bytes]):
    for each in raw:
        kmsg.read_record(each)
        journal.read_entry(each)
    checked(on(Ring(raw)).finish(None).facts)
    told = Journal([each.replace(b"\n", b"") + b"\n" for each in raw])
    for fact in of(told).finish(None).facts if not set(raw) & set(ENTRIES) else ():
        assert decode_line(encode_line(fact)) == fact


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.text(max_size=60) | st.sampled_from(['{"boot": 3}', '{"boot": "b"}', '{"mark": "x"}', '{"cursor": 4}', "[]"]))
def test_a_cursor_that_makes_no_sense_is_the_beginning(cursor: str):
    assert on(Ring(RECORDS)).finish(cursor).facts == on(Ring(RECORDS)).finish(None).facts
