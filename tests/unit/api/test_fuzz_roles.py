"""Whatever comes over HTTP to a broker or a coordinator is answered, too, and both still do their work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from carnac.api import allocation
from carnac.api.admission import Admission
from carnac.api.app import make_app
from carnac.api.avatica.routes import AVATICA_PATH
from carnac.api.coordinator import lookups, make_routers
from carnac.api.hosts import hosts_of
from carnac.api.overlord.compaction import make_older_router
from carnac.bootstrap.serving import metrics
from carnac.bootstrap.serving.broker import open_broker
from carnac.bootstrap.serving.coordinator import publish_lookups
from carnac.clock import StoreClock
from carnac.config import Settings
from carnac.coordinator.lookups import Lookups
from carnac.coordinator.view import ClusterView
from carnac.core.texts import LINE_MAX
from carnac.overlord.compactor.service import CompactionService
from tests.clusters_live import live_cluster
from tests.e2e.cli import make_store
from tests.logs import append, segment
from tests.support.serving import doors_of
from tests.unit.api.conftest import Overlord
from tests.unit.api.test_fuzz import (
    OF_BOTH,
    OWN,
    ROUTES,
    Answer,
    Door,
    Request,
    as_json,
    bodies,
    requests,
)

SQL = {
    "query": "SELECT carrier, count(*) FROM flights WHERE delay > ? GROUP BY 1 LIMIT 3",
    "resultFormat": "arrayLines",
    "header": True,
    "parameters": [{"type": "BIGINT", "value": 1}, {"type": "ARRAY", "value": ["a"]}],
    "context": {"sqlQueryId": "q", "timeout": 1_000, "priority": 1, "lane": "a", "sqlTimeZone": "Etc/UTC"},
}  # fmt: skip
NATIVE = {
    "queryType": "groupBy",
    "dataSource": "flights",
    "intervals": ["2013-01-01/P1M"],
    "granularity": "day",
    "dimensions": ["carrier"],
    "filter": {"type": "bound", "dimension": "delay", "lower": "1", "ordering": "numeric"},
    "aggregations": [{"type": "longSum", "name": "s", "fieldName": "delay"}],
    "limitSpec": {"type": "default", "limit": 3},
    "context": {"queryId": "n", "timeout": 1_000},
}
PREPARED = {
    "request": "execute",
    "statementHandle": {"connectionId": "c", "id": 2, "signature": {"sql": "SELECT ? AS a"}},
    "parameterValues": [{"type": "JAVA_SQL_DATE", "value": 1}],
    "maxRowCount": 100,
}
RULES = [
    {"type": "loadByPeriod", "period": "P1M", "includeFuture": True, "tieredReplicants": {"_default_tier": 2}},
    {"type": "dropByInterval", "interval": "2013-01-01/2013-01-02"},
    {"type": "loadForever"},
]  # fmt: skip
BODIES: tuple[object, ...] = (
    SQL,
    NATIVE,
    {"query": "SELECT repeat(?, 3)", "parameters": [{"type": "VARCHAR", "value": "a"}]},
    RULES,
    {"interval": "2013-01-01/2013-01-02", "segmentIds": ["a1"], "versions": ["v"]},
    {"request": "openConnection", "connectionId": "c", "info": {"sqlTimeZone": "Etc/UTC"}},
    {"request": "connectionSync", "connectionId": "c", "connProps": {"dirty": True}},
    {"request": "createStatement", "connectionId": "c"},
    {"request": "prepare", "connectionId": "c", "sql": "SELECT ? AS a", "maxRowCount": -1},
    {
        "request": "prepareAndExecute",
        "connectionId": "c",
        "statementId": 2,
        "sql": "SELECT 1",
        "maxRowCount": 2,
    },
    PREPARED,
    {
        "request": "fetch",
        "connectionId": "c",
        "statementId": 2,
        "offset": 0,
        "fetchMaxRowCount": 100,
    },
    {"request": "syncResults", "connectionId": "c", "statementId": 2, "state": {}, "offset": 0},
    {"request": "getTables", "connectionId": "c", "tableNamePattern": "%", "typeList": ["TABLE"]},
    ["h1:8083"],
    {"__default": {"a": {"lookupExtractorFactory": {"type": "map", "map": {"a": "b", "c": 1}}}}},
    {"version": "v1", "lookupExtractorFactory": {"type": "map", "map": {"a": "b"}}},
    {
        "dataSource": "events",
        "skipOffsetFromLatest": "P1D",
        "taskContext": {"sparkConf": {"spark.jars": "a"}},
    },
    {"maxSegmentsToMove": 5, "decommissioningNodes": ["h1:8083"], "pauseCoordination": False},
)


def is_told_to_a_driver(request: Request, answer: Answer) -> bool:
    """Whether an answer is a failure as JDBC's driver reads it, which takes no status but 200 and 500."""
    said = json.loads(answer.body)
    is_known = set(said) >= {"response", "errorCode", "sqlState"} and said["response"] == "error"
    return is_known and request.path.rstrip(b"/") == AVATICA_PATH.encode()


