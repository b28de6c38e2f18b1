"""The record of a segment: one immutable Parquet file, and the facts of it that planners and readers need.

A segment has a random id and no state in its name. Where it is visible is said by entries (`core/log/entries.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from carnac.core.segments.lateness import LateRows
from carnac.core.showing import Shown
from carnac.core.time.intervals import Interval, interval_text
from carnac.core.words import bytes_text, number_text

TIME_COLUMN = "__time"
PART_MAX = 255
"""Bytes of a part of a path that file systems take; letters that are not ASCII take several."""

Scalar: TypeAlias = str | int | float | bool | None


class ColumnType(StrEnum):
    """The type of a column's values. The value is the word used in specs, records and reports."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    FLOAT = "float"
    BOOLEAN = "boolean"
    JSON = "json"
    """Nested data, kept as JSON text."""
    STRING_ARRAY = "array<string>"
    """A multi-value dimension or an array of strings."""
    LONG_ARRAY = "array<long>"
    DOUBLE_ARRAY = "array<double>"
    HLL = "hll"
    """Apache DataSketches HLL bytes; also `theta` and `quantiles` are sketch bytes."""
    THETA = "theta"
    QUANTILES = "quantiles"

    @property
    def is_sketch(self) -> bool:
        """Whether values are the bytes of a mergeable sketch."""
        return self in {ColumnType.HLL, ColumnType.THETA, ColumnType.QUANTILES}


TEXT_TYPES = frozenset({ColumnType.STRING, ColumnType.JSON})
"""Types of columns that hold texts."""
NUMBER_TYPES = frozenset({ColumnType.LONG, ColumnType.DOUBLE, ColumnType.FLOAT})
ELEMENT_TYPES: Mapping[ColumnType, ColumnType] = {
    ColumnType.STRING_ARRAY: ColumnType.STRING,
    ColumnType.LONG_ARRAY: ColumnType.LONG,
    ColumnType.DOUBLE_ARRAY: ColumnType.DOUBLE,
}
"""Types of lists, with the types of their elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a segment file other than `__time`, with statistics over the file's rows for pruning.

    Attributes:
        null_count: Rows in which it is null; None if unknown.
        min_value: A lower bound of the non-null values, comparable as the type is; None if unknown (also for
            sketches, arrays, JSON, NaN-holding floats, and when all values are null).
        max_value: An upper bound; None if unknown.
    """

    name: str
    type: ColumnType
    null_count: int | None = None
    min_value: Scalar = None
    max_value: Scalar = None


