"""Wrong checksums of pages: told from damage, mended where nothing is damaged, and nothing else is touched."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.errors import Corrupt, ReadOnly, Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.metadata.upkeep.checksums import examine, mend
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import PAGE_BYTES, lay_database, wrong_pages
from tests.unit.store.events import fast_folder

FLIPS = 5_000 if IS_NIGHTLY else 50 if IS_FAST else 200
SEED = 23
SPOILT = (1, 3, 5, 9)


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        path = Path(folder) / "metadata.db"
        with closing(open_store(path)) as store:
            store.put_settings({"name": "value"})
        yield path


def open_store(path: Path) -> MetadataStore:
    url = lay_database(path, created_at_ms=0)
    return open_metadata(url, clock=FakeClock(), ids=SequentialIds())


def spoil(path: Path) -> bytes:
    """Give some pages the checksums of something else; return the file as it is then."""
    data = bytearray(path.read_bytes())
    for number in SPOILT:
        end = number * PAGE_BYTES
        data[end - 8 : end] = number.to_bytes(8)
    path.write_bytes(data)
    return bytes(data)


def files_of(path: Path) -> set[str]:
    """Return what lies there, but for what SQLite and the writers' queue keep beside a file."""
    beside = {f"{path.name}{end}" for end in (".lock", "-wal", "-shm")}
    return {one.name for one in path.parent.iterdir()} - beside


def test_wrong_checksums_of_what_is_intact_are_mended_and_nothing_else(path: Path) -> None:
    sound = path.read_bytes()
    spoilt = spoil(path)
    found = examine(path)
    assert (found.total, tuple(found.wrong), found.faults) == (len(sound) // PAGE_BYTES, SPOILT, ())
    pages, aside = mend(path)
    assert tuple(pages.wrong) == SPOILT
    assert aside is not None
    assert aside.read_bytes() == spoilt
    assert path.read_bytes() == sound
    assert files_of(path) == {path.name, aside.name}
    with closing(open_store(path)) as store:
        assert store.settings() == {"name": "value"}


def test_where_nothing_is_wrong_nothing_is_done(path: Path) -> None:
    sound = path.read_bytes()
    assert mend(path).aside is None
    assert path.read_bytes() == sound
    assert files_of(path) == {path.name}


def test_what_is_in_the_log_alone_is_kept_here_and_in_the_copy(path: Path, tmp_path: Path) -> None:
    """The process that wrote was killed: its log is not in the file yet."""
    killed = tmp_path / path.name
    with closing(open_store(path)) as store:
        store.put_settings({"name": "newest"})
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{killed}{end}")
    spoil(killed)
    aside = mend(killed).aside
    assert aside is not None
    assert Path(f"{aside}-wal").stat().st_size > 0
    assert wrong_pages(killed) == []
    with closing(open_store(killed)) as store:
        assert store.settings() == {"name": "newest"}


def test_no_flipped_bit_is_taken_for_a_wrong_checksum(path: Path) -> None:
    sound, rng = path.read_bytes(), random.Random(SEED)
    for number in range(FLIPS):
        data = bytearray(sound)
        place = rng.randrange(len(data))
        data[place] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        found = examine(path)
        assert not found.wrong or found.faults, f"flip {number}, at {place}"
    assert files_of(path) == {path.name}


@pytest.mark.parametrize("length", [16, 600, 2048])
def test_damage_is_refused_and_left_as_it_is(path: Path, length: int) -> None:
    """Zeros in a page of a table or an index, where SQLite has written."""
    data = bytearray(path.read_bytes())
    data[2 * PAGE_BYTES : 2 * PAGE_BYTES + length] = bytes(length)
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="restore it from a backup"):
        mend(path)
    assert path.read_bytes() == data
    assert files_of(path) == {path.name}


@pytest.mark.slow
def test_nothing_is_mended_under_somebody_else(path: Path) -> None:
    with closing(open_store(path)) as other:
        other.settings()
        with pytest.raises(Unavailable, match="stop all processes of the store"):
            mend(path)
        assert other.settings() == {"name": "value"}


def test_what_cannot_be_written_is_not_mended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _, mode: mode == os.R_OK)  # root may write everywhere
    with pytest.raises(ReadOnly, match="not writable"):
        mend(path)
