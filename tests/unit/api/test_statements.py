"""`/druid/v2/sql/statements`: statements that are asked now and fetched later, over rows that were really kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from carnac.api.services import Services
from carnac.api.sql.kept import SAMPLE_ROWS, StatementRows
from carnac.bootstrap.store import open_store
from carnac.core.tasks.model import TaskState
from carnac.specs.tasks.spec import SelectTask, load_task
from carnac.store import Store
from carnac.store.kept_rows import keep_rows
from tests.support.serving import recorded
from tests.unit.api.conftest import Overlord

STATEMENTS = "/druid/v2/sql/statements"
TASK = "/druid/indexer/v1/task"
INSERT = "INSERT INTO events SELECT __time, page FROM edits PARTITIONED BY DAY"
QUERY = "SELECT __time, k, n, count(*), [n, 1] AS l FROM t GROUP BY ALL ORDER BY k"
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("statements") / "store", create=True) as opened:
        rows = [{"t": f"2024-01-0{n}", "k": "abcde"[n - 1], "n": n} for n in range(1, 6)]
        opened.append("t", rows, time="t")
        yield opened


@pytest.fixture(autouse=True)
def kept(stage: tuple[Any, Services], store: Store) -> None:
    stage[1].kept.service = StatementRows(store.deep_storage)  # type: ignore[attr-defined]


@pytest.fixture
def ask(overlord: Overlord) -> Ask:
    """Submit a statement; return what is told of it."""

    def submit(query: str, context: Mapping[str, object] = {}, **more: object) -> dict[str, Any]:
        asked = {"query": query, "context": {"executionMode": "ASYNC", **context}, **more}
        answer = overlord.http.post(STATEMENTS, json=asked)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    return submit


def run(overlord: Overlord, store: Store, task_id: str) -> None:
    """Do what an attempt at a SELECT does."""
    assert overlord.start_next() == [task_id]
    task = load_task(overlord.tasks.payload(task_id))
    assert isinstance(task, SelectTask)
    overlord.clock.advance_ms(1_500)
    report = keep_rows(store, task, f"{task_id}/1", on_progress=lambda _: None)
    overlord.finish(task_id, report=json.dumps(report))


def told(overlord: Overlord, task_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = overlord.http.get(f"{STATEMENTS}/{task_id}").json()
    return answer


def rows_of(overlord: Overlord, task_id: str, query: str = "") -> str:
    answer = overlord.http.get(f"{STATEMENTS}/{task_id}/results{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.text


def said(overlord: Overlord, path: str, status: int = 400) -> str:
    answer = overlord.http.get(path)
    assert answer.status_code == status, answer.text
    return str(answer.json()["errorMessage"])


def test_a_select_is_told_as_druid_27_told_it(overlord: Overlord, store: Store, ask: Ask) -> None:
    answers = {one["id"]: one.get("response_json") for one in recorded("msq27.jsonl")}
    submitted = ask(QUERY)
    task_id = submitted["queryId"]
    assert submitted.keys() == answers["st-create"].keys() - {"schema"}, "no broker is here"
    assert (submitted["state"], submitted["durationMs"]) == ("ACCEPTED", -1)
    assert overlord.tasks.get(task_id).datasource == "__query_select"
    assert "is ACCEPTED; its rows are there once" in said(
        overlord, f"{STATEMENTS}/{task_id}/results"
    )
    run(overlord, store, task_id)
    found, wanted = told(overlord, task_id), answers["st-status-detail"]
    assert found.keys() == wanted.keys() - {"stages", "counters"}
    assert found["result"].keys() == wanted["result"].keys()
    assert found["result"]["pages"][0].keys() == wanted["result"]["pages"][0].keys()
    assert (found["state"], found["durationMs"]) == ("SUCCESS", 1_500)
    assert [[one["name"], one["type"], one["nativeType"]] for one in found["schema"]] == [
        ["__time", "TIMESTAMP", "LONG"],
        ["k", "VARCHAR", "STRING"],
        ["n", "BIGINT", "LONG"],
        ["EXPR$3", "BIGINT", "LONG"],
        ["l", "ARRAY", "ARRAY<LONG>"],
    ]
    assert found["result"]["numTotalRows"] == 5
    assert found["result"]["sampleRecords"][:2] == [
        [1704067200000, "a", 1, 1, "[1,1]"],
        [1704153600000, "b", 2, 1, "[2,1]"],
    ]
    more = overlord.http.get(f"{STATEMENTS}/{task_id}?detail=true").json()
    assert more == {**found, "stages": [], "counters": {}, "warnings": []}


def test_rows_come_by_pages_and_in_each_format(overlord: Overlord, store: Store, ask: Ask) -> None:
    query = "SELECT k, n FROM t ORDER BY k"
    task_id = ask(query, {"rowsPerPage": 2}, resultFormat="array")["queryId"]
    run(overlord, store, task_id)
    assert [one["numRows"] for one in told(overlord, task_id)["result"]["pages"]] == [2, 2, 1]
    assert rows_of(overlord, task_id) == '[["a",1],["b",2],["c",3],["d",4],["e",5]]\n'
    assert rows_of(overlord, task_id, "?page=2") == '[["e",5]]\n'
    forms = {
        "object": '[{"k":"c","n":3},{"k":"d","n":4}]\n',
        "objectLines": '{"k":"c","n":3}\n{"k":"d","n":4}\n\n',
        "arrayLines": '["c",3]\n["d",4]\n\n',
        "csv": "c,3\nd,4\n\n",
    }
    for form, text in forms.items():
        assert rows_of(overlord, task_id, f"?page=1&resultFormat={form}") == text
    assert "no page 3 of the result; it has 3" in said(
        overlord, f"{STATEMENTS}/{task_id}/results?page=3"
    )
    assert "no resultFormat 'xml'" in said(
        overlord, f"{STATEMENTS}/{task_id}/results?resultFormat=xml"
    )
    saved = overlord.http.get(f"{STATEMENTS}/{task_id}/results?filename=a.json")
    assert saved.headers["content-disposition"] == 'attachment; filename="a.json"'
    assert "filename must be" in said(overlord, f"{STATEMENTS}/{task_id}/results?filename=a/b")


def test_the_context_and_parameters_count(overlord: Overlord, store: Store, ask: Ask) -> None:
    query = (
        "SET sqlOuterLimit = 2; SET sqlStringifyArrays = 'false'; SELECT [n] AS l, ? AS p FROM t"
    )
    given = [{"type": "DATE", "value": "2024-01-02"}, {"type": "BIGINT", "value": 3}]
    task_id = ask(query, {"engine": "sql-msq-task"}, parameters=given)["queryId"]
    run(overlord, store, task_id)
    row = '{"l":[1],"p":"2024-01-02T00:00:00.000Z"}'
    assert rows_of(overlord, task_id, "?resultFormat=objectLines").split("\n")[0] == row
    assert told(overlord, task_id)["result"]["numTotalRows"] == 2


def test_no_rows_have_columns(overlord: Overlord, store: Store, ask: Ask) -> None:
    task_id = ask("SELECT k FROM t WHERE false")["queryId"]
    run(overlord, store, task_id)
    found = told(overlord, task_id)
    assert (found["schema"][0]["name"], found["result"]["numTotalRows"]) == ("k", 0)
    assert found["result"]["sampleRecords"] == []
    assert rows_of(overlord, task_id) == "[]\n"


def test_the_report_of_a_select_at_the_task_door_has_its_first_rows(
    overlord: Overlord, store: Store
) -> None:
    wanted = next(one for one in recorded("msq27.jsonl") if one["id"] == "sel-msq-report")
    query = f"SELECT range AS r FROM range({SAMPLE_ROWS + 1})"
    answer = overlord.http.post("/druid/v2/sql/task", json={"query": query})
    assert answer.status_code == 202, answer.text
    task_id = answer.json()["taskId"]
    run(overlord, store, task_id)
    payload = overlord.http.get(f"{TASK}/{task_id}/reports").json()["multiStageQuery"]["payload"]
    results = payload["results"]
    assert payload.keys() == wanted["response_json"]["multiStageQuery"]["payload"].keys()
    assert results["signature"] == [{"name": "r", "type": "LONG"}]
    assert results["sqlTypeNames"] == ["BIGINT"]
    assert results["resultsTruncated"] is True, "a word that Druid 27 wrote otherwise"
    assert results["results"] == [[n] for n in range(SAMPLE_ROWS)]
    assert rows_of(overlord, task_id, "?resultFormat=csv").count("\n") == SAMPLE_ROWS + 2


def test_the_first_rows_are_those_of_the_first_pages(
    overlord: Overlord, store: Store, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carnac.api.sql.kept.SAMPLE_ROWS", 3)
    task_id = ask("SELECT n FROM t ORDER BY n", {"rowsPerPage": 2})["queryId"]
    run(overlord, store, task_id)
    result = told(overlord, task_id)["result"]
    assert [one["numRows"] for one in result["pages"]] == [2, 2, 1]
    assert result["sampleRecords"] == [[1], [2], [3]]


def test_rows_that_have_ended_are_told(overlord: Overlord, store: Store, ask: Ask) -> None:
    task_id = ask("SELECT k FROM t")["queryId"]
    run(overlord, store, task_id)
    for file in list(store.deep_storage.list_files("results")):
        store.deep_storage.delete(file.path)
    found = told(overlord, task_id)
    assert (found["state"], found["result"]["numTotalRows"]) == ("SUCCESS", 5)
    assert found["result"]["sampleRecords"] == []
    assert "are not kept any more" in said(overlord, f"{STATEMENTS}/{task_id}/results", 404)
    report = overlord.http.get(f"{TASK}/{task_id}/reports").json()
    assert "results" not in report["multiStageQuery"]["payload"]


def test_a_load_is_the_task_of_the_other_door(overlord: Overlord, ask: Ask) -> None:
    wanted = next(one for one in recorded("msq27.jsonl") if one["id"] == "st-insert-status")
    task_id = ask(INSERT)["queryId"]
    assert overlord.tasks.get(task_id).datasource == "events"
    assert overlord.start_next() == [task_id]
    assert told(overlord, task_id)["state"] == "RUNNING"
    overlord.finish(task_id, report='{"rowStats": {"written": 4}, "sizeBytes": 7}')
    found = told(overlord, task_id)
    assert found.keys() == wanted["response_json"].keys()
    assert found["result"] == {"numTotalRows": 4, "totalSizeInBytes": 7, "dataSource": "events"}
    assert rows_of(overlord, task_id) == ""


def test_a_failure_is_told(overlord: Overlord, ask: Ask) -> None:
    task_id = ask("SELECT 1")["queryId"]
    overlord.start_next()
    overlord.finish(task_id, error="no such thing")
    found = told(overlord, task_id)
    assert (found["state"], found["errorDetails"]["errorMessage"]) == ("FAILED", "no such thing")
    assert "has no rows, it is FAILED: no such thing" in said(
        overlord, f"{STATEMENTS}/{task_id}/results"
    )


def test_a_statement_is_cancelled_once(overlord: Overlord, ask: Ask) -> None:
    task_id = ask("SELECT 1")["queryId"]
    assert overlord.http.request("DELETE", f"{STATEMENTS}/{task_id}").status_code == 202
    assert overlord.tasks.get(task_id).state is TaskState.CANCELLED
    assert overlord.http.request("DELETE", f"{STATEMENTS}/{task_id}").status_code == 200
    assert told(overlord, task_id)["errorDetails"]["errorCode"] == "Canceled"


def test_what_is_no_statement_is_not_found(overlord: Overlord) -> None:
    kill = overlord.http.post(TASK, json={"type": "kill", "dataSource": "events"}).json()["task"]
    for task_id, why in (
        (kill, f"{kill} is no statement but a task of type kill"),
        ("nope", "there is no statement nope"),
    ):
        for method, path in (("GET", ""), ("GET", "/results"), ("DELETE", "")):
            answer = overlord.http.request(method, f"{STATEMENTS}/{task_id}{path}")
            assert (answer.status_code, why in answer.json()["error"]) == (404, True)
    assert not overlord.tasks.get(kill).state.is_over
    assert overlord.http.get(f"{STATEMENTS}/enabled").json() == {"enabled": True}


def test_numbers_of_the_context_may_be_texts(overlord: Overlord, ask: Ask) -> None:
    told = ask("SELECT 1", {"timeout": "2000", "priority": "7", "rowsPerPage": "3"})
    task = overlord.tasks.get(told["queryId"])
    assert (task.priority, json.loads(task.context)["timeout"]) == (7, 2000)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"query": "SELECT 1"}, "executionMode of the context is missing; set it to ASYNC"),
        ({"query": "SELECT 1", "context": {"executionMode": "SYNC"}}, "is 'SYNC'; set it to"),
        ({"query": "SELECT 1", "context": 1}, "context must be an object"),
        ({"context": {"executionMode": "ASYNC"}}, "query must be one SELECT, INSERT or"),
        ({"query": "SELECT 1", "context": {"selectDestination": "x"}}, "selectDestination must be"),
        ({"query": "SELECT 1", "context": {"rowsPerPage": 0}}, "rowsPerPage must be a whole"),
        ({"query": "SELECT 1", "resultFormat": "xml"}, "there is no resultFormat 'xml'"),
        ({"query": "SELECT ?", "parameters": [{"type": "X"}]}, "parameter 1 is of a type"),
        ({"query": "SELEC 1"}, 'syntax error at or near "SELEC" (line 1, column 1)'),
        ({"query": "SELECT 1; SELECT 2"}, "has 2 statements"),
        ({"query": INSERT, "parameters": [{}]}, "takes no parameters"),
        ({"query": "SELECT 1", "context": {"sparkConf": {"spark.jars": "x"}}}, "spark.jars"),
    ],
)
def test_what_is_wrong_is_refused(overlord: Overlord, body: dict[str, Any], why: str) -> None:
    if "executionMode" not in why and isinstance(body.get("context", {}), dict):
        body = {**body, "context": {"executionMode": "async", **body.get("context", {})}}
        if "SYNC" in why:
            body["context"]["executionMode"] = "SYNC"
    answer = overlord.http.post(STATEMENTS, json=body)
    assert answer.status_code == 400, answer.text
    assert why in answer.json()["errorMessage"]
    assert not overlord.tasks.list()
