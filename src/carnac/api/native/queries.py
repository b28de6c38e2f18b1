"""Parts that all kinds of native queries share: data source, intervals, granularity, filter, and virtual columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from carnac.api.native.sources import Source, Sources
from carnac.core.log.identifiers import version_text
from carnac.core.texts import short
from carnac.core.time.granularity import ALL
from carnac.core.time.intervals import (
    ETERNITY,
    MAX_MS,
    MIN_MS,
    Interval,
    IntervalSet,
    interval_set,
    parse_instant,
    parse_interval,
)
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    blocks_of,
    flag_of,
    text_of,
    whole_of,
)
from carnac.specs.druid.terms.filters import compile_filter
from carnac.specs.druid.terms.scopes import Scope
from carnac.specs.druid.terms.times import read_granularity, written
from carnac.specs.druid.terms.values import TIME_SQL, Sql, at_ms

if TYPE_CHECKING:
    from carnac.ports.queries import Catalog

ETERNAL = "-146136543-09-08T08:23:32.096Z/146140482-04-24T15:36:27.903Z"
"""All of time, as Druid and its clients write it."""
_EARLY = re.compile(r"-\d|0000")
_LATE = re.compile(r"\+?(\d{5,9}-|\d{5,6}$)")
Row = tuple[Any, ...]
Rows = Iterator[list[Row]]
"""Rows in pieces, their values as JSON has them."""
Ask = Callable[[str], list[Row]]
"""Runs one more statement, once the rows of the first one are read."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A native query as it is run.

    Attributes:
        sql: The statement.
        render: Makes the answer of its rows.
        inner: The statement with names of columns, as another query has it for its data source; empty: it cannot.
        columns: Of `inner`.
    """

    sql: str
    render: Callable[[Rows, Ask], Iterator[bytes]]
    inner: str = ""
    columns: Mapping[str, Sql] = field(default_factory=dict)


class Query:
    """The parts that kinds of queries share.

    Args:
        is_inner: Whether it is the data source of another query.

    Raises:
        Invalid: One of them is wrong, or not supported.
    """

    def __init__(self, block: Block, sources: Sources, *, is_inner: bool = False) -> None:
        self.block = block
        self.is_inner = is_inner
        context = block.get("context")
        self.context: Block = {} if context is None else block_of(context, "context")
        if block.get("dataSource") is None:
            raise Invalid("dataSource must be said: the name of a datasource")
        self.source: Source = sources.read(block["dataSource"])
        self.catalog: Catalog = sources.catalog
        asked = block.get("intervals")
        self.listed = (
            self._of_segments(asked)
            if isinstance(asked, Mapping) and asked.get("type") == "segments"
            else read_intervals(asked)
        )
        self.intervals: IntervalSet = interval_set(self.listed)
        self.granularity = read_granularity(block.get("granularity"))
        self.scope = Scope(self.source.columns, blocks_of(block, "virtualColumns"))
        self.filter = compile_filter(block.get("filter"), self.scope)
        if self.source.may_lack_time:
            self.source = self.source.within(self._within() or "true")

    def where(self) -> str:
        """Return the WHERE clause: intervals and the filter."""
        within = None if self.source.may_lack_time else self._within()
        tests = [one for one in (within, self.filter) if one is not None]
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def flag(self, name: str) -> bool:
        """Return a flag of the context."""
        return flag_of(self.context, name)

    def _of_segments(self, spec: Block) -> list[Interval]:
        """Return the intervals of segments that are named one by one; one that is not there has no rows.

        Raises:
            Invalid: They are no descriptors, or only some of the segments of a time chunk.
        """
        named = {
            (
                _interval(text_of(one, "itvl")),
                text_of(one, "ver"),
                whole_of(one, "part", 0),
            )
            for one in blocks_of(spec, "segments")
        }
        chunks: dict[Interval, list[bool]] = {}
        for item in self.source.segments(self.catalog, interval_set(one for one, _, _ in named)):
            entry = item.entry
            key = (entry.chunk, version_text(entry.version), entry.partition_id)
            chunks.setdefault(entry.chunk, []).append(key in named)
        for chunk, are_named in chunks.items():
            if any(are_named) and not all(are_named):
                raise Invalid(
                    f"rows of single segments are not read: name all {len(are_named)} segments of {chunk}, or the "
                    "interval"
                )
        return [chunk for chunk, are_named in chunks.items() if all(are_named)]

    def _within(self) -> str | None:
        if not self.scope.has_time or ETERNITY in self.listed:
            return None
        tests = [
            f"({TIME_SQL} >= {at_ms(one.start_ms)} AND {TIME_SQL} < {at_ms(one.end_ms)})"
            for one in self.intervals.intervals
        ]
        return f"({' OR '.join(tests)})" if len(tests) > 1 else "".join(tests) or "false"

    def spans(self) -> list[tuple[int, int]]:
        """Return the parts of the intervals that segments have rows in, each from its first row to its last.

        They are pairs of numbers, for a datasource has a hundred thousand segments.
        """
        found: list[tuple[int, int]] = []
        asked = [(one.start_ms, one.end_ms) for one in self.intervals.intervals]
        for one in self.source.segments(self.catalog, self.intervals):
            first_ms, end_ms = one.segment.min_time_ms, one.segment.max_time_ms + 1
            clip = one.entry.clip
            shown = [(first_ms, end_ms)]
            if clip is not None:
                shown = [
                    (max(first_ms, cut.start_ms), min(end_ms, cut.end_ms)) for cut in clip.intervals
                ]
            for start, end in shown:
                found += [
                    (max(start, low), min(end, high))
                    for low, high in asked
                    if start < high and low < end and start < end
                ]
        return found

    def start_ms(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the time that an answer without buckets has: of its first row, else the start of the intervals."""
        return min((start for start, _ in spans), default=self.first_ms)

    @property
    def first_ms(self) -> int:
        """The start of the intervals, 1970 if there is none."""
        return self.listed[0].start_ms if self.listed else 0

    def time_text(self, ms: int) -> object:
        """Return a time as the answer has it."""
        if self.flag("serializeDateTimeAsLong"):
            return ms
        if ms == MIN_MS:
            return _year_text(self.block.get("intervals"))
        return written(ms, self.granularity.zone)

    @property
    def has_buckets(self) -> bool:
        """Whether the granularity cuts time."""
        return self.granularity != ALL


