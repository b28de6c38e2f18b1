"""From SQL and a catalog to the statement that Spark runs, and the final statement over its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.ports import Catalog
from carnac.ports.distributed import Distribution, SparkAsked, SparkPlan, SparkTable, Stand, Way
from carnac.query.binding import bind, cast_all, show_empty
from carnac.query.distributed.settling import settle
from carnac.query.planning import Plan, Planner
from carnac.query.results import arrow_tables
from carnac.query.spark_sql.kinds import refuse, spark_type
from carnac.query.spark_sql.selects import Selects
from carnac.query.spark_sql.typing import Oracle
from carnac.query.streams.basis import basis_of
from carnac.query.syntax import unparse

if TYPE_CHECKING:
    import duckdb

ROWS = "__carnac_spark"
"""The name of Spark's rows where they are cast to the types of the answer."""


@dataclass(frozen=True, slots=True)
class SparkPlanner:
    """Plans one statement for Spark.

    Args:
        cursor: One on which nothing is run besides.
    """

    cursor: duckdb.DuckDBPyConnection
    catalog: Catalog
    asked: SparkAsked

    def plan(self, sql: str, columns: set[str]) -> SparkPlan:
        """Return what Spark is to run.

        Args:
            columns: Names that a user may have meant by one that is unknown; filled here.

        Raises:
            Invalid: It cannot be run, or not with the same meaning on Spark.
            NotFound: It names what is not in the revision.
            duckdb.Error: It names a column that is not there, or puts together what does not fit.
        """
        plan = Planner(self.cursor, self.catalog, self.asked.parameters).plan(sql)
        columns.update(name for scan in plan.scans for name in scan.columns)
        if plan.sql.startswith("EXPLAIN ANALYZE "):
            raise refuse("EXPLAIN ANALYZE")
        show_empty(self.cursor, plan.scans, plan.tables)
        result = bind(self.cursor, unparse(self.cursor, plan.statement), plan.parameters)
        settle(self.cursor, plan.statement, plan.selects, plan.parameters)
        for kind in result.types:
            spark_type(kind)
        printed = Selects(Oracle(self.cursor)).statement(plan.statement["node"])
        return SparkPlan(
            sql=printed.sql,
            scans=[
                SparkTable(view=one.view, columns=one.columns, slices=one.slices)
                for one in plan.scans
            ],
            tables=arrow_tables(plan.tables),
            rows=ROWS,
            merge=self._merge(sql, plan, result.names, result.types, printed.sql),
        )

    def _merge(
        self, sql: str, plan: Plan, names: Sequence[str], types: Sequence[str], spark_sql: str
    ) -> Distribution:
        """Return how Spark's rows are cast to the types that the embedded engine gives."""
        stand = Stand(leaf=ROWS, view=f"{ROWS}_rows", types=types, select=cast_all(types))
        basis = basis_of(self.cursor, sql, plan)
        told: Sequence[str] = ()
        if plan.is_explain:
            read = len({one for one, _ in basis.slices})
            told = (
                f"{Way.SPARK.value}: {self.asked.reason}",
                f"segments that may matter: {read} of {basis.segments_total}",
                f"Spark: {spark_sql}",
            )
        return Distribution(
            way=Way.SPARK,
            reason=self.asked.reason,
            leaves=(),
            final_sql=f"SELECT * FROM {stand.view}",
            query_id=self.asked.query_id,
            is_union=True,
            stands=[stand],
            tables={},
            names=names,
            limit=None,
            basis=basis,
            revision=self.catalog.revision,
            told=told,
            gives=list(zip(names, types, strict=True)),
        )
