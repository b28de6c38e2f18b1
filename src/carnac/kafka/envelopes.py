"""The envelope of a message (key, headers, place, time) as fields of its row (Druid's input format `kafka`)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

    from carnac.specs.supervisors.kafka import Envelope

_EMPTY = b"{}"


def enveloped(message: Message, value: bytes | None, envelope: Envelope) -> bytes:
    """Return JSON objects with the envelope of their message; a field of their own goes before one of the envelope.

    A value that is no object stays as it is, and its reader rejects it.
    """
    text = (_EMPTY if value is None else value).rstrip()
    if not text.endswith(b"}"):
        return text
    more = json.dumps(_beside(message, envelope), ensure_ascii=False)[1:].encode()
    inner = (one[:-1].rstrip() for one in objects_in(text))
    return b"\n".join(one + (b"" if one.lstrip() == b"{" else b",") + more for one in inner)


def objects_in(value: bytes) -> Sequence[bytes]:
    """Return the lines of a value that holds an object in each, or else the value as it is."""
    if b"\n" not in value:
        return (value,)
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    is_each = all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    return lines if lines and is_each else (value,)


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
