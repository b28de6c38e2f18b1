"""Ids and versions of entries as Druid's clients know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carnac.core.time.intervals import format_ms

if TYPE_CHECKING:
    from carnac.core.log.entries import Entry
    from carnac.core.segments.version import SegmentVersion


def version_text(version: SegmentVersion) -> str:
    """Return a version as one text that sorts as the version does."""
    major = format_ms(version.major_ms)
    return f"{major}.{version.minor}" if version.minor else major


def identifier_of(datasource: str, entry: Entry) -> str:
    """Return the id by which Druid's clients know a segment in a time chunk."""
    chunk = entry.chunk
    head = f"{datasource}_{format_ms(chunk.start_ms)}_{format_ms(chunk.end_ms)}_{version_text(entry.version)}"
    return f"{head}_{entry.partition_id}" if entry.partition_id else head


def shard_spec(entry: Entry, partitions: int) -> dict[str, object]:
    """Return the place of an entry in its time chunk as Druid's `shardSpec`.

    Args:
        partitions: How many entries the chunk has.
    """
    return {"type": "numbered", "partitionNum": entry.partition_id, "partitions": partitions}
