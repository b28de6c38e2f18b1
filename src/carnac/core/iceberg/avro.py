"""Avro files as Iceberg keeps its manifests in: the same values are the same bytes, in any process, for ever.

Source: Apache Avro's specification, object container files; one block, no compression. Libraries write a random marker
between blocks, and may order or compress otherwise in their next version; ours is computed from what is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

Record: TypeAlias = Mapping[str, object]
"""A value by the names of its fields; a field that is not there is null."""

_MAGIC = b"Obj\x01"


def record_type(name: str, *fields: Record | str) -> dict[str, object]:
    """Return the schema of a record; fields in words are `number name type`, with commas; `?` ends an optional type."""
    stated: list[Record] = []
    for one in fields:
        for words in one.split(", ") if isinstance(one, str) else ():
            number, title, kind = words.split()
            stated.append(field(int(number), title, kind.rstrip("?"), optional=kind.endswith("?")))
        if not isinstance(one, str):
            stated.append(one)
    return {"type": "record", "name": name, "fields": stated}


def field(number: int, name: str, kind: object, *, optional: bool = False) -> dict[str, object]:
    """Return a field of a record with its number in Iceberg's specification."""
    stated: dict[str, object] = {"name": name, "field-id": number}
    if optional:
        return stated | {"type": ["null", kind], "default": None}
    return stated | {"type": kind}


def by_number(name: str, key: int, value: int, kind: str) -> dict[str, object]:
    """Return the schema of a mapping by numbers, which Avro has as a list of pairs."""
    pair = record_type(name, field(key, "key", "int"), field(value, "value", kind))
    return {"type": "array", "items": pair, "logicalType": "map"}


def encode_file(schema: Record, records: Sequence[Record], metadata: Mapping[str, str]) -> bytes:
    """Return a container file.

    Args:
        schema: Of the records. Its unions are null and one other type.
        metadata: Entries of the header besides schema and codec.
    """
    body = bytearray()
    for record in records:
        _write(body, schema, record)
    said = {**metadata, "avro.codec": "null", "avro.schema": to_text(schema)}
    header = bytearray(_MAGIC)
    _write_long(header, len(said))
    for name in sorted(said):
        _write_bytes(header, name.encode())
        _write_bytes(header, said[name].encode())
    _write_long(header, 0)
    marker = hashlib.blake2b(header + body, digest_size=16).digest()
    block = bytearray()
    if records:
        _write_long(block, len(records))
        _write_long(block, len(body))
        block += body + marker
    return bytes(header + marker + block)


def to_text(value: object) -> str:
    """Return a value as JSON, the same text each time."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _write(out: bytearray, schema: object, value: object) -> None:
    if isinstance(schema, list):
        _write_long(out, 0 if value is None else 1)
        if value is not None:
            _write(out, schema[1], value)
        return
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if kind == "record":
        for one in cast("Mapping[str, list[Record]]", schema)["fields"]:
            _write(out, one["type"], cast("Record", value).get(cast("str", one["name"])))
    elif kind == "array":
        items = cast("Mapping[str, object]", schema)["items"]
        values = cast("Sequence[object]", value)
        if values:
            _write_long(out, len(values))
        for item in values:
            _write(out, items, item)
        _write_long(out, 0)
    elif kind == "boolean":
        out.append(bool(value))
    elif kind in {"int", "long"}:
        _write_long(out, cast("int", value))
    elif kind == "string":
        _write_bytes(out, cast("str", value).encode())
    else:
        _write_bytes(out, cast("bytes", value))


def _write_bytes(out: bytearray, data: bytes) -> None:
    _write_long(out, len(data))
    out += data


def _write_long(out: bytearray, number: int) -> None:
    """Write a number of 64 bits, the short way."""
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
