"""The conservation proof of a rewrite: sums of the rows that went in and came out, taken in the pass that moves them.

Rows that are only moved are counted and hashed (`carnac.rows.row_hash`). For rows that go in, count and hash are in the
record of a segment, made when its file was written. So the proof spans the file, its reading, sorting, cutting and
writing. The rows that a clip hides are subtracted. Rows are hashed as they are read where a clip hides more than it
shows, and where a wider type, a dropped column or truncation makes them others than those of the record. Rows that come
out are hashed by the writer as it writes.

Rows that are rolled up change, so a linear function of them is compared: for each row, the hash of its key (time and
dimensions) times the number of rows behind it plus each whole-number sum, which has an odd factor of its own, all
modulo 2**64. The total is the same before and after rows of one key are added up. It is another one if a row is lost,
doubled, or moved to another key, or if a sum changes. Sums of doubles are compared as sums, once plain and once
weighted by key; least and greatest values of `min` and `max` as such. Every rolled-up row is also hashed before it goes
to the writer and in the writer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from carnac.core.log.commits import ConservationProof
from carnac.core.segments.segment import TEXT_TYPES, TIME_COLUMN, ColumnType, MetricKind
from carnac.rows.normalise.shape import ROWS_COLUMN, RowShape
from carnac.rows.row_hash import MASK, RowSums, add_hashes, blocks, column_hash
from carnac.rows.value_codes import filled, mix, numpy_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]

_HALF = np.array([0.5]).view(np.uint64)[0]
"""With other low bits it is a number from 0.5 to 1."""
WEIGHTED = " by key"
"""Ends the name of a sum that is weighted by key."""
TINY, HUGE = sys.float_info.min, sys.float_info.max / 4
"""Sums of less are compared as if they were of this size, and so are those of more."""
FLOAT_SLACK = 1024.0
"""Factor by which float sums are compared more coarsely than double sums: each merge rounds them to 24 bits."""


class Side:
    """The totals of one side of a rewrite: rows that went in, or rows that came out."""

    def __init__(self) -> None:
        self.rows = 0
        self.row_hash = 0
        self.sums: dict[str, float] = {}
        self.magnitudes: dict[str, float] = {}

    def add_known(self, rows: int, row_hash: int) -> None:
        """Add rows whose hash is known."""
        self.rows += rows
        self.row_hash = add_hashes(self.row_hash, row_hash)

    def add(self, other: Side) -> None:
        """Add the rows of another part of this side."""
        self.add_known(other.rows, other.row_hash)
        for name, value in other.sums.items():
            known = self.sums.get(name)
            if known is None or name.startswith(f"{MetricKind.MIN} of "):
                self.sums[name] = value if known is None else min(known, value)
            elif name.startswith(f"{MetricKind.MAX} of "):
                self.sums[name] = max(known, value)
            else:
                self.sums[name] = known + value
        for name, value in other.magnitudes.items():
            self.magnitudes[name] = self.magnitudes.get(name, 0.0) + value

    def add_states(
        self, shape: RowShape, table: pa.Table | pa.RecordBatch, *, hashes_rows: bool = False
    ) -> int:
        """Add rolled-up rows; a column `__rows` says how many rows each stands for, else one.

        Returns:
            Hash of the rows as rows of a segment, if `hashes_rows`, else 0. The hashes of keys are computed once for
            both.
        """
        keyed = [TIME_COLUMN, *shape.dimension_names]
        rest = [name for name, _ in shape.segment_columns if name not in keyed]
        by_key = RowSums((name, table.column(name)) for name in keyed)
        by_rest = RowSums((name, table.column(name)) for name in (rest if hashes_rows else ()))
        row_hash = 0
        for start, end in blocks(table.num_rows):
            total = np.zeros(end - start, np.uint64)
            by_key.add(start, end, total)
            self._add_block(shape, table.slice(start, end - start), mix(total))
            if hashes_rows:
                by_rest.add(start, end, total)
                row_hash += int(mix(total).sum(dtype=np.uint64))
        return row_hash & MASK

    def _add_block(self, shape: RowShape, table: pa.Table | pa.RecordBatch, keys: Codes) -> None:
        weights = np.ones(table.num_rows, np.uint64)
        if ROWS_COLUMN in table.schema.names:
            weights = _whole(table.column(ROWS_COLUMN))
        self.rows += int(weights.sum(dtype=np.uint64))
        whole = weights
        by_key = None
        for metric in shape.metrics:
            column = table.column(metric.name)
            if metric.kind in {MetricKind.COUNT, MetricKind.SUM}:
                if metric.type is ColumnType.LONG:
                    whole = whole + _whole(column) * _factor_of(metric.name)
                elif metric.type in {ColumnType.DOUBLE, ColumnType.FLOAT}:
                    if by_key is None:
                        by_key = ((keys >> np.uint64(12)) | _HALF).view(np.float64)
                    slack = FLOAT_SLACK if metric.type is ColumnType.FLOAT else 1.0
                    self._add_doubles(metric.name, by_key, column, slack)
            elif metric.kind in {MetricKind.MIN, MetricKind.MAX} and metric.type not in TEXT_TYPES:
                self._add_bound(metric.name, metric.kind, column)
        total = int((keys * whole).sum(dtype=np.uint64))
        self.row_hash = (self.row_hash + total) & MASK

    def _add_doubles(
        self, name: str, by_key: NDArray[np.float64], column: Any, slack: float
    ) -> None:
        values = numpy_of(filled(column, 0.0)).astype(np.float64, copy=False)
        for label, numbers in ((name, values), (name + WEIGHTED, values * by_key)):
            with np.errstate(over="ignore", invalid="ignore"):
                total = float(numbers.sum())  # pairwise: its error is far below what is compared
            if not math.isfinite(total):
                total = math.nan  # does not count, see `prove`
            self.sums[label] = self.sums.get(label, 0.0) + total
        size = slack * float(np.abs(values).sum())
        self.magnitudes[name] = self.magnitudes.get(name, 0.0) + size

    def _add_bound(self, name: str, kind: MetricKind, column: Any) -> None:
        label = f"{kind} of {name}"
        values = numpy_of(column.drop_null() if column.null_count else column)
        if not len(values):
            return
        if kind is MetricKind.MAX:
            pick, found = max, float(values.max())
        else:
            pick, found = min, float(np.fmin.reduce(values))  # passes over NaN
        if math.isnan(found):
            found = math.inf  # NaN is the greatest, as DuckDB has it
        finite = min(max(found, -sys.float_info.max), sys.float_info.max)
        known = self.sums.get(label)
        self.sums[label] = finite if known is None else pick(known, finite)


def prove(went_in: Sequence[Side], came_out: Sequence[Side]) -> ConservationProof:
    """Return the proof of a rewrite whose sides were taken in parts, in the same order of input groups."""
    sums_in: dict[str, float] = {}
    sums_out: dict[str, float] = {}
    for index, (before, after) in enumerate(zip(went_in, came_out, strict=True)):
        mark = f"{index}:" if len(went_in) > 1 else ""
        for name in sorted(before.sums.keys() | after.sums.keys()):
            size = before.magnitudes.get(name.removesuffix(WEIGHTED))
            if size is not None and not math.isfinite(size):
                continue  # infinities and NaN are left to the hash of the rolled-up rows
            scale = 1.0 if size is None else _scale(size)
            # a sum or bound that only one side has is missing in the other, which is no proof
            for sums, side in ((sums_in, before), (sums_out, after)):
                if name in side.sums:
                    sums[mark + name] = side.sums[name] / scale
    return ConservationProof(
        rows_in=sum(side.rows for side in went_in),
        rows_out=sum(side.rows for side in came_out),
        row_hash_in=_hash_of(went_in),
        row_hash_out=_hash_of(came_out),
        sums_in=sums_in,
        sums_out=sums_out,
    )


def _hash_of(sides: Sequence[Side]) -> int:
    """Return the hash of the parts, each with an odd weight of its own, so that no row may change its input group."""
    return add_hashes(*((2 * index + 1) * side.row_hash for index, side in enumerate(sides)))


def _scale(size: float) -> float:
    """Return a power of two near the sum of absolute values: sums that nearly cancel out are compared with that."""
    return math.ldexp(1.0, math.frexp(min(max(size, TINY), HUGE))[1])


@cache
def _factor_of(name: str) -> np.uint64:
    """Return an odd number, so that no value but 0 counts nothing."""
    return np.uint64(int(column_hash(name, pa.array([True]))[0]) | 1)


def _whole(column: Any) -> Codes:
    return numpy_of(filled(column, 0)).astype(np.int64, copy=False).view(np.uint64)
