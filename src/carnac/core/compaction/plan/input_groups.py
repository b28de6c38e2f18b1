"""Input groups: segments that a rewrite can put together.

Raw rows and rolled-up rows never share a segment, nor do rows whose metrics mean different things or whose times were
truncated otherwise. So a rewrite of a mixture writes segments for each input group. A planner that expected fewer would
rewrite them again, and find as many. The rows after the rewrite decide: raw rows that the target rolls up are of one
group with those that have been rolled up like that before. A segment joins the first group that takes it. Groups
that take one another are united. So segments that a rewrite wrote fall into the same groups again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.segments.schema import reads_alike, unite_types
from carnac.core.segments.segment import ColumnType, Metric, Segment
from carnac.core.segments.sql_columns import HIDDEN_PREFIX
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.nesting import is_finer_or_equal


class Kin(NamedTuple):
    """The properties of a segment that decide with which others it can share a segment.

    Attributes:
        query_granularity: Canonical text.
        dimensions: Names and types; of raw rows all columns.
        metrics: Of rolled-up rows.
        kept_apart: Columns of the datasource whose numbers keep their types: see `find_kept_apart`.
    """

    is_rollup: bool
    query_granularity: str
    dimensions: tuple[tuple[str, ColumnType], ...] = ()
    metrics: tuple[Metric, ...] = ()
    kept_apart: frozenset[str] = frozenset()

    def dimension_names(self) -> tuple[str, ...]:
        """Return the names of the dimensions, in file order."""
        return tuple([name for name, _ in self.dimensions])

    def metric_names(self) -> tuple[str, ...]:
        """Return the names of the metrics."""
        return tuple([metric.name for metric in self.metrics])


class Blend:
    """The united shape of the rows of one input group: types united, metrics of all. It grows as segments are added."""

    def __init__(self, kin: Kin) -> None:
        self._is_rollup = kin.is_rollup
        self._query_granularity = kin.query_granularity
        self._kept_apart = kin.kept_apart
        self.dimensions: dict[str, ColumnType] = dict(kin.dimensions)
        self.metrics: dict[str, Metric] = {metric.name: metric for metric in kin.metrics}

    def takes(self, kin: Kin) -> bool:
        """Whether rows of a segment can share segments with those that are here."""
        if (kin.is_rollup, kin.query_granularity) != (self._is_rollup, self._query_granularity):
            return False
        if any(name in self.metrics for name, _ in kin.dimensions):
            return False
        for metric in kin.metrics:
            known = self.metrics.get(metric.name)
            if metric.name in self.dimensions or not (known is None or self._agree(known, metric)):
                return False
        return all(
            self._can_unite(name, self.dimensions.get(name, kind), kind)
            for name, kind in kin.dimensions
        )

    def add(self, kin: Kin) -> None:
        """Add a segment that it takes."""
        for name, kind in kin.dimensions:
            known = self.dimensions.get(name)
            self.dimensions[name] = kind if known is None else unite_types(name, known, kind)
        for metric in kin.metrics:
            known_metric = self.metrics.setdefault(metric.name, metric)
            if known_metric.type is not metric.type:
                kind = unite_types(metric.name, known_metric.type, metric.type)
                self.metrics[metric.name] = replace(known_metric, type=kind)

    def kin(self) -> Kin:
        """Return what a segment of all of its rows is."""
        dimensions, metrics = tuple(self.dimensions.items()), tuple(self.metrics.values())
        return Kin(self._is_rollup, self._query_granularity, dimensions, metrics, self._kept_apart)

    def _agree(self, first: Metric, second: Metric) -> bool:
        """Whether two metrics of one name mean the same."""
        is_same = first.kind is second.kind and first.params == second.params
        return is_same and self._can_unite(first.name, first.type, second.type)

    def _can_unite(self, name: str, first: ColumnType, second: ColumnType) -> bool:
        if first is second:
            return True
        if first.is_sketch or second.is_sketch:
            return False
        return name not in self._kept_apart or reads_alike(first, second)


def kin_of(segment: Segment, kept_apart: frozenset[str] = frozenset()) -> Kin:
    """Return the kin of a segment; `kept_apart`: see `Kin`."""
    rollup = segment.rollup
    if rollup is None:
        columns = tuple([(column.name, column.type) for column in segment.columns])
        return Kin(False, segment.query_granularity, columns, (), kept_apart)
    names = {metric.name for metric in rollup.metrics}
    dimensions = tuple(
        (column.name, column.type)
        for column in segment.columns
        if column.name not in names and not (names and column.name.startswith(HIDDEN_PREFIX))
    )
    return Kin(True, segment.query_granularity, dimensions, rollup.metrics, kept_apart)


def rewritten(kin: Kin, target: CompactionTarget) -> Kin:
    """Return the kin of the segments that a rewrite for the target makes of rows of this kin."""
    metrics, dimensions, granularity = kin.metrics, kin.dimensions, kin.query_granularity
    if target.query_granularity is not None:
        granularity = _coarser(granularity, target.query_granularity)
    rolls_up = target.metrics is not None and not kin.is_rollup
    if rolls_up:
        metrics = target.metrics or ()
        used = {name for metric in metrics for name in (metric.input, metric.name)}
        dimensions = tuple(one for one in dimensions if one[0] not in used)
    if target.dimensions is not None:
        known = dict(kin.dimensions)
        dimensions = tuple((name, known[name]) for name in target.dimensions if name in known)
    return Kin(kin.is_rollup or rolls_up, granularity, dimensions, metrics, kin.kept_apart)


def find_input_groups(kins: Sequence[Kin]) -> list[int]:
    """Return the number of the input group that each segment is put into, in their order."""
    found, blends = _first_fit(kins)
    while len(blends) > 1:  # texts that came late may unite what was kept apart before
        again, united = _first_fit([blend.kin() for blend in blends])
        if len(united) == len(blends):
            break
        found, blends = [again[number] for number in found], united
    return found


def _first_fit(kins: Sequence[Kin]) -> tuple[list[int], list[Blend]]:
    """Return the number of the first group that takes each kin, and the groups."""
    blends: list[Blend] = []
    found: list[int] = []
    for kin in kins:
        for number, blend in enumerate(blends):
            if blend.takes(kin):
                blend.add(kin)
                found.append(number)
                break
        else:
            found.append(len(blends))
            blends.append(Blend(kin))
    return found, blends


@lru_cache(maxsize=1 << 10)
def _coarser(own: str, asked: str) -> str:
    wanted = parse_granularity(asked)
    return str(wanted) if is_finer_or_equal(parse_granularity(own), wanted) else own
