"""`rerail note` and `search`: what people write and what is known, in a terminal.

Rules
- A subject is `incident:ID`, `run:ID`, `problem:ID` or `node:ID`. Without a text its notes are shown; `-` reads the
  text from standard input. `--edit`, `--delete`, `--undo`, `--redo` change a note as it stands when they run.
- With a server's address the server is asked; without one the database is written to.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from urllib.parse import urlencode

from rerail.server.api.notes import change_of, note_answer, search_answer
from rerail.server.commands import opened_store, settings_of
from rerail.server.commands.asking import ask_server
from rerail.server.commands.problems import _who
from rerail.server.commands.showing import _print_json
from rerail.server.core.notes import LONGEST_BYTES, SubjectKind
from rerail.server.core.search.query import QueryError
from rerail.server.errors import RefusedRequestError, RerailError
from rerail.server.notes import NoteDesk, subject_of
from rerail.server.queries import Queries

Shown = Mapping[str, object]


def note(parsed: argparse.Namespace) -> int:
    """Write, change or list notes."""
    settings = settings_of(parsed)
    url = str(parsed.url or settings.url or "").rstrip("/")
    try:
        shown = _asked(parsed, url, settings.token) if url else _written(parsed)
    except RefusedRequestError as error:
        raise RerailError(f"{error.message}. {error.hint}") from None
    if parsed.json:
        _print_json(shown)
        return 0
    if "notes" not in shown:
        print(f"{shown['note']}: revision {shown['revision']}{' (deleted)' if shown['deleted'] else ''}")
        return 0
    rows = shown["notes"]
    assert isinstance(rows, list)
    for row in rows:
        if row["deleted"]:
            continue
        print(f"{row['note']}  {row['author'] or 'somebody'}  {str(row['written_at'])[:19]} UTC  r{row['revision']}")
        print("\n".join(f"    {line}" for line in str(row["text"]).splitlines()))
    if not rows:
        print("No notes yet.")
    return 0


def _subject(parsed: argparse.Namespace) -> dict[str, object]:
    kind, colon, name = str(parsed.subject).partition(":")
    if not colon or kind not in [each.value for each in SubjectKind]:
        raise RerailError(f"SUBJECT: {parsed.subject!r} is not KIND:ID with one of {', '.join(SubjectKind)}")
    told: dict[str, object] = {"subject_kind": kind, "subject": name}
    if parsed.at:
        told |= dict(zip(("start", "end"), parsed.at, strict=False))
    return told


def _text(parsed: argparse.Namespace) -> str | None:
    if parsed.text == "-":
        return sys.stdin.read(LONGEST_BYTES + 1)
    return parsed.text


def _number(parsed: argparse.Namespace) -> int:
    digits = str(parsed.subject).removeprefix("note-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise RerailError(f"SUBJECT: {parsed.subject!r} is not a note; write note-12")
    return int(digits)


def _change(parsed: argparse.Namespace, revision: object) -> dict[str, object] | None:
    """What the flags want of a note; None where they want none."""
    action = next((name for name in ("edit", "delete", "undo", "redo") if getattr(parsed, name)), None)
    if action is None:
        return None
    said: dict[str, object] = {"action": action, "revision": revision, "author": parsed.author or _who()}
    if action == "edit":
        text = _text(parsed)
        if text is None:
            raise RerailError("--edit: say the new text, or - to read it from standard input")
        said["text"] = text
    return said


def _is_change(parsed: argparse.Namespace) -> bool:
    return any(getattr(parsed, name) for name in ("edit", "delete", "undo", "redo"))


def _written(parsed: argparse.Namespace) -> Shown:
    """Through the database itself."""
    with opened_store(settings_of(parsed)) as store:
        queries, desk = Queries(store), NoteDesk(store)
        if _is_change(parsed):
            number = _number(parsed)
            said = _change(parsed, queries.notes.note(number).note.newest.revision)
            assert said is not None
            return note_answer(desk.change(number, change_of(said)))
        if str(parsed.subject).startswith("note-"):
            return note_answer(queries.notes.note(_number(parsed)).note)
        subject = subject_of(_subject(parsed))
        text = _text(parsed)
        if text is None:
            queries.notes.know(subject)
            return {"notes": [note_answer(each) for each in queries.notes.about(subject.kind, subject.name).notes]}
        return note_answer(desk.write(subject, text, parsed.author or _who()))


def _asked(parsed: argparse.Namespace, url: str, token: str | None) -> Shown:
    """Through a server."""
    if _is_change(parsed):
        where = f"{url}/api/v1/notes/{_number(parsed)}"
        said = _change(parsed, ask_server("GET", where, token)["revision"])
        return ask_server("POST", f"{where}/revisions", token, said)
    if str(parsed.subject).startswith("note-"):
        return ask_server("GET", f"{url}/api/v1/notes/{_number(parsed)}", token)
    said = _subject(parsed)
    text = _text(parsed)
    if text is None:
        return ask_server("GET", f"{url}/api/v1/notes?{urlencode(said)}", token)
    return ask_server("POST", f"{url}/api/v1/notes", token, {**said, "text": text, "author": parsed.author or _who()})


def search(parsed: argparse.Namespace) -> int:
    """What a question finds."""
    question = " ".join(parsed.question)
    settings = settings_of(parsed)
    url = str(parsed.url or settings.url or "").rstrip("/")
    if url:
        query = urlencode({"q": question, "limit": parsed.limit})
        shown: Shown = ask_server("GET", f"{url}/api/v1/search?{query}", settings.token)
    else:
        with opened_store(settings) as store:
            try:
                shown = search_answer(Queries(store, time.time_ns).search.find(question, 0, parsed.limit))
            except QueryError as error:
                raise RerailError(str(error)) from None
    if parsed.json:
        _print_json(shown)
        return 0
    results = shown["results"]
    assert isinstance(results, list)
    for row in results:
        status = f" [{row['status']}]" if row["status"] else ""
        print(f"{str(row['at'])[:10]}  {row['kind']:<9} {_plain(row['title'])}{status}")
        print(f"            {_plain(row['snippet'])}")
    print(f"{shown['total']} found{'; older ones match too' if shown['cut'] else ''}", file=sys.stderr)
    return 0


def _plain(pieces: list[dict[str, object]]) -> str:
    """A text for a terminal: matches in bold where it is one, and no control characters of anybody's."""
    bold, off = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    shown = [
        (f"{bold}{text}{off}" if piece["match"] else text)
        for piece in pieces
        if (text := "".join(letter if letter.isprintable() else " " for letter in str(piece["text"])))
    ]
    return "".join(shown)
