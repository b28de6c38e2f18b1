"""The task API: Druid's paths, shapes and status codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import carnac
from carnac.specs.druid.elsewhere import ELSEWHERE, what_instead
from carnac.store.jobs import outcome_report
from tests.unit.api.conftest import LEADER_URL, Overlord, Submit

API = "/druid/indexer/v1"
START = "2014-01-01T00:00:00.000Z"


def ids(overlord: Overlord, path: str, **params: object) -> list[str]:
    answer = overlord.http.get(f"{API}/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return [task["id"] for task in answer.json()]


def test_a_task_is_submitted_and_found_again(overlord: Overlord, submit: Submit) -> None:
    task_id = submit(interval="2014-01-01/P1D")
    assert task_id.startswith("kill_events_")
    assert submit("mine") == submit("mine") == "mine", "the same task again is the same task"
    found = overlord.http.get(f"{API}/task/{task_id}").json()
    assert found["task"] == task_id
    assert found["payload"]["interval"] == "2014-01-01/P1D"
    assert found["payload"]["id"] == task_id


def test_a_pending_task_has_druid_s_shape(overlord: Overlord, submit: Submit) -> None:
    submit("k")
    answer = overlord.http.get(f"{API}/task/k/status")
    assert answer.json() == {
        "task": "k",
        "status": {
            "id": "k",
            "groupId": "k",
            "type": "kill",
            "createdTime": START,
            "queueInsertionTime": START,
            "statusCode": "RUNNING",
            "status": "RUNNING",
            "runnerStatusCode": "PENDING",
            "duration": -1,
            "location": {"host": None, "port": -1, "tlsPort": -1},
            "dataSource": "events",
            "errorMsg": None,
        },
    }


def test_each_state_in_druid_s_words(overlord: Overlord, submit: Submit) -> None:
    for task_id in ("first", "second", "cancelled"):
        submit(task_id)
    submit("waiting", dependencies=["second"])
    assert overlord.start_next(capacity=1) == ["first"]
    overlord.http.post(f"{API}/task/cancelled/shutdown")
    running = overlord.http.get(f"{API}/task/first/status").json()["status"]
    assert (running["status"], running["runnerStatusCode"]) == ("RUNNING", "RUNNING")
    assert running["location"] == {"host": "box", "port": -1, "tlsPort": -1}
    overlord.clock.advance_ms(1_500)
    overlord.finish("first")
    states = {
        task["id"]: (task["status"], task["runnerStatusCode"], task["duration"], task["errorMsg"])
        for task in overlord.http.get(f"{API}/tasks").json()
    }
    assert states == {
        "first": ("SUCCESS", "NONE", 1_500, None),
        "second": ("RUNNING", "PENDING", -1, None),
        "waiting": ("RUNNING", "WAITING", -1, None),
        "cancelled": ("FAILED", "NONE", 0, "Shutdown request from user"),
    }


def test_lists_by_state_datasource_type_time_and_number(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    submit("b")
    overlord.clock.advance_ms(86_400_000)
    submit("c", dataSource="other")
    submit("d", type="clean", dependencies=["c"])
    assert overlord.start_next(capacity=2) == ["a", "b"]
    overlord.finish("a")
    assert ids(overlord, "tasks") == ["d", "c", "b", "a"]
    assert ids(overlord, "tasks", state="running") == ids(overlord, "runningTasks") == ["b"]
    assert ids(overlord, "tasks", state="PENDING") == ids(overlord, "pendingTasks") == ["c"]
    assert ids(overlord, "tasks", state="waiting") == ids(overlord, "waitingTasks") == ["d"]
    assert ids(overlord, "tasks", state="complete") == ids(overlord, "completeTasks") == ["a"]
    assert ids(overlord, "tasks", datasource="other") == ["c"]
    assert ids(overlord, "tasks", type="clean") == ["d"]
    assert ids(overlord, "tasks", createdTimeInterval="2014-01-01_2014-01-02") == ["b", "a"]
    assert ids(overlord, "tasks", createdTimeInterval="2014-01-02_P1D") == ["d", "c"]
    assert ids(overlord, "tasks", max=0) == ["d", "c", "b"], "max is about tasks that are over"
    assert ids(overlord, "completeTasks", n=0) == []


def test_a_slash_at_the_end_changes_nothing(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    assert ids(overlord, "tasks/") == ["a"]
    answer = overlord.http.post(f"{API}/task/", json={"type": "kill", "dataSource": "x", "id": "b"})
    assert answer.json() == {"task": "b"}
    assert overlord.http.get("/status/health/").json() is True


def test_statuses_of_several_tasks(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    overlord.start_next()
    overlord.finish("a", error="no such column")
    report = overlord.http.get(f"{API}/task/a/reports").json()
    assert report["error"] == "task a has no report; it is failed: no such column"
    answer = overlord.http.post(f"{API}/taskStatus", json=["a", "unknown"])
    assert answer.json() == {
        "a": {
            "id": "a",
            "status": "FAILED",
            "duration": 0,
            "errorMsg": "no such column",
            "location": {"host": "box", "port": -1, "tlsPort": -1},
        }
    }


def test_a_report_is_found_by_druid_s_clients_and_by_ours(
    overlord: Overlord, submit: Submit, tmp_path: Path
) -> None:
    submit("a")
    assert overlord.http.get(f"{API}/task/a/reports").status_code == 404
    overlord.start_next()
    spec = {
        "dataSource": "edits",
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensions": ["page"],
        "metrics": [{"type": "count", "name": "edits"}],
        "granularitySpec": {"intervals": ["1970-01-01/1970-01-02"], "queryGranularity": "day"},
    }
    times: list[object] = [*range(8), "never", *[10**12] * 2]
    with carnac.open(tmp_path / "store", create=True) as store:
        outcome = store.append("edits", [{"t": str(at), "page": "a"} for at in times], spec=spec)
    report = outcome_report(outcome)
    overlord.finish("a", report=json.dumps(report))
    found = overlord.http.get(f"{API}/task/a/reports").json()
    assert found["carnac"] == report
    whole = found["ingestionStatsAndErrors"]
    assert whole["taskId"] == "a"
    assert whole["payload"]["ingestionState"] == "COMPLETED"
    assert whole["payload"]["rowStats"]["buildSegments"] == {
        "processed": 8,
        "processedBytes": report["sizeBytes"],
        "processedWithError": 0,
        "thrownAway": 2,
        "unparseable": 1,
    }


def test_a_report_of_files_with_odd_names_is_sent(overlord: Overlord, submit: Submit) -> None:
    """A name that is no UTF-8 is a text with half of a surrogate pair; a sum may be no number."""
    submit("a")
    overlord.start_next()
    overlord.finish("a", report='{"file": "a\\udcff.json", "sum": NaN, "most": Infinity}')
    for path in ("/carnac/v1/tasks/a/report", f"{API}/task/a/reports"):
        answer = overlord.http.get(path)
        assert (answer.status_code, "a?.json" in answer.text) == (200, True), answer.text


def test_cancelling_ends_it_and_again_changes_nothing(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    for _ in range(2):
        answer = overlord.http.post(f"{API}/task/a/shutdown")
        assert (answer.status_code, answer.json()) == (200, {"task": "a"})
    assert overlord.http.post(f"{API}/task/a/retry").json() == {"task": "a"}
    assert ids(overlord, "pendingTasks") == ["a"]
    answer = overlord.http.post(f"{API}/task/a/retry")
    assert answer.status_code == 409


def test_all_tasks_of_a_datasource(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    submit("b", dataSource="other")
    path = f"{API}/datasources/events/shutdownAllTasks"
    assert overlord.http.post(path).json() == {"dataSource": "events"}
    assert ids(overlord, "pendingTasks") == ["b"]
    assert overlord.http.post(path).status_code == 404


def test_in_our_own_words(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    overlord.start_next()
    found = overlord.http.get("/carnac/v1/tasks/a").json()
    assert found["task"]["state"] == "running"
    assert found["task"]["created_at"] == START
    assert found["attempts"][0]["holder"] == "process 17 on box"
    listed = overlord.http.get("/carnac/v1/tasks", params={"state": "running"}).json()["tasks"]
    assert [task["task_id"] for task in listed] == ["a"]


# ----------------------------------------------------------------------------------------------- logs


def test_a_log_whole_and_in_parts(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    answer = overlord.http.get(f"{API}/task/a/log")
    assert (answer.status_code, answer.json()["category"]) == (404, "NOT_FOUND")
    overlord.start_next()
    logs = overlord.tasks._runners["fake"]._logs  # type: ignore[attr-defined]
    logs.prepare("a", 1).write_text("one\ntwo\nthree é\n")

    def read(**params: object) -> str:
        answer = overlord.http.get(f"{API}/task/a/log", params=params)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        return answer.text

    assert read() == read(attempt=1) == "one\ntwo\nthree é\n"
    assert read(offset=4) == "two\nthree é\n"
    assert read(offset=-9) == "three é\n"
    assert read(offset=1000) == ""
    assert overlord.http.get(f"{API}/task/a/log", params={"attempt": 2}).status_code == 404


def test_a_log_that_is_elsewhere(overlord: Overlord, submit: Submit) -> None:
    submit("a b?")
    overlord.start_next()
    log = f"{API}/task/a%20b%3F/log"
    answer = overlord.http.get(log)
    assert answer.status_code == 404
    assert "it was run by process 17 on box" in answer.json()["error"]
    overlord.metadata.resign("overlord", "one")
    overlord.lead("two")
    answer = overlord.http.get(log, params={"attempt": 1, "offset": -9})
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{LEADER_URL}{log}?offset=-9&attempt=1"


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/task/none", 404, "there is no task none"),
        ("GET", "/task/none/status", 404, "there is no task none"),
        ("GET", "/task/none/reports", 404, "there is no task none"),
        ("GET", "/task/none/log", 404, "there is no task none"),
        ("POST", "/task/none/shutdown", 404, "there is no task none"),
        ("POST", "/task/none/retry", 404, "there is no task none"),
        ("GET", "/tasks?state=dead", 400, "there is no state 'dead'; there are pending, waiting"),
        ("GET", "/tasks?max=many", 400, "query max is wrong"),
        ("GET", "/tasks?createdTimeInterval=2014", 400, "'2014' is not an interval"),
        (
            "GET",
            "/nothing",
            404,
            "there is no path /druid/indexer/v1/nothing: ask an overlord",
        ),
        ("POST", "/supervisor/x/taskGroups/handoff", 404, "without hand-off of task groups"),
        ("GET", "/supervisor/x/status", 404, "cannot find any supervisor with id: [x]"),
        ("POST", "/sampler", 404, "carnac spec check FILE"),
        ("DELETE", "/tasks", 405, "/druid/indexer/v1/tasks takes no DELETE: GET /docs lists"),
    ],
)
def test_mistakes_are_one_sentence_in_druid_s_shape(
    overlord: Overlord, method: str, path: str, status: int, words: str
) -> None:
    answer = overlord.http.request(method, API + path)
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert words in body["error"]
    assert body["errorMessage"] == body["error"]
    assert "\n" not in body["error"]
    assert {"errorCode", "errorClass", "persona", "category", "host", "context"} <= body.keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the body is not valid JSON"),
        ("[" * 100_000, "the body is nested deeper than"),
        ("[]", "the body must be a JSON object"),
        ("{}", "type"),
        ('{"type": "index_parallel", "spec": {}}', ""),
        ('{"type": "nonsense", "dataSource": "x"}', "nonsense"),
        ('{"type": "kill"}', "dataSource"),
    ],
)
def test_a_task_that_is_wrong(overlord: Overlord, text: str, words: str) -> None:
    answer = overlord.http.post(
        f"{API}/task", content=text, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]
    assert answer.json()["category"] == "INVALID_INPUT"
    assert ids(overlord, "tasks") == []


def test_another_task_of_the_same_id_is_a_conflict(overlord: Overlord, submit: Submit) -> None:
    submit("a")
    other = {"type": "kill", "dataSource": "other", "id": "a"}
    answer = overlord.http.post(f"{API}/task", json=other)
    assert (answer.status_code, answer.json()["context"]) == (409, {"task_id": "a"})


def test_a_bug_is_json_too(overlord: Overlord, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(task_id: str) -> None:
        raise KeyError(task_id)

    monkeypatch.setattr(overlord.tasks, "get", broken)
    answer = overlord.http.get(f"{API}/task/a/status")
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("internal error: KeyError")


def test_a_wrong_task_is_refused_with_the_lines_of_its_body(overlord: Overlord) -> None:
    task = {"type": "delete", "dataSource": "events", "interval": "soon"}
    answer = overlord.http.request("POST", f"{API}/task", content=json.dumps(task, indent=1))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("wrong spec: interval (line 4): ")
    (wrong,) = json.loads(answer.json()["context"]["problems"])
    assert (wrong["path"], wrong["line"]) == ("interval", 4)
    spec = {"dataSource": "events", "input": "a.json", "transformSpec": {"filter": "a = (1"}}
    task = {"type": "index_parallel", "spec": spec}  # type: ignore[dict-item]
    answer = overlord.http.request("POST", f"{API}/task", content=json.dumps(task, indent=1))
    assert answer.json()["error"] == (
        "wrong spec: spec.transformSpec.filter (line 7): '(' at character 5 is not closed"
    )


def test_paths_of_druid_that_are_not_here_say_what_does_it(overlord: Overlord) -> None:
    for path, advice in ELSEWHERE:
        assert what_instead(path) == advice, "no earlier one hides it"
        if path.startswith(("/druid/indexer", "/carnac", "/druid/v2/sql/statements")):
            continue
        answer = overlord.http.get(f"{path}/x")
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            f"there is no path {path}/x: {advice}",
        )
    said = overlord.http.post("/druid/v2/sql", json={"query": "SELECT 1"}).json()["error"]
    assert said.startswith("there is no path /druid/v2/sql: ask a broker: carnac serve; ")
    said = overlord.http.get("/carnac/v1/coordinator").json()["error"]
    assert said.startswith("there is no path /carnac/v1/coordinator: ask a coordinator: ")
    assert (
        overlord.http.get("/x").json()["error"]
        == "there is no path /x: GET /docs lists what is here"
    )


INSERT = "INSERT INTO events SELECT __time, page FROM edits PARTITIONED BY DAY"
EXTERNAL = """SELECT * FROM TABLE(EXTERN('{"type": "inline", "data": ""}', '{"type": "json"}')) (a VARCHAR)"""


def test_a_statement_becomes_a_task(overlord: Overlord) -> None:
    answer = overlord.http.post(
        "/druid/v2/sql/task", json={"query": INSERT, "context": {"slots": 2}}
    )
    assert answer.status_code == 202, answer.text
    task_id = answer.json()["taskId"]
    assert answer.json() == {"taskId": task_id, "state": "RUNNING"}
    assert task_id.startswith("query_controller_events_")
    status = overlord.http.get(f"{API}/task/{task_id}/status").json()["status"]
    assert (status["type"], status["dataSource"]) == ("query_controller", "events")
    assert overlord.http.get(f"{API}/task/{task_id}").json()["payload"]["query"] == INSERT
    assert overlord.start_next(capacity=2) == [task_id]
    overlord.clock.advance_ms(1_500)
    overlord.finish(task_id, report='{"rowStats": {"read": 3}}')
    report = overlord.http.get(f"{API}/task/{task_id}/reports").json()["multiStageQuery"]
    assert report["payload"]["status"]["status"] == "SUCCESS"
    assert report["payload"]["status"]["durationMs"] == 1_500


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"query": "EXPLAIN SELECT 1"}, "EXPLAIN is answered at once, by POST /druid/v2/sql"),
        ({"query": "DROP TABLE x"}, "only SELECT statements"),
        ({"query": EXTERNAL}, "only INSERT and REPLACE read"),
        ({"query": "INSERT INTO x SELECT 1"}, "needs PARTITIONED BY"),
        ({"query": INSERT, "parameters": [{"type": "BIGINT", "value": 1}]}, "takes no parameters"),
        ({"query": INSERT, "context": {"sparkConf": {"spark.jars": "x"}}}, "spark.jars"),
        ({"query": INSERT, "context": 1}, "context must be an object"),
        ({"query": 1}, "query must be one SELECT, INSERT or REPLACE"),
        ({}, "query must be one SELECT, INSERT or REPLACE"),
    ],
)
def test_a_wrong_statement_is_refused_in_druid_s_shape(
    overlord: Overlord, body: dict[str, object], said: str
) -> None:
    answer = overlord.http.post("/druid/v2/sql/task", json=body)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["errorMessage"]
    assert not overlord.tasks.list()


def test_clients_learn_that_statements_run_as_tasks(overlord: Overlord) -> None:
    assert overlord.http.get("/druid/v2/sql/task/enabled").json() == {"enabled": True}
