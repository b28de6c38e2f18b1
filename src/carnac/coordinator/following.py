"""The log as the coordinator follows it: which revisions need which segment, and what the newest one needs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from carnac.core.balancing.live.picture import LiveSegment
from carnac.core.rollout.lives import SegmentLives
from carnac.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from carnac.core.log.commits import Commit
    from carnac.core.log.entries import Entry, VisibleSegment
    from carnac.core.segments.segment import Segment
    from carnac.metadata.store import MetadataStore

RECORDS_KEPT = 10_000
"""Records of segments that are kept in memory: those that came last are assigned next."""


class LogView:
    """Follows the log from the told revision, or an older one in use, to its head.

    Attributes:
        live: Segments that the newest revision needs, by id.
        fresh: Ids of live segments that came since the last `take_fresh`.
        is_current: Whether the last `follow` reached the head. If not, servers may hold segments that came since.
    """

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._records: OrderedDict[str, Segment] = OrderedDict()
        self._lives: SegmentLives | None = None
        self._edition = 0
        self.live: dict[str, LiveSegment] = {}
        self.fresh: dict[str, None] = {}
        self.is_current = False

    @property
    def lives(self) -> SegmentLives:
        """The revisions that need each segment; after `follow`."""
        if self._lives is None:
            return SegmentLives()
        return self._lives

    @property
    def is_following(self) -> bool:
        """Whether it has caught up with the log, and not been told to forget it."""
        return self._lives is not None

    def restart(self) -> None:
        """Forget everything; the next `follow` starts anew."""
        self._lives = None
        self.live, self.fresh = {}, {}
        self.is_current = False

    def follow(self, *, since: int | None) -> None:
        """Catch up with the log; after an erasure, which changes what earlier commits name, forget everything instead.

        Args:
            since: The oldest revision in use, at which it starts if it can; None: the newest.
        """
        self.is_current = False
        lives = self._lives or self._begin(since)
        head = self._metadata.head().revision
        while lives.head < head:
            try:
                commits = self._metadata.changes(after=lives.head)
            except NotFound:  # it was away for longer than commits are kept
                lives = self._begin(None)
                continue
            if self._find_edition() != self._edition:
                self.restart()
                return
            for commit in commits:
                self._apply(commit)
        self.is_current = True

    def _find_edition(self) -> int:
        self._metadata.see_erasures()
        return self._metadata.edition

    def _begin(self, since: int | None) -> SegmentLives:
        self._edition = self._find_edition()  # before anything is read that an erasure may change
        at = self._metadata.resolve(None)
        if since is not None and since < at.revision:
            try:
                at = self._metadata.resolve(since)
            except NotFound:  # trimmed: nobody reads it
                at = self._metadata.resolve(None)
        entries: list[Entry] = []
        self.live = {}
        for info in self._metadata.datasources(at.revision):
            for one in self._metadata.visible(info.name, revision=at.revision):
                entries.append(one.entry)
                self._add(info.name, one.entry, one.segment)
        self.fresh = {}
        self._lives = SegmentLives(at.revision, entries, at_ms=at.at_ms)
        return self._lives

    def _apply(self, commit: Commit) -> None:
        lives = self.lives
        lives.apply(commit)
        for change in commit.changes:
            for segment in change.segments:
                self._keep(segment)
            for entry in change.adds:
                if entry.segment_id not in self.live:
                    found = self.find_segment(entry.segment_id)
                    if found is not None:
                        self._add(change.datasource, entry, found)
                        self.fresh[entry.segment_id] = None
        for change in commit.changes:
            for entry in change.drops:
                if entry.segment_id not in lives.live:
                    self.live.pop(entry.segment_id, None)
                    self.fresh.pop(entry.segment_id, None)

    def _add(self, datasource: str, entry: Entry, segment: Segment) -> None:
        self.live.setdefault(segment.segment_id, live_segment(datasource, entry, segment))

    def _keep(self, segment: Segment) -> None:
        self._records[segment.segment_id] = segment
        if len(self._records) > RECORDS_KEPT:
            self._records.popitem(last=False)

    def find_segment(self, segment_id: str) -> Segment | None:
        """Return a segment's record; None if the store does not know it any more."""
        return self._records.get(segment_id) or self._metadata.find_segment(segment_id)

    def take_fresh(self) -> Collection[LiveSegment]:
        """Return the live segments that came since the last time."""
        fresh, self.fresh = self.fresh, {}
        return [self.live[one] for one in fresh if one in self.live]


def live_segments(datasource: str, visible: Iterable[VisibleSegment]) -> list[LiveSegment]:
    """Return what is visible of a datasource as the newest revision needs it, each segment once."""
    found: dict[str, LiveSegment] = {}
    for one in visible:
        found.setdefault(one.segment.segment_id, live_segment(datasource, one.entry, one.segment))
    return list(found.values())


def live_segment(datasource: str, entry: Entry, segment: Segment) -> LiveSegment:
    """Return a segment that the newest revision needs, by its first entry."""
    return LiveSegment(
        segment_id=segment.segment_id,
        datasource=datasource,
        chunk=entry.chunk,
        partition=entry.partition_id,
        size_bytes=segment.size_bytes,
    )
