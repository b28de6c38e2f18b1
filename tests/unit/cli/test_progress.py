from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from carnac.cli.progress import (
    SLOW_START_MS,
    BarProgress,
    PlainProgress,
    describe,
    job_progress,
    phase_progress,
)
from carnac.cli.session import Session
from carnac.ports import JobProgress
from tests.support.clock import FakeClock


def moment(
    phase: str, done: int, rows: int | None = None, eta_ms: int | None = None
) -> JobProgress:
    return JobProgress(phase=phase, done=done, total=8, rows=rows, eta_ms=eta_ms)


def test_plain_progress_tells_each_phase_and_then_every_three_seconds() -> None:
    told: list[str] = []
    clock = FakeClock()
    tell = PlainProgress(told.append, clock)
    tell(moment("read", 0))
    for done in range(1, 8):
        clock.advance_ms(1_000)
        tell(moment("read", done, rows=done * 1_000, eta_ms=(8 - done) * 1_000))
    tell(moment("write", 0))
    assert told == [
        "read: 0/8 tasks",
        "read: 3/8 tasks, 3,000 rows, 1,000 rows/s, 5.00 s left",
        "read: 6/8 tasks, 6,000 rows, 1,000 rows/s, 2.00 s left",
        "write: 0/8 tasks",
    ]


@pytest.mark.parametrize(
    ("at", "elapsed_ms", "text"),
    [
        (moment("read", 8, rows=10, eta_ms=0), 50, "read: 8/8 tasks, 10 rows"),
        (moment("read", 2, eta_ms=90_000), 1_000, "read: 2/8 tasks, 1 min 30 s left"),
        (moment("read", 2, rows=0), 0, "read: 2/8 tasks"),
        (moment("read", 0), 3_000, "read: 0/8 tasks, 3.00 s so far"),
    ],
)
def test_what_is_not_known_is_not_said(at: JobProgress, elapsed_ms: int, text: str) -> None:
    assert describe(at, elapsed_ms) == text


def test_the_bar_shows_one_phase_at_a_time() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    columns = (TextColumn("{task.description}"), TextColumn("{task.fields[detail]}"))
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        clock = FakeClock()
        tell = BarProgress(progress, clock)
        tell.open("starting Spark")
        assert [task.description for task in progress.tasks] == ["starting Spark"]
        tell(moment("read", 0))
        clock.advance_ms(2_000)
        tell(moment("read", 4, rows=2_000, eta_ms=2_000))
        (task,) = progress.tasks
        assert (task.description, task.completed, task.total) == ("read", 4, 8)
        assert task.fields["detail"] == "4/8 tasks  2,000 rows, 1,000 rows/s, 2.00 s left"
        tell(moment("write", 1))
        (task,) = progress.tasks
        assert (task.description, task.completed) == ("write", 1)


def test_a_phase_has_its_own_pace_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    with phase_progress(Session(clock=clock), unit="hours") as tell:
        tell("history", 1, 9)
        clock.advance_ms(4_000)
        tell("history", 5, 9)
        clock.advance_ms(1_000)
        tell("cost", 1, 3)
    assert capsys.readouterr().err.splitlines() == [
        "history: 1/9 hours",
        "history: 5/9 hours, 3.20 s left",
        "cost: 1/3 hours",
    ]


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_slow_start_of_spark_names_prepare_once_on_a_machine(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    is_slow: bool,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    clock = FakeClock()
    for _ in range(2):
        session = Session(clock=clock)
        with job_progress(session) as tell:
            session.output.notice("starting Spark")
            clock.advance_ms(SLOW_START_MS if is_slow else SLOW_START_MS - 1)
            tell(moment("read", 0))
            clock.advance_ms(60_000)
            tell(moment("read", 8))
    notes = [line for line in capsys.readouterr().err.splitlines() if "carnac prepare" in line]
    assert len(notes) == is_slow
    assert len(list(tmp_path.rglob("*.told"))) == is_slow


def test_nothing_is_to_prepare_where_spark_runs_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CARNAC_SPARK_MASTER", "spark://host:7077")
    monkeypatch.chdir(tmp_path)
    clock = FakeClock()
    session = Session(clock=clock)
    with job_progress(session) as tell:
        session.output.notice("starting Spark")
        clock.advance_ms(60_000)
        tell(moment("read", 0))
    assert "prepare" not in capsys.readouterr().err
