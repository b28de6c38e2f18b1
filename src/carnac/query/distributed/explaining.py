"""EXPLAIN's lines about the segments of a statement."""

from __future__ import annotations

from collections.abc import Iterator

from carnac.ports.distributed import said_of_slices
from carnac.query.planning import Plan


def said_of_segments(plan: Plan) -> Iterator[str]:
    """Yield sentences on the segments that are read, and on those that are pruned, by reason."""
    slices = {piece.segment.segment_id: piece for piece in plan.slices}
    yield f"segments that may matter: {len(slices)} of {plan.segments_total}"
    if slices:
        yield f"to be read: {said_of_slices(list(slices.values()))}"
    if plan.pruned:
        parts = [f"{number} by {reason}" for reason, number in plan.pruned.items()]
        yield f"pruned: {', '.join(parts)}"
