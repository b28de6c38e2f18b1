"""Parts of native queries without a store: times, buckets, bodies, and how no is said."""

from __future__ import annotations

import pytest

from carnac.api.native.queries import ETERNAL, read_intervals
from carnac.api.native.routes import read_native
from carnac.api.native.shapes import filled, listed, scanned
from carnac.api.sql.requests import Unreadable
from carnac.core.segments.segment import ColumnType
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.errors import Invalid
from carnac.ports.answers import Client
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.filters import MAX_DEPTH, compile_filter
from carnac.specs.druid.terms.scopes import Scope, with_time
from carnac.specs.druid.terms.times import bucket_ms, read_granularity, written
from carnac.specs.druid.terms.values import TIME, column

SCOPE = Scope(
    with_time(
        {
            name: column(name, kind)
            for name, kind in (("s", ColumnType.STRING), ("n", ColumnType.LONG))
        }
    )
)


@pytest.mark.parametrize(
    ("granularity", "sql"),
    [
        ("none", 'epoch_ms("__time")'),
        ("HOUR", "epoch_ms((date_trunc('hour', \"__time\")))"),
        ("week", "epoch_ms((date_trunc('week', \"__time\")))"),
        ("quarter", "epoch_ms((date_trunc('quarter', \"__time\")))"),
        (
            {"type": "period", "period": "P1D", "timeZone": "Europe/Berlin"},
            "epoch_ms((timezone('Europe/Berlin', date_trunc('day', timezone('Europe/Berlin', "
            'CAST("__time" AS TIMESTAMPTZ))))))',
        ),
        (
            {"type": "duration", "duration": "7000"},
            '(epoch_ms("__time") - ((epoch_ms("__time") - 0) % 7000 + 7000) % 7000)',
        ),
    ],
)
def test_buckets_are_those_that_sql_knows(granularity: object, sql: str) -> None:
    assert bucket_ms(read_granularity(granularity), TIME) == sql


def test_times_have_three_digits_and_the_offset_of_their_zone() -> None:
    assert written(1442016000000, "UTC") == "2015-09-12T00:00:00.000Z"
    assert written(1442016000001, "America/Los_Angeles") == "2015-09-11T17:00:00.001-07:00"
    assert written(1442016000000, "+05:30") == "2015-09-12T05:30:00.000+05:30"


def test_intervals_are_a_text_a_list_or_an_object() -> None:
    day = [Interval(1442016000000, 1442102400000)]
    for value in (
        "2015-09-12/P1D",
        ["2015-09-12/2015-09-13"],
        {"type": "intervals", "intervals": ["2015-09-12/P1D"]},
    ):
        assert read_intervals(value) == day
    assert read_intervals(None) == read_intervals([ETERNAL]) == [ETERNITY]
    assert read_intervals(["-5000/5000"]) == [Interval(ETERNITY.start_ms, 95617584000000)]
    assert read_intervals(["0000-01-01/20000-01-01"]) == [ETERNITY]
    assert read_intervals([]) == []
    for wrong in (1, [1], ["abc"], ["2015-09-13/2015-09-12"]):
        with pytest.raises(Invalid):
            read_intervals(wrong)


def test_a_timeseries_has_its_empty_buckets_in_both_orders() -> None:
    rows = [[(10, 1)], [(30, 3)]]
    upwards = list(filled(iter(rows), [10, 20, 30], lambda: (0,), descending=False))
    assert upwards == [(10, 1), (20, 0), (30, 3)]
    downwards = list(filled(iter(rows), [20], lambda: (0,), descending=True))
    assert downwards == [(30, 3), (20, 0), (10, 1)]


def test_lists_are_json_however_many_pieces_they_have() -> None:
    assert b"".join(listed(range(3))) == b"[0,1,2]"
    assert b"".join(listed(())) == b"[]"
    many = b"".join(listed(range(4096)))
    assert many == b"[" + ",".join(map(str, range(4096))).encode() + b"]"
    assert b"".join(scanned(iter(()), ["a"], ["LONG"], is_compact=False)) == b"[]"
    both = b"".join(scanned(iter([[(1,)], [(2,)]]), ["a"], ["LONG"], is_compact=True))
    assert both == (
        b'[{"segmentId":null,"columns":["a"],"events":[[1],[2]],"rowSignature":[{"name":"a","type":"LONG"}]}]'
    )


