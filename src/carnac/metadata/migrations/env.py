"""Run by Alembic: migrate on the connection and in the transaction that the store hands over."""

from __future__ import annotations

from alembic import context

from carnac.metadata import partial_indexes as _adds_them  # noqa: F401
from carnac.metadata.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
