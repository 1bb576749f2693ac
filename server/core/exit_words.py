"""Exit words: how launchers other than torchrun say with which code a process ended, as patterns.

| who | what is printed |
|---|---|
| Composer | `Global rank 5 (PID 123) exited with code -9`, before 0.15 `Rank 5 crashed with exit code -9.` |
| Hydra (MPICH, Intel MPI) | `=   EXIT CODE: 9`, in a box, without the rank |
| a training operator of Kubernetes | `Pod: kubeflow.llm-worker-0 exited with code 1` |
| a shell | `run.sh: line 28:  8156 Killed   python3 train.py` |
| `torch.multiprocessing.spawn` | `process 1 terminated with signal SIGSEGV` |
"""

from __future__ import annotations

TOOLS = (
    r"(?:\S{1,200}/)?(?:nvidia-smi|dcgm\w{0,10}|nv-hostengine|nvtop|top|htop|iostat|vmstat|dmesg|tail|tee|tar|rsync|curl"
    r"|wget|aws|gsutil|tensorboard|node_exporter|sleep|watch)\b"
)
"""Commands that a script runs beside the training."""


def exits(codes: str, *, group: str | None = None) -> str:
    """The pattern for one of the codes (an alternation); the rank that Composer names becomes the group."""
    rank = r"\d{1,7}" if group is None else rf"(?P<{group}>\d{{1,7}})"
    return (
        rf"\b(?:Global rank|Rank) {rank} (?:\(PID \d{{1,10}}\) exited|crashed) with (?:exit )?code (?:{codes})(?!\d)"
        rf"|=\s{{1,8}}EXIT CODE: (?:{codes})(?!\d)|\bPod: \S{{1,250}} exited with code (?:{codes})(?!\d)"
    )


def signalled(names: str, words: str) -> str:
    """The pattern for a process that a signal ended, by the signal's name or by a shell's words for it."""
    return (
        rf"process \d{{1,7}} terminated with signal (?:{names})\b"
        rf"|\bline \d{{1,6}}: {{1,8}}\d{{1,10}} (?:{words})\b(?! {{0,40}}(?:\(core dumped\) {{0,40}})?{TOOLS})"
    )
