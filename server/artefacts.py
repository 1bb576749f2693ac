"""Artefacts: how a file that a person gives to an incident becomes evidence, and how it is taken back.

Rules
- The file is kept without its secrets (`collectors/kept_files.py`), and what is understood of it becomes `evidence`
  facts of the incident's first attempt, through the log like every other fact: the emitter is `artefact/<sha256>`, the
  numbers are the places in the file.
  Giving the same file twice changes nothing.
- Where a file says when something was, that instant holds; else that of the notice. A line of another time than the
  incident is no evidence of it; where no line is of its time but one is within the width of the time zones, and the
  stamps do not say their zone, they are taken for those of another one, and that is said.
- The files of an archive are given one by one, under their own names; the archive itself is not kept. Source text,
  documents and settings in it are left out, and counted.
- What is given at once has one time budget, whatever it holds: what could not be read within it is named, and what was
  read counts. Where nobody waits any more, reading stops.
- Taking a file back is a fact too (`artefact_state`), and so is letting it count again: nothing is deleted, and
  `rerail replay` comes to the same. Giving a withdrawn file anew restores it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from rerail.collectors.archives import Member, TooManyFilesError, members
from rerail.collectors.kept_files import kept
from rerail.collectors.masking import masked, masked_writing
from rerail.collectors.patience import PATIENCE_SECONDS, OutOfPatienceError, Patience
from rerail.collectors.plain_text import Piece
from rerail.collectors.sources.given_files import is_source, left_out_words
from rerail.collectors.uploads import Kind, Understood, understood
from rerail.server.core import codec
from rerail.server.core.facts import ArtefactState, Evidence, WindowState
from rerail.server.core.flight_recorder.dump import rank_in
from rerail.server.core.view import ArtefactUse, Attempt
from rerail.server.core.words import count, duration
from rerail.server.errors import NotFoundError, RefusedRequestError
from rerail.server.people import Append, say
from rerail.server.queries import Queries
from rerail.server.query_results import ArtefactRow, GivenArtefact, IncidentView
from rerail.server.store import Batch, LoggedFact, Stated, Store
from rerail.server.store.log_slices import logged_facts

LONGEST_NAME = 200
MOST_AT_ONCE = 256
LARGEST_AT_ONCE = 32 * 1024 * 1024
"""Files of an archive are kept together in one transaction, so many and so large."""
SHOWN_LATE = 20
OUT_OF_TIME = "out_of_time"
DAY_NS = 86_400 * 10**9
AHEAD_NS = DAY_NS
HOUR_NS = 3600 * 10**9
AROUND_NS = 300 * 10**9
"""So long before its attempt began something may have had to do with an incident."""
WIDEST_ZONE_NS = 14 * HOUR_NS
ZONES_NS = tuple(
    sign * minutes * 60 * 10**9
    for minutes in sorted((*range(60, 14 * 60 + 1, 60), 210, 270, 330, 345, 390, 570, 630, 765))
    for sign in (1, -1)
)
"""How far clocks of two zones in use lie apart, the nearest first."""
ZONE_SLACK_NS = 120 * 10**9
"""So near to the incident a line must stand in its own zone for the zone to be believed."""
"""So far apart stamps of two time zones may be."""

HINT = "name, author and reason are text; rank is a number from 0 on; docs/facts.md"


@dataclass(frozen=True, slots=True)
class Gift:
    """What came of a file."""

    artefact: GivenArtefact
    is_new: bool
    """Nobody had given it to this run before."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where files go."""

    found: IncidentView
    known: dict[str, ArtefactRow]
    """What its run has already, by SHA-256."""
    dumps: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """The dumps among what is given at once: SHA-256 → name, and the rank that it is of."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A file that is kept, and what is to be stated of it."""

    gift: Gift
    facts: list[Evidence]


@dataclass(frozen=True, slots=True)
class _Read:
    """A file that was read and masked, and is still to be kept."""

    row: ArtefactRow
    content: bytes
    """What of it is kept."""
    facts: list[Evidence]


