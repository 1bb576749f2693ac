"""What fuzzing found (`tests/fuzz/parsers.py`), each as the least that still broke a promise."""

from __future__ import annotations

import pytest

from tests.fuzz.parsers import TARGETS, held_to_time, seeds

FOUND = [
    (
        "log",  # a stamp of the launcher's clock that is no time of day told the zone
        b"2026-11-29 12:75:13,731 [INFO] [vm] [workload:?(?) infra:?(?)] profiling.py:93   - Cycle: 1 Event: "
        b"failure_detected Node: localhost_1_0 Rank: 0 Time: 2026-11-29 12:05:13.731 UTC\n",
    ),
    (
        "log",  # a load that ends before the moment at which it is taken to have begun
        b"[2026-11-03 10:06:00,000] [INFO] [comm.py:683:init_distributed] Initializing TorchBackend in DeepSpeed with "
        b"backend nccl\n[5853-11-03 10:05:40,000] [INFO] [engine.py:27:load] [Torch] Loading checkpoint from "
        b"/ckpt/global_step20/mp_rank_00_model_states.pt...\n[2026-11-03 10:05:50,000] [INFO] [engine.py:29:load] "
        b"[Torch] Loaded checkpoint from /ckpt/global_step20/mp_rank_00_model_states.pt.\n",
    ),
    (
        "scheduler",  # a NUL in the name of a node
        b"NodeName=n1 Arc\x00h FreeMem=12038\n   State=DOWN\n   Reason=Not responding [root@2026-11-29T12:17:46]\n\n",
    ),
]


@pytest.mark.parametrize(("parser", "content"), FOUND)
def test_what_once_broke_a_parser_does_not_any_more(parser: str, content: bytes) -> None:
    held_to_time(TARGETS[parser][0], content)


@pytest.mark.parametrize("parser", TARGETS)
def test_every_parser_has_something_to_vary(parser: str) -> None:
    read, patterns = TARGETS[parser]
    pieces = list(seeds(patterns))
    assert len(pieces) > 3
    for piece in pieces[:: max(1, len(pieces) // 10)]:
        held_to_time(read, piece)
