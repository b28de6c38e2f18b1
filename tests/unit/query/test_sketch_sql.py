"""Sketches in SQL: merged and estimated under our names and Druid's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from carnac import sketches
from carnac.core.segments.segment import ColumnType
from carnac.errors import CarnacError, Invalid
from carnac.ports import DeepStorage
from carnac.query import QueryEngine
from tests.support.segments import MemoryCatalog, write_segment

TYPES = {
    "g": ColumnType.STRING,
    "user": ColumnType.STRING,
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
    "tags": ColumnType.STRING_ARRAY,
    "h": ColumnType.HLL,
    "t": ColumnType.THETA,
    "q": ColumnType.QUANTILES,
}


@pytest.fixture(scope="module")
def sketched(storage: DeepStorage) -> MemoryCatalog:
    """Return twenty rows in two segments: row i has sketches of i..i+9, and of 0..i the quantiles."""
    rows = [
        {
            "__time": i * 86_400_000,
            "g": "ab"[i % 2],
            "user": f"u{i % 7}",
            "n": i,
            "x": i / 2,
            "tags": ["all", f"t{i % 3}"],
            "h": sketches.build_hll(range(i, i + 10)),
            "t": None if i == 19 else sketches.build_theta(range(i, i + 10)),
            "q": sketches.build_quantiles(range(i + 1)),
        }
        for i in range(20)
    ]
    catalog = MemoryCatalog()
    for part in (rows[:10], rows[10:]):
        catalog.add(write_segment(storage, part, datasource="s", types=TYPES))
    return catalog


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("hll_estimate(hll_merge(h))", 29),
        ("hll_estimate(hll_merge(h)) > 28", True),
        ("theta_estimate(theta_merge(t))", 28),
        ("hll_estimate(hll_merge(h) FILTER (WHERE n < 5))", 14),
        ("round(hll_estimate(hll_merge(h, 8)))", 30),
        ("max(hll_estimate(h))", 10),
        ("hll_estimate(hll_union(hll_merge(h), ds_hll(n)))", 29),
        ("theta_estimate(theta_intersect(theta_merge(t), ds_theta(n)))", 20),
        ("theta_estimate(theta_not(theta_merge(t), ds_theta(n)))", 8),
        ("theta_estimate(theta_union(ds_theta(n), ds_theta(n)))", 20),
        ("quantiles_estimate(quantiles_merge(q), 1.0)", 19),
        ("quantile(quantiles_merge(q), 0)", 0),
        ("quantile(n, 0.5)", 9),
        ("quantile_cont(n, 0.5)", 9.5),
        ("quantiles_rank(quantiles_merge(q), 100)", 1),
        ('APPROX_COUNT_DISTINCT_DS_HLL("user")', 7),
        ("APPROX_COUNT_DISTINCT_DS_HLL(h)", 29),
        ("APPROX_COUNT_DISTINCT_DS_HLL(n, 10, 'HLL_8')", 20),
        ("APPROX_COUNT_DISTINCT_DS_HLL(x)", 20),
        ("APPROX_COUNT_DISTINCT_DS_HLL(tags)", 4),
        ("APPROX_COUNT_DISTINCT_DS_THETA(t)", 28),
        ('APPROX_COUNT_DISTINCT_DS_THETA("user", 16384)', 7),
        ("APPROX_COUNT_DISTINCT_DS_THETA(n) FILTER (WHERE g = 'z')", 0),
        ("APPROX_QUANTILE_DS(n, 0.5)", 9),
        ("APPROX_QUANTILE_DS(q, 0)", 0),
        ("DS_GET_QUANTILE(DS_QUANTILES_SKETCH(x), 1)", 9.5),
        ("DS_RANK(DS_QUANTILES_SKETCH(n), 9)", 0.5),
        ("DS_CDF(DS_QUANTILES_SKETCH(n), 4, 9.5)", [0.25, 0.5, 1]),
        ("DS_HISTOGRAM(DS_QUANTILES_SKETCH(n), 4, 19)", [5, 15, 0]),
        ("DS_HISTOGRAM(DS_QUANTILES_SKETCH(n) FILTER (WHERE n < 5), 3)", [4, 1]),
        ("DS_HISTOGRAM(DS_QUANTILES_SKETCH(q), 19)", [210, 0]),
        ("DS_CDF(DS_QUANTILES_SKETCH(n) FILTER (WHERE n > 99), 4)", None),
        ("DS_CDF(DS_QUANTILES_SKETCH(nullif(n, n)), 4)", [None, None]),
        ("DS_GET_QUANTILE(DS_QUANTILES_SKETCH(nullif(n, n)), 0.5)", None),
        ("DS_RANK(DS_QUANTILES_SKETCH(nullif(n, n)), 5)", None),
        ("HLL_SKETCH_ESTIMATE(DS_HLL(n), true)", 20),
        ('HLL_SKETCH_ESTIMATE(HLL_SKETCH_UNION(DS_HLL(n), DS_HLL("user")))', 27),
        ("THETA_SKETCH_ESTIMATE(THETA_SKETCH_INTERSECT(16384, DS_THETA(n), DS_THETA(t)))", 20),
        ("THETA_SKETCH_ESTIMATE(THETA_SKETCH_NOT(DS_THETA(t), DS_THETA(n)))", 8),
        ("THETA_SKETCH_ESTIMATE(THETA_SKETCH_UNION(DS_THETA(t), DS_THETA(n)))", 28),
        ("hll_merge(h) FILTER (WHERE false)", None),
        ("hll_estimate(CASE WHEN count(*) > 0 THEN hll_merge(h) END)", 29),
    ],
)
def test_sketches_are_merged_and_estimated(
    engine: QueryEngine, sketched: MemoryCatalog, expression: str, expected: float | None
) -> None:
    table = engine.run_query(f"SELECT {expression} FROM s", sketched).table
    assert isinstance(table, pa.Table)
    assert table.schema.names == [expression]
    (found,) = table.column(0).to_pylist()
    assert found == (expected if expected is None else pytest.approx(expected, abs=0.01))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("approx_count_distinct_ds_theta(i)", 10_000),
        ("approx_count_distinct_ds_theta(s)", 10_000),
        ("theta_estimate(theta_merge(s))", 10_000),
        ("theta_estimate(theta_union(ds_theta(i), ds_theta(i + 5000)))", 15_000),
        (
            "theta_estimate(theta_sketch_union(1024, ds_theta(i), ds_theta(i + 5000))) = 15000",
            False,
        ),
        ("octet_length(theta_sketch_union(1024, ds_theta(i), ds_theta(i))) < 10000", True),
        ("octet_length(hll_sketch_union(8, ds_hll(i), ds_hll(i))) < 1000", True),
    ],
)
def test_theta_sketches_keep_as_many_values_as_in_druid_unless_a_size_is_given(
    engine: QueryEngine, sketched: MemoryCatalog, expression: str, expected: object
) -> None:
    rows = "SELECT i, ds_theta(i) AS s FROM range(10000) AS t(i) GROUP BY i"
    table = engine.run_query(f"SELECT {expression} AS x FROM ({rows})", sketched).table
    assert table.column("x").to_pylist() == [expected]


def test_sketches_work_in_groups_subqueries_and_joins(
    engine: QueryEngine, sketched: MemoryCatalog
) -> None:
    sql = """
        WITH per AS (SELECT g, theta_merge(t) AS sketch FROM s GROUP BY g)
        SELECT g, theta_estimate(sketch), (SELECT theta_estimate(theta_merge(sketch)) FROM per) AS everything
        FROM per ORDER BY g
    """
    table = engine.run_query(sql, sketched).table
    assert isinstance(table, pa.Table)
    assert [tuple(row.values()) for row in table.to_pylist()] == [("a", 28, 28), ("b", 26, 28)]
    assert table.schema.names == ["g", "theta_estimate(sketch)", "everything"]


PER = 'SELECT g, n, DS_HLL("user") AS u, DS_HLL(h) AS "user", DS_QUANTILES_SKETCH(n) AS d FROM s GROUP BY ALL'


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT hll_estimate(DS_HLL(u)) FROM ({PER})", 7),
        (f"SELECT APPROX_COUNT_DISTINCT_DS_HLL(u) FROM (SELECT * EXCLUDE (g) FROM ({PER}))", 7),
        (f"WITH per AS ({PER}) SELECT hll_estimate(DS_HLL(u)) FROM per", 7),
        (f"WITH per(a, b, c) AS ({PER}) SELECT hll_estimate(DS_HLL(p.c)) FROM per AS p", 7),
        (f'SELECT hll_estimate(DS_HLL("user")) FROM ({PER})', 29),
        (f"SELECT hll_estimate(DS_HLL(x.e)) FROM (SELECT u AS e FROM ({PER})) AS x, s", 7),
        (f"SELECT hll_estimate(DS_HLL(u)) FROM ({PER} UNION ALL BY NAME {PER})", 7),
        (f"SELECT hll_estimate(DS_HLL(c)) FROM ({PER} UNION ALL {PER}) AS x(a, b, c)", 7),
        (f"SELECT hll_estimate(DS_HLL(CASE WHEN n < 3 THEN u END)) FROM ({PER})", 3),
        (
            f"SELECT hll_estimate(DS_HLL(u)) FROM (SELECT any_value(u) AS u FROM ({PER}) GROUP BY n)",
            7,
        ),
        (f"SELECT hll_estimate(DS_HLL(if(n < 3, u, NULL))) FROM ({PER})", 3),
        (f"SELECT hll_estimate(DS_HLL(e)) FROM (SELECT * RENAME (u AS e) FROM ({PER}))", 7),
        (f"SELECT hll_estimate(DS_HLL(u)) FROM (SELECT u::BLOB AS u FROM ({PER}))", 7),
        (f"SELECT hll_estimate(DS_HLL(e[1])) FROM (SELECT [u] AS e FROM ({PER}))", 7),
        (f"SELECT hll_estimate(DS_HLL(e)) FROM unnest((SELECT list(u) FROM ({PER}))) AS x(e)", 7),
        (f"SELECT hll_estimate(DS_HLL(octet_length(u))) FROM ({PER})", 1),
        (f"SELECT hll_estimate(DS_HLL(u IS NULL)) FROM ({PER})", 1),
        (f"SELECT (SELECT hll_estimate(DS_HLL(u)) FROM ({PER}))", 7),
        (f"SELECT quantile(DS_QUANTILES_SKETCH(d), 1) FROM ({PER})", 19),
        (f"SELECT quantile(d, 1) FROM ({PER} ORDER BY n DESC LIMIT 1)", 19),
        ("SELECT hll_estimate(DS_HLL(h)) FROM (SELECT g AS h FROM s)", 2),
        ("SELECT hll_estimate(DS_HLL(coalesce(nullif(n, 1), x))) FROM s", 20),
        ("SELECT hll_estimate(DS_HLL(n)) FROM (SELECT n FROM s UNION ALL SELECT x FROM s)", 30),
        ("SELECT hll_estimate(DS_HLL(n)) FROM (SELECT x AS n FROM s)", 20),
        ("SELECT hll_estimate(DS_HLL(u)) FROM (SELECT hll_estimate(DS_HLL(h)) AS u FROM s)", 1),
    ],
)
def test_sketches_that_a_subquery_makes_are_merged(
    engine: QueryEngine, sketched: MemoryCatalog, sql: str, expected: float
) -> None:
    table = engine.run_query(sql, sketched).table
    assert isinstance(table, pa.Table)
    (found,) = table.column(0).to_pylist()
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT hll_merge(h) OVER () FROM s", "hll_merge cannot be used as a window function"),
        ("SELECT hll_merge() FROM s", "hll_merge needs an argument"),
        (
            "SELECT approx_quantile_ds(n) FROM s",
            "approx_quantile_ds needs an expression and a fraction",
        ),
        ("SELECT quantiles_estimate(q) FROM s", "quantiles_estimate needs a sketch and a number"),
        ("SELECT quantiles_estimate(q, 2) FROM s", "fraction must lie within 0 and 1"),
        (
            "SELECT hll_estimate(t) FROM s",
            "cannot be read as a sketch of type hll: they are a theta sketch",
        ),
        ("SELECT theta_estimate('abc'::BLOB) FROM s", "they are no sketch"),
        ("SELECT ds_cdf(ds_quantiles_sketch(n), 3, 3) FROM s", "must ascend, not be 3.0, 3.0"),
        ("SELECT ds_cdf(ds_quantiles_sketch(n), 3, NULL) FROM s", "must ascend, not be 3.0, null"),
        ("SELECT ds_histogram(ds_quantiles_sketch(n)) FROM s", "needs a sketch and a number"),
        ("SELECT ds_rank(n, 2) FROM s", r"BIGINT is no sketch .*DS_QUANTILES_SKETCH\(added\)"),
        ("SELECT hll_sketch_union(n, n) FROM s", r"BIGINT is no sketch .* write DS_HLL\(page\)"),
        ("SELECT theta_sketch_estimate(g) FROM s", r"VARCHAR is no sketch .* write DS_THETA"),
        (
            "SELECT hll_estimate(hll_merge(h, 99)) FROM s",
            "lg_k of an hll sketch must lie within 4 and 21",
        ),
    ],
)
def test_mistakes_are_named(
    engine: QueryEngine, sketched: MemoryCatalog, sql: str, message: str
) -> None:
    with pytest.raises(CarnacError, match=message) as caught:
        engine.run_query(sql, sketched)
    assert isinstance(caught.value, Invalid)
