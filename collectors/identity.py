"""Identity: who this process is in a run, and where its records go, from the environment.

Rules
- This is the only file of the collectors that reads the environment.
- What was said on purpose (`RERAIL_*`) wins over what a launcher said, that over what a scheduler said.
- `None` is *not told*. A restart count of 0 is told only by a launcher that counts.
- Values are made to fit the wire format (printable, at most 200 characters); they are never refused here, since
  nothing in a training process may fail because of us.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LONGEST_NAME = 200
RING_BYTES = 4 * 1024 * 1024
FOLD_SECONDS = 0.5

RUN_VARIABLES = ("RERAIL_RUN", "TORCHELASTIC_RUN_ID", "JOBSET_NAME", "SLURM_JOB_NAME")
JOB_VARIABLES = ("RERAIL_JOB", "SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID", "JOB_NAME")
REQUEUE_VARIABLES = ("RERAIL_REQUEUE", "SLURM_RESTART_COUNT", "JOBSET_RESTART_ATTEMPT")
RESTART_VARIABLES = ("RERAIL_RESTART", "TORCHELASTIC_RESTART_COUNT")
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "JOB_COMPLETION_INDEX")
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
WORLD_SIZE_VARIABLES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
NODE_VARIABLES = ("RERAIL_NODE", "SLURMD_NODENAME", "NODE_NAME")

NOT_A_RUN = frozenset({"", "none"})
"""torchrun calls a run `none` when nobody named it; every such run would be one run."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Where in a run a process stands."""

    run: str
    node: str
    job: str | None = None
    requeue: int | None = None
    restart: int | None = None
    iteration: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Where records go and how."""

    directory: Path
    ring_bytes: int = RING_BYTES
    fold_seconds: float = FOLD_SECONDS
    run: str | None = None
    """The run as somebody named it on purpose; a launcher's own name for it yields to this."""
    url: str | None = None
    token: str | None = None
    switched_off: bool = False


def identity(environment: Mapping[str, str] | None = None) -> Identity:
    """Who this process is. In-process iterations are not in the environment: the recorder is told of them."""
    told = os.environ if environment is None else environment
    node = _first(told, NODE_VARIABLES) or _name(socket.gethostname()) or "localhost"
    job = _first(told, JOB_VARIABLES)
    run = next((name for name in (_name(told.get(key)) for key in RUN_VARIABLES) if name not in NOT_A_RUN), None)
    return Identity(
        run=run or f"unnamed-{job or node}"[:LONGEST_NAME],
        node=node,
        job=job,
        requeue=_number(told, REQUEUE_VARIABLES),
        restart=_number(told, RESTART_VARIABLES),
        rank=_number(told, RANK_VARIABLES),
        local_rank=_number(told, LOCAL_RANK_VARIABLES),
        world_size=_number(told, WORLD_SIZE_VARIABLES) or None,
    )


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Where records go: `RERAIL_DIR`, else a directory of this user in the temporary directory of the node."""
    told = os.environ if environment is None else environment
    directory = told.get("RERAIL_DIR") or os.path.join(tempfile.gettempdir(), f"rerail-{os.getuid()}")
    return Settings(
        directory=Path(directory),
        ring_bytes=_number(told, ("RERAIL_RING_BYTES",)) or RING_BYTES,
        fold_seconds=_seconds(told.get("RERAIL_FOLD_SECONDS")) or FOLD_SECONDS,
        run=_first(told, ("RERAIL_RUN",)),
        url=told.get("RERAIL_URL") or None,
        token=told.get("RERAIL_TOKEN") or None,
        switched_off=told.get("RERAIL_OFF", "") not in ("", "0"),
    )


def is_set(name: str) -> bool:
    """Whoever started this process gave it something under `name`."""
    return name in os.environ


def address_in_cluster() -> str | None:
    """`host:port` of the API server of the Kubernetes cluster that this process runs in; None outside of one."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "").strip()
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443").strip()
    if not host or not port.isdigit():
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def inherited() -> dict[str, str]:
    """The environment as it is, to hand to a child process that is given more on top."""
    return dict(os.environ)


def _name(value: str | None) -> str:
    return "".join(letter for letter in value or "" if letter.isprintable()).strip()[:LONGEST_NAME]


def _first(told: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for value in (_name(told.get(name)) for name in names) if value), None)


def _number(told: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = told.get(name, "").strip()
        if value.isascii() and value.isdigit() and len(value) < 18:
            return int(value)
    return None


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if 0.01 <= seconds <= 3600 else None
