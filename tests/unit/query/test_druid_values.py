"""Druid's functions of lists, documents and cut texts, its constant, and what they say where they cannot be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid, NotFound

ROWS = [
    {
        "t": "2024-03-04T09:10:11.500Z",
        "page": "Menhir",
        "text": "12",
        "added": 3,
        "doc": {"a": [1]},
    },
    {"t": "2024-03-05T23:59:59Z", "page": "Dolmen", "text": "x", "added": 5, "doc": {"a": [2]}},
    {"t": "2024-08-11T00:00:00Z", "page": "Menhir", "text": "-1", "added": 7, "doc": None},
]
SPEC: dict[str, Any] = {
    "dataSource": "edits",
    "timestampSpec": {"column": "t"},
    "dimensions": [
        "page",
        "text",
        {"name": "added", "type": "long"},
        {"name": "doc", "type": "json"},
    ],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place: Path = tmp_path_factory.mktemp("store")
    with carnac.open(place, create=True) as opened:
        opened.append("edits", ROWS, spec=SPEC)
        opened.set_lookup("pages", {"Menhir": "a stone"})
        yield opened


def values(store: Store, what: str, rest: str = "FROM edits ORDER BY __time") -> list[Any]:
    return [row["v"] for row in store.sql(f"SELECT {what} AS v {rest}").rows()]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            "JSON_MERGE(doc, JSON_OBJECT('b': added))",
            ['{"a":[1],"b":3}', '{"a":[2],"b":5}', '{"b":7}'],
        ),
        (
            "JSON_PATHS(JSON_OBJECT('d': doc, 'e': added))",
            [["$.d.a", "$.e"]] * 2 + [["$.d", "$.e"]],
        ),
        ("TO_JSON_STRING(doc)", ['{"a":[1]}', '{"a":[2]}', None]),
        ("JSON_PATHS(doc)", [["$.a"], ["$.a"], ["$"]]),
        ("JSON_MERGE(doc, doc)", ['{"a":[1,1]}', '{"a":[2,2]}', None]),
    ],
)
def test_columns_of_documents_stay_documents(store: Store, call: str, wanted: list[Any]) -> None:
    assert values(store, call) == wanted


def test_a_column_without_a_name_has_that_of_the_call(store: Store) -> None:
    names = store.sql("SELECT JSON_MERGE(doc,  doc), 1 + len(JSON_PATHS(doc)) FROM edits").arrow()
    assert names.column_names == ["JSON_MERGE(doc,  doc)", "(1 + len(json_paths(doc)))"]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        # what Druid 33 answers
        ("ARRAY_CONCAT_AGG([added, NULL])", [3, None, 5, None, 7, None]),
        ("ARRAY_CONCAT_AGG([added, 3], 1000) FILTER (WHERE added > 3)", [5, 3, 7, 3]),
        ("ARRAY_CONCAT_AGG(DISTINCT [added, 3, NULL])", [None, 3, 5, 7]),
        ("ARRAY_CONCAT_AGG(CASE WHEN added = 5 THEN [page] END)", ["Dolmen"]),
        ("ARRAY_CONCAT_AGG(CASE WHEN added = 9 THEN [page] END)", None),
        ("ARRAY_CONCAT_AGG(DISTINCT [page]) FILTER (WHERE added > 9)", None),
        ("ARRAY_CONCAT_AGG([added] ORDER BY added DESC)", [7, 5, 3]),
    ],
)
def test_lists_of_all_rows_are_joined(store: Store, call: str, wanted: list[Any] | None) -> None:
    assert values(store, call, "FROM (FROM edits ORDER BY __time)") == [wanted]


def test_what_is_no_list_is_not_joined(store: Store) -> None:
    with pytest.raises(Invalid, match=r"; write list\(added\) for values that are no lists"):
        store.sql("SELECT ARRAY_CONCAT_AGG(page) FROM edits")


def test_pi_is_a_column_where_one_is_called_so(store: Store) -> None:
    assert values(store, "PI", "FROM (SELECT added AS pi FROM edits) ORDER BY 1") == [3, 5, 7]
    assert values(store, "pi", "FROM (VALUES (1)) AS t(pi)") == [1]
    assert store.sql(
        "SELECT PI, pi() = PI AS same FROM edits WHERE page = 'pi' OR added < PI"
    ).rows() == [{"PI": math.pi, "same": True}]
    assert store.sql("SELECT round(PI, 2) AS pi FROM edits ORDER BY pi LIMIT 1").rows() == [
        {"pi": 3.14}
    ]
    assert values(store, "pi", "FROM (SELECT added * 0 + PI AS pi FROM edits) LIMIT 1") == [math.pi]
    with pytest.raises(NotFound, match="no column 'pi'"):
        store.sql("SELECT e.pi FROM edits e")


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("MV_FILTER_ONLY(['a', 'b'], [one])", ["b"]),
        ("MV_FILTER_PREFIX(['ab', 'ba'], one)", ["ba"]),
        ("MV_FILTER_REGEX(['ab', 'c'], one)", ["ab"]),
        ("PARSE_LONG('12', low) + PARSE_LONG('12', high)", 18 + 10),
        ("LOOKUP(k, 'pages')", "a stone"),
        ("LOOKUP(v, 'pages', k)", "Menhir"),
    ],
)
def test_columns_may_have_any_name(store: Store, call: str, wanted: Any) -> None:
    row = "(SELECT 'b' AS one, 16 AS low, 8 AS high, 'Menhir' AS k, 'none' AS v)"
    assert values(store, call, f"FROM {row}") == [wanted]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("JSON_MERGE('{}', '[]')", "JSON_MERGE cannot unite an object with a list"),
        ("JSON_MERGE('1', '[]')", "JSON_MERGE cannot unite a plain value with a list"),
        ("JSON_MERGE('{}')", "JSON_MERGE needs two documents at least"),
        ("JSON_MERGE('{}', page)", "malformed JSON"),
        ("JSON_PATHS('{}', '$')", "JSON_PATHS needs one document"),
        ("JSON_PATHS(doc) OVER ()", "JSON_PATHS cannot be used as a window function"),
        ("NVL(page, 'x') FILTER (WHERE added > 3)", "FILTER"),
        ("ARRAY_OFFSET_OF([added], 2) FILTER (WHERE added > 3)", "FILTER"),
        ("IPV4_PARSE(page) FILTER (WHERE added > 3)", "IPV4_PARSE is no aggregate"),
        ("ROUND(HLL_SKETCH_ESTIMATE(DS_HLL(page)) FILTER (WHERE added > 3))", "no aggregate"),
    ],
)
def test_what_cannot_be_is_one_sentence(store: Store, call: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        store.sql(f"SELECT {call} FROM edits")


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("EARLIEST(v, 2)", "h"),
        ("EARLIEST(v, 3)", "hä"),
        ("LATEST(v, 7)", "日本"),
        ("LATEST(v, 0)", ""),
        ("LATEST(v, 1024)", "日本語"),
        ("EARLIEST_BY(v, __time, 4)", "häß"[:2]),
        ("LATEST_BY(v, __time, 3)", "日"),
        ("LATEST(v, 3) FILTER (WHERE n < 7)", "hä"),
        ("ANY_VALUE(n, 1)", 123456),
        ("LATEST(n, 2)", 7),
        ("LATEST(NULL, 2)", None),
    ],
)
def test_texts_are_cut_to_a_number_of_bytes(store: Store, call: str, value: object) -> None:
    """Druid cuts between two letters, and leaves what is no text alone."""
    rows = (
        "(SELECT TIMESTAMPTZ '2024-01-01' AS __time, 'häß' AS v, 123456 AS n UNION ALL"
        " SELECT TIMESTAMPTZ '2024-01-02', '日本語', 7)"
    )
    rows = rows.replace("123456", "6") if "FILTER" in call else rows
    assert values(store, call, f"FROM {rows}") == [value]
