"""Row hash, version 2: one 64-bit number for a set of rows, whatever their order, files and row groups.

The hash of a set is the sum of its rows' hashes modulo 2**64; so the hash of a union is the sum of the hashes. It
proves that a rewrite kept the rows; it is no defence against somebody who makes up rows to fool it.

    row    = mix(sum over non-null columns of fold(code(value) ^ seed(column name)) * factor(column name))
    code   = of booleans, integers and floats: the 64 bits of the integer if the value is one (within ±2**53 for
             floats), else the bits of the double; of text and bytes: see `_text_codes`; of a list: that of its only
             element if it has one, else a sum of mixed elements and places
    fold   = of x: x ^ (x >> 32), so that what differs in high bits alone, as many doubles do, differs in low ones
    factor = odd, so that a value that changes changes its row, and values that change places do
    mix    = the finalizer of splitmix64

Only values count, not how they are kept: a column that is absent is a column of nulls, a long that was widened to
double (or an element to a list of it) keeps its code, and columns go by name, not by place. A null differs from an
empty text. Everything is wrapping integer arithmetic in numpy, so no version of an engine changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.core.segments import TIME_COLUMN
from carnac.errors import InvariantError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]

MASK = (1 << 64) - 1
LONG_TEXT_BYTES = 64
"""Longer texts and bytes are hashed one by one (BLAKE2b), shorter ones all at once."""
EXACT_LIMIT = 1 << 53
_NAN = np.array([np.nan]).view(np.uint64)[0]
BLOCK_ROWS = 32_768
"""Rows that are hashed at a time."""
FEW_ROWS = 4_096
"""So many rows or fewer are hashed all columns at once: a call costs more there than what it does."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_FOLD = np.uint64(32)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_NULL_ELEMENT = np.uint64(0xA5A5F00DDEADBEEF)
_LIST = np.uint64(0x6C62272E07BB0142)


def hash_rows(rows: pa.RecordBatch | pa.Table, *, seeds: tuple[str, ...] | None = None) -> int:
    """Return the hash of the rows.

    Args:
        seeds: Names under which the columns count, if not their own.
    """
    names = seeds or tuple(rows.schema.names)
    columns = [(name, _one_array(one)) for name, one in zip(names, rows.columns, strict=True)]
    if rows.num_rows <= FEW_ROWS:
        return int(mix(_few(columns, rows.num_rows)).sum(dtype=np.uint64))
    parts = [by_block(name, column) for name, column in columns]
    total = 0
    for start in range(0, rows.num_rows, BLOCK_ROWS):
        end = min(start + BLOCK_ROWS, rows.num_rows)
        block = np.zeros(end - start, np.uint64)
        for part in parts:
            block += part(start, end)
        total += int(mix(block).sum(dtype=np.uint64))
    return total & MASK


def _few(columns: list[tuple[str, pa.Array]], rows: int) -> Codes:
    """Return the sum of what the columns add to the hash of each row; numbers are mixed together, and so are texts."""
    total = np.zeros(rows, np.uint64)
    numbers, texts = [], []
    for name, column in columns:
        kind = column.type
        if pa.types.is_string(kind):
            texts.append((name, column.dictionary_encode()))
        elif pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
            texts.append((name, column))
        elif pa.types.is_primitive(kind):
            numbers.append((name, column))
        else:
            total += column_hash(name, column)
    if numbers:
        codes = np.empty((len(numbers), rows), np.uint64)
        for (_, column), own in zip(numbers, codes, strict=True):
            own[:] = _codes(column)
        names = [name for name, _ in numbers]
        mixed = _column_codes(codes, *_constants(names))
        for (_, column), own in zip(numbers, mixed, strict=True):
            total += _without_nulls(own, column)
    _add_texts(total, [(name, column) for name, column in texts if len(column.dictionary)])
    return total


def _add_texts(total: Codes, columns: list[tuple[str, pa.DictionaryArray]]) -> None:
    """Add to each row what its texts add to its hash; the words of all columns are hashed together."""
    if not columns:
        return
    words = pa.concat_arrays([column.dictionary for _, column in columns])
    counts = [len(column.dictionary) for _, column in columns]
    seeds, factors = _constants([name for name, _ in columns], counts)
    codes = _without_nulls(_column_codes(_codes(words), seeds, factors), words)
    start = 0
    for (_, column), count in zip(columns, counts, strict=True):
        indices = column.indices
        own = codes[start : start + count][_numbers(_filled(indices, 0))]
        total += _without_nulls(own, indices)
        start += count


