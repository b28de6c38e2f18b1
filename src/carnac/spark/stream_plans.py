"""The sources of a streaming DataFrame, and whether offsets alone say how far it has come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INSTEAD = (
    "publish it by foreachBatch, with writer and batch in the spec and a checkpoint of your own"
)
_OWN_LOG = {
    "FileSource": "numbers files in its own checkpoint",
    "rate": "counts from when its own checkpoint was made",
    "socket": "cannot be read again",
    "memory": "is gone with its process",
}
"""Sources whose offsets mean nothing elsewhere, and why."""
_STATE = {
    "Aggregate": "an aggregation",
    "Deduplicate": "a deduplication",
    "DeduplicateWithinWatermark": "a deduplication",
    "Distinct": "a deduplication",
    "GlobalLimit": "a limit",
    "LocalLimit": "a limit",
}


def sources_of(frame: DataFrame) -> list[str]:
    """Return the names of a stream's sources in the order of its offsets, as positions call them: `0 kafka`.

    Raises:
        Invalid: It is no stream, or cannot go on from offsets alone; says what to do.
    """
    if not getattr(frame, "isStreaming", False):
        raise Invalid("stream takes a streaming DataFrame (spark.readStream); ingest takes others")
    query = getattr(frame, "_jdf", None)
    if query is None:
        raise Invalid(
            "a stream of Spark Connect runs in its server, where no store is; use a session that has its driver here"
        )
    kinds: list[str] = []
    for node in _nodes(query.queryExecution().analyzed()):
        kept = _state(node)
        if kept is not None:
            raise Invalid(
                f"the stream holds {kept}, whose state is in Spark's checkpoint; {INSTEAD}"
            )
        if node.children().isEmpty():  # one that is read twice has two offsets, too
            kinds.append(str(node.sourceName()).partition("[")[0])
    for kind in kinds:
        if kind in _OWN_LOG:
            raise Invalid(
                f"source {kind} {_OWN_LOG[kind]}, so no position in the log says where to go on; {INSTEAD}"
            )
    return [f"{place} {kind}" for place, kind in enumerate(kinds)]


def _nodes(node: Any) -> Iterator[Any]:
    """Yield those of a plan's nodes that are part of a stream, from left to right."""
    if not node.isStreaming():
        return
    yield node
    children = node.children().iterator()
    while children.hasNext():
        yield from _nodes(children.next())


def _state(node: Any) -> str | None:
    """Return what an operator is that keeps state; None: it keeps none."""
    name = str(node.nodeName())
    if name == "Join":
        return (
            "a join of two streams"
            if node.left().isStreaming() and node.right().isStreaming()
            else None
        )
    return "an operator with state" if "WithState" in name else _STATE.get(name)
