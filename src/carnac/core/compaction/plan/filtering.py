"""By which condition the rows of a segment have been filtered: its record says so, so that it is not done again.

To do it again would not only be in vain. A condition sees rows as they were before dimensions were left out and times
truncated; of what it has written itself, it could find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from carnac.core.segments.segment import Segment

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
