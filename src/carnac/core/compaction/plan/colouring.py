"""Which tasks may run side by side: those that share no segment.

Source: "Compaction Notes", "red" and "black" lists. `color_serially` is what it says first: a task that shares a
segment with one before it waits for that one; where every task overlaps the next, all wait in a row.
`color_by_neighbour` is the refinement that it names: of such a row every other task may run at once, and those between
wait for their neighbours only. With segments that reach over several tasks there are as many turns as tasks share one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from carnac.core.compaction.plan.tasks import Color, CompactionTask


def find_neighbours(tasks: Sequence[CompactionTask]) -> list[set[int]]:
    """Return for each task the indexes of the tasks that share a segment with it."""
    owners: dict[str, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        for segment_id in task.segment_ids:
            owners[segment_id].append(index)
    neighbours: list[set[int]] = [set() for _ in tasks]
    for indexes in owners.values():
        if len(indexes) > 1:
            for index in indexes:
                neighbours[index].update(indexes)
    for index, found in enumerate(neighbours):
        found.discard(index)
    return neighbours


def color_serially(tasks: Sequence[CompactionTask]) -> list[CompactionTask]:
    """Return the tasks coloured in their order: black is what shares a segment with an earlier one."""
    colored: list[CompactionTask] = []
    for index, found in enumerate(find_neighbours(tasks)):
        earlier = [other for other in found if other < index]
        colored.append(_color(tasks, index, earlier))
    return colored


def color_by_neighbour(tasks: Sequence[CompactionTask]) -> list[CompactionTask]:
    """Return the tasks coloured so that they run in as few turns as the first free colour of each allows."""
    neighbours = find_neighbours(tasks)
    turns: list[int] = []
    for index, found in enumerate(neighbours):
        taken = {turns[other] for other in found if other < index}
        turns.append(next(turn for turn in range(len(taken) + 1) if turn not in taken))
    return [
        _color(tasks, index, [other for other in found if turns[other] < turns[index]])
        for index, found in enumerate(neighbours)
    ]


def _color(tasks: Sequence[CompactionTask], index: int, before: Iterable[int]) -> CompactionTask:
    after = tuple(tasks[other].task_id for other in sorted(before))
    return replace(tasks[index], after=after, color=Color.BLACK if after else Color.RED)
