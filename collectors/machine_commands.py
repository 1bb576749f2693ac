"""Commands of machines: `rerail collect prometheus` and `rerail collect kernel`.

Each adds its parser to the sources of `rerail collect`, and makes the source that its arguments ask for.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rerail.collectors.identity import settings
from rerail.collectors.source import Source
from rerail.collectors.sources.kube_client import NotConfigured
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
    parser.add_argument("--step", type=_whole_seconds, default=15, help="seconds between two instants (default 15)")
    parser.add_argument(
        "--lag", type=_seconds, default=30.0, help="seconds that samples may be late, and are waited for (default 30)"
    )
    parser.add_argument(
        "--since-hours", type=_seconds, default=1.0, help="how far the first look goes back (default 1)"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=TIMEOUT_SECONDS, help="seconds that an answer may take (default 30)"
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


def _seconds(told: str) -> float:
    try:
        number = float(told)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1_000_000.0:
        raise argparse.ArgumentTypeError(f"{told!r} is not a number between 0 and 1000000")
    return number


def _whole_seconds(told: str) -> int:
    if not (told.isascii() and told.isdigit() and 1 <= int(told[:9]) <= 86_400):
        raise argparse.ArgumentTypeError(f"{told!r} is not a whole number between 1 and 86400")
    return int(told)
