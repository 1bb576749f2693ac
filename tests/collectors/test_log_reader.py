"""The log reader and its neighbours: any bytes, the same facts again, secrets gone, storms bounded."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

import io
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.collectors.formats import OldFile, formats
from rerail.collectors.patience import Patience
from rerail.collectors.sources.error_files import error_file, evidence_of_error_file
from rerail.collectors.sources.evidence_limits import MOST_WAITING
from rerail.collectors.sources.log_reader import BLOCK_BYTES, read_log
from rerail.collectors.sources.run_files import read_run_files
from rerail.server.cli import main
from rerail.server.core.codec import FactError
from rerail.server.core.facts import Evidence

TELLING = [
    b"[rank3]: Traceback (most recent call last):",
    b'[rank3]:   File "/home/me/train.py", line 3, in step',
    b"[rank3]: ValueError: bad",
    b"E1129 12:03:40.228000 30487 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    b"local_rank: 1 (pid: 30501) of binary: python",
    b"NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.",
    b"[Sun Nov 29 12:03:39 2026] Out of memory: Killed process 1 (x)",
    b"2026-11-29T12:00:00Z RuntimeError: Connection closed by peer",
    b"rank=1 fn_ex: RuntimeError('x')",
    b"[rank0]:[E1129 12:00:00.123456789 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation timeout",
]
lines = st.lists(
    st.one_of(st.binary(max_size=200), st.sampled_from(TELLING), st.text(max_size=80).map(str.encode)), max_size=40
)


def read(data: bytes, **options):
    return read_log(io.BytesIO(data), emitter="e", run="r", fallback_at=7, **options)


@settings(max_examples=200, deadline=None)
@given(lines, st.booleans(), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_any_bytes_are_read_and_the_same_bytes_say_the_same(parts, worker_only, end):
    data = end.join(parts)
    first, second = read(data, worker_only=worker_only), read(data, worker_only=worker_only)
    assert first.facts == second.facts
    assert len({(fact.emitter, fact.seq) for fact in first.facts}) == len(first.facts)
    for fact in first.facts:
        if isinstance(fact, Evidence):
            assert all(letter.isprintable() or letter in "\n\t" for letter in fact.text)
            assert 0 < len(fact.text) <= 16_384


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.recursive(st.none() | st.text(max_size=20) | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["message", "extraInfo", "py_callstack", "timestamp", "x"]), inner, max_size=4), max_leaves=12).map(lambda told: json.dumps(told).encode())))  # fmt: skip
def test_an_error_file_is_understood_or_refused_with_a_reason(data):
    try:
        told = error_file(data)
    except FactError as error:
        assert error.reason
        return
    assert isinstance(told.message, str)
    evidence_of_error_file(data, path="a/attempt_1/2/error.json", run="r", emitter="e", fallback_at=1)


def test_an_error_file_gives_the_chain_the_own_frame_and_the_place():
    callstack = (
        "Traceback (most recent call last):\n"
        '  File "/home/me/data.py", line 3, in load\n    x\nKeyError: 3\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 9, in main\n'
        '  File "/v/lib/python3.11/site-packages/torch/nn/module.py", line 1, in forward\nRuntimeError: no batch\n'
    )
    message = {"message": "RuntimeError: no batch", "extraInfo": {"py_callstack": callstack, "timestamp": "1795953810"}}
    first, second = evidence_of_error_file(
        json.dumps({"message": message}).encode(), path="/x/attempt_2/5/error.json", run="r", emitter="e", fallback_at=1
    )
    assert (first.text, first.code, first.restart, first.local_rank, first.rank) == ("KeyError: 3", "KeyError", 2, 5, 5)
    assert dict(first.attributes)["own_frame"] == "data.py:load"
    assert dict(second.attributes)["own_frame"] == "train.py:main"
    assert first.at == 1_795_953_810_000_000_000


def test_a_line_longer_than_a_block_and_a_file_of_one_line_are_read():
    assert read(b"x" * (3 * BLOCK_BYTES)).facts == []
    told = read(b"x" * (2 * BLOCK_BYTES) + b"\n[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: x\n")
    assert [fact.text for fact in told.facts] == ["[rank1]: ValueError: x"]


def test_lines_on_the_edge_of_a_block_are_whole():
    filler = b"step 1 loss 2.0\n"
    for shift in range(0, 40, 7):
        head = filler * ((BLOCK_BYTES - 20) // len(filler)) + b"y" * shift + b"\n"
        told = read(head + b"[rank5]: Traceback (most recent call last):\n[rank5]: KeyError: 'x'\n" + filler * 10)
        assert [(fact.text, fact.rank) for fact in told.facts] == [("[rank5]: KeyError: 'x'", 5)]


def test_a_storm_is_kept_a_few_times_and_counted():
    storm = b"".join(
        b"[rank%d]: RuntimeError: Connection closed by peer [10.0.0.1]:%d\n" % (n, n) for n in range(50_000)
    )
    start = time.perf_counter()
    told = read(storm + b"[rank7]:[E1129 12:00:00.1 x.cpp:1] CUDA error: uncorrectable ECC error encountered\n")
    assert time.perf_counter() - start < 10
    assert len(told.facts) < 60
    assert told.lines_counted > 49_000
    assert any("ECC" in fact.text for fact in told.facts)


def watchdog(rank: int) -> bytes:
    return (
        b"[rank%d]:[E1129 12:30:00.000001000 ProcessGroupNCCL.cpp:629] [Rank %d] Watchdog caught collective operation "
        b"timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE) ran for 600004 milliseconds before timing out.\n" % (rank, rank)
    )


@pytest.mark.parametrize(("ranks", "kept"), [(300, 299), (5000, MOST_WAITING + 64)])
def test_of_a_storm_of_watchdogs_the_first_word_of_each_rank_is_kept(ranks, kept):
    others = [rank for rank in range(ranks) if rank != 250]
    told = read(b"".join(watchdog(rank) for rank in (*others, *others)) + b"[rank7]: RuntimeError: Broken pipe\n")
    waited = [fact.rank for fact in told.facts if "Watchdog caught" in fact.text]
    assert 250 not in waited
    assert set(waited) == set(others) if ranks < MOST_WAITING else len(set(waited)) >= MOST_WAITING
    assert len(waited) <= kept
    assert any("Broken pipe" in fact.text for fact in told.facts)


def test_text_of_many_shapes_is_searched_and_nothing_is_lost():
    words = b"".join(b"%s %d\n" % (bytes(97 + (n * 7 + k * 3) % 26 for k in range(30)), n) for n in range(20_000))
    told = read(words + b"torch.cuda.OutOfMemoryError: CUDA out of memory\n" + words)
    assert [fact.text for fact in told.facts] == ["torch.cuda.OutOfMemoryError: CUDA out of memory"]


def test_escape_sequences_and_secrets_do_not_get_through():
    data = b"[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: \x1b[31mAKIAIOSFODNN7EXAMPLE\x07 token=abc123\n"
    (piece,) = read(data).facts
    assert "\x1b" not in piece.text and "AKIA" not in piece.text and "abc123" not in piece.text
    assert piece.rank == 1


def old(data: bytes, refused: list, path: str = "x.log", run: str = "r") -> OldFile:
    return OldFile(
        path=path, stem="x", run=run, lines=enumerate(data.splitlines(keepends=True), 1), content=lambda: data,
        refuse=lambda line, error: refused.append((line, error)), remark=lambda words: None,
    )  # fmt: skip


def test_a_kernel_log_is_imported_where_it_says_when():
    refused: list = []
    data = b"[Sun Nov 29 12:03:39 2026] NVRM: Xid (PCI:0000:05:00): 79, pid=1, GPU has fallen off the bus.\n[1.5] usb: new device\n"
    (piece,) = formats()["kernel"].read(old(data, refused))
    assert (piece.source, piece.code) == ("kernel", "xid:79")
    assert not refused
    assert list(formats()["kernel"].read(old(b"[123.4] NVRM: Xid (PCI:0000:05:00): 79, pid=1, x\n", refused))) == []
    assert "dmesg -T" in refused[0][1].reason


def test_classify_prints_a_stable_shape_and_says_what_it_did_not_read(tmp_path, capsys):
    (tmp_path / "train.log").write_text(
        "hello\n[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/me/train.py", line 3, in step\n[rank1]: ValueError: \x1b[31mbad\n'
    )
    (tmp_path / "core").write_bytes(b"\x7fELF" + b"\0" * 500)
    assert main(["classify", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 1
    (found,) = told["interruptions"]
    assert (found["cause"], found["culprit_rank"], found["domain"]) == ("user_exception", 1, "workload")
    assert found["traits"] == {"exception": "ValueError", "frame": "train.py:step"}
    assert (found["evidence"][0]["line"], found["evidence"][0]["role"]) == (4, "initiating")
    assert [each["path"] for each in told["skipped"]] == [str(tmp_path / "core")]
    assert main(["classify", str(tmp_path / "train.log")]) == 0
    shown = capsys.readouterr().out
    assert "train.log:4" in shown and "\x1b" not in shown


def test_classify_says_when_there_is_nothing_to_read(tmp_path, capsys):
    assert main(["classify", str(tmp_path / "absent.log")]) == 1
    assert "absent.log" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.log", "a.json", "a.pickle", "attempt_0/1/error.json", "x.gz"])
@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=400))
def test_no_file_whatever_its_name_stops_the_others(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("files")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert read_run_files([str(folder)]).files


def test_a_receivers_stamp_in_front_of_every_line_changes_no_evidence() -> None:
    lines = ["[rank1]: ValueError: bad batch", "[rank0]: RuntimeError: Connection reset by peer"]
    received = [f"179595559{number}.733 n{number} {line}" for number, line in enumerate(lines)]
    plain, stamped = (
        [(fact.rank, fact.text) for fact in read("\n".join(each).encode()).facts] for each in (lines, received)
    )
    assert plain == stamped
    assert [rank for rank, _ in plain] == [1, 0]


def test_reading_that_takes_too_long_stops_and_says_where(tmp_path, capsys):
    """A clock that jumps stands for a slow disk or hostile lines."""
    now = iter([0.0, *[1.0] * 3, *[99.0] * 1000])
    data = b"".join(b"[rank1]: ValueError: bad batch %d of %s\n" % (n, b"abcdefgh"[n % 8 :]) for n in range(3000))
    told = read(data, patience=Patience(60, lambda: next(now)))
    assert 0 < told.stopped_at < len(data)
    assert told.facts
    assert read(data).stopped_at is None
    (tmp_path / "train.log").write_bytes(data * 200)
    assert main(["classify", str(tmp_path), "--json", "--time-limit", "1"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["reason"] is None or "reading stopped after 1 s at byte" in file["reason"]
    with pytest.raises(SystemExit):
        main(["classify", str(tmp_path), "--time-limit", "0"])
    assert "'0' is not a number between 1 and 1000000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("NVRM: Xid (PCI:0000:5e:00): 63, pid=1, Row Remapper: New row (0x12) marked\n for remapping, reset gpu to activate.\n",
         ["NVRM: Xid (PCI:0000:5e:00): 63, pid=1, Row Remapper: New row (0x12) marked for remapping, reset gpu to activate."]),
        ("Nov 28 10:00:08 n9 kernel: NVRM: Xid (PCI:0000:19:00): 63, pid=12, name=\nNov 28 10:00:08 n9 kernel: python, Row Remapper: New row\n",
         ["NVRM: Xid (PCI:0000:19:00): 63, pid=12, name=python, Row Remapper: New row"]),
        ("NVRM: Xid (PCI:0000:19:00): 31, pid=12, MMU Fault\n iteration       10/     100 | consumed samples: 1 |\n",
         ["NVRM: Xid (PCI:0000:19:00): 31, pid=12, MMU Fault"]),
        ("NVRM: Xid (PCI:0000:19:00): 79, fallen off the bus.\n and more words of somebody\n",
         ["NVRM: Xid (PCI:0000:19:00): 79, fallen off the bus."]),
        ("[rank0]:[W1130 13:27:49.302624805 socket.cpp:494] [c10d] waitForInput: socket SocketImpl(fd=17, addr=[::1]:39602, "
         "remote=[::1]:29778) timed out after 200ms\n", []),
        ("[rank0]:[W1130 13:27:49.302624805 socket.cpp:494] [c10d] waitForInput: socket SocketImpl(fd=17, addr=[::1]:39602, "
         "remote=[::1]:29778) timed out after 300000ms\n",
         ["socket.cpp: [c10d] waitForInput: socket SocketImpl(fd=17, addr=[::1]:39602, remote=[::1]:29778) timed out after 300000ms"]),
    ],
)  # fmt: skip
def test_a_wrapped_line_of_a_kernel_is_whole_and_a_poll_of_the_store_is_no_evidence(text, told):
    assert [fact.text for fact in read(b"hello\n" + text.encode()).facts if isinstance(fact, Evidence)] == told


def test_a_line_behind_a_screen_of_escape_sequences_is_read():
    line = b"\x1b[38;5;196m\x1b[0m" * 30_000 + b"[rank2]: RuntimeError: DataLoader worker (pid 7) exited unexpectedly\n"
    (found,) = read(b"hello\n" + line).facts
    assert (found.rank, found.text) == (2, "RuntimeError: DataLoader worker (pid 7) exited unexpectedly")


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        (b"2026-11-29T12:00:00Z RuntimeError: Connection closed by peer\n", True),
        (b"2026-11-29T12:00:00+09:00 RuntimeError: Connection closed by peer\n", True),
        (b"2026-11-29 12:00:00 RuntimeError: Connection closed by peer\n", False),
        (b'{"log": "RuntimeError: Connection closed by peer\\n", "time": "2026-11-29T12:00:00Z"}\n', True),
        (b"RuntimeError: Connection closed by peer\n", False),
    ],
)
def test_whether_the_stamps_of_a_log_say_their_zone(line, is_told):
    assert read(line).zone_is_told is is_told
