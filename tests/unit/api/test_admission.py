"""Tasks over HTTP are held against what strangers may ask for, when they come and when they run."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.admission import Admission
from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.services import Services
from carnac.bootstrap.serving.overlord import make_routers
from carnac.overlord.compactor.service import CompactionService
from carnac.specs.ingest.inputs import FilesInput, QueryInput
from carnac.specs.tasks.admission import confine
from carnac.specs.tasks.spec import IngestTask, load_task
from tests.unit.api.conftest import Current, InProcessClient, Overlord

SPEC = {"dataSource": "d", "timestampSpec": {"column": "t"}}


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A folder that may be read, with a link out of it."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "out").symlink_to("/etc")
    return folder


@functools.cache
def shared_app() -> tuple[FastAPI, Any]:
    """The application, over services that are put in place by each test."""
    services: Any = Services(
        tasks=Current(),
        locks=Current(),
        loop=Current(),
        compaction=Current(),
        supervisors=Current(),
        compaction_slots=2,
        admission=Current(),
        kept=Current(),
        describe=lambda _: (),
    )  # type: ignore[arg-type]
    return make_app(make_routers(services), hosts=hosts_of("one")), services


@pytest.fixture
def http(overlord: Overlord, inside: Path) -> InProcessClient:
    """An overlord that reads below one folder and one bucket."""
    app, services = shared_app()
    services.tasks.service, services.locks.service = overlord.tasks, overlord.lockbox
    services.loop.service = overlord.loop
    services.compaction.service = CompactionService(overlord.metadata, overlord.clock)
    services.admission.service = Admission(
        input_roots=[str(inside), "s3://bucket/data"], spark_settings=["spark.hadoop.*"]
    )
    return InProcessClient(app)


def submit(http: InProcessClient, body: object) -> httpx.Response:
    return http.post("/druid/indexer/v1/task", json=body)


def druid(source: dict[str, object] | None, **io: object) -> dict[str, object]:
    """A task as Druid's clients write it."""
    spec = {
        "dataSchema": {"dataSource": "d", "timestampSpec": {"column": "t"}, "dimensionsSpec": {}},
        "ioConfig": {
            "type": "index_parallel",
            **({} if source is None else {"inputSource": source}),
            "inputFormat": {"type": "json"},
            **io,
        },
    }
    return {"type": "index_parallel", "spec": spec}


def native(**spec: object) -> dict[str, object]:
    return {"type": "index_parallel", "spec": {**SPEC, **spec}}


def extern(path: str) -> str:
    """A SELECT that reads a file."""
    source = json.dumps({"type": "local", "files": [path]})
    return f"SELECT TIME_PARSE(t) AS __time FROM TABLE(EXTERN('{source}', '{{\"type\": \"json\"}}')) (t VARCHAR)"


def outside() -> list[dict[str, object]]:
    """Tasks that would read `/etc`, in every way that a task can name files."""
    local = {"type": "local", "baseDir": "/etc", "filter": "passwd"}
    return [
        native(input="/etc/passwd"),
        native(input=["IN/a.json", "/etc/*"]),
        native(input={"paths": "/etc", "within": ["/"]}),
        native(input="IN/out/passwd"),
        native(input="IN/../../../../../../../../etc/passwd"),
        native(input="file:///etc/passwd"),
        native(input="s3://bucket/other/a.json"),
        native(inputSource={"type": "files", "paths": "/etc/passwd"}),
        druid(local),
        druid({"type": "local", "files": ["/etc/passwd"]}),
        druid({"type": "combining", "delegates": [local]}),
        druid({"type": "s3", "uris": ["s3://other/a.json"]}),
        druid({"type": "s3", "prefixes": ["s3://bucket/"]}),
        druid({"type": "s3", "objects": [{"bucket": "other", "path": "a"}]}),
        druid(None, firehose=local),
        {**native(input="/etc/passwd", mode="replace"), "type": "replace"},
        native(input={"type": "query", "query": extern("/etc/passwd"), "within": ["/"]}),
        {
            "type": "query_controller",
            "query": f"INSERT INTO d {extern('IN/out/passwd')} PARTITIONED BY DAY",
        },
        {**native(input="/etc/passwd"), "context": {"origin": "here"}},
    ]


