"""Every statement is one that both databases understand, and names the columns that there are."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import LiteralString, cast

import apsw
import psycopg
import pytest

import carnac.metadata.sql
from carnac.core.log.entries import Entry
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.metadata.read.rows import entry_of, entry_row
from carnac.metadata.schema.layout import layout
from carnac.metadata.session import POSTGRESQL, SQLITE
from carnac.metadata.sql import statements, tasks
from carnac.metadata.sql.dialects import Statement, statement


def all_statements() -> dict[str, Statement]:
    found = {"listing": tasks.listing(tuple(tasks._CONDITIONS)), "all": tasks.listing(())}
    for module in iter_modules(carnac.metadata.sql.__path__):
        for name, value in vars(import_module(f"carnac.metadata.sql.{module.name}")).items():
            if isinstance(value, Statement):
                found[f"{module.name}.{name}"] = value
            elif isinstance(value, list):
                found |= {f"{module.name}.{name}{at}": one for at, one in enumerate(value)}
            elif name == "COUNTS":
                found |= {f"{module.name}.{at}": one for at, one in value.items()}
    assert len(found) > 200
    return found


def test_one_text_is_made_into_two() -> None:
    found = statement(
        "SELECT a FROM t\n  WHERE b = :b AND c IN :cs[] AND (d, e) IN :pairs[][] AND f LIKE '%x'"
    )
    assert found.sqlite.names == ("b", "cs", "pairs")
    assert found.sqlite.text == (
        "SELECT a FROM t WHERE b = ? AND c IN (SELECT value FROM json_each(?)) AND (d, e) IN "
        "(SELECT value ->> 0, value ->> 1 FROM json_each(?)) AND f LIKE '%x'"
    )
    assert found.postgresql.text == (
        "SELECT a FROM t WHERE b = %(b)s AND c = ANY(%(cs)s) AND (d, e) IN (SELECT value ->> 0, "
        "value ->> 1 FROM jsonb_array_elements(%(pairs)s::JSONB)) AND f LIKE '%%x'"
    )


def test_sqlite_understands_every_statement() -> None:
    link = apsw.Connection(":memory:")
    link.execute(layout(SQLITE))
    for one in all_statements().values():
        link.execute(f"EXPLAIN {one.sqlite.text}", (1,) * len(one.sqlite.names))


@pytest.mark.sql
def test_postgresql_understands_every_statement(postgresql_url: str) -> None:
    """With the types that the driver sends: numbers are BIGINT, and texts TEXT."""
    with psycopg.connect(postgresql_url) as link:
        link.execute(cast("LiteralString", layout(POSTGRESQL)))
        for at, one in enumerate(all_statements().values()):
            names = dict.fromkeys(one.sqlite.names)
            places = {name: f"${number}" for number, name in enumerate(names, start=1)}
            stated = f"PREPARE s{at} AS {one.postgresql.text % places}"
            link.execute(cast("LiteralString", stated))


def columns_of(table: str) -> tuple[str, ...]:
    link = apsw.Connection(":memory:")
    link.execute(layout(SQLITE))
    return tuple(str(row[1]) for row in link.execute(f"PRAGMA table_info({table})"))


@pytest.mark.parametrize(
    ("stated", "table"),
    [
        (statements.INSERT_COMMIT, "commits"),
        (statements.INSERT_COMMIT_DATASOURCE, "commit_datasources"),
        (statements.INSERT_COVER, "covers"),
        (statements.INSERT_BATCH, "batches"),
        (statements.INSERT_SEGMENT, "segments"),
        (statements.INSERT_ENTRY, "entries"),
        (statements.PUT_CHUNK, "chunks"),
        (statements.ADD_TO_SCHEMA, "schemas"),
    ],
)
def test_rows_that_are_written_have_the_order_of_their_table(stated: Statement, table: str) -> None:
    assert stated.sqlite.names == columns_of(table)


def test_the_values_of_a_row_are_where_their_names_are() -> None:
    """Those of entries that show all of their span are equal in pairs: no other test tells them apart."""
    entry = Entry(
        entry_id=1,
        segment_id="s",
        chunk=Interval(10, 100),
        span=Interval(20, 90),
        clip=IntervalSet((Interval(30, 40), Interval(50, 60))),
        version=SegmentVersion(7, 3),
        partition_id=8,
        overshadowed_ids=IdRanges(((0, 2),)),
        update_group=IdRanges(((8, 9),)),
    )
    row = entry_row(entry, 5, 6)
    assert dict(zip(statements.INSERT_ENTRY.sqlite.names, row, strict=True)) == {
        "entry_id": 1,
        "datasource_id": 5,
        "segment_key": 6,
        "segment_id": "s",
        "chunk_start": 10,
        "chunk_end": 100,
        "span_start": 20,
        "span_end": 90,
        "shown_start": 30,
        "shown_end": 60,
        "clip": "[[30,40],[50,60]]",
        "major_ms": 7,
        "minor": 3,
        "partition_id": 8,
        "overshadowed": "0-2",
        "update_group": "8-9",
        "is_indexed": 1,
        "dropped_revision": None,
    }
    assert entry_of(row) == entry
