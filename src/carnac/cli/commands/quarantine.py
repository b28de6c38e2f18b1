"""`quarantine`: the rows that could not be read, each with its reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import LOAD, command
from carnac.cli.options import argument, option
from carnac.cli.session import Session
from carnac.cli.tables import bytes_text, columns_of, second_ms
from carnac.errors import NotFound
from carnac.ports import DeepStorage

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "quarantine"


@command(
    "quarantine",
    panel=LOAD,
    examples=["carnac quarantine", "carnac quarantine quarantine/flights --limit 5"],
)
def quarantine(
    session: Session,
    path: Annotated[
        str | None,
        argument(
            "PATH",
            "A folder, as the report of the ingestion names it. Without it: a list of the folders.",
        ),
    ] = None,
    limit: Annotated[
        int, option("--limit N", "Maximum number of rows of the table; 0 shows all.", min=0)
    ] = 50,
) -> None:
    """Show the rows that an ingestion rejected: file, line, raw text and reason."""
    with session.open_store() as store:
        if path is None:
            _print_folders(session, store.deep_storage)
            return
        table = _load(store.deep_storage, path)
    rows = table.to_pylist()
    if session.output.is_json:
        session.output.json({"path": path, "rows": rows})
        return
    fields = ("file", "line", "reason", "raw")
    session.output.first_rows(
        "file | line# | reason! | raw",
        rows,
        lambda row: ["" if row.get(name) is None else str(row[name]) for name in fields],
        limit,
    )


def _print_folders(session: Session, storage: DeepStorage) -> None:
    sizes: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for file in storage.list_files(PREFIX):
        folder = file.path.rpartition("/")[0]
        sizes[folder] += file.size_bytes
        newest[folder] = max(newest.get(folder, 0), file.modified_at_ms)
    if session.output.is_json:
        session.output.json(
            {"folders": [{"path": folder, "size_bytes": sizes[folder]} for folder in sorted(sizes)]}
        )
        return
    columns = columns_of("folder | size# | written (UTC)!")
    session.output.table(
        columns,
        [
            [folder, bytes_text(sizes[folder]), second_ms(newest[folder])]
            for folder in sorted(sizes)
        ],
    )
    if not sizes:
        session.output.note("no row has been rejected")


def _load(storage: DeepStorage, path: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    folder = path.strip("/")
    is_of_rows = folder.partition("/")[0] == PREFIX  # other files of the store are no rejected rows
    for file in storage.list_files(folder) if is_of_rows else ():
        if file.path.endswith(".parquet"):
            with storage.open_read(file.path) as stream:
                tables.append(pq.read_table(stream))
    if not tables:
        raise NotFound(
            f"there are no quarantined rows at '{path}'; carnac quarantine lists the folders",
            path=path,
        )
    return pa.concat_tables(tables, promote_options="default")
