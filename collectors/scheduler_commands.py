"""Commands of schedulers: `rerail collect kubernetes` and `rerail collect slurm`.

Each adds its parser to the sources of `rerail collect`, and makes the source that its arguments ask for.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rerail.collectors.arguments import number_between
from rerail.collectors.identity import settings
from rerail.collectors.source import Source
from rerail.collectors.sources import kube_facts, slurm_facts
from rerail.collectors.sources.kube_client import Client, access
from rerail.collectors.sources.kubernetes import KubernetesSource, Scope
from rerail.collectors.sources.slurm import Chosen, SlurmSource

RUN_KEY = "rerail.io/run"
MANIFEST = Path(__file__).parent / "kubernetes.yaml"


def add_kubernetes(sources: Any) -> argparse.ArgumentParser:
    """The parser of `rerail collect kubernetes`."""
    parser: argparse.ArgumentParser = sources.add_parser(
        "kubernetes",
        help="pods, events, nodes, Jobs, JobSets, training jobs and Kueue of a cluster",
        description="Watches a cluster; states attempts, deaths, evictions, lost nodes, waiting (docs/kubernetes.md).",
    )
    parser.add_argument(
        "--manifest", action="store_true", help="print what to deploy, with the rights it needs, and stop"
    )
    parser.add_argument(
        "--api", metavar="URL", help="the API server without credentials, such as that of kubectl proxy"
    )
    parser.add_argument("--kubeconfig", type=Path, help="how to reach it (default: the service account of this pod)")
    parser.add_argument("--context", help="context of the kubeconfig (default: its current one)")
    parser.add_argument("--namespace", "-n", action="append", default=[], help="only this one; may be given again")
    parser.add_argument("--selector", "-l", help="only pods with these labels, as kubectl takes them")
    parser.add_argument("--no-nodes", action="store_true", help="do not read nodes: where only a Role is granted")
    parser.add_argument("--cluster", default="", help="name of the cluster, where several report to one server")
    parser.add_argument(
        "--run-key", default=RUN_KEY, metavar="KEY", help=f"label or annotation that names the run (default {RUN_KEY})"
    )
    parser.add_argument(
        "--attempts", choices=("pods", "none"), default="pods",
        help="who counts attempts: restarts of pods, or nobody here, where launchers and recorders do (default pods)",
    )  # fmt: skip
    return parser


def kubernetes_source(arguments: argparse.Namespace) -> Source:
    """The source that the arguments ask for. Raises `NotConfigured`."""
    reach = access(arguments.api, arguments.kubeconfig, arguments.context)
    run = arguments.run_id or settings().run
    return KubernetesSource(
        Client(reach),
        kube_facts.Naming(
            run, arguments.run_key or None, takes_bare_pods=run is not None or arguments.selector is not None
        ),
        Scope(tuple(arguments.namespace), arguments.selector, has_nodes=not arguments.no_nodes),
        cluster=arguments.cluster,
        states_attempts=arguments.attempts == "pods",
    )


def add_slurm(sources: Any) -> argparse.ArgumentParser:
    """The parser of `rerail collect slurm`."""
    parser: argparse.ArgumentParser = sources.add_parser(
        "slurm", help="jobs, requeues and nodes of a cluster, by sacct, squeue and sacctmgr",
        description="Asks Slurm's own commands and states attempts, ends, queues and lost nodes (docs/slurm.md).",
    )  # fmt: skip
    parser.add_argument("--user", "-u", action="append", default=[], help="jobs of this user; may be given again")
    parser.add_argument("--all-users", "-a", action="store_true", help="everybody's jobs (default: your own)")
    parser.add_argument("--name", action="append", default=[], help="only jobs of this name; may be given again")
    parser.add_argument("--job", "-j", action="append", default=[], help="only this job id; may be given again")
    parser.add_argument(
        "--run-from", choices=("name", "comment", "wckey", "account", "partition", "user", "job"), default="name",
        help="what of a job names its run (default name)",
    )  # fmt: skip
    parser.add_argument(
        "--interval", type=number_between(1), default=30.0, help="seconds between two looks (default 30)"
    )
    parser.add_argument(
        "--since-hours", type=number_between(1), default=48.0, help="how far the first look goes back (default 48)"
    )
    return parser


def slurm_source(arguments: argparse.Namespace) -> Source:
    """The source that the arguments ask for."""
    run = arguments.run_id or settings().run
    return SlurmSource(
        slurm_facts.Naming(run, arguments.run_from),
        Chosen(
            tuple(arguments.user),
            tuple(arguments.name),
            tuple(arguments.job),
            arguments.all_users,
            arguments.since_hours,
        ),
        interval_seconds=arguments.interval,
    )
