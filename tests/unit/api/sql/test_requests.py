"""Bodies of requests for SQL: what they ask, and what of them is wrong."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.api.sql.facts import ARROW_TYPE, JSON_TYPE, accepted, mark_of, unmarked
from carnac.api.sql.formats import ResultFormat
from carnac.api.sql.requests import (
    SqlRequest,
    Unreadable,
    asked_by,
    parse_request,
    read_request,
    split_settings,
)
from carnac.errors import Invalid
from carnac.ports.answers import Client, Engine, OnMissing
from carnac.ports.queries import Keeping
from carnac.specs.sql.parameters import READERS, parse_parameters


def parsed(**body: object) -> SqlRequest:
    return parse_request({"query": "SELECT 1", **body}, new_id=lambda: "new", client=Client("here"))


def test_a_query_alone_asks_for_objects() -> None:
    request = parsed()
    assert (request.statement.sql, request.statement.client.name) == ("SELECT 1", "here")
    assert (request.statement.query_id, request.native_id) == ("new", "new")
    assert request.shape.form is ResultFormat.OBJECT
    assert request.shape.stringifies
    assert not request.shape.has_header


def test_what_was_read_once_is_asked_by_each_client_under_an_id_of_its_own() -> None:
    read, numbers = read_request({"query": "SELECT 1", "context": {"queryId": "n"}}), iter("ab")
    asked = [asked_by(read, new_id=lambda: next(numbers), client=Client(client)) for client in "xy"]
    assert [(one.statement.query_id, one.statement.client.name) for one in asked] == [
        ("a", "x"),
        ("b", "y"),
    ]
    assert [one.native_id for one in asked] == ["n", "n"]
    mine = read_request({"query": "SELECT 1", "context": {"sqlQueryId": "mine"}})
    found = asked_by(mine, new_id=lambda: "new", client=Client("x"))
    assert (found.statement.query_id, found.native_id) == ("mine", "mine")


def test_the_context_may_hold_texts_and_what_nobody_knows() -> None:
    request = parsed(
        queryType="sql",
        header="true",
        context={
            "sqlQueryId": "mine",
            "queryId": "other",
            "timeout": "1000",
            "priority": -5,
            "lane": "slow",
            "sqlStringifyArrays": "false",
            "sqlOuterLimit": "7",
            "sqlTimeZone": "Asia/Kolkata",
            "at": "41",
            "onMissing": "partial",
            "useCache": "false",
            "useApproximateTopN": True,
        },
    )
    said = request.statement
    assert (said.query_id, request.native_id) == ("mine", "other")
    assert (said.timeout_ms, said.priority, said.lane) == (1000, -5, "slow")
    assert (said.at, said.on_missing, request.rows_max) == ("41", OnMissing.PARTIAL, 7)
    assert said.keeping == Keeping(use=False, populate=True)
    assert parsed(context={"revision": 7}).statement.at == 7
    assert (str(request.shape.zone), request.shape.stringifies) == ("Asia/Kolkata", False)


def test_an_engine_is_sparks_or_the_brokers_choice() -> None:
    assert parsed(context={"engine": "spark"}).statement.engine is Engine.SPARK
    assert parsed(context={"engine": "native"}).statement.engine is None
    assert parsed().statement.engine is None


@pytest.mark.parametrize("zone", ["Nowhere/Town", "UTC", "../../etc/passwd", ""])
def test_a_zone_that_nobody_knows_is_utc(zone: str) -> None:
    assert parsed(context={"sqlTimeZone": zone}).shape.zone is None


@pytest.mark.parametrize("zone", ["+05:30", "-0800", "Etc/GMT+8", "Asia/Kolkata"])
def test_a_zone_may_be_an_offset(zone: str) -> None:
    found = parsed(context={"sqlTimeZone": zone}).shape.zone
    assert found is not None
    moment = datetime(2024, 3, 1, tzinfo=UTC).astimezone(found)
    assert moment.isoformat()[-6:] == ("+05:30" if "5" in zone or "K" in zone else "-08:00")


def test_settings_before_the_query_join_the_context_and_keep_its_lines() -> None:
    sql, settings = split_settings("SET timeout = 5;\nset \"sqlQueryId\"='it''s';SELECT 1")
    assert settings == {"timeout": "5", "sqlQueryId": "it's"}
    assert sql.count("\n") == 1
    assert sql.strip() == "SELECT 1"
    assert split_settings("SELECT 'SET a = 1;'") == ("SELECT 'SET a = 1;'", {})


@pytest.mark.parametrize(
    "sql", ["SET timeout = 5", "SET timeout = 5;", "SET a = 1; SET b = 'c' ;\n", " set a=1 ;; "]
)
def test_settings_alone_are_told_where_to_go(sql: str) -> None:
    """As of Superset's SQL Lab, which sends what stands between semicolons one by one."""
    with pytest.raises(Invalid, match="in the same request, and none does"):
        split_settings(sql)


@pytest.mark.parametrize(
    "body",
    [
        [],
        "SELECT 1",
        {},
        {"query": ""},
        {"query": 1},
        {"query": "SELECT 1", "context": []},
        {"query": "SELECT 1", "resultFormat": "xml"},
        {"query": "SELECT 1", "header": "perhaps"},
        {"query": "SELECT 1", "typesHeader": True},
    ],
)
def test_what_is_no_request_is_said_in_druids_other_shape(body: object) -> None:
    with pytest.raises(Unreadable):
        parse_request(body, new_id=lambda: "new", client=Client(""))


