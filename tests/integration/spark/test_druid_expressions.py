"""Druid's expressions, compiled and run by Spark, give what Druid gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from carnac.core.quoting import quote_for_spark
from carnac.core.time.intervals import format_ms
from carnac.specs.druid.expressions import compile_expression
from carnac.specs.druid.expressions.values import quote_text
from tests.integration.spark.druid_oracle import CASES, ROW, TYPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def row_sql() -> str:
    """Return a query of the one row, with the types that the oracle gives it."""
    columns = [f"TIMESTAMP'{format_ms(int(str(ROW['__time'])))}' AS `__time`"]
    for name, kind in TYPES.items():
        columns.append(f"CAST({_literal(ROW[name])} AS {kind}) AS {quote_for_spark(name)}")
    return f"SELECT {', '.join(columns)}"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"array({', '.join(_literal(item) for item in value)})"
    if isinstance(value, float) and math.isnan(value):
        return "'NaN'"
    return quote_text(value) if isinstance(value, str) else str(value).lower()


def run(spark: SparkSession, expressions: list[str]) -> list[Any]:
    """Return what Spark gives for Druid's expressions over the row, from a table so that nothing is folded."""
    compiled = [compile_expression(text, TYPES).sql for text in expressions]
    rows = spark.sql(row_sql()).repartition(1)
    rows = rows.selectExpr(*(f"{sql} AS c{i}" for i, sql in enumerate(compiled)))
    return list(rows.collect()[0])


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> dict[str, Any]:
    expressions = [expression for expression, _ in CASES]
    try:
        return dict(zip(expressions, run(spark, expressions), strict=True))
    except Exception:
        return {expression: _alone(spark, expression) for expression in expressions}


def _alone(spark: SparkSession, expression: str) -> Any:
    """Run one expression when they do not run together, so that the one that fails is named."""
    try:
        return run(spark, [expression])[0]
    except Exception as error:
        return error


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_gives_what_druid_gives(results: dict[str, Any], expression: str, expected: object) -> None:
    actual = results[expression]
    if isinstance(expected, float) and isinstance(actual, float):
        assert actual == pytest.approx(expected, nan_ok=True)
    else:
        assert actual == expected
        assert type(actual) is type(expected)
