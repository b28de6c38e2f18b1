"""A user who is limited to some datasources: by no door is there a trace of another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from carnac.bootstrap.store import open_records
from carnac.clock import SystemClock, new_secret
from carnac.config import Settings
from carnac.core.access import Permission, read_patterns
from carnac.store.upkeep.users import Users
from tests.e2e.cli import DAYS, ROWS, append_rows, make_store
from tests.support.serve_process import Served, serving
from tests.unit.api.test_fuzz import ROUTES
from tests.waiting import until

pytestmark = pytest.mark.http
dbapi = pytest.importorskip(
    "adbc_driver_flightsql.dbapi", reason="make setup installs ADBC's driver"
)
SECRET, MISSING = "payroll", "paybill"
"""A datasource that is hidden, and one that does not exist: both are told alike."""
BO, ROOT = ("bo", "reads flights"), ("root", "does it all")
SQL = "/druid/v2/sql"


class House:
    """A process in all roles over a store with two datasources, of which `bo` reads one."""

    def __init__(self, folder: Path, steps: ExitStack) -> None:
        store = make_store(folder / "store")
        append_rows(store, DAYS[0], datasource=SECRET)
        append_rows(store, DAYS[0], datasource=f"{SECRET}_2024")
        records = steps.enter_context(
            closing(open_records(settings=Settings(store=str(store)), clock=SystemClock()))
        )
        self.users = Users(records, SystemClock(), new_secret)
        self.users.put(BO[0], password=BO[1], datasources=read_patterns(["flights", "web_*"]))
        self.users.put(ROOT[0], password=ROOT[1], permission=Permission.ADMIN)
        self.served: Served = steps.enter_context(serving(store, CARNAC_FLIGHT_SQL_PORT="0"))

    def ask(
        self, method: str, path: str, auth: tuple[str, str] = BO, **more: Any
    ) -> httpx.Response:
        """Send a request."""
        return httpx.request(method, f"{self.served.url}{path}", auth=auth, timeout=60, **more)

    def sql(self, sql: str, auth: tuple[str, str] = BO, **more: object) -> httpx.Response:
        """Ask a statement."""
        return self.ask("POST", SQL, auth, json={"query": sql, "resultFormat": "array", **more})

    def jdbc(self, request: str, connection: str = "c", auth: Any = BO, **more: object) -> Any:
        """Send a request of Avatica's."""
        body = {"request": request, "connectionId": connection, **more}
        return self.ask("POST", f"{SQL}/avatica/", auth, json=body)

    def flight_sql(self, auth: tuple[str, str]) -> Any:
        """Return a connection of Flight SQL."""
        told = "Flight SQL is answered at "
        line = until(
            lambda: next((one for one in self.served.lines if told in one), None), "Flight SQL"
        )
        known = {"username": auth[0], "password": auth[1]}
        return dbapi.connect(line.partition(told)[2].strip(), db_kwargs=known, autocommit=True)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as steps:
        yield House(tmp_path_factory.mktemp("limited"), steps)


def test_what_the_user_may_read_is_read(house: House) -> None:
    assert house.sql("SELECT count(*) FROM flights").json() == [[ROWS]]
    assert house.ask("GET", "/druid/v2/datasources").json() == ["flights"]
    assert set(house.ask("GET", "/druid/v2/datasources", ROOT).json()) > {"flights", SECRET}


@pytest.mark.parametrize(
    "form",
    [
        "SELECT count(*) FROM {}",
        'SELECT * FROM "{}"',
        "SELECT * FROM druid.{}",
        "FROM {} LIMIT 1",
        "SELECT * FROM flights, {} LIMIT 1",
        "SELECT * FROM flights UNION ALL BY NAME SELECT * FROM {}",
        "WITH a AS (SELECT * FROM {}) SELECT count(*) FROM a",
        "SELECT (SELECT max(delay) FROM {}) FROM flights LIMIT 1",
        "SELECT * FROM flights WHERE carrier IN (SELECT carrier FROM {})",
        "EXPLAIN SELECT * FROM {}",
        "EXPLAIN PLAN FOR SELECT * FROM {}",
        "SUMMARIZE {}",
        "DESCRIBE {}",
    ],
)
def test_a_statement_is_told_that_there_is_none(house: House, form: str) -> None:
    """Also one that somebody else asked before, whose plan and answer are kept."""
    for _ in range(2):
        house.sql(form.format(SECRET), ROOT)
        for name in (SECRET, SECRET.upper()):
            hidden, missing = (house.sql(form.format(one)) for one in (name, MISSING))
            assert hidden.status_code == missing.status_code >= 400, hidden.text
            # the nearest name is among those that exist for the user
            assert "did you mean" not in hidden.text.replace("'flights'", "")
            assert alike(hidden.text, name) == alike(missing.text, MISSING)


