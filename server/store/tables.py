"""Tables: the one schema, on SQLite and PostgreSQL.

Rules
- `run_id` here is 63 bit of the BLAKE2b of the run's text id: no sequence, no look-up before an insert, and the key
  every table of a run is distributed by. The text stands in `run.run`, and a collision is detected there.
- Every primary key holds `run_id`. No foreign keys: a distributed table could not keep them.
- The log (`fact_segment`) is append-only: what one batch stated about one run, as compressed lines of the wire format.
  Its key begins with `(run_id, ingest)`, so that an insert goes to the end and "what is new since" is a range of it.
  Why not a row per fact: docs/decisions/0005-log-of-segments.md.
- Text columns hold only printable text: PostgreSQL cannot store NUL. Everything else is bytes.
- Instants are BIGINT nanoseconds: the same on both databases, where `DateTime` is not.
- Derived tables (`run_view`, `span_block`, `step_point_block`, `checkpoint_block`, `rollup_block`, `incident`,
  `problem_run`, `node_run`, `fingerprint`) can be emptied at any time and made again, but for the rows of runs whose
  log was let go (`run.log_gone_before` is set).
- `problem_action` is what people said, append-only, and never derived. It and `fingerprint` are small and about no run
  in particular: where tables are distributed by `run_id`, these two are reference tables.
- `artefact` holds what people gave, whole; like the log it is never derived and never emptied.
- `note` and `note_revision` are what people wrote, append-only but for the number of the newest revision;
  `note_mention` follows from the newest texts. `told_note` is derived: notes that facts tell.
- `search_document` is derived of all of these. PostgreSQL indexes `words` in it; on SQLite the words lie in the FTS5
  table `search_words` beside it, which SQLAlchemy does not know (`search_words.py`). These tables are about no run in
  particular either: reference tables.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


run = Table(
    "run",
    metadata,
    _key("run_id"),
    Column("run", Text, nullable=False),
    Column("first_received_at", BigInteger, nullable=False),
    Column("last_received_at", BigInteger, nullable=False),
    Column("last_ingest", BigInteger, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("duplicate", BigInteger, nullable=False),
    Column("log_gone_before", BigInteger),
)

emitter = Table(
    "emitter",
    metadata,
    _key("run_id"),
    _key("emitter_id"),
    Column("emitter", Text, nullable=False),
    Column("highest_seq", BigInteger),
    Column("accepted", BigInteger, nullable=False),
    Column("duplicate", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Column("last_at", BigInteger),
    Column("last_received_at", BigInteger, nullable=False),
    Column("least_delay_ns", BigInteger),
    Column("clock_offset_ns", BigInteger),
)

held_numbers = Table(
    "held_numbers",
    metadata,
    _key("run_id"),
    _key("emitter_id"),
    _key("chunk"),
    Column("held", LargeBinary, nullable=False),
)

fact_segment = Table(
    "fact_segment",
    metadata,
    _key("run_id"),
    _key("ingest"),
    _key("part"),
    Column("received_at", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("fact_count", Integer, nullable=False),
    Column("lines", LargeBinary, nullable=False),
)

refused_count = Table(
    "refused_count",
    metadata,
    _key("run_id"),
    _key("day"),
    Column("total", BigInteger, nullable=False),
)

refused_row = Table(
    "refused_row",
    metadata,
    _key("run_id"),
    _key("day"),
    _key("position"),
    Column("received_at", BigInteger, nullable=False),
    Column("run", Text),
    Column("emitter", Text),
    Column("line", Integer, nullable=False),
    Column("field", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Index(None, "received_at"),
)

dirty_run = Table(
    "dirty_run",
    metadata,
    _key("run_id"),
    Column("ingest", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("claimed_until", BigInteger, nullable=False),
    Index(None, "due_at"),
)

change_counter = Table(
    "change_counter",
    metadata,
    Column("counter_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
)

derivation = Table(
    "derivation",
    metadata,
    Column("derivation_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("rules", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
)

run_view = Table(
    "run_view",
    metadata,
    _key("run_id"),
    Column("run", Text, nullable=False),
    Column("upto_ingest", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("as_of", BigInteger, nullable=False),
    Column("error", Text),
    Column("search_text", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("name", Text),
    Column("project", Text),
    Column("outcome", Text),
    Column("current_phase", Text),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("last_heard_at", BigInteger),
    Column("silent_since", BigInteger),
    Column("elapsed_ns", BigInteger, nullable=False),
    Column("productive_ns", BigInteger, nullable=False),
    Column("faults_ns", BigInteger, nullable=False),
    Column("training_goodput", Double),
    Column("infrastructure_goodput", Double),
    Column("gpus", BigInteger),
    Column("lost_gpu_ns", Double),
    Column("attempts", BigInteger, nullable=False),
    Column("restarts", BigInteger, nullable=False),
    Column("interruptions", BigInteger, nullable=False),
    Column("incidents", BigInteger, nullable=False),
    Column("recover_p50_ns", BigInteger),
    Column("recover_max_ns", BigInteger),
    Column("high_water_step", BigInteger),
    Column("current_step", BigInteger),
    Column("target_step", BigInteger),
    Column("checkpoint_age_ns", BigInteger),
    Column("newest_durable_step", BigInteger),
    Column("steps_at_risk", BigInteger),
    Column("row", LargeBinary, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("marks", LargeBinary, nullable=False),
    Index(None, "revision"),
    Index(None, "last_heard_at"),
)


def _blocks(name: str, count: str, content: str) -> Table:
    """Items of a run in blocks, each with the range of time it touches."""
    return Table(
        name,
        metadata,
        _key("run_id"),
        _key("block"),
        Column("start_at", BigInteger, nullable=False),
        Column("end_at", BigInteger, nullable=False),
        Column(count, Integer, nullable=False),
        Column(content, LargeBinary, nullable=False),
    )


span_block = _blocks("span_block", "span_count", "spans")
step_point_block = _blocks("step_point_block", "point_count", "points")
checkpoint_block = _blocks("checkpoint_block", "checkpoint_count", "checkpoints")

rollup_block = Table(
    "rollup_block",
    metadata,
    _key("run_id"),
    _key("resolution"),
    _key("block"),
    Column("start_at", BigInteger, nullable=False),
    Column("end_at", BigInteger, nullable=False),
    Column("bin_count", Integer, nullable=False),
    Column("bins", LargeBinary, nullable=False),
    Index(None, "resolution", "end_at"),
)

artefact = Table(
    "artefact",
    metadata,
    _key("run_id"),
    Column("sha256", Text, primary_key=True),
    Column("incident_id", Text, nullable=False),
    Column("received_at", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index(None, "sha256"),
    Index(None, "incident_id"),
)

incident = Table(
    "incident",
    metadata,
    _key("run_id"),
    Column("incident_id", Text, primary_key=True),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("is_open", Boolean, nullable=False),
    Column("is_planned", Boolean, nullable=False),
    Column("cause", Text, nullable=False),
    Column("fingerprint", Text),
    Column("problem_id", Text),
    Column("counts", Boolean),
    Column("domain", Text),
    Column("scope", Text),
    Column("culprit_node", Text),
    Column("culprit_rank", BigInteger),
    Column("exception", Text),
    Column("frame", Text),
    Column("xid", Text),
    Column("step", BigInteger),
    Column("facets", Text),
    Column("restart_ns", BigInteger),
    Column("recover_ns", BigInteger),
    Column("lost_steps", BigInteger),
    Column("lost_ns", BigInteger),
    Column("lost_gpu_ms", BigInteger),
    Column("config", Text),
    Column("detecting_ns", BigInteger),
    Column("document", LargeBinary, nullable=False),
    Index(None, "incident_id"),
    Index("ix_incident_sums", "started_at", "counts", "cause", "scope", "lost_gpu_ms", "ended_at", "recover_ns"),
    Index(None, "problem_id", "started_at"),
    Index(None, "fingerprint", "started_at"),
    Index(None, "culprit_node", "started_at"),
    Index(None, "exception", "started_at"),
    Index(None, "xid", "started_at"),
    Index(None, "step"),
    Index(None, "config", "started_at"),
)

problem_run = Table(
    "problem_run",
    metadata,
    _key("run_id"),
    Column("problem_id", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("incidents", BigInteger, nullable=False),
    Column("still_open", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("restart_ns", BigInteger, nullable=False),
    Column("recover_ns", BigInteger, nullable=False),
    Column("lost_ns", BigInteger, nullable=False),
    Column("lost_gpu_ms", BigInteger, nullable=False),
    Column("cost_unknown", BigInteger, nullable=False),
    Column("spread", LargeBinary, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Index(None, "revision"),
)

node_run = Table(
    "node_run",
    metadata,
    _key("run_id"),
    Column("node", Text, primary_key=True),
    Column("is_exposure_known", Boolean, nullable=False),
    Column("held_ns", BigInteger, nullable=False),
    Column("open_since", BigInteger),
    Column("blamed", BigInteger, nullable=False),
    Column("xids", BigInteger, nullable=False),
    Column("is_gone", Boolean, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Index(None, "node"),
    Index(None, "revision"),
)

fingerprint = Table(
    "fingerprint",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("cause", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("parts", Text, nullable=False),
)

problem_action = Table(
    "problem_action",
    metadata,
    Column("action_id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("problem", Text, nullable=False),
    Column("author", Text),
    Column("reason", Text),
    Column("said", Text, nullable=False),
)

config_stretch = Table(
    "config_stretch",
    metadata,
    _key("run_id"),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("fingerprint", Text),
    Column("first_attempt", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("project", Text),
    Column("name", Text),
    Column("document", LargeBinary, nullable=False),
    Index(None, "fingerprint"),
    Index(None, "project", "name"),
)

config_change_action = Table(
    "config_change_action",
    metadata,
    Column("action_id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("change_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("author", Text),
    Column("changed_by", Text),
    Column("reason", Text),
    Column("target_kind", Text),
    Column("target", Text),
    Column("undoes", BigInteger),
    Index(None, "change_id"),
    Index(None, "target"),
)

note = Table(
    "note",
    metadata,
    Column("note_id", BigInteger, primary_key=True, autoincrement=False),
    Column("subject_kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("start_at", BigInteger),
    Column("end_at", BigInteger),
    Column("revision", Integer, nullable=False),
    Column("is_deleted", Boolean, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Index(None, "subject_kind", "subject"),
)

note_revision = Table(
    "note_revision",
    metadata,
    Column("note_id", BigInteger, primary_key=True, autoincrement=False),
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("is_deleted", Boolean, nullable=False),
    Column("author", Text),
    Column("restores", Integer),
)

note_mention = Table(
    "note_mention",
    metadata,
    Column("note_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Index(None, "kind", "name"),
)

told_note = Table(
    "told_note",
    metadata,
    _key("run_id"),
    _key("emitter_id"),
    _key("seq"),
    Column("emitter", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("author", Text),
    Column("text", Text, nullable=False),
    Index(None, "run_id", "at"),
)

search_document = Table(
    "search_document",
    metadata,
    Column("document_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("part", Integer, nullable=False),
    Column("run_id", BigInteger),
    Column("run", Text),
    Column("at", BigInteger, nullable=False),
    Column("status", Text),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("words", TSVECTOR().with_variant(Text(), "sqlite")),
    Index(None, "kind", "subject"),
    Index(None, "run_id"),
    Index(None, "words", postgresql_using="gin"),
)

# What rules saw and people did (`alert_event`, never edited), and how each alert stands, to be listed by (`alert`).

alert = Table(
    "alert",
    metadata,
    _key("run_id"),
    _key("alert_id"),
    Column("key", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("group_key", Text, nullable=False),
    Column("problem_id", Text),
    Column("incident_id", Text),
    Column("node", Text),
    Column("sentence", Text, nullable=False),
    Column("mark", Text),
    Column("since", BigInteger),
    Column("seen_at", BigInteger, nullable=False),
    Column("absent_since", BigInteger),
    Column("is_firing", Boolean, nullable=False),
    Column("is_resolved", Boolean, nullable=False),
    Column("is_acknowledged", Boolean, nullable=False),
    Column("silenced_until", BigInteger),
    Column("changed_at", BigInteger, nullable=False),
    Index(None, "alert_id"),
    Index(None, "is_resolved", "changed_at"),
    Index(None, "group_key"),
)

alert_event = Table(
    "alert_event",
    metadata,
    _key("run_id"),
    _key("event_id"),
    Column("alert_id", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("change", Text, nullable=False),
    Column("author", Text),
    Column("reason", Text),
    Column("until", BigInteger),
    Column("undoes", BigInteger),
    Column("sentence", Text),
    Column("mark", Text),
    Index(None, "alert_id"),
)

alert_round = Table(
    "alert_round",
    metadata,
    Column("round_id", SmallInteger, primary_key=True, autoincrement=False),
    Column("seen", BigInteger, nullable=False),
)

threshold_change = Table(
    "threshold_change",
    metadata,
    _key("change_id"),
    Column("at", BigInteger, nullable=False),
    Column("rule", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("said", Text, nullable=False),
    Column("author", Text),
    Column("reason", Text),
    Column("undoes", BigInteger),
)

alert_channel = Table(
    "alert_channel",
    metadata,
    _key("channel_id"),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("secret", Text),
    Column("is_on", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text),
)

alert_message = Table(
    "alert_message",
    metadata,
    _key("message_id"),
    Column("channel_id", BigInteger, nullable=False),
    Column("group_key", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("claimed_until", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("finished_at", BigInteger),
    Column("error", Text),
    Column("document", LargeBinary, nullable=False),
    Index(None, "state", "due_at"),
    Index(None, "channel_id", "group_key", "created_at"),
)
