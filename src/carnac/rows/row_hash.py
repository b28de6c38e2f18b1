"""Row hash, version 3: one 64-bit number for a set of rows, whatever their order, files and row groups.

`core.segments.segment.ROW_HASH_VERSION` has the version: segments record it, and their hash counts only where it is
this one. A change of the hash of any row raises it.

The hash of a set is the sum of its rows' hashes modulo 2**64; so the hash of a union is the sum of the hashes. It
proves that a rewrite kept the rows; it is no defence against somebody who makes up rows to fool it.

    row    = mix(sum over non-null columns of fold(code(value)) * factor(column name) + seed(column name))
    code   = of booleans, integers and floats: the bits of the value as a double, if it is one (of an integer that is
             none: mix of its bits); of times: their microseconds; of text and bytes: see `value_codes`; of a list:
             that of its only element if it has one, else a sum of mixed elements and places
    fold   = of x: x ^ (x >> 32), so that values that differ in high bits alone, as many doubles do, differ in low ones
    factor = odd, so that a value that changes changes its row, and values that change places do
    mix    = the finalizer of splitmix64

Only values count, not how they are kept: a column that is absent is a column of nulls, a long that was widened to
double (or an element to a list of it) keeps its code, and columns go by name, not by place. A null differs from an
empty text. Everything is wrapping integer arithmetic in numpy, so no version of an engine changes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from carnac.rows.value_codes import FOLD, codes_of, mix, number_codes, numpy_of, one_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]
    AddBlock = Callable[[int, int, Codes], None]

MASK = (1 << 64) - 1
BLOCK_ROWS = 16_384
"""Rows that are hashed at a time, in arrays that stay in a processor's cache."""
POOL_ROWS, POOL_TABLES = 65_536, 64
"""Rows, and tables, that are waited for before they are hashed, where they come in small tables."""
FEW_ROWS = 128
"""Texts of up to so many rows are hashed as they come: finding those that repeat takes longer. All flat columns of so
few rows are hashed together.
"""
CONSTANTS_KEPT = 256
"""Lists of columns whose constants are kept."""
TEXT_BYTES = 1 << 30
"""More than that might not fit into one array of texts, whose offsets have 32 bits."""


