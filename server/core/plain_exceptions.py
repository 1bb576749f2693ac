"""Plain exceptions: whose message only mentions what another cause would say.

`AttributeError: 'NoneType' object has no attribute 'preempted'` tells of no preemption. The last line of a traceback
whose type is one of the language's own is an exception of the program, unless its words are how a library raises that
cause.

Rules
- Of types that only a program's mistake raises (`MISTAKES`) a message tells of another cause where it begins with its
  words, as torch's loader begins its own (`TypeError: Caught TypeError in DataLoader worker process 0.`), and nowhere
  else.
- Of types that people raise by hand (`RAISED_BY_HAND`) words in quotes or in a parenthesis that refers to something are
  a mention, other words are what they say.
- Every other type (`RuntimeError`, `OSError`, what libraries define) says what it says.
- Only the last line counts: a traceback that began with another exception tells of that one.
"""

from __future__ import annotations

import re

from rerail.server.core.naming import exception_in

MISTAKES = frozenset(
    {"AttributeError", "TypeError", "KeyError", "NameError", "UnboundLocalError", "IndexError", "ZeroDivisionError",
     "NotImplementedError", "LookupError", "SyntaxError", "IndentationError"}
)  # fmt: skip
RAISED_BY_HAND = frozenset({"AssertionError", "ValueError"})

_QUOTED = re.compile(r"""(?<!\w)'[^'\n]{1,400}'(?!\w)|"[^"\n]{1,400}"|`[^`\n]{1,400}`""")
_REFERRED = re.compile(r"\((?:see|cf\.?|e\.g\.|i\.e\.|such as|like|refer|docs?\b)[^()\n]{0,400}\)", re.IGNORECASE)


def only_mentions(text: str, code: str | None, words: str) -> bool:
    """Whether the words of another cause stand in a plain exception's message without being what it tells of.

    `words` is what was found in `text`; `code` the exception's type where a reader has seen the whole traceback.
    """
    named = exception_in(text, code) if words else None
    if named is None or named.full_type not in MISTAKES | RAISED_BY_HAND:
        return False
    at = text.rfind(named.message) if named.message else -1
    found = text.rfind(words)
    if at < 0 or found < at or found + len(words) > at + len(named.message):
        return False
    begin, end = found - at, found - at + len(words)
    if named.full_type in MISTAKES:
        return begin > 0 or named.message[:1] in "'\"`"
    spans = [*_QUOTED.finditer(named.message), *_REFERRED.finditer(named.message)]
    return any(span.start() <= begin and end <= span.end() for span in spans)
