"""Kubernetes watch: one kind of object, listed once and then watched, in a thread of its own.

Rules
- The list is told as `ADDED`, then `LISTED` with the uids that were there; what is watched follows from the list's
  version.
- A watch that ends is taken up where it stood: each change and each bookmark moves the version on. A version that the
  server has forgotten (410, as a status or within the stream) means a new list; what did not change in between has
  the same version, and is passed over by who reads. That is usual, and no failure: only a list that fails is one. Where
  one 410 follows another, with no news in between, the next list waits.
- A failure is told with its reason, and again when it is over; in between it is tried again after 1, 2, 4 … 60
  seconds, or as long as the server asks. A kind that the server does not have is looked for every five minutes.
- What was read waits in a queue that all kinds share; it is bounded, so a slow reader slows the watch and not the
  memory.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rerail.collectors.sources.kube_client import Client, Unseen
from rerail.collectors.sources.kube_objects import slim, uid_of, version_of

LONGEST_WAIT_SECONDS = 60.0
ABSENT_SECONDS = 300.0
SHORTEST_WATCH_SECONDS = 1.0
PUT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where it is listed."""

    name: str
    """As `kubectl` calls it."""
    path: str
    kind: str
    is_needed: bool = False
    """Without it nothing is seen."""
    may_be_absent: bool = False
    """A cluster may not know the kind."""
    namespace: str = ""
    """Empty: all, or none."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that one watch saw. `version` is where it stands afterwards."""

    resource: Resource
    what: str
    """ADDED, MODIFIED, DELETED, LISTED, BOOKMARK, FAILED, SEEN."""
    told: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    uids: frozenset[str] = frozenset()
    reason: str = ""


class Watch(threading.Thread):
    """Follows one kind from a version on; from a new list where there is none."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        version: str,
        into: queue.Queue[Change],
        *,
        selector: str | None = None,
        pause: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        super().__init__(name=f"rerail-watch-{resource.name}", daemon=True)
        self.resource = resource
        self._client = client
        self._version = version
        self._queue = into
        self._selector = selector
        self._pause = pause
        self._stop = threading.Event()
        self._failures = 0
        self._forgotten = 0
        """How often the server had forgotten the version, one time after the other."""

    def stop(self) -> None:
        """Ask it to end; what it has read is still in the queue."""
        self._stop.set()

    def run(self) -> None:
        """List and watch until told to stop."""
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
            except Unseen as error:
                self._fail(error)
                continue
            try:
                began = time.monotonic()
                self._follow()
                self._failures = self._forgotten = 0
                # A proxy that ends every stream at once is not asked without a pause.
                self._pause(self._stop, max(0.0, SHORTEST_WATCH_SECONDS - (time.monotonic() - began)))
            except Unseen as error:
                if error.status == 410:
                    self._list_anew()
                else:
                    self._fail(error)

    def _list_anew(self) -> None:
        """The server only asks for a new list, which is asked for at once; one that always does is not pressed."""
        self._version = ""
        self._forgotten += 1
        if self._forgotten > 1:
            self._pause(self._stop, _wait(self._forgotten - 1))

    def _list(self) -> None:
        uids: list[str] = []
        version = ""
        for found, told_version in self._client.pages(self.resource.path, self._selector):
            version = told_version
            for told in found:
                uids.append(uid_of(told))
                self._tell(Change(self.resource, "ADDED", slim({**told, "kind": self.resource.kind})))
        self._version = version
        passed_over = self._client.passed_over.get(self.resource.path, "")
        self._tell(Change(self.resource, "LISTED", version=version, uids=frozenset(uids), reason=passed_over))

    def _follow(self) -> None:
        self._tell(Change(self.resource, "SEEN", version=self._version))
        for what, told in self._client.watch(self.resource.path, self._version, self._selector):
            if self._stop.is_set():
                return
            self._failures = self._forgotten = 0
            version = version_of(told)
            if version:
                self._version = version
            if what in ("ADDED", "MODIFIED", "DELETED"):
                self._tell(Change(self.resource, what, slim({**told, "kind": self.resource.kind}), version))
            elif what == "BOOKMARK":
                self._tell(Change(self.resource, what, version=version))

    def _fail(self, error: Unseen) -> None:
        if error.status == 410:  # its pages are of a version that is forgotten meanwhile: it begins again
            self._forgotten += 1
            if self._forgotten == 1:
                return
        if error.status == 404 and self.resource.may_be_absent:
            self._tell(Change(self.resource, "SEEN"))
            self._pause(self._stop, ABSENT_SECONDS)
            return
        if error.status in (400, 404):
            self._version = ""
        self._failures += 1
        is_cut = error.status is None and "broke off" in str(error)
        if not is_cut or self._failures > 2:  # a connection that is cut now and then is no blindness
            self._tell(Change(self.resource, "FAILED", reason=str(error)))
        self._pause(self._stop, error.retry_after or _wait(self._failures))

    def _tell(self, change: Change) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(change, timeout=PUT_SECONDS)
                return
            except queue.Full:
                continue


def _wait(count: int) -> float:
    """How long to wait after so many failures, in s; a random part of it, so that many watches do not come at once."""
    return min(LONGEST_WAIT_SECONDS, 2.0 ** min(count - 1, 6)) * (0.75 + random.random() / 2)
