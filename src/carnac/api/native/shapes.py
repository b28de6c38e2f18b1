"""Rows in the shapes of native answers: JSON lists, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

import msgspec

from carnac.api.native.queries import Ask, Row, Rows
from carnac.api.sql.values import json_list

PIECE_ROWS = 4_096
"""Items of a list that become text at a time."""
NESTED = "COMPLEX<json>"
_RAW = msgspec.json.Decoder(msgspec.Raw)


def listed(items: Iterable[object]) -> Iterator[bytes]:
    """Yield a JSON list of items, in pieces."""
    before, held = b"[", []
    for item in items:
        held.append(item)
        if len(held) == PIECE_ROWS:
            yield before + json_list(held)
            before, held = b",", []
    yield (before if held or before == b"[" else b"") + json_list(held) + b"]"


def each(rows: Rows, make: Callable[[Row], object]) -> Iterator[bytes]:
    """Yield a JSON list with an item for each row."""
    yield from listed(make(row) for piece in rows for row in piece)


def filled(
    rows: Rows, starts: Sequence[int], empty: Callable[[], Row], *, descending: bool
) -> Iterator[Row]:
    """Yield rows, which begin with the start of a bucket, and an empty one for each bucket that has none.

    Args:
        starts: Of the buckets that must be there, ascending.
        empty: Returns the row of a bucket without rows, without its start.
    """
    by_start = {row[0]: row for piece in rows for row in piece}
    every = sorted({*starts, *by_start}, reverse=descending)
    nothing: Row | None = None
    for start in every:
        row = by_start.get(start)
        if row is None:
            nothing = empty() if nothing is None else nothing
            row = (start, *nothing)
        yield row


def runs(rows: Rows) -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of each bucket, of which they begin with the start, without it."""
    every = (row for piece in rows for row in piece)
    for start, group in groupby(every, key=lambda row: row[0]):
        yield start, [row[1:] for row in group]


def scanned(
    rows: Rows, names: Sequence[str], types: Sequence[str], *, is_compact: bool
) -> Iterator[bytes]:
    """Yield rows as the one batch of a scan; no rows are no batch.

    Args:
        types: Of the columns; empty: nobody knows.
    """
    nested = [place for place, kind in enumerate(types) if kind == NESTED]
    typed = zip(names, types, strict=True)
    signature = [{"name": name, "type": kind} if kind else {"name": name} for name, kind in typed]
    is_first = True
    for found in rows:
        if not found:
            continue
        piece = [_with_json(row, nested) for row in found] if nested else found
        events = piece if is_compact else [dict(zip(names, row, strict=True)) for row in piece]
        if is_first:
            head = b'[{"segmentId":null,"columns":[' + json_list(list(names)) + b'],"events":['
            yield head + json_list(events)
            is_first = False
        else:
            yield b"," + json_list(events)
    yield b"[]" if is_first else b'],"rowSignature":[' + json_list(signature) + b"]}]"


def _with_json(row: Row, nested: Sequence[int]) -> Row:
    """Return a row in which nested data, kept as text, is JSON again; a text that is no JSON stays one."""
    values = list(row)
    for place in nested:
        if values[place] is not None:
            with suppress(msgspec.DecodeError):
                values[place] = _RAW.decode(values[place])
    return tuple(values)


def once(
    make: Callable[[list[Row], Ask], Iterable[object]],
) -> Callable[[Rows, Ask], Iterator[bytes]]:
    """Return what renders a short answer of all of its rows."""

    def render(rows: Rows, ask: Ask) -> Iterator[bytes]:
        yield from listed(make([row for piece in rows for row in piece], ask))

    return render
