"""Manifests and lists of manifests, as bytes: all that they say is in the records of segments.

Each file is named as one that was there before (`EXISTING`), with the revision of its entry: nobody who reads what a
snapshot added is given a part of a revision for the whole.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carnac.core.iceberg.avro import Record, by_number, encode_file, field, record_type, to_text
from carnac.core.iceberg.groups import SPECS, DataFile, Group, Spec
from carnac.core.iceberg.schema import PRIMITIVE, TableSchema, table_schema
from carnac.core.segments.segment import TIME_COLUMN, Column, ColumnType, Scalar
from carnac.core.segments.sql_columns import HIDDEN_PREFIX

_EXISTING = 0
_DATA, _DELETES = 0, 1
_PATHS = "carnac.paths"
PATH_ID, POSITION_ID = 2147483546, 2147483545
"""Ids of the columns `file_path` and `pos` of files of deleted positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """A file of deleted positions of one segment file.

    Attributes:
        rows: How many; > 0.
    """

    location: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest that is written.

    Attributes:
        positions: The files that it names, of one of deletes; None: it names the group's files.
    """

    location: str
    size_bytes: int
    group: Group
    positions: Mapping[str, Positions] | None = None


def manifest_bytes(group: Group, *, root: str) -> bytes:
    """Return the manifest of a group's files."""
    schema = table_schema(one.segment.columns for one in group.files)
    return _encode(group, [_entry(one, group, schema, root) for one in group.files], schema, "data")


def deletes_bytes(group: Group, positions: Mapping[str, Positions], *, root: str) -> bytes:
    """Return the manifest of what is deleted in a group's files.

    Args:
        positions: By the id of the segment; none where no row is hidden.
    """
    schema = table_schema(one.segment.columns for one in group.files)
    entries = []
    for file in group.clipped:
        if (found := positions.get(file.segment.segment_id)) is not None:
            bound = {PATH_ID: location_of(root, file.segment.path).encode()}
            stated = {
                "content": _DELETES,
                "file_path": found.location,
                "record_count": found.rows,
                "file_size_in_bytes": found.size_bytes,
                "lower_bounds": _pairs(bound),
                "upper_bounds": _pairs(bound),
                "referenced_data_file": location_of(root, file.segment.path),
            }
            entries.append(_stated(file, group, stated))
    return _encode(group, entries, schema, "deletes")


def list_bytes(manifests: Sequence[Manifest], paths: Sequence[str]) -> bytes:
    """Return the list of a revision's manifests.

    Args:
        paths: Of all files that stay while this list does: its header names them for `paths_in`.
    """
    said = {"format-version": "2", _PATHS: to_text(list(paths))}
    return encode_file(_LIST, [_listed(one) for one in manifests], said)


def paths_in(data: bytes) -> list[str]:
    """Return the paths that `list_bytes` was given.

    Raises:
        ValueError: The bytes are not a list that Carnac wrote.
    """
    _, found, rest = data.partition(_PATHS.encode())
    if not found:
        raise ValueError("this is no list of Carnac's")
    listed: list[str] = json.loads(rest[rest.index(b"[") : rest.index(b"]") + 1])
    return listed


def location_of(root: str, path: str) -> str:
    """Return where clients find a file of deep storage."""
    return f"{root}/{path}"


def partition_specs(time_id: int) -> list[dict[str, object]]:
    """Return the specs as Iceberg writes them."""
    return [{"spec-id": one.number, "fields": _spec_fields(time_id, one)} for one in SPECS]


def _spec_fields(time_id: int, spec: Spec) -> list[dict[str, object]]:
    if not spec.transform:
        return []
    return [
        {
            "source-id": time_id,
            "field-id": spec.field_id,
            "name": spec.field_name,
            "transform": spec.transform,
        }
    ]


def _encode(group: Group, entries: Sequence[Record], schema: TableSchema, content: str) -> bytes:
    said = {
        "schema": to_text(schema.to_json()),
        "schema-id": "0",
        "partition-spec": to_text(_spec_fields(schema.ids[TIME_COLUMN], group.spec)),
        "partition-spec-id": f"{group.spec.number}",
        "format-version": "2",
        "content": content,
    }
    return encode_file(_entry_type(group.spec), entries, said)


def _entry(file: DataFile, group: Group, schema: TableSchema, root: str) -> Record:
    segment, ids = file.segment, schema.ids
    shown = [
        one
        for one in segment.columns
        if one.type in PRIMITIVE and not one.name.startswith(HIDDEN_PREFIX)
    ]
    nulls = {ids[one.name]: one.null_count for one in shown if one.null_count is not None}
    nulls[ids[TIME_COLUMN]] = 0
    low = {ids[TIME_COLUMN]: _number("<q", segment.min_time_ms * 1000)}
    high = {ids[TIME_COLUMN]: _number("<q", segment.max_time_ms * 1000 + 999)}
    for one in shown:
        if one.min_value is not None:
            low[ids[one.name]] = _bound(one, one.min_value, zero=-0.0)
        if one.max_value is not None:
            high[ids[one.name]] = _bound(one, one.max_value, zero=0.0)
    stated: dict[str, object] = {
        "content": _DATA,
        "file_path": location_of(root, segment.path),
        "record_count": segment.rows,
        "file_size_in_bytes": segment.size_bytes,
        "value_counts": _pairs(dict.fromkeys(nulls, segment.rows)),
        "null_value_counts": _pairs(nulls),
        "lower_bounds": _pairs(low),
        "upper_bounds": _pairs(high),
    }
    return _stated(file, group, stated)


