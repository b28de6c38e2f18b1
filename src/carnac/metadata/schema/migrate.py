"""Creating a store and bringing an older one up to date.

Opening an up-to-date store costs one small query. Otherwise one process migrates while the others wait for the writers'
lock, look again, and find nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable

from carnac.errors import Corrupt, Invalid, NotFound
from carnac.metadata.database import Database, translated
from carnac.metadata.schema.layout import VERSION_TABLE, layout
from carnac.metadata.session import Session
from carnac.metadata.sql import statements as s
from carnac.metadata.sql.dialects import SqlText, Statement

STEPS: tuple[tuple[str, Callable[[str], str]], ...] = (("0113", layout),)
"""The versions of the tables, and what leads to each from the one before: statements, by the kind of the database.

A change before the first release changes the layout and its version, and older stores are refused. The first change
after it writes down here what the layout was, and adds a step. No step is edited once released.
"""

_HAS_VERSION = Statement(
    sqlite=SqlText(f"SELECT count(*) FROM sqlite_master WHERE name = '{VERSION_TABLE}'"),
    postgresql=SqlText(f"SELECT count(to_regclass('{VERSION_TABLE}'))"),
)


def head_version() -> str:
    """Return the version that this Carnac reads and writes."""
    return STEPS[-1][0]


def migrate_if_needed(
    database: Database, *, now_ms: Callable[[], int], new_id: Callable[[], str], create: bool
) -> None:
    """Bring the tables up to date.

    Args:
        now_ms: Tells the time at which a store is made.
        new_id: Gives the id of a store that is made.
        create: Make them if there are none.

    Raises:
        NotFound: There are none, and `create` is not set.
        Invalid: The store was made by a newer Carnac, or before the first release.
        Unavailable: The database does not answer.
    """
    if _find_version(database) == head_version():
        return
    at_ms = now_ms()
    with translated(database), database.migrate_lock() as session:
        has_version = session.row(_HAS_VERSION)
        row = session.row(s.STORE_VERSION) if has_version and has_version[0] else None
        if row is None and not create:
            raise NotFound("the database holds no metadata store; make one with: carnac init")
        _upgrade(session, None if row is None else str(row[0]))
        if session.row(s.ORIGIN) is None:
            session.run(s.INSERT_ORIGIN, id=1, created_at_ms=at_ms, store_id=new_id())


def _upgrade(session: Session, version: str | None) -> None:
    """Bring the tables from a version (None: there are none) to the newest, in the session's transaction."""
    known = [name for name, _ in STEPS]
    if version is not None and version not in known:
        raise Invalid(
            f"the metadata store has format {version}, of a newer Carnac or from before the first "
            "release, which this one does not read; use the version that wrote it, or make a new store"
        )
    for name, statements in STEPS[0 if version is None else known.index(version) + 1 :]:
        session.control(statements(session.kind))
        session.control(f"DELETE FROM {VERSION_TABLE}")
        session.control(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{name}')")


def _find_version(database: Database) -> str | None:
    """Return the version of the tables; None if it cannot be read (the slow path finds the reason).

    Raises:
        Corrupt: The database is damaged.
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