def test_texts_cannot_leave_their_quotes() -> None:
    evil = "x' OR 'a'='a"
    for block in (
        {"type": "selector", "dimension": "s", "value": evil},
        {"type": "in", "dimension": "s", "values": [evil]},
        {"type": "like", "dimension": "s", "pattern": evil},
        {
            "type": "search",
            "dimension": "s",
            "query": {"type": "contains", "value": evil, "caseSensitive": True},
        },
    ):
        found = compile_filter(block, SCOPE)
        assert found is not None
        assert "'x'' OR ''a''=''a'" in found
    named = compile_filter({"type": "selector", "dimension": 's" OR 1', "value": "a"}, SCOPE)
    assert named == "(CAST(NULL AS VARCHAR) = 'a')"


@pytest.mark.parametrize(
    ("text", "sql", "kind"),
    [
        ("n / 2", '("n" // nullif(CAST(2 AS BIGINT), 0))', "long"),
        ("s + 'x'", "(\"s\" || 'x')", "string"),
        ("nope", "CAST(NULL AS VARCHAR)", "string"),
        ("n > 1 && s == 'a'", '(("n" > CAST(1 AS BIGINT)) AND ("s" = \'a\'))', "bool"),
        ("timestamp_floor(__time, 'PT1H')", "epoch_ms((date_trunc('hour', \"__time\")))", "long"),
    ],
)
def test_expressions_become_sql_with_a_type(text: str, sql: str, kind: str) -> None:
    found = compile_expression(text, SCOPE.find)
    assert (found.text, found.kind) == (sql, kind)


@pytest.mark.parametrize("text", ["n +", "'a", "strlen()", "1 +" * 300 + "1", "(" * 200])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        compile_expression(text, SCOPE.find)


def test_what_is_not_here_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="filter 'spatial' is not supported; compare the coordinates"):
        compile_filter({"type": "spatial"}, SCOPE)
    with pytest.raises(Invalid, match="there is no filter 'selectr'; did you mean 'selector'"):
        compile_filter({"type": "selectr"}, SCOPE)
    with pytest.raises(Invalid, match="function bloom_filter_test is not supported"):
        compile_expression("bloom_filter_test(s, 'x')", SCOPE.find)
    deep: object = {"type": "true"}
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "not", "field": deep}
    with pytest.raises(Invalid, match=f"nested more than {MAX_DEPTH} deep"):
        compile_filter(deep, SCOPE)


def test_the_context_goes_to_the_broker() -> None:
    body = {
        "queryType": "timeBoundary",
        "context": {
            "queryId": "q1",
            "timeout": "500",
            "priority": 3,
            "at": 7,
            "vectorize": "force",
        },
    }
    block, request = read_native(body, new_id=lambda: "new", client=Client("me"))
    statement = request.statement
    assert block is body
    assert (statement.query_id, request.native_id) == ("q1", "q1")
    assert (statement.timeout_ms, statement.priority, statement.at) == (500, 3, 7)
    _, unnamed = read_native({"queryType": "scan"}, new_id=lambda: "new", client=Client("me"))
    assert unnamed.statement.query_id == unnamed.native_id == "new"
    for wrong in ([], {}, {"queryType": 1}, {"queryType": "scan", "context": "x"}):
        with pytest.raises(Unreadable):
            read_native(wrong, new_id=lambda: "new", client=Client("me"))


def test_an_expression_that_repeats_its_parts_stays_short() -> None:
    with pytest.raises(Invalid, match="becomes too long in SQL"):
        compile_expression(" / ".join(["n"] * 60), SCOPE.find)


def test_virtual_columns_may_name_one_another_and_not_themselves() -> None:
    scope = Scope(
        SCOPE.columns,
        [
            {"type": "expression", "name": "a", "expression": "b + 1", "outputType": "LONG"},
            {"type": "expression", "name": "b", "expression": "n * 2"},
            {"type": "expression", "name": "n", "expression": "n + 1"},
        ],
    )
    one_more = 'TRY_CAST(CAST("n" AS HUGEINT) + CAST(1 AS BIGINT) AS BIGINT)'
    assert scope.find("n").text == one_more
    assert f"CAST({one_more} AS HUGEINT) * CAST(2 AS BIGINT)" in scope.find("a").text
