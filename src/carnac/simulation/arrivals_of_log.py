"""Arrivals as a log has them, again and again, until a simulation has days enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from carnac.core.log.commits import Commit, CommitKind
from carnac.core.time.intervals import MAX_MS
from carnac.errors import Invalid
from carnac.simulation.folding import Arrival

DAY_MS = 86_400_000


def arrivals_of(commits: Iterable[Commit], datasource: str) -> list[Arrival]:
    """Return what appends and replacements have brought to a datasource, in order of time.

    Raises:
        Invalid: Nothing has arrived.
    """
    found = [
        Arrival(
            at_ms=commit.at_ms,
            time_ms=segment.min_time_ms,
            size_bytes=segment.size_bytes,
            rows=segment.rows,
        )
        for commit in commits
        if commit.kind in {CommitKind.APPEND, CommitKind.REPLACE}
        for change in commit.changes
        if change.datasource == datasource
        for segment in change.segments
    ]
    if not found:
        raise Invalid(
            f"the log has no arrivals of {datasource}; leave the name out and say what arrives: --every, --size-bytes"
        )
    return sorted(found, key=lambda one: one.at_ms)


def repeated(arrivals: Sequence[Arrival], days: float) -> Iterator[Arrival]:
    """Yield the arrivals, and again as much later as they take, in whole days, until the days are over.

    Rows of the end of time, which stand for no time at all, stay there.
    """
    first_ms = arrivals[0].at_ms
    end_ms = first_ms + round(days * DAY_MS)
    length_ms = -(-(arrivals[-1].at_ms - first_ms + 1) // DAY_MS) * DAY_MS
    shift_ms = 0
    while first_ms + shift_ms < end_ms:
        for one in arrivals:
            if one.at_ms + shift_ms >= end_ms:
                return
            yield Arrival(
                at_ms=one.at_ms + shift_ms,
                time_ms=min(one.time_ms + shift_ms, MAX_MS - 1),
                size_bytes=one.size_bytes,
                rows=one.rows,
            )
        shift_ms += length_ms
