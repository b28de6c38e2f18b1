"""One task of pass 1, first half: from input files (or Arrow data) to normalised rows and rejected ones.

Every record of the input is, exactly once, in one of three: the view `rows` (normalised, as `RowShape` says), the view
`rejected` (file, line, byte_offset, raw, reason), or thrown away for its time. Blank lines and headers are no records.
Where nothing is rejected, no view says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.core.quoting import quote
from carnac.core.segments.segment import TIME_COLUMN
from carnac.core.time.intervals import IntervalSet
from carnac.errors import InvariantError
from carnac.rows.normalise.coerce import SEVERAL_MARK, Field, SeveralValues
from carnac.rows.normalise.projection import (
    FILE,
    LINE,
    LOADED,
    OFFSET,
    RAW,
    REASON,
    SEPARATOR,
    count,
    insert_sql,
    make_projection,
    make_view,
    parsed,
    prepare,
    run,
)
from carnac.rows.normalise.shape import RowShape
from carnac.rows.read.columnar import (
    arrow_source,
    batches_of,
    load_typed,
    numbered,
    parquet_rows,
    parquet_source,
    read_parquet,
)
from carnac.rows.read.far_times import held_batches, held_schema
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.json import BLANK, SUSPECT, JsonPlan
from carnac.rows.read.lines import MAX_RAW_BYTES, Reject
from carnac.rows.read.paths import FieldPaths, field_paths
from carnac.rows.read.sources import (
    BATCH,
    CELL,
    Counted,
    CsvFiles,
    csv_schema,
    open_lines,
    plain_file,
    registered,
)
from carnac.specs.ingest.inputs import (
    ArrowFormat,
    ColumnarFormat,
    CsvFormat,
    InputFormat,
    JsonFormat,
    OrcFormat,
    ParquetFormat,
    TsvFormat,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.specs.ingest.schema import TimestampSpec

_REJECTS = "__carnac_rejects"
_REJECTS_AT_ONCE = 10_000
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """The input of one task. Picklable.

    Attributes:
        files: Read one after the other; rows of all come into one relation.
        scratch_dir: Local folder for copies of remote files; made if missing.
        within: Rows outside of these instants are thrown away (counted, not rejected); None: none are.
    """

    files: tuple[InputFile, ...]
    format: InputFormat
    timestamp: TimestampSpec
    scratch_dir: str
    within: IntervalSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCounts:
    """How many records became what; `rows_read` is the sum of the other three.

    Attributes:
        rows_parsed: In `rows`.
        rows_rejected: In `rejected`.
        rows_thrown_away: Good rows outside of the task's instants.
        rejected_by_reason: Largest first.
        changed: By mark of a change: good rows that have it.
    """

    rows_read: int = 0
    rows_parsed: int = 0
    rows_rejected: int = 0
    rows_thrown_away: int = 0
    rejected_by_reason: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)


def load_rows(con: duckdb.DuckDBPyConnection, task: ReadTask, shape: RowShape) -> ReadCounts:
    """Read the files of a task into the views `rows` and `rejected` of `con`.

    `rows` has the columns of normalised rows, `__time` first, in no particular order; `rejected` is there if a row was
    rejected. The views hold until the next call on the same connection.

    Raises:
        Invalid: A file is damaged or not what it should be; a column's type can never become what the spec says.
        SeveralValues: A string dimension has several values in some row: call again with a widened shape.
        NotFound: A file is not there any more.
        Unavailable: A remote file cannot be copied.
    """
    prepare(con, shape)
    loader = _Loader(con, task, shape)
    loader.load()
    return _finish(
        con,
        shape,
        within=task.within,
        files=[file.url for file in task.files],
        rejects=loader.rejects,
        records=loader.count,
    )


def load_rows_from_arrow(
    con: duckdb.DuckDBPyConnection,
    data: pa.Table | pa.RecordBatchReader,
    shape: RowShape,
    *,
    origin: str,
    timestamp: TimestampSpec,
    within: IntervalSet | None = None,
    first_row: int = 1,
) -> ReadCounts:
    """Read an Arrow table or reader as `load_rows` reads a file.

    Args:
        origin: Stands as `file` of rejected rows; their `line` is the number of the row.
        first_row: Number of the first row.

    Raises:
        Invalid: A column's type can never become what the spec says.
        SeveralValues: As of `load_rows`.
    """
    import pyarrow as pa

    prepare(con, shape)
    reader = data.to_reader(BATCH_ROWS) if isinstance(data, pa.Table) else data
    counted, schema = Counted(reader), held_schema(reader.schema)
    with registered(con, *numbered(schema, held_batches(counted), first_row=first_row)):
        source = arrow_source(con, BATCH, origin, schema)
        load_typed(con, source, shape, timestamp, FieldPaths(), file=0)
    return _finish(con, shape, within=within, files=[origin], rejects=[], records=counted.rows)


class _Loader:
    """Reads the files of a task into the table.

    Attributes:
        count: Records so far, without blank lines and headers.
        rejects: Index of the file, and a record that did not get as far as the table.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, task: ReadTask, shape: RowShape) -> None:
        self._con = con
        self._task = task
        self._shape = shape
        self.count = 0
        self.rejects: list[tuple[int, Reject]] = []

    def load(self) -> None:
        """Read them all."""
        match self._task.format:
            case JsonFormat():
                self._load_json(self._task.format)
            case CsvFormat() | TsvFormat():
                self._load_csv(self._task.format)
            case ParquetFormat() | OrcFormat() | ArrowFormat():
                for index, file in enumerate(self._task.files):
                    self._load_columnar(self._task.format, file, index)

    def _load_json(self, file_format: JsonFormat) -> None:
        plan = JsonPlan(self._shape, self._task.timestamp, file_format.flatten)
        with open_lines(self._con, self._task.files, self._task.scratch_dir) as lines:
            plan.load(self._con, BATCH)
        self.rejects += lines.rejects
        self.count += lines.count - _count(self._con, f"{REASON} = '{BLANK}'")

    def _load_csv(self, file_format: CsvFormat | TsvFormat) -> None:
        files = CsvFiles(
            self._task.files, file_format, self._task.scratch_dir, self._task.timestamp
        )
        with closing(files):
            for columns, batches in files.groups():
                self._insert_csv(columns, batches, file_format)
        self.rejects += files.rejects
        self.count += files.count

    def _insert_csv(
        self,
        columns: Sequence[str],
        batches: Iterator[pa.RecordBatch],
        file_format: CsvFormat | TsvFormat,
    ) -> None:
        place = {name: index for index, name in enumerate(columns)}

        def resolve(name: str) -> Field:
            if name not in place:
                return Field(kind="absent")
            return Field(kind="text", sql=f"{CELL}{place[name]}")

        projection = make_projection(
            self._shape, self._task.timestamp, resolve, list_delimiter=file_format.list_delimiter
        )
        with registered(self._con, csv_schema(len(columns)), batches):
            run(self._con, insert_sql(projection, f"FROM {BATCH}"))

    def _load_columnar(self, file_format: ColumnarFormat, file: InputFile, index: int) -> None:
        if file.size_bytes == 0:
            return
        paths = field_paths(file_format.flatten)
        timestamp = self._task.timestamp
        con = self._con

        def load_parquet(path: Path) -> None:
            source = parquet_source(
                con, path, file.url, binary_as_string=file_format.binary_as_string
            )
            load_typed(con, source, self._shape, timestamp, paths, file=index)
            self.count += parquet_rows(con, path)

        with plain_file(file, self._task.scratch_dir) as path:
            if isinstance(file_format, ParquetFormat):
                read_parquet(path, self._task.scratch_dir, load_parquet)
                return
            reader = batches_of(file_format, path, file.url)
            counted, schema = Counted(reader), held_schema(reader.schema)
            with registered(con, *numbered(schema, held_batches(counted))):
                source = arrow_source(con, BATCH, file.url, schema)
                load_typed(con, source, self._shape, timestamp, paths, file=index)
            self.count += counted.rows


