"""Historicals over the query engine: held or cold, in a folder or elsewhere, an answer is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from carnac.core.segments.segment import ColumnType, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.deep_storage import open_deep_storage
from carnac.errors import CarnacError, Corrupt, Invalid
from carnac.historical import Historical
from carnac.ports import DeepStorage
from carnac.ports.queries import READ_ALL
from carnac.query import QueryEngine
from carnac.query.keeping.store import KeptResults
from tests.support.historicals import (
    hour_rows,
    open_historical,
    request_of,
    rows_of,
    settled,
    write_hours,
)
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.segments import write_segment

TYPES = {
    "word": ColumnType.STRING,
    "n": ColumnType.LONG,
    "x": ColumnType.DOUBLE,
    "yes": ColumnType.BOOLEAN,
    "tags": ColumnType.STRING_ARRAY,
    "more": ColumnType.JSON,
}
NEWEST = "SELECT __time, n FROM v ORDER BY __time DESC LIMIT 7"
STATEMENTS = (
    "SELECT count(*), sum(n), min(x), max(word), min(__time), max(__time) FROM v",
    "SELECT word, yes, count(*), sum(x) FROM v GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM v ORDER BY __time, n",
    "SELECT n, tags[1], more FROM v WHERE word = 'w1' AND n > 300 ORDER BY n",
    NEWEST,
    "SELECT date_trunc('hour', __time), len(tags), count(*) FROM v GROUP BY ALL ORDER BY ALL",
    "SELECT n FROM v WHERE word IS NULL ORDER BY n",
    "SELECT n FROM v WHERE __time >= TIMESTAMPTZ '2014-01-01 02:00:00Z' AND x < 100 ORDER BY n",
)


def rich_rows(hour: int) -> list[dict[str, Any]]:
    return [
        {
            **row,
            "word": None if i % 7 == 0 else row["word"],
            "x": i / 8,
            "yes": None if i % 5 == 0 else i % 2 == 0,
            "tags": None if i % 6 == 0 else [f"t{i % 3}", None, "é"][: i % 4],
            "more": '{"a": 1}' if i % 2 else None,
        }
        for i, row in enumerate(hour_rows(hour, 500))
    ]


def open_served(folder: Path, storage: DeepStorage, kept: KeptResults | None = None) -> Historical:
    engine = QueryEngine(
        storage, folders=[folder / "segments"], cache_folder=folder / "cache", threads=2, kept=kept
    )
    return open_historical(folder, storage, engine=engine)


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> DeepStorage:
    return (
        MemoryDeepStorage()
        if request.param == "memory"
        else open_deep_storage(f"{tmp_path}/deep [x]")
    )


@pytest.fixture
def segments(storage: DeepStorage) -> list[Segment]:
    rich = [write_segment(storage, rich_rows(hour), types=TYPES) for hour in range(3)]
    return [*rich, *write_hours(storage, 5)[3:]]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_held_and_cold_segments_give_the_same_rows(
    tmp_path: Path, storage: DeepStorage, segments: list[Segment], sql: str
) -> None:
    server = open_served(tmp_path / "a [1]", storage)
    clip = IntervalSet((Interval(segments[0].min_time_ms + 2000, segments[-1].max_time_ms - 3000),))
    for part in (None, clip):
        cold, report = rows_of(server, request_of(segments, sql, clip=part))
        assert report.cold == len(segments)
        server.assign(segments[::2], fence=1, number=0)
        settled(server)
        mixed, report = rows_of(server, request_of(segments, sql, clip=part))
        assert report.cold == 2
        server.assign(segments, fence=1, number=0)
        settled(server)
        held, report = rows_of(server, request_of(segments, sql, clip=part))
        assert (report.cold, report.is_whole, len(report.slices)) == (0, True, len(segments))
        assert held
        assert cold == mixed == held
        server.unassign([one.segment_id for one in segments], fence=1, number=0)
    server.close()


@pytest.mark.parametrize("is_held", [True, False])
def test_the_newest_rows_are_kept_as_those_of_all_segments(
    tmp_path: Path, storage: DeepStorage, segments: list[Segment], is_held: bool
) -> None:
    server = open_served(tmp_path / "h", storage, KeptResults(rows_min=1))
    if is_held:
        server.assign(segments, fence=1, number=0)
        settled(server)
    wanted, _ = rows_of(server, request_of(segments, NEWEST, keeping=READ_ALL))
    read, first = rows_of(server, request_of(segments, NEWEST))
    known, again = rows_of(server, request_of(segments, NEWEST))
    assert read == known == wanted
    assert (first.kept, again.kept) == (0, len(segments))
    server.close()


def test_a_statement_reaches_nothing_but_its_view(
    tmp_path: Path, storage: DeepStorage, segments: list[Segment]
) -> None:
    server = open_served(tmp_path / "h", storage)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        f"SELECT * FROM '{tmp_path}/secret.csv'",
        "SELECT * FROM other",
        "COPY v TO 'x.csv'",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT * FROM v",
    ):
        with pytest.raises(Invalid):
            rows_of(server, request_of(segments, sql))
    assert server.running == 0
    server.close()


def test_damage_in_deep_storage_is_told_as_damage(tmp_path: Path) -> None:
    storage = MemoryDeepStorage()
    segment = write_segment(storage, rich_rows(0) + rich_rows(1), types=TYPES)
    with storage.open_read(segment.path) as file:
        data = file.read()
    for begin, end in ((4, len(data) // 2), (len(data) - 60, len(data)), (0, len(data))):
        storage.write(segment.path, data[:begin] + b"\xff" * (end - begin) + data[end:])
        server = open_served(tmp_path / f"h{begin}", storage)
        with pytest.raises(Corrupt, match=f"segment {segment.segment_id}"):
            rows_of(server, request_of([segment], "SELECT * FROM v"))
        server.assign([segment], fence=1, number=0)
        assert "its bytes are not those" in settled(server).holdings[0].error
        server.close()
    storage.write(segment.path, data[:-1])
    server = open_served(tmp_path / "shorter", storage)
    with pytest.raises(CarnacError, match="ends"):
        rows_of(server, request_of([segment], "SELECT * FROM v"))
    server.close()
