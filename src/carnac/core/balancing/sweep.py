"""Placement of segments that arrive in order of time: one number a server stands for all that lies behind."""

from __future__ import annotations

from carnac.core.balancing.columns import Ints, Room, SegmentColumns
from carnac.core.balancing.cost import DAY_MS
from carnac.core.balancing.index import CostIndex
from carnac.errors import Invalid


def place_in_time_order(
    segments: SegmentColumns,
    server_count: int,
    *,
    room: Room | None = None,
    held_by: Ints | None = None,
    held: SegmentColumns | None = None,
    half_life_ms: int = DAY_MS,
) -> Ints:
    """Put each segment, in order of rows, where it costs least; exactly as `CostIndex.place` does, only faster.

    Args:
        held_by, held: What the servers hold already: the server of each row, and the rows.

    Raises:
        Invalid: A segment starts before one of an earlier row, or before one that is held.
    """
    starts = segments.starts_ms
    if (starts[1:] < starts[:-1]).any():
        raise Invalid(
            "segments must come in order of their starts; place them with CostIndex.place"
        )
    if held is not None and len(held) and len(segments) and held.starts_ms.max() > starts[0]:
        raise Invalid(
            "a held segment starts after the first that arrives; place them with CostIndex.place"
        )
    index = CostIndex(server_count, half_life_ms=half_life_ms)
    if held is not None and held_by is not None:
        index.load_many(held_by, held)
    return index.place(segments, room)
