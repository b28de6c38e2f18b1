"""`prepare`: have Spark start faster on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carnac.cli.app import TIDY, command
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text
from carnac.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from carnac.config import Settings

SPEC = {
    "dataSource": "events",
    "timestampSpec": {"column": "time", "format": "iso"},
    "dimensions": ["page", {"name": "added", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "day"},
}
LINES = "".join(
    f'{{"time": "2024-03-0{day}T09:00:00Z", "page": "p{day}", "added": {day}}}\n'
    for day in range(1, 4)
)


@command("prepare", panel=TIDY, examples=["carnac prepare", "carnac prepare --json"])
def prepare(session: Session) -> None:
    """Make Spark start faster on this machine: keep the Java classes that it loads in an archive.

    Takes half a minute or more, and some 170 MB in the user's cache directory, once for each Java and each PySpark. The
    archive is used from then on; an existing one is made again.
    """
    from carnac.spark.class_archive import archive_path
    from carnac.spark.java import find_java
    from carnac.spark.session import local_master

    settings = session.settings
    elsewhere = str(settings.spark_remote or settings.spark_master)
    if settings.spark_remote or local_master(settings.spark_master) is None:
        message = f"Spark runs at {elsewhere}, not on this machine: there is nothing to prepare"
        raise Invalid(message, master=elsewhere)
    path = archive_path(find_java(os.environ), os.environ)
    started_ms = session.clock.now_ms()
    _make(path, settings, session.output.note)
    seconds = (session.clock.now_ms() - started_ms) / 1000
    size = path.stat().st_size
    session.output.answer(
        {"path": str(path), "size_bytes": size, "seconds": seconds},
        f"Spark starts with {path} from now on ({bytes_text(size)}, made in {seconds} s)",
    )


def _make(path: Path, settings: Settings, say: Callable[[str], None]) -> None:
    """Write the archive beside its place, from what a small story on Spark loads; put it there when it is whole."""
    from carnac.spark.class_archive import write_archive

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as name:
            folder = Path(name)
            written = folder / path.name
            own = {
                "store": str(folder / "store"),
                "deep_storage": None,
                "spark_conf": write_archive(settings.spark_conf.get_secret_value(), written),
            }
            say("running small jobs on Spark")
            _run_jobs(settings.model_copy(update=own), folder)
            if not written.is_file():
                raise Unavailable(
                    "this Java wrote no archive; Spark goes on starting as before", path=str(path)
                )
            written.replace(path)
    except OSError as error:
        where = error.filename or path.parent
        raise Unavailable(
            f"{where} cannot be written ({error.strerror}); set XDG_CACHE_HOME to a directory that can"
        ) from error


def _run_jobs(settings: Settings, folder: Path) -> None:
    """Append twice, delete, compact and read on a Spark of our own; end its Java."""
    from carnac.bootstrap.store import open_store
    from carnac.spark.class_archive import end_java

    events = folder / "events.jsonl"
    events.write_text(LINES, encoding="utf-8")
    try:
        with open_store(create=True, settings=settings) as store:
            for _ in range(2):
                store.ingest({**SPEC, "input": str(events)})
            store.delete("events", where="page = 'p2'")
            store.compact_interval("events")
            frame: Any = store.read_spark("events")
            frame.groupBy("page").count().collect()
    finally:
        end_java()
