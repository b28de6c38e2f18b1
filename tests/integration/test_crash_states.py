"""The power fails anywhere: what was acknowledged is there whole with its files, and the store goes on."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_store
from carnac.config import Settings
from carnac.core.time.intervals import parse_interval
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError
from carnac.rows.output import OutputFile
from carnac.store import Store
from tests.nightly import IS_FAST, IS_NIGHTLY
from tests.support.clock import FakeClock, SequentialIds
from tests.support.crashes import Event, FolderSynced, Recording, Synced, disk_of, recorded
from tests.support.pipeline import LocalPipeline
from tests.unit.store.events import HASTY, NOW_MS, append, fast_folder, hour, ids, rows_of, spec

STATES = 20_000 if IS_NIGHTLY else 100 if IS_FAST else 400
LOOKED_AT = 25
"""Of so many states one is queried, and appended to."""
PARTS = 2
"""Which run beside each other."""
_OPENINGS = itertools.count()


def opened(folder: Path, *, create: bool = False, settings: Settings = HASTY) -> Store:
    clock, names = FakeClock(NOW_MS), SequentialIds(f"opening{next(_OPENINGS)}-")
    return open_store(
        folder,
        create=create,
        settings=settings,
        clock=clock,
        ids=names,
        pipeline=lambda root: LocalPipeline(root, clock=clock, ids=names),
    )


@dataclass
class Life:
    """What a store was told it has done.

    Attributes:
        acknowledged: After so many events, this revision.
        rows: The ids of the rows of each revision.
        ready: When `init` was over, in events.
    """

    recording: Recording
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    rows: dict[int, list[int]] = field(default_factory=dict)
    ready: int = 0

    def acknowledge(self, store: Store) -> None:
        revision = store.head().revision
        self.acknowledged.append((len(self.recording.events), revision))
        self.rows[revision] = ids(store)

    def at_least(self, event: int) -> int:
        return max((revision for after, revision in self.acknowledged if after <= event), default=0)


def live(folder: Path) -> Life:
    """Appends, replacements, deletions, garbage collection; closed and opened again in between."""
    steps: list[Callable[[Store], object]] = [
        lambda store: append(store, (1, 1), (2, 30)),
        lambda store: append(store, (3, 1)),
        lambda store: store.ingest(spec(mode="replace"), rows_of([(4, hour(1)), (5, hour(2))])),
        lambda store: append(store, (6, 60)),
        lambda store: store.delete("events", interval=parse_interval("2013-10-23/2013-10-24")),
        lambda store: store.gc(),
        lambda store: append(store, (7, 1), (8, 90)),
        lambda store: store.tag("kept"),
        lambda store: append(store, (9, 200)),
        lambda store: store.gc(),
    ]
    with recorded(folder) as recording:
        life = Life(recording)
        store = opened(folder, create=True)
        life.ready = len(recording.events)
        life.acknowledge(store)
        for number, step in enumerate(steps):
            if number % 3 == 2:
                store.close()
                store = opened(folder)
            step(store)
            life.acknowledge(store)
        store.close()
    return life


def look(folder: Path, life: Life, event: int, *, closely: bool) -> None:
    """Open what is left, as somebody would after the power is back."""
    with opened(folder, create=event < life.ready) as store:
        head = store.head().revision
        assert head >= life.at_least(event), "what was acknowledged is there"
        assert head in life.rows, "what is there was published"
        assert store.check() == ()
        assert {one.kind for one in store.verify()} <= {"orphan"}
        if closely:
            assert ids(store) == life.rows[head]
            assert append(store, (1_000, 5)) == head + 1
            assert ids(store) == sorted([*life.rows[head], 1_000])


def cut_off(folder: Path, states: int, seed: int, forgets: Callable[[Event], bool]) -> None:
    """Live, then look at what so many power cuts leave.

    Args:
        forgets: What the disk says it has done and has not.
    """
    life = live(folder / "store")
    events, rng = life.recording.events, random.Random(seed)
    cuts = sorted(rng.randint(0, len(events)) for _ in range(states))
    disk, done = disk_of(life.recording), 0
    for number, cut in enumerate(cuts):
        for event in events[done:cut]:
            if not forgets(event):
                disk.apply(event)
        done = cut
        left = folder / f"left-{number}"
        disk.crash(rng, left)
        try:
            look(left, life, cut, closely=number % LOOKED_AT == 0)
        except BaseException as error:
            error.add_note(f"state {number}: after {cut} of {len(events)} events, seed {seed}")
            raise
        shutil.rmtree(left, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PARTS))
def test_no_power_cut_takes_back_what_was_acknowledged(seed: int) -> None:
    with fast_folder() as name:
        cut_off(Path(name), STATES // PARTS, seed, lambda _: False)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["folders", "files", "database"])
def test_a_sync_that_is_left_out_is_noticed(what: str) -> None:
    def forgets(event: Event) -> bool:
        if isinstance(event, FolderSynced):
            return what == "folders"
        if not isinstance(event, Synced) or what == "folders":
            return False
        return (event.content is None) == (what == "database")

    with fast_folder() as name, pytest.raises((AssertionError, CarnacError)):
        cut_off(Path(name), 200, 0, forgets)


def test_a_segment_file_that_was_placed_is_there_whole() -> None:
    """Spark's tasks write their files themselves, below folders that others make at the same time."""
    rng = random.Random(0)
    with fast_folder() as name:
        root, placed = Path(name, "deep-storage"), list[tuple[int, str, bytes]]()
        with recorded(root) as recording:
            for number in range(12):
                file = OutputFile(
                    root.as_uri(), f"segments/{number % 3}/{number}.parquet", temp_dir=name
                )
                data = rng.randbytes(2_000)
                file.stream.write(data)
                file.place()
                placed.append(
                    (len(recording.events), f"segments/{number % 3}/{number}.parquet", data)
                )
        for number in range(STATES // 5):
            cut, disk = rng.randint(0, len(recording.events)), disk_of(recording)
            for event in recording.events[:cut]:
                disk.apply(event)
            left = Path(name, f"left-{number}")
            disk.crash(rng, left)
            for after, path, data in placed:
                assert after > cut or (left / path).read_bytes() == data
            shutil.rmtree(left, ignore_errors=True)


def test_a_folder_that_somebody_else_has_just_made_is_not_trusted() -> None:
    """They may not have synced its name yet, and what we acknowledge lies in it."""
    rng = random.Random(0)
    with fast_folder() as name:
        root = Path(name, "deep-storage")
        with recorded(root) as recording:
            storage = open_deep_storage(str(root))
            storage.write("first", b"1")
            (root / "segments").mkdir()
            storage.write("segments/second", b"2")
        disk = disk_of(recording)
        for event in recording.events:
            disk.apply(event)
        for number in range(40):
            left = Path(name, f"left-{number}")
            disk.crash(rng, left)
            assert (left / "segments" / "second").read_bytes() == b"2"
