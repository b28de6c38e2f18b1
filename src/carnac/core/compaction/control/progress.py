"""The progress of compaction: bytes, segments and time chunks that wait, are done or are left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.time.intervals import Interval, interval_set

_WAITS = frozenset({ChunkStatus.UNSTABLE, ChunkStatus.DEFERRED})


class Tally(NamedTuple):
    """A number of time chunks, and what is in them."""

    size_bytes: int = 0
    segments: int = 0
    chunks: int = 0

    def plus(self, other: Tally) -> Tally:
        """Return the sums."""
        return Tally(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Progress(NamedTuple):
    """All time chunks of a datasource that have segments, each in one of the tallies.

    Attributes:
        waiting: Chunks that will be compacted, and those that no controller has judged yet.
        done: Chunks that need nothing.
        skipped: Chunks that are too new.
    """

    waiting: Tally
    done: Tally
    skipped: Tally


def progress_of(
    chunks: Mapping[Interval, Tally], states: Iterable[ChunkState], *, skip_from_ms: int
) -> Progress:
    """Return the progress.

    Args:
        chunks: Tallies of the visible segments, by time chunk.
        states: Findings of the last analysis; a state may be of several time chunks, or of a part of one.
        skip_from_ms: Chunks that end later are too new.
    """
    known = [one for one in states if one.status is not ChunkStatus.EMPTY]
    judged = interval_set(one.chunk for one in known)
    unstable = interval_set(one.chunk for one in known if one.status in _WAITS)
    waiting = done = skipped = Tally()
    for chunk, tally in chunks.items():
        if chunk.end_ms > skip_from_ms:
            skipped = skipped.plus(tally)
        elif unstable.overlaps(chunk) or not judged.overlaps(chunk):
            waiting = waiting.plus(tally)
        else:
            done = done.plus(tally)
    return Progress(waiting, done, skipped)
