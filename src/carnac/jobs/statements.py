"""One SELECT statement on Spark: its tables are views on segment files, its rows come back as Arrow, piece by piece.

Each statement has a Spark session of its own, with settings and views that no other sees, over the one context that is
kept warm. An answer within `spark.driver.maxResultSize` (1 GiB unless set) is fetched by one job. Of a larger one rows
are packed into Arrow where they are and fetched partition by partition, so that this process holds a few pieces.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from carnac.core.time.intervals import IntervalSet
from carnac.errors import CarnacError, Invalid, Unavailable
from carnac.jobs.read_back import frame_of
from carnac.ports import Clock, SegmentInput
from carnac.spark.failures import of_spark
from carnac.spark.interrupts import hold_signals
from carnac.spark.progress import Phase, Watch
from carnac.spark.session import SparkHolder, end_session, own_session, reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from carnac.ports.distributed import SparkPlan, SparkTable

STATEMENT_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 16),
}
"""Settings on which the meaning of the SQL printed for Spark depends."""
_TOO_LARGE = "spark.driver.maxResultSize"
"""The setting that Spark's error names if an answer is larger than one job may bring."""
PIECE_ROWS = 1 << 16
PIECES_MAX = 4
"""Pieces that wait to be taken."""
WAIT_S = 0.1
"""Time between two checks whether the statement is to stop."""


def inputs_of(table: SparkTable) -> list[SegmentInput]:
    """Return the segments of a table with what is visible of each."""
    return [
        SegmentInput(
            segment=one.segment,
            visible=IntervalSet((one.segment.span,)) if one.clip is None else one.clip,
        )
        for one in table.slices
    ]


def run_statement(
    holder: SparkHolder,
    plan: SparkPlan,
    output_url: str,
    clock: Clock,
    stop: Callable[[], CarnacError | None],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a statement; a thread of its own asks Spark for them, so that any thread may take them.

    Raises:
        As `SparkPipeline.run_statement`.
    """
    run = _Run(holder, plan, output_url, clock, stop)
    thread = threading.Thread(target=run.work, name="carnac-spark-statement", daemon=True)
    thread.start()
    try:
        yield from run.taken()
    finally:
        run.is_left.set()


class _Run:
    """A statement that Spark runs."""

    def __init__(
        self,
        holder: SparkHolder,
        plan: SparkPlan,
        output_url: str,
        clock: Clock,
        stop: Callable[[], CarnacError | None],
    ) -> None:
        self._holder = holder
        self._plan = plan
        self._output_url = output_url
        self._clock = clock
        self._stop = stop
        self._pieces: queue.Queue[object] = queue.Queue(PIECES_MAX)
        self.is_left = threading.Event()

    def taken(self) -> Iterator[pa.RecordBatch]:
        """Yield what comes."""
        while True:
            try:
                found = self._pieces.get(timeout=WAIT_S)
            except queue.Empty:
                verdict = self._stop()
                if verdict is not None:
                    raise verdict from None
                continue
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            yield found

    def work(self) -> None:
        """Run it, and put what comes; once more if its JVM was ended for another's sake before anything came."""
        jvms_ended = self._holder.jvms_ended
        has_come = False
        try:
            for piece in self._rows():
                has_come = True
                if not self._put(piece):
                    return
            self._put(None)
        except Unavailable as error:
            if has_come or self._holder.jvms_ended == jvms_ended or self._verdict():
                self._put(error)
            else:
                self.work()
        except BaseException as error:
            self._put(error)

    def _put(self, piece: object) -> bool:
        while not self.is_left.is_set():
            with suppress(queue.Full):
                self._pieces.put(piece, timeout=WAIT_S)
                return True
        return False

    def _verdict(self) -> CarnacError | None:
        if self.is_left.is_set():
            return Unavailable("no client waits for the rows any more")
        return self._stop()

    def _rows(self) -> Iterator[pa.RecordBatch]:
        from pyspark.errors import PySparkException

        started = self._holder.session()
        try:
            session = own_session(started, STATEMENT_SETTINGS)
        except Exception as error:
            raise of_spark(error, self._holder.keep_log) from error
        phase = Phase(name="statement", total=None, stop_when=lambda _: self._verdict())
        watch = Watch(session, phase, self._clock, None)
        with hold_signals(self._holder.end_jvm) as held:
            try:
                with watch.follow(held):
                    yield from _pieces(self._frame(session))
            except (GeneratorExit, CarnacError):
                raise
            except Exception as error:
                verdict = watch.verdict or self._verdict() or held.failure
                if verdict is not None:
                    self._holder.wait_for_cores(watch.is_busy)
                    raise verdict from error
                if isinstance(error, PySparkException) and is_of_statement(error):
                    raise Invalid(f"Spark cannot run the statement: {reason_of(error)}") from error
                raise of_spark(error, self._holder.keep_log) from error
            finally:
                for name in [*(one.view for one in self._plan.scans), *self._plan.tables]:
                    with suppress(Exception):
                        session.catalog.dropTempView(name)
                end_session(session)

    def _frame(self, session: SparkSession) -> DataFrame:
        for one in self._plan.scans:
            frame = frame_of(session, inputs_of(one), self._output_url, columns=one.columns)
            frame.createOrReplaceTempView(one.view)
        for name, table in self._plan.tables.items():
            session.createDataFrame(table).createOrReplaceTempView(name)
        return session.sql(self._plan.sql)


def _pieces(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    try:
        table = frame.toArrow()
    except Exception as error:
        if _TOO_LARGE not in str(error):
            raise
    else:
        yield from table.to_batches(max_chunksize=PIECE_ROWS)
        return
    yield from _packed(frame)


def _packed(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    packed = frame.mapInArrow(_pack, "piece binary")
    rows = packed.toLocalIterator()
    for row in rows:
        with closing(pa.ipc.open_stream(row.piece)) as reader:
            yield from reader


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make one value of each batch: a stream of Arrow. Runs in Spark's tasks."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        packed = pa.array([sink.getvalue().to_pybytes()], type=pa.binary())
        yield pa.RecordBatch.from_arrays([packed], names=["piece"])


def is_of_statement(error: Exception) -> bool:
    """Whether an error is about the statement or the values it meets, not about Spark."""
    from pyspark import errors

    return isinstance(
        error,
        errors.AnalysisException
        | errors.ParseException
        | errors.ArithmeticException
        | errors.NumberFormatException
        | errors.DateTimeException
        | errors.ArrayIndexOutOfBoundsException
        | errors.SparkRuntimeException,
    )
