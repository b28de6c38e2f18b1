"""Damage in the write-ahead log of a store at work: SQLite notices none of it, `examine_log` all."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.metadata.upkeep.log_pages import LogPages, examine_log
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import edited, lay_database
from tests.unit.store.events import fast_folder

FLIPS = 2_000 if IS_NIGHTLY else 30 if IS_FAST else 100
SEED = 23
HEADER_BYTES, FRAME_BYTES = 32, 24 + 4096
WRITES = 50
"""More pages than are verified at a time."""


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield Path(folder) / "metadata.db"


@pytest.fixture
def store(path: Path) -> Iterator[MetadataStore]:
    url = lay_database(path, created_at_ms=0)
    with closing(open_metadata(url, clock=FakeClock(), ids=SequentialIds())) as store:
        for number in range(WRITES):
            store.put_settings({"name": f"{number:05}"})
        yield store


def flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        held = file.read(1)[0]
        file.seek(place)
        file.write(bytes([held ^ 1 << bit]))


def test_every_flipped_bit_of_a_log_is_found_and_its_page_named(
    store: MetadataStore, path: Path
) -> None:
    log, rng = Path(f"{path}-wal"), random.Random(SEED)
    whole = examine_log(path)
    assert whole is not None
    assert whole.total >= WRITES
    assert whole.damaged is None
    for number in range(FLIPS):
        place, bit = rng.randrange(HEADER_BYTES + whole.total * FRAME_BYTES), rng.randrange(8)
        flip(log, place, bit)
        frame = (place - HEADER_BYTES) // FRAME_BYTES + 1 if place >= HEADER_BYTES else 0
        assert examine_log(path) == LogPages(whole.total, frame), f"flip {number}, at {place}"
        flip(log, place, bit)
    assert examine_log(path) == whole
    assert store.settings() == {"name": f"{WRITES - 1:05}"}


def test_what_is_in_the_file_already_is_not_asked_for(store: MetadataStore, path: Path) -> None:
    with edited(path) as link:
        link.pragma("wal_checkpoint", "PASSIVE")
        flip(Path(f"{path}-wal"), HEADER_BYTES + FRAME_BYTES // 2, 0)
        assert examine_log(path) == LogPages(0, None)


def test_no_log_that_others_write_is_taken_for_a_damaged_one(
    store: MetadataStore, path: Path
) -> None:
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            store.put_settings({"name": f"{number:05}"})
            if number % 20 == 0:
                with edited(path) as link:
                    link.pragma("wal_checkpoint", "RESTART")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [examine_log(path) for _ in range(FLIPS)]
    finally:
        is_over.set()
        writer.join()
    assert {one.damaged for one in found if one is not None} == {None}
