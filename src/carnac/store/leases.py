"""Leases of this process: renewed in the background while they are needed, gone within one ttl when it dies."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from carnac.errors import CarnacError
from carnac.ports import Lease, LeaseKind, MetadataStore


class LeaseKeeper:
    """Holds the reader lease of a store handle, and writer leases, and renews them from one daemon thread.

    All readers of a handle share one lease, on the oldest revision that any of them reads. It is released when the
    last reader is done and the handle is closed, or it was idle for a ttl.
    """

    def __init__(self, metadata: MetadataStore, *, holder: str, ttl_ms: int) -> None:
        self._metadata = metadata
        self._holder = holder
        self._ttl_ms = ttl_ms
        self._mutex = threading.Lock()
        self._reading: Counter[int] = Counter()
        self._reader: Lease | None = None
        self._writers: dict[str, Lease] = {}
        self._stop = threading.Event()
        self._renewer: threading.Thread | None = None

    @contextmanager
    def reading(self, revision: int) -> Iterator[None]:
        """Keep `revision` readable until the block ends.

        Raises:
            NotFound: It is not retained.
        """
        self.pin(revision)
        try:
            yield
        finally:
            with self._mutex:
                self._reading[revision] -= 1
                self._reading += Counter()

    def pin(self, revision: int) -> None:
        """Keep `revision` readable until the handle is closed."""
        with self._mutex:
            if self._reader is None:
                self._reader = self._metadata.acquire_lease(
                    LeaseKind.READER, holder=self._holder, ttl_ms=self._ttl_ms, revision=revision
                )
            elif revision < self._reader.revision:
                older = self._metadata.acquire_lease(
                    LeaseKind.READER, holder=self._holder, ttl_ms=self._ttl_ms, revision=revision
                )
                self._metadata.release_lease(self._reader.lease_id)
                self._reader = older
            self._reading[revision] += 1
            self._start()

    @contextmanager
    def writing(self) -> Iterator[Lease]:
        """Yield a writer lease that protects files written until the block ends."""
        lease = self._metadata.acquire_lease(
            LeaseKind.WRITER, holder=self._holder, ttl_ms=self._ttl_ms
        )
        with self._mutex:
            self._writers[lease.lease_id] = lease
            self._start()
        try:
            yield lease
        finally:
            with self._mutex:
                self._writers.pop(lease.lease_id, None)
            self._metadata.release_lease(lease.lease_id)

    def close(self) -> None:
        """Release everything and stop the thread. Idempotent."""
        self._stop.set()
        if self._renewer is not None:
            self._renewer.join()
        with self._mutex:
            if self._reader is not None:
                self._metadata.release_lease(self._reader.lease_id)
                self._reader = None

    def _start(self) -> None:
        if self._renewer is None:
            self._renewer = threading.Thread(
                target=self._run_renewals, name="carnac-leases", daemon=True
            )
            self._renewer.start()

    def _run_renewals(self) -> None:
        while not self._stop.wait(self._ttl_ms / 3000):
            with self._mutex:
                self._renew()

    def _renew(self) -> None:
        for lease in list(self._writers.values()):
            try:
                self._metadata.renew_lease(lease.lease_id, ttl_ms=self._ttl_ms)
            except CarnacError:
                # The publish that names this lease will be refused, and says so to its caller.
                self._writers.pop(lease.lease_id, None)
        if self._reader is None:
            return
        try:
            if self._reading:
                self._reader = self._metadata.renew_lease(
                    self._reader.lease_id, ttl_ms=self._ttl_ms, revision=min(self._reading)
                )
            else:
                self._metadata.release_lease(self._reader.lease_id)
                self._reader = None
        except CarnacError:
            # Expired, for example because the machine slept: the next reader takes a new one.
            self._reader = None
