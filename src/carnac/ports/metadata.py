"""The metadata store: the log and what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from carnac.core.showing import Shown
from carnac.core.time.intervals import interval_text, time_text
from carnac.core.words import bytes_text, number_text

if TYPE_CHECKING:
    from carnac.core.log.commits import Commit
    from carnac.core.segments.segment import Segment
    from carnac.core.time.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Head(Shown):
    """The newest revision; 0 and the store's creation time before the first commit.

    Attributes:
        revision: 0 for a store without commits.
        at_ms: When it was published, epoch milliseconds, UTC; of revision 0, when the store was made.
    """

    revision: int
    at_ms: int

    def _facts(self) -> Mapping[str, str]:
        return {"revision": f"{self.revision}", "published": time_text(self.at_ms)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Published(Shown):
    """Outcome of a publish.

    Attributes:
        revision: Of the commit; of the first one if the batch had been published before.
        at_ms: When that was published, epoch milliseconds, UTC.
        is_replay: The `(writer, batch)` had been published before; `revision` is that first commit's, and nothing was
            changed. Its commit may have been trimmed since.
        commit: None on a replay.
    """

    revision: int
    at_ms: int
    is_replay: bool
    commit: Commit | None

    def _facts(self) -> Mapping[str, str]:
        return {
            "revision": f"{self.revision}",
            "published": time_text(self.at_ms),
            "before": "yes" if self.is_replay else "",
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tag(Shown):
    """A name for a revision; the revision stays readable while the tag exists.

    Attributes:
        name: Not empty, not a number and not a time.
        revision: That it keeps readable.
        created_at_ms: When it was set, or moved last.
    """

    name: str
    revision: int
    created_at_ms: int

    def _facts(self) -> Mapping[str, str]:
        return {
            "tag": self.name,
            "revision": f"{self.revision}",
            "made": time_text(self.created_at_ms),
        }


class LeaseKind(StrEnum):
    """The objects that a lease protects: revisions that are read, or files that are being written."""

    READER = "reader"
    WRITER = "writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A promise of the store that ends by itself.

    Attributes:
        lease_id: Unique.
        kind: A reader's or a writer's.
        revision: Reader: every revision from this one on stays readable. Writer: the base revision.
        holder: The holder, for people: host, process, command.
        acquired_at_ms: Files that are younger than the oldest live writer lease are nobody's orphans.
        expires_at_ms: After this instant the lease counts as gone.
        ttl_ms: How long before it the lease was given or renewed.
    """

    lease_id: str
    kind: LeaseKind
    revision: int
    holder: str
    acquired_at_ms: int
    expires_at_ms: int
    ttl_ms: int

    @property
    def heartbeat_at_ms(self) -> int:
        """When it was given or renewed; `core.time.leases.is_over` says whether it counts as gone."""
        return self.expires_at_ms - self.ttl_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedSegment:
    """A segment that no retained revision names, waiting for its file to be deleted."""

    segment: Segment
    trashed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatasourceInfo(Shown):
    """A datasource at a revision, in numbers.

    Attributes:
        name: As queries name it.
        segments: Of which something is visible.
        chunks: Time chunks that show something.
        rows: In these segments' files, hidden ones included.
        size_bytes: Of these files.
        interval: From the first row of these files to behind the last one; None if there are none.
        revision: Of the last commit that changed it.
    """

    name: str
    segments: int
    chunks: int
    rows: int
    size_bytes: int
    interval: Interval | None
    revision: int

    def _facts(self) -> Mapping[str, str]:
        return {
            "datasource": self.name,
            "rows": number_text(self.rows),
            "segments": number_text(self.segments),
            "size": bytes_text(self.size_bytes),
            "time": "" if self.interval is None else interval_text(self.interval),
            "revision": f"{self.revision}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimReport:
    """The report of a trim, or of its dry run.

    Attributes:
        trashed: Segments newly in the trash.
        batches_forgotten: How many `(writer, batch)` are not known any more.
        reasons: For each retained, non-visible segment id: why it stays (for example `tag 'v1' at revision 7`).
    """

    revisions_kept: int
    revisions_trimmed: int
    oldest_revision: int
    trashed: tuple[Segment, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    batches_forgotten: int = 0