def by_block(name: str, column: pa.Array | pa.ChunkedArray) -> Callable[[int, int], Codes]:
    """Return what gives, for some rows, what `column_hash` gives for all: what fits a processor's cache is fast."""
    column = _one_array(column)
    if pa.types.is_string(column.type):  # most texts repeat, so hash the distinct ones
        column = column.dictionary_encode()
    if not (pa.types.is_dictionary(column.type) or pa.types.is_primitive(column.type)):
        whole = column_hash(name, column)
        return lambda start, end: whole[start:end]
    if pa.types.is_primitive(column.type):
        return lambda start, end: column_hash(name, column.slice(start, end - start))
    distinct = column_hash(name, column.dictionary)
    if not len(distinct):
        return lambda start, end: np.zeros(end - start, np.uint64)
    by_index, indices = pa.array(distinct), column.indices
    return lambda start, end: _taken(by_index, indices.slice(start, end - start))


def column_hash(name: str, column: pa.Array | pa.ChunkedArray) -> Codes:
    """Return what each value of a column adds to the hash of its row; 0 where it is null."""
    column = _one_array(column)
    if pa.types.is_dictionary(column.type):
        distinct = column_hash(name, column.dictionary)
        if not len(distinct):
            return np.zeros(len(column), np.uint64)
        return _taken(pa.array(distinct), column.indices)
    codes = _column_codes(_codes(column), *_constant(name))
    return _without_nulls(codes, column)


def add_hashes(*hashes: int) -> int:
    """Return the hash of the union of sets of rows, which may share rows."""
    return sum(hashes) & MASK


def _column_codes(codes: Codes, seed: Any, factor: Any) -> Codes:
    """Return what codes of values add to the hash of their rows; makes one new array and works in it."""
    own: Codes = codes ^ seed
    own ^= own >> _FOLD
    own *= factor
    return own


@cache
def _constant(name: str) -> tuple[np.uint64, np.uint64]:
    """Return the seed and the odd factor of a column."""
    digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"carnac-column").digest()
    factor = int.from_bytes(digest[8:], "little") | 1
    return np.uint64(int.from_bytes(digest[:8], "little")), np.uint64(factor)


def _constants(names: list[str], counts: list[int] | None = None) -> tuple[Codes, Codes]:
    """Return seeds and factors of columns: one row for each column, or each repeated as often as `counts` says."""
    seeds, factors = np.array([_constant(name) for name in names], np.uint64).T
    if counts is None:
        return seeds[:, np.newaxis], factors[:, np.newaxis]
    return np.repeat(seeds, counts), np.repeat(factors, counts)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def _numbers(array: pa.Array) -> NDArray[Any]:
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def _taken(values: pa.UInt64Array, indices: pa.Array) -> Codes:
    """Return the value of each index; 0 where it is null."""
    codes = pc.take(values, indices, boundscheck=False)
    taken: Codes = _numbers(_filled(codes, 0))
    return taken


def _filled(array: pa.Array, value: float) -> pa.Array:
    """Return the array with the value for nulls; the same array, not a copy, if there are none."""
    return array.fill_null(value) if array.null_count else array


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)


def _without_nulls(codes: Codes, array: pa.Array) -> Codes:
    if array.null_count == 0:
        return codes
    return np.where(_numbers(array.is_valid()), codes, np.uint64(0))


def mix(values: Codes) -> Codes:
    """Return splitmix64's finalizer of each value; makes one new array and works in it."""
    mixed: Codes = values + _GOLDEN
    shifted = np.empty_like(mixed)
    mixed ^= np.right_shift(mixed, _SHIFT_1, out=shifted)
    mixed *= _MULTIPLY_1
    mixed ^= np.right_shift(mixed, _SHIFT_2, out=shifted)
    mixed *= _MULTIPLY_2
    mixed ^= np.right_shift(mixed, _SHIFT_3, out=shifted)
    return mixed


