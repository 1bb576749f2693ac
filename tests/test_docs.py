"""The documents name what the code has: no more and no less."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from rerail.collectors.formats import formats
from rerail.collectors.live_sources import live_sources
from rerail.server import query_problem_results
from rerail.server.cli import FORMATS, main
from rerail.server.core.alert_life import Change
from rerail.server.core.alerts import rules as alert_rules
from rerail.server.core.causes import rules
from rerail.server.core.codec import common_fields, wire_fields
from rerail.server.core.definitions import Measured, definitions
from rerail.server.core.facts import FACT_TYPES, Phase
from rerail.server.core.problems import ActionKind
from rerail.server.core.report import definition_figures, figures
from rerail.server.query_nodes import SORTS as NODE_SORTS
from rerail.server.query_problems import SORTS as PROBLEM_SORTS
from tests.story import Story

DOCS = Path(__file__).parent.parent / "docs"


def rows(page: str) -> dict[str, str]:
    """First cell to second cell of every table row of a page."""
    cells = re.findall(r"^\| (.+?) \| (.+?) \|", (DOCS / page).read_text(), flags=re.MULTILINE)
    return {first: second for first, second in cells if not set(first) <= {"-"}}


def test_the_page_on_facts_lists_every_kind_with_its_fields():
    table = rows("facts.md")
    for kind in FACT_TYPES:
        assert f"`{kind}`" in table, kind
        named = set(re.findall(r"\w+", table[f"`{kind}`"]))
        assert set(wire_fields(kind)) <= named, f"{kind}: {set(wire_fields(kind)) - named}"
    named = set(re.findall(r"\w+", " ".join(table)))
    assert set(common_fields()) <= named


def test_the_page_on_facts_names_every_figure():
    names = set(re.findall(r"\w+", (DOCS / "facts.md").read_text()))
    assert set(figures(Story().start().steps(1, 5).view())) <= names


def test_the_page_on_accounting_names_every_phase():
    text = (DOCS / "accounting.md").read_text()
    assert [phase for phase in Phase if f"`{phase.value}`" not in text] == []


def test_the_page_on_causes_names_every_rule():
    text = (DOCS / "adding_a_cause.md").read_text()
    assert [name for name in rules() if f"`{name}`" not in text] == []


def test_the_pages_name_every_definition_every_format_and_every_detail():
    text = (DOCS / "adding_a_definition.md").read_text()
    assert [name for name in definitions() if f"`{name}`" not in text] == []
    text = (DOCS / "facts.md").read_text()
    assert [name for name in formats() if f"`{name}`" not in text] == []
    view = Story().start().steps(1, 5).view()
    shown = definition_figures(definitions()["rerail"], Measured(difference="None."), view.account)
    names = set(re.findall(r"\w+", text))
    assert set(shown) | set(shown["definition_details"]) <= names


def test_no_document_points_to_a_file_that_is_not_there():
    root = DOCS.parent
    for page in [*DOCS.rglob("*.md"), root / "README.md", root / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_the_page_on_reading_names_every_field_of_problems_and_nodes_and_every_action():
    text = (DOCS / "reading.md").read_text()
    named = set(re.findall(r"\w+", text))
    results = [each for each in vars(query_problem_results).values() if is_dataclass(each)]
    for result in results:
        for entry in fields(result):
            shown = re.sub(r"_ns$", "_seconds", re.sub(r"_gpu_ns$", "_gpu_hours", entry.name))
            assert shown in named, f"{result.__name__}.{entry.name}"
    assert [kind.value for kind in ActionKind if f"`{kind.value}`" not in text] == []
    assert [name for name in (*PROBLEM_SORTS, *NODE_SORTS) if f"`{name}`" not in text] == []


def test_the_page_on_alerts_names_every_rule_every_action_and_every_metric():
    text = (DOCS / "alerts.md").read_text()
    assert [name for name in alert_rules() if f"`{name}`" not in text] == []
    assert [each.value for each in Change if f"`{each.value}`" not in text] == []
    metrics = set(re.findall(r'"(rerail_[a-z_]+)"', (DOCS.parent / "server/api/metrics.py").read_text()))
    assert [name for name in metrics if f"`{name}`" not in text] == []


def test_the_readme_or_a_page_names_every_source_that_can_be_collected():
    pages = "\n".join(page.read_text() for page in [DOCS.parent / "README.md", *DOCS.glob("*.md")])
    assert [name for name in live_sources() if f"rerail collect {name}" not in pages] == []


def test_the_help_of_import_names_every_format():
    assert tuple(sorted(formats())) == FORMATS


def test_each_import_format_has_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Its options and no others, an example, what it tells and what it cannot tell."""
    for name in ("facts", *FORMATS):
        with pytest.raises(SystemExit) as ended:
            main(["import", name, "--help"])
        told = capsys.readouterr().out
        assert ended.value.code == 0
        assert f"rerail import {name} " in told.partition("for example:")[2], name
        assert re.search(r"^tells: \S.*\.$", told, re.MULTILINE) and re.search(r"^cannot tell: \S", told, re.MULTILINE)
        assert ("--zone" in told, "--still-running" in told) == (name in ("kernel", "logs"), name == "logs")
    with pytest.raises(SystemExit) as ended:
        main(["import", "nonsense", "--help"])
    assert (ended.value.code, "no format is named 'nonsense'" in capsys.readouterr().err) == (2, True)
