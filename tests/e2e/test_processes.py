"""`carnac` as a process: what it imports, how it ends when it is interrupted or its reader goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import run_process
from tests.waiting import until

LONG = pytest.mark.nightly("a statement that heeds nothing keeps a core for seconds")
WATCHED = (
    "pyspark",
    "py4j",
    "duckdb",
    "pyarrow",
    "pandas",
    "altair",
    "vl_convert",
    "rich",
    "yaml",
    "fastapi",
    "httpx",
)
PROBE = """
import json, sys
from carnac.cli import main
found = {}
for args in json.loads(sys.argv[2]):
    assert main(args) == 0, args
    for name in sys.argv[1].split(","):
        if name in sys.modules:
            found.setdefault(name, args)
print(json.dumps(found), file=sys.stderr)
"""


def imported(lines: list[list[str]], cwd: Path) -> dict[str, list[str]]:
    """Return which of the libraries a process that runs the lines imports, and the first line that did."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, ",".join(WATCHED), json.dumps(lines)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stderr.splitlines()[-1])
    return found


LIGHT = [
    ["version"],
    ["log"],
    ["show", "2"],
    ["diff", "1"],
    ["tags"],
    ["datasources"],
    ["segments", "flights"],
    ["chunks", "flights"],
    ["delete", "flights", "--interval", "2013-01-01/P1D"],
    ["gc", "--dry-run"],
    ["doctor"],
]


def test_commands_import_no_more_than_they_need(store: Path) -> None:
    """What one of them imports, the process has when it ends: one runs them all."""
    place = ["--store", str(store)]
    assert imported([[*args, *place] for args in LIGHT], store) == {}
    query = ["sql", "SELECT count(*) FROM flights", *place]
    assert imported([query], store).keys() <= {"duckdb", "pyarrow"}