def read_intervals(value: object) -> list[Interval]:
    """Return the intervals of a query; all of time if it says none.

    Raises:
        Invalid: One of them is none.
    """
    if isinstance(value, Mapping):
        if value.get("type") not in {None, "intervals"}:
            raise Invalid(
                f"intervals are of the type intervals or segments, not {short(value['type'])}"
            )
        value = value.get("intervals")
    if value is None:
        return [ETERNITY]
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise Invalid(f"intervals must be a list of texts like 2013-01-01/P1D, not {short(value)}")
    return [_interval(one) for one in listed]


def _interval(text: str) -> Interval:
    """Return an interval, cut to the years 1 to 9999: clients write all of time with years beyond them."""
    start, slash, end = text.partition("/")
    is_early, is_late = _EARLY.match(start) is not None, _LATE.match(end) is not None
    if slash and (is_early or is_late):
        start_ms = MIN_MS if is_early else parse_instant(start)
        return Interval(start_ms, MAX_MS if is_late else parse_instant(end))
    return parse_interval(text)


def _year_text(intervals: object) -> str:
    """Return the start of the first interval, which is before year 1, as the query has it."""
    first = intervals[0] if isinstance(intervals, list) and intervals else intervals
    start = str(first).partition("/")[0] if isinstance(first, str) else ""
    year = re.fullmatch(r"-?\d+", start)
    if year is not None:
        return f"{start}-01-01T00:00:00.000Z"
    return start if start.endswith("Z") else ETERNAL.partition("/")[0]
