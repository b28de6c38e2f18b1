"""Timeseries, topN and groupBy: rows in groups, and aggregates of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from carnac.api.native.queries import Ask, Plan, Query, Row, Rows
from carnac.api.native.shapes import each, filled, listed, runs
from carnac.api.native.terms.aggregators import Grouped, read_measure, seen
from carnac.api.native.terms.having import compile_having
from carnac.api.native.terms.posts import Results
from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.texts import short
from carnac.core.time.granularity import ALL
from carnac.core.time.intervals import Interval, interval_set
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    flag_of,
    list_of,
    refused,
    said,
    text_of,
    whole_of,
)
from carnac.specs.druid.terms.dimensions import Dimension, read_dimension
from carnac.specs.druid.terms.ordering import sort_by, sort_key
from carnac.specs.druid.terms.times import bucket_ms
from carnac.specs.druid.terms.values import (
    TIME,
    Sql,
    literal,
    sql_type,
    to_text,
    to_value,
)

BUCKETS_MAX = 500_000
"""Buckets of an answer, those without rows included."""
SUBTOTALS_MAX = 100
_DESCENDING = ("descending", "desc")
_LIMITS = ("default", "NoopLimitSpec")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a statement: its name in the answer, its alias in the statement, and its value."""

    name: str
    alias: str
    value: Sql

    @property
    def outside(self) -> Sql:
        """The column as a statement around this one sees it."""
        return Sql(self.alias, self.value.kind)

    @property
    def key(self) -> Sql:
        """What it is sorted by: of a sketch, how much it has seen."""
        return seen(self.outside)


class Groups:
    """The columns of a statement over groups: bucket, dimensions, aggregators and post-aggregators.

    Args:
        dimensions: Specs of dimensions.
        kept: Names of those that rows are grouped by; None: all. The others are null.
        skips_empty: Whether rows with a list without a value are left out; else they have null.
    """

    def __init__(
        self,
        query: Query,
        dimensions: Sequence[object],
        kept: Collection[str] | None = None,
        *,
        skips_empty: bool = False,
    ) -> None:
        self.query = query
        self._skips_empty = skips_empty
        scope = query.scope
        self._unnested: list[tuple[str, str]] = []
        each = [self._single(read_dimension(one, scope), one) for one in dimensions]
        self.dimensions = [
            one if kept is None or one.name in kept else Dimension(one.name, _null(one.value))
            for one in each
        ]
        rows = Grouped(scope, kept)
        self.measures = [read_measure(one, rows) for one in list_of(query.block, "aggregations")]
        self.results = Results({one.name: one.value for one in self.dimensions}, self.measures)
        posts = [self.results.add(one) for one in list_of(query.block, "postAggregations")]
        # states of an inner query can be merged by the one around it, as in Druid
        is_final = flag_of(query.context, "finalize", default=not query.is_inner)
        values = [(one.name, one.value if is_final else one.state) for one in self.measures]
        self.columns: list[Column] = []
        if query.has_buckets:
            if not scope.has_time:
                raise Invalid("a granularity needs a data source whose rows have a time")
            if query.source.may_lack_time:
                raise Invalid(
                    "rows of the right side of a RIGHT or FULL join may have no time: ask for granularity all"
                )
            self._add("", Sql(bucket_ms(query.granularity, TIME), "long"))
        for one in self.dimensions:
            self._add(one.name, one.value)
        self.groups = len(self.columns)
        for name, value in [*values, *posts]:
            self._add(name, to_value(value))
        _check_names([one.name for one in self.columns])

    def _add(self, name: str, value: Sql) -> None:
        self.columns.append(Column(name, f"c{len(self.columns)}", value))

    def _single(self, found: Dimension, spec: object) -> Dimension:
        """Return a dimension of which a row has one value: of several, each makes a row."""
        value = found.value
        if value.kind == "array<string>":
            alias, text = f"__each{len(self._unnested)}", value.text
            there = f"{text} IS NOT NULL" if self._skips_empty else f"len({text}) > 0"
            self._unnested.append((alias, f"CASE WHEN {there} THEN {text} ELSE [NULL] END"))
            value = Sql(alias, "string")
        elif not value.is_array and not (isinstance(spec, Mapping) and spec.get("outputType")):
            value = to_text(value)
        return Dimension(found.name, value)

    @property
    def names(self) -> list[str]:
        """Names of the columns in answers, without that of the bucket."""
        return [one.name for one in self.columns if one.name]

    def record(self, values: Row) -> dict[str, object]:
        """Return the values of a row, without that of its bucket, by name."""
        return dict(zip(self.names, values, strict=False))  # no columns at all are one of SQL

    def find(self, name: str) -> Column | None:
        """Return a column by its name; None: there is none."""
        return next((one for one in self.columns if one.name == name), None)

    def sql(self, *, having: str | None = None) -> str:
        """Return the statement, in no order."""
        query = self.query
        said = ", ".join(f"{one.value.text} AS {one.alias}" for one in self.columns) or "1 AS c0"
        rows = f"{query.source.sql}{query.where()}"
        # one by one: lists that are taken apart at once are zipped
        for alias, values in self._unnested:
            rows = f"(SELECT *, unnest({values}) AS {alias} FROM {rows})"
        by = ", ".join(str(place) for place in range(1, self.groups + 1))
        if not by and having is None:
            having = "true"  # which makes one row of all rows, also without aggregates
        return (
            f"SELECT {said} FROM {rows}"
            f"{f' GROUP BY {by}' if by else ''}{f' HAVING {having}' if having else ''}"
        )

    def empty(self) -> str:
        """Return a statement for the aggregates of no rows at all."""
        source = self.query.source.columns
        nulls = [
            f"CAST(NULL AS {'TIMESTAMPTZ' if name == TIME_COLUMN else sql_type(one.kind)}) AS {quote(name)}"
            for name, one in source.items()
        ]
        rest = self.columns[self.groups :]
        said = ", ".join(f"{one.value.text} AS {one.alias}" for one in rest) or "1"
        return f"SELECT {said} FROM (SELECT {', '.join(nulls) or '1'} WHERE false) HAVING true"


