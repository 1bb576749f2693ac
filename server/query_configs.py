"""Config queries: recovery configs over all runs, the change ledger, and comparisons.

Rules as in `queries.py`. A fingerprint, change or side that is not known raises `NotFoundError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

from rerail.server.core.comparison.arms import Arm, ArmPart, arm, whole_run
from rerail.server.core.comparison.article import ARTICLE
from rerail.server.core.comparison.comparing import FEWEST_ARMS, MOST_ARMS, compared
from rerail.server.core.goodput import account
from rerail.server.core.recovery import percentiles
from rerail.server.core.recovery_configs.change_actions import ChangeAction, Said, said_of
from rerail.server.core.recovery_configs.changes import (
    ConfigChange,
    change_between,
    change_id,
    changes,
    difference,
    successions,
)
from rerail.server.core.recovery_configs.knobs import RecoveryConfig
from rerail.server.core.recovery_configs.nesting import violations
from rerail.server.core.recovery_configs.stretches import Stretch
from rerail.server.core.recovery_configs.suspects import Suspect, suspects
from rerail.server.core.view import RunView
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
from rerail.server.store.config_rows import ConfigFault, StretchFigures, StretchPlace

CONFIG_SORTS = ("last_at", "incidents", "runs", "training_goodput", "infrastructure_goodput", "elapsed_ns")
MOST_USES = 200
MOST_RUNS_OF_A_SIDE = 50
"""The newest runs of a config that a comparison takes."""

MOST_ABOUT = 20
MOST_RUNS_ABOUT = 20
"""Runs of a problem whose changes are looked at."""


class ConfigQueries:
    """Reads of recovery configs. `run` is how a run's view is read."""

    def __init__(self, store: Store, run: Callable[[str], RunView]) -> None:
        self._store = store
        self._run = run

    # --- configs ----------------------------------------------------------------------------------------------------

    def configs(
        self, search: str = "", sort: str = "last_at", descending: bool = True, offset: int = 0, limit: int = 50
    ) -> ConfigPage:
        """Configs whose fingerprint, launcher, settings or runs hold every word. Raises ValueError for a sort."""
        if sort not in CONFIG_SORTS:
            raise ValueError(f"sort: {sort} is not one of {', '.join(CONFIG_SORTS)}")
        groups = _by_config(self._store.configs.figures())
        words = search.lower().split()
        if words:
            told = self._store.configs.configs(list(groups))
            groups = {
                name: members
                for name, members in groups.items()
                if all(word in _searched(name, told.get(name), members) for word in words)
            }
        faults = self._store.configs.fault_counts() if sort == "incidents" else {}
        sums = [_sum(name, members, faults.get(name, 0)) for name, members in groups.items()]
        known = [each for each in sums if getattr(each, sort) is not None]
        unknown = [each for each in sums if getattr(each, sort) is None]
        known.sort(key=lambda each: (getattr(each, sort), each.fingerprint), reverse=descending)
        shown = [*known, *unknown][offset : offset + limit]
        return ConfigPage(tuple(self._rows([(each, groups[each.fingerprint]) for each in shown])), len(sums))

    def newest(self, limit: int) -> tuple[str, ...]:
        """Fingerprints of the configs used last."""
        return self._store.configs.newest(limit)

    def config(self, fingerprint: str) -> ConfigView:
        """One config."""
        members = self._store.configs.figures([fingerprint])
        row = self._row(fingerprint, members)
        uses = sorted(members, key=lambda each: -each.started_at)[:MOST_USES]
        around: dict[str, ConfigChange] = {}
        for run_id in dict.fromkeys(use.run_id for use in uses[:20]):
            for each in changes(self._store.configs.lines_of(run_id)):
                if each.run_id == run_id and fingerprint in (each.before, each.after):
                    around[each.change_id] = each
        return ConfigView(row, tuple(_use(each) for each in uses), self._told(tuple(around.values())))

    def config_difference(self, first: str, second: str) -> ConfigDifference:
        """Two configs."""
        rows = [self._row(each, self._store.configs.figures([each])) for each in (first, second)]
        return ConfigDifference(*rows, difference(rows[0].config, rows[1].config))

    def config_of_run(self, run_id: str) -> tuple[Stretch, ...]:
        """The stretches of a run, in order."""
        return self._store.configs.stretches([run_id])

    def _row(self, fingerprint: str, members: Sequence[StretchFigures]) -> ConfigRow:
        found = self._rows([(_sum(fingerprint, members, 0), members)]) if members else []
        if not found:
            raise NotFoundError("config", fingerprint)
        return found[0]

    def _rows(self, found: Sequence[tuple[_Sum, Sequence[StretchFigures]]]) -> list[ConfigRow]:
        """Rows with their configs and faults, in the order given."""
        names = [each.fingerprint for each, _ in found]
        told = self._store.configs.configs(names)
        faults: dict[str, list[ConfigFault]] = {}
        for fault in self._store.configs.faults(names):
            faults.setdefault(fault.config or "", []).append(fault)
        return [
            _row(each, told[each.fingerprint], members, faults.get(each.fingerprint, ()))
            for each, members in found
            if each.fingerprint in told
        ]

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
        found = successions(self._store.configs.places(run, project))
        actions = self._store.configs.actions()
        by_change: dict[str, list[ChangeAction]] = {}
        for action in actions:
            by_change.setdefault(action.change_id, []).append(action)
        said = {name: said_of(name, spoken) for name, spoken in by_change.items()}
        differs = self._differs(found) if knob is not None else {}
        matching = [
            (before, after)
            for before, after in found
            if (run is None or after.run_id == run)
            and (knob is None or knob in differs.get((before.fingerprint, after.fingerprint), ()))
            and not (unexplained and (said.get(change_id(after)) or Said()).reason)
        ]
        return ChangePage(self._ledger(matching[offset : offset + limit], said), len(matching))

    def _differs(
        self, found: Sequence[tuple[StretchPlace, StretchPlace]]
    ) -> dict[tuple[str | None, str | None], frozenset[str]]:
        """Which knobs differ between two configs, for each pair of fingerprints: equal ones have equal values."""
        pairs = {(before.fingerprint, after.fingerprint) for before, after in found}
        told = self._store.configs.configs(sorted({name for pair in pairs for name in pair if name is not None}))
        return {
            (first, second): frozenset(each.name for each in difference(told[first], told[second]))
            for first, second in pairs
            if first in told and second in told
        }

    def _ledger(
        self, found: Sequence[tuple[StretchPlace, StretchPlace]], said: Mapping[str, Said]
    ) -> tuple[ChangeRow, ...]:
        """Rows of changes of which only the places were read yet."""
        runs = sorted({each.run_id for pair in found for each in pair})
        whole = {(each.run_id, each.number): each for each in self._store.configs.stretches(runs)}
        pairs = [
            (whole[before.run_id, before.number], whole[after.run_id, after.number])
            for before, after in found
            # One that a derivation took away meanwhile is not there any more.
            if (before.run_id, before.number) in whole and (after.run_id, after.number) in whole
        ]
        told = [change_between(*pair) for pair in pairs if pair[0].config is not None and pair[1].config is not None]
        return self._with_sides(told, said, whole.values())

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
        spoken = self._store.configs.actions([each.change_id for each in found])
        for each in sorted(found, key=lambda change: change.at):
            said = said_of(each.change_id, [one for one in spoken if one.change_id == each.change_id])
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
        spoken = self._store.configs.actions([each.change_id for each in found])
        said = {
            each.change_id: said_of(each.change_id, [one for one in spoken if one.change_id == each.change_id])
            for each in found
        }
        runs = sorted({name for each in found for name in (each.run_id, each.before_run)})
        return self._with_sides(found, said, self._store.configs.stretches(runs))

    def _with_sides(
        self, found: Sequence[ConfigChange], said: Mapping[str, Said], whole: Iterable[Stretch]
    ) -> tuple[ChangeRow, ...]:
        """Rows of changes; `whole` are the stretches of their runs."""
        began, ended = {}, {}
        for each in whole:
            began[each.run_id, each.first_attempt] = each
            ended[each.run_id, each.last_attempt] = each
        by_run: dict[str, list[ConfigFault]] = {}
        runs = sorted({name for each in found for name in (each.run_id, each.before_run)})
        for fault in self._store.configs.faults_of_runs(runs):
            by_run.setdefault(fault.incident_id.rpartition("~")[0], []).append(fault)
        return tuple(
            ChangeRow(
                each,
                said.get(each.change_id) or Said(),
                _side(ended.get((each.before_run, each.before_attempt)), by_run),
                _side(began.get((each.run_id, each.attempt)), by_run),
            )
            for each in found
        )

    # --- comparing --------------------------------------------------------------------------------------------------

    def compare(self, wanted: Sequence[str]) -> ComparisonView:
        """Two to six sides: run ids, config fingerprints, `run:…`, `config:…`, or `article:…`.

        Raises ValueError for too few or too many, NotFoundError for a side that is not known.
        """
        names = tuple(dict.fromkeys(each.strip() for each in wanted if each.strip()))
        if not FEWEST_ARMS <= len(names) <= MOST_ARMS:
            raise ValueError(f"two to six different runs or configs can be compared (got {len(names)})")
        # The sides of a comparison are often of the same runs: each is read once.
        read = cache(self._run)
        return ComparisonView(names, compared([self._arm(name, read) for name in names]))

    def unknown_sides(self, wanted: Sequence[str]) -> dict[str, str]:
        """Of the sides of a comparison those that are not known, and what is said of each."""
        unknown = {}
        for name in dict.fromkeys(each.strip() for each in wanted if each.strip()):
            try:
                self._arm(name, self._run)
            except NotFoundError as error:
                unknown[name] = str(error)
        return unknown

    def sides_like(self, search: str, limit: int) -> tuple[str, ...]:
        """What could be a side and holds these words: newest runs, then configs; without words the newest."""
        page = self._store.run_rows(search, None, "last_heard_at", True, 0, limit)
        configs = [row.fingerprint for row in self.configs(search, limit=limit).rows] if search.strip() else []
        newest = configs or ([] if search.strip() else self.newest(limit))
        return (*(f"run:{row.run_id}" for row in page.rows), *(f"config:{each}" for each in newest))

    def _arm(self, name: str, read: Callable[[str], RunView]) -> Arm:
        kind, _, rest = name.partition(":")
        if kind == "article":
            if name not in ARTICLE:
                raise NotFoundError("reference", name)
            return ARTICLE[name]
        if kind == "config" and rest:
            return self._config_arm(rest, read)
        run_id = rest if kind == "run" and rest else name
        try:
            view = read(run_id)
        except NotFoundError:
            if kind == "run" or not self._store.configs.configs([name]):
                raise
            return self._config_arm(name, read)
        title = view.run_id if not view.name or view.name in view.run_id else f"{view.name} ({view.run_id})"
        return arm(f"run:{run_id}", title, [whole_run(view)])

    def _config_arm(self, fingerprint: str, read: Callable[[str], RunView]) -> Arm:
        members = sorted(self._store.configs.figures([fingerprint]), key=lambda each: -each.started_at)
        if not members:
            raise NotFoundError("config", fingerprint)
        parts = [self._part(each, read(each.run_id)) for each in members[:MOST_RUNS_OF_A_SIDE]]
        config = self._store.configs.configs([fingerprint]).get(fingerprint)
        return arm(f"config:{fingerprint}", f"config {fingerprint}", parts, config)

    def _part(self, stretch: StretchFigures, view: RunView) -> ArmPart:
        is_whole = stretch.first_attempt == 0 and view.attempts and stretch.last_attempt == view.attempts[-1].number
        if is_whole:
            return whole_run(view)
        end = view.as_of if stretch.ended_at is None else stretch.ended_at
        of_window = account(self._store.spans(stretch.run_id, stretch.started_at, end), stretch.started_at, end)
        return ArmPart(view, of_window, None, stretch.first_attempt, stretch.last_attempt, stretch.kept_steps)