def _count(con: duckdb.DuckDBPyConnection, condition: str) -> int:
    return count(con, f"SELECT count(*) FROM {LOADED} WHERE {condition}")


def _finish(
    con: duckdb.DuckDBPyConnection,
    shape: RowShape,
    *,
    within: IntervalSet | None,
    files: Sequence[str],
    rejects: Sequence[tuple[int, Reject]],
    records: int,
) -> ReadCounts:
    """Make the views, and count."""
    condition = _within_sql(within)
    is_good = f"{REASON} IS NULL"
    counts = (
        f"SELECT count(*) FILTER (WHERE {is_good}), count(*) FILTER (WHERE {is_good} AND {condition}), count({REASON}),"
        f" count({RAW}) FILTER (WHERE {is_good}) FROM {LOADED}"
    )
    ((good, taken, marked, cut),) = con.execute(parsed(con, counts)).fetchall()
    marks: set[str] = set()
    if marked:
        found = con.execute(f"SELECT DISTINCT {REASON} FROM {LOADED} WHERE NOT {is_good}")
        marks = {mark for (mark,) in found.fetchall()}
    _refuse_several(marks)
    by_reason: Sequence[tuple[str, int]] = ()
    if rejects or marks - {SUSPECT, BLANK}:
        _make_rejected(con, files, rejects)
        by_reason = con.execute(
            "SELECT reason, count(*) AS n FROM rejected GROUP BY reason ORDER BY n DESC, reason"
        ).fetchall()
    make_view(con, shape, f"{is_good} AND {condition}")
    rejected = sum(number for _, number in by_reason)
    if good + rejected != records:
        raise InvariantError(
            f"of {records} records read, {good} became rows and {rejected} were rejected"
        )
    return ReadCounts(
        rows_read=records,
        rows_parsed=taken,
        rows_rejected=rejected,
        rows_thrown_away=good - taken,
        rejected_by_reason=dict(by_reason),
        changed=_changed(con, f"{is_good} AND {condition}") if cut else {},
    )


