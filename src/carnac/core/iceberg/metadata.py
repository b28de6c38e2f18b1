"""The metadata of a table: the answer of a catalog, made from the snapshots that the table has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from carnac.core.iceberg.avro import to_text
from carnac.core.iceberg.groups import SPECS
from carnac.core.iceberg.manifests import partition_specs
from carnac.core.iceberg.schema import TableSchema
from carnac.core.segments.segment import TIME_COLUMN

_PROPERTIES = {
    "write.metadata.metrics.default": "counts",  # bounds are bounds: no client is to take them for answers
    "read.parquet.vectorization.enabled": "false",  # Iceberg's own reader knows too few encodings
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A state of a table.

    Attributes:
        revision: Its id.
        at_ms: When that was published.
        list_location: Of the list of its manifests.
        files: How many data files it has.
        rows: In these, hidden ones included.
    """

    revision: int
    at_ms: int
    list_location: str
    schema: TableSchema
    files: int
    rows: int


def table_metadata(
    snapshots: Sequence[Snapshot],
    *,
    uuid: str,
    location: str,
    tags: Mapping[str, int],
    is_whole_since: int,
) -> dict[str, object]:
    """Return the metadata.

    Args:
        snapshots: In order of revision; the last one is the current one.
        tags: Ids of snapshots by the names of tags.
        is_whole_since: No change of the table after this revision is without a snapshot, so that a time means one.
    """
    current = snapshots[-1]
    time_id = current.schema.ids[TIME_COLUMN]
    schemas = list(dict.fromkeys(to_text(one.schema.to_json()) for one in snapshots))
    numbers = {text: number for number, text in enumerate(schemas)}
    by_number = {numbers[to_text(one.schema.to_json())]: one.schema for one in snapshots}
    main = {"snapshot-id": current.revision, "type": "branch"}
    refs = {name: {"snapshot-id": one, "type": "tag"} for name, one in tags.items()}
    return {
        "format-version": 2,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": current.revision,
        "last-updated-ms": current.at_ms,
        "last-column-id": max(one.schema.last_id for one in snapshots),
        "current-schema-id": numbers[to_text(current.schema.to_json())],
        "schemas": [by_number[number].to_json(number) for number in sorted(by_number)],
        "default-spec-id": 0,
        "partition-specs": partition_specs(time_id),
        "last-partition-id": max(one.field_id for one in SPECS),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": _PROPERTIES,
        "current-snapshot-id": current.revision,
        "snapshots": [
            _snapshot(one, before, numbers[to_text(one.schema.to_json())])
            for before, one in zip([None, *snapshots], snapshots, strict=False)
        ],
        "snapshot-log": [
            {"timestamp-ms": one.at_ms, "snapshot-id": one.revision}
            for one in snapshots
            if one.revision >= is_whole_since or one is current
        ],
        "metadata-log": [],
        "refs": {**refs, "main": main},
    }


def _snapshot(one: Snapshot, before: Snapshot | None, schema_id: int) -> dict[str, object]:
    parent = {} if before is None else {"parent-snapshot-id": before.revision}
    return {
        "snapshot-id": one.revision,
        **parent,
        "sequence-number": one.revision,
        "timestamp-ms": one.at_ms,
        "manifest-list": one.list_location,
        "summary": {
            "operation": "overwrite",
            "total-data-files": f"{one.files}",
            "total-records": f"{one.rows}",
        },
        "schema-id": schema_id,
    }


def table_uuid(store_id: str, datasource: str) -> str:
    """Return the id of a table: the same for ever."""
    found = hashlib.blake2b(to_text([store_id, datasource]).encode(), digest_size=16).hexdigest()
    digits = f"{found[:12]}8{found[13:16]}8{found[17:]}"  # a UUID of version 8, of whoever makes it
    cuts = (0, 8, 12, 16, 20, 32)
    return "-".join(digits[start:end] for start, end in pairwise(cuts))
