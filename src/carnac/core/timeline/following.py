"""A timeline that follows the log: the log says what is live, servers say what of it is here.

It starts from the live entries of a revision and follows the commits after it. What the log has dropped up to there is
gone, whoever announces it: a server that was started again and still has an old file, one that was told of nothing for
a week. So no chain of replacements need be known, nothing is hidden by anything, and memory is what is live, and what
was announced ahead of the log.

Which older state to fall back to is not asked here but of the log: the newest revision that needs nothing of what is
missing (`core/rollout`, `newest_whole`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter

from carnac.core.log.commits import Commit
from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval
from carnac.core.timeline.sights import Piece, Visibility, shows_in
from carnac.errors import Invalid

by_partition = attrgetter("partition_id")
by_start = attrgetter("start_ms")


class FollowedTimeline:
    """What shows of one datasource at a revision, and what of it is missing.

    Not for several threads at once. An operation costs what it changes; a lookup what it returns.

    Args:
        datasource: Whose entries these are.
        revision: Where it starts.
        live: The live entries of the datasource at that revision, in any order.

    Attributes:
        revision: The newest that it has followed.
    """

    def __init__(self, datasource: str, revision: int = 0, live: Iterable[Entry] = ()) -> None:
        self.datasource = datasource
        self.revision = revision
        self._chunks: dict[Interval, dict[int, Entry]] = {}
        self._order: list[Interval] = []
        self._live: dict[int, Entry] = {}
        self._announced: set[int] = set()
        self._ahead: dict[int, dict[int, Entry]] = {}
        for entry in live:
            self._live[entry.entry_id] = entry
            self._chunks.setdefault(entry.chunk, {})[entry.entry_id] = entry
        self._order = sorted(self._chunks, key=by_start)

    def __len__(self) -> int:
        """Return the number of live entries that are announced."""
        return len(self._announced)

    @property
    def size(self) -> int:
        """How many entries are remembered: the live ones, and those that were announced ahead of the log."""
        return len(self._live) + sum(len(entries) for entries in self._ahead.values())

    # ------------------------------------------------------------------------------------ changing

    def follow(self, commit: Commit) -> None:
        """Follow the log by its next commit. What it adds is missing until it is announced, or is here already.

        Raises:
            Invalid: It is not the next commit, or drops what is not live.
        """
        if commit.revision != self.revision + 1:
            raise Invalid(
                f"revision {commit.revision} does not follow {self.revision}; follow every commit, in order",
                revision=commit.revision,
            )
        ahead = self._ahead.pop(commit.revision, {})
        for change in commit.changes:
            if change.datasource != self.datasource:
                continue
            for entry in change.drops:
                self._drop(entry, commit.revision)
            for entry in change.adds:
                self._live[entry.entry_id] = entry
                entries = self._chunks.setdefault(entry.chunk, {})
                if not entries:
                    insort(self._order, entry.chunk, key=by_start)
                entries[entry.entry_id] = entry
                if entry.entry_id in ahead:
                    self._announced.add(entry.entry_id)
        self.revision = commit.revision

    def _drop(self, entry: Entry, revision: int) -> None:
        live = self._live.pop(entry.entry_id, None)
        if live is None:
            raise Invalid(
                f"revision {revision} drops entry {entry.entry_id}, which is not live; start again from the log",
                entry_id=entry.entry_id,
            )
        self._announced.discard(entry.entry_id)
        entries = self._chunks[live.chunk]
        del entries[entry.entry_id]
        if not entries:
            del self._chunks[live.chunk]
            del self._order[bisect_left(self._order, live.chunk.start_ms, key=by_start)]

    def add(self, entry: Entry) -> bool:
        """A server has announced an entry. Return False if that changes nothing: it was known, or the entry is gone."""
        if entry.added_revision > self.revision:
            ahead = self._ahead.setdefault(entry.added_revision, {})
            is_new = entry.entry_id not in ahead
            ahead[entry.entry_id] = entry
            return is_new
        if entry.entry_id not in self._live or entry.entry_id in self._announced:
            return False
        self._announced.add(entry.entry_id)
        return True

    def remove(self, entry: Entry) -> bool:
        """No server announces an entry any more. Return False if none did, or if the entry is gone."""
        ahead = self._ahead.get(entry.added_revision, {})
        if ahead.pop(entry.entry_id, None) is not None:
            if not ahead:
                del self._ahead[entry.added_revision]
            return True
        if entry.entry_id not in self._announced:
            return False
        self._announced.discard(entry.entry_id)
        return True

    # -------------------------------------------------------------------------------------- asking

    def lookup(self, interval: Interval, *, incomplete: bool = False) -> tuple[Piece, ...]:
        """Return what shows within `interval`, one piece for each time chunk, in order of time.

        Args:
            incomplete: Where something is missing, return what is here, marked; else there is no piece.
        """
        found: list[Piece] = []
        for chunk in self._overlapping(interval):
            part = chunk.intersect(interval)
            entries = self._shown(chunk, interval)
            here = tuple(one for one in entries if one.entry_id in self._announced)
            if part is None or not here or (len(here) < len(entries) and not incomplete):
                continue
            major_ms = here[0].version.major_ms
            found.append(Piece(part, chunk, major_ms, here, len(here) == len(entries)))
        return tuple(found)

    def missing(self, interval: Interval) -> tuple[Entry, ...]:
        """Return the live entries that show something within `interval` and that nobody announces, by entry id."""
        found = (
            one
            for chunk in self._overlapping(interval)
            for one in self._shown(chunk, interval)
            if one.entry_id not in self._announced
        )
        return tuple(sorted(found, key=attrgetter("entry_id")))

    def find_visibility(self, entry: Entry) -> Visibility | None:
        """Return where an entry stands: visible, or standing by for its revision; None: not announced, or gone."""
        if entry.entry_id in self._announced:
            return Visibility.VISIBLE
        is_ahead = entry.entry_id in self._ahead.get(entry.added_revision, {})
        return Visibility.STANDBY if is_ahead else None

    def _overlapping(self, interval: Interval) -> list[Interval]:
        """Return the live chunks that overlap an interval, in order of time; they are disjoint (CH-1)."""
        first = bisect_right(self._order, interval.start_ms, key=by_start) - 1
        last = bisect_left(self._order, interval.end_ms, key=by_start)
        return [one for one in self._order[max(first, 0) : last] if one.overlaps(interval)]

    def _shown(self, chunk: Interval, interval: Interval) -> list[Entry]:
        entries = (one for one in self._chunks[chunk].values() if shows_in(one, interval))
        return sorted(entries, key=by_partition)
