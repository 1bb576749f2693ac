"""The XID catalogue is NVIDIA's, and kernel lines are understood wherever they stand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.server.core.xids import (
    ACTIONS,
    LinkReport,
    Recovery,
    XidLine,
    code_of,
    known_codes,
    official_meaning,
    xid,
    xids_in,
)

TABLE = Path(__file__).parent.parent / "corpus" / "gpu" / "xid.tsv"


def test_the_catalogue_is_the_published_table_and_nothing_else():
    rows = list(csv.DictReader(TABLE.read_text().splitlines(), delimiter="\t"))
    assert known_codes() == tuple(int(row["xid"]) for row in rows)
    for row in rows:
        known = xid(int(row["xid"]))
        assert known.mnemonic == row["mnemonic"]
        assert known.meaning == row["nvidia_description"]
        assert (known.action or "") == row["nvidia_immediate_action"]
        assert (known.investigatory_action or "") == row["nvidia_investigatory_action"]
        assert (known.group, known.cause_class) == (row["group"], row["cause_class"])


def test_every_immediate_action_is_said_in_words():
    assert {xid(code).action for code in known_codes()} - {None} == set(ACTIONS)


def test_a_remapped_row_is_an_event_a_failed_remapping_a_failure_and_79_fell_off_the_bus():
    assert xid(63).says_nothing_failed and xid(63).action == "IGNORE"
    assert not xid(64).says_nothing_failed and xid(64).action == "RESET_GPU"
    assert "fallen off the bus" in xid(79).meaning and xid(79).action == "RESTART_BM"
    assert xid(45).is_consequence and not xid(79).is_consequence


def test_a_code_that_nobody_published_is_known_by_its_number_only():
    assert (xid(999).code, xid(999).mnemonic, xid(999).action) == (999, "", None)
    assert official_meaning("", "xid:999") == "XID 999 is not in the catalogue of this version."


@pytest.mark.parametrize(
    "before",
    ["", "[12345.678] ", "[Mon May 25 12:34:56 2026] ", "May 25 12:34:56 gpu-3 kernel: ", '{"MESSAGE":"'],
)
def test_a_kernel_line_is_understood_whatever_stands_before_it(before: str):
    line = "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    assert list(xids_in(before + line)) == [
        XidLine(79, "0000:91:00", None, None, "GPU has fallen off the bus.", None, None)
    ]


def test_process_and_text_are_told_apart():
    (line,) = xids_in("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked, reset gpu to activate.")
    assert (line.pid, line.process) == (1896, None)
    assert line.text == "Row Remapper: New row marked, reset gpu to activate."
    (line,) = xids_in("NVRM: Xid (0000:03:00): 43, pid=7, name=python3, Ch 00000008")
    assert (line.pci, line.pid, line.process, line.text) == ("0000:03:00", 7, "python3", "Ch 00000008")
    (line,) = xids_in("NVRM: Xid (PCI:0000:03:00): 62")
    assert (line.code, line.text) == (62, "")


def test_the_recovery_that_the_driver_recommends_is_decoded():
    text = "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1"
    (line,) = xids_in(text + " (GPU Reset Required)")
    assert line.recovery == Recovery("Drain and Reset", "GPU Reset Required")
    (line,) = xids_in(text)
    assert line.recovery == Recovery("Drain and Reset", "GPU Reset Required")
    assert "recommends: GPU Reset Required" in (official_meaning(text) or "")


def test_an_nvlink_report_names_unit_severity_link_and_what_happened():
    (line,) = xids_in(
        "NVRM: Xid (PCI:0018:01:00): 145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13 "
        "(0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)"
    )
    assert line.process == "ray::WorkerDict"
    assert line.link == LinkReport("RLW_RXPIPE", is_fatal=False, links=(13,), sub_code=0)
    (line,) = xids_in("NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)")
    assert line.link == LinkReport("NETIR_LINK_EVT", is_fatal=True, links=(8,), sub_code=4)
    (line,) = xids_in(
        "NVRM: Xid (PCI:0000:b9:00): 74, pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6(0x10000)"
    )
    assert line.link == LinkReport(None, is_fatal=True, links=(6,), sub_code=None)
    (line,) = xids_in("NVRM: Xid (PCI:0000:b9:00): 74, NVLink: something new")
    assert line.link is not None and line.link.is_fatal is None


def test_a_text_may_tell_of_several_and_each_is_explained_once():
    text = (
        "NVRM: Xid (PCI:0000:91:00): 48, pid=1, name=a, DBE\n"
        "NVRM: Xid (PCI:0000:91:00): 45, pid=1, name=a, Ch 1\nNVRM: Xid (PCI:0000:91:00): 45, pid=1, name=a, Ch 2\n"
    )
    assert [line.code for line in xids_in(text)] == [48, 45, 45]
    meaning = official_meaning(text)
    assert meaning is not None
    assert meaning.count("XID 45:") == 1 and "Double Bit ECC Error" in meaning


def test_a_code_beside_the_text_is_enough_and_nothing_is_made_up_of_other_codes():
    assert code_of("xid:79") == 79
    assert [code_of(code) for code in (None, "79", "xid:", "xid:x", "xid:-1", "xid:123456789")] == [None] * 6
    assert "reboot the node (RESTART_BM)" in (official_meaning("GPU 3 is gone", "xid:79") or "")
    assert official_meaning("a line of no interest", "exit") is None


@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str):
    list(xids_in("NVRM: Xid (PCI:0000:91:00): 154, " + text))
    list(xids_in("NVRM: Xid (PCI:0000:91:00): 74, " + text))
    official_meaning(text, text)
