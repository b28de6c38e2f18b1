"""A broker: statements wait for their turn, are planned on one revision, and their rows are handed over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.broker.answer import BrokerAnswer, close_quietly, facts_of
from carnac.broker.record import Outcome, QueryRecord, outcome_of, said
from carnac.core.answers.admission import Request
from carnac.core.answers.receipts import names_etag
from carnac.errors import Cancelled, Conflict, Invalid, Unavailable
from carnac.ports.answers import Engine
from carnac.ports.distributed import TooMuch
from carnac.ports.loops import safely

if TYPE_CHECKING:
    from carnac.broker.execution import Execution, Executor
    from carnac.broker.waiting import QueryQueue
    from carnac.ports import Clock
    from carnac.ports.answers import AnswerFacts, Statement
    from carnac.rows.answer_digest import AnswerMeter

Listener = Callable[[QueryRecord], None]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Asked:
    """A statement that waits or runs."""

    record: QueryRecord
    started_at_ms: int | None = None
    until_ms: int | None = None
    execution: Execution | None = None
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    is_left: bool = False


class Broker:
    """Answers statements. Safe for threads. A statement waits in a fair queue while too many run.

    Args:
        store_id: Store whose log receipts name.
        executor: Plans and runs the statements.
        queue: Where statements wait for their turn.
        timeout_ms: Limit of a statement that does not say its own; 0: no limit.
        spark: Plans and runs statements that are for Spark; None: there are none.
        is_spark_auto: Whether statements of which too much would come together are for Spark, too.
        listeners: Functions that are notified of each statement when it is over.
    """

    def __init__(
        self,
        *,
        store_id: str,
        executor: Executor,
        queue: QueryQueue,
        clock: Clock,
        timeout_ms: int,
        spark: Executor | None = None,
        is_spark_auto: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._store_id = store_id
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._spark = spark
        self._is_spark_auto = is_spark_auto
        self._listeners = tuple(listeners)
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}

    def run(self, statement: Statement, *, if_none_match: str | None = None) -> BrokerAnswer | None:
        """Run a statement; None: the answer has an ETag that was given, and nothing was run.

        Args:
            if_none_match: ETags as HTTP writes them, or one without quotes.

        Raises:
            Invalid: It is not one SELECT statement, does not parse, or names what a query may not reach.
            NotFound: It names what is not in the revision; or there is no such revision.
            Conflict: A statement of that id runs or waits already.
            Busy: The queue is full; ask again after `Busy.retry_after_s`.
            TimedOut: It took too long, waiting included.
            Cancelled: Somebody asked for that.
            Unavailable: It needs more memory than there is, or segments that it needs cannot be read from any server.
            Corrupt: A segment file is missing or damaged.
        """
        asked = self._begin(statement)
        try:
            execution = self._open(asked)
            facts = asked.record.facts = facts_of(statement, execution, self._store_id)
            if (
                if_none_match is not None
                and not execution.basis.is_volatile
                and names_etag(if_none_match, facts.etag)
            ):
                execution.close()
                self._end(asked, Outcome.NOT_MODIFIED)
                return None
            execution, schema = self._start(asked, execution)
            if (execution.revision, execution.engine) == (facts.revision, facts.engine):
                facts.note(execution.reach)
            else:
                facts = asked.record.facts = facts_of(statement, execution, self._store_id)
        except BaseException as error:
            self._break_off(asked, error)
            raise

        def end(error: BaseException | None, meter: AnswerMeter) -> BaseException | None:
            asked.record.rows, asked.record.size_bytes = meter.rows, meter.size_bytes
            if error is None:
                self._end(asked, Outcome.OK)
                return None
            return self._fail(asked, error)

        return BrokerAnswer(execution, facts, schema, end)

    @contextmanager
    def looking(self, statement: Statement) -> Iterator[tuple[AnswerFacts, Execution]]:
        """Plan a statement and run nothing of it; give the facts of its answer, and the execution with its columns.

        Listeners are notified only if it fails.

        Raises:
            CarnacError: As `run`.
        """
        asked = self._begin(statement)
        try:
            execution = self._open(asked)
            yield facts_of(statement, execution, self._store_id), execution
            execution.close()
        except BaseException as error:
            self._break_off(asked, error)
            raise
        self._leave(asked)

    def limit_ms(self, statement: Statement) -> int:
        """Return how long a statement may take, waiting included; 0: as long as it does."""
        return self._timeout_ms if statement.timeout_ms is None else statement.timeout_ms

    def cancel(self, query_id: str, *, is_left: bool = False) -> bool:
        """Stop a statement; False: none of that id runs or waits here.

        Args:
            is_left: Its asker has gone, and nobody waits for it any more.
        """
        with self._lock:
            asked = self._asked.get(query_id)
        if asked is None:
            return False
        asked.is_left = is_left and not asked.is_cancelled.is_set()
        asked.is_cancelled.set()
        self._queue.cancel(query_id)
        execution = asked.execution
        if execution is not None:
            execution.cancel()
        return True

    def close(self) -> None:
        """Stop all statements. Idempotent."""
        with self._lock:
            ids = list(self._asked)
        for query_id in ids:
            self.cancel(query_id)

    def _begin(self, statement: Statement) -> _Asked:
        asked = _Asked(QueryRecord(statement=statement, asked_at_ms=self._clock.now_ms()))
        with self._lock:
            if statement.query_id in self._asked:
                raise Conflict(
                    f"a query with the id '{statement.query_id}' runs or waits already; give it another id, or none",
                    query=statement.query_id,
                )
            self._asked[statement.query_id] = asked
        return asked

    def _open(self, asked: _Asked) -> Execution:
        """Wait for the statement's turn, and plan it."""
        statement = asked.record.statement
        timeout_ms = self.limit_ms(statement)
        self._queue.enter(
            Request(
                query_id=statement.query_id,
                client=statement.client.name,
                priority=statement.priority,
                lane=statement.lane,
            ),
            timeout_ms=timeout_ms,
        )
        asked.started_at_ms = self._clock.now_ms()
        asked.record.waited_ms = max(0, asked.started_at_ms - asked.record.asked_at_ms)
        self._check_cancelled(asked)
        asked.until_ms = asked.record.asked_at_ms + timeout_ms if timeout_ms else None
        if statement.engine is Engine.SPARK:
            return self._open_with(self._spark, asked)
        try:
            return self._open_with(self._executor, asked)
        except TooMuch as error:
            return self._open_beyond(asked, error)

    def _open_with(self, executor: Executor | None, asked: _Asked) -> Execution:
        if executor is None:
            raise Invalid(
                "no statement is run on Spark here; leave engine out, or set query_spark to 'asked' or 'auto'"
            )
        left_ms = 0
        if asked.until_ms is not None:
            left_ms = max(1, asked.until_ms - self._clock.now_ms())
        asked.execution = executor.open(asked.record.statement, timeout_ms=left_ms)
        self._check_cancelled(asked)
        return asked.execution

    def _open_beyond(self, asked: _Asked, error: TooMuch) -> Execution:
        """Plan on Spark what is too much for a broker, if that is wanted."""
        if self._spark is None or not self._is_spark_auto:
            raise error
        return self._open_with(self._spark, asked)

    def _start(self, asked: _Asked, execution: Execution) -> tuple[Execution, object]:
        """Start a statement, on Spark if too much of it comes together; return what runs it, and its schema."""
        try:
            return execution, execution.start()
        except TooMuch as error:
            found = self._open_beyond(asked, error)
            close_quietly(execution)
            return found, found.start()

    def _check_cancelled(self, asked: _Asked) -> None:
        if asked.is_cancelled.is_set():
            raise _cancelled(asked)

    def _break_off(self, asked: _Asked, error: BaseException) -> None:
        """End a statement by an error before there is an answer, and raise what it means if that is another one."""
        if asked.execution is not None:
            close_quietly(asked.execution)
        told = self._fail(asked, error)
        if told is not error:
            raise told from error

    def _fail(self, asked: _Asked, error: BaseException) -> BaseException:
        """End a statement by an error; return what to raise."""
        if isinstance(error, Unavailable) and asked.is_cancelled.is_set():
            error = error if isinstance(error, Cancelled) else _cancelled(asked)
        if asked.is_left and isinstance(error, Cancelled):
            self._end(asked, Outcome.ABANDONED)
            return error
        asked.record.error = said(error)
        self._end(asked, outcome_of(error))
        return error

    def _end(self, asked: _Asked, outcome: Outcome) -> None:
        record, now_ms = asked.record, self._clock.now_ms()
        record.outcome = outcome
        record.duration_ms = max(0, now_ms - record.asked_at_ms)
        self._leave(asked)
        for listener in self._listeners:
            safely(_log, "noting a query", lambda tell=listener: tell(record))  # type: ignore[misc]

    def _leave(self, asked: _Asked) -> None:
        query_id, now_ms = asked.record.statement.query_id, self._clock.now_ms()
        with self._lock:
            self._asked.pop(query_id, None)
        ran_ms = None if asked.started_at_ms is None else max(0, now_ms - asked.started_at_ms)
        self._queue.leave(query_id, ran_ms=ran_ms)


def _cancelled(asked: _Asked) -> Cancelled:
    query_id = asked.record.statement.query_id
    return Cancelled(f"query '{query_id}' was cancelled", query=query_id)
