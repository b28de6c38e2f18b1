"""Answers that are on their way, stopped when nobody waits for them any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.errors import Cancelled
from carnac.ports.threads import GRACE_MS

if TYPE_CHECKING:
    from carnac.broker import Broker
    from carnac.broker.answer import BrokerAnswer
    from carnac.ports import Clock
    from carnac.ports.answers import Statement


@dataclass(eq=False)
class Call:
    """A statement that is being answered.

    Attributes:
        until_ms: When a client that does not read loses its answer; None: never.
        answer: None: it waits for its turn, or is planned.
    """

    query_id: str
    is_abandoned: Callable[[], bool]
    until_ms: int | None
    answer: BrokerAnswer | None = None
    is_stopped: bool = False


class Calls:
    """Statements that are being answered. Safe for threads."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._mutex = threading.Lock()
        self._calls: set[Call] = set()

    def run(
        self, statement: Statement, is_abandoned: Callable[[], bool]
    ) -> tuple[Call, BrokerAnswer]:
        """Run a statement; `is_abandoned` is asked until `end`.

        Raises:
            CarnacError: As `Broker.run`.
        """
        limit_ms = self._broker.limit_ms(statement)
        until_ms = self._clock.now_ms() + limit_ms + GRACE_MS if limit_ms else None
        call = Call(statement.query_id, is_abandoned, until_ms)
        with self._mutex:
            self._calls.add(call)
        try:
            answer = self._broker.run(statement)
            if answer is None:
                raise Cancelled("the statement was not run; ask again")
        except BaseException:
            self.end(call)
            raise
        with self._mutex:
            call.answer, is_stopped = answer, call.is_stopped
        if is_stopped:
            self.end(call)
            raise Cancelled("no client waits for the answer any more")
        return call, answer

    def end(self, call: Call) -> None:
        """Let go of what a call has. Idempotent."""
        with self._mutex:  # a call does not end while `stop_abandoned` asks it
            self._calls.discard(call)
        if call.answer is not None:
            call.answer.close()

    def stop_abandoned(self) -> None:
        """Stop the statements of clients that have gone, or have not read their rows in time."""
        now_ms = self._clock.now_ms()
        with self._mutex:
            gone = [
                call
                for call in self._calls
                if not call.is_stopped
                and (call.is_abandoned() or (call.until_ms is not None and now_ms > call.until_ms))
            ]
            for call in gone:
                call.is_stopped = True
        for call in gone:
            self._broker.cancel(call.query_id, is_left=True)
            if call.answer is not None:
                call.answer.close()

    def stop(self) -> None:
        """Stop all of them: their clients are told so."""
        with self._mutex:
            ids = [call.query_id for call in self._calls]
        for query_id in ids:
            self._broker.cancel(query_id)
