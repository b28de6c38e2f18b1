"""Making and migrating the tables: Alembic writes what is to be done as a text, and is imported only then."""

from __future__ import annotations

import io
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from carnac.errors import Invalid
from carnac.metadata.schema.tables import VERSION_TABLE
from carnac.metadata.session import SQLITE, Session
from carnac.metadata.sql import statements as s
from carnac.metadata.sql.dialects import SqlText, Statement

_HAS_VERSION = Statement(
    sqlite=SqlText(f"SELECT count(*) FROM sqlite_master WHERE name = '{VERSION_TABLE}'"),
    postgresql=SqlText(f"SELECT count(to_regclass('{VERSION_TABLE}'))"),
)


def read_version(session: Session) -> str | None:
    """Return the version of the tables; None if there are none."""
    has_version = session.row(_HAS_VERSION)
    row = session.row(s.STORE_VERSION) if has_version and has_version[0] else None
    return None if row is None else str(row[0])


def upgrade(session: Session, version: str | None, wanted: str, now_ms: int) -> None:
    """Bring the tables from a version (None: there are none) to the one that is wanted, in the session's transaction.

    Raises:
        Invalid: They are of a version that this Carnac does not know.
    """
    written = io.StringIO()
    config = Config(output_buffer=written)
    config.set_main_option("script_location", str(files("carnac.metadata.schema") / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["dialect"] = "sqlite" if session.kind == SQLITE else "postgresql"
    known = {one.revision for one in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise Invalid(
            f"the metadata store has format {version}, of a newer Carnac or from before the first "
            "release, which this one does not read; use the version that wrote it, or make a new store"
        )
    command.upgrade(config, f"{version or 'base'}:{wanted}", sql=True)
    session.control(written.getvalue())
    if session.row(s.ORIGIN) is None:
        session.control(f"INSERT INTO origin (id, created_at_ms) VALUES (1, {now_ms:d})")
