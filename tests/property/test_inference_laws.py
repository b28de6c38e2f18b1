"""A table is found again in whatever format it is written: the same column for the time, the same types."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=min(25, settings().max_examples))
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
