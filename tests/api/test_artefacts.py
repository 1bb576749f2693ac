"""Files given to an incident over HTTP: understood, counted once, withdrawn, restored, and never shown by a browser."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import random
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import httpx
import pytest

from rerail.collectors.patience import Patience
from rerail.server.api.artefacts import AT_ONCE
from rerail.server.artefacts import ArtefactDesk
from rerail.server.errors import RefusedRequestError
from rerail.server.ingest import Ingest
from rerail.server.preparing import prepare_database
from rerail.server.projector import Projector
from rerail.server.settings import Settings
from rerail.server.store import open_store
from tests.api.conftest import Serve
from tests.dumps import recorded

PATH = "/api/v1/incidents/a~0/artefacts"
TRACEBACK = b"""starting up
[rank1]: Traceback (most recent call last):
[rank1]:   File "/opt/train/loop.py", line 71, in step
[rank1]:     loss = model(batch)
[rank1]: ValueError: api_key=abcdef0123456789 is no shard
"""
KERNEL = (
    b"Oct  9 08:53:49 gpu-3 kernel: NVRM: Xid (PCI:0000:91:00): 79, pid=7, name=python3, GPU has fallen off the bus.\n"
)


@pytest.fixture
def run(client: httpx.Client, small_run: Callable[..., bytes], settled: Callable[[httpx.Client], None]) -> httpx.Client:
    """A server that knows a run with one incident."""
    client.post("/api/v1/facts", content=small_run())
    settled(client)
    return client


def give(client: httpx.Client, name: str, content: bytes, **query: object) -> dict:
    answer = client.post(PATH, params={"name": name, **query}, content=content)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def incident(client: httpx.Client) -> dict:
    return client.get("/api/v1/incidents/a~0").json()


def given_dumps(client: httpx.Client) -> list[dict]:
    return [
        *(give(client, f"hang4_rank_{rank}", recorded(f"hang4_rank_{rank}")) for rank in range(4)),
        give(client, "hang4_rank_1.sidecar.json", recorded("hang4_rank_1.sidecar.json")),
    ]


def test_the_dumps_of_all_ranks_name_the_culprit(run: httpx.Client, settled):
    told = given_dumps(run)
    assert [each["kind"] for each in told] == ["flight_recorder"] * 4 + ["process_groups"]
    assert all(each["pieces"] == 1 and each["refused"] == [] and each["new"] for each in told)
    settled(run)
    found = incident(run)["incident"]
    assert found["flight_recorder"]["culprits"] == [3]
    assert (found["cause"], found["culprit_rank"]) == ("hang", 3)
    listed = run.get(PATH).json()
    assert len(listed["artefacts"]) == 5 and all(each["heard"] for each in listed["artefacts"])
    assert listed["largest_bytes"] == 64 * 1024 * 1024


def test_the_same_file_again_changes_nothing(run: httpx.Client, settled):
    first = give(run, "log.txt", TRACEBACK, author="mina")
    settled(run)
    before = incident(run)
    again = run.post(PATH, params={"name": "other.txt"}, content=TRACEBACK)
    assert (again.status_code, again.json()["new"]) == (200, False)
    settled(run)
    assert incident(run)["incident"] == before["incident"]
    (listed,) = run.get(PATH).json()["artefacts"]
    assert (listed["name"], listed["author"], listed["sha256"]) == ("log.txt", "mina", first["sha256"])


def test_a_copy_of_a_dump_is_not_that_of_another_rank(run: httpx.Client):
    first, copied = recorded("hang4_rank_0"), "hang4_rank_1: it is byte for byte hang4_rank_0, a copy"
    both = run.post(PATH, params={"name": "both.zip"}, content=zipped(hang4_rank_0=first, hang4_rank_1=first))
    assert [row["name"] for row in both.json()["files"]] == ["hang4_rank_0"]
    assert copied in both.json()["refused"][0]
    again = run.post(PATH, params={"name": "hang4_rank_1"}, content=first)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "a_copy")
    assert copied in again.json()["error"]["message"]
    assert run.post(PATH, params={"name": "trace_rank_0"}, content=first).json()["new"] is False


def test_a_traceback_becomes_evidence_without_its_secrets(run: httpx.Client, settled):
    told = give(run, "rank1.log", TRACEBACK)
    assert (told["kind"], told["pieces"]) == ("log", 1)
    settled(run)
    (line,) = [each for each in incident(run)["incident"]["evidence"] if "ValueError" in each["text"]]
    assert (line["rank"], line["code"]) == (1, "ValueError")
    assert "abcdef0123456789" not in line["text"]
    named = give(run, "ghp_abcdefghij0123456789abcd.log", b"all is well\n")
    assert "abcdefghij" not in json.dumps(named), "a name may hold a secret, too"


def test_a_kernel_log_comes_with_the_official_meaning(run: httpx.Client, settled):
    assert give(run, "dmesg", KERNEL)["kind"] == "kernel_log"
    settled(run)
    (line,) = [each for each in incident(run)["incident"]["evidence"] if each["source"] == "kernel"]
    assert line["code"] == "xid:79"
    assert line["meaning"] == "XID 79: GPU has fallen off the bus. NVIDIA's action: reboot the node (RESTART_BM)."


def test_a_line_of_another_time_is_no_evidence(run: httpx.Client, settled):
    before = incident(run)["incident"]
    told = give(
        run, "old.log", b"2025-10-01T10:00:04+00:00 n3 kernel: NVRM: Xid (PCI:0000:89:00): 79, pid=3, GPU lost.\n"
    )
    assert told["pieces"] == 0
    assert "of another time than this incident" in " ".join(told["refused"])
    both = KERNEL + KERNEL.replace(b"Oct  9 08:53:49 gpu-3", b"Oct  9 02:11:00 gpu-4")
    assert give(run, "both.log", both)["pieces"] == 1
    elsewhere = give(run, "seoul.log", KERNEL.replace(b"08:53:49", b"17:53:49"))
    assert elsewhere["pieces"] == 1
    assert "taken as another zone's" in " ".join(elsewhere["refused"])
    for other in (b"08:33:49", b"05:36:12", b"14:15:49"):
        told = give(run, "other.log", KERNEL.replace(b"08:53:49", other).replace(b"gpu-3", b"gpu-9"))
        assert told["pieces"] == 0, "no zones lie so far apart: it is of another time"
    settled(run)
    after = incident(run)["incident"]
    assert {line["node"] for line in after["evidence"] if line["source"] == "kernel"} == {"gpu-3"}
    assert before["cause"] != "gpu_hardware"


def test_an_error_file_says_what_happened(run: httpx.Client, settled):
    told = {"message": {"message": "RuntimeError: loss is NaN at step 120",
                        "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1760000030"}}}  # fmt: skip
    assert give(run, "error.json", json.dumps(told).encode(), rank=1)["kind"] == "error_file"
    settled(run)
    (line,) = [each for each in incident(run)["incident"]["evidence"] if "NaN" in each["text"]]
    assert (line["rank"], line["code"], line["at"]) == (1, "RuntimeError", "2025-10-09T08:53:50.000000Z")


def test_a_withdrawn_file_counts_no_more_until_it_is_restored_or_given_again(run: httpx.Client, settled):
    digest = give(run, "rank1.log", TRACEBACK)["sha256"]
    settled(run)
    with_it = incident(run)["incident"]
    assert with_it["cause"] == "user_exception"
    taken = run.delete(f"{PATH}/{digest}", params={"reason": "of another run", "author": "mina"})
    assert taken.json()["withdrawn"] is True
    settled(run)
    without = incident(run)["incident"]
    assert without["cause"] != "user_exception"
    (listed,) = run.get(PATH).json()["artefacts"]
    assert (listed["withdrawn"], listed["reason"], listed["changed_by"]) == (True, "of another run", "mina")
    run.delete(f"{PATH}/{digest}")
    assert run.post(f"{PATH}/{digest}/restore").json()["withdrawn"] is False
    settled(run)
    assert incident(run)["incident"] == with_it
    run.delete(f"{PATH}/{digest}")
    settled(run)
    give(run, "rank1.log", TRACEBACK)
    settled(run)
    assert incident(run)["incident"] == with_it


def test_a_replay_comes_to_the_same(run: httpx.Client, settings: Settings, settled):
    given_dumps(run)
    digest = give(run, "rank1.log", TRACEBACK)["sha256"]
    run.delete(f"{PATH}/{digest}")
    settled(run)
    before = incident(run)["incident"]
    store = open_store(settings.database_url)
    store.make_all_due()
    projector = Projector(store)
    while store.storage().waiting_runs:
        projector.derive_due()
    store.close()
    assert incident(run)["incident"] == before


def test_a_file_comes_back_as_a_download_of_bytes(run: httpx.Client):
    content = b"<script>alert(1)</script>\n[rank1]: CUDA out of memory\n"
    digest = give(run, '../../et"c/<페이지>.html', content)["sha256"]
    assert digest == sha256(content).hexdigest()
    answer = run.get(f"/api/v1/artefacts/{digest}")
    assert answer.content == content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith('attachment; filename="')
    assert "<" not in answer.headers["content-disposition"]
    assert run.get(f"/api/v1/artefacts/{'0' * 64}").status_code == 404
    assert run.get("/api/v1/artefacts/..%2f..%2fetc").status_code in (404, 422)


class Evil:
    def __reduce__(self):
        return print, ("run",)


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as folder:
        for name, content in files.items():
            folder.writestr(name, content)
    return packed.getvalue()


def taped(mode: str, **files: bytes) -> bytes:
    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode=mode) as archive:
        for name, content in files.items():
            told = tarfile.TarInfo(name)
            told.size = len(content)
            archive.addfile(told, io.BytesIO(content))
    return tape.getvalue()


def png(*parts: tuple[bytes, bytes]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


HEAD, PIXELS = (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0\x7f"))
PICTURE = png(HEAD, PIXELS, (b"IEND", b""))


@pytest.mark.parametrize(
    ("name", "content", "kind", "words"),
    [
        ("trace", recorded("hang4_rank_0"), "flight_recorder", "name the file by its rank"),
        ("rank_0.json", b'{"version": "3.1", "entries": []}', "flight_recorder", "3.1 is not known"),
        ("one.png", PICTURE, "unknown", "neither a flight recorder dump nor text"),
        ("empty.log", b"   \n", "unknown", "the file is empty"),
        ("quiet.log", b"all is well\n", "log", "no line of it tells of a fault"),
    ],
)
def test_what_cannot_be_understood_is_kept_and_said(
    run: httpx.Client, name: str, content: bytes, kind: str, words: str
):
    told = give(run, name, content)
    assert (told["kind"], told["pieces"]) == (kind, 0)
    assert words in told["refused"][0]
    assert run.get(f"/api/v1/artefacts/{told['sha256']}").content == content


def test_what_nobody_can_mask_is_not_kept_and_said(run: httpx.Client):
    secret = b"password=hunter2zzz\n"
    nested = b"\x80\x02" + b"]" * 3000 + b"a" * 2999 + b"."
    for name, content, words in [
        ("trace_rank_0", pickle.dumps(Evil(), 2), "opcode GLOBAL at offset 2"),
        ("trace_rank_0", pickle.dumps({"version": secret.decode()}, 2)[:-2], "without saying so"),
        ("trace_rank_0", pickle.dumps({}, 2) + lzma.compress(secret), "bytes stand behind the end of the pickle"),
        ("deep_rank_0", nested, "nests lists and mappings more than 64 deep"),
        ("itself_rank_0", b"\x80\x04]\x94h\x00a.", "more than 64 deep"),
        ("old.pickle", pickle.dumps({"entries": []}, 0), "a pickle of protocol 0 or 1"),
        ("old.pickle", pickle.dumps(Evil(), 1), "a pickle of protocol 0 or 1"),
        ("photo.png", b"\x89PNG\r\n" + secret, "begins like a picture"),
        ("a.zst", b"\x28\xb5\x2f\xfd" + secret, "packed as zstd"),
        ("thrice.gz", gzip.compress(lzma.compress(bz2.compress(secret))), "more than 2 times"),
        ("a.tar.gz.gz", gzip.compress(gzip.compress(taped("w", a=secret))), "several files in one"),
        ("core", b"\x7fELF" + bytes(range(256)) * 9 + secret, "neither text, a dump nor a picture"),
        ("a.pdf", b"%PDF-1.4\n" + secret + zlib.compress(random.Random(3).randbytes(900)) + b"\0", "neither text"),
    ]:
        answer = run.post(PATH, params={"name": name}, content=content)
        told = answer.json()["error"]
        assert (answer.status_code, told["message"].startswith(f"{name}: ")) == (422, True), (name, told)
        assert words in told["message"] and "it was not kept" in told["message"] and "unpack it" in told["hint"]
    told = give(run, "deep.zip", zipped(inner=zipped(third=zipped(log=secret), log=TRACEBACK)))
    assert told["pieces"] == 1
    assert "inner: third: an archive in an archive in an archive: more than 2 are not opened" in told["refused"]
    assert [each["size_bytes"] for each in run.get(PATH).json()["artefacts"]] == [len(TRACEBACK)]


def test_a_packed_file_that_cannot_be_unpacked_is_not_kept_since_nobody_can_mask_it(run: httpx.Client):
    for name, content, words in [
        ("bomb.gz", gzip.compress(b"\0" * 300_000_000, 9), "more than 268435456 bytes come out of it"),
        ("no.gz", b"\x1f\x8bnothing", "cannot be unpacked"),
    ]:
        answer = run.post(PATH, params={"name": name}, content=content)
        assert answer.status_code == 422
        assert name in answer.json()["error"]["message"] and words in answer.json()["error"]["message"]


def test_of_a_packed_log_that_is_cut_off_what_came_out_is_read(run: httpx.Client):
    whole = gzip.compress(TRACEBACK + random.Random(3).randbytes(4000).hex().encode(), mtime=0)
    told = give(run, "rank1.log.gz", whole[:-40])
    assert told["pieces"] == 1
    assert told["remarks"] == ["the gzip file is cut off: what came out of it was read"]


def test_secrets_do_not_reach_the_store_whatever_a_file_is(run: httpx.Client):
    secret = "hf_abcdefghijklmnopqrst"
    line = f"[rank1]: ValueError: no access with {secret}\n"
    dump = pickle.loads(recorded("hang4_rank_2"))
    dump["entries"][0]["frames"] = [{"name": f"load('{secret}')", "filename": "train.py", "line": 3}]
    for name, content in [
        ("a.log", line.encode()),
        ("b.log.gz", gzip.compress(line.encode())),
        ("c.log", line.encode("utf-16")),
        ("d.log", b"caf\xe9\n" + line.encode()),
        ("trace_rank_2", pickle.dumps(dump, 2)),
        ("trace_rank_4.gz", gzip.compress(pickle.dumps(dump, 2))),
        ("trace_rank_5.json", json.dumps(dump).encode()),
        ("e.log", b"x\0y\n" + line.encode() + b"\0" * 4096),
        ("f.log", line.encode("utf-16-le")),
        ("g.log", line.encode("utf-16-be")),
        ("h.log.xz", lzma.compress(line.encode())),
        ("i.log.bz2", bz2.compress(line.encode())),
        ("j.log.gz.gz", gzip.compress(gzip.compress(line.encode() + b"j"))),
        ("k.pdf", b"%PDF-1.4\n" + line.encode()),
        ("l.zip", zipped(log=gzip.compress(line.encode() + b"l"))),
        ("m.zip", zipped(inner=zipped(log=line.encode() + b"m"))),
        ("n.tar.xz", taped("w:xz", log=line.encode() + b"n")),
    ]:
        told = give(run, name, content)
        told = told["files"][0] if "files" in told else told
        assert told["pieces"] == 1, name
        stored = shown = run.get(f"/api/v1/artefacts/{told['sha256']}").content
        while unpack := next((each for start, each in UNPACK.items() if shown.startswith(start)), None):
            shown = unpack(shown)
        assert secret[3:].encode() not in shown.replace(b"\0", b"") + stored, name
        assert b"***" in shown or name == "a.log", name
    worded = png(HEAD, (b"tEXt", b"Comment\0" + secret.encode()), PIXELS, (b"IEND", b"")) + line.encode()
    assert run.get(f"/api/v1/artefacts/{give(run, 'one.png', worded)['sha256']}").content == PICTURE
    kept = pickle.loads(gzip.decompress(run.get(f"/api/v1/artefacts/{told_of(run, 'trace_rank_4.gz')}").content))
    assert kept["entries"][0]["frames"][0]["name"] == "load('***')"
    assert kept["entries"][1:] == dump["entries"][1:]


UNPACK = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}


def told_of(run: httpx.Client, name: str) -> str:
    return next(row["sha256"] for row in run.get(PATH).json()["artefacts"] if row["name"] == name)


def test_a_packed_log_is_looked_into_and_the_rank_can_be_told(run: httpx.Client):
    assert give(run, "rank1.log.gz", gzip.compress(TRACEBACK))["pieces"] == 1
    assert give(run, "trace", recorded("hang4_rank_2"), rank=2)["pieces"] == 1


def test_a_dump_whose_rank_is_told_later_is_understood_then(run: httpx.Client):
    assert give(run, "trace", recorded("hang4_rank_2"))["pieces"] == 0
    told = give(run, "trace", recorded("hang4_rank_2"), rank=2)
    assert (told["pieces"], told["refused"], told["new"]) == (1, [], False)
    (listed,) = run.get(PATH).json()["artefacts"]
    assert (listed["pieces"], listed["refused"]) == (1, [])
    assert give(run, "trace", recorded("hang4_rank_2"))["pieces"] == 1


def test_a_dump_whose_recording_was_disabled_says_so(run: httpx.Client):
    told = give(run, "trace_rank_3.json", b'{"version": "2.10", "pg_config": {}, "pg_status": {}}')
    assert told["remarks"] == ["recording was disabled when this dump was made"]


def test_a_file_over_the_limit_is_refused_with_the_limit(
    settings: Settings, serve: Serve, small_run: Callable[..., bytes], settled
):
    prepare_database(settings.database_url)
    with serve(replace(settings, largest_artefact_mb=1, token="secret")) as client:
        headers = {"Authorization": "Bearer secret"}
        client.post("/api/v1/facts", content=small_run(), headers=headers)
        settled(client)
        for body in (b"x" * 1_048_577, (b"x" * 65_536 for _ in range(17))):
            answer = client.post(PATH, params={"name": "big.log"}, content=body, headers=headers)
            assert answer.status_code == 413
            assert "the most is 1 MB" in answer.json()["error"]["message"]
        assert client.post(PATH, params={"name": "ok"}, content=b"x" * 1_048_576, headers=headers).status_code == 201
        assert client.post(PATH, params={"name": "x.log"}, content=TRACEBACK).status_code == 401
        assert client.get(PATH).json()["largest_bytes"] == 1_048_576


def test_the_files_of_an_archive_are_given_one_by_one(run: httpx.Client, settled):
    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode="w:gz") as archive:
        for rank in range(4):
            told = tarfile.TarInfo(f"../../dumps/hang4_rank_{rank}")
            told.size = len(recorded(f"hang4_rank_{rank}"))
            archive.addfile(told, io.BytesIO(recorded(f"hang4_rank_{rank}")))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    told = give(run, "dumps.tar.gz", tape.getvalue())
    assert (told["kind"], told["pieces"]) == ("archive", 4)
    assert told["refused"] == ["link: a symbolic link: passed over"]
    assert [each["name"] for each in told["files"]] == [f"hang4_rank_{rank}" for rank in range(4)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as folder:
        folder.writestr("side/hang4_rank_1.sidecar.json", recorded("hang4_rank_1.sidecar.json"))
        folder.writestr("photo.png", PICTURE)
        folder.writestr("src/train.py", TRACEBACK)
    told = give(run, "more.zip", packed.getvalue())
    assert "1 file left out: source and settings" in told["refused"]
    assert told["pieces"] == 1 and "photo.png: neither a flight recorder dump nor text" in told["refused"]
    settled(run)
    assert incident(run)["incident"]["flight_recorder"]["culprits"] == [3]
    assert len(run.get(PATH).json()["artefacts"]) == 6
    again = run.post(PATH, params={"name": "dumps.tar.gz"}, content=tape.getvalue())
    assert (again.status_code, again.json()["new"]) == (200, False)


def test_a_broken_archive_gives_what_could_be_read(run: httpx.Client):
    tape = taped("w", **{"one.log": TRACEBACK, "two.log": TRACEBACK})
    for length in (1024, 1200, 1600):  # behind the first file, inside the header of the second, and inside of that
        told = give(run, "cut.tar", tape[:length])
        assert [each["name"] for each in told["files"]] == ["one.log"]
        assert any("broken or cut off" in why for why in told["refused"]), length
    assert "holds no file" in give(run, "empty.zip", zipped())["refused"][0]
    too_many = run.post(PATH, params={"name": "many.zip"}, content=zipped(**{str(n): b"" for n in range(16_385)}))
    assert too_many.status_code == 413
    assert "16385 files; the most is 16384: none was read" in too_many.json()["error"]["message"]


def test_what_is_given_at_once_has_one_time_and_what_was_read_in_it_counts(run: httpx.Client, settings: Settings):
    ticks = iter(range(1000))
    store = open_store(settings.database_url)
    ingest = Ingest(store)
    ingest.start()
    desk = ArtefactDesk(store, lambda batch: ingest.submit(batch).result())
    files = {f"{number}.log": TRACEBACK + b"%d" % number for number in range(9)}
    gifts, refused = desk.give_archive("a~0", zipped(**files), 1 << 20, None, Patience(30, lambda: next(ticks)))
    assert 0 < len(gifts) < 9
    assert f"{9 - len(gifts)} files were not read, since the 30 s for what is given at once were over" in refused[0]
    ended = Patience(30)
    ended.end()
    with pytest.raises(RefusedRequestError, match="stopped"):
        desk.give("a~0", "late.log", TRACEBACK + b"late", patience=ended)
    assert len(run.get(PATH).json()["artefacts"]) == len(gifts)
    ingest.close()
    store.close()


def test_nothing_is_read_for_a_client_that_left(run: httpx.Client):
    """As many as may be read at once leave; were their files read on, the next would wait for a minute."""
    endless = b'Traceback (most recent call last):\n  File "x", line 3\n' * 200_000
    for number in range(AT_ONCE):
        with pytest.raises(httpx.ReadTimeout):
            run.post(
                PATH, params={"name": "x.log"}, content=endless + b"%d" % number, timeout=httpx.Timeout(9, read=0.3)
            )
    begin = time.monotonic()
    assert give(run, "rank1.log", TRACEBACK)["pieces"] == 1
    assert time.monotonic() - begin < 15
    assert [each["name"] for each in run.get(PATH).json()["artefacts"]] == ["rank1.log"]


def test_unknown_incidents_foreign_pages_and_missing_names_are_refused(run: httpx.Client):
    missing = run.post("/api/v1/incidents/b~0/artefacts", params={"name": "x"}, content=b"x")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "no incident named b~0")
    assert run.get("/api/v1/incidents/b~0/artefacts").status_code == 404
    assert run.post(PATH, content=b"x").status_code == 422
    assert run.post(PATH, params={"name": "x"}, content=b"").status_code == 422
    foreign = run.post(PATH, params={"name": "x"}, content=b"x", headers={"Origin": "https://elsewhere.example"})
    assert foreign.status_code == 403
    assert run.delete(f"{PATH}/{'0' * 64}").status_code == 404
    assert run.delete(f"{PATH}/nonsense").status_code == 422
