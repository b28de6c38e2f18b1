"""Making and migrating the tables, with Alembic: imported only then."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Engine, insert, select, text

from carnac.errors import Invalid
from carnac.metadata import tables as t
from carnac.metadata.tables import VERSION_TABLE


def read_version(engine: Engine) -> str | None:
    """Return the version of the tables; None if there are none."""
    with engine.connect() as link:
        if not engine.dialect.has_table(link, VERSION_TABLE):
            return None
        return link.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def upgrade(engine: Engine, wanted: str, now_ms: int) -> None:
    """Bring the tables to the version that is wanted; make them if there are none.

    Raises:
        Invalid: They are of a version that this Carnac does not know.
    """
    config = Config()
    config.set_main_option("script_location", str(files("carnac.metadata") / "migrations"))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
    version = read_version(engine)
    if version is not None and version not in known:
        raise Invalid(
            f"the metadata store has format {version}, of a newer Carnac or from before the first "
            "release, which this one does not read; use the version that wrote it, or make a new store"
        )
    with engine.begin() as link:
        config.attributes["connection"] = link
        try:
            command.upgrade(config, wanted)
        except CommandError as error:
            raise Invalid(f"the metadata store cannot be migrated: {error}") from error
        if link.execute(select(t.origin.c.id)).first() is None:
            link.execute(insert(t.origin), {"id": 1, "created_at_ms": now_ms})
