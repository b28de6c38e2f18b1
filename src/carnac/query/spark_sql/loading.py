"""From the SELECT of an INSERT or REPLACE to what Spark is to run, so that its rows can be loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from carnac.core.quoting import quote_for_spark
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.segments.sql_columns import SQL_TYPE
from carnac.core.words import first_of
from carnac.errors import Invalid
from carnac.ports import Catalog
from carnac.ports.distributed import LoadAsked, SparkLoad, SparkTable
from carnac.query.binding import bind, scan_types, show_empty, show_types
from carnac.query.distributed.settling import settle
from carnac.query.planning import Planner
from carnac.query.results import arrow_tables
from carnac.query.spark_sql.kinds import (
    BOOLEAN,
    FLOAT,
    LONG,
    TEXT,
    TIMES,
    WHOLE,
    Kind,
    is_decimal,
)
from carnac.query.spark_sql.pushing import push_rows
from carnac.query.spark_sql.selects import Selects
from carnac.query.spark_sql.typing import Oracle
from carnac.query.syntax import unparse
from carnac.specs.sql.external import take_externals

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class LoadPlanner:
    """Plans one statement whose rows are to be loaded.

    Args:
        cursor: One on which nothing is run besides.
    """

    cursor: duckdb.DuckDBPyConnection
    catalog: Catalog
    asked: LoadAsked

    def plan(self, columns: set[str]) -> SparkLoad:
        """Return what Spark is to run.

        Args:
            columns: Names that a user may have meant by one that is unknown; filled here.

        Raises:
            Invalid: It cannot be run, or its columns cannot be loaded.
            NotFound: It names what is not in the revision.
            duckdb.Error: It names a column that is not there, or puts together what does not fit.
        """
        sql, externals = take_externals(self.asked.sql, self.asked.within)
        tables: dict[str, Mapping[str, Kind]] = {
            one.name: {name: SQL_TYPE[kind] for name, kind in one.columns.items()}
            for one in externals
        }
        plan = Planner(
            self.cursor, self.catalog, (), {name: list(one) for name, one in tables.items()}
        ).plan(sql)
        columns.update(name for table in tables.values() for name in table)
        columns.update(name for scan in plan.scans for name in scan.columns)
        if plan.is_explain:
            raise Invalid("EXPLAIN gives no rows to load; write a SELECT")
        show_empty(self.cursor, plan.scans, plan.tables)
        for name, table in tables.items():
            show_types(self.cursor, name, table)
        result = bind(self.cursor, unparse(self.cursor, plan.statement))
        _check(result.names, result.types, self.asked)
        settle(self.cursor, plan.statement, plan.selects, ())
        tables |= {scan.view: scan_types(replace(scan, columns=scan.used)) for scan in plan.scans}
        pushed = push_rows(self.cursor, plan.statement, tables)
        printed = Selects(Oracle(self.cursor)).statement(plan.statement["node"])
        scans = {
            one.view: SparkTable(view=one.view, columns=one.used, slices=one.slices)
            for one in plan.scans
        }
        listed = ", ".join(
            f"{_stored(f'c{place}', kind, is_time=name == TIME_COLUMN)} AS {quote_for_spark(name)}"
            for place, (name, kind) in enumerate(zip(result.names, printed.kinds, strict=True))
        )
        return SparkLoad(
            sql=f"SELECT {listed} FROM ({printed.sql})",
            rows=[replace(one, of=scans.get(str(one.of), one.of)) for one in pushed],
            externals=externals,
            tables=arrow_tables(plan.tables),
        )


def _check(names: Sequence[str], types: Sequence[Kind], asked: LoadAsked) -> None:
    """Refuse columns that cannot be loaded.

    Raises:
        Invalid: There is one.
    """
    seen: set[str] = set()
    for name, kind in zip(names, types, strict=True):
        if name.lower() in seen:
            raise Invalid(f"the statement selects '{name}' twice; give one of them another name")
        seen.add(name.lower())
        if name == TIME_COLUMN and kind not in {*TIMES, LONG}:
            hint = f"; write TIME_PARSE(…) AS {TIME_COLUMN}" if kind == TEXT else ""
            raise Invalid(f"{TIME_COLUMN} is a {kind}, and must be a time{hint}")
        if kind == "BLOB" and name not in asked.inputs:
            raise Invalid(
                f"column '{name}' is a sketch, or bytes; select its estimate, or load it by a spec whose input is the"
                " SELECT (type query) and whose metricsSpec merges it"
            )
        if kind.startswith(("STRUCT", "MAP", "UNION")):
            raise Invalid(
                f"column '{name}' is a {kind.partition('(')[0]}; write TO_JSON_STRING(…) AS {name}"
            )
    if asked.needs_time and TIME_COLUMN not in names:
        raise Invalid(
            f"the statement selects {first_of(list(names), 5)} and no {TIME_COLUMN}; write TIME_PARSE(…) AS"
            f" {TIME_COLUMN}, or PARTITIONED BY ALL for rows without a time"
        )


def _stored(sql: str, kind: Kind, *, is_time: bool) -> str:
    """Return a value as a segment keeps it: whole numbers as longs, times as milliseconds, exact numbers as doubles."""
    if kind in TIMES:
        instant = f"CAST({sql} AS TIMESTAMP)"
        return instant if is_time else f"unix_millis({instant})"
    if is_time:
        return f"timestamp_millis({sql})"
    if kind in WHOLE or kind == BOOLEAN:
        return f"CAST({sql} AS BIGINT)"
    if is_decimal(kind):
        return f"CAST({sql} AS DOUBLE)"
    return _list_of(sql, kind) if kind.endswith("[]") else sql


def _list_of(sql: str, kind: Kind) -> str:
    element = kind.removesuffix("[]")
    if element in WHOLE:
        return f"CAST({sql} AS ARRAY<BIGINT>)"
    return f"CAST({sql} AS ARRAY<DOUBLE>)" if element == FLOAT or is_decimal(element) else sql
