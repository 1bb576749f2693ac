"""Config queries: recovery configs over all runs, the change ledger, and comparisons.

Rules as in `queries.py`. A fingerprint, change or side that is not known raises `NotFoundError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

from rerail.server.core.comparison.arms import Arm, ArmPart, arm, whole_run
from rerail.server.core.comparison.article import ARTICLE
from rerail.server.core.comparison.comparing import FEWEST_ARMS, MOST_ARMS, compared
from rerail.server.core.recovery import percentiles
from rerail.server.core.recovery_configs.change_actions import Said, said_of
from rerail.server.core.recovery_configs.changes import ConfigChange, changes, difference
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.nesting import violations
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.recovery_configs.suspects import Suspect, suspects
from rerail.server.core.view import Account, RunView
from rerail.server.errors import NotFoundError
from rerail.server.query_config_results import (
    ChangeAbout,
    ChangePage,
    ChangeRow,
    ChangeSide,
    ComparisonView,
    ConfigDifference,
    ConfigPage,
    ConfigRow,
    ConfigUse,
    ConfigView,
    FaultAt,
)
from rerail.server.query_results import ConfigMark
from rerail.server.store import Store
from rerail.server.store.config_rows import ConfigFault

CONFIG_SORTS = ("last_at", "incidents", "runs", "training_goodput", "infrastructure_goodput", "elapsed_ns")
MOST_USES = 200
MOST_RUNS_OF_A_SIDE = 50
"""The newest runs of a config that a comparison takes."""

MOST_ABOUT = 20
MOST_RUNS_ABOUT = 20
"""Runs of a problem whose changes are looked at."""


class ConfigQueries:
    """Reads of recovery configs. `run` and `window` are how a run's view and a window of it are read."""

    def __init__(self, store: Store, run: Callable[[str], RunView], window: Callable[[str, int, int], Account]) -> None:
        self._store = store
        self._run = run
        self._window = window

    # --- configs ----------------------------------------------------------------------------------------------------

    def configs(
        self, search: str = "", sort: str = "last_at", descending: bool = True, offset: int = 0, limit: int = 50
    ) -> ConfigPage:
        """Configs whose fingerprint, launcher, settings or runs hold every word. Raises ValueError for a sort."""
        if sort not in CONFIG_SORTS:
            raise ValueError(f"sort: {sort} is not one of {', '.join(CONFIG_SORTS)}")
        found = self._store.configs.stretches()
        words = search.lower().split()
        groups = {
            name: members
            for name, members in _by_config(found).items()
            if all(word in _searched(name, members) for word in words)
        }
        rows = _rows(groups, self._store.configs.faults())
        known = [row for row in rows if getattr(row, sort) is not None]
        unknown = [row for row in rows if getattr(row, sort) is None]
        known.sort(key=lambda row: (getattr(row, sort), row.fingerprint), reverse=descending)
        return ConfigPage(tuple([*known, *unknown][offset : offset + limit]), len(rows))

    def config(self, fingerprint: str) -> ConfigView:
        """One config."""
        members = self._store.configs.stretches([fingerprint])
        row = self._row(fingerprint, members)
        uses = sorted(members, key=lambda each: -each.started_at)[:MOST_USES]
        around = {each.change.change_id: each for run in uses[:20] for each in self.changes_of_run(run.run_id)}
        return ConfigView(
            row,
            tuple(_use(each) for each in uses),
            tuple(each for each in around.values() if fingerprint in (each.change.before, each.change.after)),
        )

    def config_difference(self, first: str, second: str) -> ConfigDifference:
        """Two configs."""
        rows = [self._row(each, self._store.configs.stretches([each])) for each in (first, second)]
        return ConfigDifference(*rows, difference(rows[0].config, rows[1].config))

    def config_of_run(self, run_id: str) -> tuple[Stretch, ...]:
        """The stretches of a run, in order."""
        return self._store.configs.stretches(run=run_id)

    def _row(self, fingerprint: str, members: Sequence[Stretch]) -> ConfigRow:
        if not members:
            raise NotFoundError("config", fingerprint)
        return _rows({fingerprint: members}, self._store.configs.faults([fingerprint]))[0]

    # --- changes ----------------------------------------------------------------------------------------------------

    def changes(
        self,
        run: str | None = None,
        knob: str | None = None,
        project: str | None = None,
        unexplained: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> ChangePage:
        """The ledger, newest first: of all runs or of one, of a knob, of a project, or what nobody explained yet."""
        found = changes(self._store.configs.stretches() if run is None else self._store.configs.lines_of(run))
        actions = self._store.configs.actions()
        spoken = {action.change_id for action in actions}
        said = {name: said_of(name, [each for each in actions if each.change_id == name]) for name in spoken}
        matching = [
            each
            for each in found
            if (run is None or each.run_id == run)
            and (knob is None or any(one.name == knob for one in (*each.knobs, *each.told_apart)))
            and (project is None or each.project == project)
            and not (unexplained and (said.get(each.change_id) or Said()).reason)
        ]
        return ChangePage(self._with_sides(matching[offset : offset + limit], said), len(matching))

    def changes_of_run(self, run_id: str) -> tuple[ChangeRow, ...]:
        """The changes that took effect in a run."""
        return self.changes(run=run_id, limit=200).rows

    def marks(self, run_id: str, start: int, end: int) -> tuple[ConfigMark, ...]:
        """Changes that took effect in a run in `[start, end]`, by their instant."""
        found = [
            each
            for each in changes(self._store.configs.lines_of(run_id))
            if each.run_id == run_id and start <= each.at <= end
        ]
        marks = []
        for each in sorted(found, key=lambda change: change.at):
            said = said_of(each.change_id, self._store.configs.actions(each.change_id))
            who = said.changed_by or each.initiator
            link = f"/configs/changes/{quote(each.change_id, safe='')}"
            marks.append(ConfigMark(each.at, each.change_id, (*each.knobs, *each.told_apart), who, said.reason, link))
        return tuple(marks)

    def change(self, change_id: str) -> ChangeRow:
        """One change."""
        run_id = change_id.rpartition("@")[0]
        own = [each for each in changes(self._store.configs.lines_of(run_id)) if each.change_id == change_id]
        if not own:
            raise NotFoundError("config change", change_id)
        return self._told(own)[0]

    def changes_about(self, target: str, incidents: Sequence[FaultAt]) -> tuple[ChangeAbout, ...]:
        """Changes that have to do with an incident or problem: those it argued for, then those shortly before it.

        `incidents` are its faults, the newest first; of very many the first `MOST_RUNS_ABOUT` runs are looked at.
        """
        linked = []
        for name in sorted({each.change_id for each in self._store.configs.changes_about(target)}):
            try:
                row = self.change(name)
            except NotFoundError:
                continue  # Said of a change that the facts do not show any more.
            if any(named == target for _, named, _ in row.said.links):
                knobs = (*row.change.knobs, *row.change.told_apart)
                linked.append(ChangeAbout(row, knobs, "People say that this argued for it.", True, 0))
        known = {each.row.change.change_id for each in linked}
        by_change: dict[str, list[Suspect]] = {}
        for suspect in self._suspects(incidents):
            by_change.setdefault(suspect.change.change_id, []).append(suspect)
        near = []
        rows = {
            row.change.change_id: row
            for row in self._told([each[0].change for name, each in by_change.items() if name not in known])
        }
        for name, row in rows.items():
            newest = by_change[name][0]
            near.append(ChangeAbout(row, newest.knobs, newest.reason, False, len(by_change[name])))
        near.sort(key=lambda each: (-each.incidents, -each.row.change.at, each.row.change.change_id))
        return (*linked, *near[:MOST_ABOUT])

    def _suspects(self, incidents: Sequence[FaultAt]) -> Iterable[Suspect]:
        made: dict[str, tuple[ConfigChange, ...]] = {}
        for each in incidents:
            if each.run_id not in made:
                if len(made) == MOST_RUNS_ABOUT:
                    continue
                made[each.run_id] = changes(self._store.configs.lines_of(each.run_id))
            yield from suspects(made[each.run_id], each.cause, each.run_id, each.attempts, each.started_at)

    def _told(self, found: Sequence[ConfigChange]) -> tuple[ChangeRow, ...]:
        """Changes with what people say of them."""
        said = {each.change_id: said_of(each.change_id, self._store.configs.actions(each.change_id)) for each in found}
        return self._with_sides(found, said)

    def _with_sides(self, found: Sequence[ConfigChange], said: dict[str, Said]) -> tuple[ChangeRow, ...]:
        if not found:
            return ()
        names = sorted({name for each in found for name in (each.before, each.after)})
        stretches = {(each.run_id, each.first_attempt): each for each in self._store.configs.stretches(names)}
        by_run: dict[str, list[ConfigFault]] = {}
        for fault in self._store.configs.faults(names):
            by_run.setdefault(fault.incident_id.rpartition("~")[0], []).append(fault)
        rows = []
        for each in found:
            after = stretches.get((each.run_id, each.attempt))
            before = next(
                (
                    one
                    for one in stretches.values()
                    if one.run_id == each.before_run and one.last_attempt == each.before_attempt
                ),
                None,
            )
            rows.append(
                ChangeRow(each, said.get(each.change_id) or Said(), _side(before, by_run), _side(after, by_run))
            )
        return tuple(rows)

    # --- comparing --------------------------------------------------------------------------------------------------

    def compare(self, wanted: Sequence[str]) -> ComparisonView:
        """Two to six sides: run ids, config fingerprints, `run:…`, `config:…`, or `article:…`.

        Raises ValueError for too few or too many, NotFoundError for a side that is not known.
        """
        names = tuple(dict.fromkeys(each.strip() for each in wanted if each.strip()))
        if not FEWEST_ARMS <= len(names) <= MOST_ARMS:
            raise ValueError(f"two to six different runs or configs can be compared (got {len(names)})")
        return ComparisonView(names, compared([self._arm(name) for name in names]))

    def _arm(self, name: str) -> Arm:
        kind, _, rest = name.partition(":")
        if kind == "article":
            if name not in ARTICLE:
                raise NotFoundError("reference", name)
            return ARTICLE[name]
        if kind == "config" and rest:
            return self._config_arm(rest)
        run_id = rest if kind == "run" and rest else name
        try:
            view = self._run(run_id)
        except NotFoundError:
            if kind == "run" or not self._store.configs.stretches([name]):
                raise
            return self._config_arm(name)
        title = view.run_id if not view.name or view.name in view.run_id else f"{view.name} ({view.run_id})"
        return arm(f"run:{run_id}", title, [whole_run(view)])

    def _config_arm(self, fingerprint: str) -> Arm:
        members = sorted(self._store.configs.stretches([fingerprint]), key=lambda each: -each.started_at)
        if not members:
            raise NotFoundError("config", fingerprint)
        parts = [self._part(each) for each in members[:MOST_RUNS_OF_A_SIDE]]
        return arm(f"config:{fingerprint}", f"config {fingerprint}", parts, members[0].config)

    def _part(self, stretch: Stretch) -> ArmPart:
        view = self._run(stretch.run_id)
        is_whole = stretch.first_attempt == 0 and view.attempts and stretch.last_attempt == view.attempts[-1].number
        if is_whole:
            return whole_run(view)
        end = view.as_of if stretch.ended_at is None else stretch.ended_at
        account = self._window(stretch.run_id, stretch.started_at, end)
        return ArmPart(view, account, None, stretch.first_attempt, stretch.last_attempt, stretch.kept_steps)


def _by_config(found: Iterable[Stretch]) -> dict[str, list[Stretch]]:
    groups: dict[str, list[Stretch]] = {}
    for each in found:
        if each.fingerprint is not None:
            groups.setdefault(each.fingerprint, []).append(each)
    return groups


def _searched(fingerprint: str, members: Sequence[Stretch]) -> str:
    config = members[0].config
    told = "" if config is None else " ".join(f"{each.name} {each.value}" for each in config.known)
    launcher = "" if config is None else config.launcher or ""
    return " ".join([fingerprint, launcher, told, *(f"{each.run_id} {each.project or ''}" for each in members)]).lower()


def _rows(groups: Mapping[str, Sequence[Stretch]], faults: Sequence[ConfigFault]) -> list[ConfigRow]:
    by_config: dict[str, list[ConfigFault]] = {}
    for fault in faults:
        if fault.config is not None:
            by_config.setdefault(fault.config, []).append(fault)
    rows = []
    for fingerprint, members in groups.items():
        newest = max(members, key=lambda each: (each.started_at, each.run_id))
        config: RecoveryConfig | None = newest.config
        if config is None:
            continue
        own = by_config.get(fingerprint, [])
        elapsed = sum(each.elapsed_ns for each in members)
        sees = all(each.sees_training for each in members)
        rows.append(
            ConfigRow(
                fingerprint=fingerprint,
                config=config,
                violations=violations(config),
                runs=len({each.run_id for each in members}),
                attempts=sum(each.attempts for each in members),
                first_at=min(each.started_at for each in members),
                last_at=newest.started_at,
                elapsed_ns=elapsed,
                training_goodput=sum(each.productive_ns for each in members) / elapsed if elapsed and sees else None,
                infrastructure_goodput=1 - sum(each.faults_ns for each in members) / elapsed if elapsed else None,
                incidents=len(own),
                recover=percentiles([each.recover_ns for each in own if each.recover_ns is not None]),
                restart=percentiles([each.restart_ns for each in own]),
                contradicted_hangs=sum(each.contradicted_hangs for each in members),
            )
        )
    return rows


def _use(each: Stretch) -> ConfigUse:
    return ConfigUse(
        each.run_id, each.name, each.first_attempt, each.last_attempt, each.started_at, each.ended_at, each.elapsed_ns,
        each.productive_ns / each.elapsed_ns if each.elapsed_ns and each.sees_training else None,
        1 - each.faults_ns / each.elapsed_ns if each.elapsed_ns else None,
    )  # fmt: skip


def _side(stretch: Stretch | None, by_run: dict[str, list[ConfigFault]]) -> ChangeSide:
    if stretch is None:
        return ChangeSide(0, None, None, None, 0, 0)
    faults = [
        each
        for each in by_run.get(stretch.run_id, [])
        if stretch.first_attempt <= int(each.incident_id.rpartition("~")[2]) <= stretch.last_attempt
    ]
    costs = [each.lost_gpu_ns for each in faults]
    return ChangeSide(
        faults=len(faults),
        detecting=percentiles([each.detecting_ns for each in faults if each.detecting_ns is not None]),
        recover=percentiles([each.recover_ns for each in faults if each.recover_ns is not None]),
        lost_per_fault_gpu_ns=None if not costs or None in costs else sum(each or 0 for each in costs) // len(costs),
        contradicted_hangs=stretch.contradicted_hangs,
        elapsed_ns=stretch.elapsed_ns,
    )
