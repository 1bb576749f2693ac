"""Words: how a text becomes what an index holds, the same for every database.

Rules
- A text is brought to one form (NFKC, without case and accents). A word is a run of letters and digits; everything
  else divides: `gpu_oom` is two words side by side, and looked for as such.
- Korean, Japanese and Chinese are written without dividing what one looks for from what is glued to it.
  So a run of their letters becomes overlapping pairs (`체크포인트를`: 체크 크포 포인 인트 트를 를), and what is looked
  for the same pairs side by side: it is found wherever it stands. The last letter stands alone too, so
  that a single one is found anywhere.
- Words are cut at `LONGEST`, in text and question alike.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 48

PAIRED = (
    "\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003fffd"
)
_RUNS = re.compile(f"([{PAIRED}]+)|([^\\W_{PAIRED}]+)")
_PAIRED = re.compile(f"[{PAIRED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")


def plain(text: str) -> str:
    """The one form of a text: compatible letters made equal, no case, no accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", apart)).casefold()


def words(text: str) -> list[str]:
    """Every word of a text in its order, as indexed."""
    found: list[str] = []
    for paired, word in _RUNS.findall(plain(text)):
        if word:
            found.append(word[:LONGEST])
        else:
            found += [paired[place : place + 2] for place in range(len(paired))]
    return found


def is_paired(word: str) -> bool:
    """Whether a word is of letters that are indexed in pairs."""
    return _PAIRED.match(word) is not None


def looked_for(text: str, *, may_go_on: bool) -> tuple[tuple[str, ...], bool]:
    """The words of a question's term side by side, and whether the last one may go on (`check` finds `checkpoint`).

    The last run of paired letters may end in the middle of one in the text, so its lone last letter is left out; those
    before it end where they end. A single letter is all there is to find, and goes on.
    """
    kept = words(text)
    runs = _RUNS.findall(plain(text))
    if runs and len(runs[-1][0]) > 1:
        kept.pop()
    if not kept:
        return (), False
    last = kept[-1]
    if is_paired(last):
        return tuple(kept), len(last) == 1
    return tuple(kept), may_go_on and len(last) > 1 and not last.isdecimal()
