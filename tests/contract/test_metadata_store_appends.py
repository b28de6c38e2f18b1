"""Appends that come often: what they cost a database that is far away, and that none is harmed by its neighbours."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from carnac.core.log.commits import Publication
from carnac.errors import CarnacError, Invalid, Revoked
from carnac.metadata import open_metadata
from carnac.metadata.read import chunk_rows
from carnac.ports import LeaseKind
from tests.contract.conftest import Store
from tests.logs import append_of, day, interval, names, replacement, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.waiting import until


@pytest.fixture
def is_far(metadata_url: str) -> bool:
    return metadata_url.startswith("postgresql")


@pytest.mark.parametrize("how", ["alone", "in a batch", "under a lease"])
def test_a_plain_append_is_one_statement_where_each_is_a_round_trip(
    store: Store, metadata_url: str, is_far: bool, how: str
) -> None:
    store.publish(append_of(segment("a", day(1))))
    more = append_of(segment("b", day(1)))
    if how == "in a batch":
        more = replace(more, writer="w", batch="1", base_revision=1, message="more")
    if how == "under a lease":
        lease = store.acquire_lease(LeaseKind.WRITER, holder="w", ttl_ms=1000)
        more = replace(more, lease_id=lease.lease_id)
    sent: list[str] = []
    with closing(
        open_metadata(
            metadata_url, clock=FakeClock(), ids=SequentialIds("b-"), on_statement=sent.append
        )
    ) as other:
        published = other.publish(more)
        assert (published.revision, published.is_replay) == (2, False)
        assert published.commit == store.commit(2)
        if is_far:
            assert [text.split()[0] for text in sent] == ["BEGIN", "SELECT", "WITH", "COMMIT"]
        if more.batch is not None:
            assert replace(other.publish(more), commit=None, is_replay=False) == replace(
                published, commit=None
            )


def test_one_that_is_refused_harms_none_that_shares_its_transaction(
    store: Store, metadata_url: str
) -> None:
    store.publish(append_of(segment("a", day(1))))
    may_go_on = threading.Event()
    with closing(
        open_metadata(
            metadata_url,
            clock=FakeClock(),
            ids=SequentialIds("b-"),
            on_statement=lambda _: may_go_on.wait(30) and None,
        )
    ) as other:
        found: dict[str, object] = {}

        def publish(publication: Publication) -> None:
            (added,) = publication.changes[0].adds
            try:
                found[added.path] = other.publish(publication).commit
            except CarnacError as error:
                found[added.path] = error

        first = threading.Thread(
            target=publish, args=[append_of(replace(segment("b", day(1)), path="b"))]
        )
        first.start()
        until(lambda: other._queue._leader is not None and not other._queue._waiting, "a leader")
        group = [
            append_of(replace(segment(name, day(1)), path=path))
            for name, path in [("c", "c"), ("a", "known"), ("d", "d")]
        ]
        threads = [threading.Thread(target=publish, args=[one]) for one in group]
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: len(other._queue._waiting) == count, "its place")
        may_go_on.set()
        for thread in [first, *threads]:
            thread.join(60)
        assert isinstance(found.pop("known"), Invalid)
        commits = store.changes(after=1)
        assert {one.changes[0].segments[0].path: one for one in commits} == found
        assert len(commits) == 3


@pytest.mark.parametrize(
    "wrong", ["its base is to come", "its lease is over", "its lease is given back", "it reads"]
)
def test_a_plain_append_is_refused_as_every_other_is(
    store: Store, clock: FakeClock, wrong: str
) -> None:
    store.publish(append_of(segment("a", day(1))))
    kind = LeaseKind.READER if wrong == "it reads" else LeaseKind.WRITER
    lease = store.acquire_lease(kind, holder="w", ttl_ms=1000)
    more = replace(append_of(segment("b", day(1))), lease_id=lease.lease_id)
    if wrong == "its base is to come":
        more = replace(more, base_revision=2)
    elif wrong == "its lease is over":
        clock.advance_ms(1000)
    elif wrong == "its lease is given back":
        store.release_lease(lease.lease_id)
    with pytest.raises(Invalid if more.base_revision else Revoked):
        store.publish(more)
    assert names(store) == ["a"]


def test_a_plain_append_leaves_the_key_frame_that_is_due(
    store: Store, metadata_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of which more has gone than is there is read from a list of what is there."""
    monkeypatch.setattr(chunk_rows, "KEY_FRAME_MIN_CHANGES", 4)
    store.publish(append_of(segment("a", day(1))))
    store.publish(replacement(store, day(1), segment("b", day(1))))
    sent: list[str] = []
    with closing(
        open_metadata(
            metadata_url, clock=FakeClock(), ids=SequentialIds("b-"), on_statement=sent.append
        )
    ) as other:
        for name in "cd":
            other.publish(append_of(segment(name, day(1))))
    assert sum("INTO key_frames" in text for text in sent) == 1
    assert names(store) == ["b", "c", "d"]


def test_a_plain_append_widens_what_its_datasource_shows(store: Store) -> None:
    for name, hours in [("a", "10/11"), ("b", "08/09"), ("c", "20/21")]:
        start, end = hours.split("/")
        span = f"2013-01-01T{start}:00:00Z/2013-01-01T{end}:00:00Z"
        store.publish(append_of(segment(name, span)))
    (found,) = store.datasources()
    assert found.interval == interval("2013-01-01T08:00:00Z/2013-01-01T21:00:00Z")
