"""Who a process is, from what its launcher and its scheduler left in the environment."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rerail.collectors
from rerail.collectors.identity import identity, settings

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "exp7", "TORCHELASTIC_RESTART_COUNT": "2", "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "4242", "SLURM_JOB_NAME": "pretrain", "SLURM_RESTART_COUNT": "1", "SLURM_PROCID": "3",
    "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURMD_NODENAME": "gpu017",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (TORCHRUN, {"run": "exp7", "restart": 2, "rank": 5, "local_rank": 1, "world_size": 8, "job": None}),
        ({"TORCHELASTIC_RUN_ID": "none", "RERAIL_NODE": "n"}, {"run": "unnamed-n", "restart": None}),
        (SLURM, {"run": "pretrain", "job": "4242", "requeue": 1, "rank": 3, "node": "gpu017", "world_size": 4}),
        ({**SLURM, **TORCHRUN}, {"run": "exp7", "job": "4242", "requeue": 1, "restart": 2, "rank": 5}),
        ({**SLURM, "SLURM_ARRAY_JOB_ID": "4000"}, {"job": "4000"}),
        ({**TORCHRUN, "RERAIL_RUN": "mine", "NODE_NAME": "k4"}, {"run": "mine", "node": "k4"}),
        ({"JOBSET_NAME": "llama", "JOB_COMPLETION_INDEX": "2"}, {"run": "llama", "rank": 2}),
        ({"JOBSET_RESTART_ATTEMPT": "3", "JOB_NAME": "l-0"}, {"requeue": 3, "job": "l-0", "run": "unnamed-l-0"}),
        ({"OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, {"rank": 6, "local_rank": 2}),
        ({"RANK": "-1", "WORLD_SIZE": "0", "LOCAL_RANK": "x"}, {"rank": None, "world_size": None, "local_rank": None}),
        ({"RERAIL_RUN": "a\nb\x00" + "c" * 500}, {"run": ("ab" + "c" * 500)[:200]}),
    ],
)  # fmt: skip
def test_the_environment_says_who_a_process_is(environment: dict[str, str], told: dict[str, object]) -> None:
    who = identity(environment)
    assert {name: getattr(who, name) for name in told} == told


def test_settings_have_defaults_for_what_makes_no_sense() -> None:
    told = settings({"RERAIL_FOLD_SECONDS": "never", "RERAIL_RING_BYTES": "much", "RERAIL_OFF": "0"})
    assert (told.fold_seconds, told.ring_bytes, told.switched_off, told.url) == (0.5, 4 * 1024 * 1024, False, None)
    told = settings({"RERAIL_DIR": "/x", "RERAIL_OFF": "1", "RERAIL_URL": "http://h", "RERAIL_TOKEN": "t"})
    assert (str(told.directory), told.switched_off, told.url, told.token) == ("/x", True, "http://h", "t")


def test_only_identity_reads_the_environment() -> None:
    (root,) = rerail.collectors.__path__
    readers = set()
    for path in Path(root).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"):
                readers.add(path.name)
    assert readers == {"identity.py"}


def test_importing_the_recorder_imports_the_standard_library_alone() -> None:
    (root,) = rerail.collectors.__path__
    foreign = set()
    for path in Path(root).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            foreign.update(name.split(".")[0] for name in names)
    import sys

    assert foreign - set(sys.stdlib_module_names) == {"rerail"}
