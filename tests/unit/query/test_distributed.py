"""Statements over several leaves: which are one round, and what they give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

from carnac.errors import Cancelled, Corrupt, Invalid, NotFound
from carnac.ports import DeepStorage
from carnac.ports.distributed import GatherLimit, Way
from carnac.ports.queries import LeafFiles
from carnac.query import QueryEngine
from carnac.query.distributed import distributing
from carnac.query.distributed.aggregates import CLOCK_READERS, CLOCKS, VOLATILE
from carnac.query.distributed.sorting import SMALL_ROWS_MAX
from carnac.query.functions import AGGREGATES, NAMES
from carnac.query.parameters import Parameters
from tests.support.segments import MemoryCatalog
from tests.support.spreading import ask, spread_query


@pytest.fixture(scope="module")
def engines(storage: DeepStorage) -> Iterator[list[QueryEngine]]:
    engines = [QueryEngine(storage, threads=1) for _ in range(3)]
    yield engines
    for engine in engines:
        engine.close()


ONE_ROUND = [
    ("SELECT s.c AS c, count(*) FROM (SELECT carrier AS c FROM flights WHERE delay > ?) s GROUP BY 1 ORDER BY 1", [9]),
    ("SELECT w.v, count(*) FROM (SELECT n.v, f.delay FROM flights f LEFT JOIN lookup.names n ON f.carrier = n.k) w"
     " WHERE w.delay > 9 GROUP BY w.v ORDER BY w.v", ()),
    ('SELECT "N"."v" AS "N__v", count(*) FROM (SELECT "flights"."carrier" AS "c", "flights"."delay" AS "d" FROM '
     '"flights" WHERE delay > 9) AS "F" LEFT JOIN (SELECT "lookup"."names"."k" AS "key", "v" FROM lookup."names" '
     'WHERE v > \'B\') AS "N" ON "F"."c" = "N"."key" WHERE "N"."v" IS NOT NULL GROUP BY "N"."v" ORDER BY "N"."v"', ()),
    ("SELECT v, max(d) m FROM (SELECT d, v FROM (SELECT carrier c, delay d FROM flights) x JOIN (FROM lookup.names) n "
     "ON c = n.k) GROUP BY v ORDER BY v", ()),
    ("WITH t AS (SELECT carrier FROM flights WHERE delay > 990) SELECT count(*) FROM t", ()),
    ("WITH t(d) AS (SELECT delay FROM flights), u AS (SELECT d + 1 AS e FROM t) SELECT max(e) AS m FROM u", ()),
    ("SELECT count(*) FROM flights", ()),
    ("SELECT count(*), sum(delay), min(carrier), max(delay), avg(delay) FROM flights WHERE false", ()),
    ("SELECT carrier, count(*) FROM flights WHERE delay > 1e9 GROUP BY carrier", ()),
    ("SELECT count(delay), sum(distance), avg(distance), sum(delay)::BIGINT + 1 FROM flights", ()),
    ("SELECT carrier, avg(delay) FROM flights GROUP BY carrier ORDER BY carrier", ()),
    ("SELECT carrier c, count(*) FROM (FROM flights f WHERE f.delay > ?) v WHERE delay < 9 GROUP BY 1 ORDER BY 1", [1]),
    ("SELECT carrier c, sum(delay) FROM flights GROUP BY c HAVING c > 'AA' ORDER BY 2 DESC LIMIT 1", ()),
    ("SELECT nullif(carrier, 'UA') AS c, count(*) FROM flights GROUP BY ALL ORDER BY ALL", ()),
    ("SELECT upper(carrier) AS carrier, count(*) FROM flights GROUP BY 1 ORDER BY carrier", ()),
    ("SELECT count(*) FILTER (WHERE delay > 500), sum(delay) FILTER (delay < ?) FROM flights", [300]),
    ("SELECT date_trunc('day', __time) d, count(*) FROM flights GROUP BY d ORDER BY d LIMIT 3", ()),
    ("SELECT delay // 100, bool_and(distance > 1), count_if(delay > 3) FROM flights GROUP BY 1 ORDER BY 1", ()),
    ("SELECT 'x' AS g, count(*) FROM flights WHERE false GROUP BY ALL", ()),
    ("SELECT 5 AS x, count(*) FROM flights GROUP BY x ORDER BY x", ()),
    ("SELECT count(*) + ?, carrier || ? AS t FROM flights WHERE delay < ? GROUP BY t ORDER BY t", [1, "x", 700]),
    ("SELECT delay FROM flights ORDER BY delay DESC NULLS LAST LIMIT 5 OFFSET 2", ()),
    ("SELECT delay FROM flights ORDER BY distance, __time LIMIT ?", [7]),
    ("SELECT * FROM flights ORDER BY __time DESC, carrier LIMIT 3", ()),
    ("SELECT * FROM flights ORDER BY ALL LIMIT 4", ()),
    ("FROM flights ORDER BY __time LIMIT 1 %", ()),
    ("SELECT *, delay AS x FROM flights ORDER BY x, 1 LIMIT 9", ()),
    ("SELECT f.*, f.delay + 1 FROM flights f WHERE f.carrier = 'AA' ORDER BY 1", ()),
    ("SELECT DISTINCT carrier FROM flights ORDER BY carrier DESC LIMIT 2", ()),
    ("SELECT delay AS d, d + 1 AS e FROM flights WHERE e > 900 ORDER BY e", ()),
    ("SELECT v, count(*) FROM flights f JOIN lookup.names n ON f.carrier = n.k GROUP BY v ORDER BY v", ()),
    ("SELECT __time, v FROM flights LEFT JOIN lookup.names n ON carrier = k AND k = 'UA' ORDER BY ALL", ()),
    ("SELECT carrier FROM flights WHERE __time > now() - INTERVAL 100 YEAR ORDER BY __time LIMIT 4", ()),
    ("SELECT current_date < DATE '2000-01-01', count(*) FROM flights GROUP BY 1", ()),
    ("SELECT count(*) FROM flights WHERE carrier LIKE ? || '%'", ["A"]),
    ("SELECT count(*) FROM flights WHERE carrier = $code AND delay > $least", {"least": 9, "code": "AA"}),
    ("SELECT list_contains($l, carrier), count(*) FROM flights GROUP BY 1 ORDER BY 1", {"l": ["AA", "it's, 5"]}),
    ("SELECT carrier, count(DISTINCT delay), sum(DISTINCT delay), count(*) FROM flights GROUP BY 1 ORDER BY 1", ()),
    ("SELECT count(DISTINCT carrier) FILTER (WHERE delay > 900), count(DISTINCT delay) FROM flights", ()),
    ("SELECT count(DISTINCT carrier), sum(DISTINCT delay), avg(DISTINCT delay) FROM flights WHERE false", ()),
    ("SELECT carrier FROM flights GROUP BY 1 HAVING count(DISTINCT delay) > 9 ORDER BY count(DISTINCT delay), 1", ()),
    ("SELECT delay % 3 d, count(DISTINCT delay % 3), sum(d), avg(distance) FROM flights GROUP BY d ORDER BY d", ()),
    ("SELECT carrier, count(DISTINCT delay % 9) n, max(DISTINCT delay) FILTER (delay < 99), count(*) FROM flights "
     "GROUP BY CUBE (carrier) HAVING sum(DISTINCT delay % 9) > 9 ORDER BY n, carrier", ()),
    ("SELECT count(DISTINCT nullif(carrier, 'UA')), median(DISTINCT delay), count(DISTINCT delay) FROM flights", ()),
    ("SELECT count(DISTINCT delay), approx_count_distinct(carrier), arg_max(delay, __time) FROM flights", ()),
    ("SELECT arg_max(carrier, __time), arg_min(carrier, __time) FILTER (WHERE delay > 9) FROM flights", ()),
    ("SELECT arg_max(nullif(carrier, 'UA'), __time), arg_min(1, __time) FILTER (WHERE false) FROM flights", ()),
    ("SELECT carrier, any_value(carrier) FROM flights GROUP BY 1 ORDER BY 1", ()),
    ("SELECT var_pop(delay), stddev(delay), corr(delay, distance) FROM flights WHERE false", ()),
    ("SELECT variance(7.1), stddev_pop(0.1), covar_pop(0.3, delay), var_samp(delay) FILTER (false) FROM flights", ()),
    ("SELECT approx_count_distinct_ds_hll(carrier), hll_estimate(ds_hll(delay)) FROM flights", ()),
    ("SELECT hll_estimate(ds_hll(carrier)), ds_theta(carrier) IS NULL FROM flights WHERE false", ()),
    ("SELECT theta_estimate(theta_not(ds_theta(carrier), ds_theta(carrier) FILTER (delay > 9))) FROM flights", ()),
    ("SELECT carrier, ds_cdf(ds_quantiles_sketch(delay // 100), 3, 6.5), ds_histogram(ds_quantiles_sketch(delay // 100"
     "), 5) FROM flights WHERE carrier = 'AA' AND delay % 50 = 0 GROUP BY 1", ()),
    ("SELECT list_transform([carrier, 'x'], lambda delay: delay || carrier) AS l, count(*) FROM flights WHERE "
     "list_contains(list_filter([1, 2, delay], lambda one: one > distance % 3), 2) GROUP BY l ORDER BY l", ()),
    ("SELECT max(list_sum(list_transform([delay, 1], lambda flights: flights + 1))), MV_FILTER_ONLY(carrier, ['AA']) m "
     "FROM flights GROUP BY ALL ORDER BY m", ()),
    ("SELECT IPV4_MATCH('10.1.2.' || delay, '10.1.2.0/29') m FROM flights ORDER BY __time, m LIMIT 9", ()),
    ("SELECT json_paths(json_merge(json_object('a', carrier), '{\"b\": 1}')) p, count(*) FROM flights GROUP BY 1", ()),
    ("SELECT json_merge(json_object('a', carrier), '{\"b\": 1}') m FROM flights ORDER BY __time, delay LIMIT 3", ()),
    ("SELECT position('A' IN carrier FROM 2) p, ipv6_match('::' || delay % 9, '::/126') m, count(*), max(PI) "
     "FROM flights WHERE delay > PI GROUP BY 1, 2 ORDER BY 1, 2", ()),
    ("SELECT time_floor(__time, 'P1DT12H') t, max(time_shift(__time, 'P1M1D', 1, 'Europe/Paris')) FROM flights "
     "GROUP BY 1 ORDER BY 1 LIMIT 5", ()),
    ("SELECT carrier, quantile(ds_quantiles_sketch(delay), 0.5) FROM flights GROUP BY 1 ORDER BY 1", ()),
    ("SELECT carrier FROM flights WHERE delay > 1000 UNION SELECT name FROM airlines ORDER BY 1", ()),
    ("(SELECT carrier FROM flights ORDER BY __time LIMIT 3) UNION ALL SELECT max(name) FROM airlines ORDER BY 1", ()),
    ("SELECT carrier FROM flights EXCEPT SELECT carrier FROM flights WHERE delay > 9 INTERSECT SELECT 'AA'", ()),
    ("SELECT max(c), avg(\"sum(delay)\") FROM (SELECT carrier, count(*) c, sum(delay) FROM flights GROUP BY 1)", ()),
    ("WITH t AS (SELECT carrier g, count(*) c FROM flights GROUP BY 1) SELECT *, c / (SELECT sum(c) FROM t) FROM t "
     "ORDER BY row_number() OVER (ORDER BY c, g)", ()),
    ("SELECT a.g, a.c, b.* FROM (SELECT carrier g, count(*) c FROM flights GROUP BY 1) a JOIN "
     "(SELECT DISTINCT carrier, name FROM airlines) b ON a.g = b.carrier ORDER BY 1", ()),
    ("SELECT (SELECT max(delay) FROM flights) - (SELECT min(delay) FROM flights WHERE carrier = ?) x", ["AA"]),
    ("SELECT median(c) FROM (SELECT date_trunc('day', __time) d, count(*) c FROM flights GROUP BY d)", ()),
    ("SELECT v, c FROM (SELECT carrier k, count(*) c FROM flights GROUP BY 1) JOIN lookup.names USING (k) ORDER BY 1"
     "", ()),
    ("SELECT name, count(*), sum(DISTINCT delay) FROM flights JOIN airlines USING (carrier) GROUP BY 1 ORDER BY 1",
     ()),
    ("SELECT name, count(*) FROM flights f LEFT JOIN airlines a ON f.carrier = a.carrier AND a.name > ? GROUP BY 1 "
     "ORDER BY 1", ["K"]),
    ("SELECT f.carrier, a.* FROM flights f JOIN airlines a ON f.carrier = a.carrier ORDER BY f.__time, 1 LIMIT 7", ()),
    ("SELECT count(*) FROM flights f ANTI JOIN airlines a ON f.carrier = a.carrier AND a.name < 'K'", ()),
    ("SELECT count(*) FROM airlines a RIGHT JOIN flights f ON a.carrier < f.carrier WHERE f.delay > 500", ()),
    ("SELECT count(*) FROM flights a JOIN flights b USING (__time) WHERE a.delay > 900", ()),
    ("SELECT v, count(*) FROM flights f JOIN airlines a ON f.carrier = a.carrier JOIN lookup.names ON v = name "
     "GROUP BY 1", ()),
    ("SELECT carrier FROM flights WHERE delay = (SELECT max(delay) FROM flights)", ()),
    ("SELECT count(*) FROM flights WHERE carrier NOT IN (SELECT carrier FROM airlines WHERE name LIKE 'U%')", ()),
    ("SELECT count(*) FROM flights WHERE EXISTS (FROM airlines WHERE name = 'Nobody') OR carrier = 'AA'", ()),
    ("SELECT count(*) FROM flights WHERE carrier IN (SELECT k FROM lookup.names WHERE v <> 'United')", ()),
    ("SELECT carrier, delay - (SELECT avg(delay) FROM flights) d FROM flights ORDER BY 2 DESC, 1 LIMIT 4", ()),
    ("SELECT carrier, sum(delay) FROM flights GROUP BY 1 HAVING sum(delay) > (SELECT avg(s) FROM (SELECT sum(delay) s "
     "FROM flights GROUP BY carrier)) ORDER BY 1", ()),
    ("SELECT max(c) FROM (SELECT count(*) c FROM flights WHERE delay > (SELECT avg(delay) FROM flights) GROUP BY "
     "carrier)", ()),
    ("SELECT carrier c, delay > 500 d, sum(delay) FROM flights GROUP BY CUBE (c, d) HAVING count(*) > 3 ORDER BY ALL",
     ()),
    ("SELECT carrier, delay // 500 AS d, max(delay) FROM flights WHERE delay > 1e9 GROUP BY GROUPING SETS "
     "((carrier, d), ()) ORDER BY ALL", ()),
    ("SELECT carrier, approx_count_distinct(delay), approx_count_distinct(__time) FILTER (delay > 500) FROM flights "
     "GROUP BY 1 ORDER BY 1", ()),
    ("SELECT approx_count_distinct(carrier) + 1, approx_count_distinct(delay) FROM flights WHERE delay > 1e9", ()),
    ("SELECT approx_quantile(delay, CAST(? AS FLOAT)), approx_quantile(__time, 0.25 + 0.25) FROM flights "
     "WHERE delay = 900", [0.5]),
    ("SELECT carrier, approx_quantile(delay // 1000, [0.1, 0.9]) FILTER (delay < 999) FROM flights GROUP BY 1 "
     "ORDER BY 1", ()),
    ("SELECT approx_quantile(delay, 0.5) FROM flights WHERE delay > 1e9", ()),
    ("SELECT max(current_date) FROM (SELECT carrier AS current_date, count(*) FROM flights GROUP BY 1)", ()),
]  # fmt: skip
GATHERED = [
    ("SELECT mode(DISTINCT carrier) FROM flights WHERE carrier = 'AA'", "distinct"),
    ("SELECT first(carrier) FROM flights WHERE carrier = 'AA'", "first depends on the order"),
    ("SELECT list_sort(array_concat_agg([carrier, 'x'])) FROM flights WHERE delay > 900", "order of rows"),
    ("SELECT carrier, array_concat_agg(DISTINCT [delay % 9]) FROM flights GROUP BY 1 ORDER BY 1", "order of rows"),
    ("SELECT list_transform([max(delay)], lambda x: x + count(*)) FROM flights", "a lambda over groups"),
    ("SELECT carrier -> '$.a' FROM flights WHERE delay > 1e9", "an arrow"),
    ("SELECT median(delay) FROM flights WHERE carrier = 'AA'", "median"),
    ("SELECT string_agg(carrier, '' ORDER BY __time) FROM flights", "order"),
    ("SELECT grouping(carrier), count(*) FROM flights GROUP BY ROLLUP (carrier) ORDER BY ALL", "which grouping set"),
    ("SELECT carrier, count(*) FROM flights GROUP BY CUBE (carrier, flights.carrier) ORDER BY ALL", "twice"),
    ("SELECT __time, row_number() OVER (ORDER BY __time) FROM flights ORDER BY 1", "window"),
    ("SELECT name, count(*) FROM flights f FULL JOIN airlines a USING (carrier) GROUP BY 1 ORDER BY 1", "full"),
    ("SELECT (SELECT max(name) FROM airlines a WHERE a.carrier = f.carrier) n FROM flights f ORDER BY 1 LIMIT 1", "f"),
    ("WITH t AS MATERIALIZED (SELECT carrier FROM flights) SELECT count(*) FROM t", "rows as they are"),
    ("SELECT p_1, max(c) FROM (SELECT carrier p_1, count(*) c FROM flights GROUP BY 1) GROUP BY 1", "called 'p_1'"),
    ("SELECT g, (SELECT count(*) FROM airlines WHERE carrier = g) FROM (SELECT DISTINCT carrier g FROM flights)", ""),
    ("SELECT DISTINCT ON (carrier) carrier, delay FROM flights ORDER BY carrier, delay", "DISTINCT ON"),
    ("SELECT carrier, sum(delay) AS delay FROM flights GROUP BY 1 HAVING delay > 3 ORDER BY 1", "alias"),
    ("SELECT k, delay FROM flights RIGHT JOIN lookup.names n ON carrier = k AND delay > 990 ORDER BY 1, 2", "right"),
    ("SELECT flights FROM flights ORDER BY __time LIMIT 2", "certain"),
    ("SELECT t.b FROM flights AS t(a, b) ORDER BY a LIMIT 3", "names of their own"),
    ("SELECT DISTINCT carrier FROM flights ORDER BY lower(carrier) || carrier", ""),
    ("DESCRIBE flights", ""),
    ("SELECT count(*) FROM flights TABLESAMPLE 100 %", "sample"),
    ("SELECT count(*) FROM flights USING SAMPLE 100 %", "sample"),
    ("SELECT count(*) FROM (SELECT COLUMNS('d.*') FROM flights)", "subquery"),
    ("PIVOT (SELECT carrier, delay FROM flights) ON carrier IN ('AA', 'UA') USING sum(delay)", ""),
    ("SELECT avg(__time) FROM flights WHERE __time < now() - INTERVAL 1 DAY", "do not fit together"),
    ("SELECT nullif(carrier, 'UA') g FROM flights GROUP BY ALL HAVING g > '' ORDER BY g", "HAVING groups by more"),
]  # fmt: skip


def test_quantiles_of_many_servers_are_near_their_rank(
    engines: list[QueryEngine], catalog: MemoryCatalog
) -> None:
    fractions = (0.01, 0.25, 0.5, 0.99)
    sql = ", ".join(f"approx_quantile(delay, {one})" for one in fractions)
    found = spread_query(engines, f"SELECT {sql} FROM flights", catalog)
    assert found.plan.way is Way.ONE_ROUND
    for fraction, column in zip(fractions, found.table.columns, strict=True):
        rank = f"SELECT count_if(delay <= {column[0]}) / count(*) FROM flights"
        [row] = engines[0].run_query(rank, catalog).table.to_pylist()
        [share] = row.values()
        assert abs(share - fraction) < 0.05


@pytest.mark.parametrize(("sql", "parameters"), ONE_ROUND)
def test_one_round_gives_what_one_engine_gives(
    engines: list[QueryEngine],
    catalog: MemoryCatalog,
    sql: str,
    parameters: Parameters,
) -> None:
    found = spread_query(engines, sql, catalog, parameters=parameters)
    assert found.plan.way is (Way.ONE_ROUND if "flights" in sql else Way.AT_BROKER)
    assert found.is_complete
    expected = engines[0].run_query(sql, catalog, parameters=parameters).table
    assert found.table == expected


@pytest.mark.parametrize(
    ("sql", "is_grouped"),
    [
        ("SELECT count(DISTINCT delay), sum(distance) FROM flights", True),
        ("SELECT carrier, avg(DISTINCT delay) FROM flights GROUP BY 1", True),
        ("SELECT count(DISTINCT delay), count(DISTINCT carrier) FROM flights", False),
        ("SELECT count(DISTINCT delay), ds_hll(carrier) FROM flights", False),
        ("SELECT count(DISTINCT delay) FILTER (WHERE delay > 9) FROM flights", False),
    ],
)
def test_servers_group_by_the_value_whose_distinct_ones_are_wanted(
    engines: list[QueryEngine], catalog: MemoryCatalog, sql: str, is_grouped: bool
) -> None:
    plan = engines[0].plan_distributed(sql, catalog)
    [leaf] = plan.leaves
    rows, _ = ask(engines[1], leaf)
    assert any(pa.types.is_list(one) for one in rows.schema.types) is not is_grouped
    assert ("DISTINCT" in plan.final_sql) is is_grouped


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0, 1_000_000_000])
def test_moments_keep_their_digits_where_the_mean_is_large(
    engines: list[QueryEngine], catalog: MemoryCatalog, mean: float
) -> None:
    sql = (
        f"SELECT carrier, var_pop({mean} + delay % 3), stddev({mean} + delay % 3), covar_samp({mean} + delay % 3, "
        f"delay), corr({mean} + delay % 3, delay), regr_slope(delay, {mean} + delay % 3), regr_sxy(delay, distance), "
        f"var_samp(delay) FROM flights GROUP BY 1 ORDER BY 1"
    )
    found = spread_query(engines, sql, catalog)
    assert found.plan.way is Way.ONE_ROUND
    # one engine is as far from the truth: doubles have no more digits there, and sums of squares would have none
    exact: Any = engines[0].run_query(sql.replace(f"{mean} + ", ""), catalog).table
    for one, other in zip(found.table.columns[1:], exact.columns[1:], strict=True):
        assert one.to_pylist() == pytest.approx(other.to_pylist(), rel=1e-5 if mean else 1e-9)


@pytest.mark.parametrize(("sql", "why"), GATHERED)
def test_what_is_gathered_gives_what_one_engine_gives(
    engines: list[QueryEngine], catalog: MemoryCatalog, sql: str, why: str
) -> None:
    found = spread_query(engines, sql, catalog)
    assert found.plan.way is Way.GATHERED
    assert why in found.plan.reason
    assert found.table == engines[0].run_query(sql, catalog).table


def test_only_rows_and_columns_that_matter_are_gathered(
    engines: list[QueryEngine], catalog: MemoryCatalog
) -> None:
    sql = (
        "SELECT name, median(delay) FROM flights f LEFT JOIN airlines a ON f.carrier = a.carrier AND "
        "a.name > 'B' WHERE f.delay > $2 AND name <> $1 GROUP BY name ORDER BY name"
    )
    parameters = ["x", 900]
    plan = engines[0].plan_distributed(sql, catalog, parameters=parameters)
    flights, airlines = plan.leaves
    rows, _ = ask(engines[1], flights)
    assert rows.column_names == list(flights.columns) == ["carrier", "delay"]
    assert min(rows["delay"].to_pylist()) > 900
    assert sorted(ask(engines[1], airlines)[0]["name"].to_pylist()) == ["JetBlue", "United"]
    found = spread_query(engines, sql, catalog, parameters=parameters)
    assert found.table == engines[0].run_query(sql, catalog, parameters=parameters).table


def test_too_much_is_not_gathered(storage: DeepStorage, catalog: MemoryCatalog) -> None:
    engine = QueryEngine(storage, gather_limit=GatherLimit(rows=100, size_bytes=2_000))
    with pytest.raises(Invalid, match="needs more than 100 rows of the servers' rows"):
        engine.plan_distributed("SELECT median(delay) FROM flights", catalog)
    sql = "SELECT median(delay), max(__time), max(carrier) FROM flights WHERE delay > {}"
    for least, limit in [(0, "100 rows"), (700, "2,000 bytes")]:
        plan = engine.plan_distributed(sql.format(least), catalog)
        [leaf] = plan.leaves
        rows, _ = ask(engine, leaf)
        assert rows.num_rows <= 101, "a server stops there"
        with pytest.raises(Invalid, match=f"more than {limit}"):
            engine.run_final(plan, {leaf.view: [rows]})
    sql = "SELECT delay, count(*) FROM flights GROUP BY delay"
    plan = engine.plan_distributed(sql, catalog)
    with pytest.raises(Invalid, match="or raise query_gather_rows"):
        engine.run_final(plan, {plan.leaves[0].view: [ask(engine, plan.leaves[0])[0]]})
    assert engine.plan_distributed("SELECT * FROM flights", catalog).limit is None, "it streams"
    engine.close()


def test_the_newest_rows_are_read_from_the_newest_files(
    engines: list[QueryEngine], catalog: MemoryCatalog, storage: DeepStorage
) -> None:
    sql = "SELECT carrier FROM flights WHERE carrier = ? ORDER BY __time DESC LIMIT 5"
    [leaf] = engines[0].plan_distributed(sql, catalog, parameters=["AA"]).leaves
    places = {}
    for piece in leaf.slices:
        place = storage.local_path(piece.segment.path)
        assert place is not None
        places[piece.segment.segment_id] = place
    newest = max(leaf.slices, key=lambda one: one.segment.max_time_ms).segment.segment_id
    oldest = {one: place for one, place in places.items() if one != newest}
    files = LeafFiles(
        places=places | {one: place.with_name("gone") for one, place in oldest.items()}
    )
    batches, report = engines[1].run_leaf(leaf, files)
    assert pa.Table.from_batches(list(batches)).num_rows == 5, "no other file is looked at"
    assert len(report.slices) == len(leaf.slices), "all are accounted for"


def test_files_may_be_elsewhere(
    engines: list[QueryEngine], catalog: MemoryCatalog, storage: DeepStorage
) -> None:
    sql = "SELECT carrier, sum(delay), max(__time) FROM flights WHERE delay > 90 GROUP BY 1 ORDER BY 1"
    plan = engines[0].plan_distributed(sql, catalog)
    [leaf] = plan.leaves
    places, remote = {}, {}
    for number, piece in enumerate(leaf.slices):
        place = storage.local_path(piece.segment.path)
        assert place is not None
        if number % 2:
            places[piece.segment.segment_id] = place
        else:
            remote[piece.segment.segment_id] = dataset(place)
    batches, report = engines[1].run_leaf(leaf, LeafFiles(places=places, remote=remote))
    rows = pa.Table.from_batches(list(batches))
    assert (report.cold, report.rows, report.is_whole) == (len(remote), rows.num_rows, True)
    found = engines[0].run_final(plan, {leaf.view: [rows]}).table
    assert found == engines[0].run_query(sql, catalog).table


def test_segments_that_cannot_be_read_are_reported(
    engines: list[QueryEngine], catalog: MemoryCatalog
) -> None:
    [leaf] = engines[0].plan_distributed("SELECT count(*) FROM flights", catalog).leaves
    gone = leaf.slices[0]
    lost = replace(gone, segment=replace(gone.segment, segment_id="lost", path="segments/lost"))
    asked = replace(leaf, slices=[lost, *leaf.slices[1:]])
    with pytest.raises(Corrupt):
        ask(engines[1], asked)
    rows, report = ask(engines[1], replace(asked, skips_missing=True))
    assert rows.column(0).to_pylist() == [9 * 24]
    assert list(report.missing) == ["lost"]
    assert len(report.slices) == 9


def test_a_leaf_can_be_cancelled(engines: list[QueryEngine], catalog: MemoryCatalog) -> None:
    sql = "SELECT a.* FROM flights a WHERE delay >= 0"
    [leaf] = engines[0].plan_distributed(sql, catalog, query_id="q1").leaves
    batches, report = engines[1].run_leaf(replace(leaf, sql=leaf.sql + " ORDER BY 1"))
    next(batches)
    engines[1].cancel("q2")
    engines[1].cancel("q1")
    engines[1].cancel("q1")
    with pytest.raises(Cancelled):
        list(batches)
    assert not report.is_whole
    assert ask(engines[1], leaf)[1].is_whole, "the next one of that name runs"


def test_a_large_lookup_stays_at_the_broker(
    engines: list[QueryEngine], catalog: MemoryCatalog
) -> None:
    names = {str(number): "x" for number in range(SMALL_ROWS_MAX)} | {"AA": "American"}
    large = replace(catalog, named_lookups={"names": names})
    sql = "SELECT v, count(*) FROM flights JOIN lookup.names ON carrier = k GROUP BY v"
    found = spread_query(engines, sql, large)
    assert found.plan.way is Way.GATHERED
    assert not any(leaf.tables for leaf in found.plan.leaves)
    assert found.table.to_pylist() == [{"v": "American", "count_star()": 80}]


def test_a_large_datasource_does_not_go_along(
    engines: list[QueryEngine], catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT name, count(*) FROM flights {} JOIN airlines USING (carrier) GROUP BY ALL ORDER BY 1"
    inner = "SELECT count(*) FROM airlines WHERE carrier IN (SELECT carrier FROM flights {})"
    [first] = engines[0].plan_distributed(sql.format(""), catalog).along
    assert [len(leaf.columns) for leaf in first.plan.leaves] == [2]
    assert first.plan.names == ["carrier", "name"]
    monkeypatch.setattr(distributing, "SMALL_ROWS_MAX", 1)
    for asked, word in [
        (sql.format(""), "joins datasources of more than 1 rows"),
        (inner.format(""), "subquery that may give more than 1 rows"),
        (inner.format("GROUP BY 1"), "a subquery gave more than 1 rows"),
    ]:
        found = spread_query(engines, asked, catalog)
        plan = found.plan.otherwise or found.plan
        assert plan.way is Way.GATHERED
        assert word in plan.reason
        assert found.table == engines[0].run_query(asked, catalog).table
    for few in ("LIMIT 1", "GROUP BY 1 ORDER BY 1 LIMIT 1"):
        assert spread_query(engines, inner.format(few), catalog).plan.way is Way.ONE_ROUND
    explained = spread_query(engines, "EXPLAIN " + inner.format("LIMIT 1"), catalog).table
    assert any(
        line.startswith("first, as __carnac_along_") for line in explained["plan"].to_pylist()
    )


def test_explain_says_which_way_and_why(engines: list[QueryEngine], catalog: MemoryCatalog) -> None:
    sql = "EXPLAIN SELECT carrier, avg(delay) FROM flights WHERE __time >= '2013-01-09' GROUP BY 1"
    found = spread_query(engines, sql, catalog)
    first, segments, read, pruned, server, broker, whole = found.table["plan"].to_pylist()
    assert segments == "segments that may matter: 2 of 10"
    assert read.startswith("to be read: 2 segments, ")
    assert pruned == "pruned: 8 by time"
    assert first == "one round: each server groups its rows, and the broker merges the groups"
    assert server.startswith("each server, over its part of 2 segments, ")
    assert broker.startswith("the broker: SELECT p_0, ")
    assert whole.startswith("a server that reads all of them: SELECT ")
    with pytest.raises(Invalid, match="EXPLAIN ANALYZE cannot be run over many servers"):
        engines[0].plan_distributed(sql.replace("EXPLAIN", "EXPLAIN ANALYZE"), catalog)


def test_mistakes_are_told_before_anybody_is_asked(
    engines: list[QueryEngine], catalog: MemoryCatalog
) -> None:
    for sql, kind in [
        ("SELECT carier FROM flights", NotFound),
        ("SELECT count(*) FROM fligths", NotFound),
        ("SELECT carrier, count(*) FROM flights", Invalid),
        ("SELECT sum(carrier) FROM flights", Invalid),
        ("DELETE FROM flights", Invalid),
        ("SELECT count(*) FROM flights WHERE delay > ?", Invalid),
    ]:
        with pytest.raises(kind) as one:
            engines[0].plan_distributed(sql, catalog)
        with pytest.raises(kind) as other:
            engines[0].run_query(sql, catalog)
        assert str(one.value) == str(other.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM other",
        "COPY (SELECT 1) TO '/tmp/x'",
        "EXPLAIN SELECT 1",
        "SELECT getenv('HOME')",
    ],
)
def test_a_leaf_answers_for_its_slices_alone(
    engines: list[QueryEngine], catalog: MemoryCatalog, sql: str
) -> None:
    [leaf] = engines[0].plan_distributed("SELECT count(*) FROM flights", catalog).leaves
    with pytest.raises(Invalid):
        ask(engines[1], replace(leaf, sql=sql))


def test_answers_may_come_as_readers(engines: list[QueryEngine], catalog: MemoryCatalog) -> None:
    sql = "SELECT carrier, count(*) FROM flights GROUP BY 1 ORDER BY 1"
    plan = engines[0].plan_distributed(sql, catalog)
    [leaf] = plan.leaves
    batches, _ = engines[1].run_leaf(leaf)
    first = next(batches)
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    found = engines[0].run_final(plan, {leaf.view: [reader]})
    assert found.table == engines[0].run_query(sql, catalog).table
    with pytest.raises(Invalid, match="with 1 column, not with 2"):
        engines[0].run_final(plan, {leaf.view: [pa.table({"x": [1]})]})
    with pytest.raises(Invalid, match="was not asked"):
        engines[0].run_final(plan, {"other": []})


def test_every_function_is_of_a_known_kind() -> None:
    """A function that a later DuckDB brings, or takes to be another, is noticed here."""
    found = duckdb.connect().execute(
        "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
    )
    aggregates, unstable = set(), set()
    macros = {}
    for name, kind, stability, definition in found.fetchall():
        aggregates |= {name} if kind == "aggregate" else set()
        unstable |= {name} if kind == "scalar" and stability != "CONSISTENT" else set()
        if kind == "macro":
            macros[name] = str(definition)
    words = {name: set(re.findall(r"\w+(?=\()", text)) for name, text in macros.items()}
    for _ in range(3):  # macros of macros
        aggregates |= {name for name, inner in words.items() if inner & aggregates}
        unstable |= {
            name
            for name, inner in words.items()
            if inner & unstable or "current_timestamp" in macros[name]
        }
    assert (aggregates & NAMES) | {"geomean", "geometric_mean"} == AGGREGATES
    assert (unstable & NAMES) - CLOCKS - CLOCK_READERS - VOLATILE == set()
