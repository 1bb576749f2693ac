"""The help of one import format: its options and no others, an example, what it tells and what it cannot tell."""

from __future__ import annotations

import argparse

from rerail.collectors.formats import ImportFormat, formats

FACTS = ImportFormat(
    name="facts",
    summary="facts, one JSON object a line (docs/facts.md)",
    read=lambda _: iter(()),
    example="facts.jsonl.gz",
    tells="whatever they state, under the identity that they carry",
    cannot_tell="anything about a line that is refused, which is named with its field, its value and why",
)
OWN_OPTIONS = frozenset({"--zone", "--node", "--still-running"})
"""Options that not every format heeds."""


def help_of(name: str, parser: argparse.ArgumentParser) -> str:
    """The help of a format; `parser` is that of the whole command, whose options it is made of. Raises KeyError,
    which says what there is.
    """
    known = {FACTS.name: FACTS, **formats()}
    if name not in known:
        raise KeyError(f"no format is named {name!r}: {', '.join(known)}; a launcher's log is `logs`")
    chosen = known[name]
    left_out = OWN_OPTIONS - chosen.options
    own = argparse.ArgumentParser(
        prog=f"{parser.prog} {name}",
        description=f"Reads {chosen.summary}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            (
                "for example:",
                f"  {parser.prog} {name} {chosen.example}",
                f"  {parser.prog} {name} {chosen.example} --stdout     # to look at it first",
                "",
                f"tells: {chosen.tells}.",
                f"cannot tell: {chosen.cannot_tell}.",
            )
        ),
    )
    for action in parser._actions:
        if action.dest in ("format", "help") or left_out.intersection(action.option_strings):
            continue
        own._add_action(action)
    return own.format_help()
