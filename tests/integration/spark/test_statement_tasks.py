"""Statements that are asked over HTTP and fetched later: a load on Spark, then its rows by two engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from carnac.api.admission import Admission
from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.services import Services
from carnac.api.sql.kept import StatementRows
from carnac.api.sql.selects import describe_by
from carnac.bootstrap.serving.broker import open_broker
from carnac.bootstrap.serving.overlord import make_routers
from carnac.bootstrap.store import open_files, open_records, open_store
from carnac.bootstrap.tasks import open_loop, open_tasks, run_task_attempt
from carnac.clock import RandomIds, StoreClock, SystemClock
from carnac.config import Settings
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import DeepStorage, IdSource
from carnac.spark.session import SparkHolder
from carnac.store.kept_rows import NeedsMore
from tests.support.tasks import FakeRunner
from tests.unit.api.conftest import InProcessClient

STATEMENTS = "/druid/v2/sql/statements"
LOAD = """REPLACE INTO edits OVERWRITE ALL SELECT TIME_PARSE(t) AS __time, upper(k) AS k, n FROM TABLE(EXTERN(
'{"type": "inline", "data": "t,k,n\\n2024-01-01,a,1\\n2024-01-02,b,2\\n2024-01-03,a,3\\n"}', '{"type": "csv"}'))
EXTEND (t VARCHAR, k VARCHAR, n BIGINT) PARTITIONED BY MONTH"""
QUERY = "SELECT k, SUM(n) AS n, MAX(__time) AS latest FROM edits WHERE n > ? GROUP BY k ORDER BY k"
PARAMETERS = [{"type": "BIGINT", "value": 1}]
Finish = Callable[[str], None]


class Lent(SparkPipeline):
    """A pipeline on the Spark of the whole run, which goes on when a store is closed."""

    def close(self) -> None:
        """Leave Spark as it is."""


@pytest.fixture
def served(
    tmp_path: Path, spark_holder: SparkHolder, spark: SparkSession
) -> Iterator[tuple[InProcessClient, Finish]]:
    """A process that is overlord and broker, and what runs the attempt of its one task."""
    del spark

    def lend(storage: DeepStorage, ids: IdSource) -> Lent:
        return Lent(output_url=storage.url, clock=SystemClock(), ids=ids, spark=spark_holder)

    settings = Settings(
        store=str(tmp_path / "store"), task_runner="in_process", query_log_limit_bytes=0
    )  # type: ignore[arg-type]
    open_store(create=True, settings=settings).close()
    with ExitStack() as steps:
        broker = steps.enter_context(open_broker(settings, StoreClock()))
        tasks = steps.enter_context(open_tasks(settings=settings, runners={}))
        records = open_records(settings=settings, clock=StoreClock())
        steps.callback(records.close)
        loop = open_loop(settings=settings, runners={"in_process": FakeRunner("in_process")})
        steps.callback(loop.close)
        services = Services(
            tasks=tasks,
            locks=cast("Any", None),
            loop=loop,
            compaction=cast("Any", None),
            supervisors=cast("Any", None),
            compaction_slots=1,
            admission=Admission(input_roots=[]),
            kept=StatementRows(open_files(records, settings)),
            describe=partial(describe_by, [broker.queries], RandomIds().new_id),
        )

        def finish(task_id: str) -> None:
            assert loop.run_round() == (task_id,)
            run_task_attempt(task_id, 1, settings=settings, pipeline=lend)

        yield InProcessClient(make_app(make_routers(services), hosts=hosts_of("one"))), finish


def ask(http: InProcessClient, query: str, **context: object) -> dict[str, Any]:
    parameters = PARAMETERS if "?" in query else []
    body = {
        "query": query,
        "parameters": parameters,
        "context": {"executionMode": "ASYNC", **context},
    }
    answer = http.post(STATEMENTS, json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_a_statement_loads_rows_and_others_fetch_them(
    served: tuple[InProcessClient, Finish],
) -> None:
    http, finish = served
    load = ask(http, LOAD)
    assert "schema" not in load
    finish(load["queryId"])
    told = http.get(f"{STATEMENTS}/{load['queryId']}").json()
    assert (told["state"], told["result"]["numTotalRows"]) == ("SUCCESS", 3)
    assert told["result"]["dataSource"] == "edits"
    for engine in ("native", "spark"):
        select = ask(http, QUERY, engine=engine)
        assert [(one["name"], one["type"]) for one in select["schema"]] == [
            ("k", "VARCHAR"), ("n", "BIGINT"), ("latest", "TIMESTAMP")
        ]  # fmt: skip
        running = http.get(f"{STATEMENTS}/{select['queryId']}").json()
        assert running == select
        finish(select["queryId"])
        found = http.get(f"{STATEMENTS}/{select['queryId']}").json()
        assert (found["schema"], found["result"]["numTotalRows"]) == (select["schema"], 2)
        rows = http.get(f"{STATEMENTS}/{select['queryId']}/results?resultFormat=array").json()
        assert rows == found["result"]["sampleRecords"]
        assert rows == [["A", 3, 1704240000000], ["B", 2, 1704153600000]]


def test_what_is_wrong_in_a_select_is_told_at_once_where_a_broker_is(
    served: tuple[InProcessClient, Finish],
) -> None:
    http, _ = served
    body = {"query": "SELECT k FROM nowhere", "context": {"executionMode": "ASYNC"}}
    answer = http.post(STATEMENTS, json=body)
    assert (answer.status_code, answer.json()["category"]) == (400, "INVALID_INPUT")
    assert answer.json()["errorMessage"].startswith("there is no datasource 'nowhere'")


def test_a_select_has_the_time_of_its_context(served: tuple[InProcessClient, Finish]) -> None:
    http, finish = served
    query = "SELECT count(*) FROM range(10000000) a, range(1000000) b"
    slow = ask(http, query, timeout=50)["queryId"]
    with pytest.raises(NeedsMore, match="took more than the 50 ms"):
        finish(slow)
    told = http.get(f"{STATEMENTS}/{slow}").json()
    assert told["state"] == "FAILED", "no other attempt would be faster"
