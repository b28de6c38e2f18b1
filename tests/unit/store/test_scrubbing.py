"""Scrubbing: every file in turn, at its rate, going on where the last process was; damage is told and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from carnac.core.segments.segment import Segment
from carnac.store import Store
from carnac.store.upkeep.verifying import ROUND_MS, Scrubber
from tests.support.clock import FakeClock
from tests.unit.store.events import append, files_of

SECOND_MS = 1_000


@pytest.fixture
def segments(store: Store) -> list[Segment]:
    """Five segments of one size, in the order in which they are read."""
    for number in range(5):
        append(store, (number, number), granularity="hour")
    found = sorted((item.segment for item in store.segments("events")), key=lambda s: s.segment_id)
    assert len({segment.size_bytes for segment in found}) == 1
    return found


def scrubber(store: Store, clock: FakeClock, bytes_per_s: int) -> Scrubber:
    """Return that of a new process."""
    return Scrubber(store._metadata, store.deep_storage, clock, bytes_per_s=bytes_per_s)


def flip(store: Store, segment: Segment) -> Path:
    place = store.deep_storage.local_path(segment.path)
    assert place is not None
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    return place


def test_a_new_process_goes_on_where_the_last_one_was_and_keeps_to_the_rate(
    store: Store, segments: list[Segment], clock: FakeClock
) -> None:
    rate = segments[0].size_bytes  # one file a second
    seen = []
    for _ in range(5):
        process = scrubber(store, clock, rate)
        process.run_round(SECOND_MS)
        seen.append(store.scrub_status().after)
        process.run_round(SECOND_MS)
        assert store.scrub_status().after == seen[-1], "the second has not passed"
        clock.advance_ms(SECOND_MS)
    assert seen == [*(segment.segment_id for segment in segments[:4]), ""]
    assert store.scrub_status().ended_at_ms == clock.now_ms() - SECOND_MS


def test_damage_is_told_and_left_alone_until_the_file_is_whole_again(
    store: Store,
    segments: list[Segment],
    clock: FakeClock,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = flip(store, segments[2])
    before = files_of(folder)
    one = scrubber(store, clock, 1 << 30)
    one.run_round(SECOND_MS)
    status = store.scrub_status()
    assert dict(status.faults) == {
        segments[2].segment_id: "its bytes are not those that were written"
    }
    assert segments[2].segment_id in caplog.text
    assert files_of(folder) == before
    flip(store, segments[2])
    clock.advance_ms(ROUND_MS)
    one.run_round(SECOND_MS)
    assert place.exists()
    assert not store.scrub_status().faults


def test_a_round_begins_once_a_day_and_none_where_the_rate_is_nought(
    store: Store, segments: list[Segment], clock: FakeClock
) -> None:
    scrubber(store, clock, 0).run_round(SECOND_MS)
    assert store.scrub_status().ended_at_ms is None
    scrubber(store, clock, 1 << 30).run_round(SECOND_MS)
    first = store.scrub_status()
    assert first.segments == len(segments)
    clock.advance_ms(ROUND_MS - 1)
    scrubber(store, clock, 1 << 30).run_round(SECOND_MS)
    assert store.scrub_status() == first
    clock.advance_ms(1)
    scrubber(store, clock, 1 << 30).run_round(SECOND_MS)
    assert store.scrub_status().ended_at_ms == clock.now_ms()


def test_what_is_gone_is_forgotten_with_the_round(
    store: Store, segments: list[Segment], clock: FakeClock
) -> None:
    flip(store, segments[0])
    scrubber(store, clock, 1 << 30).run_round(SECOND_MS)
    store.delete("events", interval=segments[0].chunk)
    store.gc()
    clock.advance_ms(ROUND_MS)
    store.gc()
    scrubber(store, clock, 1 << 30).run_round(SECOND_MS)
    assert not store.scrub_status().faults


def test_a_round_ends_between_two_files_when_it_is_told_to(
    store: Store, segments: list[Segment], clock: FakeClock
) -> None:
    one, asked = scrubber(store, clock, 1 << 30), iter([False, False, True])
    one.run_round(SECOND_MS, is_stopping=lambda: next(asked))
    assert store.scrub_status().after == segments[1].segment_id
    assert store.scrub_status().ended_at_ms is None


def test_files_that_are_not_mounted_are_not_damaged(
    store: Store, segments: list[Segment], clock: FakeClock, folder: Path
) -> None:
    files = folder / "deep-storage"
    files.rename(folder / "away")
    files.mkdir()
    scrubber(store, clock, 1 << 30).run_round(SECOND_MS)
    assert not store.scrub_status().faults
    assert segments
