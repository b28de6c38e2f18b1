from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from carnac.rows import row_hash
from carnac.rows.row_hash import BLOCK_ROWS, MASK, RowMeter, add_hashes, hash_rows
from carnac.rows.value_codes import LONG_TEXT_BYTES, codes_of, mix

TEXTS = ["a", "", None, "Ärger", "x" * 64, "x" * 65, "x" * 1024, "x" * 1025, "日本", "a"]


def table(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def test_order_of_rows_and_columns_does_not_count() -> None:
    rows = [(text, index) for index, text in enumerate(TEXTS)]
    expected = hash_rows(table(t=[r[0] for r in rows], n=[r[1] for r in rows]))
    random.Random(1).shuffle(rows)
    assert hash_rows(table(n=[r[1] for r in rows], t=[r[0] for r in rows])) == expected


def test_hash_of_a_union_is_the_sum() -> None:
    whole = table(t=TEXTS, n=list(range(len(TEXTS))))
    parts = [hash_rows(whole.slice(0, 3)), hash_rows(whole.slice(3, 1)), hash_rows(whole.slice(4))]
    assert add_hashes(*parts) == hash_rows(whole)
    assert hash_rows(whole.slice(0, 0)) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (table(t=[None]), table(t=[""])),
        (table(t=["a", "b"], u=["c", "d"]), table(t=["a", "d"], u=["c", "b"])),
        (table(t=["ab"], u=["c"]), table(t=["a"], u=["bc"])),
        (table(t=["a"], u=["b"]), table(t=["b"], u=["a"])),
        (table(t=["ab"]), table(t=["ba"])),
        (table(n=[1, 1]), table(n=[1])),
        (table(n=[1, 1]), table(n=[2, 2])),
        (table(n=[1.5]), table(n=[1])),
        (table(n=["1"]), table(n=[1])),
        (table(l=[["a", "b"]]), table(l=[["b", "a"]])),
        (table(l=[["a", None]]), table(l=[["a"]])),
        (table(l=[[]]), table(l=pa.array([None], pa.list_(pa.string())))),
        (table(l=[["a", "b"], ["c"]]), table(l=[["a"], ["b", "c"]])),
        (table(t=["x" * 65]), table(t=["x" * 66])),
        (table(t=["x" * 1025]), table(t=["x" * 1026])),
        (table(t=["12345678", "87654321"]), table(t=["1234567887654321", ""])),
        (table(t=["1234567887654321"]), table(t=["8765432112345678"])),
        (table(t=["a"]), table(t=["a\0"])),
        (table(n=[5]), table(n=[0x4014_0000_0000_0000])),  # the bits of 5.0
        (table(n=[2**62]), table(n=[2.0**62])),
        (table(n=[2**53]), table(n=[2**53 + 1])),
    ],
)
def test_different_rows_differ(one: pa.Table, other: pa.Table) -> None:
    assert hash_rows(one) != hash_rows(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (table(n=[1, None, -5]), table(n=[1.0, None, -5.0])),
        (table(n=[0.0]), table(n=[-0.0])),
        (table(n=[True, False]), table(n=[1, 0])),
        (table(n=["a"]), table(n=[["a"]])),
        (table(n=["a"], m=pa.array([None], pa.string())), table(n=["a"])),
        (table(n=[b"abc"]), table(n=["abc"])),
        (table(n=TEXTS), table(n=pa.array(TEXTS).dictionary_encode())),
        (table(n=pa.array([0.5], pa.float32())), table(n=[0.5])),
        (table(n=[float("nan")]), table(n=[-float("nan")])),
    ],
    ids=str,
)
def test_how_values_are_kept_does_not_count(one: pa.Table, other: pa.Table) -> None:
    assert hash_rows(one) == hash_rows(other)


def test_slices_and_chunks_hash_as_what_they_show() -> None:
    lists = pa.array([["a"], None, ["b", "c"], [], [None]], pa.list_(pa.string()))
    texts = pa.array(["a", None, "b", "c" * 70, ""])
    whole = pa.table({"l": lists, "t": texts})
    copied = pa.table({"l": lists.to_pylist()[1:4], "t": texts.to_pylist()[1:4]})
    assert hash_rows(whole.slice(1, 3)) == hash_rows(copied)
    assert hash_rows(pa.concat_tables([whole, whole])) == add_hashes(*[hash_rows(whole)] * 2)


COLUMNS = [
    pa.array([3, None, -(2**62), 0], pa.int64()),
    pa.array([1, 2, 3, 255], pa.uint8()),
    pa.array([0.5, 7.0, None, float("nan")]),
    pa.array([0.25, -1.0, float("inf"), None], pa.float32()),
    pa.array([True, None, False, True]),
    pa.array([1, None, 2, 3], pa.timestamp("s", tz="UTC")),
    pa.array([1, None, 2, 3], pa.timestamp("us", tz="UTC")),
    pa.array(["a", None, "", "Ärger"]),
    pa.array(["short", "x" * 64, "y" * 1025, None]),
    pa.array([None, None, None, None], pa.string()),
    pa.array([b"", b"abc", None, b"\0"], pa.large_binary()),
    pa.DictionaryArray.from_arrays([2, None, 0, 1], ["a", None, "unused later", "never used"]),
    pa.DictionaryArray.from_arrays(pa.array([0, 0, None, 1], pa.int8()), [b"a", b"b"]),
    pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int32()), pa.array([], pa.string())),
    pa.array([["a", "b"], None, [], [None]]),
    pa.nulls(4),
]


