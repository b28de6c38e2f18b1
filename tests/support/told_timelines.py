"""What a timeline that does not follow the log must be told so that it agrees with it: source 1's view, whole.

A commit adds entries and drops entries. Most drops are what the adds of the same commit overshadow: there the timeline
needs no word, and keeps the old entries to fall back to. The others, deletions above all, must be said: they retire
their places. So with everything announced a timeline shows what the log says, entry by entry.
"""

from __future__ import annotations

from carnac.core.log.commits import DatasourceCommit
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.time.intervals import Interval, interval_set
from carnac.core.timeline import Timeline
from tests.support.log_algebra import State


def timeline_at(state: State, datasource: str) -> Timeline:
    """Return a timeline in which exactly the entries of that state are announced.

    What their update groups name beside them was dropped before; it is retired.
    """
    live = tuple(state.entries.get(datasource, {}).values())
    timeline = Timeline(live)
    last_id = ((state.revision + 1) << ENTRY_BITS) - 1
    for entry in live:
        timeline.retire_unknown(entry, last_id)
    return timeline


def apply_to_timeline(
    timeline: Timeline, change: DatasourceCommit, *, are_announced: bool = True
) -> None:
    """Tell a timeline of the entries' datasource what a commit did to it.

    Args:
        are_announced: Whether the added entries are served already; else they are expected, what they replace goes on
            showing, and `Timeline.add` follows for each when it is announced.

    Raises:
        Invalid: The timeline is of another datasource, or of another history.
    """
    for entry in change.adds:
        if are_announced:
            timeline.add(entry)
        else:
            timeline.expect(entry)
    for entry in change.adds:
        timeline.retire_unknown(entry, entry.entry_id - 1)
    for entry in retired_by(change):
        timeline.retire(entry)


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
