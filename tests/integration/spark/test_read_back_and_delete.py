"""Reading segments back as a DataFrame, and deleting rows by predicate: jobs over what ingestion wrote."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval, interval_set, parse_instant
from carnac.errors import Corrupt, Invalid
from carnac.jobs.pipeline import SparkPipeline
from carnac.jobs.read_back import frame_of
from carnac.ports import ChunkLayout, SegmentInput
from tests.integration.spark.conftest import MakeSpec
from tests.integration.spark.rows import files_below, rows_of
from tests.logs import segment

pytestmark = pytest.mark.spark

DAY = ChunkLayout(segment_granularity="day")


def ingest(
    pipeline: SparkPipeline, make_spec: MakeSpec, rows: list[dict[str, Any]], **fields: Any
) -> tuple[Segment, ...]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return pipeline.run_ingest(make_spec(text, **fields), DAY).segments


def collected(frame: object) -> Counter[tuple[object, ...]]:
    rows = cast("DataFrame", frame).drop("__time").collect()
    return Counter(tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows)


def test_schemas_are_united_and_clips_are_applied(
    pipeline: SparkPipeline, make_spec: MakeSpec
) -> None:
    old = ingest(
        pipeline,
        make_spec,
        [{"t": f"2024-01-01T{h:02d}:00Z", "n": h} for h in range(4)],
        dimensions=[{"name": "n", "type": "long"}],
    )
    new = ingest(
        pipeline,
        make_spec,
        [{"t": "2024-01-01T00:00Z", "n": 1.5, "d": ["x", "y"]}],
        dimensions=[{"name": "d", "type": "array<string>"}, {"name": "n", "type": "double"}],
    )
    start_ms = parse_instant("2024-01-01T01:00Z")
    clip = interval_set([Interval(start_ms, start_ms + 7_200_000)])
    inputs = [SegmentInput(segment=segment, visible=clip) for segment in old]
    frame = cast("DataFrame", pipeline.read_spark([*inputs, *map(SegmentInput.whole, new)]))
    assert collected(frame.select("n", "d")) == Counter(
        [(1.0, None), (2.0, None), (1.5, ("x", "y"))]
    )
    assert dict(frame.dtypes) == {"__time": "timestamp", "n": "double", "d": "array<string>"}


def test_a_session_may_take_timestamps_for_something_else(
    pipeline: SparkPipeline, make_spec: MakeSpec, spark: SparkSession
) -> None:
    rows = [{"t": f"2024-01-01T{h:02d}:00Z", "n": h} for h in range(4)]
    segments = ingest(pipeline, make_spec, rows, dimensions=[{"name": "n", "type": "long"}])
    start_ms = parse_instant("2024-01-01T01:00Z")
    clip = interval_set([Interval(start_ms, start_ms + 7_200_000)])
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        inputs = [SegmentInput(segment=segment, visible=clip) for segment in segments]
        frame = cast("DataFrame", pipeline.read_spark(inputs))
        assert dict(frame.dtypes) == {"__time": "timestamp", "n": "bigint"}
        assert collected(frame) == Counter([(1,), (2,)])
    finally:
        spark.conf.unset("spark.sql.timestampType")
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_no_session_leaves_out_a_file_that_is_gone(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path, spark: SparkSession
) -> None:
    segments = ingest(pipeline, make_spec, [{"t": f"2024-01-0{1 + i}", "n": i} for i in range(3)])
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        frame = cast("DataFrame", pipeline.read_spark([*map(SegmentInput.whole, segments)]))
        (deep_storage / segments[1].path).unlink()
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
            frame.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_an_object_store_that_spark_has_no_classes_for_is_one_sentence(
    spark: SparkSession,
) -> None:
    inputs = [SegmentInput.whole(segment("S1", "2013-01-01/2013-01-02"))]
    with pytest.raises(Invalid, match="lacks the classes to read s3://bucket/deep; add Hadoop's"):
        frame_of(spark, inputs, "s3://bucket/deep")


def test_hidden_columns_of_first_and_last_are_dropped(
    pipeline: SparkPipeline, make_spec: MakeSpec
) -> None:
    segments = ingest(
        pipeline,
        make_spec,
        [{"t": f"2024-01-01T00:0{m}Z", "d": "a", "n": m} for m in range(5)],
        dimensions=["d"],
        metrics=[{"name": "last_n", "type": "longLast", "fieldName": "n"}],
        granularity={"queryGranularity": "hour", "rollup": True},
    )
    frame = cast(
        "DataFrame", pipeline.read_spark([SegmentInput.whole(segment) for segment in segments])
    )
    assert frame.columns == ["__time", "d", "last_n"]
    assert collected(frame) == Counter([("a", 4)])


def test_only_segments_with_matching_rows_are_rewritten(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    rows = [{"t": f"2024-01-0{1 + i % 3}", "d": "abc"[i % 3], "n": i} for i in range(30)]
    segments = ingest(pipeline, make_spec, rows)
    before = files_below(deep_storage)
    rewrites = pipeline.run_delete_where(
        "events", [SegmentInput.whole(segment) for segment in segments], "d = 'b' AND n < 10"
    )
    assert [rewrite.source.segment.chunk for rewrite in rewrites] == [segments[1].chunk]
    assert rewrites[0].proof.rows_deleted == sum(r["d"] == "b" and r["n"] < 10 for r in rows) == 3
    left = rows_of(deep_storage, rewrites[0].replacements, "n")
    assert left == Counter((r["n"],) for r in rows if r["d"] == "b" and r["n"] >= 10)
    added = set(files_below(deep_storage)) - set(before)
    assert added == {segment.path for segment in rewrites[0].replacements}


def test_a_wrong_predicate_is_one_sentence_and_writes_nothing(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    segments = ingest(pipeline, make_spec, [{"t": "2024-01-01", "d": "a", "n": 1}])
    before = files_below(deep_storage)
    for predicate in ("no_such = 1", "n = ", "1; DROP TABLE rows"):
        with pytest.raises(Invalid) as caught:
            pipeline.run_delete_where(
                "events", [SegmentInput.whole(s) for s in segments], predicate
            )
        assert "\n" not in caught.value.message
    assert files_below(deep_storage) == before


def test_spark_is_handed_no_damaged_file(
    pipeline: SparkPipeline, make_spec: MakeSpec, deep_storage: Path
) -> None:
    """Each file is looked at once; without the check Spark reads on."""
    rows = [{"t": f"2024-01-0{1 + i % 3}", "n": i} for i in range(3000)]
    segments = ingest(pipeline, make_spec, rows)
    place = deep_storage / segments[1].path
    data = bytearray(place.read_bytes())
    data[len(data) // 3] ^= 1
    place.write_bytes(data)
    with pytest.raises(Corrupt, match=segments[1].segment_id):
        pipeline.read_spark([SegmentInput.whole(segment) for segment in segments])
    pipeline.read_spark(
        [SegmentInput.whole(segment) for segment in segments if segment is not segments[1]]
    )
