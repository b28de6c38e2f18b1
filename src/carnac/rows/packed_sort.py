"""Sorts rows in memory by few machine words: the order of DuckDB's `ORDER BY … ASC NULLS FIRST`, several times faster.

Each sort column becomes small unsigned numbers in its own order (places in a sorted dictionary, distances from the
least value), 0 for null. As many columns as fit are packed into one 64-bit word, so that one sort of words does. Only
rows that tie are looked at again, with the columns that follow. Inputs that come as sorted runs are merged, not sorted:
numpy's stable sort finds the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.segments.segment import ColumnType
from carnac.rows.value_codes import filled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]

WORD_BITS = 64
SORTABLE = frozenset(
    {
        ColumnType.STRING,
        ColumnType.JSON,
        ColumnType.LONG,
        ColumnType.DOUBLE,
        ColumnType.FLOAT,
        ColumnType.BOOLEAN,
    }
)
"""Types of columns that rows can be sorted by here, besides `__time`."""


def sorted_order(rows: pa.RecordBatch, columns: Sequence[str]) -> NDArray[np.int64]:
    """Return the places of the rows in order; rows that are equal in all `columns` keep theirs.

    Texts come as dictionaries without duplicates, or plain.
    """
    left = list(columns)
    word, left = _next_word(rows, left, None)
    order: NDArray[np.int64] = np.argsort(word, kind="stable")
    runs = _ties(word[order]) if left else None
    while left and runs is not None:
        places, run_ids = runs
        tied = order[places]
        word, left = _next_word(rows, left, tied)
        again = np.lexsort((word, run_ids))
        order[places] = tied[again]
        runs = _ties_within(word[again], run_ids[again], places)
    return order


def is_in_order(rows: pa.RecordBatch, columns: Sequence[str]) -> bool:
    """Whether the first of `columns` alone says that the rows are in order: whole numbers, or times, that rise."""
    if not columns:
        return True
    column = rows.column(columns[0])
    kind = column.type
    if column.null_count or not (pa.types.is_int64(kind) or pa.types.is_timestamp(kind)):
        return False
    values = column.view(pa.int64()).to_numpy()
    return bool((values[1:] > values[:-1]).all())


def _next_word(
    rows: pa.RecordBatch, columns: list[str], places: NDArray[np.int64] | None
) -> tuple[Codes, list[str]]:
    """Return the codes of as many of the columns as fit into a word, and the columns that are left."""
    word: Codes | None = None
    room = WORD_BITS
    for index, name in enumerate(columns):
        codes, bits = _codes(rows.column(name), places)
        if word is None:
            word, room = codes, WORD_BITS - bits
            continue
        if bits > room:
            return word, columns[index:]
        word = (word << np.uint64(bits)) | codes
        room -= bits
    if word is None:
        word = np.zeros(rows.num_rows, np.uint64)
    return word, []


def _ties(word: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the places in the order whose word equals a neighbour's, and the number of the run they are in."""
    same = word[1:] == word[:-1]
    if not same.any():
        return None
    is_tied, runs = _runs(same)
    places = np.flatnonzero(is_tied)
    return places, runs[places]


def _ties_within(
    word: Codes, run_ids: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    same = (word[1:] == word[:-1]) & (run_ids[1:] == run_ids[:-1])
    if not same.any():
        return None
    is_tied, runs = _runs(same)
    return places[is_tied], runs[is_tied]


def _runs(same: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return of each place whether it equals a neighbour, and the number of its run.

    Args:
        same: Of each place but the first: whether it equals the one before.
    """
    is_tied = np.zeros(len(same) + 1, bool)
    is_tied[1:] |= same
    is_tied[:-1] |= same
    starts = np.ones(len(is_tied), np.int64)
    starts[1:] = ~same
    return is_tied, np.cumsum(starts)


def _codes(column: pa.Array, places: NDArray[np.int64] | None) -> tuple[Codes, int]:
    """Return numbers that sort as the values do, null as 0, and how many bits they take."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        return _word_codes(column, places)
    is_null = None
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
    values = as_uint64(column)
    if places is not None:
        values = values[places]
        is_null = is_null[places] if is_null is not None else None
    return _compact(values, is_null)


def _word_codes(column: pa.DictionaryArray, places: NDArray[np.int64] | None) -> tuple[Codes, int]:
    count = len(column.dictionary)
    ranks = np.zeros(count + 1, np.uint64)
    ranks[pc.sort_indices(column.dictionary).to_numpy()] = np.arange(1, count + 1, dtype=np.uint64)
    indices = pc.fill_null(column.indices, count) if column.null_count else column.indices
    chosen: Any = indices.to_numpy(zero_copy_only=False)
    if places is not None:
        chosen = chosen[places]
    return ranks[chosen], max(1, int(count).bit_length())


def as_uint64(column: pa.Array) -> Codes:
    """Return the values as unsigned numbers of the same order; anything where they are null."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        numbers: Any = filled(column, 0.0).to_numpy(zero_copy_only=False)
        numbers = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, one zero
        bits = numbers.view(np.int64)
        flipped = np.where(bits < 0, ~bits, bits | np.int64(-(1 << 63)))
        words: Codes = flipped.view(np.uint64)
        return words
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    whole: Any = filled(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    shifted: Codes = whole.view(np.uint64) ^ np.uint64(1 << 63)
    return shifted


def _compact(values: Codes, is_null: NDArray[np.bool_] | None) -> tuple[Codes, int]:
    """Return the values as distances from the least one, in steps of a thousand if all are, and the bits they take."""
    known = values if is_null is None else values[~is_null]
    if not len(known):
        return np.zeros(len(values), np.uint64), 1
    least = known.min()
    distances = values - least
    spread = int(known.max()) - int(least)
    if spread > 1_000_000 and not ((known - least) % np.uint64(1000)).any():
        distances //= np.uint64(1000)  # times in microseconds that are whole milliseconds
        spread //= 1000
    if is_null is None:
        return distances, max(1, spread.bit_length())
    if spread == (1 << WORD_BITS) - 1:  # no room for null: dense ranks
        _, ranks = np.unique(known, return_inverse=True)
        distances = np.zeros(len(values), np.uint64)
        distances[~is_null] = ranks.astype(np.uint64)
        spread = int(ranks.max(initial=0))
    codes = np.where(is_null, np.uint64(0), distances + np.uint64(1))
    return codes, (spread + 1).bit_length()
