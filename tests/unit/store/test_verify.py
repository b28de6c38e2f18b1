"""Verification: a good store has no findings, and every kind of damage has its name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.store import Store
from carnac.store.upkeep.maintenance import Finding
from tests.support.clock import FakeClock
from tests.support.databases import edited
from tests.support.segments import write_segment
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import TTL_MS, append, files_of, hour, rows_of, spec

Damage = Callable[[Path], None]


@pytest.fixture
def places(store: Store, folder: Path) -> list[Path]:
    """The files of three live segments, and one of the past."""
    append(store, (1, 1), (2, 30), (3, 60))
    store.ingest(spec(mode="replace"), rows_of([(4, hour(1))]))
    return [folder / "deep-storage" / path for path in sorted(files_of(folder))]


def damage_missing(place: Path) -> None:
    place.unlink()


def damage_truncated(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:-1])


def damage_flipped(place: Path) -> None:
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(bytes(data))


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def test_a_good_store_has_no_findings_and_every_file_is_counted(
    store: Store, places: list[Path]
) -> None:
    seen: list[tuple[int, int]] = []
    assert list(store.verify(on_progress=lambda done, total: seen.append((done, total)))) == []
    assert seen == [(number, 4) for number in (1, 2, 3, 4)]


def test_an_empty_store_has_no_findings(store: Store) -> None:
    assert list(store.verify()) == []


@pytest.mark.parametrize(
    ("damage", "kind", "detail"),
    [
        (damage_missing, "missing", "has no file"),
        (damage_truncated, "size", "bytes, recorded are"),
        (damage_flipped, "checksum", "its bytes are not those that were written"),
    ],
)
@pytest.mark.parametrize("index", range(4))
def test_damage_of_any_file_is_found_and_named(
    store: Store, places: list[Path], *, damage: Damage, kind: str, detail: str, index: int
) -> None:
    """Also of a file that only the past names."""
    damage(places[index])
    finding = only(list(store.verify()))
    assert finding.kind == kind
    assert finding.path == f"segments/events/{places[index].name}"
    assert detail in finding.detail


def test_rows_that_were_never_there_are_found(store: Store) -> None:
    """The file is what was written, but its record says something else."""
    segment = write_segment(store.deep_storage, [{"__time": hour(1), "id": 1}])
    change = Change(datasource="events", adds=(replace(segment, rows=7, input_rows=7),))
    store._metadata.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    finding = only(list(store.verify()))
    assert (finding.kind, finding.path) == ("rows", segment.path)
    assert finding.detail == "has 1 row, recorded are 7"


def test_a_file_that_is_not_parquet_is_found_though_its_checksum_is_right(store: Store) -> None:
    data = b"these are no rows"
    store.deep_storage.write("segments/events/odd.parquet", data)
    segment = replace(
        write_segment(store.deep_storage, [{"__time": hour(1), "id": 1}]),
        path="segments/events/odd.parquet",
        size_bytes=len(data),
        checksum=f"sha256:{hashlib.sha256(data).hexdigest()}",
    )
    change = Change(datasource="events", adds=(segment,))
    store._metadata.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    finding = next(iter(store.verify()))
    assert finding.kind == "unreadable"
    assert "is not a Parquet file" in finding.detail


def test_an_orphan_is_found_when_it_is_old_enough_and_nobody_writes(
    store: Store, folder: Path, clock: FakeClock
) -> None:
    store.deep_storage.write("segments/events/lost.parquet", b"half a segment")
    with store._leases.writing():
        place = store.deep_storage.local_path("segments/events/lost.parquet")
        assert place is not None
        os.utime(place, ns=(clock.now_ms() * 1_000_000,) * 2)
        clock.advance_ms(1)
        assert list(store.verify()) == [], "somebody's unpublished work"
    store._leases.release_idle()
    finding = only(list(store.verify()))
    assert (finding.kind, finding.path) == ("orphan", "segments/events/lost.parquet")
    assert finding.detail == "no record names it; `carnac gc` removes it"


def test_the_trash_is_nobodys(open_store: OpenStore, folder: Path, clock: FakeClock) -> None:
    store = open_store(settings={"trash_period_ms": 1000})
    append(store, (1, 1))
    store.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
    clock.advance_ms(1)
    (trashed,) = [action for action in store.gc().actions if action.action == "trash"]
    (folder / "deep-storage" / trashed.path).unlink()
    assert list(store.verify()) == []


def test_what_is_collected_while_it_is_verified_is_not_missing(
    open_store: OpenStore, clock: FakeClock
) -> None:
    store, other = open_store(), open_store()
    append(store, (1, 1))
    storage = store.deep_storage
    find_file = storage.find_file

    def collect_first(path: str) -> Any:
        if other.head().revision == 1:
            other.ingest(spec(mode="replace"), rows_of([(2, hour(1))]))
            clock.advance_ms(TTL_MS + 1)
            other.gc()
        return find_file(path)

    storage.find_file = collect_first  # type: ignore[method-assign]
    assert list(store.verify()) == []
    assert other.head().revision == 2


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (
            "overshadowed = '0', minor = 1",
            "partition 0 and update group 0 say that it is hidden",
        ),
        ("update_group = '7'", "partition 1 is not in its update group [7]"),
    ],
)
def test_entries_whose_versions_hide_what_the_log_shows_are_found(
    open_store: OpenStore, folder: Path, *, change: str, detail: str
) -> None:
    """A server that sees only announced segments would not show them."""
    with open_store() as store:
        append(store, (1, 1))
        append(store, (2, 1))
        assert list(store.verify()) == []
    with edited(folder / "metadata.db") as link:
        link.execute(f"UPDATE entries SET {change} WHERE partition_id = 1")
    finding = only(list(open_store().verify()))
    assert finding.kind == "entry"
    assert finding.path.startswith("segments/events/")
    assert detail in finding.detail
