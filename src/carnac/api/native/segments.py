"""SegmentMetadata: columns, sizes and rows of segments, of all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carnac.api.native.queries import Ask, Plan, Query, Row
from carnac.api.native.shapes import once
from carnac.core.log.identifiers import identifier_of
from carnac.core.segments.segment import TIME_COLUMN, Metric, MetricKind
from carnac.core.texts import short
from carnac.core.time.intervals import ETERNITY, Interval, interval_set
from carnac.core.time.periods import DAY_MS
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    block_of,
    flag_of,
    list_of,
)
from carnac.specs.druid.terms.values import TIME_SQL, Sql, at_ms, druids_type

if TYPE_CHECKING:
    from carnac.core.log.entries import VisibleSegment

ANALYSES = (
    "cardinality", "interval", "minmax", "size", "timestampSpec", "queryGranularity", "aggregators", "rollup",
)  # fmt: skip
DEFAULT = ("cardinality", "interval", "minmax")
FACTS = 5
"""Number of facts that are computed of each column."""
CHUNKS_MAX = 200
"""Time chunks that are told apart."""
WEEK_MS = 7 * DAY_MS
"""So much of the end of the data is looked at if a query says no intervals."""
_METRICS: Mapping[MetricKind, Mapping[str, object]] = {
    MetricKind.COUNT: {"type": "longSum"},
    MetricKind.HLL: {"type": "HLLSketchMerge", "lgK": 12, "tgtHllType": "HLL_4"},
    MetricKind.THETA: {"type": "thetaSketch", "size": 16_384},
    MetricKind.QUANTILES: {"type": "quantilesDoublesSketchMerge", "k": 128},
}
"""Aggregators that combine stored values, where their names are not those of type and kind."""


def plan_segment_metadata(query: Query) -> Plan:
    """Return a segmentMetadata, which is one element for all segments, merged or not."""
    block = query.block
    said = block.get("analysisTypes")
    wanted = [
        str(one).lower() for one in (DEFAULT if said is None else list_of(block, "analysisTypes"))
    ]
    known = {one.lower() for one in ANALYSES}
    for one in wanted:
        if one not in known:
            raise Invalid(
                f"there is no analysis type {short(one)}; there are {', '.join(ANALYSES)}"
            )
    segments = _segments(query)
    chunks = sorted({one.entry.chunk for one in segments}, key=lambda one: one.start_ms)
    names = _included(block.get("toInclude"), list(query.source.columns))
    analysed = [(name, query.source.columns[name]) for name in names if name != TIME_COLUMN]
    facts = [_chunk_of(chunks), "count(*)"]
    for _, column in analysed:
        facts += _facts(column, wanted)
    within = " OR ".join(
        f"({TIME_SQL} >= {at_ms(one.start_ms)} AND {TIME_SQL} < {at_ms(one.end_ms)})"
        for one in interval_set(chunks).intervals
    )
    rows_of = f"{query.source.sql} WHERE {within or 'false'}"
    sql = f"SELECT {', '.join(facts)} FROM {rows_of} GROUP BY 1"

    def items(rows: list[Row], _ask: Ask) -> Iterable[object]:
        if not segments:
            return []
        columns = {TIME_COLUMN: _column(Sql("", "long"), [])} if TIME_COLUMN in names else {}
        for place, (name, column) in enumerate(analysed):
            start = 2 + FACTS * place
            columns[name] = _column(column, [row[start : start + FACTS] for row in rows])
        return [_element(query, segments, wanted, columns, sum(row[1] for row in rows))]

    return Plan(sql, once(items))


def _chunk_of(chunks: Sequence[Interval]) -> str:
    """Return the place of a row's time chunk; of very many, they are one: Druid looks at each by itself."""
    if not 1 < len(chunks) <= CHUNKS_MAX:
        return "CAST(0 AS BIGINT)"
    whens = (f"WHEN {TIME_SQL} < {at_ms(one.end_ms)} THEN {i}" for i, one in enumerate(chunks))
    return f"CASE {' '.join(whens)} END"


def _segments(query: Query) -> list[VisibleSegment]:
    """Return the segments that are looked at: of the intervals, else of the last week that has data."""
    everything = query.source.segments(query.catalog, interval_set([ETERNITY]))
    asked = query.intervals
    if query.block.get("intervals") is None and everything:
        last_ms = max(one.entry.chunk.end_ms for one in everything)
        asked = interval_set([Interval(last_ms - WEEK_MS, last_ms)])
    return [one for one in everything if interval_set([one.entry.chunk]).intersect(asked)]


