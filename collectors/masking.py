"""Masking: text without the secrets that logs and command lines carry.

Rules
- Masking happens where text is first taken, before it lies on any disk of ours.
- A masked value keeps its name, so that a reader still sees which setting it was.
- It errs on the side of masking: a word lost from a log line is cheaper than a key in a database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rerail.collectors.patience import OutOfPatienceError, Patience

MASK = "***"
LONGEST_TEXT = 16_384
SLICE_BYTES = 1 << 20
LONGEST_PIECE = 12_000
"""Of a file, masked at once; masking may make a text longer."""

_SECRET_WORD = (
    r"(?:api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|account[_-]?key|shared[_-]?key|secret|token(?!s(?![a-z])|iz)|passw(?:or)?d"
    r"|passphrase|credential|connection[_-]?string|webhook|session[_-]?id)"
)
"""`tokens` are counted and a `tokenizer` is named: neither is a secret."""
TERMINAL_SEQUENCE = r"\x1b\[[0-9;:?]{0,32}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"
"""What colours a terminal, and what links or titles it."""

_SEQUENCE = re.compile(TERMINAL_SEQUENCE)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.{0,16384}?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
"""A key block; one whose end is cut off is masked to the end of the text."""

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
PIECES_OF_A_KEY = 2
"""A key whose end does not come within so many pieces was never closed."""

_SECRET_SIGNS = ("key", "secret", "token", "passw", "passphrase", "credential", "connection", "webhook", "session")
_OTHER_SIGNS = (
    "비밀번호",
    "비번",
    "패스워드",
    "암호",
    "토큰",
    "인증키",
    "인증 키",
    "비밀키",
    "비밀 키",
    "접근키",
    "접근 키",
    "密码",
    "口令",
    "令牌",
    "パスワード",
    "トークン",
    "contraseña",
    "mot de passe",
    "пароль",
    "passwort",
    "kennwort",
    "senha",
)
"""Password, token and key, as people write them who do not write English."""
_VENDOR_SIGNS = (
    "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "rk_live_", "xoxa-",
    "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "nvapi-", "npm_", "pypi-", "dapi", "wandb_v1_", "local-", "r8_",
    "gsk_",
)  # fmt: skip

_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (("://",), re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^/\s:@]{0,200}:[^/\s@]{1,500}@", re.I), rf"\1{MASK}@"),
    (("://",), re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://)[^/\s:@]{16,500}@", re.I), rf"\1{MASK}@"),
    (("pw=", "pw:", "pw =", "pw :"), re.compile(r"(\bpw['\"]?\s?[=:]\s?['\"]?)[^\s'\"&,;})]{3,}", re.I), rf"\1{MASK}"),
    (("docker",), re.compile(r"(\bdocker\s+login\b[^\n]{0,500}?\s-p\s*)\S+"), rf"\1{MASK}"),
    (
        ("authorization",),
        re.compile(r"(\bAuthorization['\"]?\s*[:=]\s*['\"]?)(?:(Bearer|Basic|Token)\s+)?[^\s'\",]+", re.I),
        rf"\1{MASK}",
    ),
    (("cookie",), re.compile(r"(\b(?:Set-)?Cookie['\"]?\s*[:=]\s*['\"]?)[^\n'\"]+", re.I), rf"\1{MASK}"),
    (("sig",), re.compile(r"(\bsig(?:nature)?=)(?=[\w%+/=.~-]{16})[\w%+/=.~-]+", re.I), rf"\1{MASK}"),
    (("bearer",), re.compile(r"(\bBearer\s+)[\w.~+/=-]{8,}", re.I), rf"\1{MASK}"),
    (
        _SECRET_SIGNS,
        re.compile(
            rf"({_SECRET_WORD}[\w.-]{{0,40}}\\{{0,3}}['\"]?\]?\s*[=:]\s*\\{{0,3}}['\"]?)[^\s'\"&,;}})\\]+", re.I
        ),
        rf"\1{MASK}",
    ),
    (
        ("_pass", "-pass"),
        re.compile(r"([a-z0-9][_-]pass['\"]?\s*[=:]\s*['\"]?)(?![\d.]+(?:\s|,|$|[a-z]{1,2}\b))[^\s'\"&,;})]+", re.I),
        rf"\1{MASK}",
    ),
    (_SECRET_SIGNS, re.compile(rf"(--[\w-]{{0,40}}{_SECRET_WORD}[\w-]{{0,40}}\s+)[^\s-]\S*", re.I), rf"\1{MASK}"),
    (
        ("?", "&"),
        re.compile(r"([?&](?:sig|signature|x-amz-[\w-]{1,60}|x-goog-[\w-]{1,60}|key|sas|code|auth)=)[^&\s]+", re.I),
        rf"\1{MASK}",
    ),
    (("akia", "asia", "aroa", "aida"), re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b"), MASK),
    (("aiza",), re.compile(r"\bAIza[\w-]{30,60}"), MASK),
    (("ya29.",), re.compile(r"\bya29\.[\w.-]{16,}"), MASK),
    (
        ("accountkey=", "sharedaccess"),
        re.compile(r"((?:AccountKey|SharedAccessSignature|SharedAccessKey)=)[^;\s]+", re.I),
        rf"\1{MASK}",
    ),
    (_VENDOR_SIGNS, re.compile(rf"\b(?:{'|'.join(_VENDOR_SIGNS)})[\w-]{{16,}}"), MASK),
    (
        ("curl",),
        re.compile(r"(\bcurl\b[^\n]{0,500}?\s(?:-u\s*|--(?:proxy-)?user[ =])['\"]?[^\s:'\"]{1,200}:)[^\s'\"]+", re.I),
        rf"\1{MASK}",
    ),
    (
        ("mysql", "mariadb"),
        re.compile(r"(\b(?:mysql|mariadb)[\w-]{0,20}\b[^\n]{0,500}?\s-p)[^\s-]\S*", re.I),
        rf"\1{MASK}",
    ),
    (("sshpass",), re.compile(r"(\bsshpass\s+-p\s*)\S+"), rf"\1{MASK}"),
    (("redis-cli",), re.compile(r"(\bredis-cli\b[^\n]{0,500}?\s-a\s+)\S+"), rf"\1{MASK}"),
    (
        _OTHER_SIGNS,
        re.compile(rf"((?:{'|'.join(_OTHER_SIGNS)})['\"]?\s{{0,20}}[:=：]\s{{0,20}}['\"]?)[^\s'\"&,;}})]+", re.I),
        rf"\1{MASK}",
    ),
    (("hooks.slack",), re.compile(r"(https://hooks\.slack\.com/services/)[\w/-]{8,}", re.I), rf"\1{MASK}"),
    (("wandb",), re.compile(r"((?:wandb|WANDB)[^\n]{0,60}?)\b[0-9a-f]{40}\b"), rf"\1{MASK}"),
    (("eyj",), re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"), MASK),
)
"""What a text has in it, in small letters, if the pattern may match at all; the pattern; what takes its place."""


def without_colours(text: str) -> str:
    """The text without the sequences that colour a terminal."""
    return _SEQUENCE.sub("", text) if "\x1b" in text else text


def _without_secrets(text: str) -> str:
    """A text of bounded length without secrets."""
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    lowered = text.lower()
    for signs, pattern, replacement in _RULES:
        if any(sign in lowered for sign in signs):
            text = pattern.sub(replacement, text)
    return text


def masked(text: str) -> str:
    """The text without secrets and without control characters, at most 16,384 characters long."""
    text, is_cut = text[:LONGEST_TEXT], len(text) > LONGEST_TEXT  # before the patterns see it: text may be endless
    text = without_colours(text)  # they would part a key from what stands before it
    text = _without_secrets(text)
    if not text.isprintable():
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


def masked_writing(text: str) -> str:
    """What a person wrote, without secrets: nothing else of it changes, and nothing is cut off."""
    return "".join(map(_without_secrets, _without_rests_of_keys(_pieces(text))))


def masked_bytes(content: bytes, patience: Patience | None = None) -> bytes:
    """A whole file in UTF-8 without secrets and without control characters, nothing of it cut off.

    What of it is no text becomes a letter that says so. Raises OutOfPatienceError: a file of which a part is masked is
    of no use to anybody.
    """
    found = bytearray()
    for piece in _without_rests_of_keys(piece for text in _slices(content) for piece in _pieces(text)):
        if patience is not None and patience.is_over(now=True):
            raise OutOfPatienceError(f"its secrets could not be masked within {patience.seconds or 0:g} s")
        found += masked(piece).encode()
    return bytes(found)


def _slices(content: bytes) -> Iterator[str]:
    """A file as texts of about a megabyte, of whole lines where they are not longer."""
    at = 0
    while at < len(content):
        end = content.rfind(b"\n", at, at + SLICE_BYTES) + 1
        if not end:
            end = min(at + SLICE_BYTES, len(content))
            for _ in range(3):  # A letter has at most three bytes behind its first.
                end -= end < len(content) and content[end] & 0xC0 == 0x80
        yield content[at:end].decode("utf-8", "replace")
        at = end


def _without_rests_of_keys(pieces: Iterable[str]) -> Iterator[str]:
    """Pieces of a text without what in them belongs to a private key that began in the one before."""
    is_open_for = 0
    for piece in pieces:
        if is_open_for:
            end = _KEY_END.search(piece)
            is_open_for = 0 if end else is_open_for - 1
            piece = MASK + (piece[end.end() :] if end else "\n")
        if "PRIVATE KEY" in piece:
            begins = [found.start() for found in _KEY_BEGIN.finditer(piece)]
            ends = [found.start() for found in _KEY_END.finditer(piece)]
            if begins and begins[-1] > max(ends, default=-1):
                is_open_for = PIECES_OF_A_KEY
        yield piece


def _pieces(text: str) -> list[str]:
    """A text in parts of at most `LONGEST_PIECE` characters, whole lines where they are not longer."""
    pieces: list[str] = []
    piece = ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > LONGEST_PIECE:
            pieces.append(piece)
            piece = ""
        if len(line) <= LONGEST_PIECE:
            piece += line
            continue
        last = (len(line) - 1) // LONGEST_PIECE * LONGEST_PIECE
        pieces += (line[at : at + LONGEST_PIECE] for at in range(0, last, LONGEST_PIECE))
        piece = line[last:]
    return [*pieces, piece]
