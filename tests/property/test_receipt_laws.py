"""Digests of answers: the same for the same thing however it is told, another one for another thing."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.answers.receipts import (
    etag_of,
    names_etag,
    segments_digest,
    slice_text,
    statement_digest,
)
from carnac.core.time.intervals import Interval, IntervalSet, interval_set
from carnac.rows.answer_digest import AnswerMeter

CLIPS = st.one_of(
    st.none(),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=3).map(
        lambda pairs: interval_set(Interval(start, start + size) for start, size in pairs)
    ),
)
SLICES = st.lists(st.tuples(st.sampled_from("abcdef"), CLIPS), max_size=6)
Slices = list[tuple[str, IntervalSet | None]]


@given(SLICES, st.randoms())
def test_a_set_of_segments_has_one_digest(slices: Slices, chance: random.Random) -> None:
    shuffled = [*slices, *slices]
    chance.shuffle(shuffled)
    assert segments_digest(shuffled) == segments_digest(slices)


@given(SLICES, SLICES)
def test_sets_that_differ_have_other_digests(first: Slices, second: Slices) -> None:
    are_same = {slice_text(one) for one in first} == {slice_text(one) for one in second}
    assert (segments_digest(first) == segments_digest(second)) is are_same
    texts = set(map(slice_text, [*first, *second]))
    assert len(texts) == len({(name, clip) for name, clip in [*first, *second]})


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.floats(allow_nan=False)
)


@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_parameters_count_with_their_types(first: list[object], second: list[object]) -> None:
    are_same = [(type(one), one) for one in first] == [(type(one), one) for one in second]
    if str(first) == str(second) or not are_same:
        found = statement_digest("SELECT ?", first) == statement_digest("SELECT ?", second)
        assert found is (str(first) == str(second))


@given(SLICES, SLICES, st.sampled_from(["long", "double"]), st.sampled_from(["x", "y"]))
def test_an_etag_changes_exactly_when_what_it_rests_on_does(
    first: Slices, second: Slices, kind: str, word: str
) -> None:
    def tag(slices: Slices, kind: str, word: str) -> str:
        stated = statement_digest("SELECT 1", [])
        return etag_of(
            stated,
            segments_digest(slices),
            columns={"a": {"n": kind}},
            tables=[{"k": ["1"], "v": [word]}],
        )

    before = tag(first, "long", "x")
    is_same = {slice_text(one) for one in first} == {slice_text(one) for one in second}
    is_same = is_same and (kind, word) == ("long", "x")
    assert (tag(second, kind, word) == before) is is_same
    assert names_etag(f'W/"other", "{before}"', before)
    assert names_etag(before, before)
    assert not names_etag(f'"{before}0", W/"x"', before)


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-(2**62), 2**62)),
        st.one_of(st.none(), st.text(max_size=5)),
        st.one_of(st.none(), st.floats(-1e12, 1e12)),
    ),
    max_size=30,
)
TYPES = (pa.int64(), pa.string(), pa.float64())


def batch_of(rows: list[tuple[object, ...]], names: str = "abc") -> pa.RecordBatch:
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(TYPES)]
    return pa.RecordBatch.from_arrays(columns, list(names))


@given(ROWS, st.randoms(), st.integers(0, 30))
def test_rows_have_one_digest_in_any_order_and_in_any_batches(
    rows: list[tuple[object, ...]], chance: random.Random, cut: int
) -> None:
    whole, parts = AnswerMeter(), AnswerMeter()
    whole.add(batch_of(rows))
    shuffled = rows[:]
    chance.shuffle(shuffled)
    parts.add(batch_of(shuffled[:cut], "xyz"))
    parts.add(batch_of(shuffled[cut:], "xyz"))
    assert (whole.rows, whole.digest) == (parts.rows, parts.digest)


LONG = st.integers(-(2**63), 2**63 - 1)
HUGE = st.one_of(st.none(), LONG, st.integers(-(10**38) + 2, 10**38 - 2))


@given(st.lists(HUGE, max_size=30), st.randoms(), st.integers(0, 30))
def test_whole_numbers_have_one_digest_whatever_is_beside_them(
    numbers: list[int | None], chance: random.Random, cut: int
) -> None:
    def digest(*parts: pa.Array) -> str:
        meter = AnswerMeter()
        for one in parts:
            meter.add(pa.RecordBatch.from_arrays([one], ["h"]))
        return meter.digest

    chance.shuffle(numbers)
    huge = pa.array(numbers, pa.decimal128(38))
    assert digest(huge) == digest(huge[:cut], huge[cut:])
    fitting = [one for one in numbers if one is None or -(2**63) <= one < 2**63]
    assert digest(pa.array(fitting, pa.decimal128(38))) == digest(pa.array(fitting, pa.int64()))
    unsigned = [one for one in numbers if one is None or 0 <= one < 2**64]
    assert digest(pa.array(unsigned, pa.uint64())) == digest(pa.array(unsigned, pa.decimal128(38)))
    other = [one ^ 1 if one else one for one in numbers]
    assert (digest(huge) == digest(pa.array(other, pa.decimal128(38)))) is (
        sorted(map(str, other)) == sorted(map(str, numbers))
    )


@given(ROWS, st.integers(0, 29))
def test_a_row_more_is_another_digest(rows: list[tuple[object, ...]], place: int) -> None:
    if rows:
        once, twice = AnswerMeter(), AnswerMeter()
        once.add(batch_of(rows))
        twice.add(batch_of([*rows, rows[place % len(rows)]]))
        assert once.digest != twice.digest or all(one is None for one in rows[place % len(rows)])


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=50), st.randoms())
def test_sums_in_another_order_have_the_same_digest(
    values: list[float], chance: random.Random
) -> None:
    """But for the rare one whose digit lies on the edge, at one in a million."""
    shuffled = values[:]
    chance.shuffle(shuffled)
    sums = sum(values), sum(shuffled)
    meters = [AnswerMeter(), AnswerMeter()]
    for meter, total in zip(meters, sums, strict=True):
        columns = [pa.array([one]) for one in (total, [total], {"s": [total]})]
        meter.add(pa.RecordBatch.from_arrays(columns, ["s", "l", "o"]))
    assert meters[0].digest == meters[1].digest or round(sums[0], 6) != round(sums[1], 6)


def test_all_types_of_an_answer_have_a_digest() -> None:
    meter = AnswerMeter()
    table = pa.table(
        {
            "list": pa.array([[1.5, None], None, []], pa.list_(pa.float64())),
            "texts": pa.array([["a"], ["b", None], None], pa.list_(pa.string())),
            "struct": pa.array([{"x": 1}, None, {"x": 2}]),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "decimal": pa.array([1, None, 3], pa.decimal128(38, 2)),
            "huge": pa.array([1, None, 10**30], pa.decimal128(38, 0)),
            "date": pa.array([1, None, 3], pa.date32()),
            "time": pa.array([1, None, 3], pa.time64("us")),
            "nothing": pa.nulls(3),
            "bytes": pa.array([b"a", None, b""]),
            "words": pa.array(["a", None, "b"]).dictionary_encode(),
        }
    )
    for batch in table.slice(1).to_batches():
        meter.add(batch)
    assert meter.rows == 2
    assert meter.digest.partition(":")[2] != "0" * 16


def test_what_is_finer_than_a_microsecond_does_not_count() -> None:
    def digest_of(value: int, unit: str) -> str:
        meter = AnswerMeter()
        meter.add(pa.record_batch({"t": pa.array([value], pa.timestamp(unit))}))
        return meter.digest

    for nanoseconds, microseconds in {-1_000: -1, -1: 0, 999: 0, 1_000: 1}.items():
        assert digest_of(nanoseconds, "ns") == digest_of(microseconds, "us")
