"""Worker server: what a training process answers over torch's own HTTP server, while it hangs.

torch serves it where the training asks for it: `torch.distributed.elastic.control_plane.worker_main` on the unix
socket `TORCH_WORKER_SERVER_SOCKET`, `torch.distributed.debug.start_debug_server` on TCP. `POST /handler/<name>` runs a
handler.

Rules
- Nobody is asked who he is: an address is on this machine (a unix socket, loopback) or was given by a person.
- An answer has a limit in bytes and in seconds, all of it together.
- A server that does not answer raises `WorkerSilentError`; a handler that this build of torch does not have gives None.
"""

from __future__ import annotations

import http.client
import socket
import time
from urllib.parse import urlsplit

LONGEST_SECONDS = 10.0
MOST_BYTES = 64 * 1024 * 1024


class WorkerSilentError(Exception):
    """The worker's server did not answer; the message says why."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """To the socket of the worker."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def is_address(text: str) -> bool:
    """Whether a text names a worker's server."""
    return text.startswith(("unix:", "http://"))


def ask(address: str, handler: str, seconds: float = LONGEST_SECONDS, most_bytes: int = MOST_BYTES) -> bytes | None:
    """The answer of a handler; None where the worker has none of this name. Raises WorkerSilentError."""
    until = time.monotonic() + seconds
    try:
        connection = _connection(address, seconds)
        try:
            connection.request("POST", f"/handler/{handler}", body=b"")
            answer = connection.getresponse()
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise WorkerSilentError(f"{address}: {handler}: status {answer.status}")
            content = bytearray()
            while part := answer.read1(1 << 20):
                content += part
                if len(content) > most_bytes:
                    raise WorkerSilentError(f"{address}: {handler}: more than {most_bytes} bytes")
                if time.monotonic() > until:
                    raise WorkerSilentError(f"{address}: {handler}: no whole answer in {seconds:g} s")
            return bytes(content)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise WorkerSilentError(f"{address}: {type(error).__name__}: {error}") from None


def _connection(address: str, seconds: float) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _UnixConnection(address.removeprefix("unix:").removeprefix("//"), seconds)
    parts = urlsplit(address)
    if parts.hostname is None or parts.port is None:
        raise ValueError("an address is unix:PATH or http://HOST:PORT")
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
