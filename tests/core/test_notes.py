"""Notes: what is done can be undone, nothing is ever lost, and what a text names is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.notes import (
    LONGEST_BYTES,
    MentionKind,
    Note,
    NoteRevision,
    Refusal,
    RevisionKind,
    Subject,
    SubjectKind,
    changed,
    course,
    named,
    written,
)

INCIDENT = Subject(SubjectKind.INCIDENT, "llama~3")


def note(text: str = "first") -> Note:
    first = written(INCIDENT, 1, text, "Ada")
    assert isinstance(first, NoteRevision)
    return Note(12, INCIDENT, (first,))


def after(before: Note, kind: RevisionKind, **said: object) -> Note:
    made = changed(before, kind, before.newest.at + 1, "Ben", **said)
    assert isinstance(made, NoteRevision), made
    return Note(before.note_id, before.subject, (*before.revisions, made))


def test_an_undo_brings_back_what_was_there_and_a_redo_what_was_undone():
    edited = after(after(note(), RevisionKind.EDIT, text="second"), RevisionKind.EDIT, text="third")
    undone = after(edited, RevisionKind.UNDO)
    assert undone.newest.text == "second"
    assert after(undone, RevisionKind.UNDO).newest.text == "first"
    assert after(undone, RevisionKind.REDO).newest.text == "third"


def test_a_deletion_is_undone_like_anything_else():
    gone = after(note("kept"), RevisionKind.DELETE)
    assert gone.newest.is_deleted
    assert isinstance(changed(gone, RevisionKind.EDIT, 9, None, text="x"), Refusal)
    back = after(gone, RevisionKind.UNDO)
    assert (back.newest.text, back.newest.is_deleted) == ("kept", False)


def test_the_first_writing_cannot_be_undone_and_nothing_redone_that_was_not_undone():
    assert isinstance(changed(note(), RevisionKind.UNDO, 2, None), Refusal)
    assert isinstance(changed(note(), RevisionKind.REDO, 2, None), Refusal)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just(RevisionKind.EDIT), st.text(min_size=1, max_size=8)),
        st.tuples(st.sampled_from([RevisionKind.DELETE, RevisionKind.UNDO, RevisionKind.REDO]), st.just("")),
        st.tuples(st.just(RevisionKind.RESTORE), st.integers(0, 12).map(str)),
    ),
    max_size=30,
)


@given(ACTIONS)
def test_any_history_follows_a_stack_and_never_loses_a_revision(actions):
    now = note()
    done, undone = [("first", False)], []
    for kind, word in actions:
        said = {"text": word} if kind is RevisionKind.EDIT else {}
        if kind is RevisionKind.RESTORE:
            said = {"restores": int(word)}
        made = changed(now, kind, now.newest.at + 1, None, **said)
        if isinstance(made, Refusal):
            continue
        before = now
        now = Note(now.note_id, now.subject, (*now.revisions, made))
        assert now.revisions[:-1] == before.revisions
        if kind is RevisionKind.UNDO:
            undone.append(done.pop())
        elif kind is RevisionKind.REDO:
            done.append(undone.pop())
        else:
            done.append((made.text, made.is_deleted))
            undone = []
        assert (now.newest.text, now.newest.is_deleted) == done[-1]
        stands = course(now.revisions)
        assert (stands.can_undo, stands.can_redo) == (len(done) > 1, bool(undone))
    assert [each.revision for each in now.revisions] == list(range(1, len(now.revisions) + 1))


def test_a_text_over_the_limit_is_refused_with_the_limit_named():
    assert isinstance(written(INCIDENT, 1, "a" * LONGEST_BYTES, None), NoteRevision)
    refused = written(INCIDENT, 1, "가" * (LONGEST_BYTES // 3 + 1), None)
    assert isinstance(refused, Refusal)
    assert "64 kB" in refused.reason


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_text_is_no_note(text):
    assert isinstance(written(INCIDENT, 1, text, None), Refusal)


def test_only_a_run_has_instants_and_a_region_has_a_length():
    assert isinstance(written(Subject(SubjectKind.NODE, "a", 5), 1, "x", None), Refusal)
    assert isinstance(written(Subject(SubjectKind.RUN, "a", 5, 5), 1, "x", None), Refusal)
    assert isinstance(written(Subject(SubjectKind.RUN, "a", 5), 1, "x", None), NoteRevision)


def test_ids_in_a_text_are_found_and_those_in_addresses_are_not():
    text = 'See run:llama-3. @node:gpu-17, llama~3 and note-12 (1:9f3a2c1b7d4e, split-4), run:"my run"; http://x/note-3'
    text += " change:llama-3@4, config_change:llama-3@5. config:209de21c"
    assert named(text) == (
        (MentionKind.RUN, "llama-3"),
        (MentionKind.NODE, "gpu-17"),
        (MentionKind.INCIDENT, "llama~3"),
        (MentionKind.NOTE, "12"),
        (MentionKind.PROBLEM, "1:9f3a2c1b7d4e"),
        (MentionKind.PROBLEM, "split-4"),
        (MentionKind.RUN, "my run"),
        (MentionKind.CONFIG_CHANGE, "llama-3@4"),
        (MentionKind.CONFIG_CHANGE, "llama-3@5"),
        (MentionKind.CONFIG, "209de21c"),
    )


@given(st.text(max_size=300))
def test_whatever_is_written_what_it_names_lies_in_it(text):
    assert all(name in text for _, name in named(text))
