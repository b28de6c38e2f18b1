"""A cluster whose store has users: processes know one another, and everybody else says who they are, at every door."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pyarrow.flight as fl
import pytest

from carnac.bootstrap.store import open_records
from carnac.clock import SystemClock, new_secret
from carnac.config import Settings
from carnac.core.access import Permission
from carnac.errors import Invalid
from carnac.flight import FlightSegmentServer
from carnac.ports.serving import Role
from carnac.store.upkeep.users import Users
from tests.e2e.cli import make_store
from tests.support.serve_process import Served, serving
from tests.waiting import until

pytestmark = pytest.mark.http
dbapi = pytest.importorskip(
    "adbc_driver_flightsql.dbapi", reason="make setup installs ADBC's driver"
)
ANA = ("ana", "reads alone")
COUNT = {"query": "SELECT count(*) AS n FROM flights", "resultFormat": "array"}


class Cluster:
    """A broker with a coordinator, and a historical, as processes.

    Attributes:
        users: Of the store; `ana` may read.
    """

    def __init__(self, folder: Path, steps: ExitStack) -> None:
        store = folder / "store"
        make_store(store)
        self.records = open_records(settings=Settings(store=str(store)), clock=SystemClock())
        steps.callback(self.records.close)
        self.users = Users(self.records, SystemClock(), new_secret)
        self.users.put(ANA[0], password=ANA[1])
        self.historical = steps.enter_context(
            serving(store, "--role", "historical", "--folder", str(folder / "h1"))
        )
        self.broker: Served = steps.enter_context(
            serving(store, "--role", "coordinator", "--role", "broker", CARNAC_FLIGHT_SQL_PORT="0")
        )

    def ask(self, body: dict[str, object], auth: tuple[str, str] | None = ANA) -> httpx.Response:
        """Ask the broker."""
        return httpx.post(
            f"{self.broker.url}/druid/v2/sql",
            json=body,
            auth=auth or httpx.USE_CLIENT_DEFAULT,
            timeout=60,
        )

    def flight_sql(self) -> str:
        """Return where the broker answers Flight SQL."""
        told = "Flight SQL is answered at "
        line = until(
            lambda: next((one for one in self.broker.lines if told in one), None), "Flight SQL"
        )
        return line.partition(told)[2].strip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as steps:
        yield Cluster(tmp_path_factory.mktemp("users"), steps)


def test_the_broker_is_answered_by_the_historical(cluster: Cluster) -> None:
    """It is asked only where it is known, and has nothing cold once it has loaded all."""

    def by_it_alone() -> list[list[int]] | None:
        answer = cluster.ask(COUNT)
        assert answer.status_code == 200, answer.text
        is_warm = answer.headers["x-carnac-segments-cold"] == "0"
        is_split = answer.headers["x-carnac-engine"] != "embedded"
        return answer.json() if is_warm and is_split else None

    assert until(by_it_alone, "an answer of the historical")[0][0] > 0


def test_nobody_is_answered_without_a_name(cluster: Cluster) -> None:
    assert cluster.ask(COUNT, None).status_code == 401
    assert cluster.ask(COUNT, ("ana", "reads along")).status_code == 401
    assert httpx.get(f"{cluster.historical.url}/status").status_code == 401
    assert httpx.get(f"{cluster.historical.url}/status/health").json() is True
    assert httpx.get(f"{cluster.broker.url}/iceberg/v1/namespaces").status_code == 401


def test_a_historical_answers_its_cluster_alone(cluster: Cluster) -> None:
    record = until(lambda: next(iter(cluster.records.servers(Role.HISTORICAL)), None), "its record")
    for token in (None, lambda: "0" * 64):
        stranger = FlightSegmentServer(record.url, record.server_id, token=token)
        with pytest.raises(Invalid, match="answers processes of its cluster alone"):
            stranger.inventory()
        stranger.close()


def test_flight_sql_asks_for_a_name_and_gives_a_token(cluster: Cluster) -> None:
    place = cluster.flight_sql()
    count = COUNT["query"]
    for known in (
        {"username": ANA[0], "password": ANA[1]},
        {"adbc.flight.sql.authorization_header": f"Bearer {cluster.users.token('ana')}"},
    ):
        with dbapi.connect(place, db_kwargs=known, autocommit=True) as link, link.cursor() as one:
            one.execute(count)
            assert one.fetchone()[0] > 0
    for unknown in ({}, {"username": ANA[0], "password": "reads along"}):
        with (
            pytest.raises(dbapi.Error, match=r"has users|name or password is wrong"),
            dbapi.connect(place, db_kwargs=unknown, autocommit=True) as link,
            link.cursor() as one,
        ):
            one.execute(count)
    with pytest.raises(fl.FlightUnauthenticatedError, match="has users"):
        fl.FlightClient(place.replace("grpc://", "grpc+tcp://")).get_flight_info(
            fl.FlightDescriptor.for_command(b"")
        )


def test_a_user_that_is_removed_is_forgotten_soon(cluster: Cluster) -> None:
    cluster.users.put("bo", permission=Permission.ADMIN, password="rules it all")
    bo = ("bo", "rules it all")
    until(lambda: cluster.ask(COUNT, bo).status_code == 200 or None, "a new user")
    cluster.users.remove("bo")
    until(lambda: cluster.ask(COUNT, bo).status_code == 401 or None, "a user that is gone")
