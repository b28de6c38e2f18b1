"""A request's place in the queue of locks is that of its priority: nothing else is stored of it.

Revision ID: 0006
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the priority of the queue."""
    op.drop_column("locks", "queue_priority")
