"""The facts of an answer, as headers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from carnac.core.json_form import to_json

if TYPE_CHECKING:
    from carnac.api.sql.formats import Shape
    from carnac.api.sql.requests import SqlRequest
    from carnac.ports.answers import AnswerFacts

JSON_TYPE = "application/json"
ARROW_TYPE = "application/vnd.apache.arrow.stream"
MISSING_MAX = 4_000
"""Characters of a header that lists what is missing."""
ACCEPTS_KEPT = 64
"""Accept headers whose outcome is remembered."""
MARKS_KEPT = 64
"""Kinds of representation whose marks are remembered."""
_TAG = re.compile(r'"([^"]*)"')
_NOT_PRINTED = re.compile(r"[^ -~]")
_MARK_DIGITS = 8


def ids_of(request: SqlRequest) -> Iterator[tuple[str, str]]:
    """Yield the headers of every answer to a request that was understood."""
    yield "X-Druid-Query-Id", request.native_id
    yield "X-Druid-SQL-Query-Id", request.statement.query_id
    if request.shape.has_header:
        yield "X-Druid-SQL-Header-Included", "yes"


def said_first(facts: AnswerFacts, mark: str) -> Iterator[tuple[str, str]]:
    """Yield what is known before the first row.

    Args:
        mark: Of the representation (`mark_of`).
    """
    yield "ETag", _etag(facts.etag, mark)
    yield "X-Druid-Response-Context", "{}"
    yield "X-Carnac-Revision", str(facts.revision)
    yield "X-Carnac-Engine", facts.engine.value
    yield "X-Carnac-Engine-Why", _ascii(facts.why)
    yield "X-Carnac-Segments-Expected", str(facts.segments_expected)


def said_last(facts: AnswerFacts) -> Iterator[tuple[str, str]]:
    """Yield what is known when all rows have been read."""
    yield "X-Carnac-Segments-Read", str(facts.segments_read)
    yield "X-Carnac-Segments-Cold", str(facts.segments_cold)
    yield "X-Carnac-Segments-Kept", str(facts.segments_kept)
    yield "X-Carnac-Complete", "true" if facts.is_complete else "false"
    if facts.missing:
        missing = json.dumps(to_json(facts.missing), separators=(",", ":"))
        yield "X-Carnac-Missing", _ascii(missing)[:MISSING_MAX]
    yield "X-Carnac-Receipt", _ascii(msgspec.json.encode(facts.receipt).decode())


def mark_of(media_type: str, request: SqlRequest) -> str:
    """Return what tells representations of one answer apart in their ETags."""
    return _mark(media_type, request.shape, request.rows_max)


@lru_cache(MARKS_KEPT)
def _mark(media_type: str, shape: Shape, rows_max: int | None) -> str:
    said = repr((media_type, shape, str(shape.zone), rows_max))
    return "-" + hashlib.sha256(said.encode()).hexdigest()[:_MARK_DIGITS]


def unmarked(if_none_match: str | None, mark: str) -> str | None:
    """Return the ETags of answers that a client has in this representation; None: none."""
    if if_none_match is None:
        return None
    tags = _TAG.findall(if_none_match)
    mine = [f'"{tag.removesuffix(mark)}"' for tag in tags if tag.endswith(mark)]
    return ", ".join(mine) or None


def same_etag(if_none_match: str | None, mark: str) -> Iterator[tuple[str, str]]:
    """Yield the ETag that a client has, if it named one only (`unmarked`): of several nobody knows which it was."""
    tags = _TAG.findall(if_none_match or "")
    if len(tags) == 1:
        yield "ETag", _etag(tags[0], mark)


@lru_cache(ACCEPTS_KEPT)
def accepted(accept: str | None) -> str | None:
    """Return the media type to answer with, of those that an Accept header names; None: none of ours."""
    if accept is None or not accept.strip():
        return JSON_TYPE
    ranges: dict[str, float] = {}
    for one in accept.split(","):
        name, *rest = (part.strip().lower() for part in one.split(";"))
        found = next((part[2:] for part in rest if part.startswith("q=")), "1")
        ranges[name] = float(found) if re.fullmatch(r"[01](\.\d{0,3})?", found) else 1.0
    of_json = next(
        (ranges[name] for name in (JSON_TYPE, "application/*", "*/*") if name in ranges), 0.0
    )
    of_arrow = ranges.get(ARROW_TYPE, 0.0)
    if not of_json and not of_arrow:
        return None
    return ARROW_TYPE if of_arrow >= of_json else JSON_TYPE


def _etag(tag: str, mark: str) -> str:
    """Return a weak ETag: rows without ORDER BY may come in another order."""
    return f'W/"{tag}{mark}"'


def _ascii(text: str) -> str:
    return _NOT_PRINTED.sub("?", text)
