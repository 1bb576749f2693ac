"""The `rerail` command: the same words and figures as the pages.

Rules
- The base install has no dependencies, so this file imports none: a command that needs an extra says which one.
- Every reading command takes `--json`; its shape is documented and stable. Everything else goes to standard error.
- Exit codes: 0 done, 1 could not be done (the last line says why and what to do), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

import rerail
from rerail.collectors.arguments import number_between

EXTRAS = {
    "alembic": "server", "fastapi": "server", "msgspec": "server", "sqlalchemy": "server", "starlette": "server",
    "uvicorn": "server", "zstandard": "server", "psycopg": "postgres", "dash": "ui", "plotly": "ui",
}  # fmt: skip
"""Which extra brings a module."""

FORMATS = (
    "aws-nvrx", "error-file", "flight-recorder", "google-goodput", "kernel", "kubernetes", "logs", "one-logger",
    "slurm", "torchrun-events",
)  # fmt: skip
"""What `import` reads beside facts, by name: finding them loads every reader, which no other command needs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help()
        return 2
    try:
        return parsed.run(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); silence is what it asked for.
        sys.stderr.close()
        return 0
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        wanted = "ui" if parsed.command == "serve" and extra == "server" else extra
        return _fail(f"rerail {parsed.command} needs: pip install 'rerail[{wanted}]'  ({error.name} is not installed)")
    except Exception as error:
        if not _is_ours(error):
            raise
        return _fail(f"rerail {parsed.command}: {error}")


def _is_ours(error: Exception) -> bool:
    from rerail.server.errors import RerailError

    return isinstance(error, RerailError)


