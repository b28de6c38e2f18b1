"""Leases: kept while they are needed, gone when they are not, and no promise is broken in silence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from carnac.errors import Invalid, NotFound, Revoked, Unavailable
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.ports import LeaseKind
from carnac.store import Store
from carnac.store.leases import LeaseKeeper
from tests.logs import append as append_segments
from tests.logs import day, replacement, segment
from tests.support.clock import FakeClock, SequentialIds
from tests.support.faulty import Faults, faulty_metadata, unavailable
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import (
    TTL_MS,
    StampedPipeline,
    append,
    files_of,
    hour,
    ids,
    rows_of,
    spec,
)

PATIENCE_S = 20


class Ticker:
    """Stands for the time between two renewals: a test lets one pass, and returns when the keeper waits again."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)
        self._is_closing = False
        self.waited_s: set[float] = set()

    def __call__(self, seconds: float) -> bool:
        self.waited_s.add(seconds)
        self._waits.release()
        self._go.acquire()
        return self._is_closing

    def tick(self) -> None:
        assert self._waits.acquire(timeout=PATIENCE_S)
        self._go.release()
        assert self._waits.acquire(timeout=PATIENCE_S)
        self._waits.release()

    def close(self) -> None:
        self._is_closing = True
        self._go.release()


@pytest.fixture
def faults() -> Faults:
    return Faults(unavailable)


@pytest.fixture
def metadata(clock: FakeClock, faults: Faults) -> Iterator[MetadataStore]:
    """Three revisions, of which the first two are kept by nobody."""
    inner = open_metadata("memory://", clock=clock, ids=SequentialIds())
    append_segments(inner, segment("s1", day(1)))
    inner.publish(replacement(inner, day(1), segment("s2", day(1))))
    inner.publish(replacement(inner, day(1), segment("s3", day(1))))
    yield faulty_metadata(inner, faults)
    inner.close()


@pytest.fixture
def ticker() -> Ticker:
    return Ticker()


@pytest.fixture
def keeper(metadata: MetadataStore, clock: FakeClock, ticker: Ticker) -> Iterator[LeaseKeeper]:
    opened = LeaseKeeper(metadata, clock=clock, holder="me", ttl_ms=TTL_MS, wait=ticker)
    yield opened
    ticker.close()
    opened.close()


def trim(metadata: MetadataStore, clock: FakeClock) -> None:
    clock.advance_ms(1)
    metadata.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)


def readers(metadata: MetadataStore) -> list[int]:
    return [lease.revision for lease in metadata.leases() if lease.kind is LeaseKind.READER]