def test_importing_carnac_imports_nothing_else() -> None:
    probe = "import sys, carnac; print([n for n in sys.modules if n.startswith('carnac.')])"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_a_terminal_that_cannot_show_a_character_ends_nothing(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "carnac", "sql", "SELECT 'é日' AS x", "--store", str(store)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert b"\\xe9\\u65e5" in done.stdout


def test_a_reader_that_goes_away_ends_the_command_quietly(store: Path) -> None:
    sql = "SELECT f.* FROM flights f, flights g, flights h, flights i"
    carnac = subprocess.Popen(
        [sys.executable, "-m", "carnac", "sql", sql, "--format", "csv", "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert carnac.stdout is not None
    assert carnac.stderr is not None
    assert carnac.stdout.readline().startswith(b"__time")
    carnac.stdout.close()
    assert carnac.stderr.read() == b""
    carnac.stderr.close()
    assert carnac.wait(timeout=60) == 141


def run_with_full_output(args: str, cwd: Path, *, also_errors: bool = False) -> tuple[int, str]:
    """Return the exit code and the last line of standard error of a command whose answer has nowhere to go."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "carnac", *args.split(), "--store", "store"],
            cwd=cwd,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdout=full,
            stderr=full if also_errors else subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    return done.returncode, "" if also_errors else done.stderr.splitlines()[-1]


FULL = "error: there is no space left to write to; make some and try again"
UNWRITTEN = "error: revision 4 was published; only the report could not be written"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ("log", 4, FULL),
        ("show 99 --json", 5, "error: there is no revision 99 yet; the newest is 3"),
        ("append edits monday.jsonl", 10, UNWRITTEN),
        ("append edits monday.jsonl --json", 10, UNWRITTEN),
        ("delete flights --interval 2013-01-01/P1D", 10, UNWRITTEN),
        ("delete flights --interval 1999-01-01/P1D", 4, FULL),
        (
            "tag good",
            10,
            "error: the command has done its work; only the report could not be written",
        ),
    ],
)
def test_an_output_that_is_full_never_says_to_repeat_what_is_done(
    store: Path, *, args: str, code: int, says: str
) -> None:
    (store.parent / "monday.jsonl").write_text('{"timestamp": "2024-01-01", "n": 1}\n')
    assert run_with_full_output(args, store.parent) == (code, says)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_notes_that_cannot_be_written_end_no_command(store: Path) -> None:
    (store.parent / "monday.jsonl").write_text('{"timestamp": "2024-01-01", "n": 1}\n')
    told = run_with_full_output("append edits monday.jsonl", store.parent, also_errors=True)
    assert told == (10, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_ends_nothing(store: Path, closed: str) -> None:
    """Nor does a file that is opened afterwards take its place."""
    words = f"'{sys.executable}' -m carnac tag mine --store '{store}'"
    done = subprocess.run(
        ["sh", "-c", f"exec {words} {closed}"], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    tags = run_process(["tags", "--json", "--store", str(store)], cwd=store).json["tags"]
    assert [tag["name"] for tag in tags] == ["mine"]


def test_what_closed_streams_let_others_take_is_the_null_device() -> None:
    """Each number is taken before the first file is opened."""
    probe = "import os; from carnac.cli import _open_closed_streams as f; f(); os._exit(os.open('/', 0) - 3)"
    words = f"exec '{sys.executable}' -c \"{probe}\" <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", words], check=False, timeout=60).returncode == 0


def is_gone(group: int) -> bool:
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (signal.SIGINT, "interrupted: nothing was published"),
        pytest.param(
            *(signal.SIGTERM, "ended by SIGTERM: nothing was published"),
            marks=pytest.mark.nightly("starts Spark once more"),
        ),
    ],
    ids=["Ctrl-C, which Java does not hear", "SIGTERM, of which Java ends at once"],
)
def test_a_signal_during_an_ingestion_publishes_nothing(
    store: Path, tmp_path: Path, number: signal.Signals, sentence: str
) -> None:
    source = tmp_path / "source.jsonl"
    line = '{"timestamp": "2013-02-01T00:00:00Z", "n": 1}\n'
    source.write_text(line * 400_000)
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"dataSource": "slow", "input": str(source)}))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    carnac = subprocess.Popen(
        [sys.executable, "-m", "carnac", "ingest", str(spec), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "CARNAC_SPARK_MASTER": "local[1]", "TMPDIR": str(scratch)},
    )
    assert carnac.stderr is not None
    said = next(line for line in carnac.stderr if line != "starting Spark\n")
    assert "tasks" in said
    os.killpg(carnac.pid, number)
    out, err = carnac.communicate(timeout=120)
    assert carnac.returncode == 128 + number, err
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1] == sentence
    assert out == ""
    until(lambda: is_gone(carnac.pid), "the end of its Java")
    until(lambda: not [*scratch.iterdir()], "a scratch folder without anything of it")
    log = run_process(["log", "--json", "--store", str(store)], cwd=tmp_path).json["commits"]
    assert [commit["revision"] for commit in log] == [3, 2, 1]
    leases = run_process(["doctor", "--json", "--store", str(store)], cwd=tmp_path).json["checks"]
    assert [check["detail"] for check in leases if "lease" in check["name"]] == [
        "nobody reads or writes"
    ]


@pytest.mark.parametrize(
    "words",
    [
        "sql",
        pytest.param("sql -o rows.csv", marks=LONG),
        pytest.param("sql --receipt receipt.json", marks=LONG),
        "why --from 0",
    ],
)
def test_a_statement_that_heeds_no_interrupt_ends_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    store = str(tmp_path / "store")
    run_process(["init", store], cwd=tmp_path)
    stubborn = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
    line = [*words.split(), stubborn, "--store", store]
    monkeypatch.setenv("CARNAC_QUERY_TIMEOUT_MS", "1500")
    done = run_process(line, cwd=tmp_path)
    assert done.code == 4
    assert "took longer than 1500 ms and has not ended since" in done.err
    assert "Traceback" not in done.err
