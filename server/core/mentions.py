"""Mentions: lines that name an error without reporting one.

`loading "No space left on device" handler` holds the words of a full disk and tells of none. A line that only mentions
is informational: it stays in the fault trace and accuses nobody.

Rules
- Only free text can mention: what a traceback ended with, and what kernels, schedulers and launchers say, is a
  report.
- An error form (`Error:`, `errno`, `failed`, `cannot`, the phrase behind a colon) makes it a report, except where the
  line says that something is being set up for such errors, or that it goes on in spite of it.
- In doubt it is a report: a missed fault costs more than a doubtful piece of evidence.
"""

from __future__ import annotations

import re

SPOKEN = frozenset({"stderr", "stdout", "text", "log"})
"""Sources of free text."""

_FORM = re.compile(
    r"error\b|exception|errno|\bfatal|critical|\bfailed\b|failure|cannot|can't|could not|couldn't|unable|panic|abort"
    r"|\*\*\*|killed|terminate|dumped",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\bfailed\b|cannot|could not|couldn't|unable|Traceback|\b(?:ERROR|CRITICAL|FATAL)\b|giving up|exhausted|no more"
    r"|last attempt|\bafter \d{1,4} (?:retries|attempts|tries)"
)
_SETS_UP = re.compile(
    r"\b(?:load|regist|install|enabl|add|creat|initiali[sz]|set(?:ting)? up|us|attach|start|import)"
    r"(?:ed|ing|er|ering|ered|s|es|e)?\b[^\n]{0,80}",
    re.IGNORECASE,
)
_WHAT_IS_SET_UP = re.compile(
    r"\b(?:handlers?|handling|hooks?|callbacks?|detectors?|detection|checkers?|guards?|watchers?|polic(?:y|ies)|plugins?"
    r"|filters?|patterns?|rules?|simulators?|injectors?|tests?|retry logic|support|recovery)\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"(?:\b(?:if|when|whenever|in case of|e\.g\.|such as|avoids?|avoiding|prevents?|preventing|protects? against"
    r"|checks? for|checking for|tests? for|testing for|watch(?:es|ing)? for|look(?:s|ing)? for|handles?|handling"
    r"|catch(?:es|ing)?|retry on|retries on|retrying on|known issue|documented|see also)\b|\bhint:)[^\n]{0,60}$",
    re.IGNORECASE,
)
_WARNED = re.compile(r"^\S{1,400}:\d{1,7}: \w{0,60}Warning: ")
"""How Python prints a warning; its code goes on."""
_RAISED = re.compile(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Failure|Interrupt)(?::|$)")
_GOES_ON = re.compile(
    r"\b(?:retrying|will retry|will be retried|recovered|continuing|carrying on|ignoring|ignored|skipping|skipped"
    r"|falling back|non-?fatal|harmless)\b",
    re.IGNORECASE,
)


def is_mention(text: str, words: str) -> bool:
    """Whether a line of free text that holds `words` tells of no fault of now."""
    text = text[:4000]
    at = text.find(words[:200])
    if at < 0:
        return False
    before, behind = text[:at], text[at : at + 200]
    if _WARNED.match(text):
        return True
    if _FAILED.search(text) or _RAISED.match(text):
        return False
    if _GOES_ON.search(text):
        return True
    if _SETS_UP.search(before) and (_WHAT_IS_SET_UP.search(behind) or _WHAT_IS_SET_UP.search(before)):
        return True
    if _FORM.search(before) or _FORM.search(behind) or before.rstrip().endswith((":", "=", "]", "-")):
        return False
    return _SUPPOSES.search(before) is not None
