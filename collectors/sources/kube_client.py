"""Kubernetes client: lists and watches over plain HTTP, with the standard library alone.

Rules
- Where the server is and who we are: `--api` (a `kubectl proxy`), a kubeconfig, or the service account of the pod we
  run in.
- A token in a file is read again for every request: the kubelet renews it.
- Lists come in pages. A watch is a stream of JSON lines; a line that is cut off by a disconnect is no line.
- What fails raises `Unseen` with the status: 410 means that what was asked for is forgotten, 404 that there is no
  such kind, 401 and 403 that we may not, None that nobody answered.
- A kubeconfig is read by `kubectl config view`, where it is not JSON. Credentials that a program gives (`exec`) are
  not asked for: `kubectl proxy` does that.
"""

from __future__ import annotations

import atexit
import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from rerail.collectors.asked_programs import ProgramHung, TooMuchPrinted, ask
from rerail.collectors.identity import address_in_cluster
from rerail.collectors.source import NotConfigured
from rerail.collectors.sources.kube_objects import items, mapping

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PAGE = 500
CONNECT_SECONDS = 20.0
WATCH_SECONDS = 240
LONGEST_LINE = 8 * 1024 * 1024
LARGEST_CONFIG = 16 * 1024 * 1024
KUBECTL_SECONDS = 30.0
LARGEST_PAGE = 256 * 1024 * 1024


