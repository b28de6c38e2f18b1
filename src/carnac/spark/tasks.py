"""Run a Python function over a list of tasks on Spark: one Spark task for each, in the given order.

Spark decides where and when, and tries again what died; the function moves the bytes by itself. The tasks are an RDD,
which needs no plan; Spark Connect has none, so there they are a DataFrame (`range` and `mapInArrow`). A function must
give the same result under retry and under speculative execution: `attempt` is another number at every try, for the
names of files.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from carnac.errors import Unavailable
from carnac.ports import Clock
from carnac.spark.failures import (
    TaskFailure,
    dump_failure,
    load_failure,
    may_retry,
    of_spark,
    of_task,
)
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import OnProgress, Phase, Tally, Watch, classic_context
from carnac.spark.session import SparkHolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

RESULT_SCHEMA = "task long, failure string, result binary"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a task, as the function sees it.

    Attributes:
        number: Another one for every try within one Spark application.
    """

    number: int
    tally: Tally

    def count(self, *, rows: int = 0, rejected: int = 0) -> None:
        """Add to what the progress shows."""
        self.tally.add(rows=rows, rejected=rejected)


Work = Callable[[T, Attempt], R]


def run_tasks(
    holder: SparkHolder,
    work: Work[T, R],
    tasks: Sequence[T],
    *,
    phase: Phase,
    clock: Clock,
    on_progress: OnProgress | None = None,
) -> list[R]:
    """Return `work(task, attempt)` of every task, in order.

    Raises:
        CarnacError: As a task raised it; the other tasks are cancelled.
        Unavailable: Spark failed, or a worker died too often.
    """
    if not tasks:
        return []
    session = holder.session()
    packed = [zlib.compress(pickle.dumps(task), 1) for task in tasks]
    with hold_signals(holder.end_jvm) as held:
        try:
            watch = Watch(session, phase, clock, on_progress)
            context = classic_context(session)
            if context is None:
                job: Any = batches_of(
                    session, list(enumerate(packed)), _runner(work, watch.tally), RESULT_SCHEMA
                )
            else:
                numbered = context.parallelize(list(enumerate(packed)), len(packed))
                job = numbered.mapPartitions(_rdd_runner(work, watch.tally))
        except Exception as error:
            raise held.failure or of_spark(error, holder.keep_log) from error
        rows = collect(holder, job, watch)
    return [cast("R", pickle.loads(row)) for row in _in_order(rows, len(tasks))]  # noqa: S301


def collect(holder: SparkHolder, job: Any, watch: Watch) -> list[Any]:
    """Return the rows of a DataFrame or an RDD of `RESULT_SCHEMA`, watched.

    Raises:
        CarnacError: As a task returned or raised it, or as the phase stops with it.
    """
    with hold_signals(holder.end_jvm) as held:
        try:
            with watch.follow(held):
                rows: list[Any] = job.collect()
        except Exception as error:
            raise watch.verdict or held.failure or of_spark(error, holder.keep_log) from error
    failures = [load_failure(row["failure"]) for row in rows if row["failure"] is not None]
    verdict = watch.verdict or next(iter(failures), None)
    if verdict is not None:
        raise verdict
    return rows


def _in_order(rows: Sequence[Any], count: int) -> Iterator[bytes]:
    by_task = {row["task"]: row["result"] for row in rows}
    if len(by_task) != count:
        raise Unavailable(f"Spark returned {len(by_task)} results of {count} tasks; run it again")
    for index in range(count):
        yield by_task[index]


def batches_of(
    session: SparkSession,
    tasks: Sequence[T],
    read: Callable[[T], Iterable[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Return a DataFrame of the batches that `read` gives of each task; one partition is one task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                try:
                    yield from read(tasks[index])
                except TaskFailure:
                    raise
                except Exception as error:
                    raise TaskFailure(of_task(error)) from error

    return session.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema)


def _runner(
    work: Work[T, R], tally: Tally
) -> Callable[[tuple[int, bytes]], Iterator[pa.RecordBatch]]:
    """Return what gives the result of a numbered task, in one row of `RESULT_SCHEMA`."""

    def run(numbered: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
        index, packed = numbered
        task = pickle.loads(zlib.decompress(packed))  # noqa: S301 - our own bytes
        yield result_batch(index, *guarded(work, task, tally))

    return run


def _rdd_runner(
    work: Work[T, R], tally: Tally
) -> Callable[[Iterable[tuple[int, bytes]]], Iterable[dict[str, Any]]]:
    """Return what Spark calls for each partition of an RDD of numbered tasks."""

    def run(numbered: Iterable[tuple[int, bytes]]) -> Iterable[dict[str, Any]]:
        for index, packed in numbered:
            task = pickle.loads(zlib.decompress(packed))  # noqa: S301 - our own bytes
            failure, result = guarded(work, task, tally)
            yield {"task": index, "failure": failure, "result": result}

    return run


def guarded(work: Work[T, R], task: T, tally: Tally) -> tuple[str | None, bytes | None]:
    """Return (None, pickled result), or (failure, None) if trying again cannot help.

    Raises:
        TaskFailure: Trying again may help.
    """
    attempt = Attempt(attempt_number(), tally)
    try:
        return None, pickle.dumps(work(task, attempt))
    except Exception as error:
        failure = of_task(error)
        if may_retry(failure):
            raise TaskFailure(failure) from error
        text = dump_failure(failure)
        tally.add(failure=text)
        return text, None


def attempt_number() -> int:
    """Return Spark's number of this try at this task; 0 outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())


def result_batch(index: int, failure: str | None, result: bytes | None) -> pa.RecordBatch:
    """Return one row of `RESULT_SCHEMA`."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array([index], pa.int64()),
            pa.array([failure], pa.string()),
            pa.array([result], pa.binary()),
        ],
        names=["task", "failure", "result"],
    )
