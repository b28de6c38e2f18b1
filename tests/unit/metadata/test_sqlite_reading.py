"""Reading a SQLite store without writing: what others write meanwhile is noticed, never mixed in."""

from __future__ import annotations

from pathlib import Path

import pytest

from carnac.errors import ReadOnly, Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.backends.sqlite_reading import ReadOnlySqliteDatabase
from carnac.metadata.schema.migrate import migrate_if_needed
from carnac.metadata.sql import statements as s
from carnac.metadata.store import MetadataStore
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import edited, lay_database


def open_writer(path: Path) -> MetadataStore:
    return open_metadata(
        lay_database(path, created_at_ms=0), clock=FakeClock(), ids=SequentialIds()
    )


def write(path: Path, value: str) -> None:
    writer = open_writer(path)
    writer.put_settings({"place": value})
    writer.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "odd name?#%.db"
    write(place, "first")
    return place


def open_reader(path: Path) -> MetadataStore:
    database = ReadOnlySqliteDatabase(path, "it is so in this test")
    return MetadataStore(database, clock=FakeClock(), ids=SequentialIds())


def test_each_read_sees_what_was_written_and_checkpointed_before_it(path: Path) -> None:
    reader = open_reader(path)
    assert reader.settings() == {"place": "first"}
    write(path, "second")
    assert reader.settings() == {"place": "second"}
    reader.close()


def test_each_read_sees_what_others_commit_to_their_log(path: Path) -> None:
    reader = open_reader(path)
    assert reader.settings() == {"place": "first"}
    writer = open_writer(path)
    for value in ("second", "third"):
        writer.put_settings({"place": value})
        assert reader.settings() == {"place": value}
    reader.close()
    writer.close()


def test_a_read_that_somebody_wrote_into_is_no_answer(path: Path) -> None:
    database = ReadOnlySqliteDatabase(path, "it is so in this test")

    def read_while_it_is_written() -> None:
        with database.read() as session:
            assert session.rows(s.SETTINGS) == [("place", "first")]
            write(path, "second")

    with pytest.raises(Unavailable, match=r"was written to while it was read; try again$"):
        read_while_it_is_written()
    with database.read() as session:
        assert session.rows(s.SETTINGS) == [("place", "second")]
    database.close()


def test_a_read_beside_a_writer_sees_one_state_to_its_end(path: Path) -> None:
    writer = open_writer(path)
    writer.put_settings({"place": "second"})
    database = ReadOnlySqliteDatabase(path, "it is so in this test")
    with database.read() as session:
        assert session.rows(s.SETTINGS) == [("place", "second")]
        writer.put_settings({"place": "third"})
        assert session.rows(s.SETTINGS) == [("place", "second")]
    database.close()
    writer.close()


def test_every_kind_of_write_is_refused_with_the_reason(path: Path) -> None:
    reader = open_reader(path)
    for write_something in (
        lambda: reader.put_settings({"place": "second"}),
        lambda: reader.put_tag("mine", 0),
        lambda: reader.trim(keep=lambda _: set(), dry_run=False),
    ):
        with pytest.raises(
            ReadOnly, match=r"^the store can only be read here, because it is so in this test$"
        ):
            write_something()
    assert reader.trim(keep=lambda _: set(), dry_run=True).revisions_trimmed == 0
    assert reader.settings() == {"place": "first"}
    reader.close()


def test_an_older_format_is_not_brought_up_to_date(path: Path) -> None:
    with edited(path) as link:
        link.execute("UPDATE carnac_version SET version_num = '0001'")
    database = ReadOnlySqliteDatabase(path, "it is so in this test")
    with pytest.raises(ReadOnly, match="open it once where it can be written"):
        migrate_if_needed(database, now_ms=lambda: 0, new_id=str, create=True)
    database.close()


def test_what_is_closed_or_gone_says_so(path: Path) -> None:
    reader = open_reader(path)
    path.unlink()
    with pytest.raises(Unavailable, match="does not answer: unable to open database file"):
        reader.settings()
    reader.close()
    with pytest.raises(Unavailable, match="is closed; open it again"):
        reader.settings()
