"""Digests of the basis of an answer: of the statement, of the segments with their clips, and the ETag of both.

All of them are SHA-256 over JSON of one form, so that anybody can derive them again from the log and the statement.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from carnac.core.time.intervals import IntervalSet

SliceKey = tuple[str, IntervalSet | None]
"""A segment id, and which of the segment's instants are visible; None: all of them."""

FORM = 1
"""The form of these digests; raised when any of them changes for the same answer."""
ETAG_DIGITS = 40
_ENTITY_TAG = re.compile(r'(?:W/)?"([^"]*)"|([^\s,"]+)')


def statement_digest(statement: str, parameters: Sequence[object] | Mapping[str, object]) -> str:
    """Return the digest of a statement, as the parser prints it, and of the values of its `?` or its `$name`."""
    values: object = (
        {name: _plain(parameters[name]) for name in sorted(parameters)}
        if isinstance(parameters, Mapping)
        else [_plain(value) for value in parameters]
    )
    return _digest("statement", [statement, values])


def segments_digest(slices: Iterable[SliceKey]) -> str:
    """Return the digest of a set of segments with their clips, in whatever order and however often they are named."""
    return _digest("segments", sorted({slice_text(one) for one in slices}))


def slice_text(piece: SliceKey) -> str:
    """Return a segment with its clip as a text: its id, then its visible intervals in epoch milliseconds."""
    segment_id, clip = piece
    if clip is None:
        return segment_id
    shown = ",".join(f"{one.start_ms}/{one.end_ms}" for one in clip)
    return f"{segment_id} {shown}"


def etag_of(
    statement: str,
    segments: str,
    *,
    columns: Mapping[str, Mapping[str, str]],
    tables: Sequence[Mapping[str, Sequence[object]]],
) -> str:
    """Return an ETag without quotes, which changes exactly when the answer of a statement could.

    Args:
        statement: Its digest.
        segments: The digest of the segments that it needs.
        columns: The columns that it may see of each datasource, with their types.
        tables: Small tables that it reads.
    """
    seen = [[name, list(columns[name].items())] for name in sorted(columns)]
    small = [[[name, list(values)] for name, values in table.items()] for table in tables]
    return _digest("answer", [statement, segments, seen, small])[:ETAG_DIGITS]


def names_etag(if_none_match: str, etag: str) -> bool:
    """Whether the value of an If-None-Match header names the ETag: a list of them, quoted or bare, weak ones too."""
    return any(etag in found for found in _ENTITY_TAG.findall(if_none_match))


def _digest(what: str, content: object) -> str:
    text = json.dumps([f"carnac-{what}", FORM, content], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    return [type(value).__name__, str(value)]
