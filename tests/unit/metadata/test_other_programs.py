"""What another program, such as the `sqlite3` shell, does to a store's file; here Python's own driver stands for it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.errors import Corrupt
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.metadata.upkeep.checksums import examine, mend
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import lay_database
from tests.unit.store.events import fast_folder

NEWEST = {"name": "newest"}


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Path]:
    """The file of a store whose process was killed: the newest pages are in its log alone."""
    with fast_folder() as folder:
        path, killed = Path(folder) / "metadata.db", tmp_path / "metadata.db"
        lay_database(path, created_at_ms=0)
        with closing(open_store(path)) as store:
            store.put_settings(NEWEST)
            for end in ("", "-wal"):
                shutil.copyfile(f"{path}{end}", f"{killed}{end}")
        yield killed


def open_store(path: Path) -> MetadataStore:
    return open_metadata(f"sqlite:///{path}", clock=FakeClock(), ids=SequentialIds())


def settings_in(path: Path) -> dict[str, object]:
    with closing(open_store(path)) as store:
        return dict(store.settings())


@pytest.mark.parametrize("statement", ["PRAGMA integrity_check", "SELECT count(*) FROM settings"])
def test_it_may_read_what_lies_in_the_file(killed: Path, statement: str) -> None:
    assert settings_in(killed) == NEWEST
    sound = killed.read_bytes()
    with closing(sqlite3.connect(killed)) as other:
        other.execute(statement).fetchall()
        assert settings_in(killed) == NEWEST, "beside it"
    assert killed.read_bytes() == sound
    assert settings_in(killed) == NEWEST


def test_it_may_read_the_log_of_a_process_that_was_killed_if_it_cannot_write(killed: Path) -> None:
    with closing(sqlite3.connect(f"file:{killed}?mode=ro", uri=True)) as other:
        other.execute("SELECT count(*) FROM settings").fetchall()
    assert settings_in(killed) == NEWEST


@pytest.mark.parametrize(
    "statement", ["SELECT count(*) FROM settings", "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"]
)
def test_pages_that_it_writes_are_told_with_the_command_that_mends_them(
    killed: Path, statement: str
) -> None:
    """Whoever closes a file last moves the pages of the log into it, also after a mere look."""
    with closing(sqlite3.connect(killed)) as other:
        other.execute(statement).fetchall()
    assert examine(killed).wrong
    with pytest.raises(Corrupt) as caught:
        settings_in(killed)
    assert caught.value.message == (
        f"the metadata store {killed} is damaged: a page is not what Carnac wrote, as its checksum says; if another "
        "program, such as sqlite3, has opened the file, stop all processes of the store and run: carnac doctor "
        "--mend-checksums; else stop its writers and restore it from a backup (docs/concepts/operating.md, Backup)"
    )
    assert mend(killed).aside is not None
    assert settings_in(killed) == NEWEST
