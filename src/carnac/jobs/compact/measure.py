"""Measures what goes into a rewrite, for the proof.

An input whose rows are read as its record speaks of them is taken from the record, and what a clip hides of it is
subtracted: the hash of a set is a sum, so that costs the hash of the hidden rows alone. Where more is hidden than
shown, where rows are rolled up, where a type, a column or a time is read as another one, and where the record has a row
hash of another version, what was read is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from carnac.core.segments.segment import ROW_HASH_VERSION
from carnac.errors import Corrupt
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.read import ReadPlan, is_clipped, read_tables
from carnac.jobs.compact.shape import ReadUnit
from carnac.jobs.compact.stage import rolled_up
from carnac.ports import SegmentInput
from carnac.rows.row_hash import Pool, RowMeter, hash_rows


def measured(unit: ReadUnit, plan: ReadPlan, side: Side) -> Iterator[pa.Table]:
    """Yield the rows of all inputs, rolled up so far if they are to be; once all are read, they are on the side.

    Raises:
        Corrupt: As `read_tables`.
    """
    if not unit.shape.is_rollup:
        for _, read in as_read(plan, unit.inputs, side):
            yield read
        return
    pool = Pool(partial(side.add_states, unit.shape))
    for source in unit.inputs:
        for read in read_tables(plan, source):
            table = _as_wanted(unit, read)
            pool.add(table)
            yield table
    pool.flush()


def as_read(
    plan: ReadPlan, inputs: Sequence[SegmentInput], side: Side
) -> Iterator[tuple[SegmentInput, pa.Table]]:
    """Yield the rows of inputs as they are; once all are read, they are on the side.

    Raises:
        Corrupt: As `read_tables`.
    """
    shown, hidden = RowMeter(), RowMeter()
    for source in inputs:
        is_known = _is_as_recorded(plan, source) and _shows_most(source)
        for read in read_tables(plan, source, on_hidden=hidden.add if is_known else None):
            if not is_known:
                shown.add(read)
            yield source, read
        if is_known:
            side.add_known(source.segment.rows, source.segment.row_hash)
    side.add_known(shown.rows, shown.row_hash)
    side.add_known(-hidden.rows, -hidden.row_hash)


def measure(unit: ReadUnit, read: pa.Table, side: Side) -> pa.Table:
    """Add rows as they were read to the side that goes in, and return them, rolled up so far if they are to be."""
    table = _as_wanted(unit, read)
    if unit.shape.is_rollup:
        side.add_states(unit.shape, table)
    else:
        side.add_known(table.num_rows, hash_rows(table))
    return table


def _as_wanted(unit: ReadUnit, read: pa.Table) -> pa.Table:
    """Return rows as they were read, rolled up so far if they are to be."""
    return rolled_up(unit, read) if unit.raw_shape is not None else read


def _is_as_recorded(plan: ReadPlan, source: SegmentInput) -> bool:
    """Whether rows are read as the segment's record speaks of them, column by column and type by type."""
    segment = source.segment
    is_comparable = bool(segment.row_hash) and segment.row_hash_version == ROW_HASH_VERSION
    if plan.truncate_to is not None or not is_comparable:
        return False
    wanted = dict(plan.columns)
    return all(wanted.get(column.name) is column.type for column in segment.columns)


def recorded(plan: ReadPlan, inputs: Sequence[SegmentInput]) -> Side | None:
    """Return what the records say of inputs that are read wholly; None if one is not, or not as it was recorded."""
    side = Side()
    for source in inputs:
        if is_clipped(source) or not _is_as_recorded(plan, source):
            return None
        side.add_known(source.segment.rows, source.segment.row_hash)
    return side


def _shows_most(source: SegmentInput) -> bool:
    """Whether at least half of the segment's span is to be read: the fewer rows are the ones to hash."""
    span = source.segment.span
    shown = source.visible.inside(span)
    return 2 * sum(piece.duration_ms for piece in shown) >= span.duration_ms


def blame_inputs(plan: ReadPlan, inputs: Sequence[SegmentInput]) -> None:
    """Find out whether rows that differ from what was recorded are an input's fault.

    Raises:
        Corrupt: A file does not hold the rows that its record speaks of.
    """
    for source in inputs:
        segment = source.segment
        if not _is_as_recorded(plan, source):
            continue
        found = RowMeter()
        whole = SegmentInput.whole(segment)
        for table in read_tables(plan, whole):
            found.add(table)
        if (found.rows, found.row_hash) != (segment.rows, segment.row_hash):
            raise Corrupt(
                f"file {segment.path} of segment {segment.segment_id} does not hold the rows that its record speaks"
                f" of ({segment.rows} rows recorded, {found.rows} found); run 'verify'",
                segment_id=segment.segment_id,
            )
