"""The common part of a metadata store on SQL: its database, and the queue in front of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from carnac.errors import Revoked, Unavailable
from carnac.metadata.database import translated
from carnac.metadata.publish.queue import CommitQueue, JointWork, commit_group
from carnac.metadata.sql import statements as s
from carnac.ports.closing import Closing

if TYPE_CHECKING:
    from carnac.metadata.database import Database
    from carnac.metadata.session import Session
    from carnac.ports import Clock, IdSource

T = TypeVar("T")


class _Shared(threading.local):
    """Per thread: the session of the state that it reads."""

    session: Session | None = None


class SqlTransactions(Closing):
    """The transactions of a store; each part of it asks for its own."""

    def __init__(self, database: Database, *, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._store_id: str | None = None
        self._shared = _Shared()
        self._queue = CommitQueue(partial(commit_group, database), database.check_writable)

    def close(self) -> None:
        """Finish what is on its way, and release connections. Idempotent."""
        with suppress(Unavailable):  # closed already, or a forked child's copy
            self._queue.drain()
        self._database.close()

    @property
    def store_id(self) -> str:
        """The store's random id, the same wherever and whenever it is opened."""
        if self._store_id is None:  # `cached_property` would read under one lock for all stores
            with self._read() as session:
                self._store_id = store_id_of(session)
        return self._store_id

    def _write_own(self, work: Callable[[Session], T], *, is_durable: bool) -> T:
        """Write if the database still holds the store that this process serves; raises Revoked."""
        serves = self.store_id

        def checked(session: Session) -> T:
            holds = store_id_of(session)
            if holds != serves:
                raise Revoked(
                    f"the database holds store {holds} now, and this process serves store {serves}; start it anew",
                    store_id=holds,
                )
            return work(session)

        return self._queue.submit(checked, is_durable=is_durable)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Have all that this thread reads inside see one state, in one transaction; for moments, without writes."""
        if self._shared.session is not None:
            yield
            return
        with self._read() as session:
            self._shared.session = session
            try:
                yield
            finally:
                self._shared.session = None

    def _read(self) -> AbstractContextManager[Session]:
        session = self._shared.session
        return self._begin_reading() if session is None else nullcontext(session)

    @contextmanager
    def _begin_reading(self) -> Iterator[Session]:
        with translated(self._database), self._database.read() as session:
            yield session

    def _write(self, work: Callable[[Session], T]) -> T:
        return self._queue.submit(work)

    def _write_together(
        self, run: Callable[[Session, Sequence[Any]], Sequence[T]], argument: object
    ) -> T:
        """Write what others may write with it in one go: see `JointWork`."""
        return self._queue.submit(
            lambda session: run(session, [argument])[0], joint=JointWork(run, argument)
        )

    def _write_lease(self, work: Callable[[Session], T]) -> T:
        """Write a change that a power cut may take back, since it ends the holders of leases on local files, too."""
        return self._queue.submit(work, is_durable=False)


def store_id_of(session: Session) -> str:
    """Return the id of the store that the database holds."""
    row = session.row(s.STORE_ID)
    return "" if row is None else str(row[0])
