"""Asked programs: what another program prints, with limits on how much of it there is and how long that takes.

Rules
- Both of its outputs are read in pieces while it runs. At the limit, and when its time is over, it is killed with
  everything it started (it has a process group of its own).
- Of its complaints the first are kept.
- Who is asked to stop meanwhile waits for no answer: the program is killed, or not started.
- It reads no input, and never asks a person.
"""

from __future__ import annotations

import io
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from rerail.collectors.identity import inherited
from rerail.collectors.source import LookGivenUp

LARGEST_PRINTED = 256 * 1024 * 1024
LONGEST_COMPLAINT = 65_536
DYING_SECONDS = 5.0
HEED_SECONDS = 0.2
"""How often it is looked whether to stop, while a program prints nothing."""
_PIECE = 1 << 18


class ProgramHung(Exception):  # noqa: N818 - named as the condition it tells
    """It did not end within its time."""


class TooMuchPrinted(Exception):  # noqa: N818 - named as the condition it tells
    """It printed more than is taken; `begun` is as much of it as is, which may end within a line."""

    def __init__(self, reason: str, begun: bytes) -> None:
        super().__init__(reason)
        self.begun = begun


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program that ended left behind."""

    code: int
    """Its exit code; below 0 the signal that killed it."""
    output: bytes
    complaint: str
    """What it wrote to its standard error, or the beginning of that, without blanks around it."""


def ask(
    words: Sequence[str], *, seconds: float, largest: int = LARGEST_PRINTED, settings: dict[str, str] | None = None,
    stop: threading.Event | None = None,
) -> Printed:  # fmt: skip
    """Run a program to its end, or until `stop` is set; `settings` are put into its environment.

    Raises OSError where it cannot be started (FileNotFoundError: there is none), ProgramHung, TooMuchPrinted, and
    LookGivenUp once `stop` is set.
    """
    _heed(words, stop)
    until = time.monotonic() + seconds
    program = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**inherited(), **(settings or {})}, start_new_session=True, bufsize=0,
    )  # fmt: skip
    assert program.stdout is not None and program.stderr is not None
    # The buffer gives what it holds without a copy, and grows without one where the system can move pages.
    output, complaint = io.BytesIO(), bytearray()
    hung = f"{words[0]} did not end within {seconds:g} s"
    is_over = False
    try:
        with program.stdout, program.stderr, selectors.DefaultSelector() as ready:
            ready.register(program.stdout, selectors.EVENT_READ)
            ready.register(program.stderr, selectors.EVENT_READ)
            while ready.get_map():
                _heed(words, stop)
                if time.monotonic() >= until:
                    raise ProgramHung(hung)
                for key, _ in ready.select(_wait(until, stop)):
                    piece = os.read(key.fd, _PIECE)
                    if not piece:
                        ready.unregister(key.fileobj)
                    elif key.fileobj is program.stderr:
                        complaint += piece[: LONGEST_COMPLAINT - len(complaint)]
                    elif output.tell() + len(piece) > largest:
                        output.write(piece[: largest - output.tell()])
                        raise TooMuchPrinted(f"{words[0]} printed more than {largest} bytes", output.getvalue())
                    else:
                        output.write(piece)
        while (code := _code_of(program, _wait(until, stop))) is None:
            _heed(words, stop)
            if time.monotonic() >= until:
                raise ProgramHung(hung)
        is_over = True
    finally:
        if not is_over:
            _kill(program)
    return Printed(code, output.getvalue(), complaint.decode("utf-8", "replace").strip())


def _heed(words: Sequence[str], stop: threading.Event | None) -> None:
    if stop is not None and stop.is_set():
        raise LookGivenUp(f"{words[0]}: not waited for, asked to stop")


def _wait(until: float, stop: threading.Event | None) -> float:
    """How long to wait for a program, in s, before the time and `stop` are looked at."""
    left = max(0.0, until - time.monotonic())
    return left if stop is None else min(left, HEED_SECONDS)


def _code_of(program: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a program; None where it goes on for longer than that."""
    try:
        return program.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _kill(program: subprocess.Popen[bytes]) -> None:
    """End a program and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # one that waits for a dead file server cannot even be killed
        program.wait(DYING_SECONDS)
