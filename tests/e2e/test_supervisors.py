"""`carnac supervisor`: submitted, looked at, suspended, reset, ended, beside a store. No Kafka is there to be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Run
from tests.e2e.test_mistakes import one_sentence

pytestmark = pytest.mark.e2e
SPEC = {
    "type": "kafka",
    "spec": {
        "dataSchema": {
            "dataSource": "clicks",
            "timestampSpec": {"column": "t"},
            "dimensionsSpec": {"dimensions": ["page"]},
        },
        "ioConfig": {
            "topic": "clicks",
            "inputFormat": {"type": "json"},
            "consumerProperties": {"bootstrap.servers": "127.0.0.1:1", "sasl.password": "deep"},
        },
    },
}


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run) -> None:
    monkeypatch.setenv("CARNAC_STORE", "store")
    run("init")
    (tmp_path / "clicks.json").write_text(json.dumps(SPEC))


def test_a_supervisor_is_kept_looked_at_and_ended(run: Run) -> None:
    submitted = run("supervisor", "submit", "clicks.json")
    assert submitted.out == "clicks\n"
    assert "no overlord leads now" in submitted.err
    listed = run("supervisor", "list", "--json")
    (one,) = listed.json["supervisors"]
    assert (one["id"], one["healthy"]) == ("clicks", False)
    shown = run("supervisor", "status", "clicks")
    assert f"{one['state']}, {one['detailedState']}" in shown.out
    assert one["detailedState"] == "UNABLE_TO_CONNECT_TO_STREAM"
    assert "not known" in shown.out
    for answer in (listed, shown):
        assert "no overlord leads now; carnac overlord starts one" in answer.err
    assert "deep" not in run("supervisor", "show", "clicks").out
    assert run("supervisor", "suspend", "clicks").out == "supervisor clicks is suspended\n"
    assert run("supervisor", "list", "--json").json["supervisors"][0]["state"] == "SUSPENDED"
    assert run("supervisor", "resume", "clicks").out == "supervisor clicks is resumed\n"
    run("supervisor", "reset", "clicks", "--yes")
    run("supervisor", "terminate", "clicks", "--yes")
    assert run("supervisor", "list").out == "no supervisors\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "kinesis"}, "kinesis"),
        ({"spec": {**SPEC["spec"], "ioConfig": {}}}, "topic"),
        ({"specc": {}}, "specc"),
    ],
)
def test_a_wrong_spec_is_told_and_not_kept(
    run: Run, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    (tmp_path / "wrong.json").write_text(json.dumps({**SPEC, **change}))
    assert said in one_sentence(run("supervisor", "submit", "wrong.json", code=2))
    assert run("supervisor", "list", "--json").json["supervisors"] == []


@pytest.mark.parametrize("name", ["status", "show", "suspend", "resume", "reset", "terminate"])
def test_one_that_is_not_there_is_told(run: Run, name: str) -> None:
    said = one_sentence(run("supervisor", name, "nope", code=5))
    assert "there is no supervisor 'nope'; carnac supervisor list shows those there are" in said
