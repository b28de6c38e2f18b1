"""Creating a store and bringing an older one up to date.

Opening an up-to-date store costs one small query and imports neither SQLAlchemy nor Alembic. Otherwise one process
migrates while the others wait for the writers' lock, look again, and find nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def table_names() -> Mapping[str, str]:
    """Return the tables of the store, each with what bounds it, for gauges and documentation."""
    return {
        "origin": "one row",
        "settings": "set by the operator",
        "datasources": "those with retained entries or segments",
        "commits": "retained revisions",
        "commit_datasources": "retained revisions, times the datasources each changed",
        "covers": "retained revisions; those of forgotten ones are united",
        "batches": "batch retention",
        "schemas": "distinct schemas of known segments",
        "segments": "retained revisions and the trash",
        "entries": "retained revisions",
        "chunks": "intervals of retained entries",
        "key_frames": "in proportion to entries",
        "lookups": "retained revisions",
        "tags": "set by the operator",
        "leases": "unexpired work",
        "locks": "what live tasks hold and wait for, and revocations of the last hour",
        "lock_numbers": "one row",
        "tasks": "those that are not over, and those that were within the task retention",
        "task_payloads": "tasks",
        "task_waits": "dependencies of tasks that wait",
        "task_attempts": "tasks, times their retries",
        "task_reports": "attempts",
        "task_numbers": "one row",
        "leaders": "one row for each role",
        "pending_segments": "what live tasks and writers have reserved and not published yet",
        "pending_chunks": "the pending segments",
        "servers": "processes that serve, or did within the last hour; historicals, within the last week",
        "told": "one row",
        "rules": "set by the operator",
        "rule_changes": "the newest hundred of each datasource that rules were set for",
        "compaction_specs": "the datasources",
        "compaction_chunks": "the time chunks of datasources that are compacted",
    }
