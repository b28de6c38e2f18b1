"""The documents of `--json`, of all commands: strict JSON, in the names that the page of commands promises."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_records
from carnac.cli import main
from carnac.cli.demo.flights import DIMENSIONS
from carnac.clock import StoreClock
from carnac.config import load_settings
from carnac.ports.serving import Role, ServerRecord
from tests.commandlines import NO_SPARK, examples
from tests.e2e.cli import append_rows

FOREIGN = frozenset(("rules", "spec", "payload", "history", "tiers", "datasources", "events"))
"""Fields whose content is a document of Druid's, or one that a person wrote."""
WRITTEN = frozenset((("balance", "simulate", "--print-scenario"),))
"""Commands that print a document to be edited."""
UNLIKE = frozenset(("-o", "--engine"))
"""Options of statements that want a file instead of a document, or Spark."""
OURS = re.compile(r"[a-z][a-z0-9_]*")
ODD = "SELECT __time, sum(CAST(near AS DECIMAL(9, 2))) AS near, sum(far) AS far FROM odd GROUP BY 1"
LINES = (
    ("why", ODD, "--from", "0"),
    ("segments", "odd"),
    ("task", "submit", "task.json"),
    *examples(),
)


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with the demo's columns, a server, a task, and values that JSON has no words for."""
    store = tmp_path / "store"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARNAC_STORE", str(store))
    monkeypatch.setenv("CARNAC_SPARK_MASTER", NO_SPARK)
    flight = {name: "UA" if kind == "string" else 1 for name, kind in DIMENSIONS}
    for day in (1, 2, 3):
        append_rows(store, [{**flight, "__time": f"2013-01-0{day}T12:00:00Z"}])
    rows = [
        {"__time": "2013-01-01T12:00:00Z", "near": 1.5, "far": float("inf")},
        {"__time": "2013-01-01T13:00:00Z", "near": 2.5, "far": 1.0},
    ]
    append_rows(store, rows, datasource="odd")
    task = {"id": "delete_flights_by_hand", "type": "delete", "dataSource": "flights"}
    Path("task.json").write_text(json.dumps({**task, "interval": "2013-01-01/P1D"}))
    clock = StoreClock()
    settings = load_settings({"CARNAC_STORE": str(store)}, directory=store.parent)
    records = open_records(settings=settings, clock=clock)
    broker = ServerRecord(
        server_id="b1",
        role=Role.BROKER,
        url="http://127.0.0.1:1",
        holder="me",
        started_at_ms=clock.now_ms(),
        lease_ms=3_600_000,
    )
    records.put_server(broker)
    records.close()
    return store


def names_in(document: object) -> Iterator[tuple[str, object]]:
    """Yield the fields of a document at every depth, those of foreign ones left out."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield name, value
            yield from () if name in FOREIGN else names_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from names_in(value)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_every_document_is_strict_and_names_instants_as_promised(
    staged: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert staged.exists()
    for line in sorted(LINES, key=lambda line: line[0] == "drop"):  # others need what it drops
        if "--help" in line or line in WRITTEN:
            continue
        monkeypatch.setattr("sys.stdin", io.StringIO("a password"))
        code = main([*line, "--json"])
        said = capsys.readouterr()
        assert code != 70, (line, said.err)
        if line[0] in {"sql", "why"} and len(line) > 1 and not UNLIKE.intersection(line):
            assert code == 0, (line, said.err)
        document = json.loads(said.out, parse_constant=refuse)
        for name, value in () if code else names_in(document):
            if line[0] in {"sql", "why", "doctor"} and not OURS.fullmatch(name):
                continue
            assert OURS.fullmatch(name) or line[0] == "lookups", (line, name)
            assert not re.search(r"(^|_)at_ms$", name), (line, name)
            if name == "at" or name.endswith("_at"):
                assert value is None or datetime.fromisoformat(str(value)).tzinfo is UTC, line


def test_why_gives_values_as_sql_does(staged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert staged.exists()
    assert main(["why", ODD, "--from", "0", "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert main(["sql", f"{ODD} ORDER BY 1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert sorted(change["by"], key=lambda row: str(row["__time"])) == rows
    assert [row["far"] for row in rows] == ["Infinity", 1.0]
