"""The query log by itself: many who write at once, into files that others write, too."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from carnac.broker.log import OLDER_SUFFIX, QueryLog
from carnac.broker.record import QueryRecord
from carnac.ports.answers import Statement

LINES = 400


def record(number: int) -> QueryRecord:
    return QueryRecord(statement=Statement(sql="SELECT 1", query_id=str(number)), asked_at_ms=0)


def ids_in(path: Path) -> list[int]:
    """The ids in a file of whole lines."""
    text = path.read_text()
    assert text.endswith("\n")
    return [int(json.loads(line)["query_id"]) for line in text.splitlines()]


def write(*logs: QueryLog) -> None:
    """Let eight threads write lines, in turns into one log and the other."""
    with ThreadPoolExecutor(8) as pool:
        noted = [
            pool.submit(logs[number % len(logs)].note, record(number)) for number in range(LINES)
        ]
    assert [one.result() for one in noted] == [None] * LINES


def test_each_line_is_written_once_by_whoever_writes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    write(*(QueryLog(path, limit_bytes=10_000_000) for _ in range(2)))
    assert sorted(ids_in(path)) == list(range(LINES))


def test_the_limit_holds_while_others_write(tmp_path: Path) -> None:
    path, limit_bytes = tmp_path / "log.jsonl", 20_000
    write(*(QueryLog(path, limit_bytes=limit_bytes) for _ in range(2)))
    older = path.with_name(path.name + OLDER_SUFFIX)
    kept = [*ids_in(older), *ids_in(path)]
    assert len(set(kept)) == len(kept) < LINES
    assert older.stat().st_size + path.stat().st_size <= limit_bytes
    assert older.stat().st_size > limit_bytes // 2 - 500


def test_what_cannot_be_written_is_told_and_not_held(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.mkdir()
    log = QueryLog(path, limit_bytes=10_000)
    for number in range(2):
        with pytest.raises(IsADirectoryError):
            log.note(record(number))
    path.rmdir()
    log.note(record(2))
    assert ids_in(path) == [2]
