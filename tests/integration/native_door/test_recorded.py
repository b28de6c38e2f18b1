"""What a real Druid answered to native queries, asked of the door: status, headers that it names, and the body."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.serving import load_recorded, open_door, recorded
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

LEFT_OUT = {
    "multi-values are lists here, and lists of texts are multi-values": [
        *("scan-mixed", "sm-merge", "sm-nointervals", "sm-lenient"),
    ],
    "what is not supported is 400 with a sentence; Druid has it fail with 500": [
        *("aggs-javascript", "scan-valuevector", "scan-orderby"),
    ],
    "bySegment and candidates are about Druid's own segments": [
        *("ctx-bysegment", "ctx-bySegment-topn", "candidates", "candidates-1"),
    ],
    "answers are JSON": ["scan-smile-accept"],
    "a datasource that this store has not": ["aggs-hyperunique", "sm-rollup"],
}
WITHIN = {"aggs-cardinality": 0.06, "aggs-sketches": 0.25, "post-hyperunique": 0.06}
"""Answers of sketches, and the part of a value that theirs and ours may differ by; quantiles are estimates of ranks."""
MATCHED_MIN = 150
ROWS = 39_244
"""Of wikipedia."""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door(load_recorded(tmp_path_factory.mktemp("recorded"))) as client:
        yield client


def test_what_a_real_druid_answered(door: InProcessClient) -> None:
    cases = recorded("native.jsonl")
    left_out = {name for names in LEFT_OUT.values() for name in names}
    found = {case["id"]: differences(door, case) for case in cases}
    wrong = {name: why for name, why in found.items() if why and name not in left_out}
    assert not wrong, json.dumps(wrong, indent=1, ensure_ascii=False)
    assert not [name for name in left_out if not found[name]], "these are left out, and match"
    assert len(cases) - len(left_out) >= MATCHED_MIN


def test_plans_of_a_real_druid_are_queries(door: InProcessClient) -> None:
    explained = [case for case in recorded("sql.jsonl") if case["id"].startswith("explain-")]
    plans = [json.loads(json.loads(case["response_text"])[0]["PLAN"]) for case in explained]
    queries = [one["query"] for plan in plans for one in plan]
    assert len(queries) == len(explained) > 0
    for query in queries:
        answer = door.post("/druid/v2", json={**query, "context": {}})
        assert answer.status_code == 200, answer.text
        assert answer.json(), query


def differences(door: InProcessClient, case: dict[str, Any]) -> list[str]:
    body = case.get("body")
    content = body if isinstance(body, str) or body is None else json.dumps(body)
    headers = case.get("headers", {})
    answer = door.request(case["method"], case["path"], headers=headers, content=content)
    if answer.status_code != case["status"]:
        return [f"{answer.status_code} in place of {case['status']}: {answer.text[:300]}"]
    if case["id"] == "scan-limit0":  # of which a part of a text was kept
        rows = sum(len(batch["events"]) for batch in answer.json())
        return [] if rows == ROWS else [f"{rows} rows in place of {ROWS}"]
    theirs = known(case)
    if theirs is None:
        return []
    if case["status"] != 200:
        return [] if answer.json()["error"] == theirs["error"] else [answer.text]
    said = answer.headers
    if said["content-type"] != "application/json" or "x-druid-response-context" not in said:
        return [f"headers: {dict(said)}"]
    ours = shaped(answer.json())
    if "trimmed" in case:  # its beginning was kept, and how long it was
        if len(ours) != case["trimmed"]["elements"]:
            return [f"{len(ours)} elements in place of {case['trimmed']['elements']}"]
        ours = ours[: len(theirs)]
    if case["id"] in WITHIN:
        return [] if near(ours, theirs, WITHIN[case["id"]]) else [answer.text[:900]]
    return [] if same(ours, theirs) else [answer.text[:900]]


def known(case: dict[str, Any]) -> Any:
    """Return the body of a recorded answer, or its beginning; None: there was none."""
    if "response_json" in case:
        return shaped(case["response_json"])
    text = case.get("response_text")
    return shaped(json.loads(text)) if text else None


def shaped(body: Any) -> Any:
    """Return an answer in which the batches of a scan are one, and segments have no names."""
    if not isinstance(body, list) or not body or not isinstance(body[0], dict):
        return body
    if "events" in body[0]:
        whole = {**body[0], "segmentId": None}
        whole["events"] = [event for batch in body for event in batch["events"]]
        return [whole]
    return [{**one, "id": ""} if "numRows" in one else one for one in body]


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values of JSON are one; of doubles to 1e-12."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-12)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    return type(ours) is type(theirs) and ours == theirs


def near(ours: Any, theirs: Any, within: float) -> bool:
    """Whether two answers of sketches are the same but for the error of estimates."""
    if isinstance(ours, list) and isinstance(theirs, list):
        pairs = zip(ours, theirs, strict=False)
        return len(ours) == len(theirs) and all(near(a, b, within) for a, b in pairs)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = ours.keys() | theirs.keys()
        return all(near(ours.get(name), theirs.get(name), within) for name in names)
    if isinstance(ours, float | int) and type(ours) is type(theirs):
        return math.isclose(ours, theirs, rel_tol=within)
    return same(ours, theirs)
