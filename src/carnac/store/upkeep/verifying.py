"""Whether the file of a segment is what its record says, asked of all of them at once or of a few at a time."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.segments.segment import Segment
from carnac.core.time.leases import is_over
from carnac.core.words import counted
from carnac.errors import CarnacError, Unavailable
from carnac.ports import Clock, DeepStorage
from carnac.ports.loops import until_stopped
from carnac.ports.segment_files import blocks_of, find_damage
from carnac.ports.storage import require_there

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore

VERIFY_PAGE = 1000
"""Records that are held at once."""
STATUS_KEY = "scrubbing"
"""The store's own setting that says how far scrubbing is and what it found."""
FAULTS_MAX = 100
"""Damaged segments that are remembered; more are logged."""
ROUND_MS = 86_400_000
"""A round over all segments begins no sooner after the last one began."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that verification found wrong.

    Attributes:
        kind: `missing`, `size`, `checksum`, `rows`, `unreadable`, `orphan`; `entry`: the two views of the log disagree.
        path: Path of the file, relative to the root of deep storage.
        detail: The fault, as a sentence.
    """

    kind: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubStatus:
    """How far the scrubbing of a store is.

    Attributes:
        after: The last segment that was looked at, in order of ids; empty: a round has not begun.
        began_at_ms: Begin of this round over all segments.
        ended_at_ms: End of the last whole round; None: none has ended.
        segments: Number of segments that were looked at in this round.
        faults: Faults that were found last, by segment id; at most `FAULTS_MAX`.
    """

    after: str = ""
    began_at_ms: int = 0
    ended_at_ms: int | None = None
    segments: int = 0
    faults: Mapping[str, str]


def load_scrub_status(metadata: MetadataStore) -> ScrubStatus:
    """Return what the store remembers of its scrubbing."""
    text = metadata.settings().get(STATUS_KEY)
    return ScrubStatus(faults={}) if text is None else ScrubStatus(**json.loads(text))


def save_scrub_status(metadata: MetadataStore, status: ScrubStatus) -> None:
    """Have the store remember it."""
    fields = {one.name: getattr(status, one.name) for one in dataclasses.fields(status)}
    metadata.put_settings({STATUS_KEY: json.dumps(fields)})


class Scrubber:
    """Verifies the segments of a store again and again, in order of their ids, so many bytes a second.

    The store remembers the place, so that the next process that scrubs goes on there. Nothing is repaired or deleted.

    Args:
        bytes_per_s: Bytes that are read per second on average; 0: none.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        clock: Clock,
        *,
        bytes_per_s: int,
    ) -> None:
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._read_at_ms = self._rest_ms = 0

    def run_round(self, period_ms: int, *, is_stopping: Callable[[], bool] | None = None) -> None:
        """Read what a period's share of the rate is, or one segment if that is larger, unless earlier ones were.

        Args:
            is_stopping: Asked before each file; None: never. Once it says so, the rest is left to the next process.

        Raises:
            Unavailable: The metadata store does not answer.
        """
        now_ms = self._clock.now_ms()
        status = load_scrub_status(self._metadata)
        is_waiting = not status.after and not is_over(status.began_at_ms, ROUND_MS, now_ms)
        is_resting = not is_over(self._read_at_ms, self._rest_ms, now_ms)
        if not self._bytes_per_s or is_waiting or is_resting:
            return
        most_bytes = self._bytes_per_s * period_ms // 1000
        faults, after, size_bytes, done = dict(status.faults), status.after, 0, 0
        page = self._metadata.segments(after=after, limit=VERIFY_PAGE)
        for segment in until_stopped(page, is_stopping):
            self._look_at(segment, faults)
            after, done, size_bytes = segment.segment_id, done + 1, size_bytes + segment.size_bytes
            if size_bytes >= most_bytes:
                break
        self._read_at_ms, self._rest_ms = now_ms, size_bytes * 1000 // self._bytes_per_s
        is_done = done == len(page) < VERIFY_PAGE
        told = ScrubStatus(
            after="" if is_done else after,
            began_at_ms=status.began_at_ms if status.after else now_ms,
            ended_at_ms=now_ms if is_done else status.ended_at_ms,
            segments=(status.segments if status.after else 0) + done,
            faults=self._still_there(faults) if is_done else faults,
        )
        save_scrub_status(self._metadata, told)

    def _look_at(self, segment: Segment, faults: dict[str, str]) -> None:
        try:
            found = find_fault(self._metadata, self._deep_storage, segment, tells_apart=True)
        except Unavailable as error:  # it may be whole: the next round looks again
            _log.warning("scrubbing could not read %s: %s", segment.path, error.message)
            return
        if found is None:
            faults.pop(segment.segment_id, None)
            return
        if faults.get(segment.segment_id) != found.detail:
            _log.error(
                "scrubbing found segment %s damaged: %s %s; put back a copy of the file or replace its rows",
                segment.segment_id,
                found.path,
                found.detail,
            )
        if len(faults) < FAULTS_MAX:
            faults[segment.segment_id] = found.detail

    def _still_there(self, faults: Mapping[str, str]) -> dict[str, str]:
        """Leave out segments that nothing names any more."""
        trash = {found.segment.segment_id for found in self._metadata.trashed()}
        return {
            segment_id: detail
            for segment_id, detail in faults.items()
            if segment_id not in trash and self._metadata.find_segment(segment_id) is not None
        }


def find_fault(
    metadata: MetadataStore,
    deep_storage: DeepStorage,
    segment: Segment,
    *,
    tells_apart: bool = False,
) -> Finding | None:
    """Return what is wrong with the file of a segment; None also where nothing names the segment any more.

    Args:
        tells_apart: Whether deep storage that does not answer is no fault of the file.

    Raises:
        Unavailable: Deep storage does not answer, and `tells_apart`.
    """
    finding = _fault(deep_storage, segment, tells_apart=tells_apart)
    if finding is None:
        return None
    trash = {found.segment.segment_id for found in metadata.trashed()}
    is_named = segment.segment_id not in trash and (
        metadata.find_segment(segment.segment_id) is not None
    )
    return finding if is_named else None


def _fault(deep_storage: DeepStorage, segment: Segment, *, tells_apart: bool) -> Finding | None:
    try:
        if deep_storage.find_file(segment.path) is None:
            require_there(deep_storage)
            detail = f"segment {segment.segment_id} has no file"
            return Finding(kind="missing", path=segment.path, detail=detail)
        with deep_storage.open_read(segment.path) as stream:
            damage = find_damage(segment, blocks_of(stream))
        if damage is not None:
            return Finding(kind=damage.kind, path=segment.path, detail=damage.detail)
        rows = _count_rows(deep_storage, segment)
    except (CarnacError, OSError) as error:
        if tells_apart and isinstance(error, Unavailable):
            raise
        return Finding(kind="unreadable", path=segment.path, detail=str(error))
    if rows != segment.rows:
        detail = f"has {counted(rows, 'row')}, recorded are {segment.rows}"
        return Finding(kind="rows", path=segment.path, detail=detail)
    return None


def _count_rows(deep_storage: DeepStorage, segment: Segment) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with deep_storage.open_read(segment.path) as stream:
        try:
            return int(pq.ParquetFile(stream).metadata.num_rows)
        except pa.ArrowException as error:
            raise OSError(f"is not a Parquet file: {error}") from None
