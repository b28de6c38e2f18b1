"""The layout of the first release: the tables as `carnac.metadata.schema.tables` states them.

A change before that release changes the tables and this revision's number, and older stores are refused. The first
change after it writes down here what the tables were.

Revision ID: 0102
"""

from __future__ import annotations

from alembic import op

from carnac.metadata.schema.tables import METADATA

revision = "0102"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    METADATA.create_all(op.get_bind())
