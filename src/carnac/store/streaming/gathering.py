"""Messages that are read and not published yet: their values, by partition, and how far reading has come."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from carnac.core.streams.partitions import Partition
from carnac.rows.read.inputs import InputFile, ResolvedInput
from carnac.rows.read.messages import HeldMessages, Messages

if TYPE_CHECKING:
    from confluent_kafka import Message

    from carnac.kafka.client import Polled
    from carnac.specs.ingest.inputs import InputFormat
    from carnac.specs.supervisors.kafka import Envelope

_EMPTY = b"{}"


class Gathered:
    """What was read since the last publication.

    Attributes:
        reached: By partition: the offset that is read next.
        size_bytes: Of the values.
        count: Messages.
        nulls: Messages without a value, which are no rows.
    """

    def __init__(self, envelope: Envelope | None) -> None:
        self._envelope = envelope
        self._values: dict[Partition, tuple[list[bytes], list[int]]] = {}
        self.reached: dict[Partition, int] = {}
        self.size_bytes = 0
        self.count = 0
        self.nulls = 0

    def add(self, polled: Polled) -> None:
        """Take what a call to Kafka brought."""
        for message in polled.messages:
            self._take(message)
        for partition, end in polled.ends.items():
            if end > self.reached.get(partition, end):  # behind marks of transactions
                self.reached[partition] = end

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
        )
        return ResolvedInput(files=files, format=file_format)

    def _take(self, message: Message) -> None:
        partition = Partition(message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        self.reached[partition] = offset + 1
        self.count += 1
        value: Any = message.value()
        if self._envelope is not None:
            value = enveloped(message, value, self._envelope)
        if value is None:
            self.nulls += 1
            return
        values, offsets = self._values.setdefault(partition, ([], []))
        values.append(value)
        offsets.append(offset)
        self.size_bytes += len(value)


def enveloped(message: Message, value: bytes | None, envelope: Envelope) -> bytes:
    """Return a JSON object with what the message has beside it; a field of its own goes before one of these.

    One that is no object stays as it is: who reads it says so.
    """
    text = (_EMPTY if value is None else value).rstrip()
    if not text.endswith(b"}"):
        return text
    inner = text[:-1].rstrip()
    more = json.dumps(_beside(message, envelope), ensure_ascii=False)[1:].encode()
    return inner + (b"" if inner.lstrip() == b"{" else b",") + more


def _beside(message: Message, envelope: Envelope) -> Mapping[str, object]:
    found: dict[str, object] = {
        envelope.timestamp: message.timestamp()[1],
        envelope.topic: message.topic(),
        envelope.partition: message.partition(),
        envelope.offset: message.offset(),
    }
    if envelope.keeps_key:
        found[envelope.key] = _text(message.key())
    if envelope.keeps_headers:
        headers: Any = message.headers() or ()
        found |= {f"{envelope.headers}{name}": _text(one) for name, one in headers}
    return found


def _text(value: Any) -> str | None:
    """Return bytes as text; what is no UTF-8 in base 64."""
    if value is None or isinstance(value, str):
        return value
    try:
        return str(value.decode())
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