def _changed(con: duckdb.DuckDBPyConnection, condition: str) -> Mapping[str, int]:
    """Return how many of the rows have each mark of a change."""
    found: Counter[str] = Counter()
    for marks, rows in con.execute(
        f"SELECT {RAW}, count(*) FROM {LOADED} WHERE {RAW} IS NOT NULL AND {condition} GROUP BY 1"
    ).fetchall():
        found.update(dict.fromkeys(marks.split(SEPARATOR), rows))
    return found


def _refuse_several(marks: Iterable[str]) -> None:
    found = {mark.removeprefix(SEVERAL_MARK) for mark in marks if mark.startswith(SEVERAL_MARK)}
    if found:
        raise SeveralValues(found)


def _make_rejected(
    con: duckdb.DuckDBPyConnection, files: Sequence[str], rejects: Sequence[tuple[int, Reject]]
) -> None:
    run(
        con,
        f"CREATE OR REPLACE TEMP TABLE {_REJECTS}_files AS"
        " SELECT unnest(range(len($urls))) AS file, unnest($urls::VARCHAR[]) AS url",
        {"urls": list(files)},
    )
    run(
        con,
        f"CREATE OR REPLACE TEMP TABLE {_REJECTS} (file INTEGER, line BIGINT, byte_offset BIGINT,"
        " raw VARCHAR, reason VARCHAR)",
    )
    for start in range(0, len(rejects), _REJECTS_AT_ONCE):
        some = [(index, *reject) for index, reject in rejects[start : start + _REJECTS_AT_ONCE]]
        columns = zip("abcde", map(list, zip(*some, strict=True)), strict=True)
        run(
            con,
            f"INSERT INTO {_REJECTS} SELECT unnest($a::INTEGER[]), unnest($b::BIGINT[]),"
            " unnest($c::BIGINT[]), unnest($d::VARCHAR[]), unnest($e::VARCHAR[])",
            dict(columns),
        )
    run(
        con,
        f"CREATE OR REPLACE TEMP VIEW rejected AS SELECT u.url AS file, r.line, r.byte_offset,"
        f" r.raw, r.reason FROM (FROM {_REJECTS} UNION ALL"
        f" SELECT {FILE} AS file, {LINE} AS line, {OFFSET} AS byte_offset,"
        f" left(rtrim({RAW}, E'\\r\\n'), {MAX_RAW_BYTES}) AS raw, {REASON} AS reason FROM {LOADED}"
        f" WHERE {REASON} IS NOT NULL AND {REASON} NOT IN ('{SUSPECT}', '{BLANK}')) r"
        f" JOIN {_REJECTS}_files u USING (file)",
    )


def _within_sql(within: IntervalSet | None) -> str:
    if within is None:
        return "true"
    time = quote(TIME_COLUMN)
    parts = [
        f"({time} >= make_timestamptz({one.start_ms * 1000}::BIGINT)"
        f" AND {time} < make_timestamptz({one.end_ms * 1000}::BIGINT))"
        for one in within
    ]
    return f"({' OR '.join(parts)})" if parts else "false"
