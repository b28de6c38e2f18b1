"""Run jobs of a store whose disks fill, and print what is seen. Mounts small disks: run it where it may (`unshare`)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from carnac.bootstrap.compaction import open_local_compaction
from carnac.bootstrap.store import open_records, open_store
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.errors import CarnacError
from carnac.overlord.compactor.status import read_status
from carnac.ports import Clock
from carnac.store import Store
from carnac.store.compacting.reports import CompactionReport
from tests.e2e.cli import append_rows
from tests.support.segments import Row

NAME, DAYS, SEGMENTS, ROWS = "flights", 2, 3, 2_000
DISK_BYTES = 64 << 20
ROOM_BYTES = 16 << 10
"""Left on a disk that fills: less than any job writes."""
TEMPORARY = "temporary"
"""Name of the folder for temporary files."""
SPEC = {"dataSource": NAME, "granularitySpec": {"segmentGranularity": "day"}}


class Disk:
    """A small disk of its own."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        size = f"size={DISK_BYTES}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True)
        self.place = place

    def fill(self) -> None:
        """Leave little room."""
        status = os.statvfs(self.place)
        free = status.f_bavail * status.f_frsize - ROOM_BYTES
        with (self.place / "fill").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free)

    def empty(self) -> None:
        """Give the room back."""
        (self.place / "fill").unlink()


class Lab:
    """A store with its segments on one disk, its metadata on another, and a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.deep, self.meta = Disk(folder / "deep"), Disk(folder / "meta")
        temporary = folder / TEMPORARY
        temporary.mkdir()
        tempfile.tempdir = str(temporary)
        (self.deep.place / "files").mkdir()
        (self.meta.place / "deep-storage").symlink_to(self.deep.place / "files")
        self.settings = Settings(store=str(self.meta.place), spark_master="local[2]")
        rng = random.Random(1)
        for day in range(1, DAYS + 1):
            for _ in range(SEGMENTS):
                append_rows(self.meta.place, [row(rng, day) for _ in range(ROWS)], datasource=NAME)

    def files(self) -> set[str]:
        """All files of deep storage."""
        found = (self.deep.place / "files").rglob("*")
        return {str(path) for path in found if path.is_file()}

    @contextlib.contextmanager
    def full(self, disk: Disk) -> Iterator[None]:
        """A disk is full inside of the block."""
        disk.fill()
        try:
            yield
        finally:
            disk.empty()


def row(rng: random.Random, day: int) -> Row:
    return {
        "__time": f"2013-01-{day:02d}T{rng.randrange(24):02d}:00:00Z",
        "number": rng.randrange(1 << 60),
        "kind": rng.randrange(5),
    }


def rows_of(store: Store) -> list[Any]:
    found = store.sql(f"SELECT count(*) AS n, sum(number)::VARCHAR AS s FROM {NAME}").rows()
    return [dict(one) for one in found]


def see(lab: Lab, store: Store, job: Callable[[], CompactionReport | object]) -> dict[str, Any]:
    """Run a job; return what it says and what it leaves behind."""
    before, errors, figures = lab.files(), [], {}
    try:
        done = job()
    except CarnacError as error:
        errors = [error.message]
    else:
        if isinstance(done, CompactionReport):
            errors = [one.error.message for one in done.groups if one.error is not None]
            figures = {"bytes_wasted": done.bytes_wasted, "groups": len(done.groups)}
    return {
        "errors": errors,
        "new_files": sorted(lab.files() - before),
        "rows": rows_of(store),
        **figures,
    }


def ingest(store: Store, folder: Path, mode: str) -> object:
    """Ingest more rows than there is room for."""
    rng, path = random.Random(2), folder / "more.jsonl"
    path.write_text("".join(json.dumps(row(rng, 1)) + "\n" for _ in range(ROWS)))
    return store.ingest(
        {
            "dataSource": NAME,
            "input": str(path),
            "timestampSpec": {"column": "__time", "format": "iso"},
            "dimensions": [{"name": "number", "type": "long"}, {"name": "kind", "type": "long"}],
            "granularitySpec": {
                "segmentGranularity": "day",
                "intervals": ["2013-01-01/2013-01-03"],
            },
            "mode": mode,
        }
    )


class Later(SystemClock):
    """The time an hour from now, when nothing rests any more."""

    def now_ms(self) -> int:
        """Return it."""
        return super().now_ms() + 3_600_000


def keep(lab: Lab, store: Store, clock: Clock | None = None) -> dict[str, Any]:
    """Let a controller keep the store compacted until nothing is left but what rests."""
    before = lab.files()
    local = open_local_compaction(store, settings=lab.settings, clock=clock)
    try:
        while True:
            report = local.controller.run_round()
            if not report.started and not report.ended and local.controller.is_idle():
                break
            local.runner.wait(1)
        resting = local.controller.count_resting()
    finally:
        local.close()
    metadata = open_records(settings=lab.settings, clock=SystemClock())
    states, told = metadata.compaction_states(NAME), read_status(metadata) or {}
    metadata.close()
    return {
        "chunks": len(states),
        "resting": resting,
        "reasons": [state.reason for state in states],
        "bytes_wasted": told["bytes_wasted"],
        "new_files": sorted(lab.files() - before),
    }


def main(folder: Path) -> dict[str, Any]:
    """Run everything with one session of Spark."""
    lab = Lab(folder)
    filtered = CompactionTarget(filter="kind < 9", allow_lossy=True)
    with open_store(settings=lab.settings) as store:
        told: dict[str, Any] = {"rows": rows_of(store), "room_bytes": ROOM_BYTES}
        jobs: dict[str, Callable[[], object]] = {
            "in one task": lambda: store.compact_interval(NAME),
            "Spark's plan": lambda: store.compact_interval(NAME, target=filtered),
            "delete": lambda: store.delete(NAME, where="kind = 3"),
            "append": lambda: ingest(store, folder, "append"),
            "replace": lambda: ingest(store, folder, "replace"),
        }
        for name, job in jobs.items():
            with lab.full(lab.deep):
                told[name] = see(lab, store, job)
        metadata = open_records(settings=lab.settings, clock=SystemClock())
        metadata.put_compaction_spec(NAME, json.dumps(SPEC))
        metadata.close()
        with lab.full(lab.deep):
            told["controller"] = keep(lab, store)

        def fill_once(_progress: object) -> None:
            if not (lab.meta.place / "fill").exists():
                lab.meta.fill()

        def compact() -> CompactionReport:
            return store.compact_interval(NAME, on_progress=fill_once)

        told["metadata"] = see(lab, store, compact)
        lab.meta.empty()
        told["with room"] = {
            **keep(lab, store, Later()),
            "rows": rows_of(store),
            "segments": len(store.segments(NAME)),
            "verified": [str(one) for one in store.verify()],
        }
    return told


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1])), sys.stdout)