def _codes(array: pa.Array) -> Codes:
    """Return the code of each value; anything where it is null."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return _numbers(_filled(array.cast(pa.uint8()), 0)).astype(np.uint64)
    if pa.types.is_timestamp(kind):
        micros = _cast(array, pa.timestamp("us", tz=kind.tz)).view(pa.int64())
        return _numbers(_filled(micros, 0)).view(np.uint64)
    if pa.types.is_integer(kind):
        return _numbers(_filled(_cast(array, pa.int64()), 0)).view(np.uint64)
    if pa.types.is_floating(kind):
        return _float_codes(_numbers(_filled(_cast(array, pa.float64()), 0.0)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_codes(array)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.uint64)
    if kind in _TEXTS:
        return _text_codes(array)
    try:
        return _text_codes(array.cast(pa.large_binary()))
    except pa.ArrowNotImplementedError:
        raise InvariantError(f"rows with a column of type {kind} cannot be hashed") from None


def _float_codes(values: NDArray[np.float64]) -> Codes:
    with np.errstate(invalid="ignore"):  # what is no integer, or too large for one, stays as bits
        whole = values.astype(np.int64)
    is_exact = whole == values
    is_exact &= (whole + EXACT_LIMIT).view(np.uint64) <= np.uint64(2 * EXACT_LIMIT)
    codes: Codes = values.copy().view(np.uint64)
    is_nan = values != values  # noqa: PLR0124  # the one value that differs from itself
    if is_nan.any():
        codes[is_nan] = _NAN
    np.copyto(codes, whole.view(np.uint64), where=is_exact)
    return codes


def _places(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each element in its own list: 0, 1, … for each list, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(before, lengths)


def _sums(values: Codes, lengths: NDArray[np.int64]) -> Codes:
    """Return the wrapping sum of each run of `lengths` values."""
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    ends = np.cumsum(lengths)
    sums: Codes = running[ends] - running[ends - lengths]
    return sums


def _weights(places: Codes) -> Codes:
    """Return a fixed odd number for each place."""
    weights: Codes = mix(places) | np.uint64(1)
    return weights


_TEXT_WEIGHTS = _weights(np.arange(LONG_TEXT_BYTES, dtype=np.uint64))


_TEXTS = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}
_SHORT_OFFSETS = {pa.string(), pa.binary()}


def _text_codes(array: pa.Array) -> Codes:
    """Return, for texts up to `LONG_TEXT_BYTES`, mix(length + sum of (byte + 1) · weight(place)); else BLAKE2b."""
    count = len(array)
    if not count:
        return np.empty(0, np.uint64)
    _, places, data = array.buffers()
    width = np.int32 if array.type in _SHORT_OFFSETS else np.int64
    offsets = np.frombuffer(places, width)[array.offset : array.offset + count + 1].astype(np.int64)
    lengths = offsets[1:] - offsets[:-1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    is_long = lengths > LONG_TEXT_BYTES
    if count <= FEW_ROWS and not is_long.any():
        return _few_text_codes(raw[offsets[0] : offsets[-1]], lengths)
    short = np.where(is_long, 0, lengths)
    codes = lengths.astype(np.uint64)
    everywhere = int(short.min(initial=LONG_TEXT_BYTES))
    for place in range(int(short.max(initial=0))):
        if place < everywhere:
            letters = raw[offsets[:-1] + place].astype(np.uint64)
            codes += (letters + np.uint64(1)) * _TEXT_WEIGHTS[place]
            continue
        longer = np.flatnonzero(short > place)
        letters = raw[offsets[longer] + place].astype(np.uint64)
        codes[longer] += (letters + np.uint64(1)) * _TEXT_WEIGHTS[place]
    codes = mix(codes)
    for index in np.flatnonzero(is_long):
        text = raw[offsets[index] : offsets[index + 1]]
        digest = hashlib.blake2b(text.data, digest_size=8).digest()
        codes[index] = int.from_bytes(digest, "little")
    return codes


def _few_text_codes(raw: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Codes:
    """Return the codes of texts that stand one after the other in `raw`: byte by byte, not place by place."""
    letters = (raw.astype(np.uint64) + np.uint64(1)) * _TEXT_WEIGHTS[_places(lengths)]
    return mix(_sums(letters, lengths) + lengths.astype(np.uint64))


def _list_codes(array: pa.Array) -> Codes:
    flat = array.flatten()
    lengths = _numbers(pc.list_value_length(array).fill_null(0)).astype(np.int64)
    elements = _codes(flat) if len(flat) else np.empty(0, np.uint64)
    if flat.null_count:
        elements = np.where(_numbers(flat.is_valid()), elements, _NULL_ELEMENT)
    places = _places(lengths)
    weights = _weights(places.astype(np.uint64))
    codes = mix(_sums(mix(elements) * weights, lengths) + lengths.astype(np.uint64) + _LIST)
    is_single = lengths == 1
    if is_single.any():
        first = np.minimum(np.cumsum(lengths) - lengths, max(len(elements) - 1, 0))
        codes = np.where(is_single, elements[first], codes)
    return codes


class Pool:
    """Hands rows on in tables of some size: measuring a small one costs more in calls and words than in rows."""

    def __init__(self, take: Callable[[pa.Table], object]) -> None:
        self._take = take
        self._held: list[pa.Table] = []
        self._held_rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows; every table that is added has the same columns."""
        self._held_rows += rows.num_rows
        self._held.append(rows)
        if self._held_rows >= BLOCK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Hand on what is held."""
        if self._held_rows:
            held = self._held[0] if len(self._held) == 1 else pa.concat_tables(self._held)
            self._take(held)
        self._held, self._held_rows = [], 0


class RowMeter:
    """Counts rows and sums their hashes, table by table."""

    def __init__(self) -> None:
        self._rows = 0
        self._row_hash = 0
        self._pool = Pool(self._measure)

    def add(self, rows: pa.Table) -> None:
        """Count rows; every table that is added has the same columns."""
        self._rows += rows.num_rows
        self._pool.add(rows)

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._rows

    @property
    def row_hash(self) -> int:
        """The hash of the rows so far."""
        self._pool.flush()
        return self._row_hash

    def _measure(self, rows: pa.Table) -> None:
        self._row_hash = add_hashes(self._row_hash, hash_rows(rows))


__all__ = [
    "TIME_COLUMN",
    "Pool",
    "RowMeter",
    "add_hashes",
    "by_block",
    "column_hash",
    "hash_rows",
    "mix",
]
