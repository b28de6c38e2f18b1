"""The first tables.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    _create_origin()
    _create_settings()
    _create_datasources()
    _create_commits()
    _create_commit_datasources()
    _create_covers()
    _create_batches()
    _create_schemas()
    _create_segments()
    _create_entries()
    _create_chunks()
    _create_key_frames()
    _create_lookups()
    _create_tags()
    _create_leases()


def _create_origin() -> None:
    op.create_table(
        "origin",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_settings() -> None:
    op.create_table(
        "settings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_datasources() -> None:
    op.create_table(
        "datasources",
        sa.Column(
            "datasource_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("datasource_id"),
        sa.UniqueConstraint("name", name="datasources_by_name"),
    )


def _create_commits() -> None:
    op.create_table(
        "commits",
        sa.Column(
            "revision",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=True),
        sa.Column("writer", sa.Text(), nullable=True),
        sa.Column("batch", sa.Text(), nullable=True),
        sa.Column("base_revision", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision"),
    )


def _create_commit_datasources() -> None:
    op.create_table(
        "commit_datasources",
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("segments", sa.BigInteger(), nullable=False),
        sa.Column("entries_added", sa.BigInteger(), nullable=False),
        sa.Column("entries_dropped", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("covers", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("datasource_id", "revision", name="commit_datasources_key"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "commit_datasources_by_revision", "commit_datasources", ["revision"], unique=False
    )


def _create_covers() -> None:
    op.create_table(
        "covers",
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("datasource_id", "revision", "start_ms", name="covers_key"),
        sqlite_with_rowid=False,
    )


def _create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("writer", "batch", name="batches_key"),
        sqlite_with_rowid=False,
    )


def _create_schemas() -> None:
    op.create_table(
        "schemas",
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("first_key", sa.BigInteger(), nullable=False),
        sa.Column("segments", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("datasource_id", "digest", name="schemas_key"),
        sqlite_with_rowid=False,
    )


def _create_segments() -> None:
    op.create_table(
        "segments",
        sa.Column(
            "segment_key",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("trashed_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("segment_key"),
        sa.UniqueConstraint("segment_id", name="segments_by_id"),
    )


def _create_entries() -> None:
    op.create_table(
        "entries",
        sa.Column(
            "entry_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("segment_key", sa.BigInteger(), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("chunk_start", sa.BigInteger(), nullable=False),
        sa.Column("chunk_end", sa.BigInteger(), nullable=False),
        sa.Column("span_start", sa.BigInteger(), nullable=False),
        sa.Column("span_end", sa.BigInteger(), nullable=False),
        sa.Column("shown_start", sa.BigInteger(), nullable=False),
        sa.Column("shown_end", sa.BigInteger(), nullable=False),
        sa.Column("clip", sa.Text(), nullable=True),
        sa.Column("major_ms", sa.BigInteger(), nullable=False),
        sa.Column("minor", sa.BigInteger(), nullable=False),
        sa.Column("partition_id", sa.BigInteger(), nullable=False),
        sa.Column("overshadowed", sa.Text(), nullable=False),
        sa.Column("update_group", sa.Text(), nullable=False),
        sa.Column("dropped_revision", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("entry_id"),
    )
    op.create_index(
        "entries_by_drop",
        "entries",
        ["dropped_revision"],
        unique=False,
        sqlite_where=sa.text("dropped_revision IS NOT NULL"),
        postgresql_where=sa.text("dropped_revision IS NOT NULL"),
    )
    op.create_index("entries_by_segment", "entries", ["segment_key"], unique=False)
    op.create_index(
        "entries_gone",
        "entries",
        ["datasource_id", "chunk_start", "chunk_end", "entry_id"],
        unique=False,
        sqlite_where=sa.text("dropped_revision IS NOT NULL"),
        postgresql_where=sa.text("dropped_revision IS NOT NULL"),
    )
    op.create_index(
        "entries_live",
        "entries",
        ["datasource_id", "chunk_start", "chunk_end", "entry_id"],
        unique=False,
        sqlite_where=sa.text("dropped_revision IS NULL"),
        postgresql_where=sa.text("dropped_revision IS NULL"),
    )


def _create_chunks() -> None:
    op.create_table(
        "chunks",
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("major_ms", sa.BigInteger(), nullable=False),
        sa.Column("minor", sa.BigInteger(), nullable=False),
        sa.Column("top_major_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_partition_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("shown_start", sa.BigInteger(), nullable=True),
        sa.Column("shown_end", sa.BigInteger(), nullable=True),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("datasource_id", "start_ms", "end_ms", name="chunks_key"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "chunks_live",
        "chunks",
        ["datasource_id", "start_ms"],
        unique=True,
        sqlite_where=sa.text("entries > 0"),
        postgresql_where=sa.text("entries > 0"),
    )


def _create_key_frames() -> None:
    op.create_table(
        "key_frames",
        sa.Column("datasource_id", sa.BigInteger(), nullable=False),
        sa.Column("chunk_start", sa.BigInteger(), nullable=False),
        sa.Column("chunk_end", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("entry_ids", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint(
            "datasource_id", "chunk_start", "chunk_end", "revision", name="key_frames_key"
        ),
    )


def _create_lookups() -> None:
    op.create_table(
        "lookups",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("added_revision", sa.BigInteger(), nullable=False),
        sa.Column("dropped_revision", sa.BigInteger(), nullable=True),
        sa.Column("mapping", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "added_revision", name="lookups_key"),
    )
    op.create_index("lookups_by_revision", "lookups", ["added_revision"], unique=False)


def _create_tags() -> None:
    op.create_table(
        "tags",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("acquired_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lease_id"),
    )
    op.create_index("leases_by_expiry", "leases", ["expires_at_ms"], unique=False)
