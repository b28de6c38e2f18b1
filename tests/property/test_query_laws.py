"""A query over pruned, clipped, united segment files gives what the same SQL gives over a plain table of the rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.segments.partitioning import HASH_FUNCTION, hash_bucket
from carnac.core.segments.segment import ColumnType, HashedPartition
from carnac.core.time.intervals import Interval, parse_instant
from carnac.deep_storage.local import LocalDeepStorage
from carnac.errors import CarnacError
from carnac.query import QueryEngine
from tests.nightly import by_day
from tests.support.segments import DAY_MS, MemoryCatalog, write_segment

START_MS = parse_instant("2013-01-01")
HOUR_MS = 3_600_000
TEXTS = [None, "", "a", "ab", "abc", "b", "ü"]
TYPES = {"s": ColumnType.STRING, "n": ColumnType.LONG, "x": ColumnType.DOUBLE}
Rows = list[dict[str, object]]


class World:
    """Two datasources as segment files and as plain tables."""

    def __init__(self, storage: LocalDeepStorage) -> None:
        self.engine = QueryEngine(storage, threads=1)
        self.catalog = MemoryCatalog()
        self.oracle = duckdb.connect(config={"threads": 1})
        self.oracle.execute("SET TimeZone = 'UTC'")
        self._storage = storage
        self._random = random.Random(20130101)
        self.rows: dict[str, Rows] = {}
        self._fill_a()
        self._fill_b()
        for datasource, rows in self.rows.items():
            self._load(datasource, rows)

    def _row(self, day: int) -> dict[str, object]:
        """Return a row whose values say much of its day, so that segments differ and pruning has much to do."""
        draw = self._random
        return {
            "__time": START_MS + day * DAY_MS + draw.choice([0, 6, 12, 18, 23]) * HOUR_MS,
            "s": None if day == 0 else TEXTS[(day + draw.randrange(2)) % len(TEXTS)],
            "n": None if draw.randrange(8) == 0 and day % 2 else day + draw.randrange(2),
            "x": None if day == 7 else (day + draw.randrange(2)) / 2,
        }

    def _fill_a(self) -> None:
        """Days with one segment; some clipped, one without x, one whose n is boolean, some hashed by s."""
        for day in range(8):
            rows = [self._row(day) for _ in range(3)]
            types = dict(TYPES)
            if day in {2, 3}:
                self._add_hashed(rows)
            elif day == 4:
                self._add_clipped(rows, day)
            elif day == 5:
                del types["x"]
                self._add("a", [{**row, "x": None} for row in rows], types)
            elif day == 6:
                types["n"] = ColumnType.BOOLEAN
                self._add(
                    "a", [{**row, "n": self._random.choice([True, False])} for row in rows], types
                )
            else:
                self._add("a", rows, types)

    def _add(
        self,
        datasource: str,
        rows: Rows,
        types: Mapping[str, ColumnType],
        *,
        clip: list[Interval] | None = None,
        partition: HashedPartition | None = None,
    ) -> None:
        segment = write_segment(
            self._storage, rows, datasource=datasource, types=types, partition=partition
        )
        self.catalog.add(segment, clip=clip)
        times = [int(str(row["__time"])) for row in rows]
        shown = [clip is None or any(one.holds(time) for one in clip) for time in times]
        self.rows.setdefault(datasource, []).extend(
            row for row, is_shown in zip(rows, shown, strict=True) if is_shown
        )

    def _add_hashed(self, rows: Rows) -> None:
        for bucket in range(3):
            part = [row for row in rows if hash_bucket([row["s"]], 3) == bucket]  # type: ignore[list-item]
            partition = HashedPartition(
                dimensions=("s",), bucket=bucket, buckets=3, function=HASH_FUNCTION
            )
            if part:
                self._add("a", part, TYPES, partition=partition)

    def _add_clipped(self, rows: Rows, day: int) -> None:
        """Four segments of one day that show and hide each other's hours."""
        start = START_MS + day * DAY_MS
        morning, noon = (
            Interval(start, start + 12 * HOUR_MS),
            Interval(start + 12 * HOUR_MS, start + 13 * HOUR_MS),
        )
        evening = Interval(start + 13 * HOUR_MS, start + DAY_MS)
        hours = [
            {**rows[0], "__time": start + hour * HOUR_MS, "n": hour} for hour in (0, 6, 12, 18, 23)
        ]
        for clip in ([morning], [evening], [noon], [morning, evening]):
            self._add("a", hours, TYPES, clip=clip)

    def _fill_b(self) -> None:
        """Twenty times that differ, four in a segment: which row ASOF JOIN takes is certain."""
        times = sorted(self._random.sample(range(8 * 24), 20))
        for place in range(0, 20, 4):
            self._add(
                "b",
                [
                    {**self._row(hour // 24), "__time": START_MS + hour * HOUR_MS}
                    for hour in times[place : place + 4]
                ],
                TYPES,
            )

    def _load(self, name: str, rows: Rows) -> None:
        table = pa.table(
            {
                "__time": pa.array(
                    [int(str(row["__time"])) * 1000 for row in rows], pa.int64()
                ).cast(pa.timestamp("us", "UTC")),
                "s": pa.array([row["s"] for row in rows], pa.string()),
                "n": pa.array(
                    [None if row["n"] is None else int(str(int(row["n"]))) for row in rows],
                    pa.int64(),
                ),  # type: ignore[call-overload]
                "x": pa.array([row["x"] for row in rows], pa.float64()),
            }
        )
        self.oracle.register("loaded", table)
        self.oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM loaded")
        self.oracle.unregister("loaded")

    def close(self) -> None:
        self.engine.close()
        self.oracle.close()


# ------------------------------------------------------------------------------- SQL out of a hat

days = st.integers(-1, 9).map(lambda day: f"2013-01-{day + 1:02d}" if day >= 0 else "2012-12-31")
instants = st.one_of(
    days.map("'{}'".format),
    days.map("DATE '{}'".format),
    days.map("TIMESTAMP '{} 06:00:00'".format),
    days.map("TIMESTAMPTZ '{} 06:30:00+00'".format),
    days.map("'{}T18:00:00Z'".format),
    days.map("(DATE '{}' + INTERVAL 1 DAY)".format),
    days.map("date_trunc('month', TIMESTAMPTZ '{} 00:00:00+00')".format),
    st.just("now()"),
    st.just("current_date"),
)
ops = st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"])
texts = st.sampled_from(["''", "'a'", "'ab'", "'abc'", "'b'", "'ü'", "'zz'"])
longs = st.sampled_from(
    ["-1", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "2.5", "1 + 1", "abs(-3)"]
)
doubles = st.sampled_from(["-2", "0.0", "0.5", "1.50", "2", "2.5", "3", "3.5", "100", "1e3"])
patterns = st.sampled_from(["'a%'", "'a_'", "'%b'", "'ab'", "'abc%'", "'%'", "''", "'ü%'"])


def leaf(alias: str) -> st.SearchStrategy[str]:
    column = "" if alias == "" else f"{alias}."

    def compare(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        left = st.builds(lambda op, value: f"{column}{name} {op} {value}", ops, values)
        right = st.builds(lambda op, value: f"{value} {op} {column}{name}", ops, values)
        inside = st.builds(
            lambda word, some: f"{column}{name} {word} ({', '.join(some)})",
            st.sampled_from(["IN", "NOT IN"]),
            st.lists(values, min_size=1, max_size=3),
        )
        between = st.builds(
            lambda word, low, high: f"{column}{name} {word} {low} AND {high}",
            st.sampled_from(["BETWEEN", "NOT BETWEEN"]),
            values,
            values,
        )
        return st.one_of(left, left, right, inside, between)

    return st.one_of(
        compare("__time", instants),
        compare("s", texts),
        compare("n", longs),
        compare("x", doubles),
        st.builds(
            lambda name, word: f"{column}{name} IS {word}",
            st.sampled_from("snx"),
            st.sampled_from(["NULL", "NOT NULL"]),
        ),
        st.builds(
            lambda word, text: f"{column}s {word} {text}",
            st.sampled_from(["LIKE", "NOT LIKE", "ILIKE"]),
            patterns,
        ),
        st.builds(lambda text: f"starts_with({column}s, {text})", texts),
        st.builds(
            lambda op, day: f"CAST({column}__time AS DATE) {op} {day}",
            ops,
            days.map("DATE '{}'".format),
        ),
        st.builds(
            lambda unit, op, day: f"date_trunc('{unit}', {column}__time) {op} {day}",
            st.sampled_from(["hour", "day", "week", "month"]),
            ops,
            days.map("'{}'".format),
        ),
        st.sampled_from(
            ["true", "false", "NULL", f"{column}n > {column}x", f"coalesce({column}n, 1) = 1"]
        ),
    )


def conditions(*aliases: str) -> st.SearchStrategy[str]:
    leaves = st.one_of(*[leaf(alias) for alias in aliases])
    if len(aliases) > 1:
        crossed = st.sampled_from(["s", "n", "__time"]).map(
            lambda name: f"{aliases[0]}.{name} = {aliases[1]}.{name}"
        )
        leaves = st.one_of(leaves, crossed)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("(NOT {})".format, inner),
        ),
        max_leaves=5,
    )


JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
statements = st.one_of(
    st.builds(
        "SELECT * FROM a p {} b q ON p.n = q.n WHERE {}".format,
        st.sampled_from(JOINS),
        st.one_of(leaf("p"), leaf("q")),
    ),
    st.builds(
        "SELECT * FROM a p {} b q ON p.n = q.n AND {}".format,
        st.sampled_from(JOINS),
        conditions("p", "q"),
    ),
    st.builds("SELECT * FROM a WHERE {}".format, conditions("", "a")),
    st.builds(
        "SELECT * FROM a p {} b q ON {} WHERE {}".format,
        st.sampled_from(JOINS),
        conditions("p", "q"),
        conditions("p", "q"),
    ),
    st.builds(
        "SELECT p.n, q.n FROM a p {} a q ON p.n = q.n AND {} WHERE {}".format,
        st.sampled_from(JOINS),
        conditions("p", "q"),
        conditions("p", "q"),
    ),
    st.builds(
        "SELECT * FROM (a p {} b q ON {}) {} b r ON {} WHERE {}".format,
        st.sampled_from(JOINS),
        conditions("p", "q"),
        st.sampled_from(JOINS),
        conditions("r", "q", "p"),
        conditions("p", "q", "r"),
    ),
    st.builds(
        "SELECT * FROM a p {} b q ON p.s = q.s AND {} WHERE {}".format,
        st.sampled_from(["SEMI JOIN", "ANTI JOIN"]),
        conditions("p", "q"),
        conditions("p", ""),
    ),
    st.builds(
        "SELECT * FROM b {} a USING (n) WHERE {} AND {}".format,
        st.sampled_from(JOINS),
        st.sampled_from(["n > 3", "n IS NULL", "n = 1 OR b.s = 'a'"]),
        conditions("a", "b"),
    ),
    st.builds(
        "SELECT * FROM a p ASOF {} b q ON p.__time >= q.__time WHERE {}".format,
        st.sampled_from(["JOIN", "LEFT JOIN"]),
        conditions("p", "q"),
    ),
    st.builds(
        "WITH a AS (SELECT * FROM a WHERE {}) SELECT * FROM a WHERE {}".format,
        conditions(""),
        conditions(""),
    ),
    st.builds(
        "WITH t AS (SELECT * FROM b WHERE {}) SELECT * FROM a JOIN t ON {} WHERE {}".format,
        conditions(""),
        conditions("a", "t"),
        conditions("a", "t"),
    ),
    st.builds(
        "SELECT * FROM a WHERE n {} (SELECT n FROM b WHERE {}) OR {}".format,
        st.sampled_from(["IN", "NOT IN"]),
        conditions("", "b"),
        conditions("a"),
    ),
    st.builds(
        "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.n = a.n AND {}) AND {}".format,
        conditions("b"),
        conditions("a"),
    ),
    st.builds(
        "SELECT count(*), sum(n) FROM (SELECT * FROM a WHERE {} UNION ALL SELECT * FROM b WHERE {}) WHERE {}".format,
        conditions(""),
        conditions(""),
        conditions(""),
    ),
    st.builds(
        "SELECT s, count(*) c, min(__time) FROM a WHERE {} GROUP BY s HAVING count(*) > 1".format,
        conditions(""),
    ),
    st.builds(
        "SELECT *, (SELECT max(n) FROM b WHERE {}) FROM a, LATERAL (SELECT a.n + 1 AS m) l WHERE {}".format,
        conditions("b"),
        conditions("a"),
    ),
)


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def expected_of(world: World, sql: str) -> pa.Table | None:
    """Return what plain DuckDB gives; None: it refuses the statement, and so does the engine."""
    try:
        return world.oracle.sql(sql).to_arrow_table()
    except duckdb.Error:
        with pytest.raises(CarnacError):
            world.engine.run_query(sql, world.catalog)
        return None


def assert_same(world: World, sql: str) -> None:
    """Run on both."""
    expected = expected_of(world, sql)
    if expected is None:
        return
    found = world.engine.run_query(sql, world.catalog).table
    assert isinstance(found, pa.Table)
    expected = expected.rename_columns(found.schema.names)
    assert rows_of(found) == rows_of(expected.cast(found.schema)), sql


@pytest.mark.slow
@given(sql=statements)
def test_a_query_over_segments_is_the_query_over_their_rows(world: World, sql: str) -> None:
    assert_same(world, sql)


OPS = ["=", "<", "<=", ">", ">=", "<>", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"]
CONSTANTS = {
    "n": ["1", "4", "2.5", "18"],
    "x": ["0.5", "3.50", "1e1"],
    "s": ["''", "'ab'", "'ü'"],
    "__time": [
        "'2013-01-03'",
        "DATE '2013-01-05'",
        "TIMESTAMP '2013-01-05 06:00:00'",
        "TIMESTAMPTZ '2013-01-04 23:00:00Z'",
    ],
    "CAST(__time AS DATE)": [
        "DATE '2013-01-04'",
        "'2013-01-04'",
        "TIMESTAMP '2013-01-04 12:00:00'",
    ],
    "date_trunc('week', __time)": ["'2013-01-07'", "DATE '2012-12-31'", "'2013-01-02'"],
}


@pytest.mark.slow  # the law above asks for some of them
@pytest.mark.parametrize("column", by_day(CONSTANTS, 2))
def test_every_comparison_finds_the_same_rows(world: World, column: str) -> None:
    for constant, op, negation in itertools.product(CONSTANTS[column], OPS, ["", "NOT "]):
        assert_same(world, f"SELECT * FROM a WHERE {negation}({column} {op} {constant})")
        if not negation:
            assert_same(world, f"SELECT count(*) FROM a WHERE {constant} {op} {column}")
    for first, second in itertools.pairwise(CONSTANTS[column]):
        for word in (
            "BETWEEN {} AND {}",
            "NOT BETWEEN {} AND {}",
            "IN ({}, {})",
            "NOT IN ({}, {})",
            "IN ({}, {}, NULL)",
        ):
            assert_same(world, f"SELECT * FROM a WHERE {column} {word.format(first, second)}")


SIDES = [
    "p.n IS NULL",
    "q.n IS NULL",
    "q.s IS NULL OR q.n > 5",
    "p.x IS NOT NULL",
    "q.n = 3",
    "p.n = 3",
    "p.n < 3 AND q.n > 1",
]
SIDES += [
    "q.__time < '2013-01-04'",
    "p.__time >= '2013-01-04'",
    "p.n = 3 OR q.n = 5",
    "NOT (q.n > 2)",
    "coalesce(q.n, 9) = 9",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "join",
    by_day(
        ["JOIN", "ANTI JOIN", "ASOF JOIN", "SEMI JOIN", "FULL JOIN", "RIGHT JOIN", "LEFT JOIN"], 2
    ),
)
def test_every_join_finds_the_same_rows(world: World, join: str) -> None:
    on = "p.__time >= q.__time" if join.startswith("ASOF") else "p.n = q.n"
    for condition in SIDES:
        assert_same(world, f"SELECT * FROM a p {join} b q ON {on} WHERE {condition}")
        assert_same(
            world, f"SELECT * FROM b q {join.replace('ASOF', '')} a p ON {condition} AND {on}"
        )
        assert_same(
            world,
            f"SELECT * FROM b r LEFT JOIN (a p {join} b q ON {on}) ON p.n = r.n WHERE {condition}",
        )
        assert_same(
            world,
            f"SELECT * FROM (SELECT p.* FROM a p {join} b q ON {on}) p LEFT JOIN b q ON {condition}",
        )
