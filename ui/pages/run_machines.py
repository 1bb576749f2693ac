"""What the machines of a run said of which nobody told an attempt: else it would be seen nowhere on its page."""

from __future__ import annotations

from collections.abc import Sequence

from rerail.server.core.view import MachineWord, RunView
from rerail.server.core.xids import code_of, xid
from rerail.ui import text
from rerail.ui.address import node_path
from rerail.ui.elements import Head, badge, copy_table_button, folded, instant, link, panel
from rerail.ui.markup import Content, Markup, html


def machines_panel(view: RunView) -> Markup | None:
    """One row per statement, newest first; None where there is none."""
    if not view.machines_say:
        return None
    heads = (Head("when", "words"), Head("node", "words"), Head("what", "words"), Head("in words", "wide"),
             Head("told by", "words"))  # fmt: skip
    rows: list[Sequence[Content]] = [
        (instant(word.at), link(word.node, node_path(word.node)), _what(word), _words(word),
         text.teller(word.source) if word.source else text.DASH)
        for word in reversed(view.machines_say)
    ]  # fmt: skip
    return panel(
        "What its machines said",
        folded(heads, rows, "What its machines said, newest first"),
        "machines",
        lead="Of no incident, since nobody told of an attempt that it could have stopped.",
        actions=copy_table_button(),
        wide=True,
    )


def _what(word: MachineWord) -> Content:
    code = code_of(word.code)
    if code is not None:
        return badge(f"XID {code}", "warn")
    shown = text.NODE_STATES.get(word.code or "", word.code)
    is_bad = not word.source and word.code != "ready"
    return text.DASH if shown is None else badge(shown, "warn" if is_bad else "outline")


def _words(word: MachineWord) -> list[Content]:
    code = code_of(word.code)
    known = None if code is None else xid(code)
    said: list[Content] = [word.text or text.DASH]
    if known is not None and known.mnemonic:
        said.append(html.Div(known.meaning, className="under"))
    return said