def _fail(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rerail",
        description="What every restart of a training run cost, and why.",
        epilog="Settings may also come from RERAIL_… variables or rerail.toml; flags win.",
    )
    parser.add_argument("--version", action="version", version=f"rerail {rerail.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    serve = _command(commands, "serve", "the server: intake, API, pages, and what derives the figures", "serving:serve")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (default 8050)")
    serve.add_argument("--role", choices=("all", "web", "worker"), help="take facts and answer, derive, or both")

    facts = commands.add_parser(
        "import", help="the past into runs; again changes nothing", add_help=False,
        description="The past into runs; again changes nothing.",
        epilog="`rerail import FORMAT --help`: what one format takes, an example, what it tells and cannot tell.",
    )  # fmt: skip
    facts.add_argument("-h", "--help", action=_HelpOfAFormat, nargs=0, help="show this, or what one format takes")
    facts.add_argument("--database-url", help="sqlite:///path or postgresql://user@host/name")
    facts.add_argument("--config", help="settings file (TOML)")
    facts.set_defaults(run=_lazily("importing:import_files"))
    facts.add_argument(
        "format",
        metavar="FORMAT",
        help=f"facts (JSON lines as docs/facts.md has them), {', '.join(FORMATS[:-1])} or {FORMATS[-1]}",
    )
    facts.add_argument(
        "paths", nargs="+", metavar="PATH", help="files, .gz too; - is standard input; of logs and dumps a folder"
    )
    facts.add_argument("--run", dest="run_id", metavar="RUN", help="import into this run, whatever the lines say")
    facts.add_argument(
        "--zone", metavar="ZONE", help="of stamps that name none: Asia/Seoul, +09:00 or local (default UTC)"
    )
    facts.add_argument("--node", metavar="NAME", help="of a kernel log: the machine of lines that name none (dmesg -T)")
    facts.add_argument(
        "--still-running",
        action="store_true",
        help="a log that was not written for an hour and tells no end is of a run that goes on all the same",
    )
    facts.add_argument("--stdout", action="store_true", help="show the facts instead of keeping them")
    facts.add_argument("--url", help="send to this server instead of writing to the database")
    facts.add_argument("--token", help="token of that server")

    synth = _command(
        commands, "synth", "a fleet that never was: one large run and many others", "synthesizing:synthesize"
    )
    synth.add_argument("--runs", type=int, default=1000, help="runs of the fleet beside the large one (default 1000)")
    synth.add_argument("--ranks", type=int, default=10_000, help="of the large run; 0 leaves it out (default 10000)")
    synth.add_argument("--days", type=float, default=30.0, help="age of the large run (default 30)")
    synth.add_argument("--faults", type=int, default=200, help="of the large run (default 200)")
    synth.add_argument("--seed", type=int, default=1, help="the same seed and end give the same facts (default 1)")
    synth.add_argument("--end", metavar="T", help="the last instant of the story (default now)")
    synth.add_argument("--stdout", action="store_true", help="show the facts instead of keeping them")
    synth.add_argument("--url", help="send to this server instead of writing to the database")
    synth.add_argument("--token", help="token of that server")

    runs = _reading(commands, "runs", "the runs that are known", "showing:show_runs")
    runs.add_argument("search", nargs="*", help="words of a run's id, name, project or labels")
    runs.add_argument("--state", choices=("alive", "silent", "ended"))
    runs.add_argument("--sort", default="last_heard_at", help="a field of the list")
    runs.add_argument("--limit", type=int, default=50)
    _add_server(runs)

    show = _reading(commands, "show", "the figures of a run", "showing:show_run")
    show.add_argument("run_id", metavar="RUN")
    show.add_argument("--as-of", metavar="T", help="as known at T: ISO 8601, seconds or nanoseconds since 1970")
    show.add_argument("--definition", metavar="NAME", help="whose goodput: rerail, aws, ett, google or meta_ettr")
    show.add_argument("--window", nargs=2, metavar=("A", "B"), help="the figures of this window only")
    _add_server(show)

    incidents = _reading(commands, "incidents", "the incidents of a run, newest first", "showing:show_incidents")
    incidents.add_argument("run_id", metavar="RUN")
    incidents.add_argument("--limit", type=int, default=100)
    _add_server(incidents)

    incident = _reading(commands, "incident", "one incident and why it happened", "showing:show_incident")
    incident.add_argument("incident_id", metavar="ID")
    _add_server(incident)

    _add_problems(commands)
    _add_configs(commands)
    _add_knowledge(commands)
    _add_alerts(commands)
    classify = _command(commands, "classify", "why runs stopped, from logs and dumps alone", "classifying:classify")
    classify.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files, folders, zip or tar archives, pipes, - for standard input; packed ones too; all are one run",
    )
    classify.add_argument("--each", action="store_true", help="every path is a run of its own")
    classify.add_argument("--json", action="store_true", help="as JSON, in the shape of docs/verdicts.md")
    classify.add_argument(
        "--time-limit", metavar="SECONDS", type=number_between(1), default=600.0,
        help="the longest that reading one log may take; what was read until then is judged (600)",
    )  # fmt: skip

    classify.add_argument(
        "--zone", metavar="ZONE",
        help="of stamps that name none: local, an offset (+09:00) or a name (Asia/Seoul); UTC where it is not given",
    )  # fmt: skip

    exclude = _reading(
        commands,
        "exclude",
        "declare a window of a run out of account, list such windows, undo one",
        "excluding:exclude",
    )
    exclude.add_argument("run_id", metavar="RUN")
    exclude.add_argument("window", nargs="*", metavar="A B", help="from A until B: ISO 8601, or seconds since 1970")
    exclude.add_argument("--reason", help="why")
    exclude.add_argument("--author", help="who says so")
    exclude.add_argument("--list", action="store_true", help="the windows, withdrawn ones too")
    exclude.add_argument("--undo", metavar="ID", help="this window counts again")
    exclude.add_argument("--redo", metavar="ID", help="this withdrawn window is out of account after all")
    exclude.add_argument("--url", help="ask this server instead of writing to the database")
    exclude.add_argument("--token", help="token of that server")

    _command(commands, "replay", "derive every run from its facts again; must change nothing", "operating:replay")

    retain = _command(commands, "retain", "let the logs of runs go that ended long ago; for good", "retaining:retain")
    retain.add_argument(
        "--keep-log-days",
        type=int,
        metavar="DAYS",
        help="keep the log of a run so long after its end and its last fact came in",
    )
    retain.add_argument("--yes", action="store_true", help="do it; without it, only what would be deleted is shown")
    retain.add_argument("--json", action="store_true", help="as JSON")

    database = commands.add_parser("db", help="the database")
    database_commands = database.add_subparsers(dest="db_command", metavar="COMMAND", required=True)
    _command(database_commands, "upgrade", "bring the database to this version", "operating:upgrade")

    secrets = _command(commands, "secrets", "how the secrets of channels are kept; new-key, rotate", "secrets:show")
    secrets.add_argument("--json", action="store_true", help="as JSON")
    secret_commands = secrets.add_subparsers(metavar="WHAT")
    _command(secret_commands, "new-key", "print a key that seals them", "secrets:make_key")
    _command(secret_commands, "rotate", "seal everything anew with the first key that is set", "secrets:rotate")

    doctor = _command(commands, "doctor", "check the installation and say how to mend it", "operating:doctor")
    doctor.add_argument("--json", action="store_true", help="as JSON")

    _add_collectors(commands)
    return parser


