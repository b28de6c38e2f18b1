"""Documents are united, and their paths found, as Druid 33 does it."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.specs.druid.documents import merge_documents, paths_of


@pytest.mark.parametrize(
    ("documents", "merged"),
    [
        (['{"a":1}', '{"b":2}'], '{"a":1,"b":2}'),
        (['{"b":1,"a":2}', '{"c":1,"b":3}'], '{"b":3,"a":2,"c":1}'),
        (
            ['{"a":1,"x":{"y":1,"z":[1,2]}}', '{"x":{"y":2,"z":[3]}}'],
            '{"a":1,"x":{"y":2,"z":[1,2,3]}}',
        ),
        (['{"a":1}', '{"a":null}'], '{"a":null}'),
        (['{"a":{"b":1}}', '{"a":{"b":null}}'], '{"a":{"b":null}}'),
        (['{"a":[1,2]}', '{"a":{"b":1}}'], '{"a":{"b":1}}'),
        (['{"a":1}', '{"a":{"b":1}}'], '{"a":{"b":1}}'),
        (['{"a":[{"x":1}]}', '{"a":[{"y":3}]}'], '{"a":[{"x":1},{"y":3}]}'),
        (['{"a":1}', "null"], '{"a":1}'),
        (['{"a":1}', None, '{"c": 1}', '{"a":2}'], '{"a":2,"c":1}'),
        (["1", "2"], "2"),
        (["[1,2]", "[3]"], "[1,2,3]"),
        (
            ['{"b":1.0,"a":12345678901234567890123}', '{"b":1e2}'],
            '{"b":100.0,"a":12345678901234567890123}',
        ),
        (['{"b":"ü\\u00e9\\n"}', '{"c":true}'], '{"b":"üé\\n","c":true}'),
        ([None, "null"], None),
        # Druid: 7 alone, and w is lost
        (['{"a":{"b":1}}', '{"a":[7,8]}'], '{"a":[7,8]}'),
        (['{"x":{"y":1}}', '{"x":{"w":null}}'], '{"x":{"y":1,"w":null}}'),
    ],
)
def test_documents_are_united(documents: list[str | None], merged: str | None) -> None:
    assert merge_documents(documents) == merged


@pytest.mark.parametrize("other", ["[1]", "5", '"x"'])
def test_other_kinds_are_not_united(other: str) -> None:
    for pair in (['{"a":1}', other], [other, '{"a":1}']):
        with pytest.raises(Invalid, match="JSON_MERGE cannot unite"):
            merge_documents(pair)


def test_documents_that_are_nested_too_deeply_are_refused() -> None:
    deep = '{"a":' * 5_000 + "1" + "}" * 5_000
    with pytest.raises(Invalid, match="nested so deeply"):
        merge_documents([deep, deep])
    with pytest.raises(Invalid, match="nested so deeply"):
        paths_of(deep)


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        (
            '{"a":1,"x":{"y":1,"z":[1,{"b":2}]}, "e":{}, "f":[], "n":null}',
            ["$.a", "$.x.y", "$.x.z[0]", "$.x.z[1].b", "$.f", "$.n"],
        ),
        ("[1,2]", ["$"]),
        ("1", ["$"]),
        ("null", ["$"]),
        ("[]", ["$"]),
        ("{}", []),
        ("[[]]", ["$[0]"]),
        ('{"a":[1,null]}', ["$.a"]),
        ('{"a":[[1,2],[3,{"x":4}]]}', ["$.a[0]", "$.a[1][0]", "$.a[1][1].x"]),
        ('{"a":[[{}]],"b":1}', ["$.b"]),
        ('[{"b":1},2]', ["$[0].b", "$[1]"]),
        (
            '{"a b":1,"c.d":{"x":2},"q\'x":{"y":3},"w\\"x":1,"x]y":{"z":1},"x[":1,"0":1,"":3,"b\\\\c":1,"a*b":1}',
            [
                *("$.a b", "$['c.d'].x", "$['q'x'].y", "$['w\"x']", "$['x]y'].z", "$['x[']"),
                *("$.0", "$.", "$.b\\c", "$.a*b"),
            ],
        ),
    ],
)
def test_paths_of_a_document(document: str, paths: list[str]) -> None:
    assert paths_of(document) == paths
