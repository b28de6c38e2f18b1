"""Garbage collection: what goes, what stays and why, and that it may die at any point."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.core.ids import TIME_DIGITS, digits
from carnac.errors import NotFound, Unavailable
from carnac.store import Store
from carnac.store.upkeep.maintenance import CLOCK_SKEW_MS, GcReport
from tests.support.clock import FakeClock
from tests.support.faulty import Crash, Faults, unavailable
from tests.support.stores import open_local_store
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import (
    HASTY,
    TTL_MS,
    StampedPipeline,
    append,
    files_of,
    hour,
    ids,
    rows_of,
    spec,
)


def actions(report: GcReport, kind: str) -> dict[str, str]:
    paths = [action.path for action in report.actions]
    assert sorted(set(paths)) == sorted(paths), "a file is told of twice"
    return {action.path: action.reason for action in report.actions if action.action == kind}


def path_of(store: Store, at: int | None = None) -> str:
    (item,) = store.segments("events", at=at)
    return item.segment.path


def replace(store: Store, identity: int, **more: Any) -> int:
    """Replace the first day by one row."""
    revision = store.ingest(spec(mode="replace", **more), rows_of([(identity, hour(1))])).revision
    assert revision is not None
    return revision


def leave_orphan(folder: Path, name: str = "lost") -> str:
    """A file of a writer that died, older than every clock here."""
    path = folder / "deep-storage" / "segments" / "events" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half a segment")
    return f"segments/events/{name}.parquet"


RESTS = {
    "rejected rows": (
        "quarantine/events/j1/0-0.parquet", "quarantine_period_ms", "rejected rows of"
    ),
    "rows of a statement": (
        "results/t1/1/0.arrows", "query_async_retention_ms", "rows of a statement, kept since"
    ),
}  # fmt: skip
"""Files beside the log: where one is, the setting of their period, and why it goes."""


class TestWhatGoesAndWhatStays:
    def test_in_two_phases_each_with_a_reason(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        store = open_store(settings={"trash_period_ms": 5000})
        append(store, (1, 1))
        old = path_of(store)
        replace(store, 2)
        clock.advance_ms(1)
        planned, done = store.gc(dry_run=True), store.gc()
        assert actions(planned, "trash") == actions(done, "trash")
        assert actions(done, "trash") == {old: "no retained revision, tag or lease names it"}
        assert (planned.is_dry_run, planned.revisions_trimmed, planned.revisions_kept) == (
            True,
            1,
            1,
        )
        clock.advance_ms(4999)
        kept = store.gc()
        assert "in the trash since" in actions(kept, "keep")[old]
        assert old in files_of(folder)
        clock.advance_ms(1)
        gone = store.gc()
        assert list(actions(gone, "delete")) == [old]
        assert gone.deleted_bytes > 0
        assert files_of(folder) == {path_of(store)}

    def test_a_dry_run_changes_nothing(self, store: Store, folder: Path, clock: FakeClock) -> None:
        append(store, (1, 1))
        replace(store, 2)
        leave_orphan(folder)
        clock.advance_ms(TTL_MS)
        before = files_of(folder)
        first, second = store.gc(dry_run=True), store.gc(dry_run=True)
        assert first == second
        assert files_of(folder) == before
        assert ids(store, 1) == [1]

    def test_one_that_is_told_to_stop_leaves_the_rest_to_the_next_time(
        self, store: Store, folder: Path, clock: FakeClock
    ) -> None:
        append(store, (1, 1))
        orphans = sorted(leave_orphan(folder, f"lost-{number}") for number in range(3))
        clock.advance_ms(TTL_MS + 1)
        asked = iter([False, True])
        first = store.gc(is_stopping=lambda: next(asked, True))
        assert [*actions(first, "delete")] == orphans[:1]
        assert files_of(folder).isdisjoint(orphans[:1])
        assert [*actions(store.gc(), "delete")] == orphans[1:]

    def test_a_tag_keeps_its_revision_and_says_so(
        self, store: Store, folder: Path, clock: FakeClock
    ) -> None:
        append(store, (1, 1))
        path = path_of(store)
        store.tag("audit", at=1)
        replace(store, 2)
        clock.advance_ms(1)
        report = store.gc()
        assert actions(report, "keep") == {path: "tag 'audit' at revision 1"}
        assert ids(store, "audit") == [1]
        store.untag("audit")
        clock.advance_ms(TTL_MS + 1)
        assert path in actions(store.gc(), "delete")
        with pytest.raises(NotFound, match="revision 1 was trimmed; the nearest retained are 2"):
            store.sql("SELECT 1 FROM events", at=1)

    @pytest.mark.parametrize("kind", RESTS)
    def test_rows_beside_the_log_are_kept_for_their_period(
        self, open_store: OpenStore, folder: Path, clock: FakeClock, kind: str
    ) -> None:
        path, setting, reason = RESTS[kind]
        rejected = folder / "deep-storage" / path
        rejected.parent.mkdir(parents=True)
        rejected.write_bytes(b"what nobody could read")
        age_ms = clock.now_ms() - int(rejected.stat().st_mtime * 1000)
        store = open_store(settings={setting: age_ms + 60_000})
        assert store.gc().actions == ()
        clock.advance_ms(60_001)
        (planned,) = store.gc(dry_run=True).actions
        assert (planned.action, planned.reason.split(" 2")[0]) == ("delete", reason)
        assert rejected.exists()
        assert store.gc().actions == (planned,)
        assert not rejected.exists()

    def test_a_young_file_without_a_record_is_left_alone(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        orphan = leave_orphan(folder)
        age_ms = clock.now_ms() - int((folder / "deep-storage" / orphan).stat().st_mtime * 1000)
        careful = open_store(settings={"safety_period_ms": age_ms + 60_000})
        assert careful.gc().actions == ()
        clock.advance_ms(70_000)
        assert actions(careful.gc(), "delete")[orphan].startswith("no record names it since")
        assert files_of(folder) == set()

    def test_a_live_writer_s_files_stay_however_old_deep_storage_says_they_are(
        self, folder: Path, clock: FakeClock
    ) -> None:
        """Its clock may be behind by any time; the ids in paths are by the writer's own, after that of its lease."""
        ids = RandomIds()
        dead = digits(SystemClock().now_ms() - 2 * CLOCK_SKEW_MS, TIME_DIGITS) + "0" * 16
        store = open_local_store(folder, clock=clock, ids=ids, settings=HASTY)
        named_like_an_id = "z" * 26
        orphans = [
            f"segments/events/{dead}/{dead}a0s0.parquet",
            f"segments/{named_like_an_id}/lost.parquet",
            f"staging/{dead}/0/part.arrow",
        ]
        with closing(store):
            with store._leases.writing():
                own = ids.new_id()
                live = [
                    f"segments/events/{own}/{own}a0s0.parquet",
                    f"segments/events/{own}/.{own}a0s0.parquet.x.tmp",
                    f"segments/events/{own}.parquet",
                    f"staging/rewrite-{own}/0/part.arrow",
                ]
                for path in (*orphans, *live):
                    store.deep_storage.write(path, b"half a segment")
                    os.utime(folder / "deep-storage" / path, (0, 0))
                assert set(actions(store.gc(), "delete")) == set(orphans)
                assert files_of(folder) == set(live)
            assert set(actions(store.gc(), "delete")) == set(live)


