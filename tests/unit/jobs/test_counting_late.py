"""Pass 1 cuts rows into time chunks and counts the late ones, rolled up or not, few or many, as a naive count does."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval
from carnac.ports import ChunkLayout
from carnac.rows.duck import connect
from carnac.rows.merge_task import Part
from carnac.rows.normalise.shape import DimensionShape, RowShape
from carnac.rows.parts import ChunkPartitioner
from tests.support.lateness import count_late
from tests.unit.store.events import fast_folder

DAY_MS = 86_400_000
COUNT = Metric(name="n", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG)
DIMENSIONS = (DimensionShape(name="id", type=ColumnType.LONG),)
SHAPES = {
    "raw": RowShape(dimensions=DIMENSIONS),
    "rolled up": RowShape(
        dimensions=DIMENSIONS, metrics=(COUNT,), query_granularity="hour", is_rollup=True
    ),
}
WAYS = {"of many": (False, False), "of few": (True, False), "in memory": (True, True)}
"""Whether pass 1 knows how few the rows are, and whether they may stay in memory."""
times = st.lists(st.integers(-40 * DAY_MS, 40 * DAY_MS), min_size=1, max_size=40)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=max(3, min(50, settings().max_examples // 2)))
@given(
    times=times,
    newest=st.none() | st.integers(-40 * DAY_MS, 41 * DAY_MS),
    granularity=st.sampled_from(["day", "month", "all"]),
)
def test_late_rows_of_a_task(
    shape: str, way: str, times: list[int], newest: int | None, granularity: str
) -> None:
    is_counted, keeps_few = WAYS[way]
    bucket = parse_granularity(granularity).bucket
    by_chunk: dict[Interval, list[int]] = defaultdict(list)
    for at_ms in times:
        by_chunk[bucket(at_ms)].append(at_ms)
    naive = {chunk: count_late(members, newest) for chunk, members in by_chunk.items()}
    with fast_folder() as folder:
        layout = ChunkLayout(segment_granularity=granularity)
        cut = ChunkPartitioner(
            layout=layout,
            newest_before_ms=newest,
            staging_url=f"{folder}/staging",
            keeps_few=keeps_few,
        )
        with connect(temp_dir=f"{folder}/tmp", memory_bytes=1 << 28) as con:
            load(con, times)
            count = len(times) if is_counted else None
            found = cut.rows(con, "rows", SHAPES[shape], name="t", count=count)
        has_files = (Path(folder) / "staging").exists()
        if shape == "raw":
            assert has_files is not keeps_few
            assert {part.chunk: times_of(part) for part in found.parts} == {
                chunk: sorted(members) for chunk, members in by_chunk.items()
            }
    assert found.late == {chunk: counts for chunk, counts in naive.items() if any(counts)}


def test_chunks_of_several_lengths_are_told_apart(tmp_path: Path) -> None:
    existing = (Interval(0, 2 * DAY_MS),)
    layout = ChunkLayout(segment_granularity="day", existing=existing)
    cut = ChunkPartitioner(
        layout=layout, newest_before_ms=10 * DAY_MS, staging_url=str(tmp_path / "staging")
    )
    with connect(temp_dir=str(tmp_path / "tmp"), memory_bytes=1 << 28) as con:
        load(con, [5, DAY_MS + 5, 2 * DAY_MS, 9 * DAY_MS + 1, 10 * DAY_MS])
        found = cut.rows(con, "rows", SHAPES["raw"], name="t")
    assert found.late == {
        existing[0]: (0, 0, 0, 0, 2, 0),
        Interval(2 * DAY_MS, 3 * DAY_MS): (0, 0, 0, 0, 1, 0),
        Interval(9 * DAY_MS, 10 * DAY_MS): (0, 0, 1, 0, 0, 0),
    }


def times_of(part: Part) -> list[int]:
    """Return the times of a part's rows, in order."""
    table = part.table if part.table is not None else pa.ipc.open_file(part.path).read_all()
    assert (part.rows, table.column_names) == (table.num_rows, ["__time", "id"])
    return sorted(at_us // 1000 for at_us in table.column(0).cast("int64").to_pylist())


def load(con: duckdb.DuckDBPyConnection, times: list[int]) -> None:
    """Load rows of these times, all with one id, so that rollup has something to do."""
    values = ", ".join(f"({at_ms})" for at_ms in times)
    con.execute(
        "CREATE TABLE rows AS SELECT make_timestamptz(t::BIGINT * 1000) AS __time, 1::BIGINT AS id"
        f" FROM (VALUES {values}) AS given(t)"
    ).complete()