def _null(value: Sql) -> Sql:
    return Sql(f"CAST(NULL AS {sql_type(value.kind)})", value.kind)


def _check_names(names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise Invalid(
                f"[{name}] already defined: every dimension and aggregator needs a name of its own"
            )


def as_source(sql: str, groups: Groups) -> tuple[str, dict[str, Sql]]:
    """Return a statement whose columns have their names, and these as a query around it sees them."""
    said, columns = [], {}
    for one in groups.columns:
        name = one.name or TIME_COLUMN
        alias = one.alias if one.name else f"make_timestamptz({one.alias} * 1000)"
        said.append(f"{alias} AS {quote(name)}")
        columns[name] = Sql(quote(name), one.value.kind) if one.name else TIME
    return f"SELECT {', '.join(said) or '1'} FROM ({sql})", columns


def plan_timeseries(query: Query) -> Plan:
    """Return a timeseries: a row for each bucket, those without rows included."""
    groups = Groups(query, ())
    block, is_all = query.block, not query.has_buckets
    descending = flag_of(block, "descending")
    skips = query.flag("skipEmptyBuckets")
    limit = whole_of(block, "limit", None)
    spans = query.spans()
    starts = [] if is_all or skips else _starts(query, spans)
    sql = groups.sql(having="count(*) > 0" if is_all and skips else None)
    if query.is_inner:
        if query.flag("grandTotal"):
            raise Invalid("a timeseries that is a data source has no grandTotal")
        sql = _with_empty(sql, groups, starts) if starts else sql
    ordered = sql if is_all else f"{sql} ORDER BY c0{' DESC' if descending else ''}"
    ordered += f" LIMIT {limit}" if query.is_inner and limit else ""

    def item(ms: int | None, values: Row) -> dict[str, object]:
        at = None if ms is None else query.time_text(ms)
        return {"timestamp": at, "result": groups.record(values)}

    def items(rows: Rows, ask: Ask) -> Iterator[object]:
        if is_all:
            every = [(query.start_ms(spans), *row) for piece in rows for row in piece]
        else:
            every = list(
                filled(rows, starts, lambda: ask(groups.empty())[0], descending=descending)
            )
        for row in every[: limit or None]:
            yield item(row[0], row[1:])
        if query.flag("grandTotal"):
            total = Groups(_without_buckets(query), ()).sql()
            yield from (item(None, row) for row in ask(total))

    def render(rows: Rows, ask: Ask) -> Iterator[bytes]:
        yield from listed(items(rows, ask))

    return Plan(ordered, render, *as_source(ordered, groups))


def _with_empty(sql: str, groups: Groups, starts: Sequence[int]) -> str:
    """Return the statement of a timeseries with a row for each bucket that must be there."""
    bucket, *others = [one.alias for one in groups.columns]
    said = ", ".join(
        f"CASE WHEN found.{bucket} IS NULL THEN nothing.{one} ELSE found.{one} END AS {one}"
        for one in others
    )
    first = f"coalesce(found.{bucket}, starts.ms) AS {bucket}"
    ranges = ", ".join(f"range({start}, {end}, {step})" for start, end, step in _ranges(starts))
    return (
        f"SELECT {', '.join([first, said] if said else [first])} FROM ({sql}) AS found"
        f" FULL JOIN (SELECT unnest(flatten([{ranges}])) AS ms) AS starts ON found.{bucket} = starts.ms"
        f" CROSS JOIN ({groups.empty()}) AS nothing"
    )


def _ranges(starts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield numbers as ranges: start, end and step."""
    place = 0
    while place < len(starts):
        step = starts[place + 1] - starts[place] if place + 1 < len(starts) else 1
        last = place
        while last + 1 < len(starts) and starts[last + 1] - starts[last] == step:
            last += 1
        yield starts[place], starts[last] + step, step
        place = last + 1


def _without_buckets(query: Query) -> Query:
    found = copy(query)
    found.granularity = ALL
    return found


def _starts(query: Query, spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return the starts of the buckets that segments have rows around.

    Raises:
        Invalid: They are too many.
    """
    found: dict[int, None] = {}
    for span in interval_set(Interval(start, end) for start, end in set(spans)).intervals:
        if span.duration_ms // query.granularity.nominal_ms + len(found) > BUCKETS_MAX:
            raise Invalid(
                f"the answer has more than {BUCKETS_MAX:,} buckets; ask for a coarser granularity, a shorter "
                "interval, or skipEmptyBuckets in the context"
            )
        for bucket in query.granularity.buckets(span, limit=2 * BUCKETS_MAX):
            found[bucket.start_ms] = None
    return sorted(found)


def plan_topn(query: Query) -> Plan:
    """Return a topN: of each bucket, the values of a dimension that have the largest of a metric."""
    block = query.block
    if block.get("dimension") is None:
        raise Invalid("topN needs dimension, and one alone")
    groups = Groups(query, [block["dimension"]], skips_empty=True)
    threshold = whole_of(block, "threshold", None, least=1)
    if threshold is None:
        raise Invalid("topN needs threshold, a whole number")
    [dimension] = groups.dimensions
    order, stop = _metric(block.get("metric"), groups)
    having = None
    if stop is not None:
        operator, value, ordering = stop
        keys = (sort_key(of, ordering) for of in (dimension.value, literal(value)))
        having = f"({f' {operator} '.join(keys)})"
    sql = groups.sql(having=having)
    spans = query.spans()
    is_sparse = not query.has_buckets or query.is_inner or query.flag("skipEmptyBuckets")
    starts = [] if is_sparse else _starts(query, spans)
    if query.has_buckets:
        rank = f"row_number() OVER (PARTITION BY c0 ORDER BY {order})"
        said = ", ".join(one.alias for one in groups.columns)
        sql = f"SELECT {said} FROM ({sql}) QUALIFY {rank} <= {threshold} ORDER BY c0, {order}"
    else:
        sql = _ordered(sql, groups, order) + f" LIMIT {threshold}"

    def items(rows: Rows, _ask: Ask) -> Iterator[object]:
        if query.has_buckets:
            found = dict(runs(rows))
            for start in sorted({*starts, *found}):
                every = [groups.record(row) for row in found.get(start, ())]
                yield {"timestamp": query.time_text(start), "result": every}
            return
        every = [groups.record(row) for piece in rows for row in piece]
        if spans or every:
            yield {"timestamp": query.time_text(query.start_ms(spans)), "result": every}

    def render(rows: Rows, ask: Ask) -> Iterator[bytes]:
        yield from listed(items(rows, ask))

    return Plan(sql, render, *as_source(sql, groups))


def _ordered(sql: str, groups: Groups, order: str) -> str:
    """Return a statement in an order, which may be of functions of its columns."""
    if "(" not in order:
        return f"{sql} ORDER BY {order}"
    said = ", ".join(one.alias for one in groups.columns)
    return f"SELECT {said} FROM ({sql}) ORDER BY {order}"


def _metric(value: object, groups: Groups) -> tuple[str, tuple[str, str, object] | None]:
    """Return what a topN is sorted by; and the condition on the dimension: operator, value and ordering."""
    place = 1 if groups.query.has_buckets else 0
    dimension = groups.columns[place].outside
    metric, inverted = value, False
    while isinstance(metric, Mapping) and metric.get("type") == "inverted":
        metric, inverted = metric.get("metric"), not inverted
    if isinstance(metric, Mapping) and metric.get("type") == "numeric":
        metric = metric.get("metric")
    if isinstance(metric, str):
        column = groups.find(metric)
        if column is None or column.alias == dimension.text:
            there_are = f"; there are {', '.join(groups.names[1:])}" if groups.names[1:] else ""
            raise Invalid(f"topN has no aggregator {short(metric)} for its metric{there_are}")
        way = "ASC NULLS FIRST" if inverted else "DESC NULLS LAST"
        return f"{column.key.text} {way}, {dimension.text} NULLS FIRST", None
    block = block_of(metric, "metric")
    kinds = {
        "dimension": block.get("ordering"),
        "lexicographic": None,
        "alphaNumeric": "alphanumeric",
    }
    if str(block.get("type")) not in kinds:
        raise refused(block.get("type"), "metric", (*kinds, "numeric", "inverted"), {})
    ordering = kinds[str(block["type"])]
    ordering = ordering.get("type") if isinstance(ordering, Mapping) else ordering
    way = "DESC NULLS FIRST" if inverted else "ASC NULLS FIRST"
    by = sort_by(dimension if ordering == "numeric" else to_text(dimension), ordering, way)
    order = f"{dimension.text} IS NOT NULL, {by}, {dimension.text}"
    stop = block.get("previousStop")
    return order, None if stop is None else ("<" if inverted else ">", said(stop), ordering)


def plan_groupby(query: Query) -> Plan:
    """Return a groupBy: an event for each combination of values of dimensions, and each bucket."""
    block = query.block
    specs = list_of(block, "dimensions")
    limit_spec = _limit_spec(block)
    whole = Groups(query, specs)
    subtotals = _subtotals(block, [one.name for one in whole.dimensions])
    parts = [whole] if subtotals is None else [Groups(query, specs, kept) for kept in subtotals]
    selects = [one.sql(having=compile_having(block.get("having"), one.results)) for one in parts]
    order = _limit_order(limit_spec, whole)
    natural = [f"{one.alias} NULLS FIRST" for one in whole.columns[: whole.groups]]
    if query.has_buckets:
        if query.flag("sortByDimsFirst"):
            natural = [*natural[1:], natural[0]]
        elif order:
            order = [natural[0], *order]
    if subtotals is None:
        order = [*order, *(one for one in natural if one not in order)]
        sql = _ordered(selects[0], whole, ", ".join(order)) if order else selects[0]
    else:
        aliases = ", ".join(one.alias for one in whole.columns)
        united = " UNION ALL ".join(
            f"SELECT {place} AS __set, {aliases} FROM ({one})" for place, one in enumerate(selects)
        )
        said = ", ".join([*order, "__set", *natural])
        sql = f"SELECT {aliases} FROM ({united}) ORDER BY {said}"
    limit, offset = (whole_of(limit_spec, name, None) for name in ("limit", "offset"))
    limit = whole_of(block, "limit", limit)
    sql += f"{f' LIMIT {limit}' if limit else ''}{f' OFFSET {offset}' if offset else ''}"
    as_array = query.flag("resultAsArray")
    shift = 1 if query.has_buckets else 0
    start = query.time_text(query.first_ms)

    def event(row: Row) -> object:
        if as_array:
            return row
        at = query.time_text(row[0]) if shift else start
        return {
            "version": "v1",
            "timestamp": at,
            "event": whole.record(row[shift:]),
        }

    def render(rows: Rows, _ask: Ask) -> Iterator[bytes]:
        nothing: Rows = iter(())
        yield from each(nothing if query.source.is_missing else rows, event)

    return Plan(sql, render, *as_source(sql, whole))


def _limit_spec(block: Block) -> Block:
    """Return the limitSpec; without one, or in plans of Druid's SQL, there is no limit."""
    spec = block_of(block.get("limitSpec") or {}, "limitSpec")
    kind = spec.get("type", "default")
    if kind not in _LIMITS:
        raise refused(kind, "limitSpec", _LIMITS, {})
    return spec if kind == "default" else {}


def _subtotals(block: Block, names: Sequence[str]) -> list[list[str]] | None:
    """Return the sets of dimensions that rows are grouped by; None: by all of them, once.

    Args:
        names: Of all dimensions.
    """
    if block.get("subtotalsSpec") is None:
        return None
    found = list_of(block, "subtotalsSpec")
    if len(found) > SUBTOTALS_MAX or not all(isinstance(one, list) for one in found) or not found:
        raise Invalid(f"subtotalsSpec must be a list of 1 to {SUBTOTALS_MAX} lists of dimensions")
    unknown = [one for kept in found for one in kept if one not in names]
    if unknown:
        raise Invalid(
            f"subtotalsSpec names {short(unknown[0])}, which is the output name of no dimension;"
            f" there are {', '.join(names)}"
        )
    return found


def _limit_order(spec: Block, groups: Groups) -> list[str]:
    """Return what a limitSpec sorts by."""
    found = []
    for one in list_of(spec, "columns"):
        said: Mapping[str, Any] = (
            {"dimension": one} if isinstance(one, str) else block_of(one, "columns")
        )
        name = text_of(said, "dimension")
        column = groups.find(name)
        if column is None:
            raise Invalid(
                f"Unknown column in order clause: {short(name)}; there are {', '.join(groups.names)}"
            )
        descends = str(said.get("direction", "")).lower() in _DESCENDING
        ordering = said.get("dimensionOrder")
        ordering = ordering.get("type") if isinstance(ordering, Mapping) else ordering
        way = "DESC NULLS LAST" if descends else "NULLS FIRST"
        found.append(sort_by(column.key, ordering, way))
    return found
