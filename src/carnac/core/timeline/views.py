"""Where both views are defined they agree (TL-6): what the timeline shows of the live entries is what the log shows.

A server to which exactly the live entries of a revision are announced needs to be told one thing more: that whatever
else their update groups name was dropped before. Chunks of one revision are disjoint, so each is looked at alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.core.timeline.timeline import Timeline
from carnac.errors import Invalid


def timeline_of(live: Collection[Entry]) -> Timeline:
    """Return the timeline of a server that has loaded the live entries of a revision, and nothing else.

    Raises:
        Invalid: Two entries of one update group disagree about it, or an entry is not in its own.
    """
    known = {(one.chunk, one.version.major_ms, one.partition_id) for one in live}
    groups = {(one.chunk, one.version.major_ms, one.update_group): one for one in live}
    retired = [
        replace(one, partition_id=partition_id)
        for (chunk, major_ms, group), one in groups.items()
        for partition_id in group
        if (chunk, major_ms, partition_id) not in known
    ]
    return Timeline(live, retired=retired)


def find_disagreements(live: Iterable[Entry]) -> Iterator[tuple[Entry, str]]:
    """Yield the live entries of which the timeline does not show what the log shows, each with what is wrong.

    Args:
        live: The live entries of one datasource at one revision.
    """
    chunks: dict[Interval, list[Entry]] = defaultdict(list)
    for entry in live:
        chunks[entry.chunk].append(entry)
    for entries in chunks.values():
        try:
            shown = timeline_of(entries).shown()
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
