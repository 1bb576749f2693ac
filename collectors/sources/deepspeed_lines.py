"""DeepSpeed lines: which process is which local rank, as its launcher on a machine tells it.

Rules
- The launcher starts its processes in the order of their local ranks, and names them in that order when it ends them.
- `… '--local_rank=7', …] exits with return code = -9` holds the command of the process that was started last, whichever
  ended: it names nobody, except where there is one process.
"""

from __future__ import annotations

import re

SPAWNED = re.compile(r"\bprocess (?P<pid>\d{1,10}) spawned with command: \[.{0,4000}?'--local_rank=(?P<local>\d{1,4})'")
KILLING = re.compile(r"\bKilling subprocess (?P<pid>\d{1,10})\b")
ENDED_ALONE = re.compile(r"'--local_rank=0'.{0,4000}\] exits with return code = -?\d")
SIZE = re.compile(r"\bnnodes=(?P<nodes>\d{1,6}), num_local_procs=(?P<ranks>\d{1,4}), node_rank=(?P<place>\d{1,6})\b")
MOST_PROCESSES = 1024
