"""Rows of a query to a file: beside its place while it is written, in it once all rows are there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from carnac.core.texts import check_text
from carnac.durable import sync
from carnac.errors import DiskFull, Invalid, NotFound, ReadOnly
from carnac.ports.storage import METADATA_FILE
from carnac.store.querying import READ_ATTEMPTS_MAX, Reads, RevisionCatalog

if TYPE_CHECKING:
    from carnac.ports import ExportResult

FORMS = ("csv", "jsonl", "parquet", "arrow")
_ENDINGS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def export(
    reads: Reads,
    text: str,
    target: object,
    *,
    form: str | None,
    at: int | str | None,
    parameters: Sequence[object] | Mapping[str, object],
    rows_max: int | None,
    overwrite: bool,
) -> ExportResult:
    """Run a statement over one revision and write its rows; see `StoreReading.export`."""
    place = _as_place(target)
    form = form_of(form, place)

    def write(file: BinaryIO, catalog: RevisionCatalog) -> ExportResult:
        return reads.engine.export_query(
            text, catalog, file, form=form, parameters=parameters, rows_max=rows_max
        )

    def write_place(catalog: RevisionCatalog) -> ExportResult:
        if place is None:
            return write(cast("BinaryIO", target), catalog)
        with _made(place, overwrite=overwrite) as file:
            return write(file, catalog)

    attempts_max = 1 if place is None or _is_stream(place) else READ_ATTEMPTS_MAX
    return reads.run(at, write_place, attempts_max=attempts_max)


def check_replaceable(place: Path) -> None:
    """Refuse to write over a file in the folder of a store.

    Raises:
        Invalid: It is in the folder of one.
    """
    try:
        is_file = place.is_file()
    except OSError:  # who opens it says what is wrong with its name
        return
    for folder in place.resolve().parents if is_file else ():
        if (folder / METADATA_FILE).is_file():
            raise Invalid(
                f"{place} is in the folder of the store {folder}, where nothing is written over; name another file"
            )


def form_of(form: str | None, place: Path | None) -> str:
    """Return the form that is asked for, or that the ending of a file says.

    Raises:
        Invalid: There is no such form, or the ending says none.
    """
    if form is None:
        found = None if place is None else _ENDINGS.get(place.suffix.lower())
        if found is None:
            what = "a stream" if place is None else f"'{place}'"
            raise Invalid(f"{what} does not say its format; give one of {', '.join(FORMS)}")
        return found
    if form not in FORMS:
        raise Invalid(f"there is no format '{form}' for files; there are {', '.join(FORMS)}")
    return form


def _as_place(target: object) -> Path | None:
    """Return the path; None: the target is an open file."""
    if isinstance(target, str | os.PathLike):
        return Path(check_text(os.fspath(target), "the file to write"))
    if not hasattr(target, "write"):
        raise Invalid(
            f"export(target=…) takes a path or a binary file, not a {type(target).__name__}"
        )
    return None


def _is_stream(place: Path) -> bool:
    """Whether it is there and is a pipe or a device: nothing can be renamed to it."""
    with suppress(OSError):
        mode = place.stat().st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


@contextmanager
def _made(place: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Give a file to write to; it gets its name when the block has ended well, and is gone if not."""
    with _told(place):
        if place.is_dir():
            raise Invalid(f"{place} is a folder; name a file in it")
        if _is_stream(place):
            with place.open("wb") as stream:
                yield stream
            return
        if place.exists() and not overwrite:
            raise Invalid(
                f"{place} is there already; name another file, or --overwrite it (overwrite=True)"
            )
        check_replaceable(place)
        if place.is_symlink():
            place = place.resolve()
        beside = place.with_name(f".{place.name[:200]}.{os.getpid()}.part")
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _name(beside, place, overwrite=overwrite)
            sync(place.parent)
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


def _name(beside: Path, place: Path, *, overwrite: bool) -> None:
    if overwrite:
        beside.replace(place)
        return
    try:
        os.link(beside, place)  # unlike a rename it takes nobody's place
    except FileExistsError:
        raise Invalid(f"{place} was made by somebody else meanwhile; it stays as it is") from None
    except OSError:  # a file system without links
        beside.rename(place)


@contextmanager
def _told(place: Path) -> Iterator[None]:
    """Say what the file system refuses in one sentence."""
    try:
        yield
    except BrokenPipeError:
        raise
    except FileNotFoundError:
        raise NotFound(f"there is no folder {place.parent} to write {place.name} to") from None
    except NotADirectoryError:
        raise Invalid(f"{place.parent} is not a folder") from None
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise DiskFull(
                f"there is no space left to write {place}; nothing of it was kept, make some and try again"
            ) from error
        if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise ReadOnly(
                f"{place} cannot be written ({(error.strerror or 'not allowed').lower()}); "
                "choose a place that this user can write to"
            ) from error
        raise
