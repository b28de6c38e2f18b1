"""The input with which a timeline that does not follow the log agrees with it: source 1's view, whole.

A commit adds entries and drops entries. Most dropped entries are overshadowed by the adds of the same commit: the
timeline needs no notice of these drops, and keeps the old entries to fall back to. Other drops, deletions above all,
retire the places of their entries, and the timeline must be notified. So with everything announced a timeline shows
what the log says, entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from carnac.core.log.commits import DatasourceCommit
from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, interval_set
from tests.support.timeline import Timeline


class Told:
    """A server that is told one thing after another, and asks a new timeline each time."""

    def __init__(self, announced: Iterable[Entry] = (), *, expected: Iterable[Entry] = ()) -> None:
        self.announced = {entry.entry_id: entry for entry in announced}
        self.expected = {entry.entry_id: entry for entry in expected}
        self.retired: list[Entry] = []

    def now(self) -> Timeline:
        """Return the timeline of what it has been told."""
        return Timeline(
            self.announced.values(), expected=self.expected.values(), retired=self.retired
        )

    def add(self, entry: Entry) -> None:
        """An entry is announced."""
        self.expected.pop(entry.entry_id, None)
        self.announced[entry.entry_id] = entry

    def expect(self, entry: Entry) -> None:
        """An entry belongs to the datasource and nobody announces it (any more)."""
        self.announced.pop(entry.entry_id, None)
        self.expected[entry.entry_id] = entry

    def remove(self, entry: Entry) -> None:
        """Forget an entry, as if it had never been there."""
        self.announced.pop(entry.entry_id, None)
        self.expected.pop(entry.entry_id, None)

    def retire(self, entry: Entry) -> None:
        """The log dropped an entry and put nothing in its stead."""
        self.retired.append(entry)

    def retire_unknown(self, entry: Entry, gone_id: int) -> None:
        """Give up the unknown members of an entry's update group, up to entry id `gone_id`."""
        told = (*self.announced.values(), *self.expected.values(), *self.retired)
        known = {_place(one) for one in told}
        for partition_id in entry.update_group:
            sibling = replace(entry, partition_id=partition_id, entry_id=gone_id)
            if _place(sibling) not in known:
                self.retired.append(sibling)

    def apply(self, change: DatasourceCommit, *, are_announced: bool = True) -> None:
        """Hear what a commit did.

        Args:
            are_announced: Whether the added entries are served already; else they are expected, what they replace goes
                on showing, and `add` follows for each when it is announced.
        """
        for entry in change.adds:
            (self.add if are_announced else self.expect)(entry)
        for entry in change.adds:
            self.retire_unknown(entry, entry.entry_id - 1)
        for entry in retired_by(change):
            self.retire(entry)


def _place(entry: Entry) -> tuple[Interval, int, int]:
    return (entry.chunk, entry.version.major_ms, entry.partition_id)


def retired_by(change: DatasourceCommit) -> tuple[Entry, ...]:
    """Return the entries that a commit drops and that nothing it adds overshadows.

    An entry is overshadowed by an added one of its chunk and major version that names its partition id, or by added
    chunks that rank above its own and hold all that it showed. One that only comes back with another clip is retired
    too: the old clip is not to fall back to.
    """
    named: set[tuple[Interval, int, int]] = set()
    for entry in change.adds:
        place = (entry.chunk, entry.version.major_ms)
        named.update((*place, partition_id) for partition_id in entry.overshadowed_ids)
    generations = {(entry.chunk, entry.version.major_ms) for entry in change.adds}
    return tuple(
        entry
        for entry in change.drops
        if (entry.chunk, entry.version.major_ms, entry.partition_id) not in named
        and not _is_covered(entry, generations)
    )


def _is_covered(entry: Entry, generations: set[tuple[Interval, int]]) -> bool:
    length_ms = entry.chunk.duration_ms
    above = interval_set(
        chunk
        for chunk, major_ms in generations
        if chunk.overlaps(entry.chunk)
        and (major_ms, -chunk.duration_ms) > (entry.version.major_ms, -length_ms)
    )
    return not entry.visible.minus(above)