@dataclass(frozen=True, slots=True)
class _Sum:
    """What configs are ordered by."""

    fingerprint: str
    last_at: int
    incidents: int
    runs: int
    training_goodput: float | None
    infrastructure_goodput: float | None
    elapsed_ns: int


def _by_config(found: Iterable[StretchFigures]) -> dict[str, list[StretchFigures]]:
    groups: dict[str, list[StretchFigures]] = {}
    for each in found:
        if each.fingerprint is not None:
            groups.setdefault(each.fingerprint, []).append(each)
    return groups


def _searched(fingerprint: str, config: RecoveryConfig | None, members: Sequence[StretchFigures]) -> str:
    told = "" if config is None else " ".join(f"{each.name} {each.value}" for each in config.known)
    launcher = "" if config is None else config.launcher or ""
    return " ".join([fingerprint, launcher, told, *(f"{each.run_id} {each.project or ''}" for each in members)]).lower()


def _sum(fingerprint: str, members: Sequence[StretchFigures], incidents: int) -> _Sum:
    elapsed = sum(each.elapsed_ns for each in members)
    sees = all(each.sees_training for each in members)
    return _Sum(
        fingerprint,
        last_at=max(each.started_at for each in members),
        incidents=incidents,
        runs=len({each.run_id for each in members}),
        training_goodput=sum(each.productive_ns for each in members) / elapsed if elapsed and sees else None,
        infrastructure_goodput=1 - sum(each.faults_ns for each in members) / elapsed if elapsed else None,
        elapsed_ns=elapsed,
    )


def _row(
    summed: _Sum, config: RecoveryConfig, members: Sequence[StretchFigures], faults: Sequence[ConfigFault]
) -> ConfigRow:
    return ConfigRow(
        fingerprint=summed.fingerprint,
        config=config,
        violations=violations(config),
        runs=summed.runs,
        attempts=sum(each.attempts for each in members),
        first_at=min(each.started_at for each in members),
        last_at=summed.last_at,
        elapsed_ns=summed.elapsed_ns,
        training_goodput=summed.training_goodput,
        infrastructure_goodput=summed.infrastructure_goodput,
        incidents=len(faults),
        recover=percentiles([each.recover_ns for each in faults if each.recover_ns is not None]),
        restart=percentiles([each.restart_ns for each in faults]),
        contradicted_hangs=sum(each.contradicted_hangs for each in members),
    )


def _use(each: StretchFigures) -> ConfigUse:
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
