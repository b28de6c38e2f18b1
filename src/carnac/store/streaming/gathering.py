"""Messages that are read and not published yet: their values, by partition, and how far reading has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carnac.core.streams.partitions import Partition
from carnac.kafka.envelopes import enveloped
from carnac.rows.read.inputs import InputFile, ResolvedInput
from carnac.rows.read.messages import HeldMessages, Messages

if TYPE_CHECKING:
    from carnac.kafka.client import Polled
    from carnac.specs.ingest.inputs import InputFormat
    from carnac.specs.supervisors.kafka import Envelope


class Gathered:
    """Messages that were read since the last publication.

    Attributes:
        reached: Offset to read next, by partition.
        size_bytes: Size of the values.
        count: Number of messages.
        nulls: Number of messages without a value, which are no rows.
    """

    def __init__(self, envelope: Envelope | None) -> None:
        self._envelope = envelope
        self._values: dict[Partition, tuple[list[bytes], list[int]]] = {}
        self.reached: dict[Partition, int] = {}
        self.size_bytes = 0
        self.count = 0
        self.nulls = 0

    def add(self, polled: Polled) -> None:
        """Take the messages of a call to Kafka. Nothing is done twice, since a backlog repeats it for each message."""
        envelope, reached = self._envelope, self.reached
        place: Partition | None = None
        values: list[bytes] = []
        offsets: list[int] = []
        for message in polled.messages:
            topic, number, offset = message.topic(), message.partition(), message.offset()
            if place is None or place.number != number or place.topic != topic:
                place = Partition(topic or "", number or 0)
                values, offsets = self._values.setdefault(place, ([], []))
            reached[place] = (offset or 0) + 1
            value: Any = message.value()
            if envelope is not None:
                value = enveloped(message, value, envelope)
            if value is None:
                self.nulls += 1
                continue
            values.append(value)
            offsets.append(offset or 0)
            self.size_bytes += len(value)
        self.count += len(polled.messages)
        for partition, end in polled.ends.items():
            if end > reached.get(partition, end):  # behind marks of transactions
                reached[partition] = end

    def clear(self) -> None:
        """Forget the messages, which are published; not how far reading has come."""
        self._values = {}
        self.size_bytes = self.count = self.nulls = 0

    def as_input(self, file_format: InputFormat) -> ResolvedInput:
        """Return the messages as the input of a load, a file for each partition."""
        files = tuple(
            InputFile(
                url=f"kafka:{partition}",
                size_bytes=sum(map(len, values)),
                messages=HeldMessages(Messages(values, offsets)),
            )
            for partition, (values, offsets) in sorted(self._values.items())
            if values
        )
        return ResolvedInput(files=files, format=file_format)
