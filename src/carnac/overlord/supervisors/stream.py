"""Offsets of the streams of supervisors: Kafka is asked on request, and its answer is kept for some seconds."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from carnac.core.streams.partitions import Bounds, Partition
from carnac.errors import CarnacError, Unavailable
from carnac.kafka.client import KafkaClient
from carnac.ports import Clock
from carnac.specs.supervisors.kafka import KafkaSupervisor

KEPT_MS = 3_000
"""How old an answer may be."""
LISTED_KEPT_MS = 30_000
"""How old it may be in a list, where many are asked for."""
LISTED_WAIT_MS = 10_000
"""How long a list waits for Kafka; of streams that are not asked by then, it tells what is known."""
KNOWN_MAX = 1_000
"""Streams that are remembered, those of earlier specs among them."""
TIMEOUT_S = 3.0
"""A person waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The offsets of a stream when Kafka was asked.

    Attributes:
        error: Reason why Kafka could not be asked; then the offsets are those of the last time.
    """

    bounds: Mapping[Partition, Bounds] = field(default_factory=dict)
    asked_at_ms: int = 0
    error: str | None = None


class Streams:
    """The streams of a store's supervisors, by the number of their spec. Safe for many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._known: dict[int, StreamState] = {}
        self._silent: dict[str, StreamState] = {}

    def ask(
        self, number: int, supervisor: KafkaSupervisor, *, kept_ms: int = KEPT_MS
    ) -> StreamState:
        """Return what Kafka says of a stream now, or said some seconds ago.

        Args:
            kept_ms: How old an answer may be. That a Kafka did not answer for one stream counts for all that it has.
        """
        now_ms = self._clock.now_ms()
        with self._mutex:  # Kafka is asked by one at a time: each would wait for it as long
            known = self._known.get(number, StreamState())
            if 0 <= now_ms - known.asked_at_ms < kept_ms:
                return known
            connection = json.dumps(dict(supervisor.properties), sort_keys=True)
            silent = self._silent.get(connection, StreamState())
            if 0 <= self._clock.now_ms() - silent.asked_at_ms < kept_ms:
                found = replace(known, asked_at_ms=silent.asked_at_ms, error=silent.error)
            else:
                found, is_silent = self._ask(supervisor, known)
                self._silent = {connection: found} if is_silent else {}
            if len(self._known) >= KNOWN_MAX:
                self._known = {}
            self._known = {**self._known, number: found}
            return found

    def known(self, number: int) -> StreamState:
        """Return what Kafka said last, without asking."""
        return self._known.get(number, StreamState())

    def _ask(self, supervisor: KafkaSupervisor, known: StreamState) -> tuple[StreamState, bool]:
        """Return what Kafka says, and whether it does not answer at all."""
        is_silent = False
        try:
            with KafkaClient(supervisor.properties, timeout_s=TIMEOUT_S) as client:
                found = client.partitions(supervisor.topic, is_pattern=supervisor.is_pattern)
                bounds: Mapping[Partition, Bounds] = client.bounds(found)
            error = None
        except CarnacError as problem:
            bounds, error = known.bounds, problem.message
            is_silent = isinstance(problem, Unavailable)
        told = StreamState(bounds=bounds, asked_at_ms=self._clock.now_ms(), error=error)
        return told, is_silent
