"""The query log by itself: many who write at once, into files that others write, too."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from carnac.broker.log import OLDER_SUFFIX, QueryLog
from carnac.broker.record import QueryRecord
from carnac.ports.answers import ANYBODY, Statement

LINES = 400


def record(number: int) -> QueryRecord:
    return QueryRecord(
        statement=Statement(client=ANYBODY, sql="SELECT 1", query_id=str(number)), asked_at_ms=0
    )


def ids_in(path: Path) -> list[int]:
    """The ids in a file of whole lines."""
    text = path.read_text()
    assert text.endswith("\n")
    return [int(json.loads(line)["query_id"]) for line in text.splitlines()]


def open_files(path: Path) -> int:
    """How many times this process has a file open."""
    return sum(one.resolve() == path for one in Path("/proc/self/fd").iterdir())


def two_logs(path: Path, steps: ExitStack, *, limit_bytes: int) -> list[QueryLog]:
    return [steps.enter_context(closing(QueryLog(path, limit_bytes=limit_bytes))) for _ in range(2)]


def write(*logs: QueryLog) -> None:
    """Let eight threads write lines, in turns into one log and the other."""
    with ThreadPoolExecutor(8) as pool:
        noted = [
            pool.submit(logs[number % len(logs)].note, record(number)) for number in range(LINES)
        ]
    assert [one.result() for one in noted] == [None] * LINES


def test_each_line_is_written_once_by_whoever_writes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    with ExitStack() as steps:
        write(*two_logs(path, steps, limit_bytes=10_000_000))
    assert sorted(ids_in(path)) == list(range(LINES))


def test_the_limit_holds_while_others_write(tmp_path: Path) -> None:
    path, limit_bytes = tmp_path / "log.jsonl", 20_000
    with ExitStack() as steps:
        write(*two_logs(path, steps, limit_bytes=limit_bytes))
    older = path.with_name(path.name + OLDER_SUFFIX)
    kept = [*ids_in(older), *ids_in(path)]
    assert len(set(kept)) == len(kept) < LINES
    assert older.stat().st_size + path.stat().st_size <= limit_bytes
    assert older.stat().st_size > limit_bytes // 2 - 500


def test_what_cannot_be_written_is_told_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.mkdir()
    with closing(QueryLog(path, limit_bytes=10_000)) as log:
        for number in range(2):
            with pytest.raises(IsADirectoryError):
                log.note(record(number))
        path.rmdir()
        log.note(record(2))
        assert ids_in(path) == [2]


def test_the_file_stays_open_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = QueryLog(path, limit_bytes=1_000_000)
    for number in range(3):
        log.note(record(number))
        assert open_files(path) == 1
    log.close()
    assert open_files(path) == 0
    log.note(record(3))
    assert open_files(path) == 0
    assert ids_in(path) == [0, 1, 2, 3]


def test_lines_go_to_a_new_file_when_somebody_took_the_old_one_away(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    path, aside = folder / "log.jsonl", tmp_path / "aside.jsonl"
    with closing(QueryLog(path, limit_bytes=1_000_000)) as log:
        log.note(record(0))
        path.rename(aside)
        log.note(record(1))
        assert (ids_in(aside), ids_in(path)) == ([0], [1])
        shutil.rmtree(folder)
        log.note(record(2))
        assert ids_in(path) == [2]
        os.truncate(path, 0)
        log.note(record(3))
        assert ids_in(path) == [3]
        shutil.copyfile(aside, tmp_path / "other")
        (tmp_path / "other").rename(path)
        log.note(record(4))
        assert ids_in(path) == [0, 4]
