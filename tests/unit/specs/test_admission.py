"""What a task may ask for that came over HTTP: Spark settings, and expressions that see their row alone."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.specs.tasks.admission import (
    HARMLESS_SPARK_SETTINGS,
    check_expressions,
    check_row_expression,
    check_spark_settings,
)
from carnac.specs.tasks.spec import load_task

READS = "(select first(value) from text.`/etc/passwd`)"


@pytest.mark.parametrize(
    "sql",
    [
        READS,
        READS.upper(),
        "(ſelect 1)",  # Spark's upper case of it is S
        "exists(select 1)",
        "a in (select 1)",
        "(with t as (select 1) select * from t)",
        "(table text.`/etc/passwd`)",
        "(TABLE\ttext.`/etc/passwd`)",
        "(from text.`/etc/passwd` |> aggregate first(value))",
        "(FROM t)",
        "from t",
        "(reduce 1 using 'id' as (x string))",
        "(map 1 using 'id' as (x string))",
        "reflect('java.lang.System', 'exit', 0)",
        "Reflect ('java.lang.System', 'exit', 0)",
        "`reflect`('java.lang.System', 'exit', 0)",
        "system.builtin.reflect('a', 'b')",
        "`system`.`builtin`.`try_reflect`('a', 'b')",
        "java_method('a', 'b')",
        "identifier('ref' || 'lect')('a', 'b')",
        "from_protobuf(a, 'b', '/etc/passwd')",
        rf"concat(r'\', {READS}, '\'')",
        rf'concat(R"\", {READS}, "\"")',
        f"concat('\\\\', {READS}, '')",
        f"a /* ' */ + {READS} /* ' */",
        f"a -- '\n + {READS} -- '",
        f"$$ ' $$ || {READS}",
        "'open",
        "`open",
        'concat("a',
    ],
)
def test_more_than_an_expression_over_a_row_is_refused(sql: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_row_expression(sql)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "a + 1",
        "upper(`select`) || `table` || `using`",
        "concat('select * from t', \"it's; (table x)\", 'it''s', 'a\\'b', r'\\d+')",
        "extract(year from __time)",
        "trim(both 'x' from a)",
        "substring(a from 1 for 2)",
        "case when a is null then 'reflect(' else identifier end",
        "upper(table) || upper(from)",
        "reduce(array(1, 2), 0, (x, y) -> x + y)",
        "map('a', 1)['a']",
        "aggregate(a, 0L, (s, x) -> s + x)",
        "try_cast(a as decimal(10, 2)) between -1 and 1e3",
        "a | b & ~c ^ d || e",
        "`a``b` + größe",
        "'${env:HOME}'",
        "cast('2015-01-01' as timestamp) < __time",
    ],
)
def test_expressions_over_a_row_are_taken(sql: str) -> None:
    check_row_expression(sql)


def ingestion(**spec: object) -> dict[str, object]:
    """A task of Carnac's own form."""
    whole = {"dataSource": "d", "input": "a.json", "timestampSpec": {"column": "t"}, **spec}
    return {"type": "index_parallel", "spec": whole}


@pytest.mark.parametrize(
    ("task", "where"),
    [
        (
            ingestion(transformSpec={"transforms": [{"name": "x", "expression": READS}]}),
            "transform 'x'",
        ),
        (ingestion(transformSpec={"filter": f"a = {READS}"}), "the filter"),
        (
            ingestion(metricsSpec=[{"type": "count", "name": "n", "filter": f"a = {READS}"}]),
            "the filter of metric 'n'",
        ),
        (
            {"type": "compact", "dataSource": "d", "target": {"filter": f"a = {READS}"}},
            "the filter",
        ),
        (
            {"type": "compact", "dataSource": "d", "transformSpec": {"filter": f"a = {READS}"}},
            "the filter",
        ),
    ],
)
def test_wherever_a_task_has_spark_sql_it_is_looked_at(task: dict[str, object], where: str) -> None:
    with pytest.raises(Invalid, match=f"{where} is wrong: a task that comes over HTTP"):
        check_expressions(load_task(task))


def test_druid_s_expressions_and_filters_are_no_spark_sql() -> None:
    task = ingestion(
        transformSpec={
            "transforms": [{"type": "druid", "name": "x", "expression": "concat(\"select\", 'x')"}],
            "filter": {"type": "selector", "dimension": "select", "value": "(select 1)"},
        }
    )
    check_expressions(load_task(task))
    filtered = {"type": "compact", "dataSource": "d"}
    block = {"type": "selector", "dimension": "select", "value": "x"}
    check_expressions(load_task({**filtered, "transformSpec": {"filter": block}}))


@pytest.mark.parametrize(
    "name",
    [
        "spark.jars",
        "spark.jars.packages",
        "spark.driver.extraClassPath",
        "spark.driver.extraJavaOptions",
        "spark.executor.extraJavaOptions",
        "spark.executorEnv.LD_PRELOAD",
        "spark.pyspark.python",
        "spark.plugins",
        "spark.extraListeners",
        "spark.sql.extensions",
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.master",
        "spark.driver.host",
        "spark.sql.warehouse.dir",
        "spark.eventLog.dir",
        "spark.driver.memory\n",
        "SPARK.DRIVER.MEMORY",
        "",
    ],
)
def test_spark_settings_that_open_something_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="allow it by the setting http_spark_conf"):
        check_spark_settings({"sparkConf": {name: "1"}}, ())


def test_spark_settings_of_size_are_taken_and_others_where_they_are_allowed() -> None:
    for name in HARMLESS_SPARK_SETTINGS:
        check_spark_settings({"sparkConf": {name.replace("*", "x"): "4g"}}, ())
    allowed = ("spark.hadoop.*", "spark.yarn.queue")
    check_spark_settings(
        {"sparkConf": {"spark.hadoop.fs.x": "/a b", "spark.yarn.queue": "q"}}, allowed
    )
    check_spark_settings({}, ())
    with pytest.raises(Invalid, match="http_spark_conf"):
        check_spark_settings({"sparkConf": {"spark.yarn.queues": "q"}}, allowed)
    for value in ("4g -XX:OnError=id", "a/b", "4g\n", "'"):
        with pytest.raises(Invalid, match="must be a number"):
            check_spark_settings({"sparkConf": {"spark.driver.memory": value}}, ())
    for conf in ("x", [], {"spark.driver.memory": 4}):
        with pytest.raises(Invalid, match="must be an object of texts"):
            check_spark_settings({"sparkConf": conf}, ())