def alike(text: str, name: str) -> str:
    """Return a text without a name, and ids of queries."""
    return text.replace(name, "NAME").replace(name.lower(), "NAME")


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "SHOW ALL TABLES",
        "SELECT * FROM INFORMATION_SCHEMA.TABLES",
        "SELECT * FROM INFORMATION_SCHEMA.COLUMNS",
        "SELECT * FROM INFORMATION_SCHEMA.SCHEMATA",
        "SELECT * FROM sys.segments",
        "SELECT * FROM sys.server_segments",
        "SELECT * FROM sys.servers",
        "SELECT * FROM sys.tasks",
        "SELECT * FROM sys.supervisors",
        "SELECT * FROM payrol",
    ],
)
def test_no_list_names_another_datasource(house: House, sql: str) -> None:
    house.sql(sql, ROOT)
    for engine in ({}, {"context": {"useCache": False}}):
        assert SECRET not in house.sql(sql, **engine).text


def test_tables_of_names_are_shown_to_each_user_as_their_own(house: House) -> None:
    """What is kept by revision is kept for each user's datasources."""
    count = "SELECT count(*) FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid'"
    for _ in range(2):
        assert [house.sql(count, one).json()[0][0] for one in (ROOT, BO, ROOT)] == [3, 1, 3]
    tags = [house.sql(count, one).headers["etag"] for one in (ROOT, BO)]
    assert tags[0] != tags[1]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("scan", {"columns": ["carrier"]}),
        ("timeseries", {"granularity": "all", "aggregations": [{"type": "count", "name": "n"}]}),
        ("segmentMetadata", {}),
        ("timeBoundary", {}),
        ("dataSourceMetadata", {}),
        ("search", {"query": {"type": "contains", "value": "A"}, "searchDimensions": ["carrier"]}),
    ],
)
def test_a_native_query_finds_nothing_there(
    house: House, kind: str, more: dict[str, object]
) -> None:
    def ask(name: object, auth: tuple[str, str] = BO) -> httpx.Response:
        body = {"queryType": kind, "dataSource": name, "intervals": ["2013-01-01/P1Y"], **more}
        return house.ask("POST", "/druid/v2", auth, json=body)

    assert ask(SECRET, ROOT).json() != ask(MISSING, ROOT).json()
    union = {"type": "union", "dataSources": ["flights", SECRET]}
    for hidden, missing in ((ask(SECRET), ask(MISSING)), (ask(union), ask("flights"))):
        assert hidden.status_code == missing.status_code
        assert alike(hidden.text, SECRET) == alike(missing.text, MISSING)


def test_jdbc_lists_none_and_hands_no_rows_of_others_over(house: House) -> None:
    house.jdbc("openConnection", "root's", ROOT)
    made = house.jdbc("createStatement", "root's", ROOT).json()["statementId"]
    run = {"statementId": made, "sql": f"SELECT * FROM {SECRET}", "maxRowsInTotal": -1}
    assert house.jdbc("prepareAndExecute", "root's", ROOT, **run).status_code == 200
    for request in ("prepareAndExecute", "fetch", "closeStatement", "closeConnection", "prepare"):
        told = house.jdbc(request, "root's", **{**run, "offset": 0, "fetchMaxRowCount": 10})
        assert "AA" not in told.text
    assert house.jdbc("createStatement", "root's", ROOT).status_code == 200, "it is still open"
    assert "is not open here" in house.jdbc("createStatement", "root's").text
    house.jdbc("openConnection")
    for request in ("getTables", "getColumns", "getSchemas"):
        told = house.jdbc(request)
        assert (told.status_code, SECRET in told.text) == (200, False)
    assert SECRET in house.jdbc("getTables", "root's", ROOT).text


