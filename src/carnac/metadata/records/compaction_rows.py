"""Between rows of compaction and values of the core."""

from __future__ import annotations

from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.metadata.row_forms import INTERVAL, Part, RowForm

STATES = RowForm(
    ChunkState,
    chunk=INTERVAL,
    status=ChunkStatus,
    priority=Part(
        ("priority_millionths",),
        lambda priority: (round(priority * 1_000_000),),
        lambda millionths: millionths / 1_000_000,
    ),
)
"""Of the columns after the datasource."""


def is_gone(state: ChunkState) -> bool:
    """Tell whether there is nothing left to know of a chunk."""
    return state.status is ChunkStatus.EMPTY and not state.segments