def _add_problems(commands: argparse._SubParsersAction) -> None:
    problems = _reading(commands, "problems", "what keeps coming back, over all runs", "problems:show_problems")
    problems.add_argument("search", nargs="*", help="words of a problem's title, cause, id or resolution")
    problems.add_argument("--status", choices=("new", "known", "regressed", "resolved", "ignored"))
    problems.add_argument("--cause", help="a cause class")
    problems.add_argument("--node", help="with an incident that this node is blamed for")
    problems.add_argument(
        "--sort", default="last_at", help="last_at, first_at, incidents, runs, recover_ns, lost_gpu_ns …"
    )
    problems.add_argument("--limit", type=int, default=50)
    _add_server(problems)

    problem = _reading(commands, "problem", "one problem; with a flag, what you did about it", "problems:problem")
    problem.add_argument("problem_id", metavar="ID")
    does = problem.add_mutually_exclusive_group()
    does.add_argument("--resolve", metavar="TEXT", help="resolved: what was done about it")
    does.add_argument("--reopen", action="store_true", help="not resolved after all, or not to be ignored")
    does.add_argument("--assign", metavar="NAME", help='who looks after it; "" for nobody')
    does.add_argument("--known", action="store_true", help="somebody knows of it")
    does.add_argument("--ignore", action="store_true", help="not worth anybody's time")
    does.add_argument("--rename", metavar="TITLE", help="call it this")
    does.add_argument("--merge-into", metavar="ID", help="the same as another problem, from now on")
    does.add_argument("--split", metavar="FACET=VALUE", help="incidents with this facet are another problem")
    does.add_argument("--move", nargs=2, metavar=("INCIDENT", "ID"), help="this incident belongs to another problem")
    does.add_argument("--undo", metavar="ACTION", type=int, help="the action of this number never was")
    problem.add_argument("--fixed-by", metavar="WHAT", help="with --resolve: the commit or config change")
    problem.add_argument("--reason", help="why")
    problem.add_argument("--author", help="who says so")
    problem.add_argument("--url", help="ask this server instead of writing to the database")
    problem.add_argument("--token", help="token of that server")

    nodes = _reading(commands, "nodes", "nodes over all runs, those that look worst first", "problems:show_nodes")
    nodes.add_argument("node", nargs="?", metavar="NODE", help="everything about this one")
    nodes.add_argument("--level", choices=("lemon", "suspect", "unremarkable", "unknown"))
    nodes.add_argument("--sort", default="score", help="score, node, blamed, runs, node_days or xids")
    nodes.add_argument("--limit", type=int, default=50)
    _add_server(nodes)


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="ask this server instead of reading the database")
    parser.add_argument("--token", help="token of that server")


def _add_configs(commands: argparse._SubParsersAction) -> None:
    check = _reading(commands, "check", "recovery settings of a file or a run, and what is wrong", "configs:check")
    check.add_argument("what", metavar="CONFIG", help="a file (JSON, TOML, YAML, a launch script), or a run")
    check.add_argument("--launcher", choices=("ft_launcher", "torchrun"), help="of a file that does not say")
    check.add_argument("--release", help="of nvidia-resiliency-ext, for its defaults: 0.4, 0.6 …")
    compare = _reading(commands, "compare", "two to six runs or configs, each against the first", "configs:compare")
    compare.add_argument("sides", nargs="+", metavar="SIDE", help="a run, a config's fingerprint, or article:…")
    _add_server(compare)


