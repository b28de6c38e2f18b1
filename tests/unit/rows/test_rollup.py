from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac import sketches
from carnac.core.time.granularity import parse_granularity
from carnac.errors import Invalid
from carnac.rows.duck import connect
from carnac.rows.normalise.shape import RowShape
from carnac.rows.rollup import merge_sql, part_sql
from tests.support.estimates import count_quantiles, estimate_hll, estimate_theta
from tests.unit.rows.rows import (
    CHUNK,
    DAY_MS,
    dimensions,
    ingest,
    metric,
    naive_rollup,
    normalised,
    read,
)

pytestmark = pytest.mark.usefixtures("shared_connection")

METRICS = (
    metric("rows", "count", "long"),
    metric("total", "sum", "long"),
    metric("mean_of", "sum", "double"),
    metric("low", "min", "double"),
    metric("high", "max", "long"),
    metric("opened", "first", "string"),
    metric("closed", "last", "long"),
)
SHAPE = RowShape(
    dimensions=dimensions(color="string", size="long"),
    metrics=METRICS,
    query_granularity="HOUR",
    is_rollup=True,
    sort_columns=("__time", "color", "size"),
)

ROW = st.fixed_dictionaries(
    {
        "__time": st.integers(0, DAY_MS - 1) | st.integers(0, 20).map(lambda n: n * 1_800_000),
        "color": st.sampled_from(["red", "blue", "", None]),
        "size": st.sampled_from([1, 2, None]),
        "__in_total": st.integers(-(10**9), 10**9) | st.none(),
        "__in_mean_of": st.integers(-8, 8).map(lambda n: n / 4) | st.none(),
        "__in_low": st.integers(-8, 8).map(float) | st.none(),
        "__in_high": st.integers(-8, 8) | st.none(),
        "__in_opened": st.sampled_from(["a", "b", "ü", None]),
        "__in_closed": st.integers(0, 3) | st.none(),
    }
)


