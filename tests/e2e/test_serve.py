"""`carnac serve` as a process: up with one command, asked by curl's line and by Druid's clients, drained at the end."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import httpx
import pytest

from tests.e2e.cli import ROWS, make_store
from tests.support.serve_process import Served, serving
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.http]

FEW = "SELECT carrier, COUNT(*) AS n, max(delay), [1, 2] AS l FROM flights GROUP BY 1 ORDER BY 1"
STUBBORN = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000)) AS n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = tmp_path_factory.mktemp("served") / "store"
    make_store(store)
    with serving(store) as running:
        yield running


def test_the_line_that_it_prints_can_be_pasted(served: Served) -> None:
    lines = until(
        lambda: [line for line in served.lines if line.startswith("curl ")], "a line to paste"
    )
    if which("curl") is None:
        pytest.skip("there is no curl here")
    done = subprocess.run(
        [*shlex.split(lines[0]), "-s"], capture_output=True, text=True, check=True, timeout=60
    )
    assert '{"TABLE_NAME":"flights"}' in done.stdout


def test_pydruid_runs_statements(served: Served) -> None:
    from pydruid.db import connect
    from pydruid.db.exceptions import ProgrammingError

    cursor = connect("127.0.0.1", served.port, path="/druid/v2/sql/", scheme="http").cursor()
    rows = cursor.execute(FEW).fetchall()
    assert [column[0] for column in cursor.description] == ["carrier", "n", "EXPR$2", "l"]
    assert [row[0] for row in map(tuple, rows)] == ["AA", "UA"]
    assert sum(tuple(row)[1] for row in rows) == ROWS
    assert tuple(rows[0])[3] == "[1,2]"
    back = r"SELECT 'a\' AS a, 'b' AS b"
    assert [tuple(row) for row in cursor.execute(back)] == [("a\\", "b")]
    filtered = cursor.execute(
        "SELECT COUNT(*) AS n FROM flights WHERE carrier = %(c)s", {"c": "UA"}
    )
    assert next(iter(filtered.fetchone())) > 0
    with pytest.raises(ProgrammingError, match="SQL parse failed"):
        cursor.execute("SELEC 1")


def test_pydruid_builds_native_queries(served: Served) -> None:
    import urllib.error
    import urllib.request  # noqa: F401 - which pydruid uses, and does not import

    from pydruid.client import PyDruid
    from pydruid.utils.aggregators import count, doublemax, filtered, longsum
    from pydruid.utils.filters import Bound, Dimension
    from pydruid.utils.postaggregator import Const, Field

    client = PyDruid(served.url, "druid/v2")
    what: dict[str, Any] = {"datasource": "flights", "intervals": "2013-01-01/2013-02-01"}
    late = Bound("delay", lower="200", upper=None, ordering="numeric", alphaNumeric=True)
    aggregations = {
        "n": count("n"),
        "delay": longsum("delay"),
        "most": doublemax("delay"),
        "late": filtered(late, count("late")),
    }
    series = client.timeseries(
        **what,
        granularity="day",
        aggregations=aggregations,
        post_aggregations={
            "mean": Field("delay") / Field("n"),
            "share": Field("late") * Const(100),
        },
        filter=(Dimension("carrier") == "UA") | (Dimension("carrier") == "AA"),
        context={"skipEmptyBuckets": "true"},
    )
    assert sum(row["result"]["n"] for row in series.result) == ROWS
    first = series.result[0]["result"]
    assert first["mean"] == first["delay"] / first["n"]
    top = client.topn(
        **what,
        granularity="all",
        dimension="carrier",
        metric="n",
        threshold=1,
        aggregations={"n": count("n")},
    )
    assert len(top.result[0]["result"]) == 1
    groups = client.groupby(
        **what, granularity="all", dimensions=["carrier"], aggregations={"n": count("n")}
    )
    assert [row["event"]["carrier"] for row in groups.result] == ["AA", "UA"]
    scanned = client.scan(**what, granularity="all", columns=["carrier"], limit=2)
    assert [len(batch["events"]) for batch in scanned.result] == [2]
    bound = client.time_boundary(datasource="flights")
    assert bound.result[0]["result"]["maxTime"] == "2013-01-03T20:30:00.000Z"
    looked = client.segment_metadata(**what, merge=True)
    assert looked.result[0]["columns"]["delay"]["type"] == "LONG"
    with pytest.raises(OSError, match="HTTP Error 400"):
        client.timeseries(**what, granularity="fortnight", aggregations={})


def test_sqlalchemy_runs_statements_and_looks_around(served: Served) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the dialect is older than the library
        engine = sqlalchemy.create_engine(
            f"druid://127.0.0.1:{served.port}/druid/v2/sql/?header=true"
        )
        with engine.connect() as connection:
            counted = connection.execute(sqlalchemy.text("SELECT COUNT(*) AS n FROM flights"))
            assert [tuple(row) for row in counted] == [(ROWS,)]
            nothing = connection.execute(sqlalchemy.text("SELECT * FROM flights WHERE delay < 0"))
            assert nothing.fetchall() == []
            assert list(nothing.keys()) == ["__time", "carrier", "delay"]
        looked = sqlalchemy.inspect(engine)
        assert "flights" in looked.get_table_names()
        assert "druid" in looked.get_schema_names()
        assert [column["name"] for column in looked.get_columns("flights")] == [
            "__time",
            "carrier",
            "delay",
        ]
        engine.dispose()


def test_one_port_answers_for_all_roles(served: Served) -> None:
    for path in (
        "/status",
        "/status/health",
        "/druid/v2/datasources",
        "/iceberg/v1/config",
        "/druid/indexer/v1/tasks",
        "/metrics",
        "/openapi.json",
    ):
        assert httpx.get(served.url + path).status_code == 200, path


def test_what_is_being_answered_is_answered_before_it_ends(tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        query = {"query": "SELECT range AS n FROM range(2000000)", "resultFormat": "csv"}
        with httpx.stream("POST", f"{running.url}/druid/v2/sql", json=query) as answer:
            pieces = answer.iter_bytes()
            lines = next(pieces).count(b"\n")
            running.process.send_signal(signal.SIGTERM)
            lines += sum(piece.count(b"\n") for piece in pieces)
        assert lines == 2_000_001
        assert running.process.wait(60) == 0


def test_a_query_without_end_does_not_keep_it(tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        query = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
        body = {"query": query, "context": {"sqlQueryId": "q"}}

        def post() -> None:
            while not answers or answers[-1].status_code == 409:  # a probe had the id
                answers.append(httpx.post(sql, json=body, timeout=None))

        sql, answers = f"{running.url}/druid/v2/sql", list[httpx.Response]()
        asker = threading.Thread(target=post)
        asker.start()
        same = {"query": "SELECT 1", "context": {"sqlQueryId": "q", "timeout": 1000}}
        until(lambda: httpx.post(sql, json=same).status_code == 409, "the query that runs")
        assert running.end() == 0
        asker.join()
    assert (answers[-1].status_code, answers[-1].json()["category"]) == (503, "SERVICE_UNAVAILABLE")
    assert "stopped" in running.lines[-1]


@pytest.mark.nightly("a statement that heeds nothing keeps a core for seconds")
def test_one_function_over_one_huge_value_keeps_nobody(tmp_path: Path) -> None:
    """It goes on when its time is over and when its asker has left; others are answered, and the process ends."""
    make_store(tmp_path / "store")
    with serving(tmp_path / "store") as running:
        sql = f"{running.url}/druid/v2/sql"

        def is_answered() -> bool:
            answer = httpx.post(
                sql, json={"query": "SELECT COUNT(*) AS n FROM flights"}, timeout=60
            )
            return bool(answer.json() == [{"n": ROWS}])

        body = {"query": STUBBORN, "context": {"timeout": 300}}
        answer = httpx.post(sql, json=body, timeout=60)
        assert (answer.status_code, answer.json()["category"]) == (504, "TIMEOUT")
        assert "took longer than 300 ms and has not ended since" in answer.json()["errorMessage"]
        assert is_answered()
        amid = (
            "SELECT CASE WHEN i < 999999 THEN i ELSE levenshtein(repeat('a', i), repeat('b', i)) END AS n "
            "FROM range(1000000) t(i)"
        )
        with httpx.stream("POST", sql, json={"query": amid}, timeout=60) as left:
            next(left.iter_bytes())
        assert is_answered()
        assert running.end() == 0


@pytest.mark.nightly("a statement that heeds nothing keeps a core for seconds")
@pytest.mark.slow
def test_nor_does_it_keep_a_cluster(tmp_path: Path) -> None:
    """The step goes on in a historical, which ends none the less when it is told to."""
    make_store(tmp_path / "store")
    roles = [f"--role={role}" for role in ("coordinator", "broker", "historical")]
    folder = f"--folder={tmp_path / 'h1'}"
    with serving(tmp_path / "store", *roles, folder, CARNAC_HISTORICAL_GRACE_MS="0") as running:
        sql = f"{running.url}/druid/v2/sql"
        count = {"query": "SELECT COUNT(*) AS n FROM flights"}
        until(lambda: httpx.post(sql, json=count, timeout=60).status_code == 200, "an answer")
        long = "levenshtein(repeat(carrier, 500000), repeat('b', 1000000))"
        body = {"query": f"SELECT max({long}) AS n FROM flights", "context": {"timeout": 500}}
        answer = httpx.post(sql, json=body, timeout=60)
        assert (answer.status_code, answer.json()["category"]) == (504, "TIMEOUT")
        assert httpx.post(sql, json=count, timeout=60).json() == [{"n": ROWS}]
        assert running.end() == 0


def test_what_is_no_role_is_said(tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    with serving(tmp_path / "store", "--role", "king") as running:
        assert running.process.wait(60) == 2


STARTS = """
import sys
import threading


class Heavy:
    names = {"pyspark", "py4j", "pandas", "numba", "polars", "duckdb", "sqlalchemy"}
    found = set()

    def find_spec(self, name, path=None, target=None):
        # what a thread loads beside the start, so that the first statement is fast, keeps nobody waiting
        if name in self.names and threading.current_thread() is threading.main_thread():
            self.found.add(name)


sys.meta_path.insert(0, Heavy())
from carnac.bootstrap.serving.process import ROLES, open_process
from carnac.config import Settings

process = open_process(ROLES, settings=Settings(store=sys.argv[1]), host="127.0.0.1", port=0)
process.start()
print(sorted(Heavy.found))
process.close()
"""


def test_it_starts_without_what_takes_long_to_load(tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    done = subprocess.run(
        [sys.executable, "-c", STARTS, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "[]\n"
