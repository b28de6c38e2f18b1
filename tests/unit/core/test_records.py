"""Records are read back as they were written, and damage is called damage."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.log import records
from carnac.core.log.commits import ConservationProof
from carnac.core.segments import record as segment_records
from carnac.core.segments.lateness import LateRows
from carnac.core.segments.segment import (
    Column,
    ColumnType,
    HashedPartition,
    Metric,
    MetricKind,
    RangePartition,
    RollupSpec,
    Segment,
)
from carnac.core.segments.version import IdRanges
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Corrupt

RAW = Segment(
    segment_id="01jd2raw",
    datasource="wikipedia",
    chunk=Interval(1_442_016_000_000, 1_442_102_400_000),
    path="segments/wikipedia/01jd2raw.parquet",
    size_bytes=123_456,
    rows=39_244,
    input_rows=39_244,
    min_time_ms=1_442_018_818_771,
    max_time_ms=1_442_102_399_999,
    columns=(
        Column(name="page", type=ColumnType.STRING, null_count=0, min_value="!", max_value="ﻄ"),
        Column(name="added", type=ColumnType.LONG, null_count=3, min_value=-1, max_value=2**62),
        Column(name="ratio", type=ColumnType.DOUBLE, min_value=-math.inf, max_value=1.0),
        Column(name="isNew", type=ColumnType.BOOLEAN, min_value=False, max_value=True),
        Column(name="tags", type=ColumnType.STRING_ARRAY, null_count=39_244),
        Column(name="user_hll", type=ColumnType.HLL),
    ),
    sort_columns=("__time", "page"),
    query_granularity="none",
    partition=RangePartition(dimensions=("page", "added"), start=None, end=("K", None)),
    checksum="sha256:00ff",
    row_hash=2**64 - 1,
    created_at_ms=1_700_000_000_000,
    attributes={"sorted": True, "skew": 0.5, "nothing": None, "writer": "carnac"},
)
ROLLED_UP = Segment(
    segment_id="01jd2rolled",
    datasource="clicks",
    chunk=Interval(0, 86_400_000),
    path="segments/clicks/01jd2rolled.parquet",
    size_bytes=1,
    rows=2,
    input_rows=200,
    min_time_ms=0,
    max_time_ms=3_600_000,
    columns=(),
    query_granularity="hour",
    rollup=RollupSpec(
        query_granularity="hour",
        dimensions=("country", "city"),
        metrics=(
            Metric(name="count", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG),
            Metric(
                name="users",
                kind=MetricKind.HLL,
                input="user",
                type=ColumnType.HLL,
                params=(("lg_k", 12),),
                is_state=True,
            ),
        ),
        is_perfect=True,
    ),
    partition=HashedPartition(dimensions=(), bucket=1, buckets=4, function="murmur3-1"),
)
PROOF = ConservationProof(
    rows_in=5,
    rows_out=5,
    row_hash_in=None,
    row_hash_out=2**63,
    sums_in={"added": 0.1, "delta": math.nan},
    sums_out={"added": 7},
)
DELETION_PROOF = ConservationProof(
    rows_in=5, rows_out=3, row_hash_in=7, row_hash_out=9, rows_deleted=2, row_hash_deleted=2**64 - 2
)
LATE = replace(RAW, late=LateRows(counts=(0, 12, 0, 0, 3, 0)))
FOLDED = replace(ROLLED_UP, late=LateRows(counts=(1, 0, 0, 0, 0, 199), is_folded=True))
SEGMENTS = {
    "segment-raw": RAW,
    "segment-rolled-up": ROLLED_UP,
    "segment-late": LATE,
    "segment-folded": FOLDED,
}
SCALARS = st.none() | st.text() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.booleans()


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(name: str) -> None:
    assert (
        segment_records.load_segment(segment_records.dump_segment(SEGMENTS[name])) == SEGMENTS[name]
    )


@pytest.mark.parametrize("name", SEGMENTS)
def test_stored_segments_have_their_columns_when_asked(name: str) -> None:
    wanted = SEGMENTS[name]
    found = segment_records.load_stored_segment(segment_records.dump_segment(wanted))
    assert (found.segment_id, found.rows, found.late) == (
        wanted.segment_id,
        wanted.rows,
        wanted.late,
    )
    assert found.columns == wanted.columns
    assert found.columns is found.columns
    for use in (copy.copy, lambda one: pickle.loads(pickle.dumps(one)), replace):
        assert (
            use(segment_records.load_stored_segment(segment_records.dump_segment(wanted))) == wanted
        )
    assert segment_records.dump_segment(found) == segment_records.dump_segment(wanted)
    with pytest.raises(AttributeError, match="'Segment' object has no attribute 'colour'"):
        found.colour  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("place", ["name", "min_value"])
@pytest.mark.parametrize(
    "value",
    [
        '],"queryGranularity":',
        '"columns":[',
        '"columns":[]',
        '\\"],"queryGranularity":"',
        "]",
        "ü\u2028\\",
    ],
)
def test_what_looks_like_the_end_of_the_columns_is_none(place: str, value: str) -> None:
    column = replace(RAW.columns[0], **{place: value})
    wanted = replace(RAW, columns=(column, *RAW.columns), path=value, attributes={value: value})
    assert segment_records.load_stored_segment(segment_records.dump_segment(wanted)) == wanted


@given(
    st.lists(
        st.builds(
            Column,
            name=st.text(),
            type=st.sampled_from(ColumnType),
            null_count=st.none() | st.integers(0),
            min_value=SCALARS,
            max_value=SCALARS,
        )
    )
)
def test_columns_come_back_as_they_were(columns: list[Column]) -> None:
    text = segment_records.dump_segment(replace(RAW, columns=tuple(columns)))
    assert [one["name"] for one in json.loads(text)["columns"]] == [one.name for one in columns]
    found = segment_records.load_segment(text).columns
    assert list(map(repr, found)) == list(map(repr, columns))  # NaN is not itself


def test_nothing_to_say_of_a_commit() -> None:
    nothing = records.CommitDetails({}, {}, {}, None)
    assert records.load_commit_details(records.dump_commit_details(nothing)) == nothing


def test_an_offset_range_of_a_commit() -> None:
    details = records.CommitDetails({"a": "7", "b": ""}, {"a": "5", "b": "1"}, {}, None)
    assert records.load_commit_details(records.dump_commit_details(details)) == details


def test_schemas_hold_names_and_types_only() -> None:
    text = segment_records.dump_schema(RAW.columns)
    schema = segment_records.load_schema(text)
    assert [(one.name, one.type) for one in schema] == [(c.name, c.type) for c in RAW.columns]
    assert segment_records.dump_schema(schema) == text


def test_sets() -> None:
    pieces = IntervalSet((Interval(-5, 0), Interval(7, 9)))
    assert records.load_interval_set(records.dump_interval_set(pieces)) == pieces
    assert records.load_interval_set(records.dump_interval_set(IntervalSet())) == IntervalSet()
    assert records.load_id_ranges("0-3,7") == IdRanges(((0, 3), (7, 7)))
    assert records.load_id_ranges("12") == IdRanges(((12, 12),))
    assert records.load_id_ranges("") == IdRanges()
    assert records.load_ids(records.dump_ids((1 << 60, 3))) == (1 << 60, 3)


def test_a_newer_format_says_what_to_do() -> None:
    record = json.loads(segment_records.dump_segment(RAW)) | {"recordFormat": 2}
    with pytest.raises(Corrupt, match="use the version that wrote it"):
        segment_records.load_segment(json.dumps(record))


@pytest.mark.parametrize(
    "damage",
    [
        {"recordFormat": None},
        {"recordFormat": "1"},
        {"rows": "39244"},
        {"rows": 1.0},
        {"rows": True},
        {"chunk": [5, 5]},
        {"chunk": [5]},
        {"columns": {}},
        {"columns": [{"name": "x"}]},
        {"columns": [{"name": "x", "type": "strange"}]},
        {"columns": [{"name": "x", "type": "long", "extra": 1}]},
        {"columns": [{"name": "x", "type": "long", "min": [1]}]},
        {"columns": [{"name": "x", "type": "long", "nullCount": "1"}]},
        {"partition": {"type": "random", "dimensions": []}},
        {"rollup": {}},
        {"late": {}},
        {"late": {"rows": {"PT2M": 1}}},
        {"late": {"rows": {"PT1M": "1"}}},
        {"late": {"rows": {"PT1M": 1}, "isFolded": 1}},
        {"unknown": 1},
        {"path": None},
    ],
)
def test_damage_is_corrupt(damage: dict[str, object]) -> None:
    with pytest.raises(Corrupt, match="segment"):
        segment_records.load_segment(
            json.dumps(json.loads(segment_records.dump_segment(RAW)) | damage)
        )
    compact = json.dumps(
        json.loads(segment_records.dump_segment(RAW)) | damage,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    with pytest.raises(Corrupt, match="segment"):
        _ = segment_records.load_stored_segment(compact).columns


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in json.loads(segment_records.dump_segment(RAW))
        if n not in {"sortColumns", "partition", "attributes", "late"}
    ],
)
def test_a_missing_field_is_corrupt(name: str) -> None:
    record = json.loads(segment_records.dump_segment(RAW))
    del record[name]
    with pytest.raises(Corrupt):
        segment_records.load_segment(json.dumps(record))
    with pytest.raises(Corrupt):
        segment_records.load_stored_segment(json.dumps(record, separators=(",", ":")))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '{"recordFormat":1}', "[" * 100_000])
def test_what_is_no_record_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        segment_records.load_segment(text)
    with pytest.raises(Corrupt):
        segment_records.load_stored_segment(text)


@pytest.mark.parametrize("text", ["[[0,5],[5,9]]", "[[7,9],[0,5]]", "[[0]]", "{}", "[[0,5],[3,9]]"])
def test_sets_that_are_not_in_normal_form_are_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        records.load_interval_set(text)


@pytest.mark.parametrize(
    "text", ["3,1", "1-2,3", "a", "5-1", "1,,", "-", "07", "\N{ARABIC-INDIC DIGIT TWO}", "1" * 5000]
)
def test_id_sets_that_are_not_in_normal_form_are_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        records.load_id_ranges(text)


def test_a_row_hash_of_another_version_is_named_and_a_record_that_names_none_has_the_third() -> (
    None
):
    text = segment_records.dump_segment(replace(RAW, row_hash_version=4))
    assert json.loads(text)["rowHashVersion"] == 4
    assert segment_records.load_segment(text).row_hash_version == 4
    unnamed = segment_records.dump_segment(replace(RAW, row_hash_version=3))
    assert "rowHashVersion" not in json.loads(unnamed)
    assert segment_records.load_segment(unnamed).row_hash_version == 3