class MetricKind(StrEnum):
    """How a metric of several rows becomes the metric of one.

    All are mergeable in any order; first and last go by the time that they keep beside the value.
    """

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"
    HLL = "hll"
    THETA = "theta"
    QUANTILES = "quantiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A rolled-up column.

    Attributes:
        input: Column of the input rows; None for `count`.
        type: Type of the stored column (the sketch's type for sketches).
        params: Sketch sizes: `lg_k` of HLL, `lg_k` of theta, `k` of quantiles. Sorted pairs.
        is_state: The input column already holds states (sketch bytes, or counts for `count`): merge, do not update.
    """

    name: str
    kind: MetricKind
    input: str | None
    type: ColumnType
    params: tuple[tuple[str, int], ...] = ()
    is_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupSpec:
    """How the rows of a segment were rolled up; None in its place means that they are raw.

    Attributes:
        query_granularity: Canonical text of the granularity to which `__time` was truncated.
        dimensions: Group-by columns in order, without `__time`.
        is_perfect: No two rows of one commit and chunk share time and dimensions.
    """

    query_granularity: str
    dimensions: tuple[str, ...]
    metrics: tuple[Metric, ...]
    is_perfect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedPartition:
    """Rows of one hash bucket: `hash(dimensions) % buckets == bucket`.

    Attributes:
        dimensions: Columns hashed, in order; empty means all dimensions.
        function: Name and version of the hash, so that a reader prunes only what it can compute.
    """

    dimensions: tuple[str, ...]
    bucket: int
    buckets: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePartition:
    """Rows whose `dimensions` lie, as a tuple, in `[start, end)`; None is unbounded; null sorts first.

    Values are compared as the columns' types are.
    """

    dimensions: tuple[str, ...]
    start: tuple[Scalar, ...] | None
    end: tuple[Scalar, ...] | None


Partition: TypeAlias = HashedPartition | RangePartition


ROW_HASH_VERSION = 3
"""Version of the current row hash (`carnac.rows.row_hash`); raised with every change of a row's hash."""


class _ColumnsLater:
    """Loads a segment's columns when they are first read: they are most of a record, and rarely wanted."""

    __slots__ = ("_columns_later",)

    _columns_later: tuple[Callable[[bytes], tuple[Column, ...]], bytes]

    def leave_columns(self, decode: Callable[[bytes], tuple[Column, ...]], text: bytes) -> None:
        """Forget the columns of a new segment; a caller is given those that `decode` makes of the text."""
        object.__delattr__(self, "columns")
        object.__setattr__(self, "_columns_later", (decode, text))

    if not TYPE_CHECKING:  # a misspelt attribute is still found by mypy

        def __getattr__(self, name: str) -> object:
            if name != "columns":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            decode, text = self._columns_later
            columns = decode(text)
            object.__setattr__(self, "columns", columns)
            return columns


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Segment(_ColumnsLater, Shown):
    """The record of one segment file.

    Attributes:
        segment_id: Random; says nothing, and never changes.
        datasource: That it was written for.
        chunk: The time chunk it was written for. Where its rows are now is said by its entries.
        path: Place in deep storage, relative to its root, `/`-separated.
        size_bytes: Of the file.
        rows: Rows in the file, > 0.
        input_rows: Input rows that went into them (equal to `rows` without rollup).
        min_time_ms: Time of the earliest row.
        max_time_ms: Time of the latest row, inclusive.
        columns: All columns except `__time`, in file order.
        sort_columns: The rows are sorted by these, ascending, nulls first.
        query_granularity: Canonical text; `none` keeps milliseconds.
        rollup: None if the rows are raw.
        partition: None for dynamic partitioning.
        checksum: `<algorithm>:<hex>` over the file's bytes.
        blocks: Checksums of the blocks of the file (`carnac.core.segments.blocks`); empty: it has none.
        row_hash: Order-independent hash of the rows (sum of row hashes modulo 2**64), for conservation proofs.
        row_hash_version: Of the definition of `row_hash`; that of another one says nothing to this Carnac.
        created_at_ms: When the file was written.
        attributes: Further notes of its writer, by name: numbers and texts.
        late: Its rows that were late when they were appended; None if none was.
    """

    segment_id: str
    datasource: str
    chunk: Interval
    path: str
    size_bytes: int
    rows: int
    input_rows: int
    min_time_ms: int
    max_time_ms: int
    columns: tuple[Column, ...]
    sort_columns: tuple[str, ...] = ()
    query_granularity: str = "none"
    rollup: RollupSpec | None = None
    partition: Partition | None = None
    checksum: str = ""
    blocks: str = ""
    row_hash: int = 0
    row_hash_version: int = ROW_HASH_VERSION
    created_at_ms: int = 0
    attributes: Mapping[str, Scalar] = field(default_factory=dict)
    late: LateRows | None = None

    @property
    def span(self) -> Interval:
        """The smallest interval that holds all its rows."""
        return Interval(self.min_time_ms, self.max_time_ms + 1)

    def _facts(self) -> Mapping[str, str]:
        return {
            "segment": self.segment_id,
            "datasource": self.datasource,
            "time": interval_text(self.span),
            "rows": number_text(self.rows),
            "size": bytes_text(self.size_bytes),
        }


def safe_name(datasource: str) -> str:
    """Return a datasource's name as one that is safe in paths and URLs."""
    return short_part(quote(datasource, safe=" ").replace(" ", "_").replace(".", "%2E"))


def short_part(name: str) -> str:
    """Return a part of a path as it is, or of one that is too long its beginning and a digest."""
    if len(name) <= PART_MAX:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
    start = name[: PART_MAX - len(digest) - 1]
    return f"{re.sub('%.?$', '', start)}-{digest}"
