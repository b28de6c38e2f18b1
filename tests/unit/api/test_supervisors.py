"""Supervisors under Druid's paths: what is answered, and in which words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from carnac.api.overlord.supervisor_client import SupervisorClient
from carnac.core.log.commits import CommitKind, Publication
from carnac.errors import NotFound
from tests.unit.api.conftest import Overlord
from tests.unit.overlord.test_supervisors import SPEC

PATH = "/druid/indexer/v1/supervisor"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carnac.overlord.supervisors.stream.TIMEOUT_S", 0.1)


@pytest.fixture
def posted(overlord: Overlord) -> Overlord:
    answer = overlord.http.post(PATH, json=SPEC)
    assert (answer.status_code, answer.json()) == (200, {"id": "clicks"})
    return overlord


def get(overlord: Overlord, path: str = "", code: int = 200) -> Any:
    answer = overlord.http.get(f"{PATH}{path}")
    assert answer.status_code == code, answer.text
    return answer.json()


def post(overlord: Overlord, path: str, code: int = 200, **how: Any) -> Any:
    answer = overlord.http.post(f"{PATH}{path}", **how)
    assert answer.status_code == code, answer.text
    return answer.json()


@pytest.mark.slow
def test_a_supervisor_is_listed_as_druid_lists_it(posted: Overlord) -> None:
    assert get(posted) == ["clicks"]
    state = {
        "id": "clicks",
        "state": "UNHEALTHY_SUPERVISOR",
        "detailedState": "UNABLE_TO_CONNECT_TO_STREAM",
        "healthy": False,
        "suspended": False,
    }
    assert get(posted, "?state=true") == [state]
    payload = get(posted, "/clicks/status")["payload"]
    assert {key: payload[key] for key in state if key != "id"} == {
        key: value for key, value in state.items() if key != "id"
    }
    (full,) = get(posted, "?full")
    assert full.pop("spec")["spec"]["ioConfig"]["topic"] == "clicks"
    assert full == state


def test_a_spec_is_shown_without_its_secrets(posted: Overlord) -> None:
    shown = get(posted, "/clicks")
    assert shown["spec"]["ioConfig"]["consumerProperties"]["sasl.password"] == "***"
    assert "deep" not in posted.http.get(f"{PATH}/history").text
    post(posted, "", json=shown)
    assert posted.metadata.supervisors()[0].spec.count("deep") == 1


def test_status_health_and_stats_have_druids_names(posted: Overlord) -> None:
    status = get(posted, "/clicks/status")
    assert (status["id"], status["payload"]["state"]) == ("clicks", "UNHEALTHY_SUPERVISOR")
    assert {
        *("dataSource", "stream", "partitions", "replicas", "durationSeconds", "activeTasks"),
        *("publishingTasks", "latestOffsets", "minimumLag", "aggregateLag", "offsetsLastUpdated"),
        *("suspended", "healthy", "state", "detailedState", "recentErrors"),
    } <= status["payload"].keys()
    assert get(posted, "/clicks/health", 503) == {"healthy": False}
    assert get(posted, "/clicks/stats") == {}


def test_history_ends_with_a_noop(posted: Overlord) -> None:
    assert post(posted, "/clicks/terminate") == {"id": "clicks"}
    assert get(posted) == []
    last, first = get(posted, "/clicks/history")
    assert last["spec"]["type"] == "NoopSupervisorSpec"
    assert first == {"spec": first["spec"], "version": "2014-01-01T00:00:00.000Z"}
    assert list(get(posted, "/history")) == ["clicks"]
    get(posted, "/nobody/history", 404)


def test_orders(posted: Overlord) -> None:
    assert post(posted, "/clicks/suspend")["suspended"] is True
    assert get(posted, "?state=true")[0]["state"] == "SUSPENDED"
    assert post(posted, "/clicks/resume")["suspended"] is False
    assert post(posted, "/suspendAll") == {"status": "success"}
    assert get(posted, "?state=true")[0]["suspended"] is True
    assert post(posted, "/resumeAll") == {"status": "success"}
    assert post(posted, "/clicks/reset") == {"id": "clicks"}
    assert post(posted, "/terminateAll") == {"status": "success"}
    assert get(posted) == []
    post(posted, "/clicks/shutdown", 404)


def test_offsets_are_set_as_druid_sets_them(posted: Overlord) -> None:
    posted.metadata.publish(
        Publication(kind=CommitKind.APPEND, writer="clicks", offsets={"clicks/0": "9"})
    )
    offsets = {"type": "end", "stream": "clicks", "partitionOffsetMap": {"0": 3, "clicks:1": 4}}
    body = {"type": "kafka", "partitions": offsets}
    assert post(posted, "/clicks/resetOffsets", json=body) == {"id": "clicks"}
    found = {name: one.offset for name, one in posted.metadata.position("clicks").items()}
    assert found == {"clicks/0": "3", "clicks/1": "4"}
    assert "partitions is required" in post(posted, "/clicks/resetOffsets", 400, json={})["error"]
    wrong = {**offsets, "partitionOffsetMap": {"0": "x"}}
    answer = post(posted, "/clicks/resetOffsets", 400, json={"partitions": wrong})
    assert "must be a whole number from 0" in answer["error"]


def test_what_is_wrong_is_one_sentence_with_its_place(overlord: Overlord) -> None:
    spec = deepcopy(SPEC)
    del spec["spec"]["ioConfig"]["topic"]
    said = post(overlord, "", 400, json=spec)["error"]
    assert said == "wrong spec: spec.ioConfig.topic: is required, or topicPattern in its place"
    spec = deepcopy(SPEC)
    spec["spec"]["dataSchema"]["transformSpec"] = {"filter": {"type": "javascript"}}
    assert "javascript" in post(overlord, "", 400, json=spec)["error"]
    spec = {**SPEC, "context": {"sparkConf": {"spark.jars": "x"}}}
    assert "may not set 'spark.jars'" in post(overlord, "", 400, json=spec)["error"]


def test_the_client_of_the_command_line_says_the_same(posted: Overlord) -> None:
    import httpx

    class Sync(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = posted.http.request(
                request.method,
                request.url.raw_path.decode(),
                content=request.read(),
                headers={"content-type": "application/json"},
            )
            return httpx.Response(answer.status_code, content=answer.content)

    client = SupervisorClient("http://one:8090", posted.clock, transport=Sync())
    assert client.submit_spec(SPEC) == "clicks"
    assert [one["id"] for one in client.states()] == ["clicks"]
    assert client.status("clicks")["id"] == "clicks"
    assert client.spec("clicks")["type"] == "kafka"
    client.suspend("clicks")
    client.resume("clicks")
    client.reset("clicks")
    client.terminate("clicks")
    with pytest.raises(NotFound, match="cannot find any supervisor"):
        client.status("clicks")