class TestDyingAtAnyPoint:
    """A history with one of everything: live, past, in the trash, orphan."""

    def make(self, store: Store, folder: Path, clock: FakeClock) -> None:
        append(store, (1, 1))
        replace(store, 2)
        append(store, (3, 100))
        store.delete("events", interval="2013-10-22/2013-10-23")
        append(store, (4, 1))
        leave_orphan(folder)
        leave_orphan(folder, "lost-too")
        clock.advance_ms(TTL_MS + 1)

    def check(self, store: Store, folder: Path) -> None:
        """Nothing that is named may be missing, and the next collection finishes the work."""
        assert {finding.kind for finding in store.verify()} <= {"orphan"}
        assert ids(store) == [3, 4]
        store.gc()
        assert list(store.verify()) == []
        live = {item.segment.path for item in store.segments("events")}
        assert files_of(folder) == live == set(store._metadata.known_paths())

    @pytest.mark.slow
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_a_crash_at_every_call_leaves_what_the_next_run_finishes(
        self, open_store: OpenStore, folder: Path, clock: FakeClock, after: bool
    ) -> None:
        self.make(open_store(), folder, clock)
        counting = Faults()
        copy = folder.with_name(f"{folder.name}-count")
        shutil.copytree(folder, copy)
        open_store(folder=copy, faults=counting).gc()
        calls = [name for name in counting.calls if name != "settings"]
        shutil.rmtree(copy)
        assert {"trim", "delete", "forget_segments", "leases", "known_paths"} <= set(calls)
        for number in range(1, len(calls) + 1):
            copy = folder.with_name(f"{folder.name}-{number}")
            shutil.copytree(folder, copy)
            faults = Faults()
            dying = open_store(folder=copy, faults=faults)
            faults.arm(number, after=after, dies=True)
            with pytest.raises(Crash):
                dying.gc()
            faults.disarm()
            self.check(open_store(folder=copy), copy)
            shutil.rmtree(copy)

    def test_deep_storage_that_does_not_answer_is_an_error_and_can_be_repeated(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        faults = Faults(unavailable)
        store = open_store(faults=faults)
        self.make(store, folder, clock)
        faults.arm(2, only=["delete"])
        with pytest.raises(Unavailable):
            store.gc()
        self.check(store, folder)


class Interrupted(StampedPipeline):
    """Others are at work between writing the files and publishing them."""

    meanwhile: Callable[[], object]

    def run_ingest(self, *args: Any, **more: Any) -> Any:
        result = super().run_ingest(*args, **more)
        self.meanwhile()
        return result


class TestBesideWriters:
    def test_a_slow_writer_keeps_its_unpublished_files(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        collector, writer = open_store(), open_store(pipeline=Interrupted)
        reports = []

        def collect() -> None:
            clock.advance_ms(TTL_MS - 1)  # long, but its lease still lives
            assert len(files_of(folder)) == 1
            reports.append(collector.gc())

        writer._pipeline().meanwhile = collect  # type: ignore[attr-defined]
        append(writer, (1, 1))
        assert reports[0].actions == ()
        assert ids(writer) == [1]
        assert list(writer.verify()) == []

    def test_a_replacement_finds_its_base_after_a_long_job(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        """Others publish and collect while it runs; what it read is trimmed only when it is done."""
        collector, writer = open_store(), open_store(pipeline=Interrupted)
        append(collector, (1, 1))

        def others() -> None:
            append(collector, (2, 100))
            append(collector, (3, 101))
            clock.advance_ms(1)
            assert collector.gc().revisions_trimmed == 0

        writer._pipeline().meanwhile = others  # type: ignore[attr-defined]
        replace(writer, 9)
        assert ids(writer) == [2, 3, 9]
        writer.close()
        clock.advance_ms(1)
        assert collector.gc().revisions_trimmed == 3


class TestBesideReaders:
    def test_a_pinned_revision_stays_readable_until_it_is_let_go(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        store, collector = open_store(), open_store()
        append(store, (1, 1))
        with store._leases.reading(1):
            replace(collector, 2)
            replace(collector, 3)
            clock.advance_ms(1)
            assert collector.gc().revisions_trimmed == 0
            assert [ids(store, at) for at in (1, 2, 3)] == [[1], [2], [3]]
        store.close()
        clock.advance_ms(1)
        assert collector.gc().revisions_trimmed == 2

    @pytest.mark.slow
    def test_many_threads_read_while_everything_else_is_collected(
        self, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        """Each replacement writes the same three days with its own number: a reader sees one number, three times."""
        writer = open_store()
        done = threading.Event()
        problems: list[BaseException] = []
        reads: list[int] = []

        def work() -> None:
            try:
                while not done.is_set():
                    with open_store() as reader:
                        for _ in range(3):
                            found = ids(reader)
                            assert len(found) == 3
                            assert len(set(found)) == 1
                            reads.append(found[0])
            except BaseException as problem:
                problems.append(problem)

        def write(number: int) -> None:
            rows = [(number, hour(day * 24)) for day in range(3)]
            writer.ingest(spec(mode="replace"), rows_of(rows))

        write(0)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        deleted = number = 0
        while (number < 12 or len(reads) < 30) and not problems and number < 200:
            number += 1
            write(number)
            clock.advance_ms(1)
            report = writer.gc()
            deleted += sum(action.action == "delete" for action in report.actions)
        done.set()
        for thread in threads:
            thread.join()
        assert problems == []
        assert deleted > 0, "the collector found something to do"
        clock.advance_ms(1)
        writer.gc()
        assert list(writer.verify()) == []
        assert len(files_of(folder)) == 3


class TestBesideWritersAtWork:
    def test_an_append_whose_base_is_trimmed_meanwhile_is_published(
        self, open_store: OpenStore
    ) -> None:
        """Found by `carnac simulate cluster --seed 10`, where a writer stood still for longer than history is kept."""
        other = open_store()
        append(other, (1, 1))

        class Overtaken(StampedPipeline):
            def run_ingest(self, *args: Any, **named: Any) -> Any:
                result = super().run_ingest(*args, **named)
                append(other, (2, 2))
                other.gc()
                return result

        store = open_store(pipeline=Overtaken)
        assert append(store, (3, 3)) == 3
        assert ids(store) == [1, 2, 3]
        for number in (4, 5):  # under one lease, whose revision is not kept
            done = store.append("events", rows_of([(number, number)]), spec=spec())
            assert (done.segments_added, done.is_replay) == (1, False)
        assert {4, 5} <= set(ids(store))
