"""Paging through the records of segments: what verification goes by."""

from __future__ import annotations

from carnac.ports import MetadataStore
from tests.contract.conftest import Store
from tests.logs import append, day, replacement, segment


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
