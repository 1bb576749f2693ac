"""Kubernetes files: objects as `kubectl get … -o json` prints them, recorded.

A file holds one object, a List, an array of objects, watch events (`{"type", "object"}`), or several of these one after
the other. What is no object is told with its place, and the rest is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from rerail.collectors.sources.kube_objects import Object, mapping, slim
from rerail.server.core.codec import FactError

CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_SAYS = re.compile(rb'"(?:apiVersion|involvedObject|resourceVersion|containerStatuses|managedFields)"\s*:')
_SPACE = re.compile(r"\s*")


def is_kubernetes(head: bytes) -> bool:
    """Whether a file that begins so holds objects of Kubernetes."""
    return head.lstrip()[:1] in (b"{", b"[") and _SAYS.search(head) is not None


def objects_in(content: bytes) -> Iterator[tuple[str, Object] | FactError]:
    """`(change, object)` of everything in a file, in its order; errors for what is none."""
    decoder = json.JSONDecoder()
    words = content.decode("utf-8", "replace")
    place = _end_of_space(words, 0)
    if place >= len(words):
        yield FactError("file", "", "it is empty")
    while place < len(words):
        try:
            told, place = decoder.raw_decode(words, place)
        except (ValueError, RecursionError) as error:
            yield FactError("file", words[place : place + 80], f"not JSON at character {place}: {error}")
            following = words.find("\n", place)
            if following < 0:
                return
            place = _end_of_space(words, following + 1)
            continue
        yield from _of(told)
        place = _end_of_space(words, place)


def _of(told: object) -> Iterator[tuple[str, Object] | FactError]:
    if isinstance(told, list):
        for each in told:
            yield from _of(each)
        return
    if not isinstance(told, dict):
        yield FactError("object", str(told)[:80], "not an object")
        return
    kind = told.get("kind")
    if isinstance(told.get("items"), list) and (kind is None or str(kind).endswith("List")):
        inner = str(kind or "").removesuffix("List")
        for each in told["items"]:
            if inner and isinstance(each, dict) and "kind" not in each:
                each = {**each, "kind": inner}
            yield from _of(each)
        return
    if str(told.get("type")) in CHANGES and isinstance(told.get("object"), dict):
        yield str(told["type"]), slim(told["object"])
        return
    if kind is None and (mapping(told.get("involvedObject")) or mapping(told.get("regarding"))):
        told = {**told, "kind": "Event"}
    elif kind is None and "containerStatuses" in mapping(told.get("status")):
        told = {**told, "kind": "Pod"}
    if not isinstance(told.get("kind"), str) or not isinstance(told.get("metadata"), dict):
        yield FactError(
            "kind", str(told.get("kind"))[:80], "not an object of Kubernetes: kind and metadata are missing"
        )
        return
    yield "ADDED", slim(told)


def _end_of_space(words: str, place: int) -> int:
    found = _SPACE.match(words, place)
    return place if found is None else found.end()
