"""Segments and servers as Druid's clients read them, and the parts of paths that they write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Header, Path, Query
from pydantic import AfterValidator

from carnac.core.log.identifiers import identifier_of, shard_spec, version_text
from carnac.core.time.intervals import Interval, parse_interval

if TYPE_CHECKING:
    from carnac.coordinator.view import ServerState
    from carnac.core.log.entries import VisibleSegment

PREFIX = "/druid/coordinator/v1"
BINARY_VERSION = 9
TYPE = "historical"

DatasourceName = Annotated[str, Path(description="Name of the datasource.")]
SegmentId = Annotated[str, Path(description="The segment's id.")]
ServerName = Annotated[str, Path(description="The server's name: host and port.")]
TierName = Annotated[str, Path(description="Name of the tier.")]
IntervalInPath = Annotated[
    str, Path(description="ISO 8601, with `_` for `/`: `2024-01-01_2024-02-01`.")
]
Simple = Annotated[str | None, Query(description="In numbers.")]
Full = Annotated[str | None, Query(description="With all details.")]


def _as_text(header: str) -> str:
    """Return a header as the UTF-8 that clients send, of which a server reads each byte as a letter."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


Author = Annotated[
    str,
    Header(alias="X-Druid-Author", description="Author of the change."),
    AfterValidator(_as_text),
]
Comment = Annotated[
    str,
    Header(alias="X-Druid-Comment", description="Reason of the change, the message of a commit."),
    AfterValidator(_as_text),
]


def interval_of(text: str) -> Interval:
    """Return the interval of a path; raises Invalid."""
    return parse_interval(text.replace("_", "/"))


def data_segment(datasource: str, item: VisibleSegment, partitions: int) -> dict[str, Any]:
    """Return a segment as Druid's `DataSegment`.

    Args:
        partitions: How many entries its time chunk has.
    """
    segment, entry = item.segment, item.entry
    rollup = segment.rollup
    metrics = [] if rollup is None else [one.name for one in rollup.metrics]
    dimensions = [one.name for one in segment.columns if one.name not in set(metrics)]
    return {
        "dataSource": datasource,
        "interval": str(entry.chunk),
        "version": version_text(entry.version),
        "loadSpec": {"type": "carnac", "path": segment.path, "segmentId": segment.segment_id},
        "dimensions": ",".join(dimensions),
        "metrics": ",".join(metrics),
        "shardSpec": shard_spec(entry, partitions),
        "binaryVersion": BINARY_VERSION,
        "size": segment.size_bytes,
        "identifier": identifier_of(datasource, entry),
    }


def data_segments(datasource: str, items: Iterable[VisibleSegment]) -> list[dict[str, Any]]:
    """Return all entries of a datasource, or of whole time chunks of it, as Druid's `DataSegment`."""
    found = list(items)
    counts: dict[Interval, int] = {}
    for item in found:
        counts[item.entry.chunk] = counts.get(item.entry.chunk, 0) + 1
    return [data_segment(datasource, item, counts[item.entry.chunk]) for item in found]


def server_head(server: ServerState) -> dict[str, Any]:
    """Return a server in numbers, which is said of it wherever it is named."""
    return {
        "host": server.name,
        "currSize": server.used_bytes,
        "maxSize": server.capacity_bytes,
        "type": TYPE,
        "tier": server.tier,
        "priority": 0,
    }


def server_in_view(server: ServerState) -> dict[str, Any]:
    """Return a server as it is named beside a segment."""
    head = {name: one for name, one in server_head(server).items() if name != "currSize"}
    return {"name": server.name, "hostAndTlsPort": None, **head}