class TestReaders:
    def test_all_readers_share_one_lease_on_the_oldest_revision(
        self, metadata: MetadataStore, keeper: LeaseKeeper, clock: FakeClock
    ) -> None:
        with keeper.reading(None) as newest:
            assert (newest.head.revision, readers(metadata)) == (3, [3])
            with keeper.reading(1) as oldest:
                assert readers(metadata) == [1]
                with keeper.reading("2"):
                    assert readers(metadata) == [1]
                    trim(metadata, clock)
                assert oldest.is_held()
                assert metadata.resolve(1).revision == 1
            assert newest.is_held()

    def test_what_somebody_reads_can_be_read_while_the_metadata_store_does_not_answer(
        self, keeper: LeaseKeeper, faults: Faults, clock: FakeClock
    ) -> None:
        with keeper.reading(2):
            faults.arm(1, dies=True)
            with keeper.reading(2) as reading:
                assert (reading.head.revision, reading.is_held()) == (2, True)
            with pytest.raises(Unavailable):
                keeper.pin(3)
            clock.advance_ms(TTL_MS)
            with pytest.raises(Unavailable):
                keeper.pin(2)
            faults.disarm()

    def test_what_somebody_reads_can_be_read_while_a_renewal_hangs(
        self,
        keeper: LeaseKeeper,
        faults: Faults,
        ticker: Ticker,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        hangs, goes_on, over = threading.Event(), threading.Event(), threading.Event()

        def hang(name: str) -> BaseException:
            hangs.set()
            goes_on.wait(PATIENCE_S)
            over.set()
            return unavailable(name)

        monkeypatch.setattr(faults, "_make", hang)
        with keeper.reading(2) as first:
            faults.arm(1, only={"renew_lease"})
            ticking = threading.Thread(target=ticker.tick, daemon=True)
            ticking.start()
            assert hangs.wait(PATIENCE_S)
            with keeper.reading(2) as second:
                assert (second.head, second.is_held()) == (first.head, True)
            assert first.is_held()
            assert not over.is_set(), "it waited for the renewal"
            goes_on.set()
            ticking.join()

    def test_the_lease_follows_the_oldest_reader_and_ends_when_nobody_reads(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker
    ) -> None:
        with keeper.reading(2):
            with keeper.reading(1):
                ticker.tick()
                assert readers(metadata) == [1]
            ticker.tick()
            assert readers(metadata) == [2]
        ticker.tick()
        assert readers(metadata) == []
        assert ticker.waited_s == {TTL_MS / 3000}, "three times in a ttl"

    def test_a_lease_lives_as_long_as_it_is_renewed(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker, clock: FakeClock
    ) -> None:
        with keeper.reading(1) as reading:
            for _ in range(10):
                clock.advance_ms(TTL_MS // 3)
                ticker.tick()
            trim(metadata, clock)
            assert reading.is_held()
            assert metadata.resolve(1).revision == 1

    def test_after_a_sleep_the_reading_knows_that_it_was_not_held(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker, clock: FakeClock
    ) -> None:
        with keeper.reading(1) as reading:
            clock.advance_ms(TTL_MS)
            assert not reading.is_held(), "also before the thread has woken up"
            trim(metadata, clock)
            ticker.tick()
            assert not reading.is_held()
            with keeper.reading(None) as later:
                assert later.is_held()
                assert readers(metadata) == [3]
            with pytest.raises(NotFound, match="revision 1 was trimmed"):
                keeper.pin(1)

    def test_what_is_still_there_after_a_sleep_is_protected_again(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker, clock: FakeClock
    ) -> None:
        with keeper.reading(2):
            clock.advance_ms(TTL_MS)
            assert readers(metadata) == []
            ticker.tick()
            assert readers(metadata) == [2]

    def test_a_database_that_does_not_answer_once_costs_nobody_the_lease(
        self,
        metadata: MetadataStore,
        keeper: LeaseKeeper,
        ticker: Ticker,
        clock: FakeClock,
        faults: Faults,
    ) -> None:
        with keeper.reading(1) as reading, keeper.writing() as writer:
            for renewal in (1, 2):  # of the writer, of the reader
                clock.advance_ms(TTL_MS // 3)
                faults.arm(renewal, only=["renew_lease"])
                ticker.tick()
                assert not faults.is_armed
            clock.advance_ms(TTL_MS // 3 - 1)
            ticker.tick()
            clock.advance_ms(TTL_MS // 3)
            assert reading.is_held()
            assert {lease.lease_id for lease in metadata.leases()} >= {writer.lease_id}

    def test_closing_releases_and_nothing_can_be_read_afterwards(
        self, metadata: MetadataStore, clock: FakeClock
    ) -> None:
        keeper = LeaseKeeper(metadata, clock=clock, holder="me", ttl_ms=TTL_MS)
        keeper.pin(1)
        keeper.close()
        keeper.close()
        assert metadata.leases() == ()
        with pytest.raises(Unavailable, match="the store is closed; open it again"):
            keeper.pin(None)
        with pytest.raises(Unavailable, match="closed"), keeper.writing():
            raise AssertionError("not reached")


class Napping(StampedPipeline):
    """The machine sleeps between writing the files and publishing them."""

    clock: FakeClock
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def run_ingest(self, *args: Any, **more: Any) -> Any:
        result = super().run_ingest(*args, **more)
        self.clock.advance_ms(TTL_MS)
        self.meanwhile()
        return result


class TestWriters:
    def test_a_writer_that_slept_too_long_is_refused_and_leaves_no_file(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        writer = open_store(pipeline=Napping)
        writer._pipeline().clock = clock  # type: ignore[attr-defined]
        with pytest.raises(Revoked, match=r"writer lease \w+ has expired .* nothing was published"):
            writer.ingest(spec(), rows_of([(1, hour(1))]))
        assert files_of(folder) == set()
        assert writer.head().revision == 0

    def test_also_when_its_files_were_collected_meanwhile(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        writer, collector = open_store(pipeline=Napping), open_store()
        pipeline = writer._pipeline()
        pipeline.clock, pipeline.meanwhile = clock, collector.gc  # type: ignore[attr-defined]
        clock_start = clock.now_ms()
        with pytest.raises(Revoked):
            writer.ingest(spec(), rows_of([(1, hour(1))]))
        assert clock.now_ms() == clock_start + TTL_MS
        assert files_of(folder) == set()
        assert list(writer.verify()) == []

    def test_a_load_leaves_its_lease_to_the_next_one(self, store: Store) -> None:
        append(store, (1, 1))
        (lease,) = [one for one in store.leases() if one.kind is LeaseKind.WRITER]
        with pytest.raises(Invalid):
            store.ingest(spec(metricsSpec=[{"type": "count", "name": "n"}]), rows_of([(2, 1)]))
        assert [one for one in store.leases() if one.kind is LeaseKind.WRITER] == [lease]
        store._leases.release_idle()
        assert [one for one in store.leases() if one.kind is LeaseKind.WRITER] == []


def writers(metadata: MetadataStore) -> set[str]:
    return {one.lease_id for one in metadata.leases() if one.kind is LeaseKind.WRITER}


class TestSharedLeases:
    def test_those_that_follow_one_another_share_a_lease_until_they_pause(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker
    ) -> None:
        with keeper.writing() as first:
            pass
        ticker.tick()
        with keeper.writing() as second, keeper.writing() as third:
            assert first == second == third
        assert writers(metadata) == {first.lease_id}
        ticker.tick()
        assert writers(metadata) == {first.lease_id}, "one appended since the last renewal"
        ticker.tick()
        assert writers(metadata) == set()
        with keeper.writing() as fourth:
            assert fourth != first

    def test_one_that_takes_long_keeps_its_lease_and_the_next_takes_a_new_one_each_ttl(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker, clock: FakeClock
    ) -> None:
        with keeper.writing() as long:
            for _ in range(3):
                clock.advance_ms(TTL_MS // 3 + 1)
                ticker.tick()
            with keeper.writing() as young:
                assert young.acquired_at_ms == clock.now_ms(), "older files may be garbage"
            ticker.tick()
            assert writers(metadata) == {long.lease_id, young.lease_id}
        ticker.tick()
        assert writers(metadata) == set()

    def test_a_lease_that_is_lost_is_not_shared_any_more(
        self, metadata: MetadataStore, keeper: LeaseKeeper, ticker: Ticker
    ) -> None:
        with pytest.raises(Revoked), keeper.writing() as lost:
            raise Revoked("by somebody")
        with keeper.writing() as taken:
            assert taken != lost
            metadata.release_lease(taken.lease_id)
            ticker.tick()
        with keeper.writing() as again:
            assert writers(metadata) == {again.lease_id}

    def test_a_store_returns_what_its_appends_share_when_it_collects_or_closes(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        store, other = open_store(), open_store()
        rows = rows_of([(1, hour(1))])
        assert [store.append("events", rows, spec=spec()).revision for _ in range(2)] == [1, 2]
        assert len([one for one in other.leases() if one.kind is LeaseKind.WRITER]) == 1
        store.gc()
        assert other.leases() == ()
        clock.advance_ms(1)
        assert store.append("events", rows, spec=spec()).revision == 3
        assert [one.base_revision for one in store.log()] == [2, 1, 0], "what each has met"
        store.close()
        assert other.leases() == ()

    def test_closing_leaves_the_lease_to_an_append_that_is_at_work(
        self, metadata: MetadataStore, clock: FakeClock
    ) -> None:
        keeper = LeaseKeeper(metadata, clock=clock, holder="me", ttl_ms=TTL_MS)
        with keeper.writing() as lease:
            keeper.close()
            assert writers(metadata) == {lease.lease_id}
        assert writers(metadata) == set()


class TestStores:
    def test_a_query_that_lost_its_lease_is_run_again(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        """The machine sleeps between planning and reading; meanwhile the revision's files are collected."""
        reader, other = open_store(), open_store()
        append(reader, (1, 1))
        engine = reader._engine()
        run = engine.run_query
        naps = []

        def nap_once(*args: Any, **more: Any) -> Any:
            if not naps:
                naps.append(1)
                other.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
                clock.advance_ms(TTL_MS + 1)
                other.gc()
            return run(*args, **more)

        engine.run_query = nap_once  # type: ignore[method-assign]
        assert ids(reader) == [2]

    def test_a_fixed_revision_that_was_lost_says_so(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        reader, other = open_store(), open_store()
        append(reader, (1, 1))
        engine = reader._engine()
        run = engine.run_query

        def nap(*args: Any, **more: Any) -> Any:
            other.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
            clock.advance_ms(TTL_MS + 1)
            other.gc()
            return run(*args, **more)

        engine.run_query = nap  # type: ignore[method-assign]
        with pytest.raises(NotFound, match="revision 1 was trimmed"):
            ids(reader, 1)

    def test_a_closed_store_says_that_it_is_closed(self, store: Store) -> None:
        append(store, (1, 1))
        store.close()
        store.close()
        with pytest.raises(Unavailable, match="the store is closed"):
            store.sql("SELECT 1")

    def test_closing_closes_everything_although_the_database_does_not_answer(
        self, open_store: OpenStore
    ) -> None:
        faults = Faults(unavailable)
        store = open_store(faults=faults)
        append(store, (1, 1))
        store._leases.release_idle()
        assert ids(store) == [1]
        faults.arm(1, only=["release_lease"])
        with pytest.raises(Exception, match="does not answer"):
            store.close()
        assert faults.calls[-1] == "close"
        store.close()
