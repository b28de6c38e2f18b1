"""The overshadow view of a revision, derived from its live entries alone, and its comparison with the log.

A commit records, with each entry, its version, its partition id, its update group and the ids that it replaced. By
these alone a server that does not read the log could derive the visible entries: of each chunk the newest major
version, and of that the entries that no update group replaced. `find_disagreements` compares the view with the log
(TL-6), for `carnac verify`.

Brokers follow the log and infer nothing from announcements (`core/rollout`). A server that does not follow it would
show the timeline of `tests/support/timeline` while segments are missing, by the rules of the segment locking proposal.
Tests hold random logs against that timeline (TL-1 to TL-4, TL-6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from carnac.core.log.entries import Entry
from carnac.core.segments.version import IdRanges
from carnac.core.time.intervals import Interval, IntervalSet, interval_text
from carnac.errors import Invalid


@dataclass(frozen=True, slots=True)
class Group:
    """The entries that one commit added in one chunk, in effect together or not at all.

    Attributes:
        ids: The partition ids of all members.
        hides: The partition ids that they replaced: one hop.
    """

    ids: IdRanges
    hides: IdRanges
    minor: int


def groups_of(known: Iterable[Entry]) -> tuple[Group, ...]:
    """Return the groups of entries of one chunk and major version, by their lowest partition id.

    Raises:
        Invalid: Two entries of one update group disagree about it, or an entry is not in its own.
    """
    found: dict[int, Group] = {}
    for entry in known:
        group = Group(entry.update_group, entry.overshadowed_ids, entry.version.minor)
        if entry.partition_id not in group.ids:
            raise Invalid(
                f"entry {entry.entry_id}: partition {entry.partition_id} is not in its update group "
                f"[{group.ids}]",
                entry_id=entry.entry_id,
            )
        sibling = found.setdefault(group.ids.ranges[0][0], group)
        if sibling != group:
            raise Invalid(
                f"entry {entry.entry_id} of chunk {interval_text(entry.chunk)} says that its update group is "
                f"{group.ids}, replacing [{group.hides}] as minor version {group.minor}; its siblings say "
                f"{sibling.ids}, [{sibling.hides}], {sibling.minor}",
                entry_id=entry.entry_id,
            )
    return tuple(found[key] for key in sorted(found))


def find_disagreements(live: Iterable[Entry]) -> Iterator[tuple[Entry, str]]:
    """Yield the live entries that the overshadow view does not show as the log does, each with what is wrong (TL-6).

    Chunks of one revision are disjoint, so each is looked at alone.

    Args:
        live: The live entries of one datasource at one revision.
    """
    chunks: dict[Interval, list[Entry]] = defaultdict(list)
    for entry in live:
        chunks[entry.chunk].append(entry)
    for chunk, entries in chunks.items():
        try:
            shown = _shown(chunk, entries)
        except Invalid as error:
            yield entries[0], error.message
            continue
        for entry in entries:
            if shown.get(entry.entry_id, IntervalSet()) != entry.visible:
                yield (
                    entry,
                    f"the log shows entry {entry.entry_id}, and its version {entry.version}, partition "
                    f"{entry.partition_id} and update group {entry.update_group} say that it is hidden",
                )


def _shown(chunk: Interval, entries: Collection[Entry]) -> dict[int, IntervalSet]:
    """Return the visible instants of a chunk's live entries, by entry id: of the newest major those that none replaced.

    Other ids that their update groups name were dropped before, and are not missed.
    """
    by_major: dict[int, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=attrgetter("entry_id")):
        by_major[entry.version.major_ms].append(entry)
    groups = {major_ms: groups_of(known) for major_ms, known in by_major.items()}
    newest = max(by_major)
    hidden = {partition_id for group in groups[newest] for partition_id in group.hides}
    last = {entry.partition_id: entry for entry in by_major[newest]}
    return {
        entry.entry_id: entry.visible.inside(chunk)
        for entry in last.values()
        if entry.partition_id not in hidden
    }
