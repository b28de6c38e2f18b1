"""Laws of tables: of a random history PyIceberg reads what SQL says, at each snapshot; any process writes the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan

from carnac.core.iceberg import groups
from carnac.core.time.intervals import Interval, format_ms
from carnac.errors import Conflict, Invalid, NotFound
from carnac.iceberg import LoadedTable
from carnac.store import Store
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.support.tables import as_texts, opened, rows_by_sql, tables_of
from tests.unit.store.events import HASTY, HOUR_MS, NOW_MS, START_MS, fast_folder, spec

hours = st.builds(
    lambda day, hour: START_MS + (24 * day + hour) * HOUR_MS,
    st.sampled_from((0, 0, 1, 35)),
    st.integers(0, 4),
)
"""Few, so that rows meet what is done to them."""
spans = st.builds(
    lambda start_ms, length: Interval(start_ms, start_ms + length * HOUR_MS),
    hours,
    st.sampled_from((1, 1, 2, 24, 24 * 40)),
)
rows = st.lists(
    st.fixed_dictionaries(
        {"t": hours.map(lambda at_ms: at_ms + 1)},
        optional={
            "a": st.none() | st.text(max_size=3),
            "n": st.integers(-(2**63), 2**63 - 1),
            "f": st.floats(allow_nan=False),
            "b": st.booleans(),
            "w": st.lists(st.text(max_size=2), max_size=2),
        },
    ),
    min_size=3,
    max_size=6,
)
granularities = st.sampled_from(("hour", "day", "month"))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), granularities, rows),
        st.tuples(st.just("replace"), granularities, rows),
        st.tuples(st.just("delete"), spans, st.none()),
        st.tuples(st.just("delete"), spans, st.none()),
        st.tuples(st.just("delete"), spans, st.none()),
        st.tuples(st.just("where"), st.integers(-3, 3), st.none()),
        st.tuples(st.just("compact"), spans, st.none()),
        st.tuples(st.just("revert"), st.integers(0, 9), st.none()),
        st.tuples(st.just("tag"), st.integers(0, 9), st.none()),
        st.tuples(st.just("gc"), st.none(), st.none()),
    ),
    min_size=3,
    max_size=9,
)  # fmt: skip


@contextmanager
def local_store(folder: Path, clock: FakeClock, ids: SequentialIds) -> Iterator[Store]:
    values = HASTY.model_copy(update={"retention_count": 4})
    store = open_local_store(folder, clock=clock, ids=ids, settings=values)
    try:
        yield store
    finally:
        store.close()


def take(store: Store, step: tuple[str, object, object]) -> None:
    """Do one step; one that means nothing now changes nothing."""
    kind, what, given_rows = step
    try:
        if kind in {"append", "replace"}:
            store.ingest(spec(granularity=str(what), mode=kind), given_rows)
        elif kind == "delete":
            store.delete("events", interval=what)  # type: ignore[arg-type]
        elif kind == "where":
            store.delete("events", where=f"n % 4 = {what}")
        elif kind == "compact":
            store.compact_interval("events", interval=what)  # type: ignore[arg-type]
        elif kind == "revert":
            store.revert(max(1, store.head().revision - int(str(what))))
        elif kind == "tag":
            store.tag(f"t{what}")
        else:
            store.gc()
    except (NotFound, Conflict, Invalid):
        return


def tables_written(folder: Path) -> dict[str, bytes]:
    place = folder / "deep-storage" / groups.FOLDER
    return {str(one.relative_to(place)): one.read_bytes() for one in place.rglob("*.*")}


@pytest.mark.slow
@given(granularity=granularities, first=rows, history=steps)
def test_pyiceberg_reads_what_sql_says_and_any_process_writes_the_same(
    granularity: str, first: list[object], history: list[tuple[str, object, object]]
) -> None:
    clock, ids = FakeClock(NOW_MS), SequentialIds()
    times: list[int] = []
    with fast_folder() as name:
        folder = Path(name)
        with local_store(folder, clock, ids) as store:
            tables = tables_of(store)
            for step in [("append", granularity, first), *history]:
                clock.advance_ms(1000)
                take(store, step)
                times.append(clock.now_ms())
                if "events" in tables.names():
                    tables.load("events")
            if "events" not in tables.names():
                with pytest.raises(NotFound):
                    tables.load("events")
                return
            store.gc()
            found = tables.load("events")
            assert_reads_alike(store, found, times)
        written = tables_written(folder)
        shutil.rmtree(folder / "deep-storage" / groups.FOLDER)
        with local_store(folder, clock, ids) as other:
            assert tables_of(other).load("events") == found
        again = tables_written(folder)
        assert again == {path: written[path] for path in again}


def assert_reads_alike(store: Store, found: LoadedTable, times: list[int]) -> None:
    table = opened(found)
    assert as_texts(table.scan().to_arrow()) == rows_by_sql(store, "events")
    for one in table.snapshots():
        read = as_texts(table.scan(snapshot_id=one.snapshot_id).to_arrow())
        assert read == rows_by_sql(store, "events", one.snapshot_id)
    first, last = (format_ms(START_MS + hour * HOUR_MS).replace("Z", "+00:00") for hour in (1, 27))
    filtered = table.scan(
        row_filter=And(GreaterThanOrEqual("__time", first), LessThan("__time", last))
    )
    where = f"SELECT * FROM events WHERE __time >= TIMESTAMPTZ '{first}' AND __time < TIMESTAMPTZ '{last}'"
    assert as_texts(filtered.to_arrow()) == as_texts(store.sql(where).arrow())
    for name, one in table.refs().items():
        if name != "main":
            assert as_texts(table.scan(snapshot_id=one.snapshot_id).to_arrow()) == rows_by_sql(
                store, "events", store_tag(store, name)
            )
    begun_ms = table.history()[0].timestamp_ms
    for at_ms in [one for one in times if one >= begun_ms]:
        (*_, one) = [one for one in table.history() if one.timestamp_ms <= at_ms]
        read = as_texts(table.scan(snapshot_id=one.snapshot_id).to_arrow())
        assert read == rows_by_sql(store, "events", format_ms(at_ms))


def store_tag(store: Store, name: str) -> int:
    (revision,) = (one.revision for one in store.tags() if one.name == name)
    return revision