@pytest.mark.parametrize(
    "context",
    [
        {"timeout": -1},
        {"timeout": "soon"},
        {"engine": "msq-task"},
        {"timeout": True},
        {"sqlOuterLimit": "abc"},
        {"sqlQueryId": "two\r\nlines"},
        {"sqlQueryId": 7},
        {"onMissing": "never"},
        {"at": 1.5},
        {"sqlStringifyArrays": 3},
    ],
)
def test_a_context_that_means_nothing_is_refused(context: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        parsed(context=context)


def test_parameters_have_the_types_of_sql() -> None:
    given = [
        {"type": "VARCHAR", "value": "x"},
        {"type": "bigint", "value": "12"},
        {"type": "DOUBLE", "value": 1},
        {"type": "DECIMAL", "value": "1.10"},
        {"type": "BOOLEAN", "value": "TRUE"},
        {"type": "TIMESTAMP", "value": "2000-01-01 00:00:00"},
        {"type": "TIMESTAMP", "value": 1_000},
        {"type": "DATE", "value": "2000-01-02T00:00:00Z"},
        {"type": "ARRAY", "value": ["a", "b"]},
        {"type": "INTEGER", "value": None},
    ]
    assert parse_parameters(given) == [
        "x",
        12,
        1.0,
        Decimal("1.10"),
        True,
        datetime(2000, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        date(2000, 1, 2),
        ["a", "b"],
        None,
    ]


@pytest.mark.parametrize(
    "given",
    [
        {},
        [1],
        [{"value": 1}],
        [{"type": "MAP", "value": 1}],
        [{"type": "INTEGER", "value": "x"}],
        [{"type": "INTEGER", "value": 1.5}],
        [{"type": "INTEGER", "value": [1]}],
        [{"type": "BIGINT", "value": 1e300}],
        [{"type": "BIGINT", "value": "9223372036854775808"}],
        [{"type": "TINYINT", "value": 300}],
        [{"type": "SMALLINT", "value": "-32769"}],
        [{"type": "INTEGER", "value": 1 << 31}],
        [{"type": "INTEGER", "value": "1_000"}],
        [{"type": "BIGINT", "value": "٣"}],
        [{"type": "TIMESTAMP", "value": "noon"}],
        [{"type": "DATE", "value": "2000-01-01 and so on"}],
        [{"type": "TIMESTAMP", "value": 1e30}],
        [{"type": "DOUBLE", "value": {}}],
        [{"type": "BOOLEAN", "value": 1}],
        [{"type": "ARRAY", "value": "a"}],
    ],
)
def test_parameters_that_are_not_of_their_type_are_refused(given: object) -> None:
    with pytest.raises(Invalid):
        parse_parameters(given)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, JSON_TYPE),
        ("*/*", JSON_TYPE),
        ("application/*;q=0.5", JSON_TYPE),
        (ARROW_TYPE, ARROW_TYPE),
        (f"{ARROW_TYPE}, */*;q=0.1", ARROW_TYPE),
        (f"{ARROW_TYPE};q=0.1, application/json", JSON_TYPE),
        ("text/plain", None),
        ("application/xml, application/json;q=0", None),
    ],
)
def test_the_accept_header_chooses(accept: str | None, expected: str | None) -> None:
    assert accepted(accept) == expected


def test_an_etag_belongs_to_one_representation() -> None:
    mine = mark_of(JSON_TYPE, parsed())
    other = mark_of(JSON_TYPE, parsed(resultFormat="csv"))
    assert mine != other
    assert mark_of(ARROW_TYPE, parsed()) != mine
    assert unmarked(f'W/"abc{mine}", "def{other}"', mine) == '"abc"'
    assert unmarked(f'"def{other}"', mine) is None
    assert unmarked(None, mine) is None


def test_blanks_before_a_query_cost_no_time() -> None:
    sql, _ = split_settings(" " * 100_000 + "SELECT 1")
    assert sql.endswith("SELECT 1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ("query", "resultFormat", "header", "typesHeader", "context", "parameters")
CONTEXT = (
    *("sqlQueryId", "queryId", "timeout", "priority", "lane", "at", "onMissing"),
    *(
        "sqlOuterLimit",
        "sqlStringifyArrays",
        "sqlTimeZone",
        "useCache",
        "populateCache",
        "revision",
    ),
)


@given(
    JSON
    | st.dictionaries(st.sampled_from(KEYS), JSON)
    | st.dictionaries(st.sampled_from(CONTEXT), JSON).map(
        lambda one: {"query": "SELECT 1", "context": one}
    )
    | st.tuples(st.sampled_from(sorted(READERS)), JSON).map(
        lambda one: {"query": "SELECT ?", "parameters": [{"type": one[0], "value": one[1]}]}
    )
)
def test_any_body_is_a_request_or_refused(body: object) -> None:
    try:
        request = parse_request(body, new_id=lambda: "new", client=Client(""))
    except Invalid:
        return
    assert request.statement.query_id.isascii()
    assert request.statement.query_id.isprintable()
