"""Empty metadata stores in files, many and soon made."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path

import apsw

from carnac.metadata.backends.sqlite_driver import connect
from carnac.metadata.backends.temporary import empty_file
from carnac.metadata.sql.columns import FIRST_UNSETTLED_KEY, TABLES
from carnac.metadata.sql.dialects import statement
from carnac.metadata.store import MetadataStore

NAME = "metadata.db"
PAGE_BYTES = 4096


def lay_database(path: Path, *, created_at_ms: int) -> str:
    """Return the URL of a metadata store in a file, empty if the file was not there yet.

    It is what opening would make, byte for byte.
    """
    if not path.exists():
        path.write_bytes(_empty_database(created_at_ms))
    return f"sqlite:///{path}"


def table_counts(store: MetadataStore) -> dict[str, int]:
    """Return the number of rows of each table; of `schemas`, with those that a later commit will add."""
    schemas = f"""(
        SELECT datasource_id, digest FROM schemas
        UNION
        SELECT datasource_id, digest FROM segments WHERE segment_key >= {FIRST_UNSETTLED_KEY}
    ) AS known"""
    with store._read() as session:
        tables = {name: name for name in sorted(TABLES)} | {"schemas": schemas}
        texts = {name: statement(f"SELECT count(*) FROM {rows}") for name, rows in tables.items()}
        return {name: (session.row(text) or (0,))[0] for name, text in texts.items()}


@contextmanager
def edited(path: Path) -> Iterator[apsw.Connection]:
    """Open the file of a store to change what is in it behind the store's back; Python's own driver would spoil it.

    That one writes pages without their checksums.
    """
    with closing(connect(path, ())) as link:
        yield link


@lru_cache(maxsize=16)
def _empty_database(created_at_ms: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(empty_file())
        with edited(path) as link:
            link.execute(
                "UPDATE origin SET created_at_ms = ?, store_id = hex(randomblob(8))",
                [created_at_ms],
            )
        return path.read_bytes()


def wrong_pages(path: Path) -> list[int]:
    """Return the numbers of the pages in a file whose checksums are wrong; it was opened before, and is no more."""
    data = path.read_bytes()
    with closing(apsw.Connection(":memory:")) as link:
        verify = "SELECT verify_checksum(?)"
        return [
            place // PAGE_BYTES + 1
            for place in range(0, len(data), PAGE_BYTES)
            if link.execute(verify, [data[place : place + PAGE_BYTES]]).get != 1
        ]
