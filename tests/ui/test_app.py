"""The attached application, without a browser: callbacks, headers, assets."""

from __future__ import annotations

import asyncio
import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import brotli
import pytest
from fastapi import FastAPI
from plotly.offline import get_plotlyjs_version

from rerail.server.queries import Queries
from rerail.ui import markup
from rerail.ui.app import ASSETS, Pages, attach
from rerail.ui.compression import CARTESIAN, Compression
from rerail.ui.middleware import Guard, content_security_policy


class NoQueries(Queries):
    """Nothing is asked of it in these tests."""

    def __init__(self) -> None:
        pass


@pytest.fixture(scope="module")
def api() -> FastAPI:
    return FastAPI()


@pytest.fixture(scope="module")
def pages(api: FastAPI) -> Pages:
    return attach(api, NoQueries())


@pytest.fixture(scope="module")
def document(api: FastAPI, pages: Pages) -> str:
    """The document of every page, as the first request of a process gets it."""
    status, _, body = answer_of(api, "/")
    assert status == 200
    return body.decode()


def test_every_callback_is_a_coroutine(pages: Pages):
    known = [entry["callback"] for entry in pages.app.callback_map.values() if "callback" in entry]
    assert known
    assert all(inspect.iscoroutinefunction(inspect.unwrap(callback)) for callback in known)


def test_no_script_is_inline_but_the_one_whose_hash_is_in_the_policy(pages: Pages, document: str):
    inline = re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>(.*?)</script>", document, re.S)
    assert inline == ["var renderer = new DashRenderer();"]
    assert "'unsafe-inline'" not in pages.policy().split("script-src")[1].split(";")[0]
    assert "'unsafe-eval'" not in pages.policy()


def test_the_document_names_no_other_server(document: str):
    shown = re.sub(r"<script id=\"_dash-config\".*?</script>", "", document, flags=re.S)
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//[^\"]+\"", shown) == []


def test_the_first_document_has_its_styles_and_scripts(document: str):
    assert "/assets/style.css" in document
    assert "/assets/timeline.js" in document


def test_the_document_carries_no_secret(document: str):
    assert not re.search(r"(?i)password=|api[_-]key|bearer|sqlite:|postgres", document)


def test_no_asset_asks_another_server():
    for path in [*ASSETS.glob("*.js"), *ASSETS.glob("*.css")]:
        if path != CARTESIAN:
            assert not re.search(r"https?://(?!www\.w3\.org)", path.read_text()), path.name


def test_the_bundled_plotly_is_the_version_that_draws_the_figures():
    assert f"v{get_plotlyjs_version()}" in CARTESIAN.read_text()[:200]


def test_both_sides_of_markup_know_the_same_tags_and_attributes():
    script = (ASSETS / "markup.js").read_text()
    tags, attributes = (
        "".join(re.findall(r'"([^"]*)"', re.search(rf"const {name} = new Set\((.*?)\.split", script, re.S).group(1)))
        for name in ("TAGS", "ATTRIBUTES")
    )
    assert set(tags.split()) == set(markup.TAGS)
    assert set(attributes.split()) == set(markup.ATTRIBUTES)


def test_no_file_of_the_pages_writes_html():
    for path in [*ASSETS.glob("*.js"), *Path(ASSETS).parent.rglob("*.py")]:
        if path != CARTESIAN:
            assert not re.search(
                r"innerHTML\s*=|insertAdjacentHTML|dangerously_allow_(html|code)=True", path.read_text()
            ), path


def answer_of(application, path: str, headers: dict[str, str] | None = None, method: str = "GET"):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "http_version": "1.1", "scheme": "http", "server": ("here", 80), "client": ("here", 1), "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }  # fmt: skip
    # A thread of its own: the browser tests keep an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(application(scope, receive, send))).result()
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body


async def script(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/javascript")]})
    await send({"type": "http.response.body", "body": b"let a = 1;\n" * 500})


async def page(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<html>"})


def test_scripts_are_brotli_once_and_304_when_known():
    compression = Compression(script)
    status, headers, body = answer_of(compression, "/assets/a.js", {"accept-encoding": "gzip, br"})
    assert (status, headers[b"content-encoding"]) == (200, b"br")
    assert brotli.decompress(body) == b"let a = 1;\n" * 500
    known = {"accept-encoding": "br", "if-none-match": headers[b"etag"].decode()}
    assert answer_of(compression, "/assets/a.js", known)[0] == 304
    status, headers, body = answer_of(compression, "/assets/a.js")
    assert b"content-encoding" not in headers
    assert body == b"let a = 1;\n" * 500


def test_plotly_is_answered_with_the_small_bundle():
    path = "/_dash-component-suites/plotly/package_data/plotly.min.js"
    status, _, body = answer_of(Compression(script), path)
    assert (status, body) == (200, CARTESIAN.read_bytes())


def guarded(path: str, headers: dict[str, str] | None = None, method: str = "GET"):
    policy = content_security_policy(("'sha256-x'",))
    return answer_of(Guard(page, policy=lambda: policy), path, headers, method)


def test_a_document_carries_its_policy_and_an_unknown_one_is_404():
    status, headers, _ = guarded("/runs/a")
    assert status == 200
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert guarded("/nope")[0] == 404
    assert guarded("/runs/a%2Fb")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://here", "host": "here"}, 200),
        ({"origin": "http://elsewhere", "host": "here"}, 403),
        ({"origin": "null", "host": "here"}, 403),
        ({"sec-fetch-site": "cross-site", "host": "here"}, 403),
        ({"origin": "https://public", "host": "inner:8", "x-forwarded-host": "public"}, 200),
    ],
)
def test_callbacks_are_only_taken_from_our_own_pages(headers, status):
    assert guarded("/_dash-update-component", headers, "POST")[0] == status
