"""Pattern words: text that a line must hold before a pattern can match it.

Searching a few words is a hundred times cheaper than a pattern with many branches that ignores case, and almost no
line holds any. Words are found by reading the pattern; where a branch has none, the answer is None and the pattern must
be tried. Lower case throughout.

The patterns are those of this project's own tables: literals, classes, groups, bounded repetition. Anything else makes
a branch without words, which is always right.
"""

from __future__ import annotations

SHORTEST = 3
_ZERO_WIDTH = "bBAZ"
_CLASSES = "dDwWsS"


def words_of(pattern: str) -> frozenset[str] | None:
    """Words of which every match holds at least one; None where no such words are known."""
    found, end = _branches(pattern, 0)
    return found if end == len(pattern) else None


def _branches(pattern: str, at: int) -> tuple[frozenset[str] | None, int]:
    """The words of branches up to the end of their group."""
    found: set[str] | None = set()
    while True:
        words, at = _sequence(pattern, at)
        if words is None:
            found = None
        elif found is not None:
            found |= words
        if at >= len(pattern) or pattern[at] != "|":
            return (None if found is None else frozenset(found)), at
        at += 1


def _sequence(pattern: str, at: int) -> tuple[frozenset[str] | None, int]:
    """The best words of one branch."""
    candidates: list[frozenset[str]] = []
    run = ""
    while at < len(pattern) and pattern[at] not in "|)":
        letter = pattern[at]
        group: frozenset[str] | None = None
        literal = ""
        is_breaking = True
        if letter == "\\":
            following = pattern[at + 1]
            at += 2
            if following in _ZERO_WIDTH:
                continue
            literal = "" if following in _CLASSES or following.isdigit() else following
        elif letter == "[":
            at = _class_end(pattern, at)
        elif letter == "(":
            group, at, is_ahead = _group(pattern, at)
            if is_ahead:
                continue
        elif letter in "^$":
            at += 1
            continue
        elif letter == ".":
            at += 1
        else:
            literal = letter
            at += 1
        is_optional, repeats, at = _repetition(pattern, at)
        if literal and not is_optional:
            run += literal
            is_breaking = repeats
        elif group is not None and not is_optional:
            candidates.append(group)
        if is_breaking:
            _keep(candidates, run)
            run = ""
    _keep(candidates, run)
    return max(candidates, key=lambda words: min(map(len, words)), default=None), at


def _keep(candidates: list[frozenset[str]], run: str) -> None:
    if len(run) >= SHORTEST:
        candidates.append(frozenset({run.lower()}))


def _class_end(pattern: str, at: int) -> int:
    at += 2 if pattern[at + 1] == "^" else 1
    at += 1  # a bracket in the first place is itself
    while pattern[at - 1] == "\\" or pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _group(pattern: str, at: int) -> tuple[frozenset[str] | None, int, bool]:
    """The words of a group, where it ends, and whether it only looks ahead or back."""
    at += 1
    is_ahead = False
    if pattern.startswith("?P<", at):
        at = pattern.index(">", at) + 1
    elif pattern.startswith("?:", at):
        at += 2
    elif pattern.startswith(("?!", "?=", "?<"), at):
        is_ahead = True
        at += 3 if pattern[at + 1] == "<" else 2
    words, end = _branches(pattern, at)
    return words, end + 1, is_ahead


def _repetition(pattern: str, at: int) -> tuple[bool, bool, int]:
    """Whether what stands before may be left out, whether it may come again, and where the repetition ends."""
    if at >= len(pattern):
        return False, False, at
    if pattern[at] in "?*+":
        optional, end = pattern[at] != "+", at + 1
    elif pattern[at] == "{":
        end = pattern.index("}", at) + 1
        optional = pattern[at + 1] == "0"
    else:
        return False, False, at
    return optional, True, end + (end < len(pattern) and pattern[end] in "?+")
