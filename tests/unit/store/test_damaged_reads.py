"""Reading notices damage: of a file that is not what was recorded a query gives the right answer or none."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from carnac.core.segments.segment import Segment
from carnac.errors import CarnacError, Corrupt
from carnac.store import Store
from tests.nightly import IS_NIGHTLY
from tests.unit.store.conftest import OpenStore
from tests.unit.store.damage import flipped, put
from tests.unit.store.events import append, hour, rows_of, spec

FLIPS = 40_000 if IS_NIGHTLY else 1_000
ANSWER = "SELECT count(*), sum(id), min(__time), max(__time), count(DISTINCT __time) FROM events"


@pytest.fixture
def filled(store: Store) -> Store:
    """Three segments of an hour each, and one of 500 rows."""
    for number in (1, 2, 3):
        append(store, (number, number), granularity="hour")
    many = rows_of((i * i % 997, hour(5) + i) for i in range(500))
    store.ingest(spec(granularity="hour"), many)
    return store


@pytest.fixture
def segments(filled: Store) -> list[Segment]:
    return [item.segment for item in filled.segments("events")]


def place_of(store: Store, segment: Segment) -> Path:
    place = store.deep_storage.local_path(segment.path)
    assert place is not None
    return place


def answers(store: Store) -> list[tuple[object, ...]] | CarnacError:
    try:
        return [tuple(row.values()) for row in store.sql(ANSWER).rows()]
    except CarnacError as error:
        return error


def damaged_files(store: Store, segments: list[Segment], flips: int) -> Iterator[Segment]:
    """Flip a bit of some segment's file, again and again; undo it when the consumer is done with it."""
    rng = random.Random(15)
    for _ in range(flips):
        segment = rng.choice(segments)
        place = place_of(store, segment)
        whole = place.read_bytes()
        put(place, flipped(whole, rng.randrange(len(whole)), rng.randrange(8)))
        yield segment
        put(place, whole)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_flipped_bit_is_noticed_and_names_its_segment(
    filled: Store, segments: list[Segment]
) -> None:
    right = answers(filled)
    for segment in damaged_files(filled, segments, FLIPS):
        found = answers(filled)
        assert isinstance(found, Corrupt), (segment, found)
        assert segment.segment_id in found.message
        assert found.ids["segment_id"] == segment.segment_id
    assert answers(filled) == right, "put back, it is believed again"


@pytest.mark.slow
def test_a_store_that_never_checks_gives_other_answers_in_silence(
    open_store: OpenStore, filled: Store, segments: list[Segment]
) -> None:
    """What the check is for."""
    silent = 0
    for _ in damaged_files(filled, segments, 30):
        trusting = open_store(settings={"verify_reads": "never"})
        found = answers(trusting)
        silent += not isinstance(found, CarnacError) and found != answers_of_whole()
    assert silent


def answers_of_whole() -> list[tuple[object, ...]]:
    """What `ANSWER` is of the segments of `filled`."""
    from datetime import UTC, datetime, timedelta

    start = datetime.fromtimestamp(hour(1) / 1000, UTC)
    end = datetime.fromtimestamp(hour(5) / 1000, UTC) + timedelta(milliseconds=499)
    return [(503, 6 + sum(i * i % 997 for i in range(500)), start, end, 503)]


def test_the_file_of_another_segment_of_the_same_size_is_noticed(
    filled: Store, segments: list[Segment]
) -> None:
    first, second = segments[:2]
    assert first.size_bytes == second.size_bytes
    shutil.copyfile(place_of(filled, second), place_of(filled, first))
    found = answers(filled)
    assert isinstance(found, Corrupt)
    assert first.segment_id in found.message


@pytest.mark.parametrize("how", ["truncated", "longer", "empty", "gone", "pipe"])
def test_a_file_that_is_too_short_too_long_or_gone_is_noticed(
    filled: Store, segments: list[Segment], how: str
) -> None:
    place = place_of(filled, segments[2])
    data = place.read_bytes()
    place.unlink()
    if how == "pipe":
        os.mkfifo(place)
    elif how != "gone":
        place.write_bytes({"truncated": data[:-1], "longer": data + b"x", "empty": b""}[how])
    found = answers(filled)
    assert isinstance(found, Corrupt)
    assert segments[2].segment_id in found.message


def test_a_file_that_changes_under_a_running_process_is_read_anew(
    filled: Store, segments: list[Segment]
) -> None:
    right = answers(filled)
    place = place_of(filled, segments[-1])
    whole = place.read_bytes()
    put(place, flipped(whole, len(whole) // 3))
    assert isinstance(answers(filled), Corrupt)
    put(place, whole)
    assert answers(filled) == right
    status = place.stat()
    with place.open("r+b") as file:  # in place: the same inode
        file.write(b"X")
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert isinstance(answers(filled), Corrupt)


def test_damage_outside_of_what_a_query_reads_does_not_fail_it(
    filled: Store, segments: list[Segment]
) -> None:
    put(place_of(filled, segments[0]), b"")
    rows = filled.sql(
        f"SELECT id FROM events WHERE __time >= make_timestamptz({hour(2) * 1000})"
        f" AND __time < make_timestamptz({hour(4) * 1000}) ORDER BY id"
    )
    assert [row["id"] for row in rows.rows()] == [2, 3]
