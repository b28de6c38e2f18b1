"""What garbage collection and verification go by: pages of segment records, and leases of writers."""

from __future__ import annotations

from dataclasses import replace

from carnac.core.log.commits import CommitKind
from carnac.core.segments.lateness import LateRows
from carnac.core.segments.segment import Column, ColumnType
from carnac.core.time.intervals import IntervalSet
from carnac.metadata.store import MetadataStore
from carnac.ports import LeaseKind
from tests.contract.conftest import Store
from tests.logs import append, append_of, day, days, replacement, segment
from tests.support.clock import FakeClock


def ids_of(store: MetadataStore, limit: int) -> list[str]:
    found: list[str] = []
    while page := store.segments(after=found[-1] if found else "", limit=limit):
        assert len(page) <= limit
        found += [one.segment_id for one in page]
    return found


def test_pages_hold_every_segment_of_history_once_and_nothing_of_the_trash(store: Store) -> None:
    assert store.segments() == ()
    append(store, *(segment(f"s{number}", day(1)) for number in (4, 1, 3)))
    append(store, segment("s2", day(2)))
    store.publish(replacement(store, day(1), segment("r1", day(1))))
    for limit in (1, 2, 5, 100):
        assert ids_of(store, limit) == ["r1", "s1", "s2", "s3", "s4"], "visible or not"
    store.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    assert ids_of(store, 2) == ["r1", "s2"], "the trash is nobody's any more"
    assert store.segments()[0] == store.find_segment("r1")


def test_what_was_late_is_part_of_the_record_at_every_revision(store: Store) -> None:
    late = replace(segment("late", day(1)), late=LateRows(counts=(0, 4, 0, 0, 6, 0)))
    folded = replace(
        segment("new", day(1)), late=LateRows(counts=(1, 2, 3, 0, 0, 4), is_folded=True)
    )
    append(store, late, segment("prompt", day(1)))
    store.publish(replacement(store, day(1), folded, kind=CommitKind.REWRITE))
    append(store, replace(late, segment_id="again", path="again"))

    def shown(revision: int | None = None) -> dict[str, LateRows | None]:
        found = store.visible("events", revision=revision)
        return {item.segment.segment_id: item.segment.late for item in found}

    def late_ones(revision: int | None = None, where: IntervalSet | None = None) -> list[str]:
        found = store.visible_late("events", revision=revision, intervals=where)
        return [item.segment.segment_id for item in found]

    assert [late_ones(1), late_ones(2), late_ones()] == [["late"], ["new"], ["new", "again"]]
    assert late_ones(1, days(day(2))) == late_ones(where=days(day(2))) == []
    assert store.visible_late("events", intervals=days(day(1))) == tuple(
        item for item in store.visible("events") if item.segment.late is not None
    )
    assert store.visible_late("nothing") == ()
    assert shown(1) == {"late": late.late, "prompt": None}
    assert shown(2) == {"new": folded.late}
    assert shown() == {"new": folded.late, "again": late.late}
    assert store.commit(1).changes[0].segments[0].late == late.late
    assert store.check() == ()


def test_a_name_that_looks_like_the_mark_of_late_rows_is_none(store: Store) -> None:
    named = replace(
        segment("odd", day(1)),
        columns=(Column(name='x"late":{', type=ColumnType.STRING, min_value='"late":{'),),
        attributes={"late": "late"},
    )
    append(store, named, replace(named, segment_id="s2", path="s2", late=LateRows(counts=(1,) * 6)))
    assert [item.segment.segment_id for item in store.visible_late("events")] == ["s2"]


def test_a_writer_keeps_its_lease_although_its_base_is_trimmed(
    store: Store, clock: FakeClock
) -> None:
    """It protects files that are not published yet, not a revision; found with a writer that was slower than gc."""
    append(store, segment("s1", day(1)))
    lease = store.acquire_lease(LeaseKind.WRITER, holder="slow", ttl_ms=1000)
    append(store, segment("s2", day(1)))
    clock.advance_ms(500)
    store.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    renewed = store.renew_lease(lease.lease_id, ttl_ms=1000)
    assert renewed.expires_at_ms == clock.now_ms() + 1000
    store.publish(replace(append_of(segment("s3", day(1))), lease_id=lease.lease_id))


def test_schemas_are_those_of_the_segments_that_a_revision_shows(store: Store) -> None:
    first = (Column(name="x", type=ColumnType.LONG),)
    second = (Column(name="x", type=ColumnType.DOUBLE), Column(name="y", type=ColumnType.HLL))
    assert list(store.schemas("events")) == []
    append(store, replace(segment("a", day(1)), columns=first))
    append(store, replace(segment("b", day(2)), columns=second))
    append(store, replace(segment("c", day(2)), columns=second))
    assert list(store.schemas("events")) == [first, second]
    assert list(store.schemas("events", revision=1)) == [first]
    store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
    assert list(store.schemas("events")) == [second]
    assert list(store.schemas("events", revision=3)) == [first, second]