def _add_knowledge(commands: argparse._SubParsersAction) -> None:
    changes = _reading(commands, "changes", "recovery settings that changed, newest first", "changes:show_changes")
    changes.add_argument("--run", dest="run_id", help="those that took effect in this run")
    changes.add_argument("--knob", help="those of this knob, such as heartbeat_timeout")
    changes.add_argument("--unexplained", action="store_true", help="only those of which nobody said why")
    changes.add_argument("--limit", type=int, default=50)
    _add_server(changes)

    change = _reading(commands, "change", "one change; with a flag, what you say of it", "changes:change")
    change.add_argument("change_id", metavar="ID")
    says = change.add_mutually_exclusive_group()
    says.add_argument("--explain", metavar="WHY", help="why it was changed")
    says.add_argument("--link", metavar="KIND:ID", help="incident:ID or problem:ID that argued for it")
    says.add_argument("--undo", metavar="ACTION", type=int, help="the action of this number never was")
    change.add_argument("--changed-by", help="with --explain: who changed it")
    change.add_argument("--author", help="who says so")

    note = _reading(commands, "note", "write a note, list those on a subject, or change one", "knowledge:note")
    note.add_argument(
        "subject",
        metavar="SUBJECT",
        help="incident:ID, run:ID, problem:ID, node:ID, config_change:RUN@ATTEMPT, or note-12",
    )
    note.add_argument("text", nargs="?", metavar="TEXT", help="Markdown; - reads it; without it, notes are listed")
    note.add_argument("--at", nargs="+", metavar="T", help="of a run: an instant, or from when until when")
    does = note.add_mutually_exclusive_group()
    for name, words in (
        ("edit", "TEXT is its text"),
        ("delete", "take it away"),
        ("undo", "the last change never was"),
        ("redo", "what was undone holds again"),
    ):
        does.add_argument(f"--{name}", action="store_true", help=words)
    note.add_argument("--author", help="who writes")

    search = _reading(commands, "search", "everything that is known, by words and fields", "knowledge:search")
    search.add_argument(
        "question", nargs="+", help='words, "phrases", -not, cause: node: rank: run: status: kind: after:'
    )
    search.add_argument("--limit", type=int, default=20)
    for parser in (change, note, search):
        parser.add_argument("--url", help="ask this server instead of the database")
        parser.add_argument("--token", help="token of that server")


def _add_alerts(commands: argparse._SubParsersAction) -> None:
    alerts = _reading(commands, "alerts", "what is firing, and who has it", "alerts:show_alerts")
    alerts.add_argument("search", nargs="*", help="words of a run, a rule or what it says")
    alerts.add_argument("--standing", choices=("open", "acknowledged", "silenced", "resolved"))
    alerts.add_argument("--run", dest="run_id", help="of this run only")
    alerts.add_argument("--limit", type=int, default=50)
    _add_server(alerts)

    alert = _reading(commands, "alert", "one alert; with a flag, what you did with it", "alerts:alert")
    alert.add_argument(
        "alert_id", metavar="ID", help="of an alert; or of a group, `problem:ID` or `rule:NAME`: every alert of it"
    )
    does = alert.add_mutually_exclusive_group()
    does.add_argument("--ack", action="store_true", help="you have it")
    does.add_argument("--silence", metavar="LENGTH", help="nobody is told for so long: 45m, 2h, 3d, 1w")
    does.add_argument("--unsilence", action="store_true", help="end its silence")
    does.add_argument("--resolve", action="store_true", help="it is mended; say how with --reason")
    does.add_argument("--reopen", action="store_true", help="it is not mended after all")
    does.add_argument("--undo", metavar="ACTION", type=int, help="the action of this number never was")
    alert.add_argument("--reason", help="why, or what was done")
    alert.add_argument("--author", help="who says so")
    alert.add_argument("--url", help="ask this server instead of writing to the database")
    alert.add_argument("--token", help="token of that server")


def _command(commands: argparse._SubParsersAction, name: str, summary: str, target: str) -> argparse.ArgumentParser:
    """A command that lives in `rerail.server.commands.<module>:<function>`, imported when it runs."""
    parser = commands.add_parser(name, help=summary, description=summary)
    parser.add_argument("--database-url", help="sqlite:///path or postgresql://user@host/name")
    parser.add_argument("--config", help="settings file (TOML)")
    parser.set_defaults(run=_lazily(target))
    return parser


def _reading(commands: argparse._SubParsersAction, name: str, summary: str, target: str) -> argparse.ArgumentParser:
    parser = _command(commands, name, summary, target)
    parser.add_argument("--json", action="store_true", help="as JSON, in the words of docs/facts.md")
    return parser


class _HelpOfAFormat(argparse.Action):
    """`--help` of `import`: behind the name of a format it is about that format."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        _values: object,
        _option: str | None = None,
    ) -> None:
        name = getattr(namespace, "format", None)
        if name is None:
            parser.print_help()
        else:
            helps = importlib.import_module("rerail.server.commands.format_help")
            try:
                sys.stdout.write(helps.help_of(name, parser))
            except KeyError as unknown:
                parser.error(unknown.args[0])
        parser.exit()


def _lazily(target: str) -> Callable[[argparse.Namespace], int]:
    module, function = target.split(":")

    def run(parsed: argparse.Namespace) -> int:
        return getattr(importlib.import_module(f"rerail.server.commands.{module}"), function)(parsed)

    return run


def _add_collectors(commands: argparse._SubParsersAction) -> None:
    try:
        collectors = importlib.import_module("rerail.collectors.commands")
    except ModuleNotFoundError as error:
        if error.name != "rerail.collectors.commands":
            raise
        return
    collectors.add_commands(commands)
