"""Notes of rewrites in the records of the segments that they write, so that nothing is done twice in vain.

`cutFor`: the target that a segment is too large for nevertheless. All rows that share a range dimension or a hash
bucket are in one segment, however many they are, and a file has at least one row group: it would be so again.

`filteredBy`: the condition that all rows have passed. A condition sees rows as they were before dimensions were left
out and times truncated; of what it has written itself, it could find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.settings import OVERSIZE_PERCENT
from carnac.core.segments.segment import Segment

CUT_FOR = "cutFor"
"""The attribute of a segment's record that holds the sizes and partitions it was cut for, in vain."""


def cut_of(segment: Segment) -> str | None:
    """Return what a segment was cut for that is too large for it nevertheless; None if it never was."""
    found = segment.attributes.get(CUT_FOR)
    return found if isinstance(found, str) else None


def cut_text(target: CompactionTarget) -> str:
    """Return what of a target says where rows are cut into segments: two targets that cut alike have the same."""
    by = target.partitioning
    words = [f"{target.target_rows} rows", f"{target.target_bytes or 'any'} bytes", by.kind]
    return " ".join([*words, *by.dimensions])


def most_rows(target: CompactionTarget) -> int:
    """Return how many rows a segment may have and be no larger than its target allows."""
    return target.target_rows * OVERSIZE_PERCENT // 100


def most_bytes(target: CompactionTarget) -> int:
    """Return the same for bytes; 0: they do not count."""
    return (target.target_bytes or 0) * OVERSIZE_PERCENT // 100


def with_cut(outputs: Iterable[Segment], target: CompactionTarget) -> tuple[Segment, ...]:
    """Return the records of what a rewrite wrote; those that are too large say for which target they were cut."""
    rows_max, bytes_max = most_rows(target), most_bytes(target)
    if target.partitioning.buckets is not None:
        return tuple(outputs)
    return tuple(
        replace(segment, attributes={**segment.attributes, CUT_FOR: cut_text(target)})
        if segment.rows > rows_max or 0 < bytes_max < segment.size_bytes
        else segment
        for segment in outputs
    )


FILTERED_BY = "filteredBy"
"""The attribute of a segment's record that holds the condition."""


def filter_of(segment: Segment) -> str | None:
    """Return the condition that all rows of a segment have passed; None if they have passed none."""
    found = segment.attributes.get(FILTERED_BY)
    return found if isinstance(found, str) else None


def with_filter(
    outputs: Iterable[Segment], inputs: Sequence[Segment], condition: str | None
) -> tuple[Segment, ...]:
    """Return the records of what a rewrite wrote, with the condition that their rows have passed.

    Args:
        condition: Of this rewrite; None: it had none, so theirs is what all of its inputs had passed.
    """
    if condition is None:
        known = {filter_of(segment) for segment in inputs}
        condition = known.pop() if len(known) == 1 else None
    if condition is None:
        return tuple(outputs)
    return tuple(
        replace(segment, attributes={**segment.attributes, FILTERED_BY: condition})
        for segment in outputs
    )
