"""Words: how a text becomes what an index holds, the same for every database.

Rules
- A text is brought to one form (NFKC, without case and accents). A word is a run of letters and digits; everything
  else divides: `gpu_oom` is two words side by side, and looked for as such.
- Korean, Japanese and Chinese are written without dividing what one looks for from what is glued to it.
  So a run of their letters becomes overlapping pairs (`체크포인트를`: 체크 크포 포인 인트 트를 를), and what is looked
  for the same pairs side by side: it is found wherever it stands. The last letter stands alone too, so
  that a single one is found anywhere.
- Words are cut at `LONGEST`, in text and question alike.
- An index holds words as they were written; the question is asked in other forms too (`other_forms`), so that
  every document is found by them, whenever it was indexed. What stands between quotation marks has none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from rerail.server.core.search.synonyms import synonyms

LONGEST = 48

PAIRED = (
    "\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003fffd"
)
_RUNS = re.compile(f"([{PAIRED}]+)|([^\\W_{PAIRED}]+)")
_PAIRED = re.compile(f"[{PAIRED}]")
_ACCENTS = re.compile("[\u0300-\u036f]")
_HANGUL = re.compile("[\uac00-\ud7a3]+")
_LATIN = re.compile("[a-z]+")
_HYPHENED = re.compile(r"[^\W_]+(?:[-_\u2010\u2011][^\W_]+){1,2}")
_PARTICLES = ("에서", "으로", "들이", "들을", "을", "를", "이", "가", "은", "는", "에", "의", "로", "와", "과", "들")
"""What is glued to a Korean noun. 도 is not among them: 재시도 (a retry) is a word."""

LONGEST_APART = 20
"""Longer words are not looked for in two halves."""


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


def other_forms(text: str, *, is_apart: bool) -> tuple[str, ...]:
    """What means the same as a question's term, as it might have been typed instead; the term itself is not among it.

    The singular of a plural (`timeouts`: timeout) and a Korean noun without its particle; of what a hyphen joins, one
    word (`time-out`: timeout); with `is_apart` of one word its two halves side by side (`timeout`: time out), wherever
    they may be: halves that are no words are in no text. Of all these the names that the other language has
    (`synonyms.py`).
    """
    told = plain(text)
    runs = [paired or word for paired, word in _RUNS.findall(told)]
    if not runs:
        return ()
    forms = [" ".join((*runs[:-1], stem)) for stem in _stems(runs[-1])]
    if _HYPHENED.fullmatch(told) and len({_kind(run) for run in runs}) == 1 and _kind(runs[0]):
        joined = "".join(runs)
        if all(len(run) > 1 for run in runs) and len(joined) > 3:
            forms += [joined, *_stems(joined)]
    others = [name for form in (" ".join(runs), *forms) for name in synonyms(form)]
    if is_apart and len(runs) == 1:
        forms += _apart(min((runs[0], *_stems(runs[0])), key=len))
    return tuple(dict.fromkeys([*forms, *others]))


def _kind(run: str) -> str | None:
    """Whether a run is a word of Latin letters or of Korean ones; None where it is neither."""
    return "latin" if _LATIN.fullmatch(run) else "hangul" if _HANGUL.fullmatch(run) else None


def _stems(run: str) -> Iterator[str]:
    if _HANGUL.fullmatch(run):
        particle = next((each for each in _PARTICLES if run.endswith(each)), "")
        if particle and len(run) - len(particle) > 1:
            yield run.removesuffix(particle)
    elif _LATIN.fullmatch(run) and len(run) > 3:
        if run.endswith("ies") and len(run) > 4:
            yield run[:-3] + "y"
        elif run.endswith(("sses", "xes", "zes", "ches", "shes")):
            yield run[:-2]
        elif (run.endswith("s") and not run.endswith(("ss", "is", "us", "as"))) or run.endswith("pus"):
            yield run[:-1]
        elif run.endswith("y") and run[-2] not in "aeiou":
            yield run[:-1] + "ies"


def _apart(run: str) -> Iterator[str]:
    if len(run) > LONGEST_APART:
        return
    least = {"latin": 3, "hangul": 2}.get(_kind(run) or "")
    if least is not None:
        yield from (f"{run[:place]} {run[place:]}" for place in range(least, len(run) - 1))
