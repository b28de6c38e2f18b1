"""The statements that run are those that are stated."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import Table

import carnac.metadata.texts
from carnac.core.log.entries import Entry
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.metadata import tables
from carnac.metadata.definitions.rendering import MODULES, render_texts
from carnac.metadata.rows import entry_of, entry_row
from carnac.metadata.session import Statement
from carnac.metadata.texts import statements

FOLDER = Path(carnac.metadata.texts.__file__).parent


def test_the_texts_are_those_of_the_definitions() -> None:
    stale = [
        name
        for name, text in render_texts().items()
        if (FOLDER / f"{name}.py").read_text(encoding="utf-8") != text
    ]
    assert stale == [], "make statements writes them anew"


def test_no_text_is_without_a_definition() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", *MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_every_statement_has_its_parameters_in_the_order_of_the_text(name: str) -> None:
    module = import_module(f"carnac.metadata.texts.{name}")
    stated = [value for value in vars(module).values() if isinstance(value, Statement)]
    assert stated
    for one in stated:
        assert one.sqlite.text.count("?") == len(one.sqlite.names)
        assert set(one.sqlite.constants) <= set(one.sqlite.names)
        assert all(
            f"%({value})s" in one.postgresql.text
            for value in set(one.sqlite.names) - set(one.sqlite.constants)
        )


def test_a_text_is_one_line_that_sqlite_understands() -> None:
    with sqlite3.connect(":memory:") as link:
        link.execute("CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        text, names, _ = statements.PUT_SETTING.sqlite
        assert "\n" not in text
        values = {"name": "a", "value": "b"}
        link.execute(text, [values[name] for name in names])
        assert link.execute(statements.SETTINGS.sqlite.text).fetchall() == [("a", "b")]
    link.close()


@pytest.mark.parametrize(
    ("stated", "table"),
    [
        (statements.INSERT_COMMIT, tables.commits),
        (statements.INSERT_COMMIT_DATASOURCE, tables.commit_datasources),
        (statements.INSERT_COVER, tables.covers),
        (statements.INSERT_BATCH, tables.batches),
        (statements.INSERT_SEGMENT, tables.segments),
        (statements.INSERT_ENTRY, tables.entries),
        (statements.PUT_CHUNK, tables.chunks),
        (statements.ADD_TO_SCHEMA, tables.schemas),
    ],
)
def test_rows_that_are_written_have_the_order_of_their_table(
    stated: Statement, table: Table
) -> None:
    assert stated.sqlite.names == tuple(table.columns.keys())


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
        "dropped_revision": None,
    }
    assert entry_of(row) == entry
