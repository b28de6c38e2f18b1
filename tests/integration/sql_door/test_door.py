"""The door for SQL without a socket: what its answers say of themselves, and who is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest

from carnac.api.gate import BODY_MAX_BYTES
from carnac.api.sql.facts import ARROW_TYPE, JSON_TYPE
from tests.e2e.cli import ROWS, make_store
from tests.support.serving import open_door
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

SQL = "/druid/v2/sql"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    store = tmp_path_factory.mktemp("door") / "store"
    make_store(store)
    with open_door(store) as client:
        yield client


def ask(
    door: InProcessClient, query: str, *, headers: Any = None, **body: object
) -> httpx.Response:
    how = {**JSON, **(headers or {})}
    return door.post(SQL, json={"query": query, **body}, headers=how)


def test_an_answer_says_what_it_rests_on(door: InProcessClient) -> None:
    answer = ask(door, "SELECT COUNT(*) AS n FROM flights WHERE __time < '2013-01-02'")
    said = answer.headers
    assert answer.json() == [{"n": 6}]
    assert (said["x-carnac-revision"], said["x-carnac-engine"]) == ("3", "embedded")
    assert (said["x-carnac-segments-expected"], said["x-carnac-segments-read"]) == ("1", "1")
    assert said["x-carnac-complete"] == "true"
    receipt = json.loads(said["x-carnac-receipt"])
    assert (receipt["revision"], receipt["rows"]) == (3, 1)
    assert said["x-druid-sql-query-id"] == said["x-druid-query-id"]


def test_who_has_the_answer_is_told_so(door: InProcessClient) -> None:
    first = ask(door, "SELECT COUNT(*) AS n FROM flights")
    etag = first.headers["etag"]
    again = ask(door, "SELECT COUNT(*) AS n FROM flights", headers={"if-none-match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert "x-druid-sql-query-id" in again.headers
    query = "SELECT COUNT(*) AS n FROM flights"
    other = ask(door, query, resultFormat="csv", headers={"if-none-match": etag})
    assert (other.status_code, other.text) == (200, f"{ROWS}\n\n")
    moving = ask(door, "SELECT now() AS t")
    assert ask(
        door, "SELECT now() AS t", headers={"if-none-match": moving.headers["etag"]}
    ).is_success


def test_at_reads_another_revision(door: InProcessClient) -> None:
    query = "SELECT COUNT(*) AS n FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid'"
    now, then = ask(door, query), ask(door, query, context={"at": 0})
    assert (now.json(), then.json()) == ([{"n": 1}], [{"n": 0}])
    assert (now.headers["x-carnac-revision"], then.headers["x-carnac-revision"]) == ("3", "0")
    for at in (99, "99", "9" * 5_000, -1, "no tag"):
        assert ask(door, query, context={"at": at}).status_code == 400


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        *(
            (f"'{sign}infinity'::{kind}", None)
            for sign in ("", "-")
            for kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS")
        ),
        ("DATE '294247-01-10'", None),
        ("TIMESTAMP '290309-12-22 (BC) 00:00:00'", None),
        ("TIMESTAMP '0001-01-01'", "America/New_York"),
        ("TIMESTAMP '9999-12-31 23:59:59'", "Asia/Tokyo"),
        ("'infinity'::TIMESTAMP", "Asia/Tokyo"),
    ],
)
@pytest.mark.parametrize("form", ["object", "array", "csv"])
def test_a_time_that_has_no_text_is_refused_in_a_sentence(
    door: InProcessClient, value: str, zone: str | None, form: str
) -> None:
    answer = ask(door, f"SELECT {value} AS t", resultFormat=form, context={"sqlTimeZone": zone})
    assert answer.status_code == 400, answer.text
    assert "CAST(… AS VARCHAR)" in answer.json()["errorMessage"]


def test_times_far_from_now_are_written(door: InProcessClient) -> None:
    sql = "SELECT TIMESTAMP '0001-01-01' AS a, DATE '9999-12-31' AS b, NULL::TIMESTAMP AS c"
    assert ask(door, sql).json() == [
        {"a": "0001-01-01T00:00:00.000Z", "b": "9999-12-31T00:00:00.000Z", "c": None}
    ]


def test_arrow_comes_to_who_accepts_it(door: InProcessClient) -> None:
    answer = ask(
        door, "SELECT delay, max(carrier) FROM flights GROUP BY 1", headers={"accept": ARROW_TYPE}
    )
    assert answer.headers["content-type"] == ARROW_TYPE
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.column_names == ["delay", "EXPR$1"]
    assert len(table) == ROWS
    failed = ask(door, "SELECT nope FROM flights", headers={"accept": ARROW_TYPE})
    assert (failed.status_code, failed.json()["category"]) == (400, "INVALID_INPUT")


def test_what_the_door_does_not_send_is_not_acceptable(door: InProcessClient) -> None:
    answer = ask(door, "SELECT 1", headers={"accept": "text/plain"})
    assert answer.status_code == 406
    assert {"errorMessage", "category"} <= set(answer.json())


def test_a_text_is_the_statement_itself(door: InProcessClient) -> None:
    text = {"content-type": "text/plain; charset=utf-8"}
    assert door.post(SQL, content="SELECT 7 AS x", headers=text).json() == [{"x": 7}]
    assert (
        door.post(SQL + "/", content="SET sqlQueryId='q';SELECT 7", headers=text).headers[
            "x-druid-sql-query-id"
        ]
        == "q"
    )
    assert door.post(SQL, content=b"\xff", headers=text).status_code == 400
    strange = {**text, "origin": "http://evil.example"}
    assert door.post(SQL, content="SELECT 7", headers=strange).status_code == 403
    assert door.post("/druid/v2/datasources", content="SELECT 7", headers=text).status_code == 405


@pytest.mark.parametrize(
    "asked",
    [
        ("POST", JSON_TYPE, '{"query": "SELECT 7 AS x", "context": {"sqlQueryId": "q"}}'),
        ("POST", JSON_TYPE, '{"query": "SELECT x", "context": {"sqlQueryId": "q"}}'),
        ("POST", JSON_TYPE, '{"query": 7}'),
        ("POST", JSON_TYPE, '{"query"'),
        ("POST", JSON_TYPE, "[" * 1_000_000),
        ("POST", JSON_TYPE, " " * (BODY_MAX_BYTES + 1)),
        ("POST", "text/plain", "SET sqlQueryId = 'q'; SELECT 7"),
        ("POST", "text/plain", b"\xff"),
        ("POST", "text/plain", "{}"),
        ("POST", "application/x-www-form-urlencoded", "query=1"),
        ("POST", "text/csv", "SELECT 7"),
        ("PUT", JSON_TYPE, "{}"),
        ("DELETE", JSON_TYPE, "{}"),
        ("GET", JSON_TYPE, ""),
        ("HEAD", JSON_TYPE, ""),
    ],
    ids=lambda asked: " ".join(map(repr, asked))[:60],
)
@pytest.mark.parametrize("accept", ["*/*", ARROW_TYPE, "text/html"])
@pytest.mark.parametrize("query", ["", "?a=b", "?a=%ff"])
def test_a_statement_is_answered_alike_with_the_framework_and_without(
    door: InProcessClient, asked: tuple[str, str, str | bytes], accept: str, query: str
) -> None:
    """Only the framework takes a path with a slash at its end."""
    method, kind, body = asked
    headers = {"content-type": kind, "accept": accept}
    short, long = (
        door.request(method, f"{path}{query}", headers=headers, content=body)
        for path in (SQL, f"{SQL}/")
    )
    assert (short.status_code, short.headers) == (long.status_code, long.headers)
    assert short.content == long.content


def test_a_bug_is_told_alike_with_the_framework_and_without(
    door: InProcessClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.api.sql.runs.Run.open", None)
    for path in (SQL, f"{SQL}/"):
        answer = door.post(path, json={"query": "SELECT 7"})
        assert (answer.status_code, answer.json()["errorCode"]) == (500, "internal")


def test_a_form_is_the_statement_encoded(door: InProcessClient) -> None:
    """As newer releases of Druid read it, and as `curl -d` and `curl --data-urlencode` send it."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body in ("SELECT 7 AS x", "SELECT+7+AS+x", quote("SELECT 3+4 AS x")):
        assert door.post(SQL, content=body, headers=form).json() == [{"x": 7}]
    assert door.post(SQL, content=quote("SELECT 'ü%' AS x"), headers=form).json() == [{"x": "ü%"}]
    assert door.post(SQL, content=b"%ff", headers=form).status_code == 400
    fields = door.post(SQL, content="query=SELECT+1", headers=form)
    assert (fields.status_code, fields.json()["error"]) == (400, "Unknown exception")
    assert "--data-urlencode" in fields.json()["errorMessage"]
    json_body = door.post(SQL, content='{"query": "SELECT 1"}', headers=form)
    assert json_body.status_code == 415
    assert "Content-Type: application/json" in json_body.json()["errorMessage"]
    strange = {**form, "origin": "http://evil.example"}
    assert door.post(SQL, content="SELECT+7", headers=strange).status_code == 403


