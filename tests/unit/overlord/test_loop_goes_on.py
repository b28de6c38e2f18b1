"""An overlord's round goes on: what is wrong with one task is written down as its end, and the others are handled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from carnac.core.tasks.model import Attempt, Task, TaskState
from carnac.errors import Invalid, NotFound
from carnac.overlord.loop import OverlordLoop
from carnac.overlord.runners import ProcessRunner
from tests.overlords import DELETE, LEASE_MS, Bench
from tests.support.faulty import Crash
from tests.support.tasks import FakeRunner
from tests.tasks import wants

BAD_ID = "a\0b"
"""No door takes it; stores from before have it."""


class Odd(FakeRunner):
    """A runner that raises what a test says of one attempt, whatever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def _fail(self, name: str) -> None:
        if self.error is not None and "odd" in name:
            raise self.error

    def start(self, task: Task, attempt: Attempt) -> str:
        self._fail(task.task_id)
        return super().start(task, attempt)

    def is_alive(self, handle: str) -> bool | None:
        self._fail(handle)
        return super().is_alive(handle)

    def stop(self, handle: str) -> None:
        self._fail(handle)
        super().stop(handle)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as made:
        made.runner = Odd()
        made.loop = made.make_loop("one", runner=made.runner)
        yield made


def odd_runner(bench: Bench) -> Odd:
    assert isinstance(bench.runner, Odd)
    return bench.runner


@pytest.mark.parametrize(
    "error",
    [
        ValueError("embedded null byte"),
        KeyError("a"),
        RecursionError("too deep"),
        OSError(7, "E2BIG"),
    ],
    ids=lambda error: type(error).__name__,
)
class TestOneOddTask:
    def test_that_cannot_be_started_fails_with_its_reason_and_frees_its_slots(
        self, bench: Bench, error: Exception
    ) -> None:
        odd_runner(bench).error = error
        bench.tasks.submit({**DELETE, "id": "odd", "context": {"slots": 2, "retries": 0}})
        bench.tasks.submit({**DELETE, "id": "plain"})
        for _ in range(2):
            bench.loop.run_round()
        odd = bench.tasks.get("odd")
        assert odd.state is TaskState.FAILED
        assert odd.error == f"{type(error).__name__}: {error}"
        assert bench.runner.started == ["plain/1"]

    def test_of_which_nothing_can_be_learnt_keeps_nobody_waiting(
        self, bench: Bench, error: Exception
    ) -> None:
        for name in ("odd", "dead", "unwanted"):
            bench.tasks.submit({**DELETE, "id": name, "context": {"retries": 0}})
            bench.loop.run_round()
            bench.clock.advance_ms(1)
        bench.tasks.submit({**DELETE, "id": "next"})
        odd_runner(bench).error = error
        bench.runner.alive["fake:dead/1"] = False
        for _ in range(2):
            bench.loop.run_round()
        assert bench.tasks.get("dead").state is TaskState.FAILED
        assert "unwanted/1" in bench.runner.started
        bench.tasks.cancel("odd")
        bench.tasks.cancel("unwanted")
        for _ in range(2):
            bench.loop.run_round()
        assert bench.runner.stopped == ["fake:unwanted/1"]
        assert bench.runner.started[-1] == "next/1"

    def test_whose_files_cannot_be_removed_is_settled_all_the_same(
        self, bench: Bench, error: Exception
    ) -> None:
        cleared = []

        def clear_up(attempt: Attempt) -> None:
            cleared.append(attempt.task_id)
            if attempt.task_id == "odd":
                raise error

        loop = bench.make_loop("one", clear_up=clear_up)
        for name in ("odd", "plain"):
            bench.tasks.submit({**DELETE, "id": name, "context": {"retries": 0}})
        loop.run_round()
        for name in ("odd", "plain"):
            bench.runner.alive[f"fake:{name}/1"] = False
        loop.run_round()
        loop.run_round()
        loop.close()
        assert sorted(set(cleared)) == ["odd", "plain"]
        assert bench.metadata.live_attempts() == ()


