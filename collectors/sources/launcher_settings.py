"""Launcher settings: which launcher started the workers, what release of it, how many, and how they recover.

Rules
- The launcher is named by its command line, or by the file that a line of its own comes from. The in-process wrapper
  speaks from a worker, and names none.
- Settings are those that say what an interruption costs, of the command line and of the block that a launcher prints.
- Where no flag says how many nodes there are, it is one, unless a rendezvous tells how many came.
"""

from __future__ import annotations

import ast
import re
import shlex

from rerail.collectors.masking import masked_arguments
from rerail.collectors.sources import nvrx_lines as nvrx
from rerail.collectors.sources import torchrun_lines as torchrun
from rerail.collectors.sources.attempt_state import AttemptState
from rerail.collectors.sources.log_lines import Line

ARGUMENT = re.compile(r"^--(?P<name>[\w-]+)(?:=(?P<value>.*))?$")
RECOVERY_ARGUMENTS = frozenset(
    {
        "max_restarts", "monitor_interval", "nnodes", "nproc_per_node", "rdzv_conf", "rdzv_backend",
        "workers_stop_timeout", "term_timeout", "restart_policy",
    }
)  # fmt: skip
BLOCK_NAMES = frozenset(
    {"max_restarts", "monitor_interval", "restart_policy", "min_nodes", "max_nodes", "nproc_per_node", "rdzv_backend"}
)


class LauncherSettings:
    """Learns what one log tells of its launcher, and keeps it in the state of its attempts."""

    def __init__(self, state: AttemptState) -> None:
        self._state = state

    def learn(self, line: Line) -> None:
        """Which launcher this is, and which release of it."""
        state = self._state
        if line.file in ("wrap.py", "monitor_thread.py", "InprocessRestarter"):
            return  # the in-process wrapper speaks from a worker: which launcher started that is not told
        if line.speaker in ("nvrx", "monitor"):
            state.launcher = "ft_launcher"
            family = nvrx.version(line.text, line.file)
            known = state.versions.get("nvidia-resiliency-ext", "")
            if family and family > known:
                state.versions["nvidia-resiliency-ext"] = family
        elif line.speaker == "torchrun" and state.launcher is None and "torch" in line.file:
            state.launcher = "torchrun"

    def arguments(self, command: str) -> None:
        """The command line of the launcher: which one it is, and its recovery settings."""
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        self.argument_words(tuple(words))

    def argument_words(self, words: tuple[str, ...]) -> None:
        """The same, already split."""
        state = self._state
        words = masked_arguments(words)
        whole = " ".join(words[:6])
        if "ft_launcher" in whole or "fault_tolerance.launcher" in whole:
            state.launcher = "ft_launcher"
        elif "torchrun" in whole or "torch.distributed" in whole:
            state.launcher = "torchrun"
        for place, word in enumerate(words):
            match = ARGUMENT.match(word)
            if match is None:
                continue
            name = match["name"].replace("-", "_")
            name = name.removeprefix("ft_param_").removeprefix("ft_") if name.startswith("ft_") else name
            if not (match["name"].startswith("ft") or name in RECOVERY_ARGUMENTS):
                continue
            value = match["value"]
            if value is None and place + 1 < len(words) and not words[place + 1].startswith("-"):
                value = words[place + 1]
            state.config[name] = _value(value)
        if state.launcher is not None and not {"nnodes", "max_nodes"} & state.config.keys():
            state.node_count = 1  # both launchers start one node where nobody says how many
        self._learn_size()

    def take(self, block: str, line: Line) -> bool:
        """A line of a block of settings (`config`: what the launcher was given; `result`: what its rendezvous came to);
        False for one that is none."""
        grammar = nvrx.CONFIG_LINE if block == "config" else torchrun.RESULT
        match = grammar.match(line.text if block == "result" else line.raw)
        if match is None:
            return False
        state, value = self._state, match["value"].strip()
        if block == "config":
            if match["name"] == "run_id":
                state.run = value[:200] or None
            elif match["name"] in BLOCK_NAMES:
                state.config[match["name"]] = _value(value)
            self._learn_size()
        elif value.isdigit() and len(value) < 9:
            if match["name"] == "group_rank":
                state.group_rank = int(value)
            elif match["name"] == "group_world_size":
                state.node_count = int(value)
        return True

    def _learn_size(self) -> None:
        state = self._state
        ranks = state.config.get("nproc_per_node")
        nodes = state.config.get("max_nodes", state.config.get("nnodes"))
        if isinstance(ranks, int) and not isinstance(ranks, bool):
            state.ranks_per_node = ranks
        if isinstance(nodes, int) and not isinstance(nodes, bool) and state.node_count is None:
            state.node_count = nodes


def _value(text: str | None) -> object:
    """A setting as JSON holds it."""
    if text is None:
        return True
    if text.lower() in ("none", "null"):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text[:500]
    if isinstance(value, str):
        return value[:500]
    if isinstance(value, (int, float)) and abs(value) < 1e15:
        return value
    return text[:500]
