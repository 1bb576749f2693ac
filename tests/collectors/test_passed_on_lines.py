"""Lines as containers, journals, launchers and terminals pass them on: who spoke stays named, the text whole."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.collectors.kept_files import kept
from rerail.collectors.sources.encodings import text_bytes, text_stream
from rerail.collectors.sources.launcher import LauncherSource
from rerail.collectors.sources.line_prefixes import Labels
from rerail.collectors.sources.line_wrappings import is_wrapped, unwrapped
from rerail.collectors.sources.log_lines import LocalClock, read_line
from rerail.collectors.sources.log_reader import read_log
from rerail.collectors.sources.run_files import read_run_files
from rerail.collectors.uploads import understood
from rerail.server.cli import main
from rerail.server.commands.classifying import Interruption, interruptions
from rerail.server.core.facts import Evidence

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/home/me/train.py", line 4, in step',
    "    loss = model(batch)",
    "ValueError: bad batch 8",
]
BAR = "Epoch 1:  10%|█         | 5/50 [00:01<00:10,  4.3it/s]"
NAMED = {
    "mpirun --tag-output": "[1,12]<stderr>:{line}",
    "mpirun with a date": "Mon Nov  3 12:00:00 2026[1,12]<stderr>:{line}",
    "prterun": "[prterun-n1-12@1,12]<stderr>: {line}",
    "srun --label": "12: {line}",
    "srun --label of a hundred": "012: {line}",
    "stamp and node": "2026-11-03T12:00:00.123 node5: [rank12]: {line}",
    "stamp, zone and node": "2026-11-03T12:00:00Z node5: [rank12]: {line}",
    "stamp, zone and node without a colon": "2026-11-03T12:00:00.1Z node5 [rank12]: {line}",
    "stamp alone": "2026-11-03 12:00:00 [rank12]: {line}",
    "pdsh": "worker-3: [rank12]: {line}",
    "pdsh by address": "10.0.0.7: [rank12]: {line}",
    "stern": "llama-worker-0 pytorch [rank12]: {line}",
    "stern, all namespaces": "ml llama-worker-0 pytorch [rank12]: {line}",
    "kubectl logs --prefix": "[pod/llama-worker-0/pytorch] [rank12]: {line}",
    "docker compose": "trainer-1  | [rank12]: {line}",
    "containerd": "2026-11-03T12:00:00.123456789Z stderr F [rank12]: {line}",
    "journalctl": "Nov  3 12:00:00 gpu-9 torchrun[123]: [rank12]: {line}",
    "progress bars on one line": f"\r{BAR}" * 2000 + "[rank12]: {line}",
    "progress bars before each": f"\r{BAR}\r[rank12]: {{line}}",
    "tee and torch": "[default4]:[rank12]: {line}",
}
UNNAMED = {
    "a local rank alone": ("[default3]:{line}", "Local rank 3"),
    "pdsh": ("worker-3: {line}", "on worker-3"),
    "stern": ("llama-worker-0 pytorch {line}", "A rank"),
    "stamp": ("2026-11-03 12:00:00 {line}", "A rank"),
    "stamp and node": ("2026-11-03T12:00:00 node5: {line}", "on node5"),
    "docker compose": ("trainer-1  | {line}", "A rank"),
}


def judged(tmp_path: Path, content: bytes | str, name: str = "train.log") -> list[Interruption]:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return interruptions(read_run_files([str(tmp_path)]))


def lines(template: str, told: list[str] = TRACEBACK) -> str:
    return "".join(template.replace("{line}", line) + "\n" for line in told)


@pytest.mark.parametrize("template", NAMED.values(), ids=NAMED)
def test_whoever_passes_a_traceback_on_the_rank_that_raised_is_named(tmp_path: Path, template: str):
    (found,) = judged(tmp_path, "step 1 loss 2.0\n" + lines(template))
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 12)
    assert dict(found.verdict.traits) == {"exception": "ValueError", "frame": "train.py:step"}
    assert found.verdict.sentence.startswith("Rank 12 ")
    assert found.verdict.sentence.endswith("raised ValueError: bad batch 8")


@pytest.mark.parametrize(("template", "words"), UNNAMED.values(), ids=UNNAMED)
def test_a_rank_that_nobody_names_stays_unknown_and_what_is_known_is_said(tmp_path: Path, template: str, words: str):
    (found,) = judged(tmp_path, lines(template))
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", None)
    assert dict(found.verdict.traits)["frame"] == "train.py:step"
    assert words in found.verdict.sentence


def test_two_pods_that_print_at_once_keep_their_tracebacks(tmp_path: Path):
    first = [f"job-worker-0 main [rank1]: {line}" for line in TRACEBACK]
    second = [f"job-worker-1 main [rank9]: {line}" for line in [*TRACEBACK[:-1], "KeyError: 'mask'"]]
    text = "".join(f"{one}\n{other}\n" for one, other in zip(first, second, strict=True))
    (tmp_path / "x.log").write_text(text)
    told = {
        (fact.rank, fact.code) for fact in read_run_files([str(tmp_path)]).facts if isinstance(fact, Evidence)
    }  # fmt: skip
    assert told == {(1, "ValueError"), (9, "KeyError")}


@pytest.mark.parametrize(
    ("before", "rank"),
    [
        ("+ torchrun --nproc-per-node 8 train.py\n", 3),
        ("+ torchrun --nnodes 4 --nproc-per-node 8 train.py\n", None),
        ("+ torchrun --nnodes 1 --nproc-per-node 8 train.py\n", 3),
    ],
)
def test_a_local_rank_is_the_rank_only_where_there_is_one_node(tmp_path: Path, before: str, rank: int | None):
    (found,) = judged(tmp_path, before + lines("[default3]:{line}"))
    assert found.verdict.culprit_rank == rank


def test_a_local_rank_and_the_place_of_its_node_give_the_rank(tmp_path: Path):
    joined = (
        "I1129 12:00:00.000000 77 torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1] The node 'n2_77_0' has "
        "joined round 0 of the rendezvous 'j' as rank 2 in a world of size 4.\n"
    )
    text = "+ torchrun --nnodes 4 --nproc-per-node 8 train.py\n" + joined + lines("[default3]:{line}")
    text += "E1129 12:00:09.000000 77 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
    text += "local_rank: 3 (pid: 501) of binary: python\n"
    (found,) = judged(tmp_path, text)
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 19)


# --- records ---


def docker(text: str) -> str:
    return json.dumps({"log": text, "stream": "stderr", "time": "2026-11-03T12:00:00.123456Z"}, separators=(",", ":"))


def journal(text: str) -> str:
    return json.dumps({"_HOSTNAME": "gpu-7", "MESSAGE": text, "__REALTIME_TIMESTAMP": "1795953947477143", "_PID": "12"})


@pytest.mark.parametrize("name", ["0f3a-json.log", "container.json", "train.jsonl"])
def test_dockers_own_files_are_logs_whatever_they_are_called(tmp_path: Path, name: str):
    text = "".join(docker(f"[rank6]: {line}\n") + "\n" for line in ["step 1", *TRACEBACK])
    (found,) = judged(tmp_path, text, name)
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 6)


def test_a_journal_as_json_names_the_machine(tmp_path: Path):
    text = "".join(journal(f"[rank6]: {line}") + "\n" for line in TRACEBACK)
    (found,) = judged(tmp_path, text)
    assert (found.verdict.culprit_rank, found.verdict.culprit_node) == (6, "gpu-7")


def test_a_whole_traceback_in_one_record_of_a_json_logger_is_read(tmp_path: Path):
    record = {
        "timestamp": "2026-11-03T12:00:00.5Z",
        "level": "ERROR",
        "message": "failed",
        "exc_info": "\n".join(TRACEBACK),
    }
    (found,) = judged(tmp_path, json.dumps(record) + "\n")
    assert dict(found.verdict.traits)["frame"] == "train.py:step"


@pytest.mark.parametrize("rank", [4, "4"])
def test_a_record_that_names_rank_and_machine_tells_whose_it_is(tmp_path: Path, rank: int | str):
    record = {"time": "2026-11-03T12:00:00Z", "level": "ERROR", "rank": rank, "hostname": "gpu-3",
              "message": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"}  # fmt: skip
    (found,) = judged(tmp_path, json.dumps(record) + "\n")
    assert (found.verdict.culprit_rank, found.verdict.culprit_node) == (4, "gpu-3")


@pytest.mark.parametrize(
    ("text", "cause", "node"),
    [
        ("Nov  3 10:00:00 gpu-3 kernel: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Fatal, Link 27 LTSSM Fault Up",
         "gpu_hardware", "gpu-3"),
        ("[rank2]: RuntimeError: found unexpectedly large norm in gradient of bucket 3", "loss_anomaly", None),
        ("Exception: Current loss scale already at minimum - cannot decrease scale anymore", "loss_anomaly", None),
        ("[rank2]: zipfile.BadZipFile: Bad CRC-32 for file 'archive/data/3'", "checkpoint_corrupt", None),
    ],
)  # fmt: skip
def test_a_single_line_has_its_cause(tmp_path: Path, text: str, cause: str, node: str | None):
    (found,) = judged(tmp_path, text + "\n")
    assert (found.verdict.cause, found.verdict.culprit_node) == (cause, node)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.booleans())
def test_a_line_cut_into_pieces_is_read_whole_wherever_it_is_cut(cuts: list[int], is_docker: bool):
    text = "[rank6]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB" + " x" * 8200
    edges = sorted({0, len(text), *(min(sum(cuts[:end]), len(text)) for end in range(1, len(cuts) + 1))})
    pieces = [text[begin:end] for begin, end in pairwise(edges)]
    if is_docker:  # the runtime cuts at 16 KiB, so that a piece is never short
        pieces = [text[:16_000], text[16_000:]]
        rows = [docker(piece + ("\n" if piece is pieces[-1] else "")) for piece in pieces]
    else:
        rows = [
            f"2026-11-03T12:00:00.1Z stderr {'F' if place == len(pieces) - 1 else 'P'} {piece}"
            for place, piece in enumerate(pieces)
        ]
    read = read_log(io.BytesIO("\n".join([*rows, ""]).encode()), emitter="e", run="r", fallback_at=1)
    (fact,) = [fact for fact in read.facts if isinstance(fact, Evidence)]
    assert fact.rank == 6
    assert fact.text.startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB x")


def test_an_error_file_is_no_log_of_records():
    error = b'{"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1795953810"}}}'
    assert not is_wrapped(error)
    assert not is_wrapped(b'{"kind": "evidence", "run": "r", "text": "x"}\n')
    assert is_wrapped(docker("x\n").encode() + b"\n")


# --- encodings ---


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-8", "utf-32-le"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_log_with_a_byte_order_mark_is_text_with_its_line_numbers(tmp_path: Path, encoding: str, end: str):
    text = "\ufeffstep 1 loss 2.0" + end + "".join(f"[rank6]: {line}{end}" for line in TRACEBACK)
    (found,) = judged(tmp_path, text.encode(encoding))
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 6)
    told = understood("train.log", text.encode(encoding))
    assert [(piece.rank, piece.code) for piece in told.pieces] == [(6, "ValueError")]


@given(
    st.text(max_size=3000).filter(lambda text: text[:1] != "\0"),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
    st.integers(1, 500),
)
def test_a_stream_gives_the_text_behind_its_mark_and_gives_it_again(text: str, encoding: str, size: int):
    content = ("\ufeff" + text).encode(encoding, "surrogatepass")
    expected = text_bytes(content)
    assert expected == text.encode(encoding, "surrogatepass").decode(encoding, "replace").encode()
    stream = text_stream(io.BufferedReader(io.BytesIO(content)))  # type: ignore[arg-type]
    parts = []
    while part := stream.read(size):
        parts.append(part)
    assert b"".join(parts) == expected
    stream.seek(0)
    assert stream.read() == expected


NULS = {
    "at the end": lambda text: text + b"\0" * 5000,
    "at the end of a long file": lambda text: b"step 1\n" * 3000 + text + b"\0" * 5000,
    "in the middle": lambda text: b"step 1\n" + b"\0" * 200_000 + text + b"ok\n",
    "in a line": lambda text: text.replace(b"Val", b"V\0al"),
    "alone": lambda text: b"step 1\n" + text + b"x\0y",
}


@pytest.mark.parametrize("place", NULS)
def test_a_log_of_a_machine_that_crashed_is_a_log_without_its_zero_bytes(
    tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    content = NULS[place]("".join(f"[rank6]: {line}\n" for line in TRACEBACK).encode())
    count = content.count(0)
    words = f"{count} NUL byte{' was' if count == 1 else 's were'} left out (a machine that crashed leaves them)"
    (found,) = judged(tmp_path, content)
    assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 6)
    told = understood("train.log", content)
    assert [(piece.rank, piece.code) for piece in told.pieces] == [(6, "ValueError")]
    assert told.remarks == (words,)
    assert b"\0" not in kept(content) and b"ValueError" in kept(content)
    log = tmp_path / "grown.log"
    log.write_bytes(b"2026-11-03 12:00:00 start\n" + content)
    facts = LauncherSource(node="n1", run="r", log=log).finish(None).facts
    assert [(fact.rank, fact.code) for fact in facts if isinstance(fact, Evidence)] == [(6, "ValueError")]
    assert words in caplog.text
    assert main(["import", "logs", str(log), "--run", "r", "--stdout"]) == 0
    shown = capsys.readouterr()
    assert "ValueError" in shown.out and words in shown.err


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_text(tmp_path: Path, encoding: str):
    text = "단계 1 손실 2.0\n" + "".join(f"[rank6]: {line}\n" for line in TRACEBACK)
    (found,) = judged(tmp_path, text.encode(encoding))
    assert found.verdict.culprit_rank == 6
    assert kept(text.encode(encoding)).decode() == text


@pytest.mark.parametrize(
    "pack", [gzip.compress, partial(bz2.compress, compresslevel=1), lzma.compress], ids=["gzip", "bzip2", "xz"]
)
def test_a_packed_log_is_read_as_far_as_it_goes_whatever_its_name(
    tmp_path: Path, pack: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
):
    behind = random.Random(3).randbytes(150_000).hex().encode()
    text = b"2026-11-03 12:00:00 start\n" + "".join(f"[rank6]: {line}\n" for line in TRACEBACK).encode()
    whole = pack(text + behind)
    for content, is_cut in ((whole, False), (whole[: len(whole) // 2], True)):
        (found,) = judged(tmp_path, content)
        assert (found.verdict.cause, found.verdict.culprit_rank) == ("user_exception", 6)
        (read,) = read_run_files([str(tmp_path)]).files
        assert ("is cut off: what came out of it was read" in str(read.remark)) is is_cut
        assert main(["import", "logs", str(tmp_path / "train.log"), "--run", "r", "--stdout"]) == 0
        shown = capsys.readouterr()
        assert "ValueError" in shown.out and ("is cut off" in shown.err) is is_cut
    (tmp_path / "train.log").write_bytes(whole[:12])
    assert main(["import", "logs", str(tmp_path / "train.log"), "--run", "r", "--stdout"]) == 1
    assert "train.log cannot be read: it is cut off before anything comes out of it" in capsys.readouterr().err


# --- hostile ---

_BITS = st.one_of(
    st.sampled_from([
        "[1,12]<stderr>:", "worker-3: ", "3: ", "[default1]:", "[rank2]: ", "pod-0 main ", "2026-11-03T12:00:00 ",
        "2026-11-03T12:00:00Z stderr P ", "2026-11-03T12:00:00Z stderr F ", "\r", BAR, '{"log":"', '","stream":"stderr"}',
        '{"MESSAGE":[1,2]}', "Nov  3 12:00:00 h j[1]: ", "(W pid=1) ", *TRACEBACK, "\n", "step 5", "Training done",
    ]),
    st.text(max_size=20),
)  # fmt: skip


@given(st.lists(_BITS, max_size=40).map("".join))
def test_no_line_is_too_odd_to_be_read(text: str):
    raw = text.encode("utf-8", "surrogatepass")
    line = read_line(raw.replace(b"\n", b" "), LocalClock(0), Labels())
    assert line.rank is None or line.rank >= 0
    unwrapped(raw)
    read = read_log(io.BytesIO(raw), emitter="e", run="r", fallback_at=1)
    assert read.bytes == len(raw)
    assert len({(fact.emitter, fact.seq) for fact in read.facts}) <= len(read.facts)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: x",
        "step100: loss 3",
        "loss: nan",
        "KeyError: 'a'",
        "2026-11-03 12:00:00,000 - INFO - x",
        "rank3: x",
    ],
)
def test_what_belongs_to_a_line_is_not_taken_off(text: str):
    assert read_line(text.encode(), LocalClock(0), Labels()).raw == text
