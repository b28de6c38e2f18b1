"""A plain append of one segment in one statement, for databases to which each statement travels (`sql.appending`).

The core plans it as any other (`plan_append`), before the transaction, on a chunk of which nothing is known yet. The
statement finds out whether the chunk is there, and puts the numbers in. So no other writer waits for what this process
does, nor for its round trips. What the statement cannot do it leaves undone, and `write_publication` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carnac.core.log.appending import plan_append
from carnac.core.log.commits import Commit, Publication
from carnac.core.log.entries import Chunk
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import Interval
from carnac.metadata.read import chunk_rows
from carnac.metadata.read import rows as r
from carnac.metadata.session import Params, Row, Session
from carnac.metadata.sql import statements as s
from carnac.metadata.sql.appending import APPEND
from carnac.metadata.sql.dialects import Statement
from carnac.ports import LeaseKind, Published


class PlainAppend:
    """A publication that adds one segment.

    Args:
        params: Parameters of the statement, but for the time and what is before it.
        now_ms: Tells the time.

    Attributes:
        segment_id: Id of the segment.
    """

    def __init__(self, publication: Publication, params: Params, now_ms: Callable[[], int]) -> None:
        self.segment_id = str(params["segment_id"])
        self._publication = publication
        self._params = params
        self._now_ms = now_ms

    def send(self, session: Session, after_segment_id: str | None) -> Any:
        """Begin to write it inside a write transaction; returns the cursor that has the answer later.

        Args:
            after_segment_id: Segment of the one before it in the transaction: if that is not written, this is not.
        """
        more = {"now_ms": self._now_ms(), "after_segment_id": after_segment_id}
        return session.ask(APPEND, {**self._params, **more})

    def published(self, row: Row) -> Published:
        """Return what was published, by the statement's row."""
        revision, at_ms, major_ms, partition_id = row
        commit = _plan(self._publication, revision, at_ms, major_ms, partition_id)
        return Published(revision=revision, at_ms=at_ms, is_replay=False, commit=commit)


def find_plain_append(
    publication: Publication, encoded: Mapping[str, r.EncodedSegment], now_ms: Callable[[], int]
) -> PlainAppend | None:
    """Return the publication as one that a statement may write; None if it does more than that."""
    if len(encoded) != 1 or publication.offsets or publication.after:
        return None
    commit = _plan(publication, 0, 0, 0, 0)
    if commit is None or len(commit.changes[0].segments) != 1:
        return None
    (change,) = commit.changes
    (segment,), (entry,) = change.segments, change.adds
    texts = encoded[segment.segment_id]
    params = {
        **_named(s.INSERT_COMMIT, r.commit_row(commit, [0], 0)),
        **_named(s.INSERT_SEGMENT, r.segment_row(segment, texts, 0, 0)),
        **_named(s.INSERT_ENTRY, r.entry_row(entry, 0, 0)),
        "datasource": change.datasource,
        "changes_max": chunk_rows.KEY_FRAME_MIN_CHANGES,
        "lease_id": publication.lease_id,
        "lease_kind": str(LeaseKind.WRITER),
    }
    return PlainAppend(publication, params, now_ms)


def _named(stated: Statement, row: Row) -> Params:
    return dict(zip(stated.sqlite.names, row, strict=True))


class _Ground:
    """A datasource with the one chunk that a segment was written for."""

    def __init__(self, version: SegmentVersion, next_partition_id: int) -> None:
        self._version = version
        self._next_partition_id = next_partition_id

    def chunks(self, datasource: str, interval: Interval) -> Sequence[Chunk]:
        """Return the chunk, whatever datasource and interval are."""
        del datasource
        return [
            Chunk(
                interval=interval,
                version=self._version,
                next_partition_id=self._next_partition_id,
                entries=1,
                revision=0,
            )
        ]


def _plan(
    publication: Publication, revision: int, at_ms: int, major_ms: int, partition_id: int
) -> Commit | None:
    ground = _Ground(SegmentVersion(major_ms, 0), partition_id)
    return plan_append(ground, publication, revision=revision, at_ms=at_ms)
