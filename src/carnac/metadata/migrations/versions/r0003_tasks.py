"""Tasks, their attempts, and who leads.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of tasks."""
    _create_tasks()
    _create_task_payloads()
    _create_task_waits()
    _create_task_attempts()
    _create_task_reports()
    _create_task_numbers()
    _create_leaders()


def _create_tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("datasource", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("dependencies", sa.Text(), nullable=False),
        sa.Column("waits_for", sa.Text(), nullable=False),
        sa.Column("retry_limit", sa.BigInteger(), nullable=False),
        sa.Column("retry_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("retry_longest_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("wakes_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("task_id"),
        sa.UniqueConstraint("number", name="tasks_by_number"),
    )
    op.create_index("tasks_by_datasource", "tasks", ["datasource", "number"], unique=False)
    op.create_index("tasks_by_end", "tasks", ["finished_at_ms"], unique=False)
    op.create_index("tasks_by_state", "tasks", ["state", "priority", "number"], unique=False)


def _create_task_payloads() -> None:
    op.create_table(
        "task_payloads",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )


def _create_task_waits() -> None:
    op.create_table(
        "task_waits",
        sa.Column("waits_for", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("waits_for", "task_id", name="task_waits_key"),
        sqlite_with_rowid=False,
    )
    op.create_index("task_waits_by_task", "task_waits", ["task_id"], unique=False)


def _create_task_attempts() -> None:
    op.create_table(
        "task_attempts",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("slots", sa.BigInteger(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("handle", sa.Text(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("heartbeat_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("is_settled", sa.BigInteger(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("task_id", "number", name="task_attempts_key"),
    )
    op.create_index(
        "task_attempts_live",
        "task_attempts",
        ["task_id", "number"],
        unique=False,
        sqlite_where=sa.text("is_settled = 0"),
        postgresql_where=sa.text("is_settled = 0"),
    )


def _create_task_reports() -> None:
    op.create_table(
        "task_reports",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number", name="task_reports_key"),
    )


def _create_task_numbers() -> None:
    op.create_table(
        "task_numbers",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("last_number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_leaders() -> None:
    op.create_table(
        "leaders",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("leader_id", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("lease_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("role"),
    )
