"""Scan, search, timeBoundary and dataSourceMetadata: rows as they are, values, and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from carnac.api.native.queries import Ask, Plan, Query, Row, Rows
from carnac.api.native.shapes import once, scanned
from carnac.core.quoting import quote, quote_text
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.texts import short
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    block_of,
    list_of,
    refused,
    whole_of,
)
from carnac.specs.druid.terms.dimensions import read_dimension
from carnac.specs.druid.terms.operands import search_test
from carnac.specs.druid.terms.ordering import sort_key
from carnac.specs.druid.terms.values import NULL, TIME_SQL, Sql, as_dimension, druids_type, to_text

SEARCH_LIMIT = 1_000
"""Values that a search finds unless it says how many."""
_SEARCHED = frozenset({"string", "array<string>", "bool", "long", "double", "float"})
"""Types of columns that are searched if a query names none."""
_FORMATS = ("list", "compactedList")


def plan_scan(query: Query) -> Plan:
    """Return a scan: rows as they are."""
    block = query.block
    form = block.get("resultFormat") or "list"
    if form not in _FORMATS:
        raise refused(form, "resultFormat", _FORMATS, {"valueVector": "use list or compactedList"})
    names = [str(one) for one in list_of(block, "columns")]
    names = names or [*query.source.columns, *query.scope.virtual]
    order = _ordered_by(block, str(block.get("order") or "none").lower())
    if order not in {"none", "ascending", "descending"}:
        raise Invalid(f"order must be none, ascending or descending, not {short(order)}")
    if order != "none" and TIME_COLUMN not in names:
        raise Invalid(f"The {TIME_COLUMN} column must be selected if the results are time-ordered.")
    values = [as_dimension(query.scope.find(name)) for name in names]
    said = ", ".join(f"{one.text} AS c{place}" for place, one in enumerate(values))
    sql = f"SELECT {said} FROM {query.source.sql}{query.where()}"
    inner = ", ".join(
        f"{TIME_SQL if one.is_time else one.text} AS {quote(name)}"
        for name, one in zip(names, values, strict=True)
    )
    inner = f"SELECT {inner} FROM {query.source.sql}{query.where()}"
    limit, offset = (whole_of(block, name, None) for name in ("limit", "offset"))
    tail = (
        f" ORDER BY {TIME_SQL}{' DESC' if order == 'descending' else ''}" if order != "none" else ""
    )
    tail += f"{f' LIMIT {limit}' if limit else ''}{f' OFFSET {offset}' if offset else ''}"
    types = ["" if one is NULL else druids_type(one.kind) for one in values]

    def render(rows: Rows, _ask: Ask) -> Iterator[bytes]:
        return scanned(rows, names, types, is_compact=form == "compactedList")

    columns = {
        name: one if one.is_time else Sql(quote(name), one.kind)
        for name, one in zip(names, values, strict=True)
    }
    return Plan(sql + tail, render, inner + tail, columns)


def _ordered_by(block: object, order: str) -> str:
    """Return the order that `orderBy` says, which may be of the time alone."""
    said = list_of(block, "orderBy")  # type: ignore[arg-type]
    if not said:
        return order
    first = block_of(said[0], "orderBy")
    if len(said) > 1 or first.get("columnName") != TIME_COLUMN:
        raise Invalid(f"a scan is ordered by {TIME_COLUMN} alone; write the query in SQL")
    return str(first.get("order") or "ascending").lower()


def plan_search(query: Query) -> Plan:
    """Return a search: values of dimensions that hold a text, and in how many rows.

    A limit is of what is found first, dimension by dimension, as in Druid; it is sorted then.
    """
    block = query.block
    test = search_test(block.get("query"))
    specs = list_of(block, "searchDimensions") or [
        name
        for name, one in query.source.columns.items()
        if one.kind in _SEARCHED and not one.is_time
    ]
    sort = block.get("sort")
    ordering = block_of(sort, "sort").get("type") if sort is not None else None
    selects = []
    for place, spec in enumerate(specs):
        dimension = read_dimension(spec, query.scope)
        value = to_text(dimension.value).text
        rows = f"{query.source.sql}{query.where()}"
        if dimension.value.is_array:
            rows, value = f"(SELECT unnest({dimension.value.text}) AS __each FROM {rows})", "__each"
        selects.append(
            f"SELECT {place} AS place, {quote_text(dimension.name)} AS c0, {value} AS c1, count(*) AS c2"
            f" FROM {rows} GROUP BY 3 HAVING {test(Sql(value, 'string'))}"
        )
    if not selects:
        selects = ["SELECT 0 AS place, '' AS c0, '' AS c1, 0 AS c2 WHERE false"]
    limit = whole_of(block, "limit", SEARCH_LIMIT) or SEARCH_LIMIT
    found_first = f"SELECT * FROM ({' UNION ALL '.join(selects)}) ORDER BY place, c1 LIMIT {limit}"
    order = f"{sort_key(Sql('c1', 'string'), ordering)}, c1, c0"
    sql = f"SELECT c0, c1, c2 FROM ({found_first}) ORDER BY {order}"

    def items(rows: list[Row], _ask: Ask) -> Iterable[object]:
        found = [dict(zip(("dimension", "value", "count"), row, strict=True)) for row in rows]
        return [{"timestamp": query.time_text(query.first_ms), "result": found}] if found else []

    return Plan(sql, once(items))


def plan_time_boundary(query: Query) -> Plan:
    """Return a timeBoundary: the times of the first row and the last one."""
    bound = query.block.get("bound")
    keys = {"minTime": ["minTime"], "maxTime": ["maxTime"]}.get(str(bound), ["minTime", "maxTime"])
    calls = ", ".join(f"epoch_ms({key[:3]}({TIME_SQL}))" for key in keys)

    def items(rows: list[Row], _ask: Ask) -> Iterable[object]:
        [found] = rows
        if found[0] is None:
            return []
        texts = [query.time_text(ms) for ms in found]
        return [{"timestamp": texts[0], "result": dict(zip(keys, texts, strict=True))}]

    return Plan(f"SELECT {calls} FROM {query.source.sql}{query.where()}", once(items))


def plan_source_metadata(query: Query) -> Plan:
    """Return a dataSourceMetadata: the time of the last row."""

    def items(rows: list[Row], _ask: Ask) -> Iterable[object]:
        [(last_ms,)] = rows
        if last_ms is None:
            return []
        at = query.time_text(last_ms)
        return [{"timestamp": at, "result": {"maxIngestedEventTime": at}}]

    return Plan(f"SELECT epoch_ms(max({TIME_SQL})) FROM {query.source.sql}", once(items))
