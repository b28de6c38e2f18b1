"""Pending segments: places that are kept for segments until they are published.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of pending segments and of the chunks that they found."""
    op.create_table(
        "pending_segments",
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("pending_id", sa.Text(), nullable=False),
        sa.Column("datasource", sa.Text(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("major_ms", sa.BigInteger(), nullable=False),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.Text(), nullable=False),
        sa.Column("previous_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request"),
        sa.UniqueConstraint("pending_id", name="pending_segments_by_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "pending_chunks",
        sa.Column("datasource", sa.Text(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("major_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_partition_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("datasource", "start_ms", "end_ms", name="pending_chunks_key"),
        sqlite_with_rowid=False,
    )
