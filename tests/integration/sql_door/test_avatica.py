"""JDBC's driver at the door: what it was seen to send is answered as it read it, failures are told in its form."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.bootstrap.serving.broker import open_broker
from carnac.clock import StoreClock
from carnac.config import Settings
from tests.e2e.cli import ROWS, append_rows, make_store
from tests.support.serving import doors_of, open_door
from tests.unit.api.conftest import InProcessClient
from tests.unit.api.test_fuzz import Door, Request

pytestmark = pytest.mark.http

PATH = "/druid/v2/sql/avatica/"
RECORDED = Path(__file__).parent / "avatica-1.26.0.jsonl"
SHOWN_MAX = 60
"""Of a longer frame the record has the number of rows, the first and the last."""
MANY = (
    "SELECT ROW_NUMBER() OVER () AS i FROM flights a, flights b, flights c, flights d LIMIT 12000"
)
FOREVER = "SELECT COUNT(*) FROM range(100000000000)"


class Driver:
    """Speaks as the driver does, with one connection."""

    def __init__(self, door: InProcessClient, connection: str = "c") -> None:
        self.door, self.connection = door, connection

    def post(self, body: object) -> Any:
        """Return the whole answer; the driver calls its JSON bytes."""
        headers = {"content-type": "application/octet-stream"}
        return self.door.post(PATH, content=json.dumps(body), headers=headers)

    def ask(self, request: str, **parts: object) -> dict[str, Any]:
        """Return what is answered; it must be no failure."""
        answer = self.post({"request": request, "connectionId": self.connection, **parts})
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    def fail(self, request: str, **parts: object) -> dict[str, Any]:
        """Return a failure."""
        answer = self.post({"request": request, "connectionId": self.connection, **parts})
        assert answer.status_code == 500, answer.text
        said: dict[str, Any] = answer.json()
        assert said["response"] == "error"
        return said

    def open(self, **info: str) -> int:
        """Open the connection, and a statement in it."""
        self.ask("openConnection", info=info)
        return self.statement()

    def statement(self) -> int:
        """Return a new statement."""
        return int(self.ask("createStatement")["statementId"])

    def run(self, statement: int, sql: str, rows: int = -1) -> dict[str, Any]:
        """Return the first result of a statement."""
        said = self.ask("prepareAndExecute", statementId=statement, sql=sql, maxRowCount=rows)
        return dict(said["results"][0])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("avatica") / "store")


@pytest.fixture
def door(store: Path) -> Iterator[InProcessClient]:
    with open_door(store, query_slots=2) as client:
        yield client


@pytest.fixture
def driver(door: InProcessClient) -> Driver:
    return Driver(door)


def named(value: Any, ids: dict[str, int]) -> Any:
    """Return a request with the ids of this run for the words of the record."""
    if isinstance(value, dict):
        return {key: named(one, ids) for key, one in value.items()}
    if isinstance(value, list):
        return [named(one, ids) for one in value]
    return ids.get(value, value) if isinstance(value, str) else value


def shown(rows: list[Any]) -> list[Any]:
    return rows if len(rows) <= SHOWN_MAX else [len(rows), rows[0], rows[-1]]


def frame_of(said: dict[str, Any]) -> dict[str, Any]:
    result = said["results"][0] if said.get("results") else said
    return dict(result.get("firstFrame") or result["frame"])


def test_what_a_driver_sent_is_answered_as_it_read_it(driver: Driver) -> None:
    about, *steps = map(json.loads, RECORDED.read_text(encoding="utf-8").splitlines())
    assert about["driver"] == "org.apache.calcite.avatica:avatica:1.26.0"
    ids: dict[str, int] = {}
    for step in steps:
        answer = driver.post(named(step["request"], ids))
        said = answer.json()
        assert answer.status_code == step["status"], (step, said)
        if "error" in step:
            assert said["errorMessage"] == step["error"]
        if "makes" in step:
            made = said["statementId"] if "statementId" in said else said["statement"]["id"]
            ids[step["makes"]] = made
        if "rows" in step:
            frame = frame_of(said)
            assert (frame["done"], shown(frame["rows"])) == (step["done"], step["rows"]), step
    assert len(steps) > 35


def test_rows_come_in_frames_and_all_of_them(driver: Driver) -> None:
    statement = driver.open()
    frame = driver.run(statement, MANY)["firstFrame"]
    rows, offsets = frame["rows"], [0]
    while not frame["done"]:
        offsets.append(len(rows))
        frame = driver.ask("fetch", statementId=statement, offset=len(rows), fetchMaxRowCount=100)[
            "frame"
        ]
        rows += frame["rows"]
    assert sorted(rows) == [[one] for one in range(1, 12_001)]
    assert offsets == [0, 5_000, *range(6_000, 12_000, 1_000)]  # a frame has a thousand at least
    said = driver.fail("fetch", statementId=statement, offset=12_000)
    assert "no rows to be fetched" in said["errorMessage"]


def test_rows_are_fetched_forward_only(driver: Driver) -> None:
    statement = driver.open()
    driver.run(statement, MANY)
    said = driver.fail("fetch", statementId=statement, offset=0, fetchMaxRowCount=10)
    assert said["errorMessage"].startswith("rows are fetched forward only: offset 0")
    synced = driver.ask("syncResults", statementId=statement, state={}, offset=5_000)
    assert synced["moreResults"]


@pytest.mark.parametrize(("limit", "wanted"), [("9", 7), ("7", 9), ("7", -1)])
def test_a_statement_gives_as_many_rows_as_its_driver_wants(
    driver: Driver, limit: str, wanted: int
) -> None:
    frame = driver.run(driver.open(sqlOuterLimit=limit), MANY, rows=wanted)["firstFrame"]
    assert (len(frame["rows"]), frame["done"]) == (7, True)


def test_an_id_among_the_properties_is_of_no_statement(driver: Driver) -> None:
    statements = [driver.open(sqlQueryId="mine", queryId="mine"), driver.statement()]
    long = MANY.replace("SELECT", "SELECT repeat('x', 1000) AS x,")
    for one in statements:  # both run until their rows are fetched
        assert not driver.run(one, long)["firstFrame"]["done"]


def test_short_answers_keep_nobody_waiting(driver: Driver) -> None:
    """Nobody fetched their rest, and there are two turns only."""
    statements = [driver.open(timeout="5000"), *(driver.statement() for _ in range(3))]
    for one in statements:
        assert not driver.run(one, MANY)["firstFrame"]["done"]


def test_all_frames_are_of_one_revision(tmp_path: Path) -> None:
    place = make_store(tmp_path / "store")
    with open_door(place) as door:
        driver = Driver(door)
        statement = driver.open()
        sql = "SELECT a.carrier, b.delay FROM flights a, flights b, flights c, flights d"
        rows = driver.run(statement, sql)["firstFrame"]["rows"]
        append_rows(place, [{"__time": "2013-01-09T00:30:00Z", "carrier": "XX", "delay": 1}])
        frame = {"done": False}
        while not frame["done"]:
            said = driver.ask("fetch", statementId=statement, offset=len(rows))
            frame = said["frame"]
            rows += frame["rows"]
    assert (len(rows), "XX" in {one[0] for one in rows}) == (ROWS**4, False)


def test_types_are_told_as_druid_tells_them(driver: Driver) -> None:
    sql = (
        "SELECT __time, carrier, delay, delay / 2.0e0 AS half, delay > 1 AS late, ARRAY[delay] AS l, "
        "CAST(__time AS DATE) AS day, NULL AS n FROM flights ORDER BY 1 LIMIT 1"
    )
    result = driver.run(driver.open(), sql)
    kinds = [one["type"] for one in result["signature"]["columns"]]
    assert [(one["id"], one["rep"]) for one in kinds] == [
        *((93, "NUMBER"), (12, "STRING"), (-5, "NUMBER"), (8, "NUMBER"), (16, "BOOLEAN")),
        *((2003, "ARRAY"), (91, "NUMBER"), (12, "STRING")),
    ]
    assert kinds[5]["component"]["id"] == -5
    day = 15_706
    millis = day * 86_400_000 + 9_000_000
    assert result["firstFrame"]["rows"] == [[millis, "AA", 102, 51.0, True, [102], day, None]]


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("CAST('Infinity' AS DOUBLE)", "1e999"),
        ("CAST('-Infinity' AS FLOAT)", "-1e999"),
        ("CAST('NaN' AS DOUBLE)", '"NaN"'),
        ("CAST(1.50 AS DECIMAL(9, 2))", "1.50"),
        ("18446744073709551615", None),
        ("CAST('infinity' AS TIMESTAMP)", None),
        ("CAST('infinity' AS DATE)", None),
        ("STRUCT_PACK(a := 1)", '"{\\"a\\":1}"'),
    ],
)
def test_values_that_json_or_java_has_not(driver: Driver, value: str, sent: str | None) -> None:
    asked = {"request": "prepareAndExecute", "connectionId": "c", "statementId": driver.open()}
    answer = driver.post({**asked, "sql": f"SELECT {value} AS v"})
    if sent is None:
        assert "AS VARCHAR)" in answer.json()["errorMessage"], answer.text
    else:
        assert f'"rows":[[{sent}]]' in answer.text


def test_a_driver_knows_which_connection_to_open_again(driver: Driver) -> None:
    said = driver.fail("createStatement")
    assert (said["errorCode"], said["severity"]) == (1, "ERROR")
    assert "connection c is not open here" in said["errorMessage"]
    driver.open()
    for request in ("fetch", "syncResults", "prepareAndExecute", "execute"):
        assert driver.ask(request, statementId=-5, offset=0, sql="SELECT 1")["missingStatement"]
    driver.ask("closeStatement", statementId=-5)
    driver.ask("closeConnection")
    driver.ask("closeConnection")


def test_a_prepared_statement_outlives_its_connection(driver: Driver) -> None:
    driver.open()
    handle = driver.ask("prepare", sql="SELECT CAST(? AS BIGINT) + 1 AS n")["statement"]
    assert len(handle["signature"]["parameters"]) == 1
    driver.ask("closeConnection")
    driver.open()
    value = {"type": "LONG", "value": 41}
    said = driver.ask("execute", statementHandle=handle, parameterValues=[value])
    assert frame_of(said)["rows"] == [[42]]


def test_limits_are_told_in_a_sentence(store: Path) -> None:
    with open_door(store, avatica_connections_max=2, avatica_statements_max=1) as door:
        first, second, third = (Driver(door, name) for name in "abc")
        first.open()
        said = first.fail("createStatement")["errorMessage"]
        assert said.startswith("Too many open statements, limit is [1]")
        said = first.fail("openConnection")["errorMessage"]
        assert said == "Connection[a] already open."
        second.ask("openConnection")
        third.open()  # in the place of one that has no statement
        assert second.fail("createStatement")["errorCode"] == 1
        said = second.fail("openConnection")["errorMessage"]
        assert said.startswith("Too many connections, limit is [2]: close one")


def test_time_limits_and_cancelling_are_those_of_statements(driver: Driver) -> None:
    statement = driver.open(timeout="300")
    said = driver.fail("prepareAndExecute", statementId=statement, sql=FOREVER)
    assert (said["sqlState"], "took longer than" in said["errorMessage"]) == ("HYT00", True)
    found: list[dict[str, Any]] = []
    sql = f"SET sqlQueryId = 'mine'; SET timeout = 60000; {FOREVER}"
    asking = threading.Thread(
        target=lambda: found.append(
            driver.fail("prepareAndExecute", statementId=statement, sql=sql)
        )
    )
    asking.start()
    while driver.door.request("DELETE", "/druid/v2/sql/mine").status_code == 404:
        assert asking.is_alive()
    asking.join()
    assert (found[0]["sqlState"], "cancelled" in found[0]["errorMessage"]) == ("HY008", True)


def test_closing_a_statement_stops_it(driver: Driver) -> None:
    statement = driver.open()
    found: list[dict[str, Any]] = []
    sql = f"SET timeout = 60000; {FOREVER}"
    asking = threading.Thread(
        target=lambda: found.append(
            driver.fail("prepareAndExecute", statementId=statement, sql=sql)
        )
    )
    asking.start()
    while "runs already" not in driver.fail("fetch", statementId=statement)["errorMessage"]:
        assert asking.is_alive()
    driver.ask("closeStatement", statementId=statement)
    asking.join()
    assert found[0]["sqlState"] == "HY008"


def test_a_client_that_leaves_has_its_statement_stopped(store: Path) -> None:
    values = Settings(store=str(store), query_log_limit_bytes=0)
    with open_broker(values, StoreClock()) as broker, asyncio.Runner() as runner:
        app = make_app(doors_of(broker), hosts=hosts_of("one"))
        statement = Driver(InProcessClient(app)).open(timeout="60000")
        asked = {"request": "prepareAndExecute", "connectionId": "c", "statementId": statement}
        body = json.dumps({**asked, "sql": FOREVER}).encode()
        answer = Door(app, runner).send(Request("POST", PATH.encode(), pieces=[body]))
    assert json.loads(answer.body)["sqlState"] == "HY008"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"request": "nope"}, "there is no request 'nope' of Avatica here"),
        ({}, "there is no request None"),
        ({"request": "openConnection"}, "connectionId must be a text"),
        ({"request": "openConnection", "connectionId": "x" * 201}, "connectionId must be a text"),
        (
            {"request": "openConnection", "connectionId": "c", "info": {"timeout": "soon"}},
            "timeout must be a whole number",
        ),
        ({"request": "openConnection", "connectionId": "c", "info": 1}, "info must be an object"),
        (
            {"request": "openConnection", "connectionId": "c", "info": {"a": "x" * 70_000}},
            "longer than 65536 characters",
        ),
        ({"request": "fetch", "connectionId": "c", "statementId": "1"}, "statementId must be"),
        ({"request": "execute", "statementHandle": 7}, "statementHandle must be an object"),
        ({"request": "executeBatch", "connectionId": "c"}, "Batch statements not supported"),
    ],
)
def test_wrong_requests_are_told_in_a_sentence(driver: Driver, body: object, why: str) -> None:
    answer = driver.post(body)
    assert (answer.status_code, why in answer.json()["errorMessage"]) == (500, True), answer.text


def test_listings_take_their_patterns_as_texts(driver: Driver) -> None:
    driver.open()
    said = driver.ask("getTables", tableNamePattern="' OR 1=1 --", typeList=["TABLE"])
    assert frame_of(said)["rows"] == []
    assert frame_of(driver.ask("getTables", typeList=[]))["rows"] == []
    fails = driver.fail("getTables", typeList="TABLE")["errorMessage"]
    assert fails.startswith("typeList must be a list of texts")


def test_bytes_are_json_at_this_path_only(door: InProcessClient) -> None:
    headers = {"content-type": "application/octet-stream"}
    body = json.dumps({"query": "SELECT 1"})
    assert door.post("/druid/v2/sql", content=body, headers=headers).status_code == 415
    answer = door.post(PATH, content=b"\x0a\x00", headers=headers)
    assert (answer.status_code, "not valid JSON" in answer.json()["error"]) == (400, True)
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert door.post(PATH, content=body, headers=form).status_code == 415