@pytest.mark.parametrize("number", range(len(outside())))
def test_no_task_over_http_reads_outside_of_the_roots(
    http: InProcessClient, overlord: Overlord, inside: Path, number: int
) -> None:
    body = httpx.Request("POST", "http://one", json=outside()[number]).content
    text = body.decode().replace("IN/", f"{inside}/")
    answer = http.post(
        "/druid/indexer/v1/task",
        content=text.encode(),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400, answer.text
    assert "http_input_roots" in answer.json()["error"], answer.text
    assert not overlord.tasks.list()


def test_what_lies_inside_is_taken_and_its_attempt_looks_again(
    http: InProcessClient, overlord: Overlord, inside: Path
) -> None:
    roots = (str(inside),)
    bodies = [
        native(input=f"{inside}/*/passwd"),
        druid({"type": "local", "baseDir": str(inside), "filter": "*.json"}),
        native(input={"paths": f"{inside}/*", "within": ["/"]}),
    ]
    for body in bodies:
        answer = submit(http, {**body, "context": {"origin": "here", "priority": 7}})
        assert answer.status_code == 200, answer.text
        kept = dict(overlord.tasks.payload(answer.json()["task"]))
        assert kept["context"] == {"origin": "http", "priority": 7}
        task = confine(load_task(kept), roots)
        assert isinstance(task, IngestTask)
        assert isinstance(task.spec.input, FilesInput)
        assert task.spec.input.within == roots
        again = submit(http, {**body, "id": answer.json()["task"], "context": {"priority": 7}})
        assert again.json() == answer.json(), "with the same id and content it is the first one"


def test_a_statement_reads_what_lies_inside(
    http: InProcessClient, overlord: Overlord, inside: Path
) -> None:
    def ask(path: str) -> httpx.Response:
        query = f"SET priority = 7; INSERT INTO d {extern(path)} PARTITIONED BY DAY"
        return http.post("/druid/v2/sql/task", json={"query": query, "context": {"origin": "here"}})

    answer = ask(f"{inside}/a.json")
    assert answer.status_code == 202, answer.text
    kept = dict(overlord.tasks.payload(answer.json()["taskId"]))
    assert kept["context"] == {"origin": "http", "priority": 7}
    task = confine(load_task(kept), [str(inside)])
    assert isinstance(task, IngestTask)
    assert isinstance(task.spec.input, QueryInput)
    assert task.spec.input.within == (str(inside),)
    refused = ask("/etc/passwd")
    assert refused.status_code == 400
    assert "http_input_roots" in refused.json()["errorMessage"]


def test_tasks_from_beside_the_store_read_what_they_like(overlord: Overlord) -> None:
    kept = overlord.tasks.submit(native(input="/etc/passwd"))
    task = confine(load_task(overlord.tasks.payload(kept.task_id)), ())
    assert isinstance(task, IngestTask)
    assert isinstance(task.spec.input, FilesInput)
    assert task.spec.input.within is None


@pytest.mark.parametrize(
    ("context", "spec", "words"),
    [
        ({"sparkConf": {"spark.jars": "/tmp/x.jar"}}, {}, "may not set 'spark.jars'"),
        ({}, {"context": {"sparkConf": {"spark.plugins": "x"}}}, "may not set 'spark.plugins'"),
        ({"sparkConf": "x"}, {}, "must be an object of texts"),
        ({}, {"transformSpec": {"filter": "exists(select 1)"}}, "has the word SELECT"),
    ],
)
def test_what_would_open_something_is_refused(
    http: InProcessClient,
    overlord: Overlord,
    context: dict[str, object],
    spec: dict[str, object],
    words: str,
) -> None:
    inline = {"type": "inline", "data": "{}"}
    answer = submit(http, {**native(input=inline, **spec), "context": context})
    assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text
    assert not overlord.tasks.list()
    fine = {"sparkConf": {"spark.driver.memory": "4g", "spark.hadoop.a": "/b"}}
    assert submit(http, {**native(input=inline), "context": fine}).status_code == 200


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"taskContext": {"sparkConf": {"spark.jars": "/tmp/x.jar"}}}, "may not set 'spark.jars'"),
        ({"transformSpec": {"filter": "exists(select 1)"}}, "has the word SELECT"),
        (
            {"ageRules": [{"olderThan": "P1D", "transformSpec": {"filter": "reflect('a', 'b')"}, "allowLossy": True}]},
            "may not call reflect",
        ),
    ],
)  # fmt: skip
def test_what_would_open_something_is_refused_in_a_compaction_spec_too(
    http: InProcessClient, overlord: Overlord, spec: dict[str, object], words: str
) -> None:
    path = "/druid/indexer/v1/compaction/config/datasources/d"
    answer = http.post(path, json={"allowLossy": True, **spec})
    assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text
    assert not overlord.metadata.compaction_specs()
    fine = {"taskContext": {"sparkConf": {"spark.driver.memory": "4g", "spark.hadoop.a": "/b"}}}
    assert http.post(path, json=fine).status_code == 200
