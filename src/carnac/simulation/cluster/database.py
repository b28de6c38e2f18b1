"""The one database of a simulation as each process reaches it: busy, broken, and silent about what it has committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from carnac.errors import CarnacError, Unavailable

if TYPE_CHECKING:
    from carnac.metadata.database import Database
    from carnac.metadata.session import Session
    from carnac.simulation.cluster.faults import Faults
    from carnac.simulation.cluster.kernel import Kernel


class _Reading:
    """A transaction that reads, for all who do so before the next commit; it ends with the last of them."""

    def __init__(self, transaction: AbstractContextManager[Session]) -> None:
        self._transaction = transaction
        self._session = transaction.__enter__()
        self._users = 0
        self._is_past = False

    def __enter__(self) -> Session:
        self._users += 1
        return self._session

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        self._end_if_over()

    def give_up(self) -> None:
        """Let nobody else read in it."""
        self._is_past = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._is_past and not self._users:
            self._transaction.__exit__(None, None, None)


class SharedDatabase:
    """The real database, each of whose states is read in one transaction: to begin one takes longer than to read.

    Args:
        database: Written by `SimulatedDatabase` alone, which says when.
    """

    is_far = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading: _Reading | None = None
        self.write, self.migrate_lock = database.write, database.migrate_lock
        self.translate, self.check_writable = database.translate, database.check_writable
        self.purge = database.purge

    def read(self) -> AbstractContextManager[Session]:
        """Open a transaction that reads, or go on with the one that is open."""
        if self._reading is None:
            self._reading = _Reading(self._database.read())
        return self._reading

    def forget(self) -> None:
        """Let later reads see another state."""
        if self._reading is not None:
            self._reading.give_up()
            self._reading = None

    def close(self) -> None:
        """Release connections, when nothing runs any more."""
        self.forget()
        self._database.close()


class SimulatedDatabase:
    """A process's way to the database. Others run before and after a transaction, never inside of one.

    Args:
        shared: The real database.
        on_commit: Called when something has been committed.
    """

    is_far = False

    def __init__(
        self,
        shared: SharedDatabase,
        kernel: Kernel,
        faults: Faults,
        on_commit: Callable[[], object],
    ) -> None:
        self._shared, self._kernel, self._faults = shared, kernel, faults
        self._on_commit = on_commit

    def close(self) -> None:
        """Leave it open for the others."""

    def check_writable(self) -> None:
        """Pass."""

    def read(self) -> AbstractContextManager[Any]:
        """Open a transaction that reads."""
        self._kernel.pause(0, 3)
        if self._faults.happens("database", "unread"):
            self._kernel.note("database: a read fails")
            raise Unavailable("the connection to the metadata store is broken; retry later")
        return self._shared.read()

    @contextmanager
    def write(self, *, is_durable: bool = True) -> Iterator[Any]:
        """Open a transaction that writes."""
        self._kernel.pause(0, 6)
        if self._kernel.is_main() and self._faults.happens("freeze", "stalled"):
            self._kernel.freeze(self._faults.rng.choice(self._faults.stalls_ms))
        if self._faults.happens("database", "busy"):
            self._kernel.note("database: another process keeps all writers waiting")
            self._kernel.sleep(3_000)
            raise Unavailable("process 1 on elsewhere has kept all other writers waiting; retry")
        with self._shared.write(is_durable=is_durable) as session:
            session.commit = partial(self._commit, session.commit)  # type: ignore[method-assign]
            yield session
        self._kernel.pause(0, 3)

    def _commit(self, commit: Callable[[], None]) -> None:
        """Commit, or break, or leave it unanswered."""
        if self._faults.happens("database", "broken"):
            self._kernel.note("database: a transaction is rolled back")
            raise Unavailable("the metadata store could not serialise the transaction; retry")
        self._shared.forget()
        commit()
        self._kernel.note("database: commit")
        self._on_commit()
        if self._faults.happens("database", "unknown"):
            self._kernel.note("database: the answer to a commit is lost")
            raise Unavailable("the connection to the metadata store broke during a commit; retry")

    def migrate_lock(self) -> AbstractContextManager[Any]:
        """Keep others from writing."""
        return self._shared.migrate_lock()

    def purge(self) -> bool:
        """Write the database anew."""
        return self._shared.purge()

    def translate(self, error: Exception) -> CarnacError | None:
        """Return what an error means."""
        return self._shared.translate(error)
