"""The files of tables go with the revisions that they are of; what a kept revision needs stays."""

from __future__ import annotations

from pathlib import Path

from carnac.core.iceberg import groups
from carnac.core.iceberg.manifests import paths_in
from carnac.store import Store
from carnac.store.upkeep.maintenance import GcReport
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.support.tables import opened, tables_of
from tests.unit.store.events import HASTY, HOUR_MS, START_MS, append


def there(folder: Path, kind: str) -> set[str]:
    place = folder / "deep-storage" / groups.folder_of("events") / kind
    return {path.name.partition(".")[0] for path in place.glob("*")}


def revisions(folder: Path, kind: str) -> set[int]:
    return {int(name.partition("-")[0]) for name in there(folder, kind)}


def gone(report: GcReport) -> set[str]:
    return {one.path for one in report.actions if "part of a table" in one.reason}


def clip(store: Store, hour: int) -> None:
    store.delete("events", interval=f"{_time(hour)}/{_time(hour + 1)}")


def _time(hour: int) -> str:
    from carnac.core.time.intervals import format_ms

    return format_ms(START_MS + hour * HOUR_MS)


def test_lists_and_what_only_they_name_go_with_their_revisions(
    store: Store, folder: Path, clock: FakeClock
) -> None:
    tables = tables_of(store)
    append(store, (1, 1), (2, 2), (3, 5))
    clip(store, 2)
    store.tag("kept")
    clip(store, 5)
    append(store, (9, 100))
    tables.load("events")
    assert revisions(folder, groups.LISTS) == {1, 2, 3, 4}
    assert len(there(folder, groups.DELETES)) == 2
    manifests = there(folder, groups.MANIFESTS)
    clock.advance_ms(1)
    removed = gone(store.gc())
    assert len(removed) > 2
    assert revisions(folder, groups.LISTS) == {2, 4}
    assert len(there(folder, groups.DELETES)) == 2
    assert there(folder, groups.MANIFESTS) < manifests
    found = opened(tables.load("events"))
    assert found.scan().to_arrow()["id"].to_pylist().count(9) == 1
    tag = found.refs()["kept"].snapshot_id
    assert sorted(found.scan(snapshot_id=tag).to_arrow()["id"].to_pylist()) == [1, 3]
    assert [one.snapshot_id for one in found.history()] == [4], "a time between means nothing"
    store.untag("kept")
    assert gone(store.gc())
    assert revisions(folder, groups.LISTS) == {4}
    assert len(there(folder, groups.DELETES)) == 1
    assert gone(store.gc()) == set()


def test_young_files_stay_and_a_dry_run_deletes_nothing(folder: Path, clock: FakeClock) -> None:
    slow = HASTY.model_copy(update={"safety_period_ms": 100 * 365 * 86_400_000})
    with open_local_store(folder, clock=clock, ids=SequentialIds(), settings=slow) as store:
        append(store, (1, 1))
        append(store, (2, 2))
        tables_of(store).load("events")
        clock.advance_ms(1)
        assert gone(store.gc()) == set()
        assert revisions(folder, groups.LISTS) == {1, 2}
    with open_local_store(folder, clock=clock, ids=SequentialIds(), settings=HASTY) as store:
        assert gone(store.gc(dry_run=True))
        assert revisions(folder, groups.LISTS) == {1, 2}


def test_a_damaged_list_names_nothing_and_is_no_obstacle(store: Store, folder: Path) -> None:
    append(store, (1, 1))
    tables = tables_of(store)
    tables.load("events")
    place = folder / "deep-storage" / groups.folder_of("events") / groups.LISTS
    (listed,) = place.iterdir()
    assert len(paths_in(listed.read_bytes())) == 1
    listed.write_bytes(b"half a list")
    assert len(gone(store.gc())) == 1
    tables.load("events")
    assert len(there(folder, groups.MANIFESTS)) == 1
