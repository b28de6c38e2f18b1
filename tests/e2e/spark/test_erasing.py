"""`carnac erase` on Spark: the certificate, earlier revisions without the rows, and receipts that do not hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cli import append_rows
from tests.e2e.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WHERE = "carrier = 'UA'"
COUNTS = "SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY carrier"


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> Path:
    """Three revisions, a day of flights each."""
    assert spark is not None
    place = tmp_path / "events"
    for day in (1, 2, 3):
        rows = [
            {"__time": f"2013-01-0{day}T0{hour}:30:00Z", "carrier": "UA" if hour % 2 else "AA"}
            for hour in range(1, 6)
        ]
        append_rows(place, rows)
    return place


def counts(run: Run, at: int) -> dict[str, int]:
    found = run("sql", COUNTS, "--at", str(at), "--store", "events", "--json").json
    return {row["carrier"]: row["n"] for row in found["rows"]}


def test_rows_are_erased_from_all_revisions(run: Run, store: Path) -> None:
    run("delete", "flights", "--interval", "2013-01-01/P1D", "--store", "events")
    before = {at: counts(run, at) for at in range(1, 5)}
    assert all("UA" in found for found in before.values())
    run("sql", COUNTS, "--at", "2", "--store", "events", "--receipt", "r.json")

    tried = run("erase", "flights", "--where", WHERE, "--store", "events", "--dry-run")
    searched = "2 visible segments and 1 earlier segment would be searched"
    assert tried.out == f"nothing was done; {searched}, and those with a match rewritten\n"
    done = run("erase", "flights", "--where", WHERE, "--store", "events", "--yes", "--json").json
    assert "at_ms" not in done
    assert (done["deleted_revision"], done["revision"], done["is_complete"]) == (5, 6, True)
    assert (done["segments_rewritten"], done["files_deleted"], done["left"]) == (3, 3, [])
    assert done["rows_erased"] == before[3]["UA"]
    assert {at: counts(run, at) for at in before} == {
        at: {"AA": found["AA"]} for at, found in before.items()
    }
    assert run("verify", "--store", "events").code == 0
    assert run("doctor", "--store", "events").code == 0

    again = run("erase", "flights", "--where", WHERE, "--store", "events", "--yes")
    assert again.out == "no row of flights matches in any of 5 segments\n"
    told = run("revert", "6", "--store", "events", code=2)
    assert "commit 6 is an erasure, which nothing takes back" in told.err
    checked = run("receipt", "verify", "r.json", "--store", "events", code=7)
    assert (
        "rows were erased from history since, the last time by commit 6"
        in checked.out + checked.err
    )
