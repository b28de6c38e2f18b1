"""Bulk construction: what nearly every entry of a large build needs, and nothing else, in one loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval
from carnac.core.timeline.groups import Group
from carnac.core.timeline.stacks import Stack


def fill_slots(
    stacks: Mapping[tuple[int, int], Stack],
    entries: Iterable[Entry],
    make_stack: Callable[[Interval], Stack],
    place: Callable[[Entry], int],
) -> int:
    """Put announced entries into their slots and return how many were new there; what is in effect is decided later.

    Args:
        stacks: By start and end of their chunks; `make_stack` adds to it.
        place: Does the same for an entry of which anything is special, or says what is wrong with it.
    """
    placed = 0
    for entry in entries:
        chunk = entry.chunk
        stack = stacks.get((chunk.start_ms, chunk.end_ms))
        if stack is None:
            stack = make_stack(chunk)
        ranges = entry.update_group.ranges
        if len(ranges) == 1:
            first, last = ranges[0]
            partition_id = entry.partition_id
            if first <= partition_id <= last:
                group = _find_group(stack, entry, first)
                if group is not None and group.slots[partition_id - first] is None:
                    group.slots[partition_id - first] = entry
                    group.missing -= 1
                    group.known += 1
                    placed += 1
                    continue
        placed += place(entry)
    return placed


def _find_group(stack: Stack, entry: Entry, key: int) -> Group | None:
    """Return the entry's group, made if there is none; None if the entry does not agree with it."""
    major_ms = entry.version.major_ms
    for generation in stack.generations:
        if generation.major_ms == major_ms:
            group = generation.groups.get(key)
            if group is None:
                break
            return group if group.is_like(entry) else None
    else:
        generation = stack.generation(major_ms)
    group = Group(entry)
    generation.enter(group)
    return group
