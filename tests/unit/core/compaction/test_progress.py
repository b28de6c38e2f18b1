"""How far compaction is: each time chunk stands in one tally."""

from __future__ import annotations

import pytest

from carnac.core.compaction.control.progress import Progress, Tally, progress_of
from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.time.intervals import Interval
from tests.compactions import HOUR_MS

NEVER_MS = 1_000 * HOUR_MS
NOTHING, ONE = Tally(), Tally(100, 2, 1)


def hours(start: int, end: int) -> Interval:
    return Interval(start * HOUR_MS, end * HOUR_MS)


def state(chunk: Interval, status: ChunkStatus) -> ChunkState:
    return ChunkState(chunk, status, 7, 2, "by", "for a reason")


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (ChunkStatus.STABLE, Progress(NOTHING, ONE, NOTHING)),
        (ChunkStatus.UNSTABLE, Progress(ONE, NOTHING, NOTHING)),
        (ChunkStatus.DEFERRED, Progress(ONE, NOTHING, NOTHING)),
        (ChunkStatus.EMPTY, Progress(ONE, NOTHING, NOTHING)),  # rows came after it was judged
    ],
)
def test_a_state_says_where_a_chunk_stands(status: ChunkStatus, found: Progress) -> None:
    assert (
        progress_of({hours(0, 2): ONE}, [state(hours(0, 2), status)], skip_from_ms=NEVER_MS)
        == found
    )
    assert (
        progress_of({hours(0, 2): ONE}, [state(hours(0, 9), status)], skip_from_ms=NEVER_MS)
        == found
    )
    assert (
        progress_of({hours(0, 2): ONE}, [state(hours(1, 2), status)], skip_from_ms=NEVER_MS)
        == found
    )


def test_what_nobody_has_judged_waits_and_what_ends_too_late_is_skipped() -> None:
    chunks = {hours(at, at + 1): ONE for at in range(5)}
    states = [state(hours(at, at + 1), ChunkStatus.STABLE) for at in (0, 2, 4)]
    found = progress_of(chunks, states, skip_from_ms=4 * HOUR_MS)
    assert found == Progress(Tally(200, 4, 2), Tally(200, 4, 2), ONE)
    unstable = [state(hours(2, 3), ChunkStatus.UNSTABLE), *states]
    assert progress_of(chunks, unstable, skip_from_ms=4 * HOUR_MS).waiting == Tally(300, 6, 3)
