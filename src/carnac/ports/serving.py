"""A cluster that serves: its servers, their holdings, and the revision that brokers plan on.

Servers find one another through the metadata store and nothing else: `ServerRecords` is a part of it. A historical is
asked itself for its holdings (`SegmentServer`), so that a commit never waits for announcements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from carnac.core.segments.segment import Segment
    from carnac.ports.queries import LeafReport, LeafRequest


class Role(StrEnum):
    """The role of a process in a cluster. One process may have them all."""

    OVERLORD = "overlord"
    COORDINATOR = "coordinator"
    BROKER = "broker"
    HISTORICAL = "historical"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """A process that serves in one role, as it says itself in its heartbeats.

    Attributes:
        server_id: A historical's is kept beside its files, so that it is the same server after a restart; those of
            others are random, new with each start.
        url: Where others reach it: `grpc+tcp://…` or `grpc+tls://…` of a historical, `http://…` or `https://…` of the
            others.
        holder: Process and machine, for people.
        tier: Of a historical; empty for the others.
        capacity_bytes: Bytes that a historical may hold on its disk; 0 for the others.
        started_at_ms: When the process started, epoch milliseconds, UTC.
        heartbeat_at_ms: Its last sign of life, by the clock of the store.
        lease_ms: How long after it the server counts as alive; 0 once it has said goodbye.
        is_draining: It finishes what it runs and takes nothing new: it is about to stop.
        is_decommissioning: An operator wants it emptied; it serves meanwhile. Set by others, kept over restarts.
        planning_revision: Of a broker: new queries are planned on it; None for the others.
        oldest_revision: Of a broker: the oldest revision that a running query reads, `planning_revision` if none runs
            on an older one; None for the others.
    """

    server_id: str
    role: Role
    url: str
    holder: str
    tier: str = ""
    capacity_bytes: int = 0
    started_at_ms: int
    heartbeat_at_ms: int = 0
    lease_ms: int
    is_draining: bool = False
    is_decommissioning: bool = False
    planning_revision: int | None = None
    oldest_revision: int | None = None

    def is_other_than(self, before: ServerRecord) -> bool:
        """Whether the server was started anew, maybe elsewhere."""
        return (before.url, before.started_at_ms) != (self.url, self.started_at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The revision that brokers are told to plan on.

    Attributes:
        revision: Never decreases.
        fence: Of the coordinator's leadership that said so.
        at_ms: When, epoch milliseconds, UTC.
    """

    revision: int
    fence: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """One version of the load rules of a datasource, or of the default.

    Attributes:
        datasource: `_default` for those that hold where a datasource's own match nothing.
        rules: Druid's JSON list.
        author: Name of the author, for people; may be empty.
        comment: Why; may be empty.
        at_ms: When, epoch milliseconds, UTC.
    """

    datasource: str
    rules: str
    author: str
    comment: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The segments that a historical has loaded.

    Attributes:
        used_bytes: Of its disk.
        segment_ids: Of the segments.
    """

    used_bytes: int = 0
    segment_ids: Collection[str] = ()


class HoldState(StrEnum):
    """How a historical holds a segment that is assigned to it."""

    LOADING = "loading"
    """It is on its way; queries read it from deep storage meanwhile."""
    LOADED = "loaded"
    """Its file is on the server's disk, checked."""
    FAILED = "failed"
    """It could not be loaded; `Holding.error` says why. The coordinator decides what next."""


class Holding(NamedTuple):
    """A segment that is assigned to a historical.

    Attributes:
        segment_id: Of the segment.
        datasource: Of the segment.
        size_bytes: Of its file.
        state: How it is held.
        error: One sentence if it failed, else empty.
    """

    segment_id: str
    datasource: str
    size_bytes: int
    state: HoldState
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The holdings of a historical, or their changes since another inventory.

    Attributes:
        server_id: Of the historical.
        epoch: Random, new with each start: numbers of another epoch mean nothing.
        number: Grows with each change.
        is_whole: These are all holdings; else those that changed since the number that was asked with.
        holdings: Sorted by segment id.
        removed: Segment ids that are not held any more; empty if whole.
        used_bytes: Bytes on its disk, loading segments included.
        capacity_bytes: Bytes that it may hold.
        running: Queries that it runs now.
    """

    server_id: str
    epoch: str
    number: int
    is_whole: bool
    holdings: Sequence[Holding]
    removed: Sequence[str]
    used_bytes: int
    capacity_bytes: int
    running: int


class SegmentServer(Protocol):
    """A historical as coordinators and brokers reach it: over Arrow Flight, or in the same process.

    Orders, which assign or unassign, have a number: those of one fence are numbered in the order in which they were
    given, and one that comes after a newer one was taken, restarts included, changes nothing. The same one may come
    twice.

    Errors, besides those named: Unavailable when it cannot be reached, does not answer in time, or drains: another
    replica may be asked at once.
    """

    @property
    def server_id(self) -> str:
        """The server's id."""
        ...

    def assign(self, segments: Sequence[Segment], *, fence: int, number: int) -> None:
        """Let it load segments in this order; those that it has already are left as they are. Returns at once.

        Raises:
            Revoked: A coordinator with a higher fence has spoken; `leading` among the ids is that fence.
            Conflict: An order of this fence with a higher number was taken.
        """
        ...

    def unassign(self, segment_ids: Sequence[str], *, fence: int, number: int) -> None:
        """Let it forget segments; files go when no running query reads them. Loads that wait are cancelled.

        Raises:
            Revoked: A coordinator with a higher fence has spoken; `leading` among the ids is that fence.
            Conflict: An order of this fence with a higher number was taken.
        """
        ...

    def inventory(self, *, epoch: str = "", since: int = 0, wait_ms: int = 0) -> Inventory:
        """Return its holdings, or their changes since a number of an epoch.

        Args:
            wait_ms: If nothing has changed, wait as long for a change.
        """
        ...

    def run(self, request: LeafRequest) -> tuple[Iterator[object], LeafReport]:
        """Run one leaf's part of a statement; return its `pyarrow.RecordBatch`es, and the report on their basis.

        There is one batch at least, an empty one if need be, so that the columns are known. The report is complete
        when the batches are exhausted.

        Raises:
            Invalid, Corrupt, NotFound: As `QueryEngine.run_query`.
        """
        ...

    def cancel(self, query_id: str) -> None:
        """Stop the leaf statements of a query. Idempotent."""
        ...