class Roles:
    """A door to a process of both roles, and what each answer is held against."""

    def __init__(self, door: Door, paths: set[str]) -> None:
        self.door, self.paths = door, paths

    def ask(self, request: Request, caplog: pytest.LogCaptureFixture) -> Answer:
        """Send a request; it is the client's fault, or answered."""
        caplog.clear()
        answer = self.door.send(request)
        is_fine = answer.status in {501, 503, 504} or 200 <= answer.status < 500
        assert is_fine or is_told_to_a_driver(request, answer), (request, answer)
        assert [one for one in caplog.records if one.exc_info or "\n" in one.getMessage()] == []
        if answer.status >= 400 and answer.headers.get("content-type") == "application/json":
            problem = json.loads(answer.body)
            sentence = problem.get("errorMessage", problem.get("error"))
            if request.path.startswith(b"/iceberg") and isinstance(sentence, dict):
                sentence = sentence["message"]
            assert sentence.isprintable(), request
            assert 0 < len(sentence) <= LINE_MAX, request
        return answer


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roles]:
    store = make_store(Path(tmp_path_factory.mktemp("store")) / "store")
    with ExitStack() as stack:
        cluster = stack.enter_context(live_cluster("h1", "h2"))
        append(cluster.metadata, segment("a1", "2013-01-01/2013-01-02", rows=10))
        cluster.settle()
        view = ClusterView(
            cluster.metadata,
            cluster.coordinator,
            url="http://one:8081",
            serves_itself=False,
            delete=cluster._delete,
        )
        values = Settings(store=str(store), query_log_limit_bytes=0, query_timeout_ms=5_000)
        broker = stack.enter_context(open_broker(values, StoreClock()))
        routers = [
            *doors_of(broker),
            *make_routers(view),
            metrics.make_router(CollectorRegistry()),
            allocation.make_router(cluster.metadata),
            lookups.make_router(
                Lookups(cluster.metadata, partial(publish_lookups, cluster.metadata))
            ),
            make_older_router(
                CompactionService(cluster.metadata, cluster.clock),
                admission=Admission(input_roots=()),
                task_slots=2,
            ),
        ]
        app = make_app(routers, hosts=hosts_of("one"))
        runner = stack.enter_context(asyncio.Runner())
        yield Roles(Door(app, runner, stays=True), set(app.openapi()["paths"]))


def own_routes() -> list[tuple[str, str]]:
    """Return the routes of these roles: those that the tests of an overlord do not reach."""
    return [route for route in ROUTES if route not in OWN]


@pytest.mark.parametrize("route", own_routes(), ids=" ".join)
@settings(
    suppress_health_check=[*HealthCheck], max_examples=max(5, settings.default.max_examples // 3)
)
@given(data=st.data())
def test_every_route_answers_whatever_comes(
    roles: Roles, caplog: pytest.LogCaptureFixture, route: tuple[str, str], data: st.DataObject
) -> None:
    roles.ask(data.draw(requests(route, BODIES)), caplog)


STRANGERS = {
    "a name that is not ours": [(b"host", b"evil.example.com")],
    "a page of another site": [(b"host", b"one"), (b"origin", b"http://evil.example.com")],
    "a form": [(b"host", b"one"), (b"content-type", b"application/x-www-form-urlencoded")],
    "a form of another site": [
        (b"host", b"one"),
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"sec-fetch-site", b"cross-site"),
    ],
}
READS_FORMS = "/druid/v2/sql"
"""Of no other site."""


KEPT_OUT = [
    (who, method, path)
    for method, path in own_routes()
    for who, headers in STRANGERS.items()
    if method not in {"GET", "HEAD"}
    or headers[0][1] != b"one"  # nobody can read an answer of another site
    if (who, path) != ("a form", READS_FORMS)
]


@pytest.mark.parametrize(("who", "method", "path"), KEPT_OUT)
def test_no_route_answers_a_stranger(
    roles: Roles, caplog: pytest.LogCaptureFixture, who: str, method: str, path: str
) -> None:
    answer = roles.ask(Request(method, path.encode(), headers=STRANGERS[who]), caplog)
    assert answer.status in {403, 415}, answer


def test_they_still_do_their_work(roles: Roles, caplog: pytest.LogCaptureFixture) -> None:
    body = as_json({"query": "SELECT count(*) AS n FROM flights"})
    answer = roles.ask(Request("POST", b"/druid/v2/sql", pieces=[body]), caplog)
    assert answer.status == 200, answer
    assert json.loads(answer.body)[0]["n"] > 0
    leader = roles.ask(Request("GET", b"/druid/coordinator/v1/leader"), caplog)
    assert leader.status == 200


@settings(suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_a_connection_that_is_open_answers_whatever_comes(
    roles: Roles, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    path = AVATICA_PATH.encode()
    opened = as_json({"request": "openConnection", "connectionId": "c"})
    for one in (opened, as_json(PREPARED)):
        roles.ask(Request("POST", path, pieces=[one]), caplog)
    body = data.draw(bodies([one for one in BODIES if "request" in one]))
    roles.ask(Request("POST", path, pieces=[body]), caplog)


def test_every_route_of_every_role_is_reached(roles: Roles, overlord: Overlord) -> None:
    reached = roles.paths | set(overlord.app.openapi()["paths"]) | {"/", "/docs", "/openapi.json"}
    reached.add(OF_BOTH)
    assert {path for _, path in ROUTES} - reached == set()
    # what Prometheus reads is described in the guide, not among the routes of the API
    assert roles.paths - {"/metrics"} <= {path for _, path in ROUTES}
