"""One rewrite of very many time chunks, spread over several tasks by ranges of chunks.

A year that becomes hours is thousands of files, and writing them is nearly all of the work. No row belongs to two
ranges, so no task waits for another and nothing is shuffled: each reads what its range shows of the inputs, where the
times of row groups say what there is to skip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from carnac.core.time.intervals import Interval
from carnac.jobs.compact.conservation import Side
from carnac.jobs.compact.cuts import rows_by_chunk
from carnac.jobs.compact.measure import recorded
from carnac.jobs.compact.task import GroupTask, Rewritten
from carnac.ports import SegmentInput

ROWS_PER_FILE = 3_000
"""About as many rows are written in the time that a file takes however few it has."""
ROWS_PER_RANGE = 250_000
"""A range with less work is not worth a task of its own."""
RANGES_PER_CORE = 2
"""Ranges are not all as much work as they seem: a task that is done first takes another."""


def spread_chunks(tasks: Sequence[GroupTask], cores: int) -> tuple[tuple[GroupTask, ...], ...]:
    """Return the input groups of one job in ranges of time chunks, in order; all in one where that is as fast."""
    chunks = tasks[0].chunks
    if cores < 2 or len(chunks) < 2:
        return (tuple(tasks),)
    inputs = [source for task in tasks for source in task.input_group.inputs]
    work = np.cumsum(np.array(rows_by_chunk(inputs, chunks)) + ROWS_PER_FILE * len(tasks))
    count = min(int(work[-1] // ROWS_PER_RANGE), RANGES_PER_CORE * cores, len(chunks))
    if count < 2:
        return (tuple(tasks),)
    wanted = work[-1] * np.arange(1, count) / count
    # an exact edge is not missed by a rounding
    edges = np.searchsorted(work, wanted * (1 - 1e-9)) + 1
    places = [0, *sorted({int(edge) for edge in edges if edge < len(chunks)}), len(chunks)]
    ranges = [
        tuple(_ranged(tasks, chunks[first:last], number))
        for number, (first, last) in enumerate(pairwise(places))
    ]
    return tuple(one for one in ranges if one)


def join_ranges(
    tasks: Sequence[GroupTask],
    ranges: Sequence[Sequence[GroupTask]],
    written: Sequence[Sequence[Rewritten]],
) -> list[Rewritten]:
    """Return the output of each input group, all ranges together.

    A range knows the rows that it has read, not those that the others leave out. So if an input group is read wholly,
    and as it was recorded, the sums of its input are those of the records.

    Args:
        tasks: The input groups, as they were spread.
        written: For each range, the outputs of its input groups.

    Raises:
        Corrupt: A file does not hold the rows that its record speaks of.
    """
    parts: dict[str, list[Rewritten]] = {task.id_prefix: [] for task in tasks}
    for input_groups, done in zip(ranges, written, strict=True):
        for task, one in zip(input_groups, done, strict=True):
            own = task.id_prefix
            parts[own if own in parts else own.rpartition("r")[0]].append(one)
    return [_joined(task, parts[task.id_prefix]) for task in tasks]


def _joined(task: GroupTask, parts: Sequence[Rewritten]) -> Rewritten:
    went_in, came_out = Side(), Side()
    for one in parts:
        went_in.add(one.went_in)
        came_out.add(one.came_out)
    if not task.input_group.shape.is_rollup:
        [unit] = task.input_group.units  # rows that are only moved are all read alike
        went_in = recorded(task.plan(unit), unit.inputs) or went_in
        task.check_inputs(went_in, came_out)
    segments = tuple(segment for one in parts for segment in one.segments)
    return Rewritten(segments=segments, went_in=went_in, came_out=came_out)


def _ranged(
    tasks: Sequence[GroupTask], chunks: tuple[Interval, ...], number: int
) -> Iterator[GroupTask]:
    """Yield the input groups with what a range shows of them."""
    where = Interval(chunks[0].start_ms, chunks[-1].end_ms)
    for task in tasks:
        units = tuple(
            replace(unit, inputs=inputs)
            for unit in task.input_group.units
            if (inputs := tuple(_clipped(unit.inputs, where)))
        )
        if units:
            yield replace(
                task,
                input_group=replace(task.input_group, units=units),
                chunks=chunks,
                id_prefix=f"{task.id_prefix}r{number}",
                temp_dir=f"{task.temp_dir}-{number}",
            )


def _clipped(inputs: Sequence[SegmentInput], where: Interval) -> Iterator[SegmentInput]:
    for source in inputs:
        visible = source.visible.inside(where)
        if visible:
            yield replace(source, visible=visible)
