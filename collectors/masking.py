"""Masking: text without the secrets that logs and command lines carry.

Rules
- Masking happens where text is first taken, before it lies on any disk of ours.
- A masked value keeps its name, so that a reader still sees which setting it was.
- It errs on the side of masking: a word lost from a log line is cheaper than a key in a database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
LONGEST_TEXT = 16_384

_SECRET_WORD = (
    r"(?:api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|secret|token|passw(?:or)?d|passphrase|credential)"
)

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^/\s:@]{0,200}:[^/\s@]{1,500}@", re.I), rf"\1{MASK}@"),
    (re.compile(r"(\bAuthorization['\"]?\s*[:=]\s*['\"]?)(?:(Bearer|Basic|Token)\s+)?[^\s'\",]+", re.I), rf"\1{MASK}"),
    (re.compile(r"(\bBearer\s+)[\w.~+/=-]{8,}", re.I), rf"\1{MASK}"),
    (
        re.compile(rf"([\w.-]{{0,40}}{_SECRET_WORD}[\w.-]{{0,40}}['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;}})]+", re.I),
        rf"\1{MASK}",
    ),
    (re.compile(rf"(--[\w-]{{0,40}}{_SECRET_WORD}[\w-]{{0,40}}\s+)[^\s-]\S*", re.I), rf"\1{MASK}"),
    (re.compile(r"([?&](?:sig|signature|x-amz-[\w-]+|key|sas)=)[^&\s]+", re.I), rf"\1{MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), MASK),
    (re.compile(r"\b(?:hf_|ghp_|gho_|ghs_|github_pat_|glpat-|sk-|xox[abp]-|nvapi-)[\w-]{16,}"), MASK),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"), MASK),
)


def masked(text: str) -> str:
    """The text without secrets and without control characters, at most 16,384 characters long."""
    text, is_cut = text[:LONGEST_TEXT], len(text) > LONGEST_TEXT  # before the patterns see it: text may be endless
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)
    return text if not is_cut and len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def masked_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """A command line without secrets, also where a flag and its value are two words."""
    words: list[str] = []
    for word in arguments:
        if words and re.fullmatch(rf"--[\w-]*{_SECRET_WORD}[\w-]*", words[-1], re.I) and not word.startswith("-"):
            words.append(MASK)
        else:
            words.append(masked(word))
    return tuple(words)