def _refuse_a_copy(place: _Place, digest: str, name: str, rank: int | None) -> None:
    """Two ranks never write the same bytes: a dump tells instants. Raises RefusedRequestError (409) for a copy."""
    known = place.known.get(digest)
    before = place.dumps.get(digest)
    if before is None and known is not None and known.pieces:
        before = known.name, rank_in(known.name)
    if before is not None and before[1] is not None and rank is not None and before[1] != rank:
        raise RefusedRequestError(
            409, "a_copy", f"{name}: it is byte for byte {before[0]}, a copy, and nothing that rank {rank} wrote",
            f"give the file that rank {rank} wrote",
        )  # fmt: skip
    place.dumps.setdefault(digest, (name, rank))


class ArtefactDesk:
    """Takes files for incidents of one store."""

    def __init__(self, store: Store, append: Append, clock: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._queries = Queries(store, clock)
        self._append = append
        self._clock = clock

    def give(
        self,
        incident_id: str,
        name: str,
        content: bytes,
        author: str | None = None,
        rank: int | None = None,
        patience: Patience | None = None,
    ) -> Gift:
        """Keep a file and state what is understood of it. Raises NotFoundError, or RefusedRequestError (409, 422, 503).

        `patience`: of whoever waits for it; by default `PATIENCE_SECONDS`.
        """
        place = self._place(incident_id)
        patience = patience or Patience(PATIENCE_SECONDS)
        read = self._read(place, name, content, author, rank, patience)
        taken = self._keep(place, [read])
        self._state(taken)
        return taken[0].gift

    def give_archive(
        self,
        incident_id: str,
        content: bytes,
        largest: int,
        author: str | None = None,
        patience: Patience | None = None,
    ) -> tuple[list[Gift], list[str]]:
        """The same for every file of an archive; and what was not taken, by name and reason."""
        place = self._place(incident_id)
        patience = patience or Patience(PATIENCE_SECONDS)
        taken: list[_Taken] = []
        refused: list[str] = []
        waiting: list[_Read] = []
        late: list[str] = []
        left_out = 0
        try:
            for member in members(content, largest, patience):
                if is_source(member.name):
                    left_out += 1
                    continue
                if patience.is_over(now=True):
                    if patience.is_ended:
                        break
                    late.append(_shown_member(member))
                    continue
                if member.refused is not None or not member.content:
                    refused.append(f"{_shown_member(member)}: {member.refused or 'empty'}")
                    continue
                try:
                    waiting.append(self._read(place, member.name, member.content, author, None, patience))
                except RefusedRequestError as error:
                    why = error.message.removeprefix(f"{shown_name(member.name)}: ")
                    if error.code == OUT_OF_TIME:
                        late.append(_shown_member(member))
                    else:
                        refused.append(f"{_shown_member(member)}: {why}")
                if len(waiting) >= MOST_AT_ONCE or sum(len(each.content) for each in waiting) > LARGEST_AT_ONCE:
                    taken += self._keep(place, waiting)
                    waiting.clear()
        except TooManyFilesError as error:
            raise RefusedRequestError(
                413, "too_many_files", str(error), "give the files around the fault, or several archives"
            ) from None
        taken += self._keep(place, waiting)
        self._state(taken)
        if patience.is_ended:
            raise stopped()
        if left_out:
            refused.append(left_out_words(left_out))
        if late:
            named = ", ".join(late[:SHOWN_LATE]) + (" …" if len(late) > SHOWN_LATE else "")
            refused.append(
                f"{count(len(late), 'file was', 'files were')} not read, since the {patience.seconds:g} s for what is "
                f"given at once were over: {named}"
            )
        return [each.gift for each in taken], refused

    def _place(self, incident_id: str) -> _Place:
        found = self._queries.incident(incident_id)
        run_id = found.incident.run_id
        if self._store.log(run_id, 2**62).gone_before is not None:
            raise RefusedRequestError(
                409, "log_gone", f"the facts of run {run_id} were deleted", "its verdicts cannot be made anew"
            )
        return _Place(found, {row.sha256: row for row in self._store.artefacts(run_id)})

    def _read(
        self, place: _Place, name: str, content: bytes, author: str | None, rank: int | None, patience: Patience
    ) -> _Read:
        """Mask one file and understand it. Nothing is kept yet."""
        incident = place.found.incident
        name, author = shown_name(name), author and masked(author)[:LONGEST_NAME]
        digest = sha256(content).hexdigest()
        known = place.known.get(digest)
        if known is not None and known.incident_id != incident.incident_id:
            raise RefusedRequestError(
                409,
                "given_already",
                f"this very file was given to incident {known.incident_id} as {known.name}",
                "the evidence of one file belongs to one incident of a run: open that one to see it or take it back",
            )
        near = incident.noticed_at or incident.started_at
        # Masked first: it must be whole, while of the reading what was read in time counts.
        shown = kept_content(name, content, patience)
        told = understood(name, content, rank, near, patience)
        if patience.is_ended:
            raise stopped()
        if told.kind is Kind.FLIGHT_RECORDER:
            _refuse_a_copy(place, digest, name, rank if rank is not None else rank_in(name))
        facts, refused = self._facts(place.found, digest, told)
        row = ArtefactRow(
            sha256=digest, run_id=incident.run_id, incident_id=incident.incident_id, name=name, kind=told.kind.value,
            size=len(content), received_at=self._clock(), author=author, pieces=len(facts), refused=refused,
            remarks=told.remarks,
        )  # fmt: skip
        return _Read(row, shown, facts)

    def _keep(self, place: _Place, read: Sequence[_Read]) -> list[_Taken]:
        """Keep files; their facts are still to be stated."""
        taken = []
        are_new = self._store.keep_artefacts([(each.row, each.content) for each in read]) if read else []
        for each, is_new in zip(read, are_new, strict=True):
            row = each.row
            known = place.known.get(row.sha256)
            if known is not None and not known.pieces and each.facts:
                # Nothing was understood of it before: its rank was not told, or an older reader looked at it.
                known = replace(
                    known, name=row.name, kind=row.kind, pieces=row.pieces, refused=row.refused, remarks=row.remarks
                )
                self._store.renew_artefact(known)
            row = row if known is None else known
            place.known[row.sha256] = row
            taken.append(_Taken(Gift(GivenArtefact(row, False, not each.facts), is_new), each.facts))
        return taken

    def _state(self, taken: Sequence[_Taken]) -> None:
        """Put the evidence of files into the log, in one batch; those that were withdrawn count again."""
        stated = [
            Stated(
                each.gift.artefact.row.run_id,
                _emitter(each.gift.artefact.row.sha256),
                [LoggedFact(fact.seq, fact.at, codec.encode_line(fact).rstrip()) for fact in each.facts],
            )
            for each in taken
            if each.facts
        ]
        if stated:
            self._append(Batch(self._clock(), stated))
        again = [each.gift.artefact.row for each in taken if not each.gift.is_new]
        uses = self._uses(again[0].run_id) if again else {}
        for row in again:
            use = uses.pop(row.sha256, None)
            if use is not None and use.is_withdrawn:
                self._say(row.run_id, row.sha256, WindowState.RESTORED, None, row.author)

    def withdraw(self, incident_id: str, digest: str, reason: str | None, author: str | None) -> GivenArtefact:
        """Its evidence no longer counts. Raises NotFoundError for an incident or an artefact that is not known."""
        return self._change(incident_id, digest, WindowState.WITHDRAWN, reason, author)

    def restore(self, incident_id: str, digest: str, reason: str | None, author: str | None) -> GivenArtefact:
        """Its evidence counts after all. Raises like `withdraw`."""
        return self._change(incident_id, digest, WindowState.RESTORED, reason, author)

    def _change(
        self, incident_id: str, digest: str, state: WindowState, reason: str | None, author: str | None
    ) -> GivenArtefact:
        run_id = self._queries.incident(incident_id).incident.run_id
        known = self._known(run_id, digest)
        if known is None or known.incident_id != incident_id:
            raise NotFoundError("artefact of this incident", digest[:80])
        wanted = state is WindowState.WITHDRAWN
        uses = self._queries.run(run_id).artefacts
        is_so = any(use.is_withdrawn for use in uses if use.artefact == digest) is wanted
        if is_so:
            # The view may not have heard of the latest word yet; the log has.
            latest = self._uses(run_id).get(digest)
            is_so = (latest is not None and latest.is_withdrawn) is wanted
        if not is_so:
            self._say(run_id, digest, state, reason, author)
        return GivenArtefact(known, state is WindowState.WITHDRAWN, False)

    def _known(self, run_id: str, digest: str) -> ArtefactRow | None:
        return next((row for row in self._store.artefacts(run_id) if row.sha256 == digest), None)

    def _uses(self, run_id: str) -> dict[str, ArtefactUse]:
        """What the log says of files, by SHA-256: the view may not have heard of the latest word yet."""
        latest: dict[str, ArtefactState] = {}
        for fact in logged_facts(self._store, run_id):
            if isinstance(fact, ArtefactState):
                before = latest.get(fact.artefact)
                order = (fact.at, fact.emitter, fact.seq)
                if before is None or (before.at, before.emitter, before.seq) < order:
                    latest[fact.artefact] = fact
        return {
            digest: ArtefactUse(digest, 0, said.state is WindowState.WITHDRAWN, said.at, said.reason, said.author)
            for digest, said in latest.items()
        }

    def _say(self, run_id: str, digest: str, state: WindowState, reason: str | None, author: str | None) -> None:
        said = {
            "kind": ArtefactState.kind, "artefact": digest, "state": state.value, "reason": reason, "author": author,
        }  # fmt: skip
        say(self._queries, self._append, self._clock, run_id, said, HINT)

    def _facts(self, found: IncidentView, digest: str, told: Understood) -> tuple[list[Evidence], tuple[str, ...]]:
        """The evidence in a file as facts of the incident's first attempt, and what was refused."""
        first = min(found.incident.attempts)
        attempt = next((each for each in found.attempts if each.number == first), None)
        noticed_at = found.incident.noticed_at or found.incident.started_at
        facts: list[Evidence] = []
        refused = list(told.refused)
        around = (found.incident.started_at, noticed_at)
        instants, remark = _instants(told, noticed_at, self._clock() + AHEAD_NS, _window(found, attempt), around)
        for seq, (piece, at) in enumerate(zip(told.pieces, instants, strict=True)):
            if at is None:
                continue
            fact = _evidence(found.incident.run_id, digest, seq, at, piece, attempt)
            try:
                codec.decode_line(codec.encode_line(fact))
            except codec.FactError as error:
                refused.append(str(error))
                continue
            facts.append(fact)
        return facts, (*refused, *remark)


def kept_content(name: str, content: bytes, patience: Patience | None = None) -> bytes:
    """What of a file is stored. Raises RefusedRequestError for one that nobody can mask."""
    patience = patience or Patience(PATIENCE_SECONDS)
    try:
        return kept(content, patience)
    except ValueError as error:
        if patience.is_ended:
            raise stopped() from None
        code = OUT_OF_TIME if isinstance(error, OutOfPatienceError) else "unreadable_file"
        raise RefusedRequestError(
            422, code, f"{shown_name(name)}: {error}; it was not kept",
            "unpack it and give the files, give what it says as text, or a part of it",
        ) from None  # fmt: skip


def stopped() -> RefusedRequestError:
    """What is said where the reading was ended from outside."""
    return RefusedRequestError(503, "stopped", "the reading of the file was stopped", "give it again")


def _shown_member(member: Member) -> str:
    """A member's name in a sentence; of one in an archive of its own, that one's name too."""
    return ": ".join(shown_name(part) for part in member.name.split(": "))


def _instants(
    told: Understood, noticed_at: int, latest: int, window: tuple[int, int | None], around: tuple[int, int]
) -> tuple[list[int | None], tuple[str, ...]]:
    """When each piece was, None for one that is no evidence of the incident; and what to say of that.

    Of dumps every instant holds: how old they are is judged with them.
    """
    own = [piece.at if piece.at is not None and piece.at <= latest else noticed_at for piece in told.pieces]
    is_dump = told.kind in (Kind.FLIGHT_RECORDER, Kind.PROCESS_GROUPS)
    away = [0 if is_dump or piece.at is None else _outside(piece.at, window) for piece in told.pieces]
    nearest = min((each for each, piece in zip(away, told.pieces, strict=True) if piece.at is not None), default=0)
    if nearest and nearest <= WIDEST_ZONE_NS and not told.zone_is_told:
        stamps = [piece.at for piece, far in zip(told.pieces, away, strict=True) if piece.at is not None and far]
        zone = _zone_of(stamps, around)
        if zone is not None:
            moved = [at + zone if far else at for at, far in zip(own, away, strict=True)]
            remark = (
                f"its stamps tell no zone and lie {abs(zone) / HOUR_NS:g} h from the incident: taken as another zone's"
            )
            return [None if far and _outside(at, window) else at for at, far in zip(moved, away, strict=True)], (
                remark,
            )
    foreign = sum(map(bool, away))
    if not foreign:
        return list(own), ()
    how_far = f", the nearest {duration(nearest)} away" if nearest else ""
    lines = count(foreign, "line is", "lines are")
    remark = f"{lines} of another time than this incident{how_far}: no evidence of it"
    return [None if far else at for at, far in zip(own, away, strict=True)], (remark,)


def _zone_of(stamps: list[int], around: tuple[int, int]) -> int | None:
    """By how much to move stamps without a zone so that one of them lies right at an incident, from its beginning until
    it was noticed; None where no two zones lie so far apart, or several would do: then it is of another time."""
    first, last = around
    fitting = [
        zone for zone in ZONES_NS if any(first - ZONE_SLACK_NS <= at + zone <= last + ZONE_SLACK_NS for at in stamps)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _window(found: IncidentView, attempt: Attempt | None) -> tuple[int, int | None]:
    """Between which instants a line may have to do with an incident."""
    incident = found.incident
    began = incident.started_at if attempt is None or attempt.started_at is None else attempt.started_at
    return min(
        began, incident.started_at
    ) - AROUND_NS, None if incident.ended_at is None else incident.ended_at + HOUR_NS


def _outside(at: int, window: tuple[int, int | None]) -> int:
    """How far outside a window an instant lies, 0 inside."""
    first, last = window
    if at < first:
        return first - at
    return at - last if last is not None and at > last else 0


def _emitter(digest: str) -> str:
    return f"artefact/{digest}"


def _evidence(run_id: str, digest: str, seq: int, at: int, piece: Piece, attempt: Attempt | None) -> Evidence:
    return Evidence(
        run=run_id, emitter=_emitter(digest), seq=seq, at=at, artefact=digest,
        job=None if attempt is None else attempt.job,
        requeue=None if attempt is None else attempt.requeue,
        restart=None if attempt is None else attempt.restart,
        iteration=None if attempt is None else attempt.iteration,
        rank=piece.rank, node=piece.node, source=piece.source, code=piece.code,
        text=masked(piece.text), attributes=tuple((name, masked_writing(value)) for name, value in piece.attributes),
    )  # fmt: skip


def shown_name(name: str) -> str:
    """A file's name as it is kept: without folders and secrets, printable, not too long."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(letter if letter.isprintable() else "�" for letter in last).strip() or "file"
    kept = masked(kept)
    return kept if len(kept) <= LONGEST_NAME else kept[-LONGEST_NAME:]