def _included(value: object, names: list[str]) -> list[str]:
    if value is None:
        return names
    block = block_of(value, "toInclude")
    kind = str(block.get("type"))
    if kind == "list":
        wanted = set(map(str, list_of(block, "columns")))
        return [one for one in names if one in wanted]
    if kind not in {"all", "none"}:
        raise Invalid(f"toInclude is of type all, none or list, not {short(kind)}")
    return names if kind == "all" else []


def _facts(column: Sql, wanted: Iterable[str]) -> list[str]:
    """Return what is asked of a column: nulls, distinct values, the least and the largest."""
    text = column.text
    is_text = column.kind in {"string", "bool"}
    text = f"CAST({text} AS VARCHAR)" if column.kind == "bool" else text
    nulls = f"count(*) - count({text})"
    distinct = "NULL"
    if "cardinality" in wanted and is_text:  # null is a value of a dictionary, too
        distinct = f"count(DISTINCT {text}) + CASE WHEN {nulls} > 0 THEN 1 ELSE 0 END"
    many = f"max(len({text}))" if column.kind == "array<string>" else "0"
    edges = ["NULL", "NULL"]
    if "minmax" in wanted and is_text:
        edges = [f"min({text})", f"max({text})"]
    if "minmax" in wanted and column.kind == "array<string>":
        edges = [f"min(list_min({text}))", f"max(list_max({text}))"]
    return [nulls, many, distinct, *edges]


def _column(column: Sql, facts: Sequence[Row]) -> dict[str, object]:
    """Return what is said of a column, of which there are facts for each time chunk."""
    nulls, many, distinct, least, largest = (
        ([one for one in each if one is not None] for each in zip(*facts, strict=True))
        if facts
        else ([], [], [], [], [])
    )
    is_multiple = max(many, default=0) > 1
    signature = "STRING" if column.kind in {"array<string>", "bool"} else druids_type(column.kind)
    kind = signature.partition("<")
    is_text = signature == "STRING"
    return {
        "typeSignature": signature,
        "type": kind[2][:-1] if kind[0] == "COMPLEX" else kind[0],
        "hasMultipleValues": is_multiple,
        "hasNulls": any(nulls),
        "size": 0,
        "cardinality": max(distinct, default=0)
        if is_text and column.kind != "array<string>"
        else None,
        "minValue": None if any(nulls) else min(least, default=None),
        "maxValue": max(largest, default=None),
        "errorMessage": None,
    }


def _element(
    query: Query,
    segments: list[VisibleSegment],
    wanted: list[str],
    columns: dict[str, Any],
    rows: int,
) -> dict[str, object]:
    last = max(segments, key=lambda one: one.entry.chunk.start_ms)
    rollups = [one.segment.rollup for one in segments]
    granularities = {one.segment.query_granularity for one in segments}
    is_merged = flag_of(query.block, "merge") and len(segments) > 1
    name = identifier_of("+".join(query.source.names), last.entry)
    if is_merged:
        interval = str(last.entry.chunk).replace("/", "_")
        name = f"{'+'.join(query.source.names)}_{interval}_merged"
    chunks = interval_set([one.entry.chunk for one in segments]).intervals
    metrics = {one.name: one for found in rollups if found for one in found.metrics}
    return {
        "id": name,
        "intervals": [str(one) for one in chunks] if "interval" in wanted else None,
        "columns": columns,
        "size": sum(one.segment.size_bytes for one in segments) if "size" in wanted else 0,
        "numRows": rows,
        "aggregators": {name: _aggregator(one) for name, one in metrics.items()} or None
        if "aggregators" in wanted
        else None,
        "timestampSpec": None,
        "queryGranularity": granularities.pop()
        if "querygranularity" in wanted and len(granularities) == 1
        else None,
        "rollup": all(rollups) if "rollup" in wanted else None,
    }


def _aggregator(metric: Metric) -> dict[str, object]:
    """Return the aggregator that combines what a metric has stored."""
    said = _METRICS.get(metric.kind, {"type": f"{metric.type}{metric.kind.capitalize()}"})
    sizes = dict(metric.params)
    given = {"lgK": sizes.get("lg_k"), "k": sizes.get("k")}
    if metric.kind is MetricKind.THETA and "lg_k" in sizes:
        given = {"size": 1 << sizes["lg_k"]}
    told = {key: value for key, value in given.items() if key in said and value is not None}
    return {**said, "name": metric.name, "fieldName": metric.name, **told}
