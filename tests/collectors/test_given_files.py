"""What of folders, archives and pipes is read as evidence."""

from __future__ import annotations

import os
import re
import socket
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import pytest

from rerail.collectors.sources.given_files import is_source
from rerail.collectors.sources.run_files import RunFiles, read_run_files
from rerail.server.cli import main
from rerail.server.commands.classifying import interruptions

XID = "2026-11-20T03:10:01Z gpu-7 kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus\n"
HANDLER = "try:\n    step()\nexcept torch.OutOfMemoryError as e:\n    raise RuntimeError('CUDA out of memory') from e\n"
LOG = (
    "2026-11-20 03:10:00,331 - INFO - step 1/50 | loss 2.7 | 1.00 s/step\n"
    "2026-11-20 03:10:01,331 - INFO - step 2/50 | loss 2.7 | 1.00 s/step\n"
    'Traceback (most recent call last):\n  File "/w/train.py", line 2, in main\n'
    "    except torch.OutOfMemoryError as e:  # retried\nKeyError: 'mask'\n"
)
SOURCES = {
    "train.py": HANDLER, "README.md": XID, "conf/ds.yaml": XID, "run.sh": XID, "Dockerfile": XID, "fix.patch": XID,
    "job": "#!/bin/bash\n" + XID, ".git/packed": XID, "lib/site-packages/x/notes.txt": XID,
    "wandb/run-1/files/code/log.txt": XID,
}  # fmt: skip


def causes(run: RunFiles) -> list[str]:
    return [each.verdict.cause for each in interruptions(run)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    for name, text in {**SOURCES, "train.log": LOG}.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def test_in_a_folder_source_and_settings_are_left_out_and_what_is_named_is_read(folder: Path):
    run = read_run_files([str(folder)])
    assert (causes(run), run.left_out) == (["user_exception"], len(SOURCES))
    assert [file.path for file in run.files] == [str(folder / "train.log")]
    assert causes(read_run_files([str(folder / "README.md")])) == ["gpu_hardware"]


def test_what_the_content_shows_to_be_a_record_is_read_whatever_its_ending(tmp_path: Path):
    (tmp_path / "pods.yaml").write_text('{"apiVersion": "v1", "kind": "PodList", "items": []}')
    run = read_run_files([str(tmp_path)])
    assert (run.left_out, [file.kind for file in run.files]) == (0, ["kubernetes"])


def test_a_folder_above_the_named_one_makes_no_source_of_a_log(tmp_path: Path):
    inside = tmp_path / "venv" / "logs"
    inside.mkdir(parents=True)
    (inside / "train.log").write_text(LOG)
    assert causes(read_run_files([str(inside)])) == ["user_exception"]
    assert is_source("venv/logs/train.log") and not is_source("logs/train.log")


@pytest.mark.parametrize("packing", ["zip", "tar", "tgz"])
def test_an_archive_is_read_like_the_folder_it_was_made_of(packing: str, folder: Path, tmp_path: Path, capsys):
    archive = tmp_path / f"case.{packing}"
    if packing == "zip":
        with zipfile.ZipFile(archive, "w") as file:
            for path in sorted(folder.rglob("*")):
                file.write(path, path.relative_to(folder))
    else:
        with tarfile.open(archive, "w:gz" if packing == "tgz" else "w") as tape:
            tape.add(folder, ".")
    run = read_run_files([str(archive)])
    assert (causes(run), run.left_out) == (["user_exception"], len(SOURCES))
    assert run.files[0].path.startswith(f"{archive}: ") and run.files[0].path.endswith("train.log")
    assert main(["classify", str(archive)]) == 0
    assert re.search(r"train\.log:\d+: KeyError", capsys.readouterr().out)


def test_a_member_s_name_leads_nowhere_else(tmp_path: Path):
    archive = tmp_path / "case.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../outside/train.log", LOG)
        file.writestr("/abs/../train2.log", XID)
    run = read_run_files([str(archive)])
    assert len(run.files) == 2 and not (tmp_path.parent / "outside").exists()
    where = [Path(path).resolve() for path in run.scratch.names]
    assert all("rerail-" in str(path) for path in where)


def test_a_folder_s_pipes_and_sockets_are_named_and_never_waited_for(folder: Path):
    os.mkfifo(folder / "fifo.log")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket must be short
        try:
            listener.bind("s.log")
        finally:
            os.chdir(here)
        began = time.monotonic()
        run = read_run_files([str(folder)])
    assert time.monotonic() - began < 2
    assert {Path(file.path).name: file.reason for file in run.files if file.kind == "skipped"} == {
        "fifo.log": "a pipe: in a folder only files are read",
        "s.log": "a socket: in a folder only files are read",
    }
    assert causes(run) == ["user_exception"]


def test_a_pipe_that_is_named_is_read_until_its_writer_ends_or_the_time_is_over(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(LOG))
    writer.start()
    run = read_run_files([str(pipe)], seconds=20)
    writer.join()
    assert (causes(run), [file.path for file in run.files]) == (["user_exception"], [str(pipe)])
    holder = os.open(pipe, os.O_RDWR)
    try:
        os.write(holder, LOG.encode())
        run = read_run_files([str(pipe)], seconds=0.6)
    finally:
        os.close(holder)
    assert causes(run) == ["user_exception"]
    assert "its writer did not end within 0.6 s" in (run.files[0].reason or "")