def test_pages_of_strangers_stop_no_query(door: InProcessClient) -> None:
    assert door.request("DELETE", f"{SQL}/q", headers={}).status_code == 404
    strange = {"origin": "http://evil.example"}
    assert door.request("DELETE", f"{SQL}/q", headers=strange).status_code == 403


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("statements", "ask an overlord"),
        ("task", "ask an overlord"),
        ("avatica-protobuf/", "JDBC is spoken in JSON: leave out serialization=protobuf"),
    ],
)
def test_paths_of_druid_beside_the_door_say_what_does_it(
    door: InProcessClient, path: str, instead: str
) -> None:
    answer = door.post(f"{SQL}/{path}", json={"query": "SELECT 7"})
    assert (answer.status_code, instead in answer.json()["error"]) == (405, True), answer.text


def test_datasources_and_their_columns_are_listed(door: InProcessClient) -> None:
    assert door.get("/druid/v2/datasources").json() == ["flights"]
    assert door.get("/druid/v2/datasources/").json() == ["flights"]
    assert door.get("/druid/v2/datasources/flights").json() == {
        "dimensions": ["carrier"],
        "metrics": ["delay"],
    }
    assert door.get("/druid/v2/datasources/nope").json() == {"dimensions": [], "metrics": []}


def test_what_clients_ask_first_is_answered(door: InProcessClient) -> None:
    columns = ask(
        door,
        "SELECT COLUMN_NAME, JDBC_TYPE, IS_NULLABLE, COLUMN_DEFAULT FROM information_schema.columns "
        "WHERE TABLE_NAME = 'flights' AND TABLE_SCHEMA = 'druid'",
        resultFormat="array",
    )
    assert columns.json() == [
        ["__time", 93, "NO", ""],
        ["carrier", 12, "YES", ""],
        ["delay", -5, "YES", ""],
    ]
    exists = 'SELECT COUNT(*) > 0 AS exists_ FROM "INFORMATION_SCHEMA"."TABLES" WHERE TABLE_NAME = \'flights\''
    assert ask(door, exists).json() == [{"exists_": True}]
    assert ask(door, "SELECT 1").json() == [{"EXPR$0": 1}]
    assert ask(door, "SELECT version() AS v").status_code == 200
    assert ask(door, 'SELECT COUNT(*) FROM "druid"."flights"').json() == [{"EXPR$0": ROWS}]
    assert ask(
        door, "SELECT SCHEMA_NAME FROM INFORMATION_SCHEMA.SCHEMATA", resultFormat="csv"
    ).text == ("druid\nINFORMATION_SCHEMA\nlookup\nsys\n\n")


def test_an_outer_limit_cuts_the_answer(door: InProcessClient) -> None:
    answer = ask(door, "SELECT range AS n FROM range(100000)", context={"sqlOuterLimit": 2})
    assert answer.json() == [{"n": 0}, {"n": 1}]


def test_one_id_is_of_one_query(door: InProcessClient) -> None:
    twice = [ask(door, "SELECT 1", context={"sqlQueryId": "mine"}) for _ in range(2)]
    assert [one.status_code for one in twice] == [200, 200]
    assert {one.headers["x-druid-sql-query-id"] for one in twice} == {"mine"}
