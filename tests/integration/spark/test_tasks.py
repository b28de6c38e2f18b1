"""Tasks on Spark, from their submission to what a query sees: Druid's own specs, run by attempts under locks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.store import open_store
from carnac.bootstrap.tasks import open_loop, open_tasks, run_task_attempt
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.core.tasks.model import TaskState
from carnac.errors import Invalid, Revoked
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import ChunkLayout, DeepStorage, IdSource, JobProgress, JobResult
from carnac.spark.progress import OnProgress, Phase
from carnac.spark.session import SparkHolder
from carnac.spark.tasks import run_tasks
from carnac.specs.ingest.spec import IngestSpec
from tests.support.tasks import FakeRunner


class Lent(SparkPipeline):
    """A pipeline on the Spark of the whole run, which goes on when a store is closed."""

    def close(self) -> None:
        """Leave Spark as it is."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    chosen = Settings(store=str(tmp_path / "store"), task_runner="in_process")
    open_store(create=True, settings=chosen).close()
    return chosen


def index_task(*hours: int) -> dict[str, Any]:
    rows = [{"time": f"2015-09-12T{hour:02d}:00:00Z", "page": f"p{hour}"} for hour in hours]
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {
                "dataSource": "edits",
                "timestampSpec": {"column": "time", "format": "iso"},
                "dimensionsSpec": {"dimensions": ["page"]},
                "granularitySpec": {"segmentGranularity": "DAY", "rollup": False},
            },
            "ioConfig": {
                "type": "index_parallel",
                "inputSource": {"type": "inline", "data": "\n".join(map(json.dumps, rows))},
                "inputFormat": {"type": "json"},
                "appendToExisting": True,
            },
        },
    }


def test_druids_tasks_ingest_and_compact_and_ours_delete(
    settings: Settings, spark_holder: SparkHolder
) -> None:
    def lend(storage: DeepStorage, ids: IdSource) -> Lent:
        return Lent(output_url=storage.url, clock=SystemClock(), ids=ids, spark=spark_holder)

    loop = open_loop(settings=settings, runners={"in_process": FakeRunner("in_process")})
    with open_tasks(settings=settings, runners={}) as tasks:

        def run(payload: Mapping[str, object]) -> Mapping[str, Any]:
            task_id = tasks.submit(payload).task_id
            assert loop.run_round() == (task_id,)
            report = run_task_attempt(task_id, 1, settings=settings, pipeline=lend)
            assert tasks.get(task_id).state is TaskState.SUCCEEDED
            assert tasks.report(task_id) == json.loads(json.dumps(report))
            return report

        assert run(index_task(1, 2))["rowStats"]["written"] == 2
        run(index_task(3))
        compacted = run(
            {
                "type": "compact",
                "dataSource": "edits",
                "ioConfig": {
                    "type": "compact",
                    "inputSpec": {"type": "interval", "interval": "2015-09-12/2015-09-13"},
                },
            }
        )
        assert compacted["groups"][0]["rowsOut"] == 3
        assert (
            run({"type": "delete", "dataSource": "edits", "where": "page = 'p2'"})["rowsDeleted"]
            == 1
        )
    loop.close()
    with open_store(settings=settings) as store:
        found = store.sql("SELECT page FROM edits ORDER BY page").rows()
        assert [row["page"] for row in found] == ["p1", "p3"]
        assert [str(commit.kind) for commit in store.log()] == [
            "delete", "rewrite", "append", "append",
        ]  # fmt: skip
        assert len(store.segments("edits")) == 1


def test_a_task_fails_for_a_column_that_no_row_has_unless_its_context_takes_it_as_null(
    settings: Settings, spark_holder: SparkHolder
) -> None:
    def lend(storage: DeepStorage, ids: IdSource) -> Lent:
        return Lent(output_url=storage.url, clock=SystemClock(), ids=ids, spark=spark_holder)

    payload = index_task(1)
    payload["spec"]["dataSchema"]["dimensionsSpec"] = {"dimensions": ["pagee"]}
    loop = open_loop(settings=settings, runners={"in_process": FakeRunner("in_process")})
    with open_tasks(settings=settings, runners={}) as tasks:
        task_id = tasks.submit(payload).task_id
        loop.run_round()
        with pytest.raises(Invalid):
            run_task_attempt(task_id, 1, settings=settings, pipeline=lend)
        failed = tasks.get(task_id)
        assert failed.state is TaskState.FAILED
        assert failed.error is not None
        assert "'pagee' (did you mean 'page'?)" in failed.error
        task_id = tasks.submit({**payload, "context": {"allowMissing": True}}).task_id
        loop.run_round()
        report = run_task_attempt(task_id, 1, settings=settings, pipeline=lend)
        assert report["notes"] == [
            "no row has the declared column 'pagee' (did you mean 'page'?); it is null"
        ]
    loop.close()


class Cancelled(Lent):
    """Its task is cancelled when its job has begun; the job does not end by itself."""

    cancel: Callable[[], object]

    def run_ingest(
        self, spec: IngestSpec, layout: ChunkLayout, *, on_progress: OnProgress, **options: Any
    ) -> JobResult:
        """Run a job that takes a minute in place of the ingestion, and tells of itself as all do."""

        def tell(progress: JobProgress) -> None:
            self.cancel()
            on_progress(progress)

        run_tasks(
            self._context.holder,
            lambda _task, _attempt: threading.Event().wait(60),
            [0],
            phase=Phase(name="sleeps", total=1),
            clock=SystemClock(),
            on_progress=tell,
        )
        raise AssertionError("the job was not ended")


def test_an_attempt_in_this_process_ends_with_what_spark_does_for_it(
    settings: Settings, spark_holder: SparkHolder
) -> None:
    loop = open_loop(settings=settings, runners={"in_process": FakeRunner("in_process")})
    with open_tasks(settings=settings, runners={}) as tasks:
        task_id = tasks.submit(index_task(1)).task_id
        loop.run_round()

        def lend(storage: DeepStorage, ids: IdSource) -> Cancelled:
            made = Cancelled(
                output_url=storage.url, clock=SystemClock(), ids=ids, spark=spark_holder
            )
            made.cancel = lambda: tasks.cancel(task_id)
            return made

        started_ms = SystemClock().now_ms()
        with pytest.raises(Revoked, match="was cancelled or given up"):
            run_task_attempt(task_id, 1, settings=settings, pipeline=lend)
        assert SystemClock().now_ms() - started_ms < 45_000, "before the job's own end"
        assert tasks.get(task_id).state is TaskState.CANCELLED
    loop.close()
    tracker = spark_holder.session().sparkContext.statusTracker()
    assert list(tracker.getActiveJobsIds()) == []
