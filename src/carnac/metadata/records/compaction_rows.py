"""Between rows of compaction and values of the core."""

from __future__ import annotations

from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.time.intervals import Interval
from carnac.metadata.session import Row


def is_gone(state: ChunkState) -> bool:
    """Tell whether there is nothing left to know of a chunk."""
    return state.status is ChunkStatus.EMPTY and not state.segments


def key_of(datasource: str, state: ChunkState) -> dict[str, object]:
    """Return the key of a row."""
    return {
        "datasource": datasource,
        "start_ms": state.chunk.start_ms,
        "end_ms": state.chunk.end_ms,
    }


def row_of(datasource: str, state: ChunkState) -> dict[str, object]:
    """Return the row of a state."""
    kept = state._asdict()
    del kept["chunk"], kept["priority"]
    return {
        **kept,
        **key_of(datasource, state),
        "status": state.status.value,
        "priority_millionths": round(state.priority * 1_000_000),
    }


def state_of(row: Row) -> ChunkState:
    """Return the state of a row; its columns are the fields of a state, in order."""
    start_ms, end_ms, *values = row
    state = ChunkState(Interval(start_ms, end_ms), *values)
    return state._replace(status=ChunkStatus(state.status), priority=state.priority / 1_000_000)
