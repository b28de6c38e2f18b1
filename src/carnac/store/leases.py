"""Leases of this process: renewed in the background while they are needed, gone within one ttl when it dies."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.time.leases import is_over
from carnac.errors import CarnacError, DiskFull, NotFound, ReadOnly, Revoked, Unavailable
from carnac.ports import LeaseKind
from carnac.ports.loops import Loop

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock, Head, Lease
    from carnac.ports.loops import Wait

RENEWALS_IN_TTL = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """A revision that stays readable for now.

    Attributes:
        head: Number and time of the revision.
        is_held: Whether its files have been protected without a gap since the reading began. False after the lease ran
            out, for example because the machine slept, and always where no lease can be written. A file that is missing
            then is no sign of damage.
    """

    head: Head
    is_held: Callable[[], bool]


class LeaseKeeper:
    """Holds the reader lease and the writer leases of a store handle, and renews them from one daemon thread.

    All readers of a handle share one lease, on the oldest revision that any of them reads. It is released when the
    last reader is done and the handle is closed, or it was idle for a third of a ttl. So do writers, since one append
    follows another within milliseconds. Those that begin a ttl later take another lease: younger files than the lease
    of a writer at work are no garbage.
    Whoever reads what is being read already waits for no answer of the database.

    Args:
        wait: In place of waiting on the machine's clock, for tests; None: real time.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        *,
        clock: Clock,
        holder: str,
        ttl_ms: int,
        wait: Wait | None = None,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._holder = holder
        self._ttl_ms = ttl_ms
        # for what is known of writers, and held while the database is asked
        self._asking = threading.Lock()
        # for what is known of readers, and never held while the database is asked
        self._mutex = threading.Lock()
        self._reading: Counter[int] = Counter()
        self._heads: dict[int, Head] = {}  # of what is being read
        self._reader: Lease | None = None
        self._gaps = 0
        self._shared: Lease | None = None  # the one that the next writer takes
        self._writing: Counter[str] = (
            Counter()
        )  # at work, by the id of the lease that they share; in order
        self._has_written = False  # since the last renewal
        self._is_closed = False
        self._loop = Loop(
            "leases",
            self._renew,
            log=_log,
            period_ms=ttl_ms / RENEWALS_IN_TTL,
            wait=wait,
        )

    @contextmanager
    def reading(self, at: int | str | None) -> Iterator[Reading]:
        """Keep the revision that `at` means readable until the block ends.

        Raises:
            NotFound: There is no such revision, or it is not retained.
        """
        reading = self.pin(at)
        try:
            yield reading
        finally:
            revision = reading.head.revision
            with self._mutex:
                self._reading[revision] -= 1
                if not self._reading[revision]:
                    del self._reading[revision], self._heads[revision]

    def pin(self, at: int | str | None) -> Reading:
        """Keep the revision that `at` means readable until the handle is closed.

        Raises:
            NotFound: There is no such revision, or it is not retained.
        """
        with self._mutex:
            self._require_open()
            self._drop_expired_reader()
            known = self._find_known(at)
            if known is not None:
                return self._count_in(known)
        with self._asking:
            self._require_open()
            head = self._protect(at)
            with self._mutex:
                return self._count_in(head)

    @contextmanager
    def writing(self) -> Iterator[Lease]:
        """Yield a writer lease, which this handle's writers share; it protects files written until the block ends."""
        with self._asking:
            self._require_open()
            shared, now_ms = self._shared, self._clock.now_ms()
            if shared is None or is_over(shared.acquired_at_ms, self._ttl_ms, now_ms):
                shared = self._shared = self._metadata.acquire_lease(
                    LeaseKind.WRITER, holder=self._holder, ttl_ms=self._ttl_ms
                )
                self._loop.start()
            self._writing[shared.lease_id] += 1
            self._has_written = True
        try:
            yield shared
        except Revoked:
            with self._asking:
                self._drop_shared(shared.lease_id)
            raise
        finally:
            with self._asking:
                self._writing[shared.lease_id] -= 1
                if self._is_closed:
                    self._release_writers()

    def release_idle(self) -> None:
        """Release now what nobody uses: leases are kept for a while because the next query or write comes soon."""
        with self._asking:
            self._release_writers()
            with self._mutex:
                reader = None if self._reading else self._reader
            if reader is not None:
                self._hold(None)
                self._metadata.release_lease(reader.lease_id)

    def close(self) -> None:
        """Release the leases that are kept for the next reader or writer, and stop the thread. Idempotent.

        Raises:
            Unavailable: The database does not answer; the lease ends by itself.
        """
        self._is_closed = True
        self._loop.stop()
        with self._asking:
            self._release_writers()
            with self._mutex:
                reader = self._reader
                if reader is not None:
                    self._lose_reader()
            if reader is not None:
                with suppress(DiskFull):  # the rows were read whole, and the lease ends by itself
                    self._metadata.release_lease(reader.lease_id)

    def _renew(self) -> None:
        """Renew what is held, and let go of what has become idle."""
        with self._asking:
            self._release_writers(has_next=self._has_written)
            self._has_written = False
            self._renew_writers()
            self._renew_reader()

    def _require_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the store is closed; open it again")

    def _find_known(self, at: int | str | None) -> Head | None:
        """Return a revision that somebody reads, and that the lease protects; None: the database is to be asked."""
        known, reader = self._heads.get(at) if isinstance(at, int) else None, self._reader
        if known is None or reader is None or known.revision < reader.revision:
            return None
        return known

    def _count_in(self, head: Head) -> Reading:
        self._reading[head.revision] += 1
        self._heads[head.revision] = head
        is_protected, gaps = self._reader is not None, self._gaps
        return Reading(head, lambda: is_protected and self._has_no_gap_since(gaps))

    def _has_no_gap_since(self, gaps: int) -> bool:
        with self._mutex:
            self._drop_expired_reader()
            return self._gaps == gaps

    def _drop_expired_reader(self) -> None:
        reader, now_ms = self._reader, self._clock.now_ms()
        if reader is not None and is_over(reader.heartbeat_at_ms, reader.ttl_ms, now_ms):
            self._lose_reader()

    def _hold(self, reader: Lease | None) -> None:
        with self._mutex:
            self._reader = reader

    def _lose_reader(self) -> None:
        self._reader = None
        self._gaps += 1

    def _protect(self, at: int | str | None) -> Head:
        """Return the revision that `at` means, once a lease protects it, if one can be written."""
        with self._mutex:
            self._drop_expired_reader()
            reader = self._reader
        if reader is None:
            try:
                return self._protect_first(at)
            except (ReadOnly, DiskFull):
                return self._metadata.resolve(at)
        head = self._metadata.resolve(at)
        if head.revision < reader.revision:
            self._acquire_reader(head.revision)
            with suppress(CarnacError):  # it ends by itself
                self._metadata.release_lease(reader.lease_id)
        return head

    def _protect_first(self, at: int | str | None) -> Head:
        if at is None:  # one transaction: no collector comes between the question and the lease
            return self._metadata.resolve(self._acquire_reader(None).revision)
        head = self._metadata.resolve(at)
        self._acquire_reader(head.revision)
        return head

    def _acquire_reader(self, revision: int | None) -> Lease:
        """Hold a lease on a revision, in place of the one that is held, and keep it."""
        reader = self._metadata.acquire_lease(
            LeaseKind.READER, holder=self._holder, ttl_ms=self._ttl_ms, revision=revision
        )
        self._hold(reader)
        self._loop.start()
        return reader

    def _release_writers(self, *, has_next: bool = False) -> None:
        """Release leases under which nobody writes; where the database does not answer, they end by themselves.

        Args:
            has_next: Whether another writer is expected, who takes the newest lease.
        """
        kept = self._shared if has_next else None
        for lease_id in [one for one, count in self._writing.items() if not count]:
            if kept is None or lease_id != kept.lease_id:
                self._drop_shared(lease_id)
                del self._writing[lease_id]
                with suppress(CarnacError):
                    self._metadata.release_lease(lease_id)

    def _drop_shared(self, lease_id: str) -> None:
        """Have no further writer share a lease."""
        if self._shared is not None and self._shared.lease_id == lease_id:
            self._shared = None

    def _renew_writers(self) -> None:
        for lease_id in self._writing:
            try:
                self._metadata.renew_lease(lease_id, ttl_ms=self._ttl_ms)
            except Revoked:
                # The publish that names this lease will be refused, and says so to its caller.
                self._drop_shared(lease_id)
            except CarnacError:
                continue  # the database does not answer now: the lease may live until the next try

    def _renew_reader(self) -> None:
        with self._mutex:  # until this ends, nothing is read that is not read now
            reader, read = self._reader, sorted(self._reading)
        if reader is None:
            self._regain_reader(read)
            return
        try:
            if read:
                oldest = max(reader.revision, read[0])
                self._hold(
                    self._metadata.renew_lease(
                        reader.lease_id, ttl_ms=self._ttl_ms, revision=oldest
                    )
                )
                self._metadata.see_erasures()  # `pin` may not ask for a revision that is read all the time
            else:
                self._metadata.release_lease(reader.lease_id)
                self._hold(None)
        except (Revoked, NotFound):
            with self._mutex:
                self._lose_reader()
            self._regain_reader(read)
        except CarnacError:
            return  # the database does not answer now: the lease may live until the next try

    def _regain_reader(self, read: Sequence[int]) -> None:
        """Protect again what is being read, as far as it is still there."""
        for revision in read:
            try:
                self._acquire_reader(revision)
            except NotFound:
                continue
            except CarnacError:
                return
            else:
                return
