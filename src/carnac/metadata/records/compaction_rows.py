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
    return {
        **key_of(datasource, state),
        "status": state.status.value,
        "revision": state.revision,
        "segments": state.segments,
        "judged_by": state.judged_by,
        "reason": state.reason,
        "priority_millionths": round(state.priority * 1_000_000),
        "cost": state.cost,
        "failures": state.failures,
        "retry_at_ms": state.retry_at_ms,
        "arrived_bytes": state.arrived_bytes,
        "rewritten_bytes": state.rewritten_bytes,
    }


def state_of(row: Row) -> ChunkState:
    """Return the state of a row."""
    start_ms, end_ms, status, revision, segments, judged_by, reason, priority, *rest = row
    cost, failures, retry_at_ms, arrived_bytes, rewritten_bytes = rest
    return ChunkState(
        chunk=Interval(start_ms, end_ms),
        status=ChunkStatus(status),
        revision=revision,
        segments=segments,
        judged_by=judged_by,
        reason=reason,
        priority=priority / 1_000_000,
        cost=cost,
        failures=failures,
        retry_at_ms=retry_at_ms,
        arrived_bytes=arrived_bytes,
        rewritten_bytes=rewritten_bytes,
    )
