"""A file in, an answer out: no spec, and a question or one sentence where the rows say too little."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import carnac
from carnac.cli import main
from tests.e2e.cli import Ran, run_process

pytestmark = pytest.mark.e2e

Run = Callable[..., Ran]
TRIPS = "pickup;dropoff;fare\n01/02/2024 10:00;2024-01-02T11:00:00Z;1.5\n02/03/2024 10:00;2024-01-03T11:00:00Z;NA\n"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "trips.csv").write_text(TRIPS)
    carnac.open(tmp_path / "carnac-store", create=True).close()
    return tmp_path


@pytest.fixture
def run(cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process: to start one for each takes longer than what they do."""
    monkeypatch.chdir(cwd)

    def run_here(*args: str) -> Ran:
        capsys.readouterr()
        code = main(args)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_here


def at_a_terminal(args: list[str], answers: str, cwd: Path) -> Ran:
    """Run a command line whose standard input and standard error are a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "carnac", *args],
        cwd=cwd,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as running:
        os.close(theirs)
        os.write(ours, answers.encode())
        shown = bytearray()
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        out, _ = running.communicate(timeout=60)
    os.close(ours)
    return Ran(running.returncode, out, shown.decode())


def test_a_file_answers_without_a_spec_once_its_time_is_said(cwd: Path) -> None:
    asked = run_process(["append", "trips", "trips.csv"], cwd=cwd)
    assert asked.code == 2
    assert "which column of trips.csv is the time: pickup, dropoff" in asked.err
    assert "--time COLUMN" in asked.err
    args = ["append", "trips", "trips.csv", "--time", "pickup"]
    asked = run_process(args, cwd=cwd)
    assert asked.code == 2
    assert "M/d/yyyy H:mm, d/M/yyyy H:mm; say so with --time-format" in asked.err
    done = run_process([*args, "--time-format", "d/M/yyyy H:mm", "--spec-out", "k.yaml"], cwd=cwd)
    assert done.code == 0, done.err
    assert done.err.splitlines() == [
        "into trips: csv, separated by ';', NA for null; looked at 2 rows, all",
        "time: pickup (d/M/yyyy H:mm); a time chunk for each day",
        "columns: dropoff string, fare double",
    ]
    again = run_process(["append", "trips", "trips.csv", "--spec", "k.yaml"], cwd=cwd)
    assert again.code == 0, again.err
    found = run_process(
        ["sql", "SELECT count(*), sum(fare), min(__time) FROM trips", "--format", "csv"], cwd=cwd
    )
    assert found.out.splitlines()[1] == "4,3.0,2024-02-01T10:00:00.000Z"


def test_a_question_whose_answer_cannot_be_is_asked_again_with_the_reason(cwd: Path) -> None:
    args = ["append", "trips", "trips.csv", "--time-format", "d/M/yyyy H:mm"]
    told = at_a_terminal(args, "pikcup\n3\n1\n", cwd)
    assert told.code == 0, told.err
    assert "trips.csv has no column 'pikcup'; did you mean 'pickup'?" in told.err
    assert told.err.count("which column of trips.csv is the time?") == 3
    refused = at_a_terminal(["append", "other", "trips.csv"], "a\nb\nc\n1\n1\n", cwd)
    assert refused.code == 2, "three answers are heard"
    assert "trips.csv has no column 'c'" in refused.err.rstrip().splitlines()[-1]


def test_a_question_is_left_by_the_key_that_ends_input(cwd: Path) -> None:
    left = at_a_terminal(["append", "trips", "trips.csv"], "nothing\n\x04", cwd)
    assert left.code != 0
    assert left.err.count("which column of trips.csv is the time?") == 2
    with carnac.open(cwd / "carnac-store") as store:
        assert store.head().revision == 0


def test_a_missing_column_and_unreadable_rows_have_exit_codes_of_their_own(
    cwd: Path, run: Run
) -> None:
    (cwd / "spec.yaml").write_text(
        "dataSource: edits\ntimestampSpec: {column: t}\ndimensions: [page, {name: n, type: long}]\n"
    )
    (cwd / "a.jsonl").write_text('{"t": "2024-01-01", "Page": "Menhir", "n": 1}\n')
    args = ["append", "edits", "a.jsonl", "--spec", "spec.yaml"]
    refused = run(*args)
    assert refused.code == 2
    assert "'page' (did you mean 'Page'?); nothing was published" in refused.err
    allowed = run(*args, "--allow-missing")
    assert allowed.code == 0, allowed.err
    assert "it is null" in allowed.err
    (cwd / "a.jsonl").write_text('{"t": "2024-01-01", "page": "Menhir", "n": "x"}\n')
    assert run(*args).code == 9


def test_a_checked_spec_names_file_line_and_field_and_what_only_spark_reads(
    cwd: Path, run: Run
) -> None:
    spec = "dataSource: e\ninput: a.json\ntransforms:\n- {name: x, expression: %s}\n"
    (cwd / "e.yaml").write_text(spec % "upper(page")
    checked = run("spec", "check", "e.yaml")
    assert checked.code == 2
    assert (
        "wrong spec e.yaml: transformSpec.transforms[0].expression (line 4): '(' at character 6 is not closed"
        in checked.err
    )
    (cwd / "e.yaml").write_text(spec % "page rlike 'x'")
    checked = run("spec", "check", "e.yaml")
    assert checked.code == 0
    assert "transforms[0].expression: 'rlike' at character 6 is for Spark to read" in checked.err
    assert checked.out.rstrip().endswith("the spec is right, as far as it was checked")


def test_years_are_cut_into_decades_and_told_in_words(cwd: Path, run: Run) -> None:
    years = cwd / "spots.csv"
    years.write_text(
        "YEAR,SPOTS\n" + "".join(f"{year},{year % 11}.5\n" for year in range(1700, 2009))
    )
    done = run("append", "spots", str(years))
    assert "time: YEAR (yyyy); a time chunk for each decade" in done.err
    counted = run("sql", "SELECT count(*) AS n FROM spots", "--json").json["rows"]
    assert counted == [{"n": 309}]


def test_a_person_at_a_terminal_is_asked(cwd: Path, run: Run) -> None:
    done = at_a_terminal(["append", "trips", "trips.csv"], "pickup\n2\n", cwd)
    assert done.code == 0, done.err
    assert "1  pickup" in done.err
    found = run("sql", "SELECT min(__time) FROM trips", "--format", "csv")
    assert found.out.splitlines()[1] == "2024-02-01T10:00:00.000Z"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["trips.csv"],
            "trips.csv is a file; name the datasource before it: carnac append trips trips.csv",
        ),
        (["trips.csv", "more.csv"], "carnac append trips trips.csv more.csv"),
        (["trips"], "no file is named; say which: carnac append trips FILE..."),
    ],
    ids=["one file", "two files", "no file"],
)
def test_a_file_is_not_taken_for_a_datasource(run: Run, args: list[str], said: str) -> None:
    done = run("append", *args)
    assert done.code == 2
    assert said in done.err
    assert not run("datasources", "--format", "json").out.strip()


def test_a_line_to_paste_keeps_names_with_blanks_whole(cwd: Path, run: Run) -> None:
    (cwd / "trips.csv").rename(cwd / "my trips.csv")
    pasted = run("append", "my trips.csv").err.partition("carnac append ")[2]
    assert shlex.split(pasted) == ["my_trips", "my trips.csv"]
    lost = run("datasources", "--store", "my store")
    assert lost.err.strip().endswith("make one with: carnac init 'my store'")


def test_a_datasource_is_not_taken_for_a_file(run: Run) -> None:
    done = run("ingest", "trips", "trips.csv")
    assert done.code == 2
    assert "carnac ingest trips.csv --datasource trips" in done.err
    assert "Spark" not in done.err


def test_a_dry_run_of_a_file_starts_no_spark(run: Run) -> None:
    done = run("ingest", "trips.csv", "--time", "dropoff", "--dry-run")
    assert done.code == 0, done.err
    assert "time chunks" in done.out
    assert "Spark" not in done.err


def test_rows_are_told_from_a_spec(cwd: Path, run: Run) -> None:
    """A folder as Spark writes it, and lines with an object each that have a field of specs."""
    (cwd / "folder.json").mkdir()
    (cwd / "folder.json" / "part-0.json").write_text('{"t": "2024-01-01", "n": 1}\n')
    row = '{"t": "2024-01-01", "dataSource": "x"}\n'
    (cwd / "lines.json").write_text(row * 2)
    for name in ("folder", "lines"):
        done = run("ingest", f"{name}.json", "--dry-run")
        assert done.code == 0, done.err
        assert f"into {name}: json" in done.err


def test_a_batch_that_its_spec_names_is_told_by_its_names(cwd: Path, run: Run) -> None:
    spec = {"dataSource": "t", "timestampSpec": {"column": "t"}, "writer": "w", "batch": "b"}
    (cwd / "spec.json").write_text(json.dumps({**spec, "dimensions": ["n"]}))
    (cwd / "rows.jsonl").write_text('{"t": "2024-01-01", "n": 1}\n')
    line = ("append", "t", "rows.jsonl", "--spec", "spec.json")
    assert run(*line).code == 0
    assert "batch b of writer w was published before, as revision 1" in run(*line).out


def test_a_dry_run_of_a_statement_looks_for_its_columns_and_files(cwd: Path, run: Run) -> None:
    (cwd / "rows.json").write_text('{"t": "2024-01-01", "n": 1}')
    query = """INSERT INTO trips SELECT TIME_PARSE(t) AS __time, %s
        FROM TABLE(EXTERN('{"type": "local", "files": ["%s"]}', '{"type": "json"}')) (t VARCHAR, n BIGINT)
        PARTITIONED BY DAY"""
    load = cwd / "load.sql"

    def tried(column: str, file: str) -> Ran:
        load.write_text(query % (column, file))
        return run("ingest", "load.sql", "--dry-run")

    right = tried("n * 2 AS n", "rows.json")
    assert right.code == 0, right.err
    assert "a SELECT statement, on Spark" in right.out
    wrong = tried("m", "rows.json")
    assert (wrong.code, "there is no column 'm'" in wrong.err) == (5, True), wrong.err
    missing = tried("n", "nothing.json")
    assert (missing.code, "nothing.json" in missing.err) == (5, True), missing.err
    elsewhere = run("sql", "INSERT INTO trips SELECT 1")
    assert elsewhere.code == 2
    assert "carnac ingest FILE.sql" in elsewhere.err


def test_a_dry_run_of_a_spec_looks_for_its_files(cwd: Path, run: Run) -> None:
    spec = {"dataSource": "t", "timestampSpec": {"column": "x"}, "input": "nothing.csv"}
    (cwd / "spec.json").write_text(json.dumps(spec))
    done = run("ingest", "spec.json", "--dry-run")
    assert done.code == 5
    assert "no input file matches 'nothing.csv'" in done.err


def test_rows_without_a_time_get_one_at_a_terminal(cwd: Path, run: Run) -> None:
    (cwd / "iris.json").write_text('[{"species": "setosa", "length": 5.1}]')
    done = at_a_terminal(["append", "iris", "iris.json"], "2024-01-01\n", cwd)
    assert done.code == 0, done.err
    assert "time: 2024-01-01 for all rows; a time chunk for each day" in done.err
    found = run("sql", "SELECT __time FROM iris", "--format", "csv")
    assert found.out.splitlines()[1] == "2024-01-01T00:00:00.000Z"


def test_a_new_spec_is_one_that_loads_and_is_never_written_over_a_file(cwd: Path, run: Run) -> None:
    args = ["spec", "new", "trips.csv", "--time", "dropoff", "--spec-out", "trips.yaml"]
    assert run(*args).code == 0
    assert (cwd / "trips.yaml").read_text().startswith("# Made by carnac spec new")
    assert run("spec", "check", "trips.yaml").code == 0
    done = run("append", "trips", "trips.csv", "--spec", "trips.yaml")
    assert done.code == 0, done.err
    twice = run(*args)
    assert (twice.code, "is there already" in twice.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("x.yaml", "dataSource: [", "not valid YAML"),
        ("x.json", '{"dataSource": "x", "inputt": "a"}', "inputt"),
        ("x.json", '{"type": "index_parallel", "spec": {}}', "dataSchema"),
        ("x.json", '{"dataSource": "x",\n "input": \n', "JSON"),
        ("x.json", "[1, 2]", "neither lines of JSON"),
        ("x.jsonl", '{"a": 1}', "no column of x.jsonl is plainly the time"),
    ],
)
def test_a_wrong_spec_has_the_error_of_a_spec_and_rows_that_of_rows(
    cwd: Path, run: Run, name: str, text: str, says: str
) -> None:
    (cwd / name).write_text(text)
    done = run("ingest", name)
    assert done.code == 2
    assert says in done.err
