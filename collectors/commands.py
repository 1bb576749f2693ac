"""Commands of the collectors: `rerail agent`, `rerail collect`, `rerail demo`.

`add_commands(subparsers)` adds them to whatever `argparse` tree the command line has; each sets `run`, a function of
the parsed arguments that gives the exit code. Base install only; the demonstration asks for torch when it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerail.collectors.agent import Agent
from rerail.collectors.glance import glance, rings_of, run_in
from rerail.collectors.identity import identity, settings
from rerail.collectors.live_sources import LiveSource, add_parser, live_sources
from rerail.collectors.outlet import FileOutlet, HttpOutlet, Outlet, OutletDown
from rerail.collectors.source import NotConfigured, Source, SourceDown
from rerail.collectors.sources.flight_recorder_live import FlightRecorderLive
from rerail.collectors.sources.kernel_live import KernelSource, kernel_opening
from rerail.collectors.sources.launcher import LauncherSource, command_of
from rerail.collectors.sources.launcher_process import LauncherProcess
from rerail.collectors.spool import MOST_BYTES
from rerail.collectors.step_watch import LEAST_SILENCE_NS, StepWatch
from rerail.server.core.codec import encode_lines

if TYPE_CHECKING:
    from rerail.collectors.demo.runner import Demo

DEFAULT_URL = "http://127.0.0.1:8050"


def add_commands(subparsers: Any) -> None:
    """Add the commands of the collectors to an `argparse` tree."""
    _add_agent(subparsers)
    _add_collect(subparsers)
    _add_demo(subparsers)


def _add_agent(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "agent", help="read the recorders of this node and send what they say",
        description="Reads every ring in DIR, keeps what cannot be sent yet, and sends it to the server.",
    )  # fmt: skip
    _add_destination(parser, "; what was printed counts as sent and is not sent later")
    parser.add_argument(
        "--once", action="store_true",
        help="look once, send it and stop; with --stdout nothing is used up: an agent states all of it again",
    )  # fmt: skip
    parser.add_argument("--dir", type=Path, help="where recorders write (default: RERAIL_DIR, else a temporary one)")
    parser.add_argument(
        "--run-id",
        "--run",
        dest="run_id",
        help="the run that what the agent itself says belongs to, before any ring is seen",
    )
    parser.add_argument("--spool-bytes", type=int, default=MOST_BYTES, help="most bytes kept while nobody answers")
    parser.add_argument("--launcher-log", type=Path, help="also follow this output of ft_launcher or torchrun")
    parser.add_argument(
        "--pid",
        type=int,
        help="with --launcher-log: process id of the launcher, to read its settings from and to see when it is gone",
    )
    parser.add_argument(
        "--flight-recorder", action="append", default=[], metavar="PLACE",
        help="also read dumps as they appear in this folder or under this prefix; or ask this worker's server "
        "(unix:PATH, RANK=http://HOST:PORT) when its rank hangs; may be given again",
    )  # fmt: skip
    parser.add_argument(
        "--hang-after", type=float, default=LEAST_SILENCE_NS / 1e9, metavar="SECONDS",
        help="ask a worker's server when its rank made no step for this long, or for ten usual steps where that is "
        "more (default: %(default)g; half of the time-out of its heartbeats where one is armed and shorter)",
    )  # fmt: skip
    parser.add_argument(
        "--kernel", nargs="?", const="kmsg", metavar="FILE",
        help="also follow the kernel's messages: /dev/kmsg, `journal`, or this file",
    )  # fmt: skip
    parser.set_defaults(run=run_agent)


def _add_collect(subparsers: Any) -> None:
    parser = subparsers.add_parser("collect", help="follow a source of facts: a launcher's log, a scheduler, a machine")
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
    for source in live_sources().values():
        each = add_parser(sources, source)
        _add_destination(each)
        each.set_defaults(run=run_collect, live=source)


def _add_demo(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo", help="train, fail and recover for real, watched by rerail",
        description="Trains a small model on two CPU processes under ft_launcher, with three faults, in two minutes.",
    )  # fmt: skip
    _add_destination(parser)
    parser.add_argument("--run-id", "--run", dest="run_id", help="name of the run (default: demo-<time>)")
    parser.add_argument("--checkpoints", choices=("sync", "async"), default="async")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--dir", type=Path, help="working directory (default: a new temporary one)")
    parser.add_argument("--launcher", choices=("auto", "ft_launcher", "torchrun"), default="auto")
    parser.add_argument(
        "--serve", action="store_true", help="start a server too, with recorded runs in it; Ctrl-C ends it"
    )
    parser.add_argument("--port", type=int, default=8050, help="port of that server")
    parser.add_argument("--data", type=Path, default=Path(".rerail"), help="where that server keeps its data")
    parser.add_argument(
        "--compare", action="store_true", help="five ways to recover under one fault schedule, one after the other"
    )
    parser.add_argument("--arms", help="with --compare: only these, separated by commas")
    parser.add_argument("--recorded", action="store_true", help="with --compare: send the recorded arms instead")
    parser.add_argument("--record", type=Path, help="write the facts to this file instead of sending them")
    parser.set_defaults(run=run_demonstration)


def _add_destination(parser: argparse.ArgumentParser, printed: str = "") -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help=f"the server (default: RERAIL_URL, else {DEFAULT_URL})")
    where.add_argument(
        "--stdout", action="store_true", help=f"print facts as JSON lines instead of sending them{printed}"
    )


def destination(arguments: argparse.Namespace) -> Outlet:
    """Where facts go: the terminal, or a server."""
    told = settings()
    if arguments.stdout:
        return FileOutlet(sys.stdout.buffer)
    return HttpOutlet(arguments.url or told.url or DEFAULT_URL, told.token)


def run_agent(arguments: argparse.Namespace) -> int:
    """`rerail agent`."""
    _log_to_terminal()
    directory = arguments.dir or settings().directory
    node = identity().node
    run = arguments.run_id or settings().run
    rings = rings_of(directory) if arguments.once and arguments.stdout else None

    def last_run() -> str | None:
        return agent.last_run if rings is None else run or run_in(rings)

    sources: list[Source] = []
    if arguments.pid and not arguments.launcher_log:
        sys.stderr.write(f"rerail agent: --pid {arguments.pid}: its settings belong to the log of --launcher-log\n")
        return 2
    if arguments.launcher_log:
        command = command_of(arguments.pid) if arguments.pid else ()
        process = LauncherProcess(arguments.pid) if arguments.pid else None
        log = arguments.launcher_log
        sources.append(LauncherSource(node=node, run=run, log=log, command=command, process=process))
    if arguments.flight_recorder:
        try:
            places = arguments.flight_recorder
            watch = StepWatch(directory / "rings", int(1e9 * arguments.hang_after))
            sources.append(FlightRecorderLive(places, node=node, run=run, watch=watch))
        except ValueError as error:
            sys.stderr.write(f"rerail agent: {error}\n")
            return 2
    if arguments.kernel:
        sources.append(KernelSource(kernel_opening(arguments.kernel), node, last_run, known_as=(socket.gethostname(),)))
    if rings is not None:
        return _glance(rings, sources)
    agent = Agent(directory, destination(arguments), node, run=run, sources=sources, most_bytes=arguments.spool_bytes)
    if not arguments.once:
        return _run_until_stopped(agent)
    with contextlib.closing(agent):
        agent.leave()
        if agent.sender.drain(30):
            return 0
    sys.stderr.write("rerail agent: what could not be sent is kept on disk and sent by the next call\n")
    return 1


def _glance(rings: Sequence[Path], sources: Sequence[Source]) -> int:
    """Show what an agent would state, and use nothing up."""
    facts = glance(rings, sources, lambda words: sys.stderr.write(f"rerail agent: {words}\n"))
    sys.stdout.buffer.write(encode_lines(facts))
    sys.stdout.buffer.flush()
    for source in sources:
        getattr(source, "close", lambda: None)()
    sys.stderr.write(f"rerail agent: rings: {len(rings)}, facts: {len(facts)}; nothing was used up\n")
    return 0


def run_collect(arguments: argparse.Namespace) -> int:
    """`rerail collect SOURCE`."""
    live: LiveSource = arguments.live
    if (text := live.shows(arguments)) is not None:
        sys.stdout.write(text)
        return 0
    _log_to_terminal()
    try:
        sources = live.make(arguments)
    except (NotConfigured, SourceDown) as error:
        return _cannot(live.name, error)
    return _collect(arguments, sources, live)


def _cannot(what: str, error: Exception) -> int:
    """Say why a source cannot be read; 2 where it is the command line's fault."""
    sys.stderr.write(f"rerail collect {what}: {error}\n")
    return 2 if isinstance(error, NotConfigured) else 1


