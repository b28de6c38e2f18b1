"""Ingestion end to end: what goes in comes out once, in its time chunk, and is counted."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from carnac.clock import MarkedIds, SystemClock
from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import Interval, interval_set, parse_instant, parse_interval
from carnac.errors import Invalid, NotFound
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import ChunkLayout, JobProgress
from carnac.spark.session import SparkHolder
from tests.integration.spark.conftest import MakeSpec
from tests.integration.spark.rows import files_below, rows_of

pytestmark = pytest.mark.spark

DAY = ChunkLayout(segment_granularity="day")


def lines(*rows: dict[str, object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_rows_land_in_their_chunks_once(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    rng = random.Random(7)
    rows = [
        {"t": 1_700_000_000_000 + rng.randrange(3 * 86_400_000), "d": f"x{i % 5}", "n": i}
        for i in range(1000)
    ]
    result = pipeline.run_ingest(make_spec(lines(*rows)), DAY)
    assert rows_of(deep_storage, result.segments, "d", "n") == Counter(
        (row["d"], row["n"]) for row in rows
    )
    assert len({segment.chunk for segment in result.segments}) == len(result.segments) >= 3
    for segment in result.segments:
        assert segment.chunk.contains(segment.span)
        assert segment.chunk.duration_ms == 86_400_000
    report = result.report
    assert (report.rows_read, report.rows_written, report.rejected.count) == (1000, 1000, 0)
    assert report.segments == len(result.segments)
    assert list(report.seconds_by_phase) == ["plan", "read", "write", "clean up"]


def test_what_a_text_of_an_expression_says_is_not_looked_up(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    """Spark puts the environment's variables, passwords among them, in place of `${env:NAME}`."""
    transforms = [
        {"name": "d", "expression": "concat('${env:HOME}', '${system:user.home}')"},
        {"name": "e", "expression": "concat('${env:HOME}', d)", "type": "druid"},
    ]
    spec = make_spec(
        lines({"t": "2024-01-01", "d": "a", "n": 1}),
        dimensions=["d", "e"],
        transformSpec={"transforms": transforms},
    )
    result = pipeline.run_ingest(spec, DAY)
    assert rows_of(deep_storage, result.segments, "d", "e") == Counter(
        {("${env:HOME}${system:user.home}", "${env:HOME}a"): 1}
    )


