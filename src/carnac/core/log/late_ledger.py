"""The late ledger: how late rows were, how many, in which time chunks, and whether compaction has folded them yet.

It is no table of its own. The record of a segment says how many of its rows were late when they were appended
(`Segment.late`), a rewrite hands that on to what it writes, and the ledger of a revision is the sum over the segments
that the revision shows. So it is published, deleted, reverted and trimmed with the rows that it is about.

Where only a part of a segment is meant, the part's share is taken by time, as if its late rows lay evenly in its span;
shares of parts that make up the segment add up to its counts exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from carnac.core.log.entries import VisibleSegment
from carnac.core.segments.lateness import (
    LATENESSES,
    NONE_LATE,
    LateCounts,
    Lateness,
    LateRows,
    add_counts,
    minus_counts,
    part_of,
    spread,
    thin_out,
)
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, IntervalSet


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFigures:
    """The numbers of some late rows.

    Attributes:
        rows: Input rows that were late.
        rows_folded: Of these, those that compaction has folded; the others wait in segments of their append.
        size_bytes: Of the files that they lie in now, by their share of the input rows.
        bytes_folded: Of these, those of segments that compaction has written.
        segments: Segments that they lie in now.
        segments_folded: Of these, those that compaction has written.
    """

    rows: int
    rows_folded: int
    size_bytes: int
    bytes_folded: int
    segments: int
    segments_folded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateLine(LateFigures):
    """Late rows of one lateness in one time chunk.

    Attributes:
        chunk: The time chunk.
        lateness: How late the rows were, as a bucket.
    """

    chunk: Interval
    lateness: Lateness


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTotal(LateFigures):
    """Late rows of all time chunks.

    Attributes:
        lateness: None: of all.
        chunks: Time chunks that have such rows.
        chunks_waiting: Of these, those in which some are not folded yet.
    """

    lateness: Lateness | None
    chunks: int
    chunks_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateLedger:
    """The late rows that a datasource shows at a revision.

    Attributes:
        datasource: Its name.
        revision: That it is about.
        at_ms: When that revision was published.
        lines: In order of time chunk and lateness; there is none where nothing was late.
        by_lateness: One for each lateness that occurs, in order.
        total: Of all.
    """

    datasource: str
    revision: int
    at_ms: int
    lines: tuple[LateLine, ...]
    by_lateness: tuple[LateTotal, ...]
    total: LateTotal


# ------------------------------------------------------------------------------------------- what segments say


def late_within(segment: Segment, pieces: IntervalSet) -> LateCounts:
    """Return the counts of the part of a segment that lies in these instants."""
    if segment.late is None:
        return NONE_LATE
    span, counts = segment.span, segment.late.counts

    def before(at_ms: int) -> LateCounts:
        inside = min(max(at_ms, span.start_ms), span.end_ms)
        return part_of(counts, inside - span.start_ms, span.duration_ms)

    return add_counts(
        minus_counts(before(piece.end_ms), before(piece.start_ms)) for piece in pieces
    )


def with_late(
    segments: Sequence[Segment],
    late: Mapping[Interval, LateCounts],
    newest_before_ms: int | None,
) -> tuple[Segment, ...]:
    """Return the segments of an append with the late rows of their time chunks.

    In a chunk of several segments, those with a late row have shares in proportion to their input rows.

    Args:
        late: By time chunk; late input rows of the job.
        newest_before_ms: Time of the newest row that was there before.
    """
    if newest_before_ms is None or not late:
        return tuple(segments)
    homes = defaultdict(list)
    for segment in segments:
        if segment.min_time_ms < newest_before_ms:
            homes[segment.chunk].append(segment)
    found = {
        segment.segment_id: counts
        for chunk, members in homes.items()
        for segment, counts in _spread(late.get(chunk, NONE_LATE), members)
    }
    return _with_counts(segments, found, is_folded=False)


def carry_over(
    inputs: Iterable[tuple[Segment, IntervalSet]], outputs: Sequence[Segment], *, is_lossy: bool
) -> tuple[Segment, ...]:
    """Return the outputs of a rewrite with the late rows of its inputs, which are folded now.

    Args:
        inputs: Segments, and which of their instants were rewritten.
        outputs: New segments; their time chunks are disjoint or equal.
        is_lossy: Rows were left out on purpose: counts shrink as the number of rows does.
    """
    read = list(inputs)
    late = [(segment, pieces) for segment, pieces in read if segment.late is not None]
    if not late or not outputs:
        return tuple(outputs)
    of_rows = sum(_input_rows(segment, pieces) for segment, pieces in read)
    kept_rows = sum(segment.input_rows for segment in outputs)
    homes = defaultdict(list)
    for segment in outputs:
        homes[segment.chunk].append(segment)
    found: dict[str, LateCounts] = {}
    for chunk, counts in _by_chunk(late, sorted(homes)).items():
        kept = thin_out(counts, min(kept_rows, of_rows), of_rows) if is_lossy else counts
        found |= {segment.segment_id: part for segment, part in _spread(kept, homes[chunk])}
    return _with_counts(outputs, found, is_folded=True)


def _by_chunk(
    late: Iterable[tuple[Segment, IntervalSet]], chunks: Sequence[Interval]
) -> dict[Interval, LateCounts]:
    """Return the late rows of the chunks.

    The share of time between two chunks, before the first or after the last is of no row: a chunk beside it gets it.
    """
    ends = [chunk.end_ms for chunk in chunks[:-1]]
    cuts = [MIN_MS, *ends, MAX_MS]
    found: dict[Interval, list[LateCounts]] = defaultdict(list)
    for segment, pieces in late:
        first = bisect_right(ends, segment.min_time_ms)
        last = bisect_right(ends, segment.max_time_ms)
        for number in range(first, last + 1):
            around = Interval(cuts[number], cuts[number + 1])
            found[chunks[number]].append(late_within(segment, pieces.inside(around)))
    return {chunk: add_counts(counts) for chunk, counts in found.items()}


def keep_late(
    source: Segment, visible: IntervalSet, left: Sequence[Segment], *, rows_before: int
) -> tuple[Segment, ...]:
    """Return the segments that a deletion by predicate leaves of one, with the late rows that are left.

    Nobody counts anew which of the rows that are left were late: their number shrinks as the number of rows does.
    """
    kept = sum(segment.rows for segment in left)
    counts = thin_out(late_within(source, visible), kept, rows_before)
    found = {segment.segment_id: part for segment, part in _spread(counts, left)}
    is_folded = source.late is not None and source.late.is_folded
    return _with_counts(left, found, is_folded=is_folded)


def _spread(
    counts: LateCounts, segments: Sequence[Segment]
) -> Iterable[tuple[Segment, LateCounts]]:
    if not segments:
        return ()
    parts = spread(counts, [segment.input_rows for segment in segments])
    return zip(segments, parts, strict=True)


def _with_counts(
    segments: Sequence[Segment], found: Mapping[str, LateCounts], *, is_folded: bool
) -> tuple[Segment, ...]:
    return tuple(
        replace(
            segment,
            late=LateRows(counts=found[segment.segment_id], is_folded=is_folded)
            if any(found.get(segment.segment_id, ()))
            else None,
        )
        for segment in segments
    )


def _input_rows(segment: Segment, pieces: IntervalSet) -> int:
    """Return about how many input rows a part of a segment stands for."""
    span = segment.span
    shown = pieces.inside(span)
    return segment.input_rows * sum(one.duration_ms for one in shown) // span.duration_ms


# ------------------------------------------------------------------------------------------- the ledger


@dataclass(slots=True)
class _Sums:
    rows: int = 0
    rows_folded: int = 0
    size_bytes: int = 0
    bytes_folded: int = 0
    segments: set[str] = field(default_factory=set)
    segments_folded: set[str] = field(default_factory=set)
    chunks: set[Interval] = field(default_factory=set)
    chunks_waiting: set[Interval] = field(default_factory=set)

    def add(self, item: VisibleSegment, rows: int, *, is_folded: bool) -> None:
        segment, chunk = item.segment, item.entry.chunk
        size_bytes = segment.size_bytes * rows // max(segment.input_rows, rows)
        self.rows += rows
        self.size_bytes += size_bytes
        self.segments.add(segment.segment_id)
        self.chunks.add(chunk)
        if is_folded:
            self.rows_folded += rows
            self.bytes_folded += size_bytes
            self.segments_folded.add(segment.segment_id)
        else:
            self.chunks_waiting.add(chunk)

    def line(self, chunk: Interval, lateness: Lateness) -> LateLine:
        return LateLine(chunk=chunk, lateness=lateness, **self._figures())

    def total(self, lateness: Lateness | None) -> LateTotal:
        return LateTotal(
            lateness=lateness,
            chunks=len(self.chunks),
            chunks_waiting=len(self.chunks_waiting),
            **self._figures(),
        )

    def _figures(self) -> dict[str, int]:
        return {
            "rows": self.rows,
            "rows_folded": self.rows_folded,
            "size_bytes": self.size_bytes,
            "bytes_folded": self.bytes_folded,
            "segments": len(self.segments),
            "segments_folded": len(self.segments_folded),
        }


def draw_up_ledger(
    visible: Iterable[VisibleSegment],
    *,
    datasource: str,
    revision: int,
    at_ms: int,
    within: Interval | None = None,
) -> LateLedger:
    """Return the ledger of the entries that are visible at a revision.

    Args:
        at_ms: When the revision was published.
        within: Only the part that lies inside of it.
    """
    lines: dict[tuple[Interval, int], _Sums] = defaultdict(_Sums)
    totals: dict[int, _Sums] = defaultdict(_Sums)
    whole = _Sums()
    for item in visible:
        late = item.segment.late
        if late is None:
            continue
        shown = item.entry.visible if within is None else item.entry.visible.inside(within)
        for index, rows in enumerate(late_within(item.segment, shown)):
            if rows:
                for sums in (lines[item.entry.chunk, index], totals[index], whole):
                    sums.add(item, rows, is_folded=late.is_folded)
    return LateLedger(
        datasource=datasource,
        revision=revision,
        at_ms=at_ms,
        lines=tuple(
            sums.line(chunk, LATENESSES[index]) for (chunk, index), sums in sorted(lines.items())
        ),
        by_lateness=tuple(sums.total(LATENESSES[index]) for index, sums in sorted(totals.items())),
        total=whole.total(None),
    )
