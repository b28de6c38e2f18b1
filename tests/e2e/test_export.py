"""`carnac sql -o FILE`: all of a file or nothing of it, and one sentence about what stands in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.cli import ROWS
from tests.e2e.conftest import Run
from tests.e2e.test_full_disk import UNSHARING

ALL = "SELECT * FROM flights ORDER BY __time"


def test_the_ending_of_a_file_says_its_format(run: Run, store: Path, tmp_path: Path) -> None:
    for name in ("rows.csv", "rows.jsonl", "rows.parquet", "rows.arrow"):
        done = run("sql", ALL, "-o", name, "--store", str(store))
        assert done.out == ""
        assert f"{ROWS} rows at revision 3" in done.err
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == ROWS
    assert pa.ipc.open_file(tmp_path / "rows.arrow").read_all().num_rows == ROWS
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == ROWS + 1
    assert (tmp_path / "rows.jsonl").read_text() == run(
        "sql", ALL, "--format", "jsonl", "-o", "-", "--store", str(store)
    ).out


@pytest.mark.parametrize("form", ["csv", "jsonl", "json"])
def test_a_limit_of_rows_is_told(run: Run, store: Path, form: str) -> None:
    done = run("sql", ALL, "--format", form, "--max-rows", "3", "--store", str(store))
    if form == "json":
        assert len(done.json["rows"]) == 3
        assert done.json["rows_left_out"] == ROWS - 3
    else:
        assert len(done.out.splitlines()) == 3 + (form == "csv")
        assert "there were more rows than 3" in done.err


@pytest.mark.parametrize(
    ("target", "more", "refusal"),
    [
        ("there.csv", [], (2, "there.csv is there already; name another file, or --overwrite it")),
        ("missing/rows.csv", [], (5, "there is no folder missing to write rows.csv to")),
        ("there.csv/rows.csv", [], (2, "there.csv is not a folder")),
        (
            "rows.xls",
            [],
            (2, "'rows.xls' does not say its format; give one of csv, jsonl, parquet, arrow"),
        ),
        ("rows.csv", ["--format", "table"], (2, "there is no format 'table' for files")),
        (".", ["--format", "csv"], (2, ". is a folder; name a file in it")),
    ],
)
def test_what_cannot_be_written_is_one_sentence_and_leaves_nothing(
    run: Run, store: Path, target: str, more: list[str], refusal: tuple[int, str]
) -> None:
    folder, (code, sentence) = store.parent, refusal
    (folder / "there.csv").write_text("kept")
    done = run("sql", ALL, "-o", target, *more, "--store", str(store), code=code)
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert (folder / "there.csv").read_text() == "kept"
    assert sorted(path.name for path in folder.iterdir()) == ["store", "there.csv"]


def test_a_file_is_overwritten_when_asked_and_only_by_a_whole_one(
    run: Run, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "there.csv").write_text("kept")
    bad = "SELECT CASE WHEN delay > 200 THEN error('no') END FROM flights ORDER BY __time"
    run("sql", bad, "-o", "there.csv", "--overwrite", "--store", str(store), code=2)
    assert (tmp_path / "there.csv").read_text() == "kept"
    run("sql", ALL, "-o", "there.csv", "--overwrite", "--store", str(store))
    assert (tmp_path / "there.csv").read_text().startswith("__time,")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "there.csv"]


@pytest.mark.parametrize("words", ["sql -o {} --format csv --overwrite", "sql --receipt {}"])
def test_no_file_of_a_store_is_written_over(run: Run, store: Path, words: str) -> None:
    files = [path for path in store.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".db", ".parquet"}
    for path in files:
        done = run(*words.format(path).split(), ALL, "--store", str(store), code=2)
        assert "where nothing is written over" in done.err
    run("verify", "--store", str(store))


def test_a_named_pipe_gets_the_rows(run: Run, store: Path, tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    run("sql", ALL, "--format", "csv", "-o", "pipe", "--store", str(store))
    reader.join(timeout=30)
    assert len(found[0].splitlines()) == ROWS + 1


def test_a_reader_that_has_seen_enough_ends_it_in_silence(store: Path) -> None:
    sql = f"SELECT a.* FROM ({ALL}) a, range(20000)"
    command = [sys.executable, "-m", "carnac", "sql", sql, "--format", "csv", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith(b"__time,")
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 141


def test_a_full_disk_keeps_nothing_of_the_file(store: Path, tmp_path: Path) -> None:
    sql = f"SELECT a.* FROM ({ALL}) a, range(20000)"
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f"mount -t tmpfs -o size=1m tmpfs '{disk}' && "
        f"'{sys.executable}' -m carnac sql \"{sql}\" -o '{disk}/rows.csv' --store '{store}'; "
        f"echo $?; ls -A '{disk}'"
    )
    for unsharing in UNSHARING:
        done = subprocess.run(
            [*unsharing, "sh", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if "rows.csv" in done.stderr:
            break
    else:
        pytest.skip("this machine lets nobody mount a disk of its own")
    assert "there is no space left to write" in done.stderr
    assert done.stdout in {"4\n", "6\n"}