def _collect(arguments: argparse.Namespace, sources: Sequence[Source], live: LiveSource) -> int:
    """Show what sources state, or send it once, or until stopped."""
    if arguments.once and arguments.stdout:
        count = 0
        for source in sources:
            try:
                facts = source.finish(None).facts
            except (NotConfigured, SourceDown) as error:
                return _cannot(live.name, error)
            sys.stdout.buffer.write(encode_lines(facts))
            count += len(facts)
        sys.stdout.buffer.flush()
        say_how_many(live, sources, count)
        return 0
    directory = arguments.dir or settings().directory / (live.folder or live.name)
    run = arguments.run_id or settings().run

    def agent_of(some: list[Source]) -> Agent:
        return Agent(directory, destination(arguments), identity().node, run=run, sources=some)

    if not arguments.once:
        return _run_until_stopped(agent_of(list(sources)))
    for source in sources:
        if code := _run_once(agent_of([source]), source, live):
            return code
    return 0


def run_demonstration(arguments: argparse.Namespace) -> int:
    """`rerail demo`."""
    from rerail.collectors.demo.runner import Demo, DemoUnavailable, temporary_directory
    from rerail.collectors.demo.showcase import Showcase, ShowcaseFailed, run_showcase

    _log_to_terminal()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what was started, as Ctrl-C does
    run = arguments.run_id or time.strftime("demo-%m%d-%H%M%S")
    directory = arguments.dir or (arguments.data / run if arguments.serve else temporary_directory(run))
    demo = Demo(
        directory.absolute(), run, arguments.launcher, arguments.checkpoints, arguments.steps,
        arguments.checkpoint_every,
    )  # fmt: skip
    try:
        if arguments.serve:
            return run_showcase(Showcase(arguments.port, arguments.data, demo, settings().token), sys.stderr)
        if arguments.compare:
            return _compare(demo, arguments)
        return _train(demo, arguments)
    except (DemoUnavailable, ShowcaseFailed) as error:
        sys.stderr.write(f"rerail demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130


def _train(demo: Demo, arguments: argparse.Namespace) -> int:
    """The training itself. Raises `DemoUnavailable`."""
    from rerail.collectors.demo.runner import chosen_launcher, run_demo

    say = sys.stderr.write
    launcher = chosen_launcher(demo.launcher)
    say(f"run {demo.run}: {demo.steps} steps on 2 ranks under {launcher}, {demo.checkpoints} checkpoints\n")
    if launcher == "torchrun":
        say("torchrun has no heartbeats: a hang is found by the collective's own timeout (15 s)\n")
    say("faults: " + ", ".join(f"{one.kind} of rank {one.rank} at step {one.step}" for one in demo.planned) + "\n")
    with contextlib.ExitStack() as stack:
        outlet = destination(arguments)
        if arguments.record is not None:
            outlet = FileOutlet(stack.enter_context(arguments.record.open("wb")))
        result = run_demo(demo, outlet, screen=sys.stderr)
    say(
        f"finished in {result.seconds:.0f} s; {result.sent} facts sent, {result.unsent} unsent, "
        f"{result.refused} refused; everything is in {result.directory}\n"
    )
    if result.exit_code:
        say("\n".join(("the launcher failed; the end of its output:", *result.log_tail)) + "\n")
    return result.exit_code or 0


def _compare(demo: Demo, arguments: argparse.Namespace) -> int:
    """Every arm, or the recorded ones, and where to look. Raises `DemoUnavailable`."""
    from rerail.collectors.demo.arms import ARMS, arm
    from rerail.collectors.demo.recorded import load_arms, shifted
    from rerail.collectors.demo.runner import run_demo

    names = arguments.arms.split(",") if arguments.arms else list(ARMS)
    unknown = [name for name in names if name not in ARMS]
    if unknown:
        sys.stderr.write(f"rerail demo: --arms: {unknown[0]} is not one of {', '.join(ARMS)}\n")
        return 2
    outlet = destination(arguments)
    runs, worst = [], 0
    if arguments.recorded:
        for name, lines in load_arms():
            if name in names:
                runs.append(f"arm-{name}")
                try:
                    outlet.deliver(shifted(lines, time.time_ns(), run=runs[-1]))
                except OutletDown as error:
                    sys.stderr.write(f"rerail demo: the server did not take {name}: {error}\n")
                    return 1
    else:
        for name in names:
            one = arm(name, demo)
            one.directory.mkdir(parents=True, exist_ok=True)
            sys.stderr.write(f"arm {name}\n")
            result = run_demo(one, outlet, screen=sys.stderr)
            sys.stderr.write(f"{name}: {result.seconds:.0f} s, {result.sent} facts sent\n")
            if result.exit_code:
                sys.stderr.write("\n".join(("the launcher failed; the end of its output:", *result.log_tail)) + "\n")
            runs.append(one.run)
            worst = max(worst, result.exit_code or 0)
    sides = "&".join(f"with=run:{name}" for name in runs)
    sys.stderr.write(f"compare them at {(arguments.url or settings().url or DEFAULT_URL)}/compare?{sides}\n")
    return worst


def _run_once(agent: Agent, source: Source, live: LiveSource) -> int:
    """Read to the end, send it all."""
    name = f"source {source.name}"
    try:
        polled = source.finish(agent.spool.cursor(name))
        count = len(polled.facts)
        agent.spool.store(polled.facts, {name: polled.cursor})
        while (polled := source.finish(polled.cursor)).facts:
            count += len(polled.facts)
            agent.spool.store(polled.facts, {name: polled.cursor})
    except SourceDown as error:
        return _cannot(live.name, error)
    say_how_many(live, (source,), count)
    with contextlib.closing(agent):
        if agent.sender.drain(30):
            return 0
    sys.stderr.write("rerail collect: what could not be sent is kept on disk and sent by the next call\n")
    return 1


def say_how_many(live: LiveSource, sources: Sequence[Source], count: int) -> None:
    """How much was stated, and what the sources looked for and did not find.

    A file that holds nothing of a launcher must not look like a success, nor a server that knows no GPU.
    """
    sys.stderr.write(f"rerail collect {live.name}: {f'{count} facts stated' if count else live.nothing}\n")
    for source in sources:
        for what, reason in getattr(source, "unseen", {}).items():
            sys.stderr.write(f"rerail collect {live.name}: {what} cannot be seen: {reason}\n")
    if empty := [name for source in sources for name in getattr(source, "empty", ())]:
        shown = ", ".join(empty[:12]) + (f" and {len(empty) - 12} more" if len(empty) > 12 else "")
        sys.stderr.write(f"rerail collect {live.name}: nothing is there of: {shown}\n")


def _run_until_stopped(agent: Agent) -> int:
    """Run until a signal asks to stop, then send what is left."""
    stop = threading.Event()
    with _stopping(stop.set), contextlib.closing(agent):
        agent.run(stop)
    return 0


@contextlib.contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call `stop` while the block runs."""
    kept = {which: signal.signal(which, lambda *_: stop()) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for which, handler in kept.items():
            signal.signal(which, handler)


def _log_to_terminal() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
