"""Commands of machines: `rerail collect prometheus` and `rerail collect kernel`.

Each adds its parser to the sources of `rerail collect`, and makes the source that its arguments ask for.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rerail.collectors.arguments import number_between, whole_seconds
from rerail.collectors.identity import identity, settings
from rerail.collectors.source import NotConfigured, Source
from rerail.collectors.sources.kernel_live import FileOpening, JournalOpening, KernelSource, KmsgOpening, Opening
from rerail.collectors.sources.prometheus import PrometheusSource
from rerail.collectors.sources.prometheus_client import TIMEOUT_SECONDS, PrometheusClient, Reach
from rerail.collectors.sources.prometheus_facts import Naming
from rerail.collectors.sources.prometheus_rules import load_rules


def add_prometheus(sources: Any) -> argparse.ArgumentParser:
    """The parser of `rerail collect prometheus`."""
    parser: argparse.ArgumentParser = sources.add_parser(
        "prometheus", help="XIDs, error counters, throttling, use and health of GPUs and machines, from Prometheus",
        description="Asks a Prometheus server and states what DCGM and node exporters told it (docs/prometheus.md).",
    )  # fmt: skip
    parser.add_argument("--prometheus", required=True, metavar="URL", help="the server, such as http://prometheus:9090")
    parser.add_argument(
        "--map", type=Path, metavar="FILE", help="YAML with more rules: a query and the fact it becomes"
    )
    parser.add_argument("--run-label", metavar="LABEL", help="a label of the series that names the run")
    parser.add_argument(
        "--node", action="append", default=[], help="only machines of this name, or pattern; may be given again"
    )
    parser.add_argument("--step", type=whole_seconds, default=15, help="seconds between two instants (default 15)")
    parser.add_argument(
        "--lag",
        type=number_between(0),
        default=30.0,
        help="seconds that samples may be late, and are waited for (default 30)",
    )
    parser.add_argument(
        "--since-hours", type=number_between(0), default=1.0, help="how far the first look goes back (default 1)"
    )
    parser.add_argument(
        "--timeout",
        type=number_between(0),
        default=TIMEOUT_SECONDS,
        help="seconds that an answer may take (default 30)",
    )
    parser.add_argument("--token-file", type=Path, help="file with a bearer token")
    parser.add_argument("--ca", type=Path, help="certificates that the server's is checked against")
    parser.add_argument("--sigv4", metavar="REGION", help="sign requests for Amazon Managed Service for Prometheus")
    return parser


def prometheus_source(arguments: argparse.Namespace) -> Source:
    """The source that the arguments ask for. Raises `NotConfigured`."""
    run = arguments.run_id or settings().run
    if run is None and arguments.run_label is None:
        raise NotConfigured("which run is it about? give --run-id, RERAIL_RUN or --run-label")
    rules = load_rules(arguments.map)
    reach = Reach(arguments.prometheus, arguments.token_file, arguments.ca, arguments.sigv4, arguments.timeout)
    return PrometheusSource(
        PrometheusClient(reach),
        Naming(run, arguments.run_label, tuple(arguments.node)),
        rules,
        step_seconds=arguments.step,
        lag_seconds=arguments.lag,
        since_hours=arguments.since_hours,
    )


def add_kernel(sources: Any) -> argparse.ArgumentParser:
    """The parser of `rerail collect kernel`."""
    parser: argparse.ArgumentParser = sources.add_parser(
        "kernel", help="XIDs, lost GPUs, kills for memory and lost links, from the kernel of this machine",
        description="Follows the kernel's messages, from where the last call stopped (docs/prometheus.md).",
    )  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kmsg", action="store_true", help="read /dev/kmsg (default)")
    where.add_argument("--journal", action="store_true", help="ask journalctl")
    where.add_argument("--file", type=Path, help="follow a file that a log daemon writes, such as /var/log/kern.log")
    parser.add_argument("--node", help="the name of this machine (default: as recorders name it)")
    parser.add_argument(
        "--since-hours", type=number_between(0), default=1.0, help="how far the first look goes back (default 1)"
    )
    return parser


def kernel_source(arguments: argparse.Namespace) -> Source:
    """The source that the arguments ask for. Raises `NotConfigured`."""
    run = arguments.run_id or settings().run
    if run is None:
        raise NotConfigured("which run is it about? give --run-id or RERAIL_RUN")
    opening: Opening = KmsgOpening()
    if arguments.journal:
        opening = JournalOpening()
    elif arguments.file is not None:
        opening = FileOpening(arguments.file)
    return KernelSource(opening, arguments.node or identity().node, lambda: run, since_hours=arguments.since_hours)


def kernel_opening(told: str) -> Opening:
    """What `rerail agent --kernel` names: `kmsg`, `journal`, else a file."""
    if told == "kmsg":
        return KmsgOpening()
    return JournalOpening() if told == "journal" else FileOpening(Path(told))
