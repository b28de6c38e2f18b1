"""`carnac sql --receipt`, `carnac receipt verify` and `carnac why` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cli import ROWS
from tests.e2e.conftest import Run

BY_CARRIER = "SELECT carrier, count(*) AS n FROM flights GROUP BY 1 ORDER BY 1"
COUNT = "SELECT count(*) AS n FROM flights"


def test_a_receipt_is_written_and_verified(run: Run, store: Path, tmp_path: Path) -> None:
    at = ("--store", str(store))
    run("sql", BY_CARRIER, "--receipt", "answer.json", *at)
    assert json.loads((tmp_path / "answer.json").read_text())["statement"] == BY_CARRIER
    assert "verified: revision 3, 2 rows" in run("receipt", "verify", "answer.json", *at).err
    run("sql", BY_CARRIER, "-o", "n.csv", "--receipt", "file.json", *at)
    assert (tmp_path / "file.json").read_text() == (tmp_path / "answer.json").read_text()
    assert run("receipt", "verify", "file.json", "--json", *at).json["verified"]


def test_a_receipt_that_does_not_hold_is_an_error(run: Run, store: Path, tmp_path: Path) -> None:
    at = ("--store", str(store))
    file = tmp_path / "answer.json"
    run("sql", COUNT, "--receipt", "answer.json", *at)
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"rows_digest": content["rows_digest"][:-1] + "_"}))
    assert "does not hold" in run("receipt", "verify", "answer.json", *at, code=7).err
    wrong = run("receipt", "verify", "answer.json", "--json", *at, code=7).json
    assert wrong["error"]["ids"]["rows_digest"] == content["rows_digest"]
    file.write_text(json.dumps(content | {"revision": 999}))
    assert "999" in run("receipt", "verify", "answer.json", *at, code=5).err
    run("receipt", "verify", "none.json", *at, code=5)


def test_a_receipt_of_another_store_is_refused_before_anything_is_run(
    run: Run, store: Path, tmp_path: Path
) -> None:
    run("sql", COUNT, "--receipt", "answer.json", "--store", str(store))
    receipt = json.loads((tmp_path / "answer.json").read_text())
    run("init", "other")
    said = run("receipt", "verify", "answer.json", "--store", "other", code=2).err
    assert f"the receipt is of store {receipt['store_id']}, and this is store " in said
    del receipt["store_id"]
    (tmp_path / "older.json").write_text(json.dumps(receipt))
    run("receipt", "verify", "older.json", "--store", str(store))


def test_why_names_the_commits(run: Run, store: Path) -> None:
    at = ("--store", str(store))
    told = run("why", COUNT, "--from", "0", *at)
    assert "n by" in told.out
    assert f"{ROWS} at 3" in told.err
    found = run("why", COUNT, "--from", "0", "--json", *at).json
    assert sum(one["by"][0]["n"] for one in found["changes"]) == ROWS
    assert found["after"] == [{"n": ROWS}]
    assert "carrier" in run("why", BY_CARRIER, "--from", "1", *at).out
