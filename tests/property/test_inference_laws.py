"""A table is found again in whatever format it is written: the same column for the time, the same types."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.rows.duck import connect
from carnac.rows.infer.columns import COLUMNS_AT_ONCE, look_at
from carnac.rows.infer.sampling import infer_from_files, infer_from_table
from carnac.specs.ingest.inference import TimeHints

LONGS = st.integers(-(10**15), 10**15)
DOUBLES = st.floats(-1e12, 1e12).map(lambda one: float(f"{one:.6g}") + 0.5)
TEXTS = st.text("abcdef", min_size=1, max_size=6).map(
    "t-{}".format
)  # no word for a boolean or for null
KINDS = {"long": LONGS, "double": DOUBLES, "boolean": st.booleans(), "string": TEXTS}
TIMES = st.integers(480_000_000_000, 3_900_000_000_000).map(
    lambda ms: dt.datetime.fromtimestamp(ms / 1000, dt.UTC).replace(tzinfo=None)
)


CELLS = st.none() | st.sampled_from(
    (
        *(
            "",
            " ",
            "NA",
            " NA ",
            "-",
            "null",
            "it's",
            "x",
            "true",
            "FALSE",
            "nan",
            "12.75",
            ".5",
            "1_000",
        ),
        *(
            "1",
            " 2",
            "003",
            "1e5",
            "12345678901234567890",
            "1999",
            "1950.0",
            "1700000000",
            "20240102",
        ),
        *(
            "2024-01-02",
            "2024-01-02T00:00:00Z",
            "03/04/2024",
            "13/04/2024",
            "3/4/2024 10:00",
            "Jan 2 2024",
        ),
    )
)
COLUMNS = st.integers(0, 3).flatmap(
    lambda rows: st.lists(
        st.lists(CELLS, min_size=rows, max_size=rows), min_size=1, max_size=COLUMNS_AT_ONCE + 3
    )
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], pa.Table]:
    """Return the types of columns by name, and a table that has them and one of times."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    names = [f"c{index}" for index, _ in enumerate(kinds)]
    size = draw(st.integers(1, 5))
    columns: dict[str, list[object]] = {
        name: draw(st.lists(KINDS[kind], min_size=size, max_size=size))
        for name, kind in zip(names, kinds, strict=True)
    }
    times = draw(st.lists(TIMES, min_size=size, max_size=size))
    place = draw(st.integers(0, len(names)))
    ordered = [*names[:place], "seen_at", *names[place:]]
    columns["seen_at"] = [one.isoformat(timespec="milliseconds") + "Z" for one in times]
    return dict(zip(names, kinds, strict=True)), pa.table({name: columns[name] for name in ordered})


def write(table: pa.Table, path: Path) -> None:
    match path.suffix:
        case ".csv":
            pc.write_csv(table, path)
        case ".parquet":
            pq.write_table(table, path)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case _:
            path.write_text(json.dumps(table.to_pylist(), indent=1))


@pytest.mark.slow
@settings(max_examples=max(3, settings().max_examples // 3))  # one takes some 300 ms
@given(tables())
def test_every_format_shows_the_same_time_and_types(given: tuple[dict[str, str], pa.Table]) -> None:
    types, table = given
    with tempfile.TemporaryDirectory(prefix="carnac-") as folder:
        scratch = f"{folder}/scratch"
        found = [infer_from_table("t", table, TimeHints(), scratch)]
        for name in ("t.csv", "t.jsonl", "t.json", "t.parquet"):
            write(table, Path(folder) / name)
            found.append(infer_from_files("t", [f"{folder}/{name}"], TimeHints(), scratch))
    for one in found:
        assert one.block["timestampSpec"] == {"column": "seen_at", "format": "iso"}
        assert {col.name: col.type for col in one.columns if col.name != "seen_at"} == types
        assert (one.sampled_rows, one.is_whole) == (table.num_rows, True)
    assert len({str(one.block["granularitySpec"]) for one in found}) == 1


@pytest.mark.slow
@settings(max_examples=max(3, settings().max_examples // 2))
@given(COLUMNS, st.booleans())
def test_columns_found_together_are_those_found_one_at_a_time(
    columns: list[list[str | None]], is_text: bool
) -> None:
    table = pa.table(
        {f"c {place}": pa.array(cells, pa.string()) for place, cells in enumerate(columns)}
    )
    with (
        tempfile.TemporaryDirectory(prefix="carnac-") as folder,
        connect(temp_dir=folder, memory_bytes=1 << 28) as con,
    ):
        together = look_at(con, table, is_text=is_text)
        alone = [look_at(con, table.select([name]), is_text=is_text) for name in table.column_names]
    assert together.columns == tuple(column for one in alone for column in one.columns)
    nulls = (word for one in alone for word in one.null_values)
    assert together.null_values == tuple(dict.fromkeys(nulls))


@pytest.mark.slow
def test_a_wide_table_is_found_again_in_every_format() -> None:
    kinds = {f"c{place}": sorted(KINDS)[place % len(KINDS)] for place in range(600)}
    cells = {"boolean": True, "double": 1.5, "long": 7, "string": "t-a"}
    row = {"seen_at": "2024-03-04T09:00:00Z"} | {name: cells[kind] for name, kind in kinds.items()}
    table = pa.Table.from_pylist([row, row])
    with tempfile.TemporaryDirectory(prefix="carnac-") as folder:
        for name in ("t.csv", "t.jsonl", "t.parquet"):
            write(table, Path(folder) / name)
            found = infer_from_files("t", [f"{folder}/{name}"], TimeHints(), f"{folder}/scratch")
            assert {one.name: one.type for one in found.columns[1:]} == kinds