def test_a_crash_is_no_exception_of_a_task(bench: Bench) -> None:
    odd_runner(bench).error = Crash()
    bench.tasks.submit({**DELETE, "id": "odd"})
    with pytest.raises(Crash):
        bench.loop.run_round()


# ------------------------------------------------------------------------------ with real processes

Make = Callable[..., OverlordLoop]


@pytest.fixture
def make(bench: Bench, tmp_path: Path) -> tuple[Bench, Make]:
    """Return a bench, and what makes loops whose attempts are processes that end at once."""

    def loop(name: str = "one", *, environ: dict[str, str] | None = None) -> OverlordLoop:
        runner = ProcessRunner(
            lambda task_id, number: ["task", "attempt", task_id, str(number)],
            environ=dict(os.environ) if environ is None else environ,
            spark_conf={},
            logs=tmp_path / "logs",
            host="here",
        )
        return bench.make_loop(name, runner=runner)  # type: ignore[arg-type]

    return bench, loop


def settled(bench: Bench, loop: OverlordLoop, *, rounds: int = 20) -> None:
    for _ in range(rounds):
        loop.run_round()
        bench.clock.advance_ms(LEASE_MS)


def test_an_id_that_no_process_takes_fails_also_after_a_restart(make: tuple[Bench, Make]) -> None:
    bench, loop = make
    bench.metadata.change_tasks(wants(BAD_ID, slots=2, retries=1))
    bench.metadata.change_tasks(wants("x" * 255 + "日本"))
    first = loop("one")
    assert first.run_round() == (BAD_ID,)
    task = bench.tasks.get(BAD_ID)
    assert task.state is TaskState.FAILED
    assert task.error == "no process takes its arguments: embedded null byte"
    first.close()
    bench.clock.advance_ms(LEASE_MS)
    assert loop("two").run_round() == ("x" * 255 + "日本",), "its slots are free"


def test_an_environment_that_is_too_large_is_said(make: tuple[Bench, Make]) -> None:
    bench, loop = make
    bench.metadata.change_tasks(wants("a"))
    loop(environ={"X": "x" * (1 << 22)}).run_round()
    task = bench.tasks.get("a")
    assert (task.state, task.error) == (
        TaskState.FAILED,
        "no process can be started: Argument list too long",
    )


def test_a_python_that_is_gone_is_tried_again_and_said(
    make: tuple[Bench, Make], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, loop = make
    bench.metadata.change_tasks(wants("a", retries=1))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    settled(bench, loop(), rounds=3)
    task = bench.tasks.get("a")
    assert (task.state, task.attempts) == (TaskState.FAILED, 2)
    assert task.error == "no process can be started: No such file or directory"


@pytest.mark.parametrize("task_id", [BAD_ID, "a\nb", "-rf", "a/b", "x" * 5_000])
def test_what_is_stored_already_is_listed_and_cancelled(bench: Bench, task_id: str) -> None:
    tasks = bench.tasks
    tasks.submit({**DELETE, "id": "a"})
    bench.metadata.change_tasks(wants(task_id))
    assert [one.task_id for one in tasks.list()] == [task_id, "a"]
    assert tasks.cancel(task_id).state is TaskState.CANCELLED
    assert tasks.get("a").state is TaskState.PENDING, "no id is taken for another"
    assert tasks.attempts(task_id) == ()
    assert tasks.payload(task_id) == {}
    assert [one.task_id for one in tasks.trim(retention_ms=0)] == [task_id]
    for unknown in (task_id, "a\0", "no such"):
        with pytest.raises(NotFound):
            tasks.report(unknown)
    for unfit in ("\ud800", "a\udfff"):
        with pytest.raises(Invalid, match="what no database keeps"):
            tasks.cancel(unfit)
