"""Queries at a constant rate, each with the time it was asked at, what came back, and which revision it was of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import httpx

if TYPE_CHECKING:
    from carnac.ports import Clock

RATE_PER_S = 50
ASKERS = 8
"""Threads that ask: as many questions may be open at a time."""
TIMEOUT_S = 30.0
QUESTIONS = (
    "SELECT count(*) AS flights, sum(distance) AS miles, min(__time) AS first, max(__time) AS last FROM flights",
    "SELECT origin, count(*) AS flights, sum(air_time) AS minutes FROM flights GROUP BY origin ORDER BY origin",
    "SELECT carrier, avg(dep_delay) AS delay, count(*) AS flights FROM flights "
    "WHERE __time >= TIMESTAMP '2013-03-01' AND __time < TIMESTAMP '2013-06-01' GROUP BY carrier ORDER BY carrier",
)
"""Asked in turns."""

Rows: TypeAlias = Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question and its answer.

    Attributes:
        at_ms: Time of the question, epoch milliseconds.
        took_ms: Time until the whole answer was there.
        question: Index into `QUESTIONS`.
        revision: Revision that the answer names; None: the question failed.
        is_complete: Whether the answer calls itself complete.
        rows: Rows of the answer.
        error: Why the question failed, in a sentence; empty if it did not.
    """

    at_ms: int
    took_ms: int
    question: int
    revision: int | None = None
    is_complete: bool = False
    rows: Rows = ()
    error: str = ""


class Load:
    """Asks a broker `RATE_PER_S` times a second until it is stopped. A late question is asked as soon as possible."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._clock = clock
        self._client = httpx.Client(
            base_url=url, timeout=TIMEOUT_S, limits=httpx.Limits(max_connections=ASKERS)
        )
        self._samples: list[Sample] = []
        self._mutex = threading.Lock()
        self._next = 0
        self._stop = threading.Event()
        self._started_ms = self._clock.now_ms()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(ASKERS)]

    def start(self) -> None:
        """Begin to ask."""
        self._started_ms = self._clock.now_ms()
        for thread in self._threads:
            thread.start()

    def stop(self) -> Sequence[Sample]:
        """Stop; return all that was asked, in the order of asking."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._client.close()
        return sorted(self._samples, key=lambda sample: sample.at_ms)

    def _ask(self) -> None:
        while True:
            with self._mutex:
                number = self._next
                self._next += 1
            due_ms = self._started_ms + number * 1000 // RATE_PER_S
            if self._stop.wait(max(0, due_ms - self._clock.now_ms()) / 1000):
                return
            self._samples.append(self._sample(number % len(QUESTIONS)))

    def _sample(self, question: int) -> Sample:
        at_ms = self._clock.now_ms()
        body = {"query": QUESTIONS[question], "resultFormat": "array"}
        try:
            answer = self._client.post("/druid/v2/sql", json=body)
            took_ms = self._clock.now_ms() - at_ms
            if answer.status_code != httpx.codes.OK:
                error = f"status {answer.status_code}: {answer.text[:300]}"
                return Sample(at_ms=at_ms, took_ms=took_ms, question=question, error=error)
            return Sample(
                at_ms=at_ms,
                took_ms=took_ms,
                question=question,
                revision=int(answer.headers["X-Carnac-Revision"]),
                is_complete=answer.headers["X-Carnac-Complete"] == "true",
                rows=answer.json(),
            )
        except (httpx.HTTPError, ValueError, KeyError) as error:
            took_ms = self._clock.now_ms() - at_ms
            said = f"{type(error).__name__}: {error}"
            return Sample(at_ms=at_ms, took_ms=took_ms, question=question, error=said)
