"""`carnac balance`: simulations and pictures from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.cli import run_process
from tests.e2e.conftest import Run
from tests.e2e.test_mistakes import one_sentence

pytestmark = pytest.mark.e2e

SCENARIO = {
    "name": "mine",
    "days": 1,
    "history": {"days": 8},
    "tiers": [{"servers": 5}],
    "datasources": [{"name": "a", "partitions": 3, "load": [{"days": 4}]}],
    "queries": {"count": 20},
}
TABLE = "datasource,server,start\na,1,2016-02-23T23:00:00Z\nb,2,2016-05-15T12:00:00Z\n"


def test_a_simulation_says_what_came_of_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(json.dumps(SCENARIO))
    shown = run("balance", "simulate", "mine.yaml", "--strategy", "compare")
    lines = shown.out.splitlines()
    assert lines[0].startswith("mine: 288 segments on 5 servers, 1 day, seed 0")
    assert [line.split("  ")[0] for line in lines[3:]] == [
        "before",
        "after cost",
        "after legacy",
        "after random",
    ]
    document = run("balance", "simulate", "mine.yaml", "--json").json
    assert document["servers"] == 5
    assert document["files"] == []
    assert document["futures"][0]["strategy"] == "cost"
    again = run("balance", "simulate", "mine.yaml", "--json", "--seed", "0").json
    other = run("balance", "simulate", "mine.yaml", "--json", "--seed", "1").json
    assert again == document
    assert other["before"] != document["before"]


@pytest.mark.slow
def test_a_simulation_writes_its_pictures_and_report(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(SCENARIO))
    done = run_process(
        ["balance", "simulate", "mine.json", "--out", "story", "--json"], cwd=tmp_path
    )
    assert done.code == 0, done.err
    files = [tmp_path / name for name in done.json["files"]]
    assert {path.suffix for path in files} == {".png", ".svg", ".html", ".json"}
    assert all(path.stat().st_size > 500 for path in files)
    report = json.loads((tmp_path / "story" / "report.json").read_text())
    assert report == {key: value for key, value in done.json.items() if key != "files"}


def test_a_printed_scenario_can_be_changed_and_run(run: Run, tmp_path: Path) -> None:
    printed = run("balance", "simulate", "--preset", "tiers", "--print-scenario")
    assert json.loads(printed.out)["name"] == "tiers"
    (tmp_path / "mine.json").write_text(json.dumps({**json.loads(printed.out), "days": 5}))
    done = run("balance", "simulate", "mine.json", "--strategy", "random", "--json").json
    assert done["scenario"]["days"] == 5


def test_a_picture_of_any_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    shown = run("balance", "picture", "t.csv", "-o", "t.svg")
    assert shown.out.startswith("t.svg (")
    assert "2 segments on 2 servers" in (tmp_path / "t.svg").read_text()
    done = run(
        "balance", "picture", "t.csv", "-o", "t.png", "--server", "datasource", "--json"
    ).json
    assert (done["segments"], done["servers"], done["datasources"]) == (2, 2, 2)
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["simulate", "--preset", "smal"], 2, "did you mean 'small'"),
        (["simulate", "none.yaml"], 5, "none.yaml"),
        (["simulate", "."], 2, "is a directory"),
        (["simulate", "t.csv", "--preset", "small"], 2, "give one of them"),
        (["simulate", "t.csv"], 2, "scenario"),
        (["simulate", "--days", "0"], 2, "days: must be greater"),
        (
            ["simulate", "--servers", "0"],
            2,
            "tiers[0].servers: must be greater than or equal to 1, not 0",
        ),
        (["simulate", "half.json"], 2, "the scenario is not valid JSON: line 1"),
        (["simulate", "--moves-per-hour", "-1"], 2, "movesPerHour"),
        (["simulate", "--out", "t.csv"], 2, "the folder t.csv cannot be made"),
        (["picture", "none.csv", "-o", "a.svg"], 5, "none.csv"),
        (["picture", "gap.csv", "-o", "a.svg"], 2, "is empty in 1 of 2 rows"),
        (["picture", "t.csv", "-o", "a"], 2, ".html, not a name without suffix"),
        (["picture", "t.csv", "-o", "a.pdf"], 2, ".pdf"),
        (["picture", "t.csv", "-o", "no/folder/a.svg"], 5, "no/folder"),
        (["picture", "t.csv", "-o", "a.svg", "--start", "begin"], 2, "no column 'begin'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_sentence(
    run: Run, tmp_path: Path, *, args: list[str], code: int, says: str
) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "gap.csv").write_text(TABLE.replace("2016-05-15T12:00:00Z", ""))
    (tmp_path / "half.json").write_text("{")
    done = run("balance", *args, code=code)
    assert says in one_sentence(done)
    assert "must not be empty" not in done.err
    assert done.out == ""
    as_json = run("balance", *args, "--json", code=code)
    assert says in as_json.json["error"]["message"]


@pytest.mark.parametrize(
    "args",
    [["simulate", "--strategy", "best"], ["simulate", "--seed", "x"], ["picture"], ["pictures"]],
)
def test_a_wrong_command_line_exits_with_2(run: Run, args: list[str]) -> None:
    done = run("balance", *args, code=2)
    assert done.err.count("error: ") == 1
    assert "for help: carnac balance" in done.err
