"""Deletions by predicate: their texts, and what they publish."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from carnac.core.compaction.plan.notes import with_filter
from carnac.core.log.commits import Change, ConservationProof, Drop
from carnac.core.log.late_ledger import keep_late
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import (
    MAX_MS,
    MIN_MS,
    Interval,
    IntervalSet,
    format_ms,
    interval_text,
)
from carnac.ports import SegmentRewrite


def within(predicate: str, interval: Interval) -> str:
    """Return the predicate inside of the interval and false outside of it."""
    bounds = []
    if interval.start_ms > MIN_MS:
        bounds.append(f"__time >= TIMESTAMPTZ '{format_ms(interval.start_ms)}'")
    if interval.end_ms < MAX_MS:
        bounds.append(f"__time < TIMESTAMPTZ '{format_ms(interval.end_ms)}'")
    inside = " AND ".join(bounds) or "TRUE"
    return f"CASE WHEN {inside} THEN (\n{predicate}\n) ELSE FALSE END"


def describe(predicate: str, interval: Interval | None) -> str:
    """Return what a deletion does, for the log."""
    return f"delete where {predicate}" + (
        "" if interval is None else f" in {interval_text(interval)}"
    )


def change_of(
    datasource: str, rewrites: Sequence[SegmentRewrite], segment_granularity: str
) -> Change:
    """Return the change that puts what is left of segments into their place."""
    return Change(
        datasource=datasource,
        adds=tuple(segment for rewrite in rewrites for segment in what_is_left(rewrite)),
        drops=tuple(
            Drop(segment_id=rewrite.source.segment.segment_id, expected=rewrite.source.visible)
            for rewrite in rewrites
        ),
        segment_granularity=segment_granularity,
    )


def what_is_left(rewrite: SegmentRewrite) -> Sequence[Segment]:
    """Return the segments that a rewrite made, with what their source noted."""
    source = rewrite.source
    return keep_late(
        source.segment,
        source.visible,
        with_filter(rewrite.replacements, [source.segment], None),
        rows_before=rewrite.proof.rows_in,
    )


def proof_of(rewrites: Sequence[SegmentRewrite]) -> ConservationProof:
    """Return the proof of a commit of all the rewrites: hashes of sets add up."""
    proofs = [rewrite.proof for rewrite in rewrites]
    return ConservationProof(
        rows_in=sum(proof.rows_in for proof in proofs),
        rows_out=sum(proof.rows_out for proof in proofs),
        rows_deleted=sum(proof.rows_deleted for proof in proofs),
        row_hash_in=_sum_of(proof.row_hash_in for proof in proofs),
        row_hash_out=_sum_of(proof.row_hash_out for proof in proofs),
        row_hash_deleted=_sum_of(proof.row_hash_deleted for proof in proofs),
    )


def _sum_of(hashes: Iterable[int | None]) -> int:
    return sum(one or 0 for one in hashes) % (1 << 64)


def touched(rewrites: Sequence[SegmentRewrite]) -> IntervalSet:
    """Return the instants that the rewritten segments showed."""
    where = IntervalSet()
    for rewrite in rewrites:
        where = where.union(rewrite.source.visible)
    return where
