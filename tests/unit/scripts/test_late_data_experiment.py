"""What the experiment with late rows writes down, reckons and draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.late_data.report import late_document, write_picture
from benchmarks.late_data.stream import MODES, LateRun, Scale
from benchmarks.late_data.watch import Episode, WaitTimes, Watch, wait_times
from carnac.core.tasks.model import Task, TaskState
from carnac.core.time.intervals import Interval, parse_interval
from carnac.errors import CarnacError, Conflict, Invalid, Revoked
from tests.support.clock import FakeClock

HOUR = parse_interval("2024-03-04T00:00/PT1H")


def episode(task_id: str, **fields: object) -> Episode:
    given: dict[str, object] = {
        "task_id": task_id,
        "type": task_id.partition("-")[0],
        "datasource": "default",
        "start_ms": 1_000,
        "end_ms": 2_000,
        "end": "finished",
        "waited_ms": 5,
        "is_delayed": False,
        "bytes_written": 0,
        "bytes_wasted": 0,
    }
    return Episode(**{**given, **fields})  # type: ignore[arg-type]


def late_run(
    *episodes: Episode, mode: int = 2, found: int = 10, stable_ms: int | None = 9_000
) -> LateRun:
    places: Mapping[str, tuple[Interval, ...]] = {one.task_id: (HOUR,) for one in episodes}
    return LateRun(
        mode=MODES[mode],
        start_ms=500,
        stream_ms=4_000,
        stable_ms=stable_ms,
        episodes=episodes,
        places=places,
        rows_expected=10,
        rows_found=(found, found),
    )


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ([], WaitTimes(median=0, p99=0, longest=0)),
        ([7], WaitTimes(median=7, p99=7, longest=7)),
        (list(range(1, 201)), WaitTimes(median=100, p99=198, longest=200)),
    ],
)
def test_waits_by_nearest_rank(waits: list[int], expected: WaitTimes) -> None:
    assert wait_times(waits[::-1]) == expected


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, "finished"),
        (Revoked("gone"), "revoked"),
        (Conflict("changed"), "conflicted"),
        (Invalid("wrong"), "failed"),
    ],
)
def test_how_an_attempt_ended_is_written_down(error: CarnacError | None, end: str) -> None:
    clock = FakeClock()
    watch = Watch(clock)
    task = Task(
        task_id="compact-1",
        number=1,
        type="compact",
        datasource="default",
        group_id="g",
        digest="",
        priority=25,
        state=TaskState.RUNNING,
        created_at_ms=0,
        changed_at_ms=0,
    )

    def work() -> Mapping[str, object]:
        clock.advance_ms(30)
        watch.note_wait("compact-1/1", 7)
        watch.note_delay("compact-1/1")
        watch.note_delay("another/1")
        if error is not None:
            raise error
        return {"done": True}

    def so_far() -> Mapping[str, object]:
        return {"sizeBytes": 5, "bytesWasted": 3}

    if error is None:
        assert watch.run("compact-1/1", task, work, so_far=so_far) == {"done": True}
    else:
        with pytest.raises(type(error)):
            watch.run("compact-1/1", task, work, so_far=so_far)
    (seen,) = watch.episodes("default")
    assert (seen.end, seen.waited_ms, seen.is_delayed) == (end, 7, True)
    assert (seen.bytes_written, seen.bytes_wasted) == (5, 3)
    assert seen.end_ms - seen.start_ms == 30
    assert watch.episodes("exclusive") == []


@pytest.mark.parametrize(
    ("run", "is_right"),
    [
        (late_run(episode("append-1"), episode("compact-1")), True),
        (late_run(episode("append-1", is_delayed=True), episode("compact-1")), False),
        (late_run(episode("append-1"), episode("compact-1", end="revoked")), False),
        (late_run(episode("append-1"), episode("compact-1"), found=11), False),
        (late_run(episode("append-1"), episode("compact-1"), stable_ms=None), False),
        (late_run(episode("append-1", is_delayed=True), episode("compact-1"), mode=0), True),
        (late_run(episode("append-1"), episode("compact-1", end="revoked"), mode=0), True),
        (late_run(episode("append-1"), mode=0, found=9), False),
    ],
)
def test_only_classic_locks_may_delay_and_revoke_and_no_rows_are_lost_under_any(
    run: LateRun, is_right: bool
) -> None:
    assert run.is_right is is_right


@pytest.mark.slow
def test_the_report_counts_and_the_picture_shows_every_end(tmp_path: Path) -> None:
    runs = [
        late_run(
            episode("append-1", is_delayed=True, waited_ms=80),
            episode("append-2", end="failed"),
            episode("compact-1", end="revoked", bytes_wasted=100),
            episode("compact-2", bytes_written=300),
            mode=0,
        )
    ]
    picture = write_picture(runs, (HOUR,), Scale(), tmp_path / "late.svg")
    document = late_document(runs, picture)
    assert document["ok"]
    assert document["runs"] == [
        {
            "locks": "exclusive",
            "context": {"forceTimeChunkLock": True},
            "compactions": {
                "started": 2,
                "finished": 1,
                "revoked": 1,
                "conflicted": 0,
                "failed": 0,
                "bytesWritten": 300,
                "bytesWasted": 100,
            },
            "appends": {
                "sent": 2,
                "delayed": 1,
                "waitMs": {"median": 5, "p99": 80, "max": 80},
            },
            "stableAfterMs": 9000,
            "rows": {"sent": 10, "found": 10, "distinct": 10},
        }
    ]
    drawn = picture.read_text()
    for text in ("00:00", "revoked, its work for nothing", "append failed", "all stable"):
        assert text in drawn
