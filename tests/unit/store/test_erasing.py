"""Erasing rows from every revision: no byte of them stays, and every other row of every revision does."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.clock import RandomIds
from carnac.config import Settings
from carnac.core import ids
from carnac.core.log.commits import CommitKind
from carnac.core.time.intervals import Interval
from carnac.errors import Conflict, Corrupt, Invalid, NotFound
from carnac.store import Store
from carnac.store.writing.erasing import ErasureReport
from tests.nightly import by_day
from tests.support.clock import FakeClock
from tests.support.faulty import Crash, Faults
from tests.support.stores import open_local_store
from tests.support.tables import tables_of
from tests.unit.store.events import HASTY, HOUR_MS, NOW_MS, START_MS, fast_folder, hour, spec

ADA = "ada@example.org"
WHERE = f"mail = '{ADA}'"
TRASH_MS = 5_000
SETTINGS = Settings(trash_period_ms=TRASH_MS, lease_ttl_ms=60_000)
Rows = Counter[tuple[int, str]]


@pytest.fixture
def store(folder: Path, clock: FakeClock) -> Iterator[Store]:
    with open_at(folder, clock) as opened:
        yield opened


def open_at(folder: Path, clock: FakeClock, **more: Any) -> Store:
    return open_local_store(folder, clock=clock, ids=RandomIds(), settings=SETTINGS, **more)


def append(store: Store, *rows: tuple[int, str, int], **more: Any) -> None:
    """Append rows: an id, whose it is, and the hour."""
    given = [{"id": one, "mail": mail, "t": hour(number)} for one, mail, number in rows]
    store.ingest(spec(**more), given)


def read(store: Store, at: int) -> Rows:
    try:
        found = store.sql("SELECT id, mail FROM events", at=at).rows()
    except NotFound:
        return Counter()
    return Counter((row["id"], row["mail"]) for row in found)


def histories(store: Store) -> dict[int, Rows]:
    return {one.revision: read(store, one.revision) for one in store.log()}


def without_ada(rows: Rows) -> Rows:
    return Counter({row: count for row, count in rows.items() if row[1] != ADA})


def hours(first: int, end: int) -> Interval:
    return Interval(START_MS + first * HOUR_MS, START_MS + end * HOUR_MS)


def bytes_with(folder: Path, text: str) -> list[str]:
    """The files that hold a text: as it is, or in the rows of a Parquet file. No id may hold it by chance."""
    assert not set(text) <= set(ids.ALPHABET)
    found = []
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        rows = str(pq.read_table(file).to_pydict()) if file.suffix == ".parquet" else ""
        if text.encode() in file.read_bytes() or text in rows:
            found.append(str(file.relative_to(folder)))
    return found


def write_history(store: Store) -> None:
    """Rows of Ada: visible, hidden by a clip, deleted, and folded by a compaction."""
    append(store, (1, ADA, 1), (2, "bob", 2), (3, ADA, 30))
    append(store, (4, "cyd", 3), (5, ADA, 4))
    store.compact_interval("events", interval=hours(0, 24))
    store.delete("events", interval=hours(4, 5))
    append(store, (6, ADA, 50), (7, "bob", 51))
    store.delete("events", where=f"{WHERE} AND id = 6")
    append(store, (8, "dan", 52))


class TestWhatGoes:
    @pytest.mark.slow
    def test_no_byte_of_them_stays_and_every_other_row_of_every_revision_does(
        self, store: Store, folder: Path
    ) -> None:
        write_history(store)
        before = histories(store)
        assert bytes_with(folder, ADA)
        report = store.erase("events", where=WHERE)
        assert report.is_complete, report
        assert bytes_with(folder, ADA) == []
        expected = {revision: without_ada(rows) for revision, rows in before.items()}
        newest = expected[max(expected)]
        assert histories(store) == {**expected, 8: newest, 9: newest}
        assert store.check() == ()
        assert list(store.verify()) == []

    @pytest.mark.slow
    def test_the_certificate_counts_files_and_names_the_commits(self, store: Store) -> None:
        write_history(store)
        report = store.erase("events", where=WHERE, message="ticket 7")
        kinds = {one.revision: (one.kind, one.message) for one in store.log()}
        assert (report.deleted_revision, report.revision) == (8, 9)
        assert kinds[8] == (CommitKind.DELETE, "ticket 7")
        assert kinds[9] == (CommitKind.ERASE, "ticket 7")
        assert kinds[6] == (CommitKind.DELETE, "delete where … AND id = 6")
        assert report.store_id == store.receipt("SELECT 1").store_id
        assert report.segments_rewritten + report.segments_removed == report.files_deleted
        assert report.segments_removed == 1  # the segment of the second day had her row alone
        assert report.rows_erased >= 5
        again = store.erase("events", where=WHERE)
        assert (again.deleted_revision, again.revision, again.rows_erased) == (None, None, 0)
        assert again.is_complete

    def test_messages_are_found_where_no_row_is_left(self, store: Store) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        store.erase("events", where="mail = 'ada@example.org' AND id = 1")
        store.tag("kept")
        append(store, (3, "cyd", 3))
        store.delete("events", where="mail = 'cyd'", message=f"{ADA} asked, too")
        report = store.erase("events", where=WHERE)
        assert (report.rows_erased, report.is_complete) == (0, True)
        assert store.show(5).message == "… asked, too"

    @pytest.mark.parametrize("hers", [0, 3], ids=["first", "last"])
    def test_what_hid_other_rows_can_be_reverted(self, store: Store, hers: int) -> None:
        """The segment spans less without her row, which was its first or its last one."""
        rows = [(1, "bob", 1), (2, "carl", 20), (3, "dan", 22)]
        append(store, *rows, (4, ADA, 23 if hers else 0))
        store.delete("events", interval=hours(2, 21))
        store.erase("events", where=WHERE)
        store.revert(2)
        assert read(store, store.head().revision) == Counter((one, mail) for one, mail, _ in rows)
        assert store.check() == ()

    def test_a_datasource_that_is_dropped_is_searched(self, store: Store, folder: Path) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        store.delete("events", interval=hours(0, 24))
        report = store.erase("events", where=WHERE)
        assert (report.deleted_revision, report.rows_erased) == (None, 1)
        assert histories(store) == {1: Counter([(2, "bob")]), 2: Counter(), 3: Counter()}
        assert bytes_with(folder, ADA) == []

    def test_a_datasource_of_which_nothing_is_left_is_gone(self, store: Store) -> None:
        append(store, (1, ADA, 1))
        store.erase("events", where=WHERE)
        assert histories(store) == {revision: Counter() for revision in (1, 2, 3)}
        assert store.check() == ()
        with pytest.raises(NotFound, match="there is no datasource 'events'"):
            store.erase("events", where=WHERE)
        append(store, (2, "bob", 2))
        assert read(store, 4) == Counter([(2, "bob")])

    def test_what_is_trimmed_by_the_erasure_is_gone_with_it(
        self, folder: Path, clock: FakeClock
    ) -> None:
        """The datasource is dropped, and no rule keeps its history: there is none when its rows are searched."""
        with open_local_store(folder, clock=clock, ids=RandomIds(), settings=HASTY) as store:
            append(store, (1, ADA, 1), (2, "bob", 2))
            store.delete("events", interval=hours(0, 24))
            clock.advance_ms(1)
            report = store.erase("events", where=WHERE)
            assert (report.rows_erased, report.is_complete) == (0, True)
            assert bytes_with(folder, ADA) == []

    def test_a_column_that_only_history_has_is_known(self, store: Store) -> None:
        append(store, (1, ADA, 1))
        store.delete("events", interval=hours(0, 24))
        store.ingest(spec(), [{"id": 2, "t": hour(2)}])
        assert store.erase("events", where=WHERE).rows_erased == 1
        assert read_ids(store) == [2]

    def test_rolled_up_rows_go_by_their_dimensions(self, store: Store, folder: Path) -> None:
        rows = [{"id": one, "mail": ADA if one % 2 else "bob", "t": hour(1)} for one in range(6)]
        store.append("events", rows, time={"column": "t", "format": "millis"}, spec=None)
        assert store.erase("events", where=WHERE).rows_erased >= 3
        assert bytes_with(folder, ADA) == []

    def test_lists_for_icebergs_clients_go_and_are_written_again(
        self, store: Store, folder: Path
    ) -> None:
        tables = tables_of(store)
        append(store, (1, ADA, 1), (2, "bob", 2))
        tables.load("events")
        assert list((folder / "deep-storage" / "iceberg").rglob("*.avro"))
        store.erase("events", where=WHERE)
        assert not list((folder / "deep-storage" / "iceberg").rglob("*.avro"))
        tables.load("events")


def read_ids(store: Store) -> list[int]:
    return sorted(row["id"] for row in store.sql("SELECT id FROM events").rows())


class TestWhatIsLeft:
    def test_rejected_rows_results_staged_rows_and_orphans_are_told(
        self, store: Store, folder: Path
    ) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        for path in (
            "quarantine/events/j/0.parquet",
            "results/t/0.arrows",
            "staging/x/0.arrow",
            "segments/events/x.parquet",
        ):
            place = folder / "deep-storage" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"rows")
        report = store.erase("events", where=WHERE)
        assert not report.is_complete
        assert [one.partition(" of ")[0].partition(" that ")[0] for one in report.left] == [
            "1 file"
        ] * 4

    def test_texts_elsewhere_are_told(self, store: Store) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        store.set_lookup("names", {ADA: "Ada"})
        report = store.erase("events", where=WHERE)
        assert report.left == ("lookups: 1 hold a text of the condition",)


class TestDyingAtAnyPoint:
    @pytest.mark.slow
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_the_next_erasure_finishes_it(
        self, folder: Path, clock: FakeClock, after: bool
    ) -> None:
        with open_at(folder, clock) as store:
            write_history(store)
            before = histories(store)
        calls = self.calls_of(folder, clock)
        assert {"erase", "publish", "purge", "delete", "forget_erased_files"} <= set(calls)
        for number in by_day(range(1, len(calls) + 1), 5):
            with fast_folder() as name, ExitStack() as handles:
                copy = Path(shutil.copytree(folder, Path(name) / "copy"))
                faults = Faults()
                dying = handles.enter_context(open_at(copy, clock, faults=faults))
                faults.arm(int(str(number)), after=after, dies=True)
                with pytest.raises(Crash):
                    dying.erase("events", where=WHERE)
                faults.disarm()
                clock.advance_ms(SETTINGS.lease_ttl_ms + 1)
                store = handles.enter_context(open_at(copy, clock))
                assert store.erase("events", where=WHERE).files_waiting == ()
                assert bytes_with(copy, ADA) == []
                after_all = histories(store)
                assert {one: after_all[one] for one in before} == {
                    revision: without_ada(rows) for revision, rows in before.items()
                }
                assert store.check() == ()

    def calls_of(self, folder: Path, clock: FakeClock) -> list[str]:
        """The calls of metadata store and deep storage by a whole erasure."""
        faults = Faults()
        with fast_folder() as name:
            copy = Path(shutil.copytree(folder, Path(name) / "copy"))
            with open_at(copy, clock, faults=faults) as store:
                faults.calls.clear()
                store.erase("events", where=WHERE)
                return [*faults.calls]


class TestWrongConditions:
    @pytest.mark.parametrize(
        ("where", "told"),
        [
            ("male = 'x'", "there is no column 'male'; did you mean 'mail'"),
            ("mail", "it is of type VARCHAR, not a condition"),
            ("mail = 'x'; DROP TABLE y", "cannot be used"),
            ("random() > 0.5", "does not give the same answer every time"),
        ],
    )
    def test_nothing_is_done(self, store: Store, where: str, told: str) -> None:
        append(store, (1, ADA, 1))
        for attempt in (store.erase, store.plan_erasure):
            with pytest.raises(Invalid, match=told.replace("(", r"\(").replace(")", r"\)")):
                attempt("events", where=where)
        assert store.head().revision == 1

    def test_nor_where_a_file_is_damaged(self, store: Store, folder: Path) -> None:
        append(store, (1, ADA, 1), (2, "bob", 2))
        store.delete("events", interval=hours(0, 24))
        (file,) = (folder / "deep-storage" / "segments").rglob("*.parquet")
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        with pytest.raises(Corrupt):
            store.erase("events", where=WHERE)
        assert store.head().revision == 2


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(
                st.tuples(st.sampled_from([ADA, "bob", "cyd"]), st.integers(0, 47)),
                min_size=1,
                max_size=4,
            ),
        ),
        st.tuples(  # hers are the first and the last ones of a day
            st.just("append"),
            st.lists(st.integers(1, 22), max_size=3).map(
                lambda at: [(ADA, 0), *(("bob", one) for one in at), (ADA, 23)]
            ),
        ),
        st.tuples(st.just("clip"), st.integers(0, 47)),
        st.tuples(st.just("delete"), st.sampled_from([ADA, "bob"])),
        st.tuples(st.just("compact"), st.integers(0, 1)),
        st.tuples(st.just("revert"), st.integers(1, 12)),
        st.tuples(st.just("erase"), st.sampled_from(["cyd"])),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=max(3, settings().max_examples // 3))  # one takes some 400 ms
@given(steps=STEPS)
def test_after_any_history_each_revision_is_what_it_was_without_the_rows(
    steps: Sequence[tuple[str, Any]],
) -> None:
    clock = FakeClock(NOW_MS)
    with fast_folder() as name, open_at(Path(name), clock) as store:
        append(store, (0, "bob", 0), (1, ADA, 25))
        for number, (step, value) in enumerate(steps):
            with suppress(Conflict, Invalid, NotFound):
                act(store, number, step, value)
        before = histories(store)
        report: ErasureReport = store.erase("events", where=WHERE)
        assert report.is_complete, report
        after = histories(store)
        assert {one: after[one] for one in before} == {
            revision: without_ada(rows) for revision, rows in before.items()
        }
        assert bytes_with(Path(name), ADA) == []
        assert store.check() == ()
        assert list(store.verify()) == []
        for revision in reversed(before):
            with suppress(Conflict, Invalid, NotFound):
                store.revert(revision)
        assert store.check() == ()
        assert ADA not in {mail for _, mail in read(store, store.head().revision)}


def act(store: Store, number: int, step: str, value: Any) -> None:
    if step == "append":
        rows = [(100 * number + place, mail, at) for place, (mail, at) in enumerate(value)]
        append(store, *rows)
    elif step == "clip":
        store.delete("events", interval=hours(value, value + 2))
    elif step == "delete":
        store.delete("events", where=f"mail = '{value}'")
    elif step == "compact":
        store.compact_interval("events", interval=hours(24 * value, 24 * value + 24))
    elif step == "revert":
        store.revert(value)
    else:
        store.erase("events", where=f"mail = '{value}'")


def test_a_report_can_be_kept_as_json(store: Store) -> None:
    from dataclasses import asdict

    append(store, (1, ADA, 1), (2, "bob", 2))
    kept = json.loads(json.dumps(asdict(store.erase("events", where=WHERE))))
    assert kept["rows_erased"] == 1
    assert ADA not in str(kept)
