"""Flight SQL behind a socket, asked by ADBC's own driver, by Polars and by Flight's client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from msgspec.structs import replace

from carnac.api.flight_sql import messages
from carnac.api.flight_sql.messages import pack, read, unpack, write
from carnac.api.flight_sql.statements import PREPARED_MAX, ticket_of, written
from carnac.bootstrap.serving.process import ServingProcess, open_process
from carnac.bootstrap.store import open_store
from carnac.config import Settings
from carnac.errors import Invalid, Unavailable
from carnac.ports.serving import Role
from tests.waiting import until

pytestmark = pytest.mark.http
dbapi = pytest.importorskip(
    "adbc_driver_flightsql.dbapi", reason="make setup installs ADBC's driver"
)

ENDLESS = "SELECT sum(a.range * b.range) AS n FROM range(10000000) a, range(10000000) b"
MANY = "SELECT range AS n, repeat('x', 100) AS word FROM range(300000)"
HOURS = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(3)]
EVENTS = pa.table({"at": HOURS, "word": ["a", "b", None], "n": [1, 2, 3], "x": [0.5, 1.5, 2.5]})
ROLES = {Role.COORDINATOR, Role.BROKER}


class Server:
    """A process that answers Flight SQL.

    Attributes:
        url: Of Flight SQL.
        log: Of its queries.
    """

    def __init__(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        settings = Settings(
            store=str(folder / "store"),
            flight_sql_port=0,
            query_slots=1,
            query_queue_max=1,
            query_log=str(folder / "queries.jsonl"),
        )
        self.log = folder / "queries.jsonl"
        with caplog.at_level("INFO"):
            self.process: ServingProcess = open_process(
                ROLES, settings=settings, host="127.0.0.1", port=0
            )
            self.process.start()
        self.url = next(
            one.getMessage().split()[-1]
            for one in caplog.records
            if "Flight SQL is answered" in one.getMessage()
        )

    def logged(self) -> list[dict[str, Any]]:
        """Return the query log."""
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Server]:
    """A server with one slot, and room for one query that waits."""
    with open_store(tmp_path / "store", create=True) as store:
        store.append("events", EVENTS, time="at")
    before = set(threading.enumerate())
    made = Server(tmp_path, caplog)
    yield made
    made.process.close()
    left = {one.name for one in set(threading.enumerate()) - before}
    # gRPC's own threads have no names of ours, and are gone; the others are the process's, used again
    assert {one for one in left if not one.startswith("Dummy-")} <= {
        "carnac-beside",
        "carnac-limits",
        "carnac-query",
    }


@pytest.fixture
def cursor(server: Server) -> Iterator[Any]:
    """A cursor of ADBC."""
    with dbapi.connect(server.url, autocommit=True) as connection, connection.cursor() as made:
        yield made


def ask(cursor: Any, sql: str, parameters: tuple[object, ...] | None = None) -> pa.Table:
    cursor.execute(sql, parameters)
    return cursor.fetch_arrow_table()


def ask_once(server: Server, sql: str, **keywords: str) -> pa.Table:
    connection = dbapi.connect(server.url, db_kwargs=keywords, autocommit=True)
    with connection, connection.cursor() as cursor:
        return ask(cursor, sql)


def test_rows_come_with_the_types_of_the_engine(cursor: Any) -> None:
    found = ask(cursor, "SELECT __time, word, n, x, sum(n) OVER () AS s FROM events ORDER BY n")
    assert found.schema.types == [
        pa.timestamp("us", tz="UTC"), pa.string(), pa.int64(), pa.float64(), pa.int64()
    ]  # fmt: skip
    assert found.column("__time").to_pylist() == HOURS
    assert found.column("word").to_pylist() == ["a", "b", None]
    assert found.column("s").to_pylist() == [6, 6, 6]
    assert ask(cursor, "SELECT n FROM events WHERE n > 9").num_rows == 0
    assert ask(cursor, "SELECT count(*), n FROM events GROUP BY 2 LIMIT 1").column_names == [
        "EXPR$0",
        "n",
    ]


def test_polars_asks(server: Server) -> None:
    with dbapi.connect(server.url, autocommit=True) as connection:
        frame = pl.read_database("SELECT word, n FROM events ORDER BY n", connection)
    assert frame.to_dict(as_series=False) == {"word": ["a", "b", None], "n": [1, 2, 3]}


def test_a_long_answer_comes_in_batches_that_each_client_takes(cursor: Any) -> None:
    cursor.execute(MANY)
    sizes = [batch.nbytes for batch in cursor.fetch_record_batch()]
    assert len(sizes) > 10
    assert max(sizes) < 4 << 20


def test_values_are_bound(cursor: Any) -> None:
    given = (True, 5, 2.5, "é", Decimal("1.50"), HOURS[1], date(2024, 2, 29), None, [1, 2])
    marks = ", ".join(f"? AS v{place}" for place in range(len(given)))
    assert tuple(ask(cursor, f"SELECT {marks}", given).to_pylist()[0].values()) == given
    found = ask(cursor, "SELECT word FROM events WHERE __time >= ? AND n < ?", (HOURS[1], 3))
    assert found.column("word").to_pylist() == ["b"]
    cursor.adbc_prepare("SELECT n FROM events WHERE word = ?")
    for word, number in (("a", 1), ("b", 2)):
        cursor.execute("SELECT n FROM events WHERE word = ?", (word,))
        assert cursor.fetchall() == [(number,)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", 'syntax error at or near "SELEC" (line 1, column 1)'),
        ("SELECT * FROM nope", "there is no datasource 'nope'"),
        ("INSERT INTO events SELECT 1", "carnac ingest"),
        ("DELETE FROM events", "only SELECT"),
        ("SET timeout = x; SELECT 1", "timeout must be a whole number"),
        ("  ", "query must be one SELECT"),
        ("SELECT TIMESTAMP '-infinity' AS t", "such as infinity; select it as text"),
        ("SELECT ARRAY[TIMESTAMP 'infinity'] AS t", "such as infinity; select it as text"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(cursor: Any, sql: str, said: str) -> None:
    with pytest.raises(dbapi.Error) as caught:
        ask(cursor, sql)
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_several_rows_of_values_and_too_few_are_refused(cursor: Any) -> None:
    cursor.adbc_prepare("SELECT ? AS a, ? AS b")
    with pytest.raises(dbapi.Error, match="takes 2 parameters"):
        cursor.execute("SELECT ? AS a, ? AS b", (1,))
    with pytest.raises(dbapi.Error, match=r"rows of parameters|rows are not written"):
        cursor.executemany("SELECT ? AS a", [(1,), (2,)])
    no_time = pa.record_batch([pa.array([10**15], pa.time64("ns"))], names=["a"])
    with pytest.raises(dbapi.Error, match=r"a value of a parameter is none of its type: .*range"):
        cursor.execute("SELECT ? AS a", no_time)


def test_catalogs_schemas_tables_and_columns_are_listed(server: Server) -> None:
    with dbapi.connect(server.url, autocommit=True) as connection:
        assert connection.adbc_get_info()["vendor_name"] == "Carnac"
        assert connection.adbc_get_table_types() == ["SYSTEM_TABLE", "TABLE"]
        schema = connection.adbc_get_table_schema("events", db_schema_filter="druid")
        assert schema.field("__time").type == pa.timestamp("us", tz="UTC")
        assert schema.field("n").type == pa.int64()
        [found] = connection.adbc_get_objects(table_name_filter="ev_nts").read_all().to_pylist()
        named = {
            one["db_schema_name"]: one["db_schema_tables"] for one in found["catalog_db_schemas"]
        }
        [table] = named["druid"]
        assert [one["column_name"] for one in table["table_columns"]] == [*schema.names]


def test_explained_statements(cursor: Any) -> None:
    assert ask(cursor, "EXPLAIN SELECT n FROM events").column_names == ["plan"]
    plan = ask(cursor, "EXPLAIN PLAN FOR SELECT n FROM events")
    assert json.loads(plan.column("RESOURCES")[0].as_py())[0]["name"] == "events"


def test_limits_of_time_and_rows(server: Server, cursor: Any) -> None:
    with pytest.raises(dbapi.Error, match=r"took longer than 100 ms|was stopped"):
        ask(cursor, f"SET timeout = 100; {ENDLESS}")
    header = "adbc.flight.sql.rpc.call_header."
    keywords = {f"{header}sqlouterlimit": "2", f"{header}lane": ""}
    assert ask_once(server, "SELECT n FROM events", **keywords).num_rows == 2
    until(lambda: any(one["outcome"] == "timed_out" for one in server.logged()), "the log")


def test_a_client_that_leaves_frees_the_slot(server: Server, cursor: Any) -> None:
    failures: list[BaseException] = []
    other = threading.Thread(target=lambda: failures.append(_failure(cursor)))
    other.start()
    until(lambda: _running(server), "the query that runs")
    cursor.adbc_cancel()
    other.join()
    assert ask_once(server, "SELECT 1 AS one").num_rows == 1


def _failure(cursor: Any) -> BaseException:
    with pytest.raises(dbapi.Error) as caught:
        ask(cursor, ENDLESS)
    return caught.value


def _running(server: Server) -> bool:
    """Whether a query runs for longer than its plan takes to be made."""
    shown = []
    for _ in range(3):
        shown.append(httpx.get(f"{server.process.url}/metrics").text)
        threading.Event().wait(0.1)
    return all("carnac_queries_running 1.0" in one for one in shown)


def test_asking_for_columns_is_no_query(server: Server, cursor: Any) -> None:
    asked = "SELECT sum(n) AS n FROM events"
    assert ask(cursor, asked).to_pydict() == {"n": [6]}
    assert ask(cursor, asked).to_pydict() == {"n": [6]}
    until(lambda: len(server.logged()) >= 2, "what was asked in the log")
    assert [one["statement"] for one in server.logged()] == [asked, asked]


def test_columns_are_those_of_now(server: Server, cursor: Any) -> None:
    asked = "SELECT * FROM events"
    assert "later" not in ask(cursor, asked).column_names
    with open_store(server.log.parent / "store") as store:
        store.append("events", EVENTS.append_column("later", EVENTS["n"]), time="at")
    until(lambda: "later" in ask(cursor, asked).column_names, "the column that was appended")


def info_of(client: fl.FlightClient, name: str, **fields: object) -> fl.FlightInfo:
    return client.get_flight_info(fl.FlightDescriptor.for_command(pack(name, **fields)))


def _cancelled(client: fl.FlightClient, info: fl.FlightInfo) -> BaseException:
    with pytest.raises((fl.FlightCancelledError, fl.FlightUnavailableError)) as caught:
        client.do_get(info.endpoints[0].ticket).read_all()
    return caught.value


def test_a_statement_is_stopped_by_its_info(server: Server) -> None:
    with fl.connect(server.url) as client:
        info = info_of(client, "CommandStatementQuery", query=ENDLESS)
        failures: list[BaseException] = []
        other = threading.Thread(target=lambda: failures.append(_cancelled(client, info)))
        other.start()

        def cancel() -> bool:
            body = write("CancelFlightInfoRequest", info=info.serialize())
            [result] = client.do_action(fl.Action("CancelFlightInfo", body))
            return bool(read("CancelFlightInfoResult", result.body.to_pybytes()).status == 1)

        until(cancel, "the query that runs")
        other.join()
        assert "was cancelled" in str(failures[0])


def test_the_rows_are_those_of_the_revision_that_was_described(
    server: Server, tmp_path: Path
) -> None:
    with fl.connect(server.url) as client:
        info = info_of(client, "CommandStatementQuery", query="SELECT * FROM events")
        with open_store(tmp_path / "store") as store:
            more = EVENTS.append_column("more", pa.array([1, 2, 3]))
            store.append("events", more, time="at")
        rows = client.do_get(info.endpoints[0].ticket).read_all()
    assert rows.schema == info.schema
    assert rows.num_rows == 3


def test_a_client_that_does_not_read_keeps_its_slot_no_longer_than_its_limit(
    server: Server,
) -> None:
    with fl.connect(server.url) as client:
        sql = "SET timeout = 2000; SELECT repeat('x', 1000) AS word FROM range(10000000)"
        info = info_of(client, "CommandStatementQuery", query=sql)
        reader = client.do_get(info.endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows
        assert ask_once(server, "SELECT 1 AS one").num_rows == 1  # where there is one slot
        with pytest.raises(fl.FlightError):
            reader.read_all()
    assert any(one["outcome"] in {"timed_out", "abandoned"} for one in server.logged())


def test_tickets_that_were_changed_are_refused(server: Server) -> None:
    with fl.connect(server.url) as client:
        info = info_of(client, "CommandStatementQuery", query="SELECT 1 AS a, 2 AS b")
        _, command = unpack(info.endpoints[0].ticket.ticket)
        good = ticket_of(command.statement_handle)
        row = pa.record_batch({"a": pa.array([], pa.int64())})
        changed = [
            replace(good, schema=pa.schema([("a", pa.int32())]).serialize().to_pybytes()),
            replace(good, schema=b"?"),
            replace(good, parameters=b"?"),
            replace(good, parameters=written(row)),
            replace(good, context={"timeout": "x"}),
            replace(good, at=-5),
            replace(good, at=1_000_000),
        ]
        for one in changed:
            ticket = pack("TicketStatementQuery", statement_handle=msgspec.msgpack.encode(one))
            with pytest.raises(fl.FlightServerError):
                client.do_get(fl.Ticket(ticket)).read_all()
        sent = client.do_get(info.endpoints[0].ticket).read_all()
        assert sent.to_pylist() == [{"a": 1, "b": 2}]


def test_whatever_a_client_sends_is_answered_by_a_sentence(server: Server) -> None:
    with fl.connect(server.url) as client:
        tickets = [
            b"",
            b"\xff" * 50,
            pack("TicketStatementQuery", statement_handle=b"x"),
            pack("CommandStatementQuery", query="SELECT 1"),
        ]
        for ticket in tickets:
            with pytest.raises(fl.FlightServerError, match=r"Flight|ticket"):
                client.do_get(fl.Ticket(ticket)).read_all()
        for name in ("Nope", "BeginTransaction", "CancelFlightInfo", "CreatePreparedStatement"):
            with pytest.raises(fl.FlightServerError):
                list(client.do_action(fl.Action(name, b"\xff")))
        with pytest.raises(fl.FlightServerError, match="carnac ingest"):
            info_of(client, "CommandStatementUpdate", query="x")
        with pytest.raises(fl.FlightServerError, match="prepare it again"):
            info_of(client, "CommandPreparedStatementQuery", prepared_statement_handle=b"x")
        with pytest.raises(fl.FlightServerError, match="GetFlightInfo"):
            list(client.list_flights())
        for name in ("PrimaryKeys", "ImportedKeys", "ExportedKeys", "XdbcTypeInfo", "SqlInfo"):
            info = info_of(client, f"CommandGet{name}")
            assert client.do_get(info.endpoints[0].ticket).read_all().schema == info.schema
        [done] = client.do_action(fl.Action("CloseSession", b""))
        assert done.body.to_pybytes()


def test_prepared_statements_are_kept_up_to_a_limit(server: Server) -> None:
    with fl.connect(server.url) as client:
        body = pack("ActionCreatePreparedStatementRequest", query="EXPLAIN SELECT 1")

        def prepare() -> bytes:
            [result] = client.do_action(fl.Action("CreatePreparedStatement", body))
            return bytes(unpack(result.body.to_pybytes())[1].prepared_statement_handle)

        first = prepare()
        info_of(client, "CommandPreparedStatementQuery", prepared_statement_handle=first)
        for _ in range(PREPARED_MAX):
            last = prepare()
        with pytest.raises(fl.FlightServerError, match="prepare it again"):
            info_of(client, "CommandPreparedStatementQuery", prepared_statement_handle=first)
        closing = pack("ActionClosePreparedStatementRequest", prepared_statement_handle=last)
        list(client.do_action(fl.Action("ClosePreparedStatement", closing)))
        with pytest.raises(fl.FlightServerError, match="prepare it again"):
            info_of(client, "CommandPreparedStatementQuery", prepared_statement_handle=last)


@pytest.mark.parametrize(
    ("agent", "told"),
    [("ADBC Flight SQL Driver 1.13 grpc-go/1.84", [pa.null()] * 2), ("grpc-go/1.83", None)],
)
def test_the_driver_of_go_is_told_no_types_of_parameters(
    server: Server, agent: str, told: list[pa.DataType] | None
) -> None:
    """It sends values of the types that it has, but only where no schema says anything of them."""
    with fl.connect(server.url, generic_options=[("grpc.primary_user_agent", agent)]) as client:
        for sql, types in (
            ("SELECT n FROM events WHERE n = ? AND word = ?", told),
            ("SELECT 1", []),
        ):
            body = pack("ActionCreatePreparedStatementRequest", query=sql)
            [result] = client.do_action(fl.Action("CreatePreparedStatement", body))
            _, made = unpack(result.body.to_pybytes())
            if types is None:
                assert made.parameter_schema == b""
            else:
                assert pa.ipc.read_schema(pa.py_buffer(made.parameter_schema)).types == types


def test_what_the_driver_of_jdbc_needs_told(server: Server) -> None:
    java = [("grpc.primary_user_agent", "grpc-java-netty/1.70")]
    with fl.connect(server.url, generic_options=java) as client:
        sql = (
            "SELECT __time, CAST(? AS DOUBLE) FROM events WHERE __time >= ? AND n IN (?, ?) "
            "AND word BETWEEN ? AND 'c' AND ? = ? LIMIT ?"
        )
        body = pack("ActionCreatePreparedStatementRequest", query=f"SET timeout = 9000; {sql}")
        [result] = client.do_action(fl.Action("CreatePreparedStatement", body))
        _, made = unpack(result.body.to_pybytes())
        assert pa.ipc.read_schema(pa.py_buffer(made.parameter_schema)).types == [
            pa.float64(), pa.timestamp("ms"), pa.int64(), pa.int64(),
            pa.string(), pa.string(), pa.string(), pa.int64(),
        ]  # fmt: skip
        assert pa.ipc.read_schema(pa.py_buffer(made.dataset_schema)).types == [
            pa.timestamp("us"),
            pa.float64(),
        ]
        info = info_of(client, "CommandStatementQuery", query="SELECT __time FROM events LIMIT 1")
        rows = client.do_get(info.endpoints[0].ticket).read_all()
        assert rows.column(0)[0].as_py() == HOURS[0].replace(tzinfo=None)
        unsigned = "SELECT 255::UTINYINT AS b, [65535::USMALLINT] AS s, 4294967295::UINTEGER AS i"
        info = info_of(client, "CommandStatementQuery", query=unsigned)
        rows = client.do_get(info.endpoints[0].ticket).read_all()
        assert rows.to_pylist() == [{"b": 255, "s": [65535], "i": 4294967295}]
        assert rows.schema.types == [pa.int16(), pa.list_(pa.int32()), pa.int64()]
        info = info_of(client, "CommandStatementQuery", query="SELECT ~0::UBIGINT AS n")
        with pytest.raises(fl.FlightServerError, match="beyond 64 bits; select it as text"):
            client.do_get(info.endpoints[0].ticket).read_all()
        info = info_of(client, "CommandGetTables", include_schema=True, table_types=["TABLE"])
        [schema] = client.do_get(info.endpoints[0].ticket).read_all().column("table_schema")
        assert pa.ipc.read_schema(schema.as_buffer()).field("__time").type == pa.timestamp("us")


def test_anybody_may_log_in_as_over_http(server: Server) -> None:
    found = ask_once(server, "SELECT 1 AS one", username="somebody", password="wrong")
    assert found.num_rows == 1


def test_a_server_that_ends_stops_what_runs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.flight.grpc.CLOSE_MAX_MS", 300)
    with fl.connect(server.url) as client:
        info = info_of(client, "CommandStatementQuery", query=ENDLESS)
        failures: list[BaseException] = []
        other = threading.Thread(target=lambda: failures.append(_cancelled(client, info)))
        other.start()
        server.process.close()
        other.join()
        assert "cancelled" in str(failures[0]) or "available" in str(failures[0])


def test_a_port_that_is_taken_and_a_package_that_is_not_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(server.url.rpartition(":")[2])
    settings = Settings(store=str(tmp_path / "store"), flight_sql_port=port)
    with pytest.raises(Unavailable, match="choose another flight_sql_port"):
        open_process(ROLES, settings=settings, host="127.0.0.1", port=0)

    def missing() -> None:
        raise Invalid("Flight SQL needs protobuf")

    monkeypatch.setitem(__import__("sys").modules, "google.protobuf", None)
    with pytest.raises(Invalid, match="pip install"):
        messages.require_protobuf()
