"""Collecting logs: `rerail collect launcher` and `rerail collect logs`, what their command lines say and make.

Both are the launcher's reader (`launcher.py`), which reads any framework's lines of progress too: the first with all
that lies beside one launcher's output, the second for as many logs as are named, each by itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rerail.collectors.identity import identity, settings
from rerail.collectors.live_sources import LiveSource
from rerail.collectors.source import NotConfigured, Source
from rerail.collectors.sources.launcher import LauncherSource, command_of
from rerail.collectors.sources.launcher_process import LauncherProcess


def _add_zone(parser: argparse.ArgumentParser, node: str) -> None:
    parser.add_argument("--node", help=node)
    parser.add_argument("--zone-minutes", type=int, help="time zone of stamps, minutes east of UTC (default: this one)")


def _zone_seconds(arguments: argparse.Namespace) -> int | None:
    return None if arguments.zone_minutes is None else arguments.zone_minutes * 60


def _add_launcher(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", type=Path, help="the launcher's output")
    parser.add_argument("--cycle-info", type=Path, help="directory of --ft-cycle-info-dir (NVRx 0.6 and later)")
    parser.add_argument("--app-logs", help="per-attempt logs of the workers, a pattern such as 'logs/app_cycle*.log'")
    parser.add_argument(
        "--pid", type=int, help="process id of the launcher, to read its settings from and to see when it is gone"
    )
    parser.add_argument("--follow", action="store_true", help="go on as the log grows (default without --once)")
    _add_zone(
        parser,
        "the node that the launcher runs on (default: this one; of a job of several nodes a rank's is then only known "
        "where a line names it)",
    )


def _launcher(arguments: argparse.Namespace) -> tuple[Source, ...]:
    if arguments.log is None and arguments.cycle_info is None:
        raise NotConfigured("give --log, --cycle-info, or both")
    told = identity()
    source = LauncherSource(
        node=arguments.node or told.node,
        node_is_told=arguments.node is not None,
        read_on=told.node,
        run=arguments.run_id or settings().run,
        log=arguments.log,
        cycle_info=arguments.cycle_info,
        app_logs=arguments.app_logs,
        command=command_of(arguments.pid) if arguments.pid else (),
        process=LauncherProcess(arguments.pid) if arguments.pid else None,
        job=told.job,
        requeue=told.requeue,
        zone_seconds=_zone_seconds(arguments),
    )
    return (source,)


def _add_logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a log; several are followed side by side")
    _add_zone(
        parser,
        "the node that all of it is about (default: what its lines name; a log may be read far from where it was "
        "written)",
    )


def _logs(arguments: argparse.Namespace) -> tuple[Source, ...]:
    told, run = identity(), arguments.run_id or settings().run
    return tuple(
        LauncherSource(
            node=arguments.node, read_on=told.node, run=run or path.stem[:200], log=path, job=told.job,
            requeue=told.requeue, zone_seconds=_zone_seconds(arguments),
        )
        for path in arguments.files
    )  # fmt: skip


LAUNCHER = LiveSource(
    name="launcher",
    summary="output of ft_launcher or torchrun, NVRx's cycle files and per-cycle logs",
    description="States attempts, recovery marks, exits and evidence from what a launcher prints.",
    add_arguments=_add_launcher,
    make=_launcher,
    folder="collect",
    nothing="nothing new: no line that a launcher prints was found",
)

LOGS = LiveSource(
    name="logs",
    summary="training logs as they grow: steps, saves, loads, attempts and evidence, without instrumentation",
    description="Follows logs of any framework; `rerail import logs` reads those of the past.",
    add_arguments=_add_logs,
    make=_logs,
)