def hash_rows(rows: pa.RecordBatch | pa.Table) -> int:
    """Return the hash of the rows."""
    return hash_columns(list(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows)


def hash_columns(columns: Iterable[tuple[str, pa.Array | pa.ChunkedArray]], rows: int) -> int:
    """Return the hash of so many rows, of which each column has a value."""
    sums = RowSums(columns)
    total = 0
    for start, end in blocks(rows):
        block = np.zeros(end - start, np.uint64)
        sums.add(start, end, block)
        total += int(mix(block).sum(dtype=np.uint64))
    return total & MASK


def blocks(rows: int) -> Iterable[tuple[int, int]]:
    """Return where the blocks of so many rows start and end."""
    return ((start, min(start + BLOCK_ROWS, rows)) for start in range(0, rows, BLOCK_ROWS))


class RowSums:
    """The share of some columns in the hash of each row, in blocks that fit a processor's cache."""

    def __init__(self, columns: Iterable[tuple[str, pa.Array | pa.ChunkedArray]]) -> None:
        self._seeds = np.uint64(0)  # of the columns whose seed each row has
        words, few, others = [], [], []
        for name, given in columns:
            column = _ready(given)
            if _has_texts(column.type):
                words.append((name, column))
            elif len(column) <= FEW_ROWS and _is_flat(column.type):
                few.append((name, column))
            else:
                others.append((name, column))
        if words or others:
            self._codes, self._scratch = np.empty((2, BLOCK_ROWS), np.uint64)
        hashed = zip(words, _word_hashes(words), strict=True)
        self._parts = [self._words(column, hashes) for (_, column), hashes in hashed]
        self._parts += [self._together(few)] if few else []
        self._parts += [
            self._numbers(name, column)
            if pa.types.is_primitive(column.type)
            else self._part(name, column)
            for name, column in others
        ]

    def add(self, start: int, end: int, total: Codes) -> None:
        """Add what the columns add to the rows from `start` to `end`, at most `BLOCK_ROWS`, to `total`."""
        total += self._seeds
        for part in self._parts:
            part(start, end, total)

    def _numbers(self, name: str, column: pa.Array) -> AddBlock:
        """Return what adds a column of numbers or times, in arrays that are made once."""
        put = number_codes(column)
        seed, factor = _constant(name)
        is_valid = numpy_of(column.is_valid()) if column.null_count else None
        if is_valid is None:
            self._seeds = np.add(self._seeds, seed)

        def add(start: int, end: int, total: Codes) -> None:
            codes, own = self._codes[: end - start], self._scratch[: end - start]
            put(start, end, codes)
            np.right_shift(codes, FOLD, out=own)
            own ^= codes
            own *= factor
            if is_valid is not None:
                own += seed
                own *= is_valid[start:end]
            total += own

        return add

    def _part(self, name: str, column: pa.Array) -> AddBlock:
        def add(start: int, end: int, total: Codes) -> None:
            total += column_hash(name, column.slice(start, end - start))

        return add

    def _together(self, columns: list[tuple[str, pa.Array]]) -> AddBlock:
        """Return what adds flat columns of few rows, which take more calls than work."""
        codes = np.empty((len(columns), len(columns[0][1])), np.uint64)
        texts = []
        for place, (_, column) in enumerate(columns):
            if pa.types.is_string(column.type):
                texts.append(place)
            else:
                number_codes(column)(0, len(column), codes[place])
        if texts:
            words = pa.concat_arrays([columns[place][1] for place in texts])
            codes[texts] = codes_of(words).reshape(len(texts), -1)
        hashes = _folded(codes, *_constants(tuple(name for name, _ in columns)))
        for place, (_, column) in enumerate(columns):
            if column.null_count:
                hashes[place] *= numpy_of(column.is_valid())
        sums: Codes = hashes.sum(axis=0, dtype=np.uint64)

        def add(start: int, end: int, total: Codes) -> None:
            total += sums[start:end]

        return add

    def _words(self, column: pa.DictionaryArray, hashes: Codes) -> AddBlock:
        places = _word_places(column, len(hashes) - 1)

        def add(start: int, end: int, total: Codes) -> None:
            taken = self._scratch[: end - start]
            np.take(hashes, places[start:end], out=taken, mode="clip")  # "raise" copies
            total += taken

        return add


def _ready(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; texts as a dictionary, because most repeat, but not if they do not or are few."""
    kind = column.type
    if pa.types.is_dictionary(kind) and (not _has_texts(kind) or _is_rare(column)):
        return one_array(_decoded(column))
    if pa.types.is_string(kind) and len(column) > FEW_ROWS:
        column = column.dictionary_encode()
    return one_array(column)


def _has_texts(kind: pa.DataType) -> bool:
    """Whether a column is a dictionary of texts."""
    return bool(pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type))


def _is_flat(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_primitive(kind))


def _word_hashes(columns: list[tuple[str, pa.DictionaryArray]]) -> Iterator[Codes]:
    """Yield for each column what each word adds to the hash of a row, and 0 for a null, which is the last one.

    The words of all columns are hashed together.
    """
    if not columns:
        return
    each = [column.dictionary for _, column in columns]
    if sum(words.nbytes for words in each) > TEXT_BYTES:
        each = [words.cast(pa.large_string()) for words in each]
    words = pa.concat_arrays(each)
    codes = np.empty(len(words), np.uint64)
    for start, end in blocks(len(words)):
        codes[start:end] = codes_of(words.slice(start, end - start))
    start = 0
    for name, column in columns:
        end = start + len(column.dictionary)
        hashes = np.zeros(end - start + 1, np.uint64)
        hashes[:-1] = _without_nulls(_folded(codes[start:end], *_constant(name)), column.dictionary)
        yield hashes
        start = end


def _word_places(column: pa.DictionaryArray, null: int) -> NDArray[Any]:
    """Return the place of each row's word; `null` where it is null."""
    indices = column.indices
    return numpy_of(indices.cast(pa.int64()).fill_null(null) if indices.null_count else indices)


def column_hash(name: str, column: pa.Array) -> Codes:
    """Return what each value of a column, which is no dictionary, adds to the hash of its row; 0 where it is null."""
    return _without_nulls(_folded(codes_of(column), *_constant(name)), column)


def add_hashes(*hashes: int) -> int:
    """Return the hash of the union of sets of rows, which may share rows."""
    return sum(hashes) & MASK


def _folded(codes: Codes, seed: np.uint64 | Codes, factor: np.uint64 | Codes) -> Codes:
    """Return what codes of values add to the hash of their rows."""
    own: Codes = np.right_shift(codes, FOLD)
    own ^= codes
    own *= factor
    own += seed
    return own


@cache
def _constant(name: str) -> tuple[np.uint64, np.uint64]:
    """Return the seed and the odd factor of a column."""
    digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"carnac-column").digest()
    factor = int.from_bytes(digest[8:], "little") | 1
    return np.uint64(int.from_bytes(digest[:8], "little")), np.uint64(factor)


@lru_cache(CONSTANTS_KEPT)
def _constants(names: tuple[str, ...]) -> tuple[Codes, Codes]:
    """Return the seeds and factors of columns, one below the other."""
    seeds, factors = np.array([_constant(name) for name in names], np.uint64).T[..., np.newaxis]
    return seeds, factors


def _is_rare(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column has more words than rows: uniting its dictionaries would take longer than hashing its rows."""
    chunks = [column] if isinstance(column, pa.Array) else column.chunks
    return sum(len(chunk.dictionary) for chunk in chunks) > len(column)


def _decoded(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.Array):
        return column.dictionary_decode()
    return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks])


def _without_nulls(codes: Codes, array: pa.Array) -> Codes:
    if array.null_count == 0:
        return codes
    return np.where(numpy_of(array.is_valid()), codes, np.uint64(0))


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
        if self._held_rows >= POOL_ROWS or len(self._held) >= POOL_TABLES:
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
