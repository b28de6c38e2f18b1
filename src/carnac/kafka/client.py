"""A connection to Kafka: topics, offsets, messages. The library is imported when the first one is opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from carnac.core.streams.partitions import Bounds, Partition
from carnac.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

TIMEOUT_S = 10.0
"""Long: a broker that was just started first finds out who leads."""
QUEUED_KB = 32 << 10
"""Most that the library reads ahead."""
_OURS = {
    "group.id": "carnac",  # the library wants one; no member joins it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "queued.max.messages.kbytes": QUEUED_KB,
}


class Polled(NamedTuple):
    """The outcome of a call to Kafka.

    Attributes:
        messages: Messages; those of a partition are in the order of their offsets.
        ends: Partitions that are read to the end, each with the least offset that its next message can have.
    """

    messages: Sequence[Message]
    ends: Mapping[Partition, int]


class KafkaClient:
    """One connection. For one thread.

    Args:
        properties: As the library calls them.
        timeout_s: How long Kafka may take to say which partitions and offsets there are; None: `TIMEOUT_S`.

    Raises:
        Invalid: The library is missing, or does not take a property.
    """

    def __init__(self, properties: Mapping[str, str], *, timeout_s: float | None = None) -> None:
        self._timeout_s = TIMEOUT_S if timeout_s is None else timeout_s
        try:
            import confluent_kafka
        except ImportError:
            raise Invalid(
                "reading Kafka needs the library confluent-kafka; pip install 'carnac[kafka]'"
            ) from None
        self._library: Any = confluent_kafka
        self._error: type[Exception] = confluent_kafka.KafkaException
        self._servers = properties.get("bootstrap.servers", "")
        self._said = ""
        settings: dict[str, Any] = {**properties, **_OURS, "error_cb": self._note}
        settings.setdefault("isolation.level", "read_committed")
        try:
            self._consumer: Consumer = confluent_kafka.Consumer(settings, logger=_silent())
        except (self._error, TypeError, ValueError) as error:
            raise Invalid(
                f"Kafka's library does not take these consumerProperties: {_said(error)}"
            ) from None

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connection. Idempotent."""
        self._consumer.close()

    def partitions(self, topic: str, *, is_pattern: bool = False) -> tuple[Partition, ...]:
        """Return the partitions of a topic, or of all topics whose whole names match a pattern.

        Raises:
            NotFound: There is no such topic.
            Unavailable: Kafka does not answer.
        """
        with self._translated("does not say which topics there are"):
            found = (
                self._consumer.list_topics(timeout=self._timeout_s)
                if is_pattern
                else (self._consumer.list_topics(topic, timeout=self._timeout_s))
            )
        names = [
            name
            for name, one in found.topics.items()
            if one.error is None and (re.fullmatch(topic, name) if is_pattern else name == topic)
        ]
        if not names and not is_pattern:
            raise NotFound(f"Kafka at {self._servers} has no topic '{topic}'", topic=topic)
        return tuple(
            Partition(name, number)
            for name in sorted(names)
            for number in sorted(found.topics[name].partitions)
        )

    def bounds(self, partitions: Sequence[Partition]) -> dict[Partition, Bounds]:
        """Return which offsets each partition holds; messages of an open transaction do not count.

        Raises:
            Unavailable: Kafka does not answer.
        """
        found = {}
        for one in partitions:
            with self._translated(f"does not say which offsets {one} has"):
                low, high = self._consumer.get_watermark_offsets(
                    self._library.TopicPartition(*one), timeout=self._timeout_s
                )
            found[one] = Bounds(low, high)
        return found

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions from now on, each from an offset.

        Raises:
            Unavailable: Kafka does not answer.
        """
        with self._translated("cannot be read"):
            self._consumer.assign(
                [self._library.TopicPartition(*one, offset) for one, offset in starts.items()]
            )

    def poll(self, most: int, wait_s: float) -> Polled:
        """Return the next messages of the assigned partitions, waiting at most so long for the first.

        Raises:
            Unavailable: Kafka does not answer, or an offset is not there any more: look at the bounds again.
        """
        messages: list[Message] = []
        ends: dict[Partition, int] = {}
        with self._translated("cannot be read"):
            first = self._consumer.poll(wait_s)
            polled = [] if first is None else [first, *self._consumer.consume(most, 0)]
        for message in polled:
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == self._library.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                ends[Partition(message.topic() or "", message.partition() or 0)] = (
                    message.offset() or 0
                )
            elif error.fatal() or not error.retriable():
                raise Unavailable(f"Kafka at {self._servers} cannot be read: {error.str()}")
            else:
                self._said = error.str()
        return Polled(messages, ends)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            why = self._said or _said(error)
            raise Unavailable(
                f"Kafka at {self._servers} {what}: {why}", servers=self._servers
            ) from None

    def _note(self, error: Any) -> None:
        """Keep what the library says of its connections, for the error that comes of it."""
        self._said = str(error.str())


def _said(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    text = inner.str() if hasattr(inner, "str") else str(inner)
    return str(text).splitlines()[0] if text else type(error).__name__


def _silent() -> Any:
    """Return a logger that says nothing, as failures that matter are raised as errors."""
    import logging

    logger = logging.getLogger("carnac.kafka.library")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
