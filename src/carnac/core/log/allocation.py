"""Segment allocation: the place of a segment, settled before it is published.

A *pending segment* is a reservation: of a time chunk, a major version there, and a partition id. A writer of segments
under segment locks asks for one whenever it begins a segment (best-effort rollup), or for all before it writes
(perfect rollup); publish then gives the segment that place. Where the chunk has changed meanwhile the reservation
lapses, and publish finds a place as it does for everybody else: an append never fails for it.

The chunk is the one that exists where the row's time is, whatever its granularity; else one that others have reserved;
else the bucket of the segment granularity, or the largest finer standard granularity that fits (`core/log/layout.py`).

Idempotent by (datasource, sequence, previous id), as Druid's `segmentAllocate` is: a writer that did not hear the
answer, or a second attempt at the same work, gets the same places in the same order.

Sources: the segment locking proposal, "Segment allocation"; Druid's behaviour, of which we keep the key, the choice of
the chunk and that numbers only grow. A chunk of another granularity never makes it fail, as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from carnac.core.locks.events import Granted, LockReply, Lost, Refused, RequestLock, Waits
from carnac.core.locks.model import Lock, LockGranularity, LockType, describe_end
from carnac.core.log.entries import Chunk
from carnac.core.log.layout import find_free_cell
from carnac.core.segments.version import IdRanges
from carnac.core.texts import KEY_MAX, check_name
from carnac.core.time.granularity import Granularity, parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, format_ms, interval_set, interval_text
from carnac.errors import CarnacError, Conflict, Revoked

Key: TypeAlias = tuple[str, str, str]
"""Datasource, sequence, previous id: requests that agree in these are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationLock:
    """The lock that the owner must hold where it gets a place; asked for in the same transaction.

    Attributes:
        granularity: Segment: a lock on the segments that the owner is going to add to the chunk. Time chunk: on all.
    """

    group_id: str
    type: LockType
    granularity: LockGranularity
    priority: int
    timeout_ms: int
    lease_ms: int
    holder: str = ""

    def request(self, owner: str, datasource: str, chunk: Interval) -> RequestLock:
        """Return the request for a chunk."""
        is_segment = self.granularity is LockGranularity.SEGMENT
        return RequestLock(
            task_id=owner,
            group_id=self.group_id,
            datasource=datasource,
            interval=chunk,
            partitions=IdRanges() if is_segment else None,
            type=self.type,
            priority=self.priority,
            timeout_ms=self.timeout_ms,
            lease_ms=self.lease_ms,
            holder=self.holder,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRequest:
    """A writer wants a place for its next segment.

    Attributes:
        at_ms: Time of a row that the segment will hold.
        segment_granularity: Canonical text; decides where there is no chunk yet.
        sequence: Name of the writer's chain of segments. Another attempt at the same work uses the same name.
        previous_id: The place that the chain got before this one; empty for its first.
        owner: The attempt of a task, or whatever else the reservation ends with.
        lease_id: The writer's lease, if the reservation ends with that.
        lock: None: the owner needs none.
    """

    datasource: str
    at_ms: int
    segment_granularity: str
    sequence: str
    owner: str
    previous_id: str = ""
    lease_id: str | None = None
    lock: AllocationLock | None = None

    def __post_init__(self) -> None:
        """Refuse names that cannot be kept."""
        for text in (self.datasource, self.sequence, self.owner, self.previous_id):
            check_name(text, "a name in a request for a place", limit=KEY_MAX)
        if self.lock is not None:
            for text in (self.lock.group_id, self.lock.holder):
                check_name(text, "a name in the lock of a request for a place", limit=KEY_MAX)

    @property
    def key(self) -> Key:
        """The key by which a repeated request is recognised."""
        return (self.datasource, self.sequence, self.previous_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSegment:
    """A place that is kept for a segment until it is published or its owner is gone.

    Attributes:
        pending_id: The place as one word: datasource, chunk, version, partition id.
        major_ms: The chunk's major version; the reservation lapses when the chunk gets another.
    """

    pending_id: str
    datasource: str
    chunk: Interval
    major_ms: int
    partition_id: int
    sequence: str
    previous_id: str
    owner: str
    lease_id: str | None
    created_at_ms: int

    @property
    def key(self) -> Key:
        """The key by which a repeated request finds it."""
        return (self.datasource, self.sequence, self.previous_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChunk:
    """A time chunk that does not exist yet, and in which places are reserved.

    Attributes:
        next_partition_id: Greater than every partition id reserved in it.
    """

    datasource: str
    interval: Interval
    major_ms: int
    next_partition_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWaits:
    """The owner's lock is in the queue; nothing was allocated: ask again later."""

    blockers: tuple[Lock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The request can never succeed as it is."""

    error: CarnacError


AllocationReply: TypeAlias = PendingSegment | LockWaits | Denied
AskLock: TypeAlias = Callable[[RequestLock], LockReply]
"""Lets a request happen to the lockbox, in the transaction that writes the decision down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationDecision:
    """The outcome of requests.

    Attributes:
        replies: One for each request, in order.
        puts: New reservations.
        live: Chunks that exist, with the partition id that comes next in them now: reserved ones are used up.
        founded: Chunks that do not exist yet, as they are after this.
    """

    replies: tuple[AllocationReply, ...]
    puts: tuple[PendingSegment, ...]
    live: tuple[PendingChunk, ...]
    founded: tuple[PendingChunk, ...]


class AllocationView(Protocol):
    """The state that an allocation may read; the answers hold until the transaction ends."""

    def chunks(self, datasource: str, interval: Interval) -> Sequence[Chunk]:
        """Return the live chunks that overlap `interval`, in order of time."""
        ...

    def pending_chunks(self, datasource: str, interval: Interval) -> Sequence[PendingChunk]:
        """Return the reserved chunks that overlap `interval`, in any order."""
        ...

    def highest_major_ms(self, datasource: str, interval: Interval) -> int | None:
        """Return the highest major version on record, live or dropped, of chunks that overlap `interval`."""
        ...

    def find_pending(self, keys: Sequence[Key]) -> Sequence[PendingSegment]:
        """Return the reservations that were made for these requests."""
        ...


def decide_allocations(
    view: AllocationView,
    requests: Sequence[AllocationRequest],
    ask_lock: AskLock,
    *,
    at_ms: int,
    ended: Mapping[str, CarnacError],
) -> AllocationDecision:
    """Return what becomes of requests, in order. Nothing has happened until the decision is written down.

    Args:
        ended: Owners that are attempts which are over: nobody would take away what they got.
    """
    draft = _Draft(view, ask_lock, at_ms)
    known = {one.key: one for one in view.find_pending([one.key for one in requests])}
    replies: list[AllocationReply] = []
    puts: list[PendingSegment] = []
    for request in requests:
        found = known.get(request.key)
        if request.owner in ended:
            reply: AllocationReply = Denied(error=ended[request.owner])
        elif found is None:
            reply = draft.allocate(request)
            if isinstance(reply, PendingSegment):
                known[reply.key] = reply
                puts.append(reply)
        elif not found.chunk.holds(request.at_ms):
            reply = Denied(error=_diverges(request, found))
        else:
            reply = draft.kept_out(request, found.chunk) or found
        replies.append(reply)
    return AllocationDecision(
        replies=tuple(replies),
        puts=tuple(puts),
        live=draft.changed(is_live=True),
        founded=draft.changed(is_live=False),
    )


@dataclass(slots=True)
class _Cell:
    """A chunk, live or reserved, as this decision leaves it."""

    interval: Interval
    major_ms: int
    next_partition_id: int
    is_live: bool
    is_changed: bool = False
    _name: str = ""

    def pending_id(self, datasource: str, partition_id: int) -> str:
        """Return a place here as one word."""
        if not self._name:
            times = (self.interval.start_ms, self.interval.end_ms, self.major_ms)
            self._name = "_".join([datasource, *map(format_ms, times)])
        return f"{self._name}_{partition_id}"


class _Draft:
    """Chunks as far as they have been read, and what is allocated in them."""

    def __init__(self, view: AllocationView, ask_lock: AskLock, at_ms: int) -> None:
        self._view = view
        self._ask_lock = ask_lock
        self._at_ms = at_ms
        self._cells: dict[str, dict[Interval, _Cell]] = {}
        self._read: set[tuple[str, Interval]] = set()
        self._whole: dict[tuple[str, Interval], _Cell] = {}
        self._granularities: dict[str, Granularity] = {}
        self._asker = ""
        self._asked: dict[tuple[str, Interval], LockReply] = {}

    def allocate(self, request: AllocationRequest) -> AllocationReply:
        """Return a new place, or why there is none."""
        cell = self._choose(request)
        kept_out = self.kept_out(request, cell.interval)
        if kept_out is not None:
            return kept_out
        self._cells[request.datasource][cell.interval] = cell
        partition_id = cell.next_partition_id
        cell.next_partition_id += 1
        cell.is_changed = True
        return PendingSegment(
            pending_id=cell.pending_id(request.datasource, partition_id),
            datasource=request.datasource,
            chunk=cell.interval,
            major_ms=cell.major_ms,
            partition_id=partition_id,
            sequence=request.sequence,
            previous_id=request.previous_id,
            owner=request.owner,
            lease_id=request.lease_id,
            created_at_ms=self._at_ms,
        )

    def kept_out(self, request: AllocationRequest, chunk: Interval) -> LockWaits | Denied | None:
        """Ask for the owner's lock on a chunk; return None if it is held or not needed."""
        if request.lock is None:
            return None
        if request.owner != self._asker:  # a request of one owner may end a lock of another
            self._asker = request.owner
            self._asked.clear()
        key = (request.datasource, chunk)
        reply = self._asked.get(key)
        if reply is None:
            asked = request.lock.request(request.owner, request.datasource, chunk)
            reply = self._asked[key] = self._ask_lock(asked)
        if isinstance(reply, Granted):
            return None
        if isinstance(reply, Waits):
            return LockWaits(blockers=reply.blockers)
        return Denied(error=_not_granted(request, chunk, reply))

    def changed(self, *, is_live: bool) -> tuple[PendingChunk, ...]:
        """Return the chunks in which something was allocated."""
        return tuple(
            PendingChunk(
                datasource=datasource,
                interval=cell.interval,
                major_ms=cell.major_ms,
                next_partition_id=cell.next_partition_id,
            )
            for datasource, cells in self._cells.items()
            for cell in cells.values()
            if cell.is_changed and cell.is_live == is_live
        )

    def _choose(self, request: AllocationRequest) -> _Cell:
        """Return the chunk that is there, or one that would be made."""
        text = request.segment_granularity
        granularity = self._granularities.get(text)
        if granularity is None:
            granularity = self._granularities[text] = parse_granularity(text)
        bucket = granularity.bucket(request.at_ms)
        whole = self._whole.get((request.datasource, bucket))
        if whole is not None:
            return whole
        around = self._around(request.datasource, bucket)
        for cell in around:
            if cell.interval.holds(request.at_ms):
                if cell.interval.contains(bucket):  # as nearly always
                    self._whole[request.datasource, bucket] = cell
                return cell
        taken = interval_set(cell.interval for cell in around)
        free = IntervalSet((bucket,)).minus(taken)
        interval = find_free_cell(free, granularity, request.at_ms) if taken else bucket
        return _Cell(interval, self._new_major(request.datasource, interval), 0, is_live=False)

    def _around(self, datasource: str, bucket: Interval) -> list[_Cell]:
        """Return the chunks that overlap a bucket, live ones first; read once in a decision."""
        cells = self._cells.setdefault(datasource, {})
        if (datasource, bucket) not in self._read:
            self._read.add((datasource, bucket))
            for chunk in self._view.chunks(datasource, bucket):
                made = _Cell(
                    chunk.interval, chunk.version.major_ms, chunk.next_partition_id, is_live=True
                )
                cells.setdefault(chunk.interval, made)
            for pending in self._view.pending_chunks(datasource, bucket):
                if pending.interval not in cells and self._stands(pending):
                    cells[pending.interval] = _Cell(
                        pending.interval, pending.major_ms, pending.next_partition_id, is_live=False
                    )
        found = [cell for cell in cells.values() if cell.interval.overlaps(bucket)]
        return sorted(found, key=lambda cell: (not cell.is_live, cell.interval))

    def _stands(self, pending: PendingChunk) -> bool:
        """Whether nobody has made a chunk there since it was reserved."""
        highest_ms = self._view.highest_major_ms(pending.datasource, pending.interval)
        return highest_ms is None or highest_ms < pending.major_ms

    def _new_major(self, datasource: str, interval: Interval) -> int:
        """A major version above all that were ever there or are reserved."""
        majors = [one.major_ms for one in self._view.pending_chunks(datasource, interval)]
        highest_ms = self._view.highest_major_ms(datasource, interval)
        if highest_ms is not None:
            majors.append(highest_ms)
        return max([self._at_ms, *(major_ms + 1 for major_ms in majors)])


def _diverges(request: AllocationRequest, found: PendingSegment) -> Conflict:
    return Conflict(
        f"sequence {request.sequence} got {found.pending_id} after '{request.previous_id}' and asks for "
        f"{format_ms(request.at_ms)} now, which is not in that chunk; start a sequence of another name",
        sequence=request.sequence,
        pending_id=found.pending_id,
    )


def _not_granted(request: AllocationRequest, chunk: Interval, reply: LockReply) -> CarnacError:
    """Return the error for a lock that will not be granted."""
    if isinstance(reply, Refused):
        return Conflict(
            f"{request.owner} cannot wait for {request.datasource} {interval_text(chunk)}: it would "
            f"wait for itself through "
            f"{', '.join(reply.circle[1:])}; release its locks and start anew",
            owner=request.owner,
            circle=list(reply.circle),
        )
    lock = reply.lock if isinstance(reply, Lost) else None
    return Revoked(
        f"the lock of {request.owner} on {request.datasource} {interval_text(chunk)} {describe_end(lock)}; "
        f"nothing was allocated: stop",
        owner=request.owner,
    )
