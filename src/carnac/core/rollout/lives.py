"""The revisions that need each segment: a leader's memory of the log, and how it follows the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass, replace

from carnac.core.log.commits import Commit
from carnac.core.log.entries import Entry
from carnac.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Revisions that need a segment, without a gap.

    Attributes:
        segment_id: Of the segment; one that was dropped and restored has two lives.
        added: The first revision that needs it.
        added_at_ms: When that was published, epoch milliseconds, UTC.
        dropped: The first revision that does not need it any more; None: it is live.
    """

    segment_id: str
    added: int
    added_at_ms: int
    dropped: int | None = None

    def holds(self, revision: int) -> bool:
        """Whether the revision needs the segment."""
        return self.added <= revision and (self.dropped is None or revision < self.dropped)


class SegmentLives:
    """The lives of all segments that a revision since a base needs. It follows the log, commit by commit.

    A segment lives while at least one entry of it does; a change of its clip is no end. The lives of segments that are
    live, or were dropped since the base, are kept. `forget` moves the base on.

    Args:
        revision: The base: the revision of the state it starts from.
        live: The live entries of all datasources at that revision.
        at_ms: When that revision was published, epoch milliseconds, UTC.

    Attributes:
        base: Revisions before it are not remembered.
        head: The newest revision that was applied.
    """

    def __init__(self, revision: int = 0, live: Iterable[Entry] = (), *, at_ms: int = 0) -> None:
        self.base = revision
        self.head = revision
        self._entries: dict[str, int] = {}
        for entry in live:
            self._entries[entry.segment_id] = self._entries.get(entry.segment_id, 0) + 1
        self._start = Life(segment_id="", added=revision, added_at_ms=at_ms)
        self._begun: dict[str, Life] = {}  # lives that began after the base
        self._ended: dict[str, list[Life]] = {}
        self._ends: deque[tuple[int, str]] = deque()
        self._news: deque[tuple[int, str]] = deque()

    def apply(self, commit: Commit) -> None:
        """Follow the log by its next commit.

        Raises:
            Invalid: It is not the next one, or drops what is not there.
        """
        if commit.revision != self.head + 1:
            raise Invalid(
                f"revision {commit.revision} does not follow {self.head}; apply the commits in order, without a gap",
                revision=commit.revision,
            )
        changed: dict[str, int] = {}
        for change in commit.changes:
            for entry in change.adds:
                changed[entry.segment_id] = changed.get(entry.segment_id, 0) + 1
            for entry in change.drops:
                changed[entry.segment_id] = changed.get(entry.segment_id, 0) - 1
        for segment_id, by in changed.items():
            before = self._entries.get(segment_id, 0)
            if before + by < 0:
                raise Invalid(
                    f"revision {commit.revision} drops segment {segment_id}, which is not live; start again from a "
                    "state of the log",
                    segment_id=segment_id,
                )
            self._count(segment_id, before, before + by, commit)
        self.head = commit.revision

    def _count(self, segment_id: str, before: int, after: int, commit: Commit) -> None:
        if after:
            self._entries[segment_id] = after
        if not before and after:
            self._begun[segment_id] = Life(
                segment_id=segment_id, added=commit.revision, added_at_ms=commit.at_ms
            )
            self._news.append((commit.revision, segment_id))
        elif before and not after:
            life = self._open(segment_id)
            del self._entries[segment_id]
            self._begun.pop(segment_id, None)
            ended = replace(life, dropped=commit.revision)
            self._ended.setdefault(segment_id, []).append(ended)
            self._ends.append((commit.revision, segment_id))

    def forget(self, revision: int) -> None:
        """Forget segments that no revision from this one on needs; none if it is before the base or after the head."""
        if not self.base < revision <= self.head:
            return
        self.base = revision
        while self._ends and self._ends[0][0] <= revision:
            _, segment_id = self._ends.popleft()
            rest = self._ended[segment_id][1:]
            if rest:
                self._ended[segment_id] = rest
            else:
                del self._ended[segment_id]
        while self._news and self._news[0][0] <= revision:
            self._news.popleft()

    @property
    def live(self) -> Set[str]:
        """Ids of the segments that the head needs."""
        return self._entries.keys()

    def not_live(self, segment_ids: Collection[str]) -> Set[str]:
        """Return those that the head does not need; takes as long as there are such ids, however many are live."""
        return frozenset(segment_ids).difference(self._entries)

    @property
    def ended(self) -> Set[str]:
        """Ids of the segments of which a life ended after the base; some may be live again."""
        return self._ended.keys()

    def of(self, segment_id: str) -> tuple[Life, ...]:
        """Return the lives of a segment, the oldest first; empty if no revision since the base needs it."""
        ended = self._ended.get(segment_id, ())
        return (*ended, self._open(segment_id)) if segment_id in self._entries else tuple(ended)

    def since(self, revision: int) -> Iterator[Life]:
        """Yield the lives that began after a revision; all that are remembered, if it is before the base."""
        segments = (
            dict.fromkeys(segment_id for added, segment_id in self._news if added > revision)
            if revision >= self.base
            else self.live | self.ended
        )
        for segment_id in segments:
            yield from (life for life in self.of(segment_id) if life.added > revision)

    def is_needed(self, segment_id: str, floor: int) -> bool:
        """Whether a revision from `floor` on needs a segment."""
        if segment_id in self._entries:
            return True
        return any(
            life.dropped is None or life.dropped > floor for life in self._ended.get(segment_id, ())
        )

    def _open(self, segment_id: str) -> Life:
        begun = self._begun.get(segment_id)
        if begun is not None:
            return begun
        return replace(self._start, segment_id=segment_id)
