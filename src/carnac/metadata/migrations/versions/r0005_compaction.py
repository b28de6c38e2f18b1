"""How datasources are compacted, and what is known of their chunks.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of compaction."""
    op.create_table(
        "compaction_specs",
        sa.Column("datasource", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("datasource"),
    )
    op.create_table(
        "compaction_chunks",
        sa.Column("datasource", sa.Text(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("segments", sa.BigInteger(), nullable=False),
        sa.Column("judged_by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("priority_millionths", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("retry_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("arrived_bytes", sa.BigInteger(), nullable=False),
        sa.Column("rewritten_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("datasource", "start_ms", "end_ms", name="compaction_chunks_key"),
        sqlite_with_rowid=False,
    )