def test_nothing_is_left_in_staging(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    result = pipeline.run_ingest(make_spec(lines({"t": "2024-01-01", "d": "a", "n": 1})), DAY)
    assert files_below(deep_storage) == [segment.path for segment in result.segments]
    assert not (deep_storage / "staging").exists()


def test_nothing_is_left_in_the_temporary_folder(
    spark_holder: SparkHolder, deep_storage: Path, make_spec: MakeSpec, tmp_path: Path
) -> None:
    mark = "scratchmrk"
    pipeline = SparkPipeline(
        output_url=deep_storage.as_uri(),
        clock=SystemClock(),
        ids=MarkedIds(mark),
        spark=spark_holder,
    )
    found = tmp_path / "found.json"
    found.write_text(lines({"t": "2024-01-01", "new": "a"}, {"t": "no", "new": "b"}))
    discovering = make_spec(dimensions=[], input={"type": "files", "paths": [str(found)]})
    result = pipeline.run_ingest(discovering, DAY)
    assert mark in result.segments[0].segment_id, "the job's ids are ours"
    assert not [at for at in Path(tempfile.gettempdir()).glob("carnac-*") if mark in at.name]


def test_bad_rows_are_kept_with_their_reason(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    text = (
        lines({"t": "2024-01-01", "d": "a", "n": 1})
        + "{broken\n"
        + lines({"t": "never", "d": "b", "n": 2}, {"t": "2024-01-01", "d": "c", "n": "many"})
    )
    result = pipeline.run_ingest(make_spec(text), DAY)
    rejected = result.report.rejected
    assert rejected.count == 3
    assert sum(rejected.by_reason.values()) == 3
    assert rejected.path is not None
    kept = files_below(deep_storage / rejected.path)
    assert len(kept) == 1
    assert {example["line"] for example in rejected.examples} == {"2", "3", "4"}
    assert result.report.rows_read == 4
    assert result.report.rows_written == 1


def test_too_many_bad_rows_fail_the_job(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    spec = make_spec(
        lines({"t": "2024-01-01", "d": "a", "n": 1}) + "no\n" * 3,
        tuning={"maxParseExceptions": 2},
    )
    with pytest.raises(Invalid, match="maxParseExceptions allows 2"):
        pipeline.run_ingest(spec, DAY)
    left = files_below(deep_storage)
    assert left
    assert all(path.startswith("quarantine/") for path in left)
    enough = spec.model_copy(
        update={"tuning": spec.tuning.model_copy(update={"max_parse_exceptions": 3})}
    )
    assert pipeline.run_ingest(enough, DAY).report.rejected.count == 3


@pytest.mark.parametrize("more", [{}, {"transforms": {"filter": "n > 0"}}], ids=["files", "spark"])
def test_rows_of_which_none_has_a_time_fail_the_job(
    pipeline: SparkPipeline, make_spec: MakeSpec, more: dict[str, object]
) -> None:
    rows = [{"time": "2024-01-01", "d": "a", "n": 1}, {"time": "2024-01-02", "d": "b", "n": 2}]
    with pytest.raises(
        Invalid,
        match=r"^none of the 2 rows has a time in field 't', such as .*nothing was published, name the field",
    ):
        pipeline.run_ingest(make_spec(lines(*rows), **more), DAY)
    some = [*rows, {"t": "2024-01-03", "d": "c", "n": 3}]
    report = pipeline.run_ingest(make_spec(lines(*some), **more), DAY).report
    assert (report.rows_written, dict(report.rejected.by_reason)) == (1, {"missing timestamp": 2})


def test_a_frame_without_the_column_of_the_time_is_one_sentence(
    pipeline: SparkPipeline, make_spec: MakeSpec
) -> None:
    table = pa.table({"time": ["2024-01-01"], "d": ["a"], "n": [1]})
    for more in ({}, {"transforms": {"filter": "n > 0"}}):
        spec = make_spec(input={"type": "frame", "frame": "arrow"}, **more)
        with pytest.raises(Invalid, match="no column 't', in which timestampSpec looks"):
            pipeline.run_ingest(spec, DAY, rows=table)


def test_rollup_is_perfect_over_all_files(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    rng = random.Random(3)
    expected: Counter[tuple[str, str]] = Counter()
    for index in range(4):
        with gzip.open(folder / f"{index}.json.gz", "wt", encoding="utf-8") as file:
            for _ in range(200):
                hour, name, n = rng.randrange(24), rng.choice("abc"), rng.randrange(10)
                expected[f"2024-01-01T{hour:02d}:00:00+00:00", name] += n
                file.write(
                    lines(
                        {"t": f"2024-01-01T{hour:02d}:{rng.randrange(60):02d}Z", "d": name, "n": n}
                    )
                )
    spec = make_spec(
        input={"type": "files", "paths": [str(folder)]},
        dimensions=["d"],
        metrics=[{"name": "rows", "type": "count"}, {"name": "n", "type": "longSum"}],
        granularity={"queryGranularity": "hour", "rollup": True},
    )
    result = pipeline.run_ingest(spec, DAY)
    assert rows_of(deep_storage, result.segments, "__time", "d", "n") == Counter(
        (time, name, n) for (time, name), n in expected.items()
    )
    assert sum(segment.input_rows for segment in result.segments) == 800
    assert result.report.rows_read == 800
    assert result.report.rows_written == len(expected)


def test_existing_chunks_win(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    month = parse_interval("2024-01-01/2024-02-01")
    layout = ChunkLayout(segment_granularity="day", existing=(month,))
    rows = lines(*({"t": f"2024-{m:02d}-0{d}", "d": "a", "n": d} for m in (1, 2) for d in (1, 2)))
    result = pipeline.run_ingest(make_spec(rows), layout)
    assert [str(segment.chunk)[:10] for segment in result.segments] == [
        "2024-01-01",
        "2024-02-01",
        "2024-02-02",
    ]
    assert result.segments[0].chunk == month


def test_a_replacement_takes_only_its_intervals(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    interval = "2024-01-02/2024-01-03T12:00"
    spec = make_spec(
        lines(*({"t": f"2024-01-0{d}T18:00", "d": "a", "n": d} for d in range(1, 5))),
        mode="replace",
        granularity={"intervals": [interval]},
    )
    layout = ChunkLayout(segment_granularity="day", within=interval_set([parse_interval(interval)]))
    result = pipeline.run_ingest(spec, layout)
    assert rows_of(deep_storage, result.segments, "n") == Counter([(2,)])
    assert result.report.rows_filtered == 3
    assert result.report.rows_read == 4


def test_late_rows_are_counted(pipeline: SparkPipeline, make_spec: MakeSpec) -> None:
    spec = make_spec(lines(*({"t": f"2024-01-0{d}", "d": "a", "n": d} for d in range(1, 6))))
    newest_ms = parse_instant("2024-01-03")
    result = pipeline.run_ingest(spec, DAY, newest_before_ms=newest_ms)
    assert result.report.rows_late == 2


def test_one_stray_row_does_not_cost_half_a_century_of_chunks(
    pipeline: SparkPipeline, make_spec: MakeSpec
) -> None:
    spec = make_spec(
        lines({"t": "1970-01-01", "d": "a", "n": 1}, {"t": "2024-01-01", "d": "a", "n": 1}),
        granularity={"segmentGranularity": "minute"},
    )
    result = pipeline.run_ingest(spec, ChunkLayout(segment_granularity="minute"))
    assert [segment.chunk for segment in result.segments] == [
        Interval(start, start + 60_000) for start in (0, parse_instant("2024-01-01"))
    ]


def test_a_string_dimension_that_shows_several_values_in_one_file_is_an_array_in_all(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.json").write_text(lines({"t": "2024-01-01", "d": "one", "n": 1}))
    (folder / "b.json").write_text(lines({"t": "2024-01-01", "d": ["y", "x"], "n": 2}))
    spec = make_spec(input={"type": "files", "paths": [str(folder)]})
    result = pipeline.run_ingest(spec, DAY)
    assert rows_of(deep_storage, result.segments, "d", "n") == Counter(
        [(("one",), 1), (("x", "y"), 2)]
    )


def test_dimensions_are_discovered(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    spec = make_spec(
        lines(
            {"t": "2024-01-01", "a": "x", "known": None, "unknown": None},
            {"t": "2024-01-02", "b": 2, "a": "y", "unknown": []},
        ),
        dimensions={"useSchemaDiscovery": True},
    )
    layout = replace(DAY, columns={"known": ColumnType.LONG})
    result = pipeline.run_ingest(spec, layout)
    columns = {(c.name, str(c.type)) for s in result.segments for c in s.columns}
    assert columns == {("a", "string"), ("b", "long"), ("known", "long")}
    assert rows_of(deep_storage, result.segments, "a", "b") == Counter([("x", None), ("y", 2)])


def test_an_input_without_rows_makes_no_segment(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    result = pipeline.run_ingest(make_spec(""), DAY)
    assert result.segments == ()
    assert result.report.rows_read == 0
    assert files_below(deep_storage) == []


def test_a_missing_file_is_one_sentence(pipeline: SparkPipeline, make_spec: MakeSpec) -> None:
    spec = make_spec(input={"type": "files", "paths": ["/nowhere/at-all.json"]})
    with pytest.raises(NotFound, match=r"at-all\.json"):
        pipeline.run_ingest(spec, DAY)


def test_a_corrupt_file_is_one_sentence_and_leaves_nothing(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 this is no Parquet file PAR1")
    spec = make_spec(input={"type": "files", "paths": [str(broken)]})
    with pytest.raises(Invalid, match=r"broken\.parquet") as caught:
        pipeline.run_ingest(spec, DAY)
    assert "\n" not in caught.value.message
    assert files_below(deep_storage) == []


def test_progress_tells_of_every_phase(pipeline: SparkPipeline, make_spec: MakeSpec) -> None:
    seen: list[JobProgress] = []
    spec = make_spec(lines({"t": "2024-01-01", "d": "a", "n": 1}))
    pipeline.run_ingest(spec, DAY, on_progress=seen.append)
    assert {one.phase for one in seen} == {"read", "write segments"}
    last = [one for one in seen if one.phase == "read"][-1]
    assert (last.done, last.total, last.rows) == (1, 1, 1)


def test_bad_rows_are_logged_if_the_spec_wants_it(
    pipeline: SparkPipeline, make_spec: MakeSpec, spark_holder: SparkHolder
) -> None:
    good = lines({"t": "2024-01-01", "d": "a", "n": 1})
    spec = make_spec("{no json 4711\n" + good, tuning={"logParseExceptions": True})
    assert pipeline.run_ingest(spec, DAY).report.rejected.count == 1
    assert "{no json 4711" in spark_holder.log_path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "partitions",
    [
        {"type": "hashed", "targetRowsPerSegment": 25},
        {"type": "range", "partitionDimensions": ["d"], "targetRowsPerSegment": 25},
        {"type": "dynamic", "maxRowsPerSegment": 25},
    ],
    ids=lambda spec: str(spec["type"]),
)
def test_chunks_are_divided_as_the_spec_says(
    pipeline: SparkPipeline,
    make_spec: MakeSpec,
    deep_storage: Path,
    partitions: dict[str, object],
) -> None:
    rows = [{"t": "2024-01-01", "d": f"d{i % 20:02d}", "n": i} for i in range(100)]
    result = pipeline.run_ingest(make_spec(lines(*rows), partitions=partitions), DAY)
    assert len(result.segments) > 1
    assert len({segment.segment_id for segment in result.segments}) == len(result.segments)
    assert rows_of(deep_storage, result.segments, "n") == Counter((i,) for i in range(100))
    if partitions["type"] != "dynamic":
        assert all(segment.partition is not None for segment in result.segments)


def test_spark_is_found_from_another_thread(
    spark_holder: SparkHolder, make_spec: MakeSpec, deep_storage: Path
) -> None:
    spark_holder.session()
    other = SparkHolder(spark_holder.settings)
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(other.session).result()
    assert session.range(3).count() == 3
    other.close()
    assert spark_holder.session().range(2).count() == 2


@pytest.mark.parametrize("plan", ["", "upper(d)"])
def test_a_large_file_of_csv_is_read_by_several_tasks(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, tmp_path: Path, plan: str
) -> None:
    """Rows over several lines, and rows that are none, are told with their lines as if one task had read them."""
    path = tmp_path / "a.csv"
    rows = [f'2024-01-0{1 + n % 3},"{n:07}\n{"x" * 150}",{n}\n' for n in range(30_000)]
    rows[20_000] = "2024-01-01,too,many,fields\n"
    path.write_text("t,d,n\n" + "".join(rows))
    transforms = [{"name": "d", "expression": plan}] if plan else []
    spec = make_spec(
        input={"type": "files", "paths": [str(path)]}, transformSpec={"transforms": transforms}
    )
    told: list[JobProgress] = []
    result = pipeline.run_ingest(spec, DAY, on_progress=told.append)
    assert any(one.phase.startswith("read") and one.total > 1 for one in told)
    letter = "X" if plan else "x"
    assert rows_of(deep_storage, result.segments, "d", "n") == Counter(
        (f"{n:07}\n{letter * 150}", n) for n in range(30_000) if n != 20_000
    )
    assert (result.report.rows_read, result.report.rejected.count) == (30_000, 1)
    quarantine = pq.read_table(deep_storage / str(result.report.rejected.path)).to_pylist()
    assert [(one["line"], one["reason"]) for one in quarantine] == [
        (40_002, "wrong number of fields")
    ]
