"""Appends as text, for the process that holds the writers' lock to publish, and its answers.

Only plain appends travel: what they need to know of a new segment is little, and its record is text already, so that
it costs the holder of the lock a third of what it saves. A request is JSON, and behind it the texts of its segments as
they are, with a NUL before each: those are JSON too, which has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from carnac.core.log.commits import Change, Commit, CommitKind, DatasourceCommit, Publication
from carnac.core.log.entries import ENTRY_BITS
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval
from carnac.metadata import history
from carnac.metadata.rows import EncodedSegment, entry_of, entry_row
from carnac.metadata.session import Session
from carnac.metadata.texts import statements as s
from carnac.ports import Published

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_loads = json.JSONDecoder().decode
_BETWEEN = "\0"


class Since(NamedTuple):
    """A point in time: the newest revision that this process had met, and the clock."""

    revision: int
    at_ms: int


class Append(NamedTuple):
    """A publication that another process may publish for us.

    Attributes:
        encoded: The texts of its segments, by id.
    """

    publication: Publication
    encoded: Mapping[str, EncodedSegment]

    def find(self, session: Session, since: Since) -> Published | None:
        """Return what our publication became since we asked for it; None if it was not published: ids are used once."""
        first = self.publication.changes[0].adds[0].segment_id
        row = session.row(s.SEGMENT_KEYS, segment_ids=session.array([first]))
        if row is None:
            return None
        commit = history.load_commit(session, row[1] >> ENTRY_BITS)
        if commit.revision <= since.revision or commit.at_ms < since.at_ms:
            return None
        if (commit.writer, commit.batch) != (self.publication.writer, self.publication.batch):
            return None
        return Published(
            revision=commit.revision, at_ms=commit.at_ms, is_replay=False, commit=commit
        )


def dump_requests(origin_ms: int, appends: Sequence[Append]) -> bytes:
    """Return what to ask the holder of the lock for.

    Args:
        origin_ms: When the store was made that they are for.
    """
    texts = [_dumps([origin_ms, [_dump_append(one) for one in appends]])]
    for one in appends:
        for change in one.publication.changes:
            for segment in change.adds:
                encoded = one.encoded[segment.segment_id]
                texts += (encoded.record, encoded.schema)
    return _BETWEEN.join(texts).encode()


def load_requests(text: bytes, origin_ms: int) -> list[Append]:
    """Return the appends that were asked for; none if they are for another store.

    Their segments say what publishing asks of them and nothing else; their records are in `encoded`, whole.

    Raises:
        ValueError, TypeError, CarnacError: It is no request.
    """
    asked, *rest = text.decode().split(_BETWEEN)
    made_ms, appends = _loads(asked)
    texts = iter(rest)
    return [_parse_append(one, texts) for one in appends] if made_ms == origin_ms else []


def _parse_append(asked: list[Any], texts: Iterator[str]) -> Append:
    writer, batch, base_revision, offsets, message, lease_id, changes = asked
    encoded: dict[str, EncodedSegment] = {}
    return Append(
        Publication(
            kind=CommitKind.APPEND,
            changes=tuple(
                [
                    Change(
                        datasource=name,
                        adds=tuple([_parse_segment(name, one, texts, encoded) for one in segments]),
                        segment_granularity=granularity,
                    )
                    for name, granularity, segments in changes
                ]
            ),
            writer=writer,
            batch=batch,
            base_revision=base_revision,
            offsets=offsets,
            message=message,
            lease_id=lease_id,
        ),
        encoded,
    )


def dump_answers(found: Sequence[Published]) -> bytes:
    """Return the answer to requests: what they became, one by one."""
    return _dumps([_answer(one) for one in found]).encode()


def load_answers(text: bytes, appends: Sequence[Append]) -> list[Published]:
    """Return what our appends became, from the answer to them."""
    answers = _loads(text.decode())
    return [_load_outcome(one, answer) for one, answer in zip(appends, answers, strict=True)]


def _answer(published: Published) -> list[Any]:
    commit = published.commit
    return [
        published.revision,
        published.at_ms,
        published.is_replay,
        [
            [
                change.datasource,
                [entry_row(entry, 0, 0) for entry in change.adds],
            ]
            for change in (() if commit is None else commit.changes)
        ],
    ]


def _dump_append(append: Append) -> list[Any]:
    one = append.publication
    return [
        one.writer,
        one.batch,
        one.base_revision,
        dict(one.offsets),
        one.message,
        one.lease_id,
        [
            [
                change.datasource,
                change.segment_granularity,
                [
                    _segment(segment, append.encoded[segment.segment_id].digest)
                    for segment in change.adds
                ],
            ]
            for change in one.changes
        ],
    ]


def _load_outcome(append: Append, answer: list[Any]) -> Published:
    revision, at_ms, is_replay, changes = answer
    if is_replay:
        return Published(revision=revision, at_ms=at_ms, is_replay=True, commit=None)
    one = append.publication
    segments = {change.datasource: change.adds for change in one.changes}
    commit = Commit(
        revision=revision,
        kind=one.kind,
        at_ms=at_ms,
        changes=tuple(
            DatasourceCommit(
                datasource=name,
                segments=segments[name],
                adds=tuple(entry_of(row) for row in rows),
            )
            for name, rows in changes
        ),
        writer=one.writer,
        batch=one.batch,
        base_revision=one.base_revision,
        offsets=one.offsets,
        message=one.message,
    )
    return Published(revision=revision, at_ms=at_ms, is_replay=False, commit=commit)


def _segment(segment: Segment, digest: int) -> list[Any]:
    return [
        segment.segment_id,
        segment.chunk.start_ms,
        segment.chunk.end_ms,
        segment.path,
        segment.size_bytes,
        segment.rows,
        segment.input_rows,
        segment.min_time_ms,
        segment.max_time_ms,
        digest,
    ]


def _parse_segment(
    datasource: str, values: list[Any], texts: Iterator[str], encoded: dict[str, EncodedSegment]
) -> Segment:
    (
        segment_id,
        start_ms,
        end_ms,
        path,
        size_bytes,
        rows,
        input_rows,
        first_ms,
        last_ms,
        digest,
    ) = values
    record, schema = islice(texts, 2)
    encoded[segment_id] = EncodedSegment(record, schema, digest)
    return Segment(
        segment_id=segment_id,
        datasource=datasource,
        chunk=Interval(start_ms, end_ms),
        path=path,
        size_bytes=size_bytes,
        rows=rows,
        input_rows=input_rows,
        min_time_ms=first_ms,
        max_time_ms=last_ms,
        columns=(),
    )
