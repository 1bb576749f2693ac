"""Documents: what can be found of incidents, fault traces, problems, nodes, runs, notes and config changes.

Rules
- A document holds what was said, not what moves: no length that grows by the second is in it, so that an open incident
  is not indexed anew all the time.
- An incident is what was concluded of it, a fault trace the evidence under that: two documents, one page.
- What is longer than `LONGEST` letters is cut there; parts of `PART` letters are indexed on their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rerail.server.core.facts import Pairs
from rerail.server.core.node_histories import NodeHistory
from rerail.server.core.notes import Note, SubjectKind
from rerail.server.core.recovery_configs.change_actions import Said
from rerail.server.core.recovery_configs.changes import ConfigChange
from rerail.server.core.recovery_configs.knobs import Setting
from rerail.server.core.search.query import plain_value
from rerail.server.core.view import Incident, RunView

PART = 14_000
LONGEST = 8 * PART


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be found."""

    kind: str
    """One of `query.KINDS`."""
    subject: str
    """Its id, as its page knows it."""
    at: int
    """When it was; what is newer comes first among equals."""
    title: str
    body: str
    run: str | None = None
    status: str | None = None
    fields: Pairs = ()
    """`(field, value)` for filters."""

    def parts(self) -> tuple[str, ...]:
        """Its body in parts that can be indexed."""
        body = self.body[:LONGEST]
        return tuple(body[start : start + PART] for start in range(0, len(body), PART)) or ("",)

    def filters(self) -> Pairs:
        """Everything that a field of a query may ask of it, as compared."""
        own = [("kind", self.kind)]
        if self.run is not None:
            own.append(("run", self.run))
        if self.status is not None:
            own.append(("status", self.status))
        return tuple(dict.fromkeys((name, plain_value(value)) for name, value in (*own, *self.fields)))


def incident_status(incident: Incident) -> str:
    """How an incident stands, as `status:` asks."""
    if incident.is_planned:
        return "planned"
    if incident.is_open:
        return "open"
    return "recovered" if incident.ended_at is not None else "unrecovered"


def incident_documents(incident: Incident) -> tuple[Document, ...]:
    """An incident and, where there is evidence, its fault trace."""
    verdict = incident.verdict
    cause = "planned restart" if incident.is_planned else verdict.cause.replace("_", " ")
    where = [f"rank {verdict.culprit_rank}"] if verdict.culprit_rank is not None else []
    if verdict.culprit_node is not None:
        where.append(f"node {verdict.culprit_node}")
    parts = () if incident.fingerprint is None else incident.fingerprint.parts
    said = [
        verdict.sentence, verdict.advice, verdict.missing_evidence, ", ".join(where),
        " · ".join(f"{name} {value}" for name, value in parts),
        *(f"Attempt {each.attempt}: {each.verdict.sentence}" for each in incident.relaunches),
    ]  # fmt: skip
    nodes = _known([verdict.culprit_node, dict(incident.facets).get("node")])
    ranks = _known([verdict.culprit_rank, dict(incident.facets).get("rank")])
    causes = [verdict.cause, *(each.verdict.cause for each in incident.relaunches)]
    status, run = incident_status(incident), incident.run_id
    fields = _fields(cause=causes, node=nodes, rank=ranks)
    found = [
        Document(
            "incident", incident.incident_id, incident.started_at, f"{cause}: {incident.incident_id}", _lines(said),
            run, status, fields,
        )
    ]  # fmt: skip
    evidence = [*incident.evidence, *(line for each in incident.relaunches for line in each.evidence)]
    if evidence:
        nodes = [*nodes, *_known(line.node for line in evidence)]
        ranks = [*ranks, *_known(line.rank for line in evidence)]
        lines = dict.fromkeys(
            " ".join(_known([line.source, line.node, line.code, line.text, line.meaning])) for line in evidence
        )
        found.append(
            Document(
                "trace", incident.incident_id, incident.started_at, f"Fault trace of {incident.incident_id}",
                _lines(lines), run, status, _fields(cause=causes, node=nodes, rank=ranks),
            )
        )  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ProblemTold:
    """What a problem's document is made of."""

    problem: str
    title: str
    cause: str
    status: str
    last_at: int
    nodes: Sequence[str] = ()
    parts: Pairs = ()
    words: Sequence[str] = ()
    """What people wrote when they acted on it, oldest first."""


def problem_document(told: ProblemTold) -> Document:
    """A problem."""
    parts = " · ".join(f"{name} {value}" for name, value in told.parts)
    body = _lines([*reversed(told.words), parts, told.cause.replace("_", " "), " ".join(told.nodes), told.problem])
    fields = _fields(cause=[told.cause], node=told.nodes)
    return Document("problem", told.problem, told.last_at, told.title, body, None, told.status, fields)


def node_document(node: str, histories: Iterable[NodeHistory]) -> Document:
    """A node over all runs that named it."""
    lines: dict[str, None] = {}
    newest = 0
    for history in histories:
        for stay in history.held:
            newest = max(newest, stay.since or 0)
        for xid in history.xids:
            newest = max(newest, xid.at)
            lines[f"XID {xid.code} xid {xid.code}"] = None
        for change in history.states:
            newest = max(newest, change.at)
            lines[" ".join(_known([change.state.replace("_", " "), change.reason]))] = None
    return Document("node", node, newest, node, _lines(lines), fields=_fields(node=[node]))


def run_document(view: RunView) -> Document:
    """A run, by what it was called."""
    labels = " ".join(f"{name}={value}" for name, value in view.labels)
    body = _lines([view.project, labels, view.run_id])
    return Document(
        "run", view.run_id, view.started_at or 0, view.name or view.run_id, body, view.run_id, view.state.value
    )


def config_change_document(change: ConfigChange, said: Said) -> Document:
    """A config change: what differs, and what people say of it."""
    lines = [
        f"{one.old.knob.title} ({one.name}): {_setting(one.old)} → {_setting(one.new)}"
        for one in (*change.knobs, *change.told_apart)
    ]
    argued = ", ".join(target for _, target, _ in said.links)
    told = [
        said.reason,
        f"by {said.changed_by}" if said.changed_by else None,
        f"argued for by {argued}" if argued else None,
        " ".join(_known([change.project, change.name, change.after])),
    ]
    knobs = ", ".join(one.old.knob.title for one in change.knobs)
    title = f"Config change of {change.name or change.run_id}" + (f": {knobs}" if knobs else "")
    return Document("config_change", change.change_id, change.at, title, _lines([*lines, *told]), change.run_id)


def _setting(told: Setting) -> str:
    return "unknown" if told.value is None else f"{told.value} {told.knob.unit}".strip()


def note_document(note: Note) -> Document | None:
    """A note as it stands; None of a deleted one."""
    newest, subject = note.newest, note.subject
    if newest.is_deleted:
        return None
    run = {
        SubjectKind.RUN: subject.name,
        SubjectKind.INCIDENT: subject.name.rsplit("~", 1)[0],
    }.get(subject.kind)
    fields = _fields(node=[subject.name] if subject.kind is SubjectKind.NODE else [])
    by = f" by {note.first.author}" if note.first.author else ""
    title = f"Note on {subject.kind.value.replace('_', ' ')} {subject.name}{by}"
    return Document("note", note.name, newest.at, title, newest.text, run, None, fields)


def _known(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values if value not in (None, "")]


def _lines(said: Iterable[str | None]) -> str:
    return "\n".join(line for line in said if line)


def _fields(**told: Iterable[str]) -> Pairs:
    return tuple(dict.fromkeys((name, value) for name, values in told.items() for value in values))
