"""Run by Alembic: write the migrations down as statements of the database that is asked for."""

from __future__ import annotations

from alembic import context

from carnac.metadata.schema import partial_indexes as _adds_them  # noqa: F401
from carnac.metadata.schema.tables import METADATA, VERSION_TABLE

context.configure(
    dialect_name=context.config.attributes["dialect"],
    as_sql=True,
    output_buffer=context.config.output_buffer,
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the transaction is the store's
)
with context.begin_transaction():
    context.run_migrations()
