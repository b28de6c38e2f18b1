"""What the parts of a metadata store on SQL have in common: its database, and the queue in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from carnac.errors import Unavailable
from carnac.metadata.database import translated
from carnac.metadata.publish.queue import CommitQueue, commit_group

if TYPE_CHECKING:
    from carnac.metadata.database import Database
    from carnac.metadata.session import Session
    from carnac.ports import Clock, IdSource

T = TypeVar("T")


class SqlTransactions:
    """The transactions of a store; each part of it asks for its own."""

    def __init__(self, database: Database, *, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._queue = CommitQueue(partial(commit_group, database), database.check_writable)

    def close(self) -> None:
        """Finish what is on its way, and release connections. Idempotent."""
        with suppress(Unavailable):  # closed already, or a forked child's copy
            self._queue.drain()
        self._database.close()

    @contextmanager
    def _read(self) -> Iterator[Session]:
        with translated(self._database), self._database.read() as session:
            yield session

    def _write(self, work: Callable[[Session], T]) -> T:
        return self._queue.submit(work)

    def _write_lease(self, work: Callable[[Session], T]) -> T:
        """Write what a power cut may take back, as it ends whoever holds a lease on a file of this machine."""
        return self._queue.submit(work, is_durable=False)
