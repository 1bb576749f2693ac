"""What would let a blind source see again, by the words that sources use."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.server.core.sight import how_to_mend

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ("slurm sacct", "sacct is not installed here", "management node"),
        ("slurm", "sacct failed with 1: sacct: error: Sending PersistInit msg: Connection refused", "scontrol ping"),
        ("kubernetes nodes", "403 Forbidden: nodes is forbidden", "service account"),
        ("kubernetes jobs", "/apis/batch/v1/namespaces/t/jobs: 404 not found", "api-resources"),
        ("kubernetes pods", "/api/v1/pods: 404 not found", "something answers"),
        ("kubernetes prod", "https://10.0.0.1:6443: timed out", "can be reached"),
        ("prometheus", "http://prometheus:9090: 401 Unauthorized", "token"),
        ("prometheus samples", "the server has no samples of any target", "targets"),
        ("kernel", "/dev/kmsg: Operation not permitted", "CAP_SYSLOG"),
        ("kernel of n1 stamps", "no date stands before 'NVRM: Xid'", "dmesg -T"),
        ("launcher /logs/train.log", "/logs/train.log: No such file or directory", "under which this node sees"),
        ("recorder of rank 3 (pid 12)", "No space left on device", "RERAIL_DIR"),
        ("agent", "the disk under the spool was full", "make room"),
    ],
)
def test_a_reason_that_is_known_comes_with_what_mends_it(source: str, reason: str, words: str):
    told = how_to_mend(source, reason)
    assert told is not None
    assert words in told[0] and (DOCS / told[1]).is_file()


@pytest.mark.parametrize(("source", "reason"), [("storage probe /x", "stale"), ("launcher /a.log", "is odd")])
def test_nothing_is_guessed_for_what_is_not_known(source: str, reason: str):
    assert how_to_mend(source, reason) is None
