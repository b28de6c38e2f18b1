"""Rewrites of values at the edge of what columns hold: NaN, infinities, two zeros, types that have been widened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.segments.segment import ColumnType, Metric, MetricKind, RangePartition, Segment
from carnac.deep_storage import open_deep_storage
from carnac.errors import Invalid
from carnac.ports import RewriteJob, RewriteResult
from tests.support.segments import write_segment
from tests.unit.jobs.rewrite_cases import TINY
from tests.unit.jobs.test_rewrites_agree import shared_out
from tests.unit.jobs.test_rewriting import RowShape, holds, raw_inputs, rewrite, visible
from tests.unit.rows.rows import CHUNK, dimensions, ingest, metric, read

pytestmark = pytest.mark.usefixtures("shared_connection")

LONG, DOUBLE, BOOLEAN = ColumnType.LONG, ColumnType.DOUBLE, ColumnType.BOOLEAN


def raw(folder: Path, name: str, kind: ColumnType, *values: Any) -> Segment:
    """A segment of a column `n`, one row a millisecond."""
    rows = [{"__time": index, "n": value} for index, value in enumerate(values)]
    storage = open_deep_storage(str(folder / "store"))
    return write_segment(storage, rows, types={"n": kind}, segment_id=name, chunk=CHUNK)


def rolled_up(folder: Path, shape: RowShape, *groups: Sequence[dict[str, Any]]) -> list[Segment]:
    return [
        segment
        for index, rows in enumerate(groups)
        for segment in ingest(folder, shape, [rows], id_prefix=f"in{index}")
    ]


def one_metric(kind: MetricKind, of: ColumnType) -> dict[str, Any]:
    """A target that rolls raw rows up to one metric of `n`."""
    return {
        "query_granularity": "DAY",
        "dimensions": (),
        "metrics": (Metric(name="m", kind=kind, input="n", type=of),),
        "allow_lossy": True,
    }


@pytest.mark.parametrize("order", [1, -1], ids=["widened later", "narrow one last"])
def test_raw_rows_are_rolled_up_from_types_that_hold_the_values_of_all(
    tmp_path: Path, order: int
) -> None:
    """The type of the last input was taken for all: a large number became a boolean, and then 1."""
    segments = [raw(tmp_path, "a", LONG, 1 << 62, 3), raw(tmp_path, "b", BOOLEAN, True)][::order]
    inputs = [visible(segment) for segment in segments]
    written = rewrite(tmp_path, inputs, **one_metric(MetricKind.MAX, LONG))
    assert holds(written)
    assert [row["m"] for row in read(tmp_path, written[0].segments)] == [1 << 62]


@pytest.mark.parametrize(
    ("held", "values", "metric_of", "wanted"),
    [
        (LONG, (1 << 62, 1 << 62, 1 << 62), (MetricKind.SUM, DOUBLE), 3.0 * 2**62),
        (BOOLEAN, (True, False, True), (MetricKind.SUM, LONG), 2),
        (DOUBLE, (0.9, 0.9, -0.9), (MetricKind.SUM, LONG), 0),
        (DOUBLE, (1.9, -1.9), (MetricKind.MIN, LONG), -1),
        (DOUBLE, (2.9, 1.0), (MetricKind.FIRST, LONG), 2),
        (LONG, (7, None), (MetricKind.MAX, DOUBLE), 7.0),
    ],
)
def test_raw_values_become_what_an_ingestion_makes_of_them(
    tmp_path: Path,
    held: ColumnType,
    values: Any,
    metric_of: tuple[MetricKind, ColumnType],
    wanted: object,
) -> None:
    inputs = [visible(raw(tmp_path, "a", held, *values))]
    written = rewrite(tmp_path, inputs, **one_metric(*metric_of))
    assert holds(written)
    (row,) = read(tmp_path, written[0].segments)
    assert (row["m"], type(row["m"])) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("held", "values", "of", "words"),
    [
        (DOUBLE, (1.0, math.nan, math.inf), LONG, "metric m is a long, which 2 values of column n"),
        (DOUBLE, (1e300,), ColumnType.FLOAT, "metric m is a float, which 1 values of column n"),
        (LONG, (1 << 62, 1 << 62), LONG, "the sum of metric 'm' does not fit"),
    ],
)
def test_raw_values_that_a_metric_cannot_hold_are_refused(
    tmp_path: Path, held: ColumnType, values: Any, of: ColumnType, words: str
) -> None:
    inputs = [visible(raw(tmp_path, "a", held, *values))]
    with pytest.raises(Invalid, match=words):
        rewrite(tmp_path, inputs, **one_metric(MetricKind.SUM, of))


def test_a_least_value_that_is_no_number_raises_no_alarm(tmp_path: Path) -> None:
    """In the inputs some keys have nothing but NaN; what Arrow calls the least of these is no number either."""
    shape = RowShape(
        dimensions=dimensions(d="string"),
        metrics=(metric("low", "min", "double"), metric("high", "max", "double")),
        is_rollup=True,
    )
    nan = {"__time": 0, "d": "a", "__in_low": math.nan, "__in_high": math.nan}
    one = {"__time": 0, "d": "b", "__in_low": 1.0, "__in_high": 1.0}
    for index, groups in enumerate([([nan], [nan]), ([nan], [one, nan]), ([one], [nan])]):
        folder = tmp_path / str(index)
        segments = rolled_up(folder, shape, *groups)
        written = rewrite(folder, [visible(segment) for segment in segments])
        assert holds(written)
        found = {row["d"]: repr(row["low"]) for row in read(folder, written[0].segments)}
        assert found["a"] == "nan"
        assert found.get("b", "1.0") == "1.0"


def test_sums_of_both_infinities_are_no_error_of_the_proof(tmp_path: Path) -> None:
    inputs = [
        visible(raw(tmp_path, "a", DOUBLE, math.inf, -math.inf)),
        visible(raw(tmp_path, "b", DOUBLE, 1.0, 2.0, 3.0)),
    ]
    target = {**one_metric(MetricKind.SUM, DOUBLE), "query_granularity": "none"}
    written = rewrite(tmp_path, inputs, **target)
    assert holds(written)
    sums = [row["m"] for row in read(tmp_path, written[0].segments)]
    assert sums == [math.inf, -math.inf, 3.0]


@pytest.mark.parametrize("kind", ["double", "float", "array<double>"])
def test_both_zeros_are_one_key_when_tasks_share_a_group_by_hash(tmp_path: Path, kind: str) -> None:
    """They were hashed as texts, so that a key's rows went to two tasks and were two rows."""
    shape = RowShape(
        dimensions=dimensions(x=kind), metrics=(metric("count", "count", "long"),), is_rollup=True
    )
    zeros: list[Any] = [0.0, -0.0]
    if kind.startswith("array"):
        zeros = [[0.0, 1.0], [-0.0, 1.0]]
    segments = rolled_up(tmp_path, shape, *([{"__time": 0, "x": zero}] for zero in zeros))
    by_hash = Partitioning(kind="hashed", buckets=16)
    job = RewriteJob(
        key="one",
        datasource="events",
        chunks=(CHUNK,),
        inputs=tuple(visible(segment) for segment in segments),
        target=CompactionTarget(partitioning=by_hash),
        is_whole=True,
    )
    done = shared_out(tmp_path, job, TINY)
    assert isinstance(done, RewriteResult)
    assert [row["count"] for row in read(tmp_path, done.segments)] == [2]