def _stated(file: DataFile, group: Group, stated: Record) -> Record:
    number = file.partition_of(group.spec)
    partition = {} if number is None else {group.spec.field_name: number}
    return {
        "status": _EXISTING,
        "snapshot_id": file.revision,
        "sequence_number": file.revision,
        "file_sequence_number": file.revision,
        # nobody knows sizes of columns; PyIceberg's inspect.entries() ends where there is no map of them
        "data_file": {
            "file_format": "PARQUET",
            "partition": partition,
            "column_sizes": [],
            **stated,
        },
    }


def _pairs(values: Mapping[int, object]) -> list[Record]:
    return [{"key": key, "value": values[key]} for key in sorted(values)]


def _bound(column: Column, value: Scalar, *, zero: float) -> bytes:
    """Return a bound as Iceberg writes it.

    Args:
        zero: The zero to write for both: the negative zero is the lesser one in Iceberg, and here they are equal.
    """
    match column.type:
        case ColumnType.LONG:
            return _number("<q", value)
        case ColumnType.DOUBLE:
            return _number("<d", value or zero)
        case ColumnType.FLOAT:
            return _number("<f", value or zero)
        case ColumnType.BOOLEAN:
            return b"\1" if value else b"\0"
        case _:
            return str(value).encode()


def _number(form: str, value: Scalar) -> bytes:
    return struct.pack(form, value)


_NO_CHANGES = {
    f"{how}_{what}_count": 0 for how in ("added", "deleted") for what in ("files", "rows")
}


def _listed(manifest: Manifest) -> Record:
    group = manifest.group
    if manifest.positions is None:
        files, content = list(group.files), _DATA
        rows = sum(one.segment.rows for one in files)
    else:
        files = [one for one in group.clipped if one.segment.segment_id in manifest.positions]
        content, rows = _DELETES, sum(one.rows for one in manifest.positions.values())
    revisions = [one.revision for one in files]
    numbers = [number for one in files if (number := one.partition_of(group.spec)) is not None]
    partitions = [] if not numbers else [_summary(min(numbers), max(numbers))]
    return {
        "manifest_path": manifest.location,
        "manifest_length": manifest.size_bytes,
        "partition_spec_id": group.spec.number,
        "content": content,
        "sequence_number": max(revisions),
        "min_sequence_number": min(revisions),
        "added_snapshot_id": max(revisions),
        "existing_files_count": len(files),
        "existing_rows_count": rows,
        **_NO_CHANGES,
        "partitions": partitions,
    }


def _summary(low: int, high: int) -> Record:
    return {
        "contains_null": False,
        "contains_nan": False,
        "lower_bound": _number("<i", low),
        "upper_bound": _number("<i", high),
    }


def _entry_type(spec: Spec) -> dict[str, object]:
    kind = {"type": "int", "logicalType": "date"} if spec.transform == "day" else "int"
    fields = [field(spec.field_id, spec.field_name, kind, optional=True)] if spec.transform else []
    counts = [
        ("column_sizes", 108, 117, "long"),
        ("value_counts", 109, 119, "long"),
        ("null_value_counts", 110, 121, "long"),
        ("lower_bounds", 125, 126, "bytes"),
        ("upper_bounds", 128, 129, "bytes"),
    ]
    data_file = record_type(
        "r2",
        "134 content int, 100 file_path string, 101 file_format string",
        field(102, "partition", record_type("r102", *fields)),
        "103 record_count long, 104 file_size_in_bytes long",
        *(
            field(number, name, by_number(f"k{key}_v{key + 1}", key, key + 1, kind), optional=True)
            for name, number, key, kind in counts
        ),
        "143 referenced_data_file string?",
    )
    return record_type(
        "manifest_entry",
        "0 status int, 1 snapshot_id long?, 3 sequence_number long?, 4 file_sequence_number long?",
        field(2, "data_file", data_file),
    )


_PARTITION = record_type(
    "r508",
    "509 contains_null boolean, 518 contains_nan boolean?, 510 lower_bound bytes?, 511 upper_bound bytes?",
)
_LIST = record_type(
    "manifest_file",
    "500 manifest_path string, 501 manifest_length long, 502 partition_spec_id int, 517 content int",
    "515 sequence_number long, 516 min_sequence_number long, 503 added_snapshot_id long",
    "504 added_files_count int, 505 existing_files_count int, 506 deleted_files_count int",
    "512 added_rows_count long, 513 existing_rows_count long, 514 deleted_rows_count long",
    field(
        507, "partitions", {"type": "array", "items": _PARTITION, "element-id": 508}, optional=True
    ),
)
