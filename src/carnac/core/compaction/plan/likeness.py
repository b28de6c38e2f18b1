"""Whether a segment is as its target asks for: layout, and size.

Only what the target asks for is compared (Druid compares stored compaction states the same way, field by field).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.input_groups import Kin, find_input_groups, rewritten
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.notes import cut_text, most_bytes, most_rows
from carnac.core.compaction.plan.settings import DEFAULT_TARGET_BYTES
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.nesting import is_finer_or_equal
from carnac.core.words import granularity_text

Mixture: TypeAlias = Mapping[int, int]
"""Segments of several input groups: the input group's number by the `id` of a layout."""


class TargetView:
    """The requirements of one target, ready to be compared with many segments."""

    def __init__(self, target: CompactionTarget) -> None:
        self.target = target
        self.unit_bytes = target.target_bytes or DEFAULT_TARGET_BYTES
        """The size in bytes that a segment counts as where the target names rows alone."""
        self._buckets = target.partitioning.buckets
        self._is_by_range = target.partitioning.kind == "range"
        self._rows, self._bytes = target.target_rows, target.target_bytes
        self._bytes_max, self._rows_max = most_bytes(target), most_rows(target)
        self._cut = cut_text(target)
        text = target.query_granularity
        self._query_granularity = None if text is None else parse_granularity(text)
        self._judged: dict[int, tuple[SegmentLayout, str | None]] = {}
        self._measured: tuple[Sequence[PlanSegment], tuple[int, Mixture | None]] = ([], (1, None))
        self._mixtures: dict[frozenset[int], tuple[Sequence[SegmentLayout], Mixture | None]] = {}
        self.asks_layout = (
            self._query_granularity is not None
            or target.metrics is not None
            or target.dimensions is not None
            or target.sort_by is not None
            or target.filter is not None
            or target.partitioning.kind != "dynamic"
        )

    def forget(self) -> None:
        """Forget the layouts that were seen: a caller that keeps a view for long must not keep them too."""
        self._judged, self._mixtures, self._measured = {}, {}, ([], (1, None))

    def ideal(self, size_bytes: int, rows: int) -> int:
        """Return how many segments so much data should be, at least 1; by ranges, how many it may have to be.

        A range ends before a value that would make it too large, so it may be small; it and the next one together have
        more than one and a half times the target then.
        """
        if self._buckets is not None:
            return self._buckets
        count = -(-rows // self._rows)
        if self._is_by_range and count > 1:  # of two neighbours one may be small
            count = 4 * count // 3 + 1
        if self._bytes is not None:
            by_bytes = -(-size_bytes // self._bytes)
            if by_bytes > count:
                return by_bytes
        return count or 1

    def measure(
        self, segments: Sequence[PlanSegment], size_bytes: int, rows: int
    ) -> tuple[int, Mixture | None]:
        """Return how many segments would do in place of these, and their input groups, as `mixture` does.

        Args:
            size_bytes, rows: Of all of them.
        """
        if segments is self._measured[0]:  # one rule after another asks about a chunk
            return self._measured[1]
        mixture = self.mixture(segments)
        ideal = self.ideal_of(segments, mixture) if mixture else self.ideal(size_bytes, rows)
        self._measured = segments, (ideal, mixture)
        return ideal, mixture

    def mixture(self, segments: Sequence[PlanSegment]) -> Mixture | None:
        """Return the input groups of segments; None if all of them can be put together."""
        first = segments[0].layout if segments else None
        others = {id(one.layout): one.layout for one in segments if one.layout is not first}
        if first is None or not others:
            return None
        layouts = {id(first): first, **others}  # in the order of segments, as a rewrite reads them
        key = frozenset(layouts)
        if key not in self._mixtures:
            kept = tuple(layouts.values())  # an id is one of its own only as long as they live
            self._mixtures[key] = kept, self._mix(kept)
        return self._mixtures[key][1]

    def _mix(self, layouts: Sequence[SegmentLayout]) -> Mixture | None:
        kins = [layout.kin for layout in layouts]
        if len(set(kins)) < 2:
            return None
        numbers = find_input_groups([rewritten(kin, self.target) for kin in kins])
        return dict(zip(map(id, layouts), numbers, strict=True)) if any(numbers) else None

    def ideal_of(self, segments: Sequence[PlanSegment], mixture: Mixture) -> int:
        """Return how many segments of several input groups should be, each as the target asks for."""
        return sum(self.ideal(*shares) for shares in shares_of(segments, mixture))

    def oversize(self, segments: Sequence[PlanSegment]) -> list[PlanSegment]:
        """Return the segments that are too large, but for those that cannot be cut as the target asks for."""
        if self._buckets is not None:
            return []
        rows_max, bytes_max = self._rows_max, self._bytes_max
        if not bytes_max:
            large = [one for one in segments if one.rows > rows_max]
        else:
            large = [one for one in segments if one.size_bytes > bytes_max or one.rows > rows_max]
        return large and [one for one in large if one.layout.cut_for != self._cut]

    def unlike(self, segments: Sequence[PlanSegment]) -> list[PlanSegment]:
        """Return the segments whose layout is not what the target asks for."""
        return [one for one in segments if self.difference(one.layout)]

    def difference(self, layout: SegmentLayout) -> str | None:
        """Return in a few words how a layout is not what the target asks for; None if it is."""
        known = self._judged.get(id(layout))
        if known is None:
            known = self._judged[id(layout)] = (layout, self._compare(layout))
        return known[1]

    def _compare(self, layout: SegmentLayout) -> str | None:
        target, kin = self.target, layout.kin
        wanted = self._query_granularity
        if wanted is not None:
            found = parse_granularity(kin.query_granularity)
            # times stay where the buckets do not nest: a rewrite would change nothing
            if found != wanted and is_finer_or_equal(found, wanted):
                words = granularity_text(str(found)), granularity_text(str(wanted))
                return f"query granularity {words[0]}, not {words[1]}"
        if target.metrics is not None and not kin.is_rollup:
            return "not rolled up"
        if target.dimensions is not None:
            kept = {*target.dimensions, *(metric.name for metric in target.metrics or ())}
            surplus = [name for name in kin.dimension_names() if name not in kept]
            if surplus:
                return f"has dimension {surplus[0]}"
        if target.filter is not None and layout.filtered_by != target.filter:
            return "not filtered" if layout.filtered_by is None else "filtered by another condition"
        asked = target.partitioning
        if asked.kind not in {"dynamic", layout.partition_kind}:
            return f"partitioning {layout.partition_kind}, not {asked.kind}"
        by = layout.partition_dimensions
        if asked.kind != "dynamic" and asked.dimensions and by != asked.dimensions:
            return f"partitioned by other dimensions than {', '.join(asked.dimensions)}"
        if target.sort_by is not None:
            order = wanted_order(target, kin)
            if layout.sort_columns[: len(order)] != order:
                return f"not sorted by {', '.join(order)}"
        return None


def shares_of(segments: Iterable[PlanSegment], input_groups: Mixture) -> Iterable[tuple[int, int]]:
    """Return bytes and rows of the segments of each input group that has any."""
    found: dict[int, tuple[int, int]] = {}
    for one in segments:
        number = input_groups[id(one.layout)]
        size_bytes, rows = found.get(number, (0, 0))
        found[number] = size_bytes + one.size_bytes, rows + one.rows
    return found.values()


def wanted_order(target: CompactionTarget, kin: Kin) -> tuple[str, ...]:
    """Return by what rows are to be sorted: columns that they do not have order nothing."""
    present = {TIME_COLUMN, *kin.dimension_names(), *kin.metric_names()}
    rest = [name for name in target.sort_by or () if name in present]
    return tuple(
        dict.fromkeys([*(name for name in target.range_dimensions if name in present), *rest])
    )