def as_groups(shape: RowShape, rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    groups = {}
    for row in rows:
        key = (row["__time"], *(row[name] for name in shape.dimension_names))
        assert key not in groups
        groups[key] = {m.name: row[m.name] for m in shape.metrics if not m.type.is_sketch}
    return groups


@pytest.mark.slow
@given(
    groups=st.lists(st.lists(ROW, max_size=25), min_size=1, max_size=4),
    granularity=st.sampled_from(["HOUR", "MINUTE", "NONE", "DAY", "MONTH", "ALL"]),
)
def test_rollup_in_parts_equals_a_naive_one(
    groups: list[list[dict[str, Any]]],
    granularity: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("rollup")
    shape = replace(SHAPE, query_granularity=granularity)
    segments = ingest(folder, shape, groups)
    rows = [row for group in groups for row in group]
    assert as_groups(shape, read(folder, segments)) == naive_rollup(shape, rows)
    assert sum(segment.input_rows for segment in segments) == len(rows)


@pytest.mark.parametrize(
    "granularity",
    [
        "HOUR",
        '{"type":"period","period":"PT1H","timeZone":"Asia/Kolkata"}',
        '{"type":"period","period":"P1D","timeZone":"America/New_York"}',
        '{"type":"duration","duration":"25000000","origin":"1970-01-01T00:00:00.007Z"}',
        "WEEK",
        "QUARTER",
        "P1M",
    ],
)
def test_truncation_is_the_cores(granularity: str, tmp_path: Path) -> None:
    parsed = parse_granularity(granularity)
    shape = RowShape(dimensions=dimensions(), query_granularity=str(parsed))
    step_ms = 79_191_234 if parsed.nominal_ms < DAY_MS else 7_919_123_457
    times = [k * step_ms + 1 for k in range(-40, 40)]
    span = replace(CHUNK, start_ms=min(times), end_ms=max(times) + 1)
    rows = normalised(shape, [{"__time": time} for time in times])
    with connect(temp_dir=str(tmp_path), memory_bytes=1 << 28) as con:
        con.register("source", rows.append_column("ms", [times]))
        query = part_sql(shape, "source", span=span, keys=("ms",))
        found = dict(con.sql(f"SELECT ms, epoch_us(__time) FROM ({query})").fetchall())
    assert found == {time: parsed.bucket(time).start_ms * 1000 for time in times}


def test_months_need_to_know_the_range_of_times() -> None:
    with pytest.raises(Invalid, match="give a span"):
        part_sql(replace(SHAPE, query_granularity="MONTH"), "source")


def test_keys_keep_rows_apart(tmp_path: Path) -> None:
    shape = RowShape(dimensions=(), metrics=METRICS[:1], query_granularity="ALL", is_rollup=True)
    rows = normalised(shape, [{"__time": n} for n in range(5)])
    with connect(temp_dir=str(tmp_path), memory_bytes=1 << 28) as con:
        con.register("source", rows.append_column("chunk", [[1, 1, 2, 2, 2]]))
        query = part_sql(shape, "source", keys=("chunk",))
        assert sorted(con.sql(f"SELECT chunk, rows FROM ({query})").fetchall()) == [(1, 2), (2, 3)]


def test_a_sum_that_does_not_fit_names_its_metric(tmp_path: Path) -> None:
    big = {"__time": 1, "color": "red", "size": 1, "__in_total": 2**62}
    assert ingest(tmp_path / "a", SHAPE, [[big], [{**big, "__in_total": 2**62 - 1}]])
    for groups in ([[big, big]], [[big], [big]]):
        with pytest.raises(Invalid, match="sum of metric 'total' does not fit"):
            ingest(tmp_path / "b", SHAPE, groups)
    assert not list((tmp_path / "b").rglob("*a0s*"))


def test_float_sums_stay_floats_and_overflow_is_named(tmp_path: Path) -> None:
    shape = replace(SHAPE, metrics=(metric("weight", "sum", "float"),))
    row = {"__time": 1, "color": "red", "size": 1, "__in_weight": 1.5}
    segments = ingest(tmp_path / "a", shape, [[row, row], [row]])
    assert read(tmp_path / "a", segments)[0]["weight"] == 4.5
    with pytest.raises(Invalid, match="sum of metric 'weight'"):
        ingest(tmp_path / "b", shape, [[{**row, "__in_weight": 3e38}] * 2])


def test_first_and_last_by_another_field(tmp_path: Path) -> None:
    shape = replace(
        SHAPE,
        metrics=(metric("opened", "first", "string"), metric("closed", "last", "string")),
        order_fields=(("opened", "seen"), ("closed", "seen")),
    )
    rows = [
        {"__time": n, "color": "c", "__in_opened": v, "__in_closed": v, **_at(order)}
        for n, (v, order) in enumerate([("x", 5), ("y", 3), ("z", None), ("w", 9)])
    ]
    segments = ingest(tmp_path, shape, [rows[:2], rows[2:]])
    row = read(tmp_path, segments)[0]
    assert (row["opened"], row["closed"]) == ("y", "w")
    assert (row["__at_opened"], row["__at_closed"]) == (3, 9)


def _at(order: int | None) -> dict[str, int | None]:
    return {"__at_opened": order, "__at_closed": order}


def test_long_texts_are_cut_at_a_character(tmp_path: Path) -> None:
    shape = replace(SHAPE, metrics=(metric("t", "first", "string", params=(("max_bytes", 4),)),))
    for index, (text, cut) in enumerate(
        [("abcd", "abcd"), ("abcde", "abcd"), ("aü日", "aü"), ("😀😀", "😀")]
    ):
        folder = tmp_path / str(index)
        segments = ingest(folder, shape, [[{"__time": 1, "__in_t": text}]])
        assert read(folder, segments)[0]["t"] == cut


SKETCHES = (
    metric("users", "hll", "hll", params=(("lg_k", 12),)),
    metric("items", "theta", "theta", params=(("lg_k", 12),)),
    metric("price", "quantiles", "quantiles", params=(("k", 200),)),
)


@pytest.mark.parametrize("is_rollup", [True, False])
def test_sketches_hold_the_values_of_all_parts(tmp_path: Path, is_rollup: bool) -> None:
    shape = replace(SHAPE, metrics=SKETCHES, is_rollup=is_rollup)
    rows = [
        {
            "__time": n % 2,
            "color": "red",
            "__in_users": f"u{n % 30}",
            "__in_items": None if n % 3 else f"i{n}",
            "__in_price": float(n),
        }
        for n in range(100)
    ]
    segments = ingest(tmp_path, shape, [rows[:40], rows[40:]])
    found = read(tmp_path, segments)
    assert len(found) == (1 if is_rollup else 100)
    users = sketches.merge_hll([row["users"] for row in found])
    items = sketches.merge_theta([row["items"] for row in found])
    prices = sketches.merge_quantiles([row["price"] for row in found])
    assert round(estimate_hll(users)) == 30
    assert estimate_theta(items) == 34
    assert count_quantiles(prices) == 100
    assert sketches.quantile(prices, 0.5) == pytest.approx(50, abs=2)


def test_sketches_of_sketches_are_merged_and_nothing_is_null(tmp_path: Path) -> None:
    shape = replace(SHAPE, metrics=tuple(replace(m, is_state=True) for m in SKETCHES))
    states = [
        {
            "__time": 1,
            "__in_users": sketches.build_hll([n, n + 1]),
            "__in_items": sketches.build_theta([n]),
            "__in_price": sketches.build_quantiles([float(n)]),
        }
        for n in range(10)
    ]
    empty = {"__time": DAY_MS - 1}
    rows = read(tmp_path, ingest(tmp_path, shape, [states[:5], [*states[5:], empty]]))
    assert round(estimate_hll(rows[0]["users"])) == 11
    assert estimate_theta(rows[0]["items"]) == 10
    assert count_quantiles(rows[0]["price"]) == 10
    assert (rows[1]["users"], rows[1]["items"], rows[1]["price"]) == (None, None, None)


def test_bytes_that_are_no_sketch_are_named(tmp_path: Path) -> None:
    shape = replace(SHAPE, metrics=(replace(SKETCHES[0], is_state=True),))
    with pytest.raises(Invalid, match="cannot be read as a sketch of type hll"):
        ingest(tmp_path, shape, [[{"__time": 1, "__in_users": b"junk"}]])


@pytest.mark.slow
@given(groups=st.lists(st.lists(ROW, min_size=1, max_size=15), min_size=2, max_size=3))
def test_merging_merged_rows_equals_merging_at_once(
    groups: list[list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("again")
    with connect(temp_dir=str(folder), memory_bytes=1 << 28) as con:
        for index, rows in enumerate(groups):
            con.register(f"rows_{index}", normalised(SHAPE, rows))
        parts = [f"({part_sql(SHAPE, f'rows_{index}')})" for index in range(len(groups))]
        at_once = merge_sql(SHAPE, f"({' UNION ALL '.join(parts)})")
        first, *others = parts
        nested = merge_sql(
            SHAPE, f"({' UNION ALL '.join([*others, f'({merge_sql(SHAPE, first)})'])})"
        )
        assert sorted(map(repr, con.sql(at_once).fetchall())) == sorted(
            map(repr, con.sql(nested).fetchall())
        )
