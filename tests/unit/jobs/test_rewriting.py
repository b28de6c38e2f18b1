"""Rewrites in one task: what they keep, what they merge, what they refuse."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning, PartitionKind
from carnac.core.log.laws import conserves
from carnac.core.segments.partitioning import hash_bucket, holds_values
from carnac.core.segments.segment import (
    ColumnType,
    HashedPartition,
    Metric,
    MetricKind,
    RangePartition,
    Segment,
)
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.errors import Corrupt, Invalid
from carnac.jobs.compact.conservation import prove
from carnac.jobs.compact.scatter import rewrite_in_task
from carnac.jobs.compact.shape import plan_input_groups
from carnac.jobs.compact.task import Rewritten
from carnac.ports import SegmentInput
from carnac.rows.normalise.shape import RowShape
from carnac.rows.segment_writer import SegmentWriter
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from tests.support.estimates import estimate_hll
from tests.support.segments import write_segment
from tests.unit.jobs.rewrite_cases import group_task
from tests.unit.rows.rows import CHUNK, DAY_MS, dimensions, ingest, metric, naive_rollup, read

pytestmark = pytest.mark.usefixtures("shared_connection")

HOUR_MS = 3_600_000
TYPES = {
    "d": ColumnType.STRING,
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
    "tags": ColumnType.STRING_ARRAY,
}
TINY = 1 << 10
"""Memory of a task in which nothing is sorted at once."""
ROLLUP = RowShape(
    dimensions=dimensions(d="string"),
    metrics=(
        metric("count", "count", "long"),
        metric("sum", "sum", "long"),
        metric("dsum", "sum", "double"),
        metric("low", "min", "double"),
        metric("last", "last", "long"),
        metric("users", "hll", "hll", params=(("lg_k", 8),)),
    ),
    query_granularity="HOUR",
    is_rollup=True,
    sort_columns=("__time", "d"),
)


def make_rows(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "__time": rng.randrange(24) * HOUR_MS + rng.choice([0, 1, 250]),
            "d": rng.choice([None, "", "a", "b", "ä"]),
            "n": rng.choice([None, 0, 5, -7]),
            "x": rng.choice([None, rng.random(), 2.0]),
            "tags": rng.choice([None, [], ["a"], ["b", None]]),
        }
        for _ in range(count)
    ]


def raw_inputs(folder: Path, *groups: Sequence[dict[str, Any]]) -> list[Segment]:
    storage = open_deep_storage(str(folder / "store"))
    return [
        write_segment(storage, rows, types=TYPES, segment_id=f"in-{index}", chunk=CHUNK)
        for index, rows in enumerate(groups)
    ]


def rolled_inputs(folder: Path, groups: int = 3, rows: int = 60) -> tuple[list[Segment], list[Any]]:
    rng = random.Random(groups)
    made = [
        [
            {
                "__time": rng.randrange(6) * HOUR_MS + rng.randrange(HOUR_MS),
                "d": rng.choice([None, "a", "b"]),
                "__in_sum": rng.choice([None, 1, 5]),
                "__in_dsum": rng.random(),
                "__in_low": rng.random(),
                "__in_last": rng.randrange(9),
                "__in_users": rng.choice("abcdefgh"),
            }
            for _ in range(rows)
        ]
        for _ in range(groups)
    ]
    segments = []
    for index, group in enumerate(made):
        segments += ingest(folder, ROLLUP, [group], id_prefix=f"in{index}")
    return segments, [row for group in made for row in group]


def visible(segment: Segment, *pieces: Interval) -> SegmentInput:
    return SegmentInput(segment=segment, visible=IntervalSet(pieces or (segment.span,)))


def rewrite(
    folder: Path,
    inputs: Sequence[SegmentInput],
    make_writer: Any = SegmentWriter,
    memory_bytes: int = 1 << 30,
    **target: Any,
) -> list[Rewritten]:
    wanted = CompactionTarget(**target)
    return [
        rewrite_in_task(
            group_task(
                folder, input_group, wanted, id_prefix=f"out{index}", memory_bytes=memory_bytes
            ),
            Attempt(0, Tally(None)),
            make_writer=make_writer,
        )
        for index, input_group in enumerate(plan_input_groups(inputs, wanted))
    ]


def holds(written: Sequence[Rewritten]) -> bool:
    return conserves(prove([one.went_in for one in written], [one.came_out for one in written]))


def counted(rows: Sequence[Any]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


# ------------------------------------------------------------------------------------ raw rows


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY], ids=["in memory", "staged"])
@pytest.mark.parametrize(
    "target",
    [
        {},
        {"target_rows": 70},
        {"target_rows": 70, "sort_by": ("d", "x")},
        {"target_rows": 70, "partitioning": Partitioning(kind="range", dimensions=("d", "n"))},
        {"target_rows": 70, "partitioning": Partitioning(kind="hashed")},
    ],
    ids=["plain", "cut", "sorted", "range", "hashed"],
)
def test_rows_are_kept_and_sorted(
    tmp_path: Path, target: dict[str, Any], memory_bytes: int
) -> None:
    groups = [make_rows(100, 1), make_rows(150, 2), make_rows(1, 3)]
    inputs = [visible(segment) for segment in raw_inputs(tmp_path, *groups)]
    written = rewrite(tmp_path, inputs, memory_bytes=memory_bytes, **target)
    assert holds(written)
    (one,) = written
    found = read(tmp_path, one.segments)
    assert counted(found) == counted([row for group in groups for row in group])
    for segment in one.segments:
        rows = read(tmp_path, [segment])
        keys = [
            [(row[c] is not None, row[c]) for c in segment.sort_columns if c != "tags"]
            for row in rows
        ]
        assert keys == sorted(keys)
    assert not (tmp_path / "temp").exists()


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY], ids=["in memory", "staged"])
@pytest.mark.parametrize("names", [("gone",), ("gone", "d"), ("d", "gone"), ("gone", "lost")])
@pytest.mark.parametrize("kind", ["hashed", "range"])
def test_a_dimension_that_no_row_has_is_null_as_in_druid(
    tmp_path: Path, kind: PartitionKind, names: tuple[str, ...], memory_bytes: int
) -> None:
    """It becomes no column; the partitions name it, so that a filter on it finds the rows where it is null."""
    groups = [make_rows(100, 1), make_rows(150, 2)]
    inputs = [visible(segment) for segment in raw_inputs(tmp_path, *groups)]
    by = Partitioning(kind=kind, dimensions=names)
    written = rewrite(tmp_path, inputs, memory_bytes=memory_bytes, target_rows=70, partitioning=by)
    assert holds(written)
    (one,) = written
    assert counted(read(tmp_path, one.segments)) == counted(
        [row for some in groups for row in some]
    )
    assert len(one.segments) > 1 or "d" not in names
    for segment in one.segments:
        assert not {column.name for column in segment.columns} & {"gone", "lost"}
        found = segment.partition
        assert isinstance(found, HashedPartition | RangePartition)
        assert found.dimensions == names
        for row in read(tmp_path, [segment]):
            values = [row.get(name) for name in names]
            if isinstance(found, HashedPartition):
                assert hash_bucket(values, found.buckets) == found.bucket
            else:
                assert holds_values(found, values)
                assert holds_values(found, values[:1])


def test_a_dimension_that_only_some_segments_have_is_null_in_the_others(tmp_path: Path) -> None:
    storage = open_deep_storage(str(tmp_path / "store"))
    old = write_segment(storage, [{"__time": 1, "n": 5}, {"__time": 2, "n": 6}], chunk=CHUNK)
    new = write_segment(storage, [{"__time": 3, "n": 7, "page": "a"}], chunk=CHUNK)
    by_page = Partitioning(kind="range", dimensions=("page",))
    (written,) = rewrite(
        tmp_path, [visible(old), visible(new)], target_rows=1, partitioning=by_page
    )
    assert holds([written])
    parts = [segment.partition for segment in written.segments]
    assert [(p.start, p.end) for p in parts if isinstance(p, RangePartition)] == [
        (None, ("a",)),
        (("a",), None),
    ]


def test_only_what_clips_show_is_kept(tmp_path: Path) -> None:
    rows = make_rows(200, 4)
    (segment,) = raw_inputs(tmp_path, rows)
    pieces = Interval(HOUR_MS, 3 * HOUR_MS), Interval(5 * HOUR_MS + 1, 9 * HOUR_MS)
    written = rewrite(tmp_path, [visible(segment, *pieces)])
    assert holds(written)
    expected = [row for row in rows if any(piece.holds(row["__time"]) for piece in pieces)]
    assert counted(read(tmp_path, written[0].segments)) == counted(expected)


def test_a_clip_that_shows_nothing_leaves_nothing(tmp_path: Path) -> None:
    (segment,) = raw_inputs(tmp_path, [{"__time": 5, "d": "a"}, {"__time": 50, "d": "b"}])
    written = rewrite(tmp_path, [visible(segment, Interval(10, 20))])
    assert holds(written)
    assert written[0].segments == ()


def test_schemas_are_united_and_types_widened(tmp_path: Path) -> None:
    storage = open_deep_storage(str(tmp_path / "store"))
    old = write_segment(storage, [{"__time": 1, "n": 5, "gone": "g"}], chunk=CHUNK)
    new = write_segment(storage, [{"__time": 2, "n": 0.5, "new": 7}], chunk=CHUNK)
    text = write_segment(storage, [{"__time": 3, "n": "x"}], chunk=CHUNK)
    written = rewrite(tmp_path, [visible(old), visible(new)])
    assert holds(written)
    rows = read(tmp_path, written[0].segments)
    assert [(row["n"], row["gone"], row["new"]) for row in rows] == [
        (5.0, "g", None),
        (0.5, None, 7),
    ]
    written = rewrite(tmp_path, [visible(old), visible(new), visible(text)])
    assert holds(written)
    assert [row["n"] for row in read(tmp_path, written[0].segments)] == ["5", "0.5", "x"]


def test_a_file_that_is_not_what_its_record_says_is_named(tmp_path: Path) -> None:
    good, bad = raw_inputs(tmp_path, make_rows(20, 1), make_rows(20, 2))
    wrong = replace(bad, row_hash=bad.row_hash + 1)
    with pytest.raises(Corrupt, match="in-1 does not hold the rows"):
        rewrite(tmp_path, [visible(good), visible(wrong)])
    assert not list((tmp_path / "store" / "out").glob("*"))


# ------------------------------------------------------------------------------ rolled-up rows


@pytest.mark.parametrize("granularity", [None, "DAY"])
def test_states_are_merged(tmp_path: Path, granularity: str | None) -> None:
    segments, rows = rolled_inputs(tmp_path)
    written = rewrite(
        tmp_path,
        [visible(segment) for segment in segments],
        query_granularity=granularity,
        allow_lossy=True,
    )
    assert holds(written)
    (segment,) = written[0].segments
    shape = replace(ROLLUP, query_granularity=granularity or "HOUR")
    expected = naive_rollup(shape, rows)
    found = {(row["__time"], row["d"]): row for row in read(tmp_path, [segment])}
    assert found.keys() == expected.keys()
    for key, metrics in expected.items():
        for name, value in metrics.items():
            assert found[key][name] == pytest.approx(value), (key, name)
        users = {row["__in_users"] for row in rows if _key(shape, row) == key}
        assert estimate_hll(found[key]["users"]) == pytest.approx(len(users), rel=0.05)
    assert segment.rollup is not None
    assert segment.rollup.is_perfect
    assert segment.rollup.metrics == segments[0].rollup.metrics  # type: ignore[union-attr]
    assert segment.input_rows == len(rows)


def _key(shape: RowShape, row: dict[str, Any]) -> tuple[int, Any]:
    length = DAY_MS if shape.query_granularity == "DAY" else HOUR_MS
    return row["__time"] // length * length, row["d"]


def test_raw_and_rolled_up_rows_stay_apart(tmp_path: Path) -> None:
    segments, _ = rolled_inputs(tmp_path)
    raw = raw_inputs(tmp_path, make_rows(10, 1), make_rows(10, 2))
    written = rewrite(tmp_path, [visible(segment) for segment in (*raw, *segments)])
    assert holds(written)
    kinds = sorted(one.segments[0].rollup is None for one in written)
    assert kinds == [False, True]


@pytest.mark.parametrize("memory_bytes", [1 << 30, TINY], ids=["in memory", "staged"])
def test_raw_rows_that_are_rolled_up_join_those_that_have_been(
    tmp_path: Path, memory_bytes: int
) -> None:
    """In one rewrite, with the states that two rewrites, one after the other, would give."""
    segments, old = rolled_inputs(tmp_path)
    new = make_rows(100, 1)
    raw = raw_inputs(tmp_path, new[:60], new[60:])
    fed = {"count": None, "low": "x", "dsum": "x", "users": "d"}
    target = {
        "query_granularity": "HOUR",
        "dimensions": ("d",),
        "metrics": tuple(replace(one, input=fed.get(one.name, "n")) for one in ROLLUP.metrics),
        "allow_lossy": True,
        "memory_bytes": memory_bytes,
    }
    written = rewrite(tmp_path, [visible(one) for one in (*raw, *segments)], **target)
    assert holds(written)
    (one,) = written
    rows = [
        {
            "__time": row["__time"],
            "d": row["d"],
            **{f"__in_{name}": row["n"] for name in ("sum", "last")},
            **{f"__in_{name}": row["x"] for name in ("low", "dsum")},
            "__in_users": row["d"],
        }
        for row in new
    ]
    expected = naive_rollup(ROLLUP, old + rows)
    found = {(row["__time"], row["d"]): row for row in read(tmp_path, one.segments)}
    assert found.keys() == expected.keys()
    for key, metrics in expected.items():
        for name, value in metrics.items():
            assert found[key][name] == pytest.approx(value), (key, name)
        users = {row["__in_users"] for row in old + rows if _key(ROLLUP, row) == key} - {None, ""}
        estimate = found[key]["users"]
        assert (estimate_hll(estimate) if estimate else 0) == pytest.approx(len(users), rel=0.05)
    assert sum(segment.input_rows for segment in one.segments) == len(old) + len(new)
    assert all(one.rollup and one.rollup.metrics == target["metrics"] for one in one.segments)


def test_a_column_that_becomes_a_metric_is_no_dimension_where_others_have_one_of_its_name(
    tmp_path: Path,
) -> None:
    """Rolled-up rows have a dimension `n` of texts; of raw rows `n` is what is summed: null there as a dimension."""
    shape = replace(ROLLUP, dimensions=dimensions(n="string"), metrics=(ROLLUP.metrics[1],))
    shape = replace(shape, sort_columns=("__time", "n"))
    old = ingest(tmp_path, shape, [[{"__time": 5, "n": "five", "__in_sum": 1}]])
    storage = open_deep_storage(str(tmp_path / "store"))
    raw = write_segment(storage, [{"__time": 7, "n": 7}, {"__time": 8, "n": 1}], chunk=CHUNK)
    (written,) = rewrite(
        tmp_path,
        [visible(raw), *map(visible, old)],
        query_granularity="HOUR",
        metrics=(replace(ROLLUP.metrics[1], input="n"),),
        allow_lossy=True,
    )
    assert holds([written])
    assert [(row["n"], row["sum"]) for row in read(tmp_path, written.segments)] == [
        (None, 8),
        ("five", 1),
    ]


def test_raw_rows_are_rolled_up_if_that_is_allowed(tmp_path: Path) -> None:
    rows = make_rows(300, 8)
    inputs = [visible(segment) for segment in raw_inputs(tmp_path, rows[:100], rows[100:])]
    target: dict[str, Any] = {
        "query_granularity": "HOUR",
        "dimensions": ("d",),
        "metrics": (
            Metric(name="count", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG),
            Metric(name="n", kind=MetricKind.SUM, input="n", type=ColumnType.LONG),
            Metric(name="first", kind=MetricKind.FIRST, input="x", type=ColumnType.DOUBLE),
            Metric(name="latest", kind=MetricKind.MAX, input="__time", type=ColumnType.LONG),
        ),
    }
    with pytest.raises(Invalid, match="leaves out column tags and rolls raw rows up"):
        rewrite(tmp_path, inputs, **target)
    written = rewrite(tmp_path, inputs, **target, allow_lossy=True)
    assert holds(written)
    shape = RowShape(
        dimensions=dimensions(d="string"), metrics=target["metrics"], query_granularity="HOUR"
    )
    fed = [
        {**row, "__in_n": row["n"], "__in_first": row["x"], "__in_latest": row["__time"]}
        for row in rows
    ]
    expected = naive_rollup(shape, fed)
    found = {(row["__time"], row["d"]): row for row in read(tmp_path, written[0].segments)}
    assert found.keys() == expected.keys()
    for key, metrics in expected.items():
        assert {name: found[key][name] for name in metrics} == metrics


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"metrics": (metric("m", "sum", "long", input="d"),)}, "column d, which holds string"),
        ({"metrics": (metric("m", "max", "double", input="d"),)}, "column d, which holds string"),
        (
            {"metrics": (metric("m", "last", "long", input="tags"),)},
            "tags, which holds array<string>",
        ),
        ({"metrics": (metric("m", "quantiles", "quantiles", input="d"),)}, "d, which holds string"),
        ({"metrics": (metric("m", "sum", "long", input="gone"),)}, "metrics need column gone"),
        (
            {"partitioning": Partitioning(kind="hashed", dimensions=("__time",))},
            "not by __time",
        ),
        ({"partitioning": Partitioning(kind="range", dimensions=("tags",))}, "holds several"),
    ],
)
def test_what_the_columns_cannot_give_is_refused_in_a_sentence(
    tmp_path: Path, target: dict[str, Any], words: str
) -> None:
    inputs = [visible(segment) for segment in raw_inputs(tmp_path, make_rows(9, 1))]
    with pytest.raises(Invalid, match=words):
        rewrite(tmp_path, inputs, allow_lossy=True, **target)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_a_sum_that_cancels_out_raises_no_alarm(tmp_path: Path, kind: str) -> None:
    shape = replace(ROLLUP, metrics=(metric("dsum", "sum", kind),))
    rng = random.Random(5)
    segments: list[Segment] = []
    for index in range(4):
        values = [rng.uniform(-1e18, 1e18) for _ in range(50)]
        rows = [
            {"__time": 0, "d": rng.choice("ab"), "__in_dsum": value}
            for value in (*values, *(-value for value in values))
        ]
        segments += ingest(tmp_path, shape, [rows], id_prefix=f"in{index}")
    assert holds(rewrite(tmp_path, [visible(segment) for segment in segments]))
