"""An API server of Kubernetes that replays: lists in pages, watches with bookmarks, and every way of going away.

It keeps a log of changes with versions, as the real one does: a watch begins after a version and gets what came
later; a version older than what is kept is 410 Gone, as a status, or as an ERROR within a stream. `behaviours` of a
path are what its next requests meet: a status, `cut` (the stream breaks off within a line), `hang up`, `gone event`,
`nonsense`.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATHS = {
    "Pod": "/api/v1/pods", "Event": "/api/v1/events", "Node": "/api/v1/nodes", "Job": "/apis/batch/v1/jobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/jobsets", "Workload": "/apis/kueue.x-k8s.io/v1beta1/workloads",
    "PyTorchJob": "/apis/kubeflow.org/v1/pytorchjobs",
}  # fmt: skip


class KubeApi:
    """Objects of a cluster, their history, and a server that shows them."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = {path: {} for path in PATHS.values()}
        self.history: dict[str, list[tuple[int, str, dict[str, Any]]]] = {path: [] for path in PATHS.values()}
        self.oldest = 0
        """Versions below it are forgotten."""
        self.absent: set[str] = {PATHS["JobSet"], PATHS["Workload"], PATHS["PyTorchJob"]}
        self.behaviours: dict[str, list[str]] = {}
        self.requests: list[tuple[str, dict[str, str], str | None]] = []
        self.bookmark_seconds = 0.05
        self.watch_seconds = 5.0
        self._changed = threading.Condition()
        self._over = False
        self._server: ThreadingHTTPServer | None = None

    # --- the cluster ---

    def put(self, told: dict[str, Any], change: str | None = None) -> dict[str, Any]:
        """An object is made, or changed."""
        path = PATHS[told["kind"]]
        about = told["metadata"]
        key = about.setdefault("uid", f"uid-{about.get('namespace', '')}-{about['name']}")
        with self._changed:
            self.version += 1
            about["resourceVersion"] = str(self.version)
            what = change or ("MODIFIED" if key in self.objects[path] else "ADDED")
            kept = json.loads(json.dumps(told))
            if what == "DELETED":
                self.objects[path].pop(key, None)
            else:
                self.objects[path][key] = kept
            self.history[path].append((self.version, what, kept))
            self.absent.discard(path)
            self._changed.notify_all()
        return told

    def delete(self, told: dict[str, Any]) -> None:
        """An object goes away; who watches sees its last state."""
        self.put(told, "DELETED")

    def forget(self) -> None:
        """Compaction: everything up to now can be listed and not be watched from."""
        with self._changed:
            self.version += 1
            self.oldest = self.version
            self.history = {path: [] for path in self.history}

    # --- the server ---

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                api.requests.append((parts.path, asked, self.headers["Authorization"]))
                try:
                    api.answer(self, parts.path, asked)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._over = True
        with self._changed:
            self._changed.notify_all()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, path: str, asked: dict[str, str]) -> None:
        is_watch = asked.get("watch") == "1"
        waiting = self.behaviours.get(f"watch {path}" if is_watch else path) or []
        behaviour = waiting.pop(0) if waiting else ""
        if behaviour.isdigit():
            self.refuse(request, int(behaviour))
        elif behaviour == "hang up":
            request.close_connection = True
            request.connection.close()
        elif behaviour == "nonsense":
            self.say(request, 200, b"<html>a proxy's page</html>")
        elif path not in self.objects or path in self.absent:
            self.refuse(request, 404)
        elif is_watch:
            self.stream(request, path, asked, behaviour)
        else:
            self.page(request, path, asked)

    def page(self, request: BaseHTTPRequestHandler, path: str, asked: dict[str, str]) -> None:
        with self._changed:
            found = [self.objects[path][key] for key in sorted(self.objects[path])]
            version = str(self.version)
        first, limit = int(asked.get("continue") or 0), int(asked.get("limit") or 500)
        kind = next((kind for kind, known in PATHS.items() if known == path), "Pod")
        shown = [{key: value for key, value in each.items() if key not in ("kind", "apiVersion")} for each in found]
        about = {"resourceVersion": version}
        if first + limit < len(found):
            about["continue"] = str(first + limit)
        body = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": about, "items": shown[first : first + limit]}
        self.say(request, 200, json.dumps(body).encode())

    def stream(self, request: BaseHTTPRequestHandler, path: str, asked: dict[str, str], behaviour: str) -> None:
        since = int(asked["resourceVersion"])
        if since < self.oldest and behaviour != "gone event":
            self.refuse(request, 410)
            return
        request.send_response(200)
        request.send_header("Content-Type", "application/json;stream=watch")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()

        def send(data: bytes) -> None:
            request.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            request.wfile.flush()

        send(b"\n")  # some proxies keep a stream alive so
        if behaviour == "gone event":
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            send(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            request.wfile.write(b"0\r\n\r\n")
            return
        began, longest = time.monotonic(), float(asked.get("timeoutSeconds", 60))
        while not self._over and time.monotonic() < began + min(self.watch_seconds, longest):
            with self._changed:
                news = [entry for entry in self.history[path] if entry[0] > since]
                if not news:
                    self._changed.wait(self.bookmark_seconds)
                    news = [entry for entry in self.history[path] if entry[0] > since]
                now = self.version
            for version, what, told in news:
                line = json.dumps({"type": what, "object": told}).encode() + b"\n"
                since = version
                if behaviour == "cut":
                    send(line[: len(line) // 2])
                    request.close_connection = True
                    request.connection.close()
                    return
                send(line)
            if not news and asked.get("allowWatchBookmarks"):
                since = max(since, now)
                about = {"kind": "Pod", "metadata": {"resourceVersion": str(since)}}
                send(json.dumps({"type": "BOOKMARK", "object": about}).encode() + b"\n")
        request.wfile.write(b"0\r\n\r\n")

    def refuse(self, request: BaseHTTPRequestHandler, status: int) -> None:
        said = {403: "pods is forbidden: User cannot list resource", 410: "too old resource version"}.get(status, "no")
        body = {"kind": "Status", "status": "Failure", "code": status, "message": said}
        self.say(request, status, json.dumps(body).encode())

    @staticmethod
    def say(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
