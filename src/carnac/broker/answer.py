"""An answer that streams: rows as they come, counted and digested on their way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.ports.answers import AnswerFacts, Receipt, Statement
from carnac.rows.answer_digest import AnswerMeter

if TYPE_CHECKING:
    from carnac.broker.execution import Execution

End = Callable[[BaseException | None, AnswerMeter], BaseException | None]
"""Called once, with what ended the answer (None: all of it was read); returns what to raise in its stead."""


class BrokerAnswer:
    """The answer to a statement, which streams. To be closed; `close` may be called by any thread.

    Attributes:
        schema: The `pyarrow.Schema` of the rows.
        facts: The facts of the answer.
    """

    def __init__(
        self, execution: Execution, facts: AnswerFacts, schema: object, on_end: End
    ) -> None:
        self.facts = facts
        self.schema = schema
        self._execution = execution
        self._on_end = on_end
        self._meter = AnswerMeter()
        self._lock = threading.Lock()
        self._is_over = False

    def batches(self) -> Iterator[object]:
        """Yield `pyarrow.RecordBatch`es, once; closed at the end. Raises the errors of `Broker.run`."""
        try:
            for batch in self._execution.batches():
                self._meter.add(batch)
                yield batch
            self.facts.note(self._execution.reach)
            self.facts.receipt = replace(
                self.facts.receipt, rows=self._meter.rows, rows_digest=self._meter.digest
            )
        except BaseException as error:
            told = self._end(error)
            if told is None or told is error:
                raise
            raise told from error
        self._end(None)

    def close(self) -> None:
        """Stop what still runs, and let go of the revision. Idempotent."""
        self._end(GeneratorExit())

    def _end(self, error: BaseException | None) -> BaseException | None:
        with self._lock:
            is_first, self._is_over = not self._is_over, True
        if not is_first:
            return error
        try:
            self._execution.close()
        finally:
            told = self._on_end(error, self._meter)
        return told


def facts_of(statement: Statement, execution: Execution, store_id: str) -> AnswerFacts:
    """Return what an answer says of itself before it is read."""
    basis = execution.basis
    parameters = statement.parameters
    stated, etag = basis.digests(parameters) if parameters else basis.plain_digests
    facts = AnswerFacts(
        query_id=statement.query_id,
        revision=execution.revision,
        segments_expected=basis.segments_read,
        engine=execution.engine,
        why=execution.why,
        etag=f"{etag}-{statement.query_id}" if basis.is_volatile else etag,
        receipt=Receipt(
            store_id=store_id,
            revision=execution.revision,
            statement_digest=stated,
            segments_digest=basis.segments_digest,
        ),
    )
    facts.note(execution.reach)
    return facts


def close_quietly(execution: Execution) -> None:
    """Close an execution amid a failure, which is what counts."""
    with suppress(Exception):
        execution.close()