@cache
def weight_of(place: int) -> int:
    return int(mix(np.array([place], np.uint64))[0]) | 1


def code_of_text(text: bytes) -> int:
    """What the docstring says, in Python."""
    if len(text) > LONG_TEXT_BYTES:
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    total = len(text)
    for place in range(-(-len(text) // 8)):
        lane = int.from_bytes(text[8 * place : 8 * place + 8], "little")
        total += (lane ^ lane >> 32) * weight_of(place)
    return int(mix(np.array([total & MASK], np.uint64))[0])


@pytest.mark.parametrize("count", [1, 5, 600, 3000])
@pytest.mark.parametrize("lengths", [(0, 5), (3, 20), (8, 8), (9, 16), (0, 1026)], ids=str)
def test_code_of_a_text_is_what_the_docstring_says(count: int, lengths: tuple[int, int]) -> None:
    chance = random.Random(count)
    texts = [chance.randbytes(chance.randint(*lengths)) for _ in range(count)]
    assert codes_of(pa.array([b"before", *texts]).slice(1)).tolist() == [*map(code_of_text, texts)]


def test_words_that_hardly_repeat_hash_as_others_do() -> None:
    """Such are hashed row by row: a small piece of a file has a dictionary with words of the whole file."""
    words = pa.array([f"word {index}" for index in range(20_000)])
    whole = pa.table({"t": words.dictionary_encode(), "n": range(20_000)})
    pieces = pa.concat_tables([whole.slice(index * 1000, 400) for index in range(20)])
    plain = pa.table({"t": pieces["t"].cast(pa.string()), "n": pieces["n"]})
    assert hash_rows(pieces) == hash_rows(plain.combine_chunks())
    meter = RowMeter()
    for start in range(0, plain.num_rows, 7):
        meter.add(pieces.slice(start, 7))
    assert (meter.rows, meter.row_hash) == (8000, hash_rows(plain))


@pytest.mark.parametrize("rows", [len(TEXTS), 10_000])
def test_texts_too_large_for_one_array_hash_as_others_do(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    texts = (TEXTS * rows)[:rows]
    whole = table(t=texts, u=texts[1:] + texts[:1])
    expected = hash_rows(whole)
    monkeypatch.setattr(row_hash, "TEXT_BYTES", 1)
    assert hash_rows(whole) == expected


@pytest.mark.parametrize("rows", [200, 10_000])
def test_a_null_beside_as_many_words_as_its_indices_can_name(rows: int) -> None:
    indices = [index % 128 for index in range(rows)]
    indices[7] = None  # type: ignore[call-overload]
    column = pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int8()), [f"word {index}" for index in range(128)]
    )
    assert hash_rows(table(t=column)) == hash_rows(table(t=column.dictionary_decode()))


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_repeat_over_blocks_hash_as_those_of_one_do(seed: int) -> None:
    """The hash of a union is the sum of the hashes, also where it needs several blocks."""
    chance = random.Random(seed)
    chosen = chance.sample(COLUMNS, chance.randint(1, len(COLUMNS)))
    order = pa.array(chance.choices(range(4), k=chance.randint(1, 50)))
    few = pa.table([one.take(order) for one in chosen], names=[f"c{i}" for i in range(len(chosen))])
    few = few.slice(chance.randint(0, 1))
    times = BLOCK_ROWS // max(few.num_rows, 1) + 1
    many = pa.concat_tables([few] * times).combine_chunks()
    assert hash_rows(many) == add_hashes(*[hash_rows(few)] * times)


def test_version_3_does_not_change() -> None:
    rows = table(
        __time=pa.array([0, 1_500_000], pa.timestamp("us", tz="UTC")),
        text=["a", "ü" * 40],
        number=[1, None],
        share=[0.25, 3.0],
        many=[["x", "y"], None],
    )
    assert hash_rows(rows) == VERSION_3


VERSION_3 = 10_715_401_084_437_649_242


def test_metering_batches_equals_hashing_all_rows_at_once() -> None:
    with duckdb.connect() as con:
        source = "(SELECT i AS n, 'v' || (i % 7) AS t FROM range(250000) AS r(i))"
        meter = RowMeter()
        for batch in con.sql(f"SELECT t, n FROM {source}").to_arrow_reader(999):
            rows = pa.Table.from_batches([batch])
            meter.add(rows.set_column(0, "t", rows["t"].dictionary_encode()))
        whole = con.sql(f"SELECT n, t FROM {source}").to_arrow_table()
    assert meter.rows == whole.num_rows == 250_000
    assert meter.row_hash == hash_rows(whole)


def test_few_rows_whose_columns_are_hashed_together_count_as_among_many() -> None:
    rows = 3 * row_hash.FEW_ROWS
    rng = random.Random(5)

    def some(make: Callable[[], object]) -> list[object]:
        return [None if rng.random() < 0.1 else make() for _ in range(rows)]

    whole = table(
        t=some(lambda: rng.choice(TEXTS)),
        u=some(lambda: rng.choice(TEXTS)),
        n=some(lambda: rng.randrange(-(2**62), 2**62)),
        m=some(lambda: rng.randrange(9)),
        x=some(rng.random),
        y=some(lambda: rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf")])),
        b=some(lambda: rng.random() < 0.5),
        l=some(lambda: rng.choices(["a", "b"], k=rng.randrange(3))),
    )
    parts = [hash_rows(whole.slice(start, 100)) for start in range(0, rows, 100)]
    assert add_hashes(*parts) == hash_rows(whole)