def test_a_connection_of_jdbc_may_name_its_user_by_its_properties(house: House) -> None:
    """As Druid's drivers do, which send no header."""

    def opened(connection: str, name: str, password: str) -> httpx.Response:
        info = {"user": name, "password": password, "sqlTimeZone": "Etc/UTC"}
        return house.jdbc("openConnection", connection, None, info=info)  # type: ignore[no-any-return]

    nobody = house.jdbc("openConnection", "n", None)
    assert (nobody.status_code, nobody.headers["www-authenticate"][:5]) == (401, "Basic")
    assert "properties user and password" in nobody.text
    wrong = opened("w", BO[0], "guessed")
    assert (wrong.status_code, wrong.json()["errorMessage"]) == (
        500,
        "the name or password is wrong",
    )
    for name, auth in (("bo's own", BO), ("root's own", ROOT)):
        assert opened(name, *auth).status_code == 200
        made = house.jdbc("createStatement", name, None).json()["statementId"]
        run = {"statementId": made, "sql": f'SELECT count(*) FROM "{SECRET}"', "maxRowCount": 10}
        told = house.jdbc("prepareAndExecute", name, None, **run)
        assert told.status_code == (200 if auth is ROOT else 500), told.text
        assert (SECRET in house.jdbc("getTables", name, None).text) == (auth is ROOT)
    assert "already open" in opened("root's own", *BO).text, "nobody takes the place of another"
    house.jdbc("openConnection", "by header", ROOT)
    told = house.jdbc("getTables", "by header", None)
    assert (told.status_code, told.json()["errorCode"]) == (500, 1), "the driver opens it again"
    assert house.jdbc("getTables", "no such", None).json()["errorCode"] == 1
    house.users.put("eve", password="once upon a time")
    until(lambda: opened("e", "eve", "once upon a time").status_code == 200, "a new user")
    house.users.put("eve", password="another time")
    until(lambda: house.jdbc("getTables", "e", None).status_code == 500, "users that are read")
    assert "password is wrong" in house.jdbc("getTables", "e", None).text


def test_flight_sql_lists_none_and_takes_no_ticket_of_others(house: House) -> None:
    secret = f"SELECT count(*) FROM {SECRET}"
    with house.flight_sql(ROOT) as root, root.cursor() as one:
        ticket = one.adbc_execute_partitions(secret)[0][0]
        assert SECRET in str(root.adbc_get_objects().read_all().to_pylist())
    with house.flight_sql(BO) as link, link.cursor() as one:
        assert SECRET not in str(link.adbc_get_objects().read_all().to_pylist())
        one.execute("SELECT count(*) FROM flights")
        assert one.fetchone() == (ROWS,)
        for ask in (lambda: one.execute(secret), lambda: one.adbc_read_partition(ticket)):
            with pytest.raises(dbapi.Error, match=f"there is no datasource '{SECRET}'"):
                ask()


def test_iceberg_has_no_such_table(house: House) -> None:
    tables = "/iceberg/v1/namespaces/druid/tables"
    assert house.ask("GET", tables).json()["identifiers"] == [
        {"namespace": ["druid"], "name": "flights"}
    ]
    assert house.ask("GET", f"{tables}/flights").status_code == 200
    assert house.ask("GET", f"{tables}/{SECRET}", ROOT).status_code == 200
    for method in ("GET", "HEAD"):
        hidden, missing = (house.ask(method, f"{tables}/{one}") for one in (SECRET, MISSING))
        assert (hidden.status_code, missing.status_code) == (404, 404)
        assert alike(hidden.text, SECRET) == alike(missing.text, MISSING)


def test_no_route_that_reads_tells_of_others(house: House) -> None:
    """A route that is new is closed to such users until it is known to show nothing of other datasources."""
    answered = set()
    for method, path in ROUTES:
        if method not in {"GET", "HEAD"}:
            continue
        for name in (SECRET, MISSING):
            asked = path
            while "{" in asked:
                start, end = asked.index("{"), asked.index("}")
                is_named = asked[start + 1 : end] in {"datasource", "table"}
                asked = asked[:start] + (name if is_named else "x") + asked[end + 1 :]
            answer = house.ask(method, asked)
            if answer.status_code != 403:
                answered.add(path)
                assert SECRET not in alike(answer.text, name), asked
    assert answered >= {"/druid/v2/datasources", "/iceberg/v1/config", "/status"}
    closed = {path for method, path in ROUTES if method == "GET"} - answered
    assert closed >= {"/druid/indexer/v1/tasks", "/druid/coordinator/v1/datasources"}
    assert house.ask("GET", "/metrics").status_code == 403


@pytest.mark.parametrize("path", [f"{SQL}/statements", f"{SQL}/task"])
def test_statements_are_no_tasks_of_such_a_user(house: House, path: str) -> None:
    answer = house.ask("POST", path, json={"query": f"SELECT * FROM {SECRET}"})
    assert answer.status_code == 403
    assert json.loads(answer.text)["error"]


def test_a_change_is_known_moments_later(house: House) -> None:
    told = "there is no datasource"
    assert told in house.sql(f"SELECT count(*) FROM {SECRET}").text
    house.users.put(BO[0], datasources=read_patterns(["*"]))
    try:
        until(lambda: house.sql(f"SELECT count(*) FROM {SECRET}").is_success or None, "rows of all")
    finally:
        house.users.put(BO[0], datasources=read_patterns(["flights", "web_*"]))
    until(lambda: told in house.sql(f"SELECT count(*) FROM {SECRET}").text or None, "none again")
