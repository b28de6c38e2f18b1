"""A cluster whose store has users: processes know one another, and everybody else says who they are, at every door."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pyarrow.flight as fl
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from carnac.api.client import OverlordClient
from carnac.bootstrap.store import open_records
from carnac.clock import SystemClock, new_secret
from carnac.config import Settings
from carnac.core.access import Permission, read_patterns
from carnac.errors import Invalid, Unavailable
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
        self.store = store = folder / "store"
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


def answered_by_historicals(ask: Callable[[], httpx.Response]) -> list[list[int]]:
    """Return the answer of a broker once it asks a historical: where it is known, and has nothing cold any more."""

    def by_it_alone() -> list[list[int]] | None:
        answer = ask()
        assert answer.status_code == 200, answer.text
        is_warm = answer.headers["x-carnac-segments-cold"] == "0"
        is_split = answer.headers["x-carnac-engine"] != "embedded"
        return answer.json() if is_warm and is_split else None

    return until(by_it_alone, "an answer of the historical")


def test_the_broker_is_answered_by_the_historical(cluster: Cluster) -> None:
    assert answered_by_historicals(lambda: cluster.ask(COUNT))[0][0] > 0


def test_nobody_is_answered_without_a_name(cluster: Cluster) -> None:
    assert cluster.ask(COUNT, None).status_code == 401
    assert cluster.ask(COUNT, ("ana", "reads along")).status_code == 401
    assert httpx.get(f"{cluster.historical.url}/status").status_code == 401
    assert httpx.get(f"{cluster.historical.url}/status/health").json() is True
    assert any(f"curl -u ana {cluster.broker.url}" in line for line in cluster.broker.lines)
    catalog = httpx.get(f"{cluster.broker.url}/iceberg/v1/namespaces")
    assert (catalog.status_code, catalog.json()["error"]["type"]) == (401, "NotAuthorizedException")


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


def test_the_query_log_says_who_asked(cluster: Cluster) -> None:
    assert cluster.ask({"query": "SELECT 'by HTTP'"}).status_code == 200
    known = {"username": ANA[0], "password": ANA[1]}
    with (
        dbapi.connect(cluster.flight_sql(), db_kwargs=known, autocommit=True) as link,
        link.cursor() as one,
    ):
        one.execute("SELECT 'by Flight SQL'")
        one.fetchall()

    def clients() -> set[str] | None:
        log = (cluster.store / "query-log.jsonl").read_text().splitlines()
        found = [one for one in map(json.loads, log) if "SELECT 'by" in one["statement"]]
        doors = {one["statement"].partition("'by ")[2][:4] for one in found}
        return {one["client"] for one in found} if doors == {"HTTP", "Flig"} else None

    assert until(clients, "a line of each door") == {"ana"}


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate of this machine that is known by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    own = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(own, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def test_what_clients_send_and_get_is_encrypted(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    make_store(tmp_path / "store")
    named = ["--tls-certificate", str(cert), "--tls-key", str(key)]
    with serving(tmp_path / "store", *named, CARNAC_FLIGHT_SQL_PORT="0") as served:
        assert served.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=cert)
        answer = httpx.post(f"{served.url}/druid/v2/sql", json=COUNT, verify=trusting, timeout=60)
        assert answer.json()[0][0] > 0
        for place, verify in ((served.url.replace("https", "http"), True), (served.url, True)):
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{place}/status/health", verify=verify)
        with (
            OverlordClient(served.url, SystemClock()) as stranger,
            pytest.raises(Unavailable, match="to trust in SSL_CERT_FILE"),
        ):
            stranger.get("a")
        told = "Flight SQL is answered at "
        place = next(one for one in served.lines if told in one).partition(told)[2].strip()
        trust = {"adbc.flight.sql.client_option.tls_root_certs": cert.read_text()}
        with dbapi.connect(place, db_kwargs=trust, autocommit=True) as link, link.cursor() as one:
            one.execute(COUNT["query"])
            assert one.fetchone()[0] > 0


@pytest.mark.nightly("starts another cluster")
def test_what_a_broker_asks_historicals_is_encrypted(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    store = tmp_path / "store"
    make_store(store)
    named = ["--tls-certificate", str(cert), "--tls-key", str(key)]
    trust = {"SSL_CERT_FILE": str(cert)}
    trusting = ssl.create_default_context(cafile=cert)
    folder = str(tmp_path / "h1")
    with (
        serving(store, *named, "--role", "historical", "--folder", folder, **trust),
        serving(store, *named, "--role", "coordinator", "--role", "broker", **trust) as broker,
    ):
        place = f"{broker.url}/druid/v2/sql"
        told = answered_by_historicals(
            lambda: httpx.post(place, json=COUNT, verify=trusting, timeout=60)
        )
        assert told[0][0] > 0
        settings = Settings(store=str(store))
        with closing(open_records(settings=settings, clock=SystemClock())) as records:
            (record,) = records.servers(Role.HISTORICAL)
        assert record.url.startswith("grpc+tls://127.0.0.1:")
        for url, said in (
            (record.url, "no certificate that is trusted here: .* in SSL_CERT_FILE"),
            (record.url.replace("tls", "tcp"), "cannot be reached"),
        ):
            stranger = FlightSegmentServer(url, record.server_id)
            with pytest.raises(Unavailable, match=said):
                stranger.inventory()
            stranger.close()
        listed = subprocess.run(
            [sys.executable, "-m", "carnac", "servers", "--store", str(store)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "does not answer" in listed.stdout
        warning = (
            f"warning: {record.server_id}: historical {record.server_id} at {record.url} shows"
        )
        assert listed.stderr.startswith(warning), "gRPC says nothing of its own"
        assert len(listed.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["--tls-key", "key.pem"], "give both"),
        (["--tls-key", "key.pem", "--tls-certificate", "none.pem"], "cannot read none.pem"),
        (["--tls-key", "cert.pem", "--tls-certificate", "key.pem"], "are no certificate with"),
        (["--tls-key", "key.pem", "--tls-certificate", "."], "cannot read .: Is a directory"),
    ],
)
def test_files_that_are_no_certificate_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_certificate(tmp_path)
    make_store(tmp_path / "store")
    done = subprocess.run(
        [sys.executable, "-m", "carnac", "serve", "--store", "store", "--port", "0", *named],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_user_of_other_datasources_is_told_that_there_is_none(cluster: Cluster) -> None:
    cluster.users.put("cy", password="reads the web", datasources=read_patterns(["web"]))
    cy = ("cy", "reads the web")
    until(lambda: cluster.ask({"query": "SELECT 1"}, cy).status_code == 200 or None, "a new user")
    answered_by_historicals(lambda: cluster.ask(COUNT))
    assert "there is no datasource 'flights'" in cluster.ask(COUNT, cy).text
    cluster.users.put("cy", datasources=read_patterns(["fl*s"]))
    until(lambda: cluster.ask(COUNT, cy).status_code == 200 or None, "other datasources")
    assert cluster.ask(COUNT, cy).json() == cluster.ask(COUNT).json()


def test_a_user_that_is_removed_is_forgotten_soon(cluster: Cluster) -> None:
    cluster.users.put("bo", permission=Permission.ADMIN, password="rules it all")
    bo = ("bo", "rules it all")
    until(lambda: cluster.ask(COUNT, bo).status_code == 200 or None, "a new user")
    cluster.users.remove("bo")
    until(lambda: cluster.ask(COUNT, bo).status_code == 401 or None, "a user that is gone")
