"""The scenario: the segments that are replaced, the speed of servers, and the time when one of them dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from carnac.core.log.commits import Commit, CommitKind, DatasourceCommit
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.segments.version import IdRanges, SegmentVersion, id_ranges
from carnac.core.time.intervals import Interval

CHUNK = Interval(0, 86_400_000)
DATASOURCE = "events"
OLD_REVISION = 1
NEW_REVISION = 2


class Way(StrEnum):
    """How queries are answered."""

    FALLBACK = "fallback"
    """A broker sees announced segments alone; segments that newer ones overshadow are dropped (source 1, and Druid)."""
    FILES = "rollout, files only"
    """A broker plans on the told revision; a segment that no server has loaded cannot be read."""
    COLD = "rollout, cold reads"
    """A broker plans on the told revision; a segment that no server has loaded is read from deep storage."""


class Death(StrEnum):
    """When a server dies."""

    LOADING = "while the new segments load"
    SWITCHED = "right after the switch"
    DROPPED = "after the old ones were dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Old segments of a time chunk are replaced by new ones with the same rows, in one commit; one replica of each.

    The old ones were appended one by one. All durations are whole seconds.

    Attributes:
        old_on: The server of each old segment, counted from 0; not empty.
        new: How many new ones there are; > 0.
        load_s: How long a server loads each segment, the old ones first; > 1 each; a server loads one at a time.
        servers: How many servers there are; > 1.
        victim: The server that dies, counted from 0.
        publish_s: The second of the commit.
        notice_s: How long a death is not noticed: the lease of a server.
        linger_s: How long the fallback keeps what is overshadowed before it drops it.
        seconds: How long is watched.
    """

    old_on: Sequence[int] = (0, 1, 2, 0, 1, 2)
    new: int = 3
    load_s: Sequence[int] = (2, 3, 2, 3, 2, 3, 5, 4, 6)
    servers: int = 3
    victim: int = 0
    publish_s: int = 4
    notice_s: int = 5
    linger_s: int = 8
    seconds: int = 46

    @property
    def old_entries(self) -> tuple[Entry, ...]:
        """The old segments, each an update group of its own."""
        return tuple(
            _entry(number, at, OLD_REVISION, IdRanges(), id_ranges([at]))
            for number, at in enumerate(range(len(self.old_on)))
        )

    @property
    def new_entries(self) -> tuple[Entry, ...]:
        """The new segments, one update group that replaces all old ones."""
        first = len(self.old_on)
        ids = range(first, first + self.new)
        replaced = id_ranges(range(first))
        return tuple(
            _entry(number, at, NEW_REVISION, replaced, id_ranges(ids))
            for number, at in enumerate(ids)
        )

    @property
    def log(self) -> tuple[Commit, Commit]:
        """The commit that adds the old segments, and the one that replaces them."""
        old, new = self.old_entries, self.new_entries
        first = DatasourceCommit(datasource=DATASOURCE, adds=old, drops=())
        second = DatasourceCommit(datasource=DATASOURCE, adds=new, drops=old)
        at_ms = self.publish_s * 1000
        return (
            Commit(revision=OLD_REVISION, kind=CommitKind.APPEND, at_ms=0, changes=(first,)),
            Commit(revision=NEW_REVISION, kind=CommitKind.REPLACE, at_ms=at_ms, changes=(second,)),
        )

    def load_s_of(self, entry: Entry) -> int:
        """Return how long a server loads a segment, seconds."""
        return self.load_s[entry.partition_id]

    def share_of(self, entry: Entry) -> float:
        """Return which share of all rows a segment has: each old one has as many as each other, and so the new ones."""
        is_old = entry.added_revision == OLD_REVISION
        return 1 / (len(self.old_on) if is_old else self.new)


def _entry(
    number: int, partition_id: int, revision: int, replaced: IdRanges, group: IdRanges
) -> Entry:
    return Entry(
        entry_id=revision << ENTRY_BITS | number,
        segment_id=f"{'old' if revision == OLD_REVISION else 'new'}-{number + 1}",
        chunk=CHUNK,
        span=CHUNK,
        clip=None,
        version=SegmentVersion(1, revision - OLD_REVISION),
        partition_id=partition_id,
        overshadowed_ids=replaced,
        update_group=group,
    )
