"""What the gauges and the self-examination read."""

from __future__ import annotations

from sqlalchemy import Table, func, select

from carnac.metadata import tables as t
from carnac.metadata.definitions import statements as s
from carnac.metadata.definitions.building import statement
from carnac.metadata.session import Statement


def _count(table: Table) -> Statement:
    return statement(lambda: select(func.count()).select_from(table))


COUNTS = {name: _count(table) for name, table in t.METADATA.tables.items()}
LIVE_OF = statement(
    lambda: select(*s.ENTRY_COLUMNS).where(
        t.entries.c.datasource_id == s.p("datasource_id"),
        t.entries.c.dropped_revision.is_(None),
    )
)
CHUNKS_OF = statement(
    lambda: select(*s.CHUNK_COLUMNS).where(t.chunks.c.datasource_id == s.p("datasource_id"))
)
SCHEMAS_OF = statement(
    lambda: select(
        t.schemas.c.digest, t.schemas.c.segments, t.schemas.c.rows, t.schemas.c.size_bytes
    ).where(t.schemas.c.datasource_id == s.p("datasource_id"))
)
SEGMENTS_OF = statement(
    lambda: select(
        t.segments.c.segment_key,
        t.segments.c.digest,
        t.segments.c.rows,
        t.segments.c.size_bytes,
        t.segments.c.record,
        t.segments.c.path,
    ).where(t.segments.c.datasource_id == s.p("datasource_id"))
)
FRAMES_OF = statement(
    lambda: select(
        t.key_frames.c.chunk_start,
        t.key_frames.c.chunk_end,
        t.key_frames.c.revision,
        t.key_frames.c.entry_ids,
    ).where(t.key_frames.c.datasource_id == s.p("datasource_id"))
)
ALL_OF = statement(
    lambda: select(
        t.entries.c.entry_id,
        t.entries.c.chunk_start,
        t.entries.c.chunk_end,
        t.entries.c.dropped_revision,
    ).where(t.entries.c.datasource_id == s.p("datasource_id"))
)
