"""Creating a store and bringing an older one up to date.

Opening an up-to-date store costs one small query and imports neither SQLAlchemy nor Alembic. Otherwise one process
migrates while the others wait for the writers' lock, look again, and find nothing to do.
"""

from __future__ import annotations

from carnac.errors import Corrupt, NotFound
from carnac.metadata.database import Database, translated
from carnac.metadata.sql import statements as s

HEAD_VERSION = "0102"
"""The newest migration in `migrations/versions`."""


def migrate_if_needed(database: Database, *, now_ms: int, create: bool) -> None:
    """Bring the tables up to date.

    Args:
        create: Make them if there are none.

    Raises:
        NotFound: There are none, and `create` is not set.
        Invalid: The store was made by a newer Carnac, or before the first release.
        Unavailable: The database does not answer.
    """
    if _find_version(database) == HEAD_VERSION:
        return
    from carnac.metadata.schema.upgrade import read_version, upgrade

    with translated(database), database.migrate_lock() as session:
        version = read_version(session)
        if version == HEAD_VERSION:
            return
        if version is None and not create:
            raise NotFound("the database holds no metadata store; make one with: carnac init")
        upgrade(session, version, HEAD_VERSION, now_ms)


def _find_version(database: Database) -> str | None:
    """Return the version of the tables; None if it cannot be read: the slow path knows why.

    Raises:
        Corrupt: What is there is damaged.
    """
    try:
        with database.read() as session:
            row = session.row(s.STORE_VERSION)
    except NotFound:
        return None
    except Exception as error:
        meant = database.translate(error)
        if meant is None:
            raise
        if isinstance(meant, Corrupt):
            raise meant from error
        return None
    return None if row is None else str(row[0])
