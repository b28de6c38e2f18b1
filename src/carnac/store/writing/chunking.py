"""Into which time chunks a load cuts its rows, which of them are late, and which columns they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from carnac.core.log.entries import Chunk
from carnac.ports import ChunkLayout
from carnac.store.writing.noticing import columns_before

if TYPE_CHECKING:
    from carnac.core.segments.segment import ColumnType
    from carnac.core.time.intervals import Interval
    from carnac.metadata.store import MetadataStore
    from carnac.specs.ingest.spec import IngestSpec


def layout_of(metadata: MetadataStore, spec: IngestSpec) -> tuple[ChunkLayout, int | None]:
    """Return where rows of the spec go, and the newest instant that is there; None: none of them can be late."""
    is_replace = spec.mode == "replace"
    chunks: Sequence[Chunk] = ()
    newest_ms = None
    columns: Mapping[str, ColumnType] = {}
    if spec.dimensions.needs_data:
        columns = columns_before(metadata, spec, metadata.head().revision)
    if not is_replace:
        with metadata.one_state():
            chunks = metadata.chunks(spec.datasource, interval=_reach(spec))
            newest_ms = metadata.newest_ms(spec.datasource)
    layout = ChunkLayout(
        segment_granularity=str(spec.granularity.segment_granularity),
        existing=tuple(chunk.interval for chunk in chunks),
        within=spec.intervals if is_replace and spec.intervals else None,
        columns=columns,
    )
    return layout, newest_ms


def _reach(spec: IngestSpec) -> Interval | None:
    """Return the buckets that rows of the spec may fall into; None: anywhere."""
    span = spec.intervals.span()
    if span is None:
        return None
    return spec.granularity.segment_granularity.buckets_over(span)
