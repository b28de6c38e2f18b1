"""A part of a partition that is read from Kafka where its rows are needed: in a task of Spark, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carnac.core.streams.partitions import Partition
from carnac.errors import Unavailable
from carnac.kafka.client import KafkaClient
from carnac.kafka.envelopes import enveloped
from carnac.rows.read.messages import Messages

if TYPE_CHECKING:
    from carnac.kafka.client import Polled
    from carnac.specs.supervisors.kafka import Envelope

POLL_MESSAGES = 10_000
POLL_S = 1.0
SILENT_POLLS_MAX = 60
"""Calls in a row that bring nothing, before Kafka counts as one that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRange:
    """The messages of a partition from `start` up to `end`, which is not in it. Picklable; the same each time.

    Offsets that are no messages (marks of transactions, gaps of compaction) are passed.
    """

    partition: Partition
    start: int
    end: int
    envelope: Envelope | None
    properties: Mapping[str, str] = field(repr=False)

    def blocks(self) -> Iterator[Messages]:
        """Yield them.

        Raises:
            Unavailable: Kafka does not give them.
        """
        at, silent = self.start, 0
        with KafkaClient(self.properties) as client:
            client.assign({self.partition: at})
            while at < self.end:
                polled = client.poll(POLL_MESSAGES, POLL_S)
                silent = silent + 1 if not polled.messages and not polled.ends else 0
                if silent > SILENT_POLLS_MAX:
                    raise Unavailable(
                        f"Kafka does not give offset {at} of {self.partition}, of {self.end}"
                    )
                at = max(at, polled.ends.get(self.partition, at))
                if polled.messages:
                    at = max(at, (polled.messages[-1].offset() or 0) + 1)
                    yield self._block(polled)

    def _block(self, polled: Polled) -> Messages:
        values: list[bytes] = []
        offsets: list[int] = []
        for message in polled.messages:
            offset = message.offset() or 0
            value = message.value()
            if offset >= self.end:
                break
            if self.envelope is not None:
                value = enveloped(message, value, self.envelope)
            if value is not None:
                values.append(value)
                offsets.append(offset)
        return Messages(values, offsets)
