"""Types and encodings of Arrow that the engine does not know: right values, or one sentence."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid

pytestmark = pytest.mark.usefixtures("shared_connection")

ID = uuid.UUID(int=5)
IDS = pa.array([ID.bytes, None], pa.uuid())
HALVES = pa.array([1.5, None], pa.float16())
FULL_MAP = pa.map_(
    pa.string(), pa.field("value", pa.timestamp("us"), nullable=False), keys_sorted=True
)
LIST = pa.array([0, 1, 2], pa.int32())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with carnac.open(tmp_path / "store", create=True) as opened:
        yield opened


def table(values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table({"t": [f"2024-01-01T00:00:0{row}Z" for row in range(len(values))], "v": values})


def kept(store: Store, values: pa.Array | pa.ChunkedArray) -> list[object]:
    """Return the values that a column has after they were appended, nulls left out."""
    store.append("d", table(values), time="t")
    found = store.sql("SELECT v FROM d WHERE v IS NOT NULL ORDER BY __time").arrow()
    return found["v"].to_pylist()


def encoded(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), values)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([["a"]], [["b", "c"]], [["a"], ["b", "c"]]),
        ([{"a": 1}], [{"a": 2}], ['{"a":1}', '{"a":2}']),
        ([HALVES[0].as_py()], [2.5], [1.5, 2.5]),
    ],
)
def test_pieces_with_dictionaries_of_their_own_are_read(
    store: Store, one: list[object], other: list[object], found: list[object]
) -> None:
    """Arrow unites no dictionaries of lists or objects, which ended the load as an internal error."""
    kind = pa.float16() if isinstance(one[0], float) else None
    pieces = [
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(values, kind))
        for values in (one, other)
    ]
    assert kept(store, pa.chunked_array(pieces)) == found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (encoded(pa.array(["a", "b"]).dictionary_encode()), ["a", "b"]),
        (encoded(pa.array(["a", "b"], pa.string_view())), ["a", "b"]),
        (encoded(pa.RunEndEncodedArray.from_arrays([1, 2], ["a", "b"])), ["a", "b"]),
        (pa.RunEndEncodedArray.from_arrays([1, 2, 3], ["x", "a", "b"]).slice(1), ["a", "b"]),
        (pa.RunEndEncodedArray.from_arrays([1, 2], pa.array([["a"], None])), [["a"]]),
        (pa.RunEndEncodedArray.from_arrays([2], pa.nulls(1)), []),
        (pa.ListArray.from_arrays(LIST, encoded(pa.array(["a", "b"]))), [["a"], ["b"]]),
        (pa.array([[1.5], None], pa.list_(pa.float16())), [[1.5]]),
        (pa.StructArray.from_arrays([HALVES], ["k"]), ['{"k":1.5}', '{"k":null}']),
        (pa.ListArray.from_arrays(LIST, IDS), [[str(ID)], [None]]),
        (pa.StructArray.from_arrays([IDS.slice(0, 1)], ["k"]), [f'{{"k":"{ID}"}}']),
        (pa.array([decimal.Decimal("1.5"), None], pa.decimal256(38, 2)), [1.5]),
        (pa.array([decimal.Decimal(200), None], pa.decimal128(5, -2)), [200]),
        (pa.array([decimal.Decimal("2E-9"), None], pa.decimal128(2, 10)), [2e-9]),
        (pa.FixedSizeListArray.from_arrays(pa.array([1, 2]), 1), [[1], [2]]),
        (pa.array([[[decimal.Decimal("1.5")]], None]), ["[[1.5]]"]),
        (pa.array([[("k", 0)], None], FULL_MAP), ['{"k":"1970-01-01 00:00:00"}']),
    ],
    ids=lambda one: str(one.type)[:40] if isinstance(one, pa.Array) else "",
)
def test_a_type_is_read_wherever_it_stands(
    store: Store, values: pa.Array, found: list[object]
) -> None:
    if pa.types.is_null(getattr(values.type, "value_type", values.type)):
        store.append("d", table(values), time="t")
        assert store.sql("SELECT count(*) AS n FROM d").arrow()["n"].to_pylist() == [2]
    else:
        assert kept(store, values) == found


@pytest.mark.parametrize(
    "values",
    [
        pa.UnionArray.from_dense(
            pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
        ),
        pa.array([[decimal.Decimal(1)]], pa.list_(pa.decimal256(50, 2))),
        encoded(pa.array([decimal.Decimal(1), None], pa.decimal256(50, 2))),
    ],
    ids=lambda one: str(one.type)[:40],
)
def test_a_type_that_cannot_be_read_is_told(store: Store, values: pa.Array) -> None:
    with pytest.raises(Invalid, match=r"^column 'v' of type .* cannot be read; cast it to another"):
        store.append("d", table(values), time="t")


def test_a_decimal_in_a_column_of_texts_has_a_zero_before_its_point(store: Store) -> None:
    values = pa.array([decimal.Decimal("0.50"), decimal.Decimal("-0.05")], pa.decimal128(2, 2))
    spec = {"dataSource": "d", "timestampSpec": {"column": "t"}, "dimensions": ["v"]}
    store.append("d", table(values), spec=spec)
    assert store.sql("SELECT v FROM d ORDER BY v").arrow()["v"].to_pylist() == ["-0.05", "0.50"]
