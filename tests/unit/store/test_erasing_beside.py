"""Erasing rows beside readers, and beside others who write: none of them keeps a byte, or brings one back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carnac.clock import RandomIds
from carnac.errors import Conflict
from carnac.ports import LeaseKind
from carnac.store import Store
from tests.support.clock import FakeClock
from tests.support.pipeline import LocalPipeline
from tests.unit.store.test_erasing import (
    ADA,
    TRASH_MS,
    WHERE,
    append,
    bytes_with,
    histories,
    hours,
    open_at,
    read,
    without_ada,
    write_history,
)

CYD = "cyd@example.org"


@pytest.fixture
def store(folder: Path, clock: FakeClock) -> Iterator[Store]:
    with open_at(folder, clock) as opened:
        yield opened


class Meddling(LocalPipeline):
    """Lets others act after each search of an erasure, the first being 1."""

    meddle: Callable[[int], object] = staticmethod(lambda _run: None)
    runs = 0

    def run_delete_where(self, *args: Any, **more: Any) -> Any:
        found = super().run_delete_where(*args, **more)
        self.runs += 1
        self.meddle(self.runs)
        return found


@contextmanager
def meddling(folder: Path, clock: FakeClock) -> Iterator[tuple[Store, Meddling]]:
    jobs: list[Meddling] = []

    def make(storage: Any) -> Meddling:
        jobs.append(Meddling(storage, clock=clock, ids=RandomIds()))
        return jobs[-1]

    with open_at(folder, clock, pipeline=make) as store:
        store._pipeline()
        yield store, jobs[0]


@pytest.mark.slow
class TestOthersBesideIt:
    def test_a_reader_who_came_before_keeps_its_files_until_it_is_done(
        self, store: Store, folder: Path, clock: FakeClock
    ) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        with open_at(folder, clock) as other:
            lease = other._metadata.acquire_lease(LeaseKind.READER, holder="them", ttl_ms=60_000)
            report = store.erase("events", where=WHERE)
            assert (report.files_deleted, len(report.files_waiting)) == (0, 1)
            assert not report.is_complete
            assert (folder / "deep-storage" / report.files_waiting[0]).exists()
            (kept,) = [one for one in store.gc().actions if one.path == report.files_waiting[0]]
            assert (kept.action, kept.reason.partition(", ")[2]) == (
                "keep",
                "and them may be reading it",
            )
            assert list(store.verify()) == []
            other._metadata.release_lease(lease.lease_id)
            assert store.erase("events", where=WHERE).is_complete
            assert bytes_with(folder, ADA) == []

    def test_one_who_stays_is_waited_for_no_longer_than_the_trash_period(
        self, store: Store, folder: Path, clock: FakeClock
    ) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        store._metadata.acquire_lease(LeaseKind.READER, holder="them", ttl_ms=10 * TRASH_MS)
        (waiting,) = store.erase("events", where=WHERE).files_waiting
        clock.advance_ms(TRASH_MS - 1)
        assert store.gc(dry_run=True).actions[-1].action == "keep"
        clock.advance_ms(1)
        assert {one.path: one.action for one in store.gc().actions}[waiting] == "delete"
        assert bytes_with(folder, ADA) == []

    def test_a_reader_who_came_after_keeps_nothing(
        self, store: Store, folder: Path, clock: FakeClock
    ) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        first = store._metadata.acquire_lease(LeaseKind.READER, holder="before", ttl_ms=60_000)
        store.erase("events", where=WHERE)
        clock.advance_ms(1)
        store._metadata.acquire_lease(LeaseKind.READER, holder="after", ttl_ms=60_000, revision=1)
        store._metadata.release_lease(first.lease_id)
        store.gc()
        assert bytes_with(folder, ADA) == []

    def test_who_has_read_an_earlier_revision_reads_it_again_without_the_rows(
        self, store: Store, folder: Path, clock: FakeClock
    ) -> None:
        write_history(store)
        with open_at(folder, clock) as other:
            before = histories(other)
            store.erase("events", where=WHERE)
            other.gc()
            after = histories(other)
        assert {one: after[one] for one in before} == {
            revision: without_ada(rows) for revision, rows in before.items()
        }

    def test_a_deletion_that_comes_between_is_taken_in(
        self, folder: Path, clock: FakeClock
    ) -> None:
        """Its segment is visible when it is searched, and not when it is erased; and the other way round."""

        with meddling(folder, clock) as (store, job), open_at(folder, clock) as other:
            append(store, (1, ADA, 1), (2, "bob", 2))
            append(store, (3, ADA, 30), (4, "bob", 31))
            other.delete("events", interval=hours(24, 48))

            def meddle(run: int) -> None:
                if run == 1:
                    other.delete("events", interval=hours(1, 2))
                if run == 3:
                    other.revert(3)

            job.meddle = meddle
            report = store.erase("events", where=WHERE)
            assert (len(report.files_waiting), report.left) == (2, ())  # the other one has read
            other.gc()
            assert bytes_with(folder, ADA) == []
            assert read(store, store.head().revision) == Counter([(2, "bob"), (4, "bob")])
            assert store.check() == ()

    @pytest.mark.parametrize("search", [1, 2])
    @pytest.mark.parametrize("others", ["revert", "revert and compact", "delete"])
    def test_what_changes_sides_between_the_steps_is_searched(
        self, folder: Path, clock: FakeClock, search: int, others: str
    ) -> None:
        """The steps look at what is visible, and at what is not; it comes into sight, or goes, between them."""
        with meddling(folder, clock) as (store, job), open_at(folder, clock) as other:
            append(store, (1, ADA, 1), (2, "bob", 2))
            append(store, (3, ADA, 30), (4, "bob", 31))
            store.delete("events", interval=hours(0, 24))

            def meddle(run: int) -> None:
                if run != search:
                    return
                if others == "delete":
                    other.delete("events", interval=hours(24, 48))
                    return
                other.revert(3)
                append(other, (5, "eve", 3))
                if others == "revert and compact":
                    other.compact_interval("events", interval=hours(0, 24))

            job.meddle = meddle
            assert store.erase("events", where=WHERE).left == ()
            other.gc()
            assert bytes_with(folder, ADA) == []
            newest = {} if others == "delete" else {(2, "bob"): 1, (4, "bob"): 1, (5, "eve"): 1}
            assert read(store, store.head().revision) == newest
            assert store.check() == ()

    def test_what_others_compact_meanwhile_is_searched_and_nothing_again(
        self, folder: Path, clock: FakeClock
    ) -> None:
        with meddling(folder, clock) as (store, job), open_at(folder, clock) as other:
            append(store, (1, ADA, 1), (2, "bob", 2))
            append(store, (3, "cyd", 30))
            append(store, (4, "dan", 31))

            def meddle(run: int) -> None:
                if run == 2:
                    other.compact_interval("events", interval=hours(24, 48))

            job.meddle = meddle
            report = store.erase("events", where=WHERE)
            assert (report.segments_searched, job.runs) == (3 + 1 + 1, 3)
            other.gc()
            assert bytes_with(folder, ADA) == []

    @pytest.mark.parametrize("search", [1, 2])
    @pytest.mark.parametrize("is_hidden", [False, True], ids=["visible", "hidden"])
    def test_another_erasure_that_comes_between_brings_nothing_back(
        self, folder: Path, clock: FakeClock, search: int, is_hidden: bool
    ) -> None:
        with meddling(folder, clock) as (store, job), open_at(folder, clock) as other:
            append(store, (1, ADA, 1), (2, "bob", 2), (3, CYD, 3), (4, "dan", 4))
            append(store, (5, ADA, 5), (6, CYD, 6))
            store.delete("events", interval=hours(0, 24 if is_hidden else 2))
            if is_hidden:
                append(store, (7, ADA, 30), (8, CYD, 31))

            def meddle(run: int) -> None:
                if run == search:
                    other.erase("events", where=f"mail = '{CYD}'")

            job.meddle = meddle
            store.erase("events", where=WHERE)
            other.gc()
            assert bytes_with(folder, ADA) == bytes_with(folder, CYD) == []
            assert read(store, 1) == Counter([(2, "bob"), (4, "dan")])
            assert store.check() == ()

    def test_if_others_never_stop_it_says_so(self, folder: Path, clock: FakeClock) -> None:
        class Busy(LocalPipeline):
            def run_delete_where(self, *args: Any, **more: Any) -> Any:
                found = super().run_delete_where(*args, **more)
                with open_at(folder, clock) as other:
                    other.compact_interval("events", interval=hours(0, 24))
                return found

        with open_at(
            folder, clock, pipeline=lambda one: Busy(one, clock=clock, ids=RandomIds())
        ) as store:
            append(store, (1, ADA, 1), (2, "bob", 2))
            with pytest.raises(Conflict):
                store.erase("events", where=WHERE)
            assert store.check() == ()
