"""What a real Druid answered, asked of the door: status, content type, headers that it names, and the body."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from carnac.api.sql.errors import PARSE_FAILED, PLAN_FAILED
from tests.support.serving import load_recorded, open_door, recorded
from tests.unit.api.conftest import InProcessClient

pytestmark = pytest.mark.http

LEFT_OUT = {
    "functions that this dialect has not, or not yet": [
        *("ctx-tz-kolkata",),
        *("agg-anyvalue", "agg-approx-twin", "agg-quantile"),
        *("agg-empty-b", "fn-string"),
        *("fn-num-double-data", "fn-wrong-type", "lookup-missing"),
        *("wikirollup-lastpage", "agg-array-agg-order"),
    ],
    "what Druid refuses and this dialect answers": [
        *("lit-inf-const", "lit-intdiv0-const", "lit-interval", "alias-missing", "agg-max-string"),
        *("select-orderby-nontime", "agg-numeric", "agg-approx-quantile-missing", "where-19"),
        *(
            "arr-unnest-ordinality",
            "exists-correlated",
            "union-all-table",
            "lookup-table",
            "win-qualify",
            "agg-array-agg-size",
            "agg-orderby-null-desc-last",
            "agg-orderby-nulls-last",
            "fn-string-data",
            "fn-num",
        ),
    ],
    "another meaning: division, order of nulls and of groups, sketches as text": [
        *("agg-avg-minmax", "agg-string-agg", "agg-orderby-null"),
        *("fn-string-b", "fn-string-data-b", "fn-num-b"),  # CONCAT of null, CEIL of a decimal
        *("agg-theta", "agg-sketch-raw", "arr-group", "arr-unnest-left", "fn-cast-string"),
    ],
    "multi-values are lists here, JSON is text": [
        *("fmt-values-array", "fmt-values-arrayLines", "fmt-values-csv", "ctx-stringify-false"),
        *("mv-group-filter", "mv-group-filter-only", "mv-filters", "mv-concat-implicit"),
        *("json-object", "json-object2"),
    ],
    "sys.servers and sys.supervisors have columns of later versions, too": ["is-columns-sys"],
    "an engine that is not here is refused, not passed over": ["ctx-engine-bogus"],
    "order of rows, views, servers and ports of another cluster; plans (test_clients_metadata)": [
        *("is-schemata", "is-tables", "is-routines", "is-routines-names"),
        *("sys-segments", "sys-segments-console", "sys-servers", "sys-servers-star"),
        *("sys-server-segments", "sys-tasks", "explain-ts", "explain-topn", "explain-join"),
    ],
    "the gate in front: OPTIONS is nobody's": ["get-sql"],
}
NAMED_HEADERS = (
    "Content-Type",
    "X-Druid-Query-Id",
    "X-Druid-SQL-Query-Id",
    "X-Druid-SQL-Header-Included",
    "X-Druid-Response-Context",
)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessClient]:
    with open_door(load_recorded(tmp_path_factory.mktemp("recorded"))) as client:
        yield client


def reason(case: dict[str, Any]) -> str | None:
    """Say why a case is left out; None: it is not."""
    for why, ids in LEFT_OUT.items():
        if case["id"] in ids:
            return why
    if "wikirollup" in str(case.get("body")):
        return "a datasource that this store has not"
    return None


def test_what_a_real_druid_answered(door: InProcessClient) -> None:
    cases = recorded("sql.jsonl")
    chosen = [case for case in cases if reason(case) is None]
    wrong = {case["id"]: found for case in chosen if (found := differences(door, case))}
    assert not wrong, json.dumps(wrong, indent=1, ensure_ascii=False)
    assert len(chosen) > 95


def differences(door: InProcessClient, case: dict[str, Any]) -> list[str]:
    body = case["body"]
    content = body if isinstance(body, str) else json.dumps(body)
    answer = door.request(case["method"], case["path"], headers=case["headers"], content=content)
    if answer.status_code != case["status"]:
        return [f"{answer.status_code} in place of {case['status']}: {answer.text[:300]}"]
    found = [name for name in NAMED_HEADERS if not same_header(name, answer, case)]
    if case["status"] == 200:
        return found + ([] if same_rows(answer.text, case) else [answer.text[:300]])
    if "response_json" in case:
        found += same_problem(answer.json(), case["response_json"])
    return found


def same_header(name: str, answer: httpx.Response, case: dict[str, Any]) -> bool:
    theirs = case["response_headers"].get(name)
    if theirs is None:  # of their 415 there is no body at all
        return name != "X-Druid-SQL-Header-Included" or name not in answer.headers
    return name in answer.headers and ("<" in theirs or answer.headers[name] == theirs)


def same_rows(ours: str, case: dict[str, Any]) -> bool:
    theirs = case.get("response_text")
    if theirs is None:
        return same(json.loads(ours), case["response_json"])
    if "trimmed" in case:
        return hashlib.sha256(ours.encode()).hexdigest() == case["trimmed"]["sha256"]
    if ours == theirs or case["body"].get("resultFormat") not in {None, "object", "array"}:
        return ours == theirs
    mine, known = json.loads(ours), json.loads(theirs)
    query = re.sub(r"over \([^)]*\)", "", case["body"]["query"].lower())
    if "order by" not in query and not case["body"].get("header"):
        mine, known = sorted(mine, key=json.dumps), sorted(known, key=json.dumps)
    return ours.endswith("\n") and same(mine, known)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values of JSON are one; of doubles to 1e-12, of objects the order of keys, too."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-12)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    return type(ours) is type(theirs) and ours == theirs


def same_problem(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Say which parts of a problem differ; where Druid says `druidException` we say its older word."""
    expected = {key: theirs.get(key) for key in ("errorCode", "persona", "category")}
    found = [f"{key}: {ours.get(key)}" for key, value in expected.items() if ours.get(key) != value]
    if theirs["error"] == "druidException":
        return found + ([] if ours["error"] in {PARSE_FAILED, PLAN_FAILED} else [ours["error"]])
    return found + ([] if ours["error"] == theirs["error"] else [ours["error"]])
