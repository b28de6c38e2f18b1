"""The envelope of a message (key, headers, place, time) as fields of its row (Druid's input format `kafka`)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

    from carnac.specs.supervisors.kafka import Envelope

_EMPTY = b"{}"


def enveloped(message: Message, value: bytes | None, envelope: Envelope) -> bytes:
    """Return a JSON object with the envelope of its message; a field of its own goes before one of the envelope.

    A value that is no object stays as it is, and its reader rejects it.
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
    """Return bytes as text; bytes that are no UTF-8, in base 64."""
    if value is None or isinstance(value, str):
        return value
    try:
        return str(value.decode())
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
