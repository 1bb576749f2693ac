"""Reading dumps: pickle and JSON say the same, nothing is ever run, and whatever is wrong is said in a sentence."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.flight_recorder import refusal
from rerail.server.core.flight_recorder.dump import Dump, dump_of, rank_in, read_dump, read_side_car
from rerail.server.core.flight_recorder.json_text import read_json
from rerail.server.core.flight_recorder.pickles import read_pickle
from rerail.server.core.flight_recorder.refusal import DumpRefusedError
from rerail.server.core.flight_recorder.summary import LONGEST_SUMMARY, summary, summary_of, summary_text
from tests.dumps import CORPUS, call, nccl_dump, recorded

PAIRS = ["hang4_rank_0", "hang4_rank_1", "hang4_rank_2", "hang4_rank_3", "missing_end_rank_0", "missing_end_rank_2"]


def without_frames(dump: Dump) -> str:
    return (
        repr(dump).replace(repr(()), "()")
        if dump.entries is None
        else repr(
            [repr(entry).split(", frames=")[0] for entry in dump.entries] + [dump.groups, dump.status, dump.version]
        )
    )


@pytest.mark.parametrize("name", [*PAIRS, "full2000_rank_0"])
def test_a_dump_says_the_same_as_pickle_and_as_json(name: str):
    assert without_frames(read_dump(recorded(name))) == without_frames(read_dump(recorded(f"{name}.json")))


@pytest.mark.parametrize("name", PAIRS)
def test_our_reader_builds_what_pythons_would(name: str):
    assert read_pickle(recorded(name)) == pickle.loads(recorded(name))


def test_stacks_come_with_pickle_only():
    entries = read_dump(recorded("hang4_rank_0")).entries
    assert entries is not None and entries[0].frames[0].function == "all_reduce"
    entries = read_dump(recorded("hang4_rank_0.json")).entries
    assert entries is not None and entries[0].frames == ()


def test_instants_that_are_not_known_are_none_in_both():
    for name in ("hang4_rank_0", "hang4_rank_0.json"):
        entries = read_dump(recorded(name)).entries
        assert entries is not None
        assert {entry.started_at for entry in entries} == {None}


def test_the_nameless_group_of_gloo_is_left_out_and_a_side_car_tells_the_groups():
    assert read_dump(recorded("hang4_rank_1")).groups == ()
    told = read_side_car(recorded("hang4_rank_1.sidecar.json"))
    assert (told.rank, told.world_size) == (1, 4)
    assert {group.description: group.ranks for group in told.groups} == {
        "default_pg": (0, 1, 2, 3), "tp0": (0, 1), "dp1": (1, 3),
    }  # fmt: skip


def test_recording_that_was_disabled_is_not_the_same_as_nothing_recorded():
    assert dump_of({"version": "2.10", "pg_config": {}, "pg_status": {}}).entries is None
    assert dump_of({"version": "2.10", "entries": []}).entries == ()


def test_an_old_dump_is_a_list_of_entries():
    told = [{"pg_id": 0, "seq_id": 7, "profiling_name": "nccl:all_reduce", "state": "started", "frames": [],
             "input_sizes": [[4]], "output_sizes": [[4]]}]  # fmt: skip
    dump = read_dump(pickle.dumps(told, protocol=2))
    assert dump.version is None and dump.entries is not None
    assert (dump.entries[0].sequence, dump.entries[0].operation, dump.entries[0].group) == (7, "all_reduce", "0")


@pytest.mark.parametrize("version", ["2.0", "2.4", "2.10", "2.99"])
def test_every_version_2_is_read(version: str):
    assert dump_of({**nccl_dump({"default_pg": [0]}, [call("default_pg", 1)]), "version": version}).version == version


@pytest.mark.parametrize(
    ("version", "words"), [("3.0", "3.0 is not known"), ("1.9", "1.9"), ("x", "x"), (2, "not text")]
)
def test_another_major_version_is_refused_by_its_number(version: object, words: str):
    with pytest.raises(DumpRefusedError, match=words):
        dump_of({"version": version, "entries": []})


@pytest.mark.parametrize(
    ("name", "rank"),
    [("nccl_trace_rank_12", 12), ("/tmp/a3/fr_trace7.json", 7), ("hang4_rank_1.json", 1), ("trace", None),
     ("rank3", 3), ("node4-rank-9.pickle.gz", 9), ("dump.bin", None)],
)  # fmt: skip
def test_the_rank_stands_in_the_files_name(name: str, rank: int | None):
    assert rank_in(name) == rank


# --- hostile input ---


class Evil:
    def __reduce__(self):
        return os.system, ("touch /nowhere/at/all",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps(Evil(), protocol=2), "opcode GLOBAL at offset 2"),
        (pickle.dumps(Evil(), protocol=4), "opcode STACK_GLOBAL at offset"),
        (b"\x80\x02cos\nsystem\n.", "opcode GLOBAL at offset 2"),
        (b"\x80\x02]R.", "opcode REDUCE at offset 3"),
        (b"\x80\x02\x82\x01.", "opcode EXT1"),
        (b"\x80\x02Pid\n.", "opcode PERSID"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "opcode BINBYTES8"),
        (b"\x80\x02X\xff\xff\xff\x7f.", "a text of 2147483647 bytes at offset 2"),
        (b"\x80\x02X\x10\x00\x00\x00abc", "cut off at offset 2"),
        (b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".", "a number of 255 bytes at offset 2"),
        (b"\x80\x02h\x05.", "value 5, which it never kept"),
        (b"\x80\x02]e.", "not there"),
        (b"\x80\x02(((u.", "not there|no mapping"),
        (b"\x80\x02]K\x01", "ends at offset 5"),
        (b"\x80\x02K\x01K\x02.", "2 values"),
        (b"\x80\x02}]K\x01s.", "neither text nor number"),
        (b"\x80\x02K\x01a.", "not there"),
        (b"\x80\x02K\x01K\x01a.", "no list"),
        (b"\x80\x02.", "0 values"),
    ],
)
def test_a_pickle_that_does_more_than_build_values_is_refused_by_opcode_and_offset(content: bytes, words: str):
    with pytest.raises(DumpRefusedError, match=words):
        read_pickle(content)


def test_a_memo_that_doubles_a_list_a_hundred_times_does_not_multiply():
    bomb = b"\x80\x02]q\x00" + b"".join(
        b"](" + b"h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1]) for level in range(100)
    )
    began = time.monotonic()
    with pytest.raises(DumpRefusedError):
        read_dump(bomb + b"0" * 0 + b"t.")
    entry = pickle.dumps({"entries": [{"input_sizes": [[1]] * 1000, "profiling_name": "x"}] * 10_000,
                          "version": "2.1"}, protocol=2)  # fmt: skip
    with pytest.raises(DumpRefusedError, match="holds more than"):
        read_dump(entry)
    assert time.monotonic() - began < 60


def test_more_opcodes_and_more_containers_than_any_dump_has_are_refused_in_bounded_time():
    with pytest.raises(DumpRefusedError, match="lists and mappings"):
        read_pickle(b"\x80\x02" + b"]" * (refusal.MOST_CONTAINERS + 2))
    with pytest.raises(DumpRefusedError, match="more than 12000000 opcodes"):
        read_pickle(b"\x80\x02" + b"N" * (refusal.MOST_OPCODES + 2))


def test_the_ranks_of_a_group_are_never_evaluated(tmp_path):
    trap = f"__import__('pathlib').Path({str(tmp_path / 'run')!r}).write_text('x')"
    for ranks in (repr(trap), trap, json.dumps(trap), "[0, True]", "[0.5]", "[-1]", '{"0": 1}', "[" * 100_000):
        told = {**nccl_dump({"default_pg": [0]}, []), "pg_config": {"0": {"desc": "d", "ranks": ranks}}}
        with pytest.raises(DumpRefusedError, match=r"pg_config\.0\.ranks"):
            dump_of(told)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 200_000, "nested more than 64 deep"),
        (b"[" * 65 + b"]" * 65, "nested more than 64 deep"),
        (b"[" + b"[]," * 1_000_001, "more than 1000000 containers"),
        (b"[" + b"1," * 8_000_001, "or 8000000 values"),
        (b'{"version": ' + b"9" * 5000 + b"}", "a number of 5000 digits"),
        (b'{"version": NaN}', "NaN is no JSON number"),
        (b'{"version": "2.1", "entries": {}}', "entries: not a list"),
        (b'{"version": "2.1", "entries": [1]}', r"entries\[0\]: not an object"),
        (b'{"version": "2.1", "entries": [{"pg_id": "x"}]}', r"entries\[0\]\.pg_id: not a whole number"),
        (b'{"version": "2.1", "entries": [{"input_sizes": [[1e9]]}]}', r"entries\[0\]\.input_sizes"),
        (b'{"version": "2.1", "entries": [{"process_group": "0"}]}', r"entries\[0\]\.process_group"),
        (b'{"version": "2.1", "entries"', "not JSON"),
        (b'{"version": "2.1", \xff}', "not UTF-8"),
        (b"PK\x03\x04", "neither a pickle"),
        (b"", "neither a pickle"),
    ],
)
def test_json_that_is_no_dump_is_refused_with_its_field(content: bytes, words: str):
    with pytest.raises(DumpRefusedError, match=words):
        read_dump(content)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(content: bytes):
    for attempt in (content, b"\x80\x02" + content, b"\x80\x04" + content, b"{" + content):
        with contextlib.suppress(DumpRefusedError):
            read_dump(attempt)


@given(st.data())
def test_a_dump_with_bytes_changed_is_read_or_refused(data: st.DataObject):
    content = bytearray(recorded(data.draw(st.sampled_from(["hang4_rank_3", "hang4_rank_3.json"]))))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        dump = read_dump(bytes(content[: data.draw(st.integers(0, len(content)))]))
        told = summary_text(summary(dump, 0))
    except DumpRefusedError:
        return
    assert len(told) <= LONGEST_SUMMARY
    assert summary_of(told) is not None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["version", "entries", "pg_config", "pg_status", "process_group", "profiling_name", "input_sizes", "frames",
     "collective_seq_id", "state", "retired", "time_created_ns", "is_p2p", "pg_id", "ranks", "desc"]
)  # fmt: skip
ENTRIES = st.lists(st.dictionaries(FIELDS, VALUES, max_size=8), max_size=4)


@given(st.dictionaries(FIELDS, VALUES | ENTRIES, max_size=8))
def test_whatever_the_fields_hold_it_is_read_or_refused(told: dict[str, object]):
    for value in (told, {**told, "version": "2.5"}):
        try:
            dump = dump_of(value)
            kept = summary_of(summary_text(summary(dump, 3)))
        except DumpRefusedError:
            continue
        assert kept is not None and kept.rank == 3


@given(VALUES)
def test_plain_values_survive_the_pickle_reader(value: object):
    for protocol in (2, 4):
        buffer = io.BytesIO()
        pickle.Pickler(buffer, protocol).dump(value)
        try:
            assert read_pickle(buffer.getvalue()) == value
        except DumpRefusedError as error:
            assert "number" in str(error) or "opcode" in str(error)


@given(st.text(max_size=600))
def test_a_text_that_is_no_summary_is_none(text: str):
    assert summary_of(text) is None


def test_a_text_longer_than_its_limit_and_a_length_that_lies_are_refused():
    long = pickle.dumps("x" * (refusal.LONGEST_TEXT + 1), protocol=2)
    with pytest.raises(DumpRefusedError, match="a text of"):
        read_pickle(long)
    with pytest.raises(DumpRefusedError):
        read_pickle(b"\x80\x02j" + struct.pack("<I", 2**31) + b".")
    assert read_json(b"[1]") == [1]


def test_a_dump_of_two_thousand_entries_becomes_a_summary_of_at_most_twelve_thousand_characters():
    for name in ("full2000_rank_0", "full2000_rank_0.json"):
        told = summary(read_dump(recorded(name)), 0)
        text = summary_text(told)
        assert len(text) <= LONGEST_SUMMARY < 16_384
        kept = summary_of(text)
        assert kept is not None
        assert (kept.entry_count, kept.first_record) == (2000, 1200)
        assert [group.enqueued for group in kept.groups] == [800] * 4


def test_a_dump_of_many_groups_keeps_those_in_which_something_is_pending():
    groups = {f"group{number}": list(range(64)) for number in range(300)}
    calls = [call(name, 1, state="completed") for name in groups]
    calls.append(call("group7", 2, state="started"))
    text = summary_text(summary(dump_of(nccl_dump(groups, calls)), 5))
    assert len(text) <= LONGEST_SUMMARY
    kept = summary_of(text)
    assert kept is not None and kept.left_out > 0
    assert any(group.description == "group7" and group.pending_count for group in kept.groups)


def test_the_corpus_is_what_the_tests_name():
    assert {path.name.removesuffix(".gz") for path in CORPUS.iterdir()} >= {*PAIRS, "full2000_rank_0"}