class Unseen(Exception):  # noqa: N818 - named as the condition it tells
    """The server did not show what it was asked for."""

    def __init__(self, status: int | None, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is, and how it is asked."""

    url: str
    token: str | None = None
    token_file: Path | None = None
    ca_file: str | None = None
    certificate: tuple[str, str] | None = None
    """Files of a client certificate and its key."""
    is_verified: bool = True

    def bearer(self) -> str | None:
        """The token of now. Raises `Unseen`."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text().strip()
        except OSError as error:
            raise Unseen(None, f"{self.token_file}: {error.strerror or error}") from None


def access(url: str | None = None, kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """How to reach the API. Raises `NotConfigured`."""
    if url:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotConfigured(f"--api: not a URL of an API server: {url!r}")
        return Access(url.rstrip("/"))
    if kubeconfig is not None:
        return _of_kubeconfig(_config(kubeconfig, context), context)
    found = address_in_cluster()
    if found is None or not (ACCOUNT / "token").exists():
        raise NotConfigured(
            "not in a pod with a service account: give --api (such as http://127.0.0.1:8001 of kubectl proxy) "
            "or --kubeconfig"
        )
    return Access(f"https://{found}", token_file=ACCOUNT / "token", ca_file=str(ACCOUNT / "ca.crt"))


def _config(path: Path, context: str | None) -> dict[str, Any]:
    try:
        content = path.read_text()
    except OSError as error:
        raise NotConfigured(f"--kubeconfig {path}: {error.strerror or error}") from None
    try:
        return mapping(json.loads(content))
    except ValueError:
        pass
    words = ["kubectl", "config", "view", "--kubeconfig", str(path), "--raw", "--flatten", "--minify", "-o", "json"]
    words += ["--context", context] if context else []
    try:
        printed = ask(words, seconds=KUBECTL_SECONDS, largest=LARGEST_CONFIG)
    except FileNotFoundError:
        raise NotConfigured(
            f"--kubeconfig {path} is not JSON and there is no kubectl to read it: run `kubectl proxy` and give --api"
        ) from None
    except (OSError, ProgramHung, TooMuchPrinted) as error:
        raise NotConfigured(
            f"--kubeconfig {path} is not JSON, and kubectl cannot read it: {error}: run `kubectl proxy` and give --api"
        ) from None
    if printed.code:
        raise NotConfigured(f"--kubeconfig {path}: {printed.complaint[:300]}")
    try:
        return mapping(json.loads(printed.output))
    except (ValueError, RecursionError) as error:
        raise NotConfigured(f"--kubeconfig {path}: what kubectl printed of it is not JSON: {error}"[:500]) from None


def _of_kubeconfig(told: dict[str, Any], context: str | None) -> Access:
    named = context or told.get("current-context")
    chosen = _named(told.get("contexts"), named, "context")
    cluster = _named(told.get("clusters"), chosen.get("cluster"), "cluster")
    user = _named(told.get("users"), chosen.get("user"), "user")
    if not cluster.get("server"):
        raise NotConfigured(f"the kubeconfig names no server for context {named!r}")
    if "exec" in user or "auth-provider" in user:
        raise NotConfigured("the kubeconfig's credentials come from a program: run `kubectl proxy` and give --api")
    certificate = None
    certified = _file(user, "client-certificate"), _file(user, "client-key")
    if certified[0] and certified[1]:
        certificate = (certified[0], certified[1])
    token_file = user.get("tokenFile")
    return Access(
        str(cluster["server"]).rstrip("/"),
        token=user.get("token"),
        token_file=Path(token_file) if token_file else None,
        ca_file=_file(cluster, "certificate-authority"),
        certificate=certificate,
        is_verified=not cluster.get("insecure-skip-tls-verify"),
    )


def _named(told: object, name: object, kind: str) -> dict[str, Any]:
    for each in items(told):
        if each.get("name") == name:
            return mapping(each.get(kind))
    return {}


def _file(told: dict[str, Any], name: str) -> str | None:
    """A file, or one made of what stands in the kubeconfig itself."""
    data = told.get(f"{name}-data")
    if not data:
        return told.get(name)
    try:
        content = base64.b64decode(str(data), validate=True)
    except ValueError:
        raise NotConfigured(f"the kubeconfig's {name}-data is not base64") from None
    with tempfile.NamedTemporaryFile("wb", prefix="rerail-", suffix=".pem", delete=False) as file:
        file.write(content)
    atexit.register(Path(file.name).unlink, missing_ok=True)  # it may be a key
    return file.name


class Client:
    """Asks an API server. Any thread may call; each request has a connection of its own."""

    def __init__(self, reach: Access, *, watch_seconds: int = WATCH_SECONDS) -> None:
        self._access = reach
        self._parts = urlsplit(reach.url)
        self._watch_seconds = watch_seconds
        self._ssl: ssl.SSLContext | None = None
        self.passed_over: dict[str, str] = {}
        """Path → what of its last list was no object, in words; nothing where all of it was."""

    def pages(self, path: str, selector: str | None = None) -> Iterator[tuple[list[dict[str, Any]], str]]:
        """`(objects, resource version of the list)` page by page. Raises `Unseen`."""
        following = ""
        broken: list[str] = []
        count = 0
        self.passed_over.pop(path, None)
        while True:
            asked: dict[str, Any] = {"limit": PAGE}
            if selector:
                asked["labelSelector"] = selector
            if following:
                asked["continue"] = following
            with self._asked(path, asked, CONNECT_SECONDS) as response:
                try:
                    body = response.read(LARGEST_PAGE)
                    told = json.loads(body)
                except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
                    raise Unseen(None, f"{path}: the answer broke off: {type(error).__name__}: {error}"[:300]) from None
            if not isinstance(told, dict) or not isinstance(told.get("items"), list):
                raise Unseen(None, f"{path}: what answered is not an API server of Kubernetes")
            about = mapping(told.get("metadata"))
            kind = str(told.get("kind") or "").removesuffix("List")
            sound = [each for each in items(told["items"]) if _is_object(each)]
            count += len(told["items"])
            broken += [json.dumps(each)[:100] for each in told["items"] if not _is_object(each)]
            if broken:
                self.passed_over[path] = (
                    f"{path}: {len(broken)} of {count} items of the list passed over, which are no objects with a name "
                    f"in their metadata, the first: {broken[0]}"
                )
            # Objects of a list do not say their kind: the list does.
            yield [{"kind": kind, **each} for each in sound], str(about.get("resourceVersion") or "")
            following = str(about.get("continue") or "")
            if not following:
                return

    def watch(self, path: str, version: str, selector: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """`(type, object)` of each change since a version, until the server ends the stream. Raises `Unseen`."""
        asked: dict[str, Any] = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": self._watch_seconds,
        }
        if selector:
            asked["labelSelector"] = selector
        with self._asked(path, asked, self._watch_seconds + CONNECT_SECONDS) as response:
            while True:
                try:
                    line = response.readline(LONGEST_LINE)
                except (OSError, http.client.HTTPException, ValueError) as error:
                    raise Unseen(None, f"{path}: the watch broke off: {type(error).__name__}: {error}"[:300]) from None
                if not line:
                    return
                if not line.endswith(b"\n"):
                    raise Unseen(None, f"{path}: the watch broke off within a line")
                if not line.strip():
                    continue  # a sign of life, or of a proxy
                try:
                    told = json.loads(line)
                except (ValueError, RecursionError):
                    raise Unseen(None, f"{path}: a line of the watch is not JSON") from None
                told = mapping(told)
                changed = mapping(told.get("object"))
                if told.get("type") == "ERROR":
                    code = changed.get("code")
                    raise Unseen(
                        code if isinstance(code, int) else None, f"{path}: {changed.get('message') or 'error'}"[:300]
                    )
                yield str(told.get("type")), changed

    @contextmanager
    def _asked(self, path: str, asked: dict[str, Any], seconds: float) -> Iterator[http.client.HTTPResponse]:
        headers = {"Accept": "application/json", "User-Agent": "rerail"}
        token = self._access.bearer()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection = self._connection(seconds)
        try:
            try:
                connection.request("GET", f"{self._parts.path}{quote(path)}?{urlencode(asked)}", headers=headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise Unseen(
                    None, f"{self._parts.netloc} does not answer: {type(error).__name__}: {error}"[:300]
                ) from None
            if response.status != 200:
                raise _refusal(path, response)
            yield response
        finally:
            connection.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        if self._ssl is None:
            try:
                self._ssl = ssl.create_default_context(cafile=self._access.ca_file)
                if self._access.certificate is not None:
                    self._ssl.load_cert_chain(*self._access.certificate)
            except (OSError, ssl.SSLError) as error:
                raise Unseen(None, f"the certificates cannot be read: {error}") from None
            if not self._access.is_verified:
                self._ssl.check_hostname = False
                self._ssl.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._ssl)


def _is_object(told: object) -> bool:
    """Whether an item of a list is an object of Kubernetes: it has a name."""
    name = mapping(mapping(told).get("metadata")).get("name")
    return isinstance(name, str) and name != ""


def _refusal(path: str, response: http.client.HTTPResponse) -> Unseen:
    try:
        said = response.read(4096).decode("utf-8", "replace")
        message = mapping(json.loads(said)).get("message") or said
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        message = ""
    wait = response.headers.get("Retry-After", "")
    return Unseen(
        response.status, f"{path}: {response.status} {response.reason}: {str(message)[:200]}".rstrip(": "),
        float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 5 else None,
    )  # fmt: skip
