"""Bulk construction: what nearly every entry of a large build needs, and nothing else, in one loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from carnac.core.entries import Entry
from carnac.core.timeline.groups import Group
from carnac.core.timeline.stacks import Stack


def fill_slots(
    stacks: Mapping[tuple[int, int], Stack],
    entries: Iterable[Entry],
    place: Callable[[Entry], int],
) -> int:
    """Put announced entries into their slots and return how many were new there; what is in effect is decided later.

    Args:
        stacks: By start and end of their chunks; `place` adds to it.
        place: Does the same for the entry of a group that is not known yet, or for which anything else is special.
    """
    placed = 0
    for entry in entries:
        chunk = entry.chunk
        group = _find_group(stacks.get((chunk.start_ms, chunk.end_ms)), entry)
        if group is not None:
            first, last = group.ids.ranges[0]
            partition_id = entry.partition_id
            if first <= partition_id <= last:
                slots = group.slots
                if slots[partition_id - first] is None:
                    slots[partition_id - first] = entry
                    group.missing -= 1
                    group.known += 1
                    placed += 1
                    continue
        placed += place(entry)
    return placed


def _find_group(stack: Stack | None, entry: Entry) -> Group | None:
    """Return the group if the entry agrees with it; None leaves it to others to say why not."""
    if stack is None:
        return None
    major_ms = entry.version.major_ms
    for generation in stack.generations:
        if generation.major_ms == major_ms:
            ranges = entry.update_group.ranges
            group = generation.groups.get(ranges[0][0]) if ranges else None
            if group is None or not group.is_like(entry):
                return None
            return group
    return None
