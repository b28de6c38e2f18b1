"""The findings of a chunk's last analysis, kept so that it is not analysed again in vain.

Source: "Compaction Notes", "Segment State": empty, stable, unstable, deferred, with a version number and the number of
segments. "If either differ from the actual state of the cluster, the time chunk needs re-analysis." The version number
is the revision of the last commit that changed the chunk. A fingerprint of settings and target is kept as well, because
other settings or another age rule make another chunk of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent, TargetPeriod, find_target_period
from carnac.core.log.entries import Chunk
from carnac.core.time.intervals import Interval, time_text

RETRY_FIRST_MS = 60_000
"""How long a chunk rests after it failed; twice as long each further time."""
RETRY_MAX_MS = 6 * 3_600_000


class ChunkStatus(StrEnum):
    """The result of the last analysis, or what followed from it."""

    EMPTY = "empty"
    STABLE = "stable"
    UNSTABLE = "unstable"
    DEFERRED = "deferred"


class ChunkSummary(NamedTuple):
    """The facts of a chunk that are known without reading its segments.

    Attributes:
        revision: The newest of the live chunks that overlap it.
        segments: Entries of those live chunks.
        target: Target that the chunk should meet.
        extent: How the chunk came about. A coarse one is known in parts: each has a state of its own.
    """

    chunk: Interval
    revision: int
    segments: int
    target: CompactionTarget
    extent: Extent = Extent.WHOLE


_new_summary = partial(tuple.__new__, ChunkSummary)  # half of what `ChunkSummary(...)` takes


class ChunkState(NamedTuple):
    """The recorded state of a chunk.

    Attributes:
        chunk: The time chunk.
        status: Empty, stable, unstable or deferred.
        revision: Of the last commit that had changed it when it was analysed.
        segments: How many it had then.
        judged_by: `fingerprint` of the settings and the target.
        reason: Why, as a phrase.
        priority: Of its task, if it is unstable or deferred.
        cost: Of its group, in bytes of the cost model, likewise.
        failures: How often in a row compacting it failed.
        retry_at_ms: Not before this is it tried again; 0: any time.
        arrived_bytes: That appends have brought to it so far.
        rewritten_bytes: That compactions have written into it so far.
    """

    chunk: Interval
    status: ChunkStatus
    revision: int
    segments: int
    judged_by: str
    reason: str
    priority: float = 0.0
    cost: int = 0
    failures: int = 0
    retry_at_ms: int = 0
    arrived_bytes: int = 0
    rewritten_bytes: int = 0

    def rests(self, now_ms: int) -> bool:
        """Whether it failed and is not tried again yet.

        A rest that is longer than any was set by a clock that was ahead; it has ended.
        """
        return now_ms < self.retry_at_ms <= now_ms + RETRY_MAX_MS

    def is_as_seen(self, summary: ChunkSummary, judged_by: str) -> bool:
        """Whether an analysis would find what the last one found."""
        return (
            self.revision == summary.revision
            and self.segments == summary.segments
            and self.judged_by == judged_by
        )


def standing_of(state: ChunkState, *, now_ms: int) -> str | None:
    """Return how a chunk stands with the controller, where its score does not say it; None if there is nothing."""
    if state.status is ChunkStatus.DEFERRED:
        return (
            "the controller has deferred it: its task found no place in the queue, and is taken up again when the "
            "queue runs empty"
        )
    if not state.failures:
        return None
    again = (
        f"it rests until {time_text(state.retry_at_ms)}"
        if state.rests(now_ms)
        else "it is tried again"
    )
    return f"the controller's last try {state.reason}; {again}"


def find_summaries(
    live: Iterable[Chunk], target_periods: Sequence[TargetPeriod]
) -> dict[int, ChunkSummary]:
    """Return what can be seen of the chunks that live chunks overlap, by where they start: chunks are disjoint.

    Args:
        live: All live chunks that overlap a chunk that is asked about: a summary is only as whole as they are.
    """
    found: dict[int, ChunkSummary] = {}
    for one in live:
        interval = one.interval
        at_ms, end_ms = interval.start_ms, interval.end_ms
        while at_ms < end_ms:
            target_period = find_target_period(target_periods, at_ms)
            chunk, extent = target_period.chunk_at(at_ms, interval)
            known = found.get(chunk.start_ms)
            revision, segments = one.revision, one.entries
            if known is not None:
                revision, segments = max(revision, known.revision), segments + known.segments
            found[chunk.start_ms] = _new_summary(
                (chunk, revision, segments, target_period.target, extent)
            )
            at_ms = chunk.end_ms
    return found


def fingerprint(settings: CompactionSettings, target: CompactionTarget) -> str:
    """Return a short text that differs where a chunk could be judged otherwise."""
    what = (
        target,
        settings.slack,
        settings.input_bytes_max,
        settings.write_amplification_max,
        settings.cost,
    )
    return hashlib.md5(repr(what).encode(), usedforsecurity=False).hexdigest()[:12]
