"""What is probably a mistake in the settings: columns that they name and no segment has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.segments.segment import TIME_COLUMN

_NULL = "it counts as null in every row"


def note_absent(
    segments: Iterable[PlanSegment],
    settings: CompactionSettings,
    filter_columns: Mapping[str, Collection[str]] | None = None,
) -> tuple[str, ...]:
    """Return a sentence about each column that settings name and no segment has.

    Args:
        filter_columns: By condition of a target, the columns that it names.
    """
    layouts = list(
        {id(one.layout): one.layout for one in segments if one.layout is not None}.values()
    )
    if not layouts:
        return ()
    targets = (settings.target, *(rule.target for rule in settings.age_rules))
    found = (
        f"no segment has {kind} '{name}', which {asked}; is the name right?"
        for target in targets
        for kind, name, asked in _absent(target, layouts, filter_columns or {})
    )
    return tuple(dict.fromkeys(found))


def _absent(
    target: CompactionTarget,
    layouts: Sequence[SegmentLayout],
    filter_columns: Mapping[str, Collection[str]],
) -> Iterator[tuple[str, str, str]]:
    """Yield what is absent: its kind, its name, and what names it."""
    dimensions = {name for one in layouts for name in one.dimensions}
    for name in target.partitioning.dimensions:
        if name not in dimensions:
            yield "dimension", name, f"the spec partitions by: {_NULL}"
    for name in target.dimensions or ():
        if name not in dimensions:
            yield "dimension", name, "dimensionsSpec keeps: all others are left out"
    columns = dimensions.union(*(one.metrics for one in layouts), (TIME_COLUMN,))
    made = {metric.name for metric in target.metrics or ()}
    for name in target.sort_by or ():
        if name not in columns | made:
            yield "column", name, "sortBy names: no row is sorted by it"
    raw = [one for one in layouts if not one.is_rolled_up]
    there = {name for one in raw for name in one.dimensions}.union((TIME_COLUMN,))
    for metric in target.metrics or ():
        if raw and metric.input is not None and metric.input not in there:
            yield "column", metric.input, f"metric '{metric.name}' is made of"
    asked = [one for one in layouts if one.filtered_by != target.filter]
    known = {name for one in asked for name in (*one.dimensions, *one.metrics, TIME_COLUMN)}
    for name in filter_columns.get(target.filter or "", ()):
        if asked and name not in known:
            yield "column", name, f"the filter names: {_NULL}"
