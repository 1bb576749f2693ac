"""Notes and search over HTTP."""

from __future__ import annotations

import pytest


@pytest.fixture
def known(client, small_run, settled):
    client.post("/api/v1/facts", content=small_run("a"), headers={"Content-Type": "application/x-ndjson"})
    settled(client)
    return client


def write(client, text: str = "체크포인트를 저장했다, see a~0", **said):
    told = {"subject_kind": "run", "subject": "a", "text": text, "author": "Ada", **said}
    return client.post("/api/v1/notes", json=told)


def test_a_note_is_written_found_changed_and_undone(known):
    written = write(known)
    assert written.status_code == 201
    note = written.json()
    assert note["mentions"] == [{"kind": "incident", "name": "a~0"}]
    where = f"/api/v1/notes/{note['note_id']}"
    found = known.get("/api/v1/search", params={"q": "체크포인트"}).json()
    assert [row["path"] for row in found["results"]] == [f"/notes/{note['note']}"]
    assert {"text": "체크포인트", "match": True} in found["results"][0]["snippet"]
    edited = known.post(f"{where}/revisions", json={"action": "edit", "revision": 1, "text": "새 글"})
    assert (edited.status_code, edited.json()["text"]) == (201, "새 글")
    undone = known.post(f"{where}/revisions", json={"action": "undo", "revision": 2}).json()
    assert undone["text"] == note["text"]
    history = known.get(where).json()
    assert [each["action"] for each in history["revisions"]] == ["write", "edit", "undo"]
    assert history["can_redo"] is True
    incident = known.get("/api/v1/notes", params={"subject_kind": "incident", "subject": "a~0"}).json()
    assert [each["note"] for each in incident["mentioned_in"]] == [note["note"]]


def test_two_editors_get_both_texts(known):
    where = f"/api/v1/notes/{write(known, 'common').json()['note_id']}/revisions"
    known.post(where, json={"action": "edit", "revision": 1, "text": "theirs", "author": "Ben"})
    late = known.post(where, json={"action": "edit", "revision": 1, "text": "mine"})
    assert late.status_code == 409
    told = late.json()
    assert told["error"]["code"] == "conflict"
    assert (told["yours"], told["theirs"]["text"], told["theirs"]["revision"], told["seen"]["text"]) == (
        "mine", "theirs", 2, "common",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({"text": "x" * 5_000_000}, 413, "64 kB"),
        ({"text": " "}, 422, "text: empty"),
        ({"text": 7}, 422, "text: not text"),
        ({"subject": "nobody"}, 404, "nobody"),
        ({"subject_kind": "moon"}, 422, "subject_kind: one of run"),
        ({"start": "soon"}, 422, "start:"),
        ({"start": 10**18, "end": 10**18}, 422, "end: not after start"),
        ({"colour": "red"}, 422, "colour: not a field"),
    ],
)
def test_what_is_no_note_is_refused_with_field_and_reason(known, said, status, words):
    answer = write(known, **said) if "text" not in said else write(known, said["text"])
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert known.get("/api/v1/notes").json()["total"] == 0


def test_a_foreign_page_writes_nothing(known):
    answer = known.post("/api/v1/notes", json={"text": "x"}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


def test_a_question_that_cannot_be_asked_names_the_word(known):
    answer = known.get("/api/v1/search", params={"q": "loss nodes:gpu-17"})
    assert answer.status_code == 422
    assert answer.json()["error"]["word"] == "nodes:gpu-17"
    assert "did you mean node:" in answer.json()["error"]["message"]


def test_an_attached_file_is_kept_and_given_back_as_a_download(known):
    content = b"<script>alert(1)</script>"
    kept = known.post("/api/v1/notes/files", params={"name": "a.html"}, content=content).json()
    given = known.get(kept["path"])
    assert given.content == content
    assert given.headers["content-disposition"].startswith("attachment")
    assert given.headers["content-type"] == "application/octet-stream"


def test_a_note_on_a_region_lies_on_the_timeline(known):
    shown = known.get("/api/v1/runs/a/timeline").json()
    start = int(shown["start_us"]) * 1000
    write(known, "power was low", start=start + 10**9, end=start + 5 * 10**9)
    (mark,) = known.get("/api/v1/runs/a/timeline").json()["notes"]
    assert mark["text"] == "power was low"
    assert int(mark["end_us"]) - int(mark["start_us"]) == 4_000_000


def test_a_note_on_an_incident_lies_in_the_notes_of_its_run(known):
    known.post("/api/v1/notes", json={"subject_kind": "incident", "subject": "a~0", "text": "a switch"})
    shown = known.get("/api/v1/runs/a/timeline").json()
    (mark,) = shown["notes"]
    assert mark["text"] == "a switch"
    assert (mark["start_us"], mark["end_us"]) == (shown["incidents"][0]["started_us"], None)


def test_what_changed_before_an_incident_is_told_and_an_unknown_incident_is_404(known):
    assert known.get("/api/v1/incidents/a~0/changes").json() == {"incident_id": "a~0", "changes": []}
    assert known.get("/api/v1/incidents/a~99/changes").status_code == 404
