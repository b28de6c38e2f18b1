"""Rows of a query to a file: all of them or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from carnac.core.texts import check_text
from carnac.errors import Invalid
from carnac.named_files import is_stream, named_file
from carnac.store.querying import READ_ATTEMPTS_MAX, OnSpark, Reads, RevisionCatalog

if TYPE_CHECKING:
    from carnac.ports import ExportResult
    from carnac.ports.threads import FindStop
    from carnac.query.engine import QueryEngine

FORMS = ("csv", "jsonl", "parquet", "arrow")
_ENDINGS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
HINT = ", or --overwrite it (overwrite=True)"


def export(
    reads: Reads,
    engine: QueryEngine | OnSpark,
    text: str,
    target: object,
    *,
    form: str | None,
    at: int | str | None,
    parameters: Sequence[object] | Mapping[str, object],
    rows_max: int | None,
    overwrite: bool,
    find_stop: FindStop,
) -> ExportResult:
    """Run a statement over one revision and write its rows; see `StoreReading.export`."""
    place = _as_place(target)
    form = form_of(form, place)

    def write(file: BinaryIO, catalog: RevisionCatalog) -> ExportResult:
        return engine.export_query(
            text,
            catalog,
            file,
            form=form,
            parameters=parameters,
            rows_max=rows_max,
            find_stop=find_stop,
        )

    def write_place(catalog: RevisionCatalog) -> ExportResult:
        if place is None:
            return write(cast("BinaryIO", target), catalog)
        with named_file(place, overwrite=overwrite, hint=HINT) as file:
            return write(file, catalog)

    attempts_max = 1 if place is None or is_stream(place) else READ_ATTEMPTS_MAX
    return reads.run(at, write_place, attempts_max=attempts_max)


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
            f"export(target=…) takes a path or a binary file, not one of type {type(target).__name__}"
        )
    return None
