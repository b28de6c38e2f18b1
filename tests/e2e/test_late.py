"""`carnac late`: the late ledger on the command line, without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.store import open_store
from carnac.core.time.intervals import parse_instant
from carnac.store import Store
from tests.e2e.conftest import Run
from tests.support.clock import FakeClock, SequentialIds
from tests.support.pipeline import LocalPipeline
from tests.unit.store.events import NOW_MS, rows_of, spec

PROMPT = ["2013-03-01T12:00"]
LATE = ["2013-03-01T11:59:30", "2013-03-01T11:30", "2013-01-15T00:00", "2013-01-15T12:00"]
LATER = ["2013-02-28T13:00", "2013-01-15T06:00"]


def append(store: Store, times: list[str], **more: Any) -> None:
    pairs = [(number, parse_instant(text)) for number, text in enumerate(times)]
    store.ingest(spec("events", **more), rows_of(pairs))


@pytest.fixture
def late_store(tmp_path: Path) -> Path:
    """Revision 1 to 3 are appends, revisions 4 and 5 fold two days, revision 6 brings one more late row."""
    clock, ids = FakeClock(NOW_MS), SequentialIds()
    with open_store(
        tmp_path / "store",
        create=True,
        clock=clock,
        ids=ids,
        pipeline=lambda root: LocalPipeline(root, clock=clock, ids=ids),
    ) as store:
        for times in (PROMPT, LATE, LATER):
            append(store, times)
        for day in ("2013-01-15/P1D", "2013-03-01/P1D"):
            store.compact_interval("events", interval=day)
        append(store, ["2013-01-15T18:00"])
    return tmp_path / "store"


def test_the_table(run: Run, late_store: Path) -> None:
    done = run("late", "events", "--store", str(late_store))
    cells = [re.split(r"  +", line.strip()) for line in done.out.splitlines()]
    without_size = [[*row[:-2], row[-1]] for row in cells if len(row) > 1 and "─" not in row[0]]
    assert without_size == [
        ["chunk", "late by", "rows", "folded", "not yet", "segments"],
        ["2013-01-15/2013-01-16", "> 30 days", "4", "3", "1", "2"],
        ["2013-02-28/2013-03-01", "≤ 1 day", "1", "0", "1", "1"],
        ["2013-03-01/2013-03-02", "≤ 1 minute", "1", "1", "0", "1"],
        ["2013-03-01/2013-03-02", "≤ 1 hour", "1", "1", "0", "1"],
        ["late by", "chunks", "rows", "folded", "not yet", "segments"],
        ["≤ 1 minute", "1", "1", "1", "0", "1"],
        ["≤ 1 hour", "1", "1", "1", "0", "1"],
        ["≤ 1 day", "1", "1", "0", "1", "1"],
        ["> 30 days", "1", "4", "3", "1", "2"],
        ["all", "3", "7", "5", "2", "4"],
    ]
    assert "revision 6: 2 late rows of 7 not folded yet, in 2 segments of 2 time chunks" in done.err


def test_json_of_an_interval_and_of_an_earlier_revision(run: Run, late_store: Path) -> None:
    where = ["--store", str(late_store), "--json"]
    found = run("late", "events", "--interval", "2013-01/P1M", *where).json
    assert (found["datasource"], found["revision"]) == ("events", 6)
    (line,) = found["lines"]
    assert line["chunk"] == "2013-01-15T00:00:00.000Z/2013-01-16T00:00:00.000Z"
    assert (line["lateness"], line["rows"], line["rows_folded"]) == ("longer", 4, 3)
    assert (line["segments"], line["segments_folded"]) == (2, 1)
    before = run("late", "events", "--at", "3", *where).json
    assert (before["total"]["rows"], before["total"]["rows_folded"]) == (6, 0)
    assert [one["lateness"] for one in before["by_lateness"]] == ["PT1M", "PT1H", "P1D", "longer"]


def test_segments_tell_what_was_late(run: Run, late_store: Path) -> None:
    found = run("segments", "events", "--store", str(late_store), "--json").json["segments"]
    assert [one["late"] for one in found if one["chunk"].startswith("2013-01-15")] == [
        {"rows": {"longer": 3}, "is_folded": True},
        {"rows": {"longer": 1}, "is_folded": False},
    ]
    first = run("segments", "events", "--at", "1", "--store", str(late_store), "--json").json
    assert [one["late"] for one in first["segments"]] == [None]


def test_long_tables_are_cut_and_nothing_is_said_in_a_sentence(run: Run, late_store: Path) -> None:
    done = run("late", "events", "--limit", "1", "--store", str(late_store))
    assert "… and 3 more; --limit 0 shows all" in done.err
    assert "2013-02-28/" not in done.out
    done = run("late", "events", "--at", "1", "--store", str(late_store))
    assert "no row of events came late, as of revision 1" in done.err
    folded = ["--at", "5", "--interval", "2013-01/P1M"]
    done = run("late", "events", *folded, "--store", str(late_store))
    assert "revision 5: 3 late rows, all folded" in done.err


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["evnts"], 5, "there is no datasource 'evnts'; there are events"),
        (["events", "--interval", "May"], 2, "'May' is not an interval"),
        (["events", "--at", "99"], 5, "there is no revision 99 yet"),
    ],
)
def test_mistakes(run: Run, late_store: Path, args: list[str], code: int, sentence: str) -> None:
    done = run("late", *args, "--store", str(late_store), code=code)
    assert sentence in done.err