def test_a_range_holds_all_rows_without_a_number(tmp_path: Path) -> None:
    """NaN equals nothing for Arrow, so that its rows were divided among ranges that all began and ended with it."""
    rows = [{"__time": index, "x": x} for index, x in enumerate([1.0, 2.0, *[math.nan] * 7])]
    inputs = [visible(segment) for segment in raw_inputs(tmp_path, rows)]
    by_x = Partitioning(kind="range", dimensions=("x",))
    (written,) = rewrite(tmp_path, inputs, target_rows=2, partitioning=by_x)
    parts = [segment.partition for segment in written.segments]
    starts = [part.start for part in parts if isinstance(part, RangePartition)]
    assert repr(starts) == "[None, (nan,)]"
    assert [segment.rows for segment in written.segments] == [2, 7]
    assert all(
        left.end is right.start or left.end == right.start
        for left, right in pairwise(part for part in parts if isinstance(part, RangePartition))
    )


def test_raw_numbers_join_rolled_up_texts_as_what_queries_read(tmp_path: Path) -> None:
    """They were united first: a long beside a double was rolled up as `7.0`, where a query read `7`."""
    shape = RowShape(
        dimensions=dimensions(n="string"),
        metrics=(metric("count", "count", "long"),),
        is_rollup=True,
    )
    segments = [
        *rolled_up(tmp_path, shape, [{"__time": 0, "n": "x"}, {"__time": 1, "n": "7"}]),
        raw(tmp_path, "a", LONG, None, 7),
        raw(tmp_path, "b", DOUBLE, None, 7.5),
    ]
    target = {"metrics": shape.metrics, "allow_lossy": True}
    (written,) = rewrite(tmp_path, [visible(one) for one in segments], **target)
    assert holds([written])
    found = {row["n"]: row["count"] for row in read(tmp_path, written.segments)}
    assert found == {"x": 1, "7": 2, "7.5": 1, None: 2}
