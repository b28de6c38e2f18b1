"""Segment allocation as a service: many requests, from many threads, in one transaction.

While one transaction is being made, requests that come wait; the next one takes all of them, oldest first. So 16
clients that each ask for one place at a time cost one synced write for 16 places. The first of them to come back with
its next request would have the next transaction for itself, and the other 15 the one after it: so whoever makes one
waits a moment (`COMPANY_S`) for as many as were in the last. Who was kept waiting by a lock is told so and asks again:
no thread waits here for anything but company and the database.

Source: the limits are those of Druid's batched allocation queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from carnac.core.log.allocation import AllocationReply, AllocationRequest, PendingSegment
from carnac.errors import Invalid, Unavailable
from carnac.ports import MetadataStore

BATCH_LIMIT = 500
"""Requests in one transaction; bounds how long other writers wait for it."""
QUEUE_LIMIT = 2_000
"""Requests that wait; more are told to come again later."""
COMPANY_S = 0.001
"""How long a transaction waits for those who shared the last one; about as long as a transaction takes."""


class _Call:
    """What one thread asked for."""

    __slots__ = ("error", "is_done", "replies", "requests", "wake")

    def __init__(self, requests: Sequence[AllocationRequest]) -> None:
        self.requests = requests
        self.replies: tuple[AllocationReply, ...] = ()
        self.error: BaseException | None = None
        self.is_done = False
        self.wake = threading.Lock()


class AllocationService:
    """Places for segments, for tasks. Safe for many threads; other processes ask over HTTP, or have their own."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._mutex = threading.Lock()
        self._waiting: deque[_Call] = deque()
        self._queued = 0
        self._is_busy = False
        self._shared_by = 1  # calls in the last transaction
        self._company: threading.Lock | None = None  # held by who waits for as many

    def allocate(self, requests: Sequence[AllocationRequest]) -> tuple[AllocationReply, ...]:
        """Return what becomes of each request, in order; the locks that they need come with the places.

        Raises:
            Invalid: A request contradicts itself, or there are more than `BATCH_LIMIT`.
            Unavailable: Too many wait, or the database does not answer: ask again.
        """
        if len(requests) > BATCH_LIMIT:
            raise Invalid(
                f"{len(requests)} places were asked for at once; ask for at most {BATCH_LIMIT}"
            )
        call = _Call(requests)
        with self._mutex:
            if self._queued + len(requests) > QUEUE_LIMIT:
                raise Unavailable(
                    f"{self._queued} requests for places wait already; ask again later"
                )
            self._waiting.append(call)
            self._queued += len(requests)
            leads = not self._is_busy
            self._is_busy = True
            if not leads:
                call.wake.acquire()
            if self._company is not None and len(self._waiting) >= self._shared_by:
                self._company.release()
                self._company = None
        if not leads:
            call.wake.acquire()  # released by the thread that did it, or makes this one lead
        if not call.is_done:
            self._lead()
        if call.error is not None:
            raise call.error
        return call.replies

    def pending(
        self, *, owner: str | None = None, datasource: str | None = None
    ) -> tuple[PendingSegment, ...]:
        """Return the places that are kept, by datasource, chunk and partition id."""
        return self._metadata.pending_segments(owner=owner, datasource=datasource)

    def release(self, owner: str) -> int:
        """Give up all places of an owner; return how many there were. Idempotent."""
        return self._metadata.release_pending(owner)

    def _lead(self) -> None:
        """Do the oldest calls together, this thread's own first among them; then let the next one lead."""
        self._wait_for_company()
        with self._mutex:
            own = self._waiting.popleft()
            batch, size = [own], len(own.requests)
            while self._waiting and size + len(self._waiting[0].requests) <= BATCH_LIMIT:
                batch.append(self._waiting.popleft())
                size += len(batch[-1].requests)
            self._queued -= size
            self._shared_by = len(batch)
        try:
            self._run(batch)
        finally:
            for call in batch:
                call.is_done = True
                if call is not own:
                    call.wake.release()
            with self._mutex:
                self._is_busy = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].wake.release()

    def _wait_for_company(self) -> None:
        """Wait until as many calls are here as shared the last transaction, but only a moment."""
        with self._mutex:
            if len(self._waiting) >= self._shared_by:
                return
            company = self._company = threading.Lock()
            company.acquire()
        company.acquire(timeout=COMPANY_S)
        with self._mutex:
            self._company = None

    def _run(self, batch: Sequence[_Call]) -> None:
        """Make one transaction; if it fails for what one call asked, one for each of them."""
        try:
            replies = self._metadata.allocate([one for call in batch for one in call.requests])
        except Invalid as error:
            if len(batch) == 1:
                batch[0].error = error
                return
            for call in batch:
                self._run([call])
            return
        except BaseException as error:
            for call in batch:
                call.error = error
            if not isinstance(error, Exception):
                raise
            return
        at = 0
        for call in batch:
            call.replies = replies[at : at + len(call.requests)]
            at += len(call.requests)
