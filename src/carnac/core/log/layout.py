"""The time chunk that a row belongs to.

The rule (design section 3): the existing chunk that holds the row's time; else the bucket of the segment granularity;
where that bucket would overlap an existing chunk, the largest finer standard granularity whose bucket does not. The
cells below are that rule for a whole interval at once, so that the rows of one job agree on their chunks.

1. Existing chunks are cells as they are.
2. A bucket of the segment granularity that overlaps none of them is a cell.
3. The free part of each other bucket is filled from the coarsest finer standard granularity down, with buckets that
   lie wholly in the free part.
4. A free piece that is finer than a second stays as it is, as one cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from carnac.core.time.granularity import Granularity, finer_standards
from carnac.core.time.intervals import Interval, IntervalSet, interval_set


def plan_chunks(
    granularity: Granularity,
    existing: Iterable[Interval],
    within: IntervalSet | None,
    interval: Interval,
) -> tuple[Interval, ...]:
    """Return disjoint chunks, in order of time, that together hold every row of `interval`.

    Args:
        granularity: The datasource's segment granularity.
        existing: Live chunks, disjoint, in any order; those outside of `interval` do not matter.
        within: For a replacement: only these instants get chunks, cut at their ends. `existing` must then be empty:
            existing chunks give way.
        interval: The range of the rows.

    Raises:
        Invalid: The interval has more buckets than `BUCKET_LIMIT`.
    """
    if within is not None:
        wanted = within.inside(interval)
        return tuple(
            sorted(
                piece
                for bucket in _buckets_over(granularity, wanted)
                for piece in within.inside(bucket)
                if wanted.overlaps(piece)
            )
        )
    chunks = sorted(existing)
    cells = [chunk for chunk in chunks if chunk.overlaps(interval)]
    for bucket in granularity.buckets(interval):
        overlapped = overlapping(chunks, bucket)
        if overlapped:
            free = IntervalSet((bucket,)).minus(interval_set(overlapped))
            cells.extend(cell for cell in fill_free(free, granularity) if cell.overlaps(interval))
        else:
            cells.append(bucket)
    return tuple(sorted(cells))


def fill_free(free: IntervalSet, granularity: Granularity) -> tuple[Interval, ...]:
    """Return cells that tile `free`: buckets of standard granularities finer than `granularity`, coarsest first."""
    cells: list[Interval] = []
    if not free:  # as where a live chunk is the whole bucket
        return ()
    for finer in finer_standards(granularity):
        taken = [
            bucket for piece in free for bucket in finer.buckets(piece) if piece.contains(bucket)
        ]
        cells.extend(taken)
        free = free.minus(interval_set(taken))
        if not free:
            break
    cells.extend(free)
    return tuple(sorted(cells))


def find_free_cell(free: IntervalSet, granularity: Granularity, at_ms: int) -> Interval:
    """Return the cell of `fill_free` that holds an instant of `free`; nearly always without making the others."""
    coarser: list[Granularity] = []
    for finer in finer_standards(granularity):
        bucket = finer.bucket(at_ms)
        if free.contains(bucket):
            # buckets of 6 hours are not parts of those of 8, nor weeks of months: one of those may come first
            others = (other for one in coarser for other in one.buckets(bucket))
            if any(free.contains(other) for other in others):
                break
            return bucket
        coarser.append(finer)
    return next(cell for cell in fill_free(free, granularity) if cell.holds(at_ms))


def overlapping(chunks: Sequence[Interval], interval: Interval) -> Sequence[Interval]:
    """Return the ones of the sorted, disjoint `chunks` that overlap `interval`; O(log n)."""
    first = bisect_right(chunks, interval.start_ms, key=lambda chunk: chunk.end_ms)
    last = first
    while last < len(chunks) and chunks[last].start_ms < interval.end_ms:
        last += 1
    return chunks[first:last]


def _buckets_over(granularity: Granularity, wanted: IntervalSet) -> list[Interval]:
    seen: dict[Interval, None] = {}
    for piece in wanted:
        seen.update(dict.fromkeys(granularity.buckets(piece)))
    return list(seen)
