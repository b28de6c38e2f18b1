"""`carnac task …` on a store without an overlord, with an attempt that a test plays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_records
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.core.tasks.events import (
    BeatAttempt,
    ClaimAttempt,
    DispatchTasks,
    FinishAttempt,
    TaskEvent,
)
from carnac.core.tasks.leadership import Candidacy
from carnac.core.tasks.machine import OVERLORD
from tests.e2e.conftest import Run

DELETE = {"type": "delete", "id": "mine", "dataSource": "flights", "where": "delay > 200"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "delete.json"
    path.write_text(json.dumps(DELETE), encoding="utf-8")
    return path


def play(store: Path, *events: TaskEvent) -> None:
    """Be the overlord, and the attempt."""
    metadata = open_records(settings=Settings(store=str(store)), clock=SystemClock())
    one = Candidacy(role=OVERLORD, leader_id="one", holder="a test", lease_ms=600_000)
    fence = metadata.lead(one).fence
    metadata.change_tasks(
        DispatchTasks(fence=fence, capacity=5, lease_ms=600_000, runner="nobody's")
    )
    for event in events:
        metadata.change_tasks(event)
    metadata.close()


def test_without_tasks_it_says_so(run: Run, store: Path) -> None:
    assert run("task", "list", "--store", store).out == "no tasks\n"
    assert run("task", "list", "--store", store, "--json").json == {"tasks": []}
    done = run("task", "show", "x", "--store", store, code=5)
    assert (done.code, done.err) == (
        5,
        "error: there is no task x, or not any more; carnac task list shows those there are\n",
    )


def test_submitting_prints_the_id_and_twice_is_once(run: Run, store: Path, file: Path) -> None:
    done = run("task", "submit", file, "--store", store)
    assert done.out == "mine\n"
    assert "no overlord leads now" in done.err
    waited = run("task", "submit", file, "--wait", "--timeout-ms", "0", "--store", store, code=1)
    told = "no overlord leads now; carnac overlord starts one\ntask mine is pending\n"
    assert waited.err == told, "before it waits for what nobody does"
    shown = run("task", "submit", file, "--store", store, "--json").json
    assert (shown["task_id"], shown["state"], shown["priority"]) == ("mine", "pending", 50)
    assert shown["created_at"].endswith("Z")
    listed = run("task", "list", "--store", store, "--json")
    assert len(listed.json["tasks"]) == 1
    for answer in (listed, run("task", "show", "mine", "--store", store)):
        assert answer.err.startswith("no overlord leads now; carnac overlord starts one\n")
    logged = run("task", "log", "mine", "--store", store)
    assert logged.err == "task mine has not been started, so there is no log\n"


def test_what_is_wrong_with_a_task_is_one_sentence(
    run: Run, store: Path, file: Path, tmp_path: Path
) -> None:
    file.write_text('{"type": "delete", "dataSource": "flights"}', encoding="utf-8")
    done = run("task", "submit", file, "--store", store, code=2)
    assert done.out == ""
    assert done.err.startswith(f"error: wrong spec {file}: say what to delete")
    for where, says in (
        ("delay >", "syntax error"),
        ("delay > 1; DROP", "syntax error"),
        ("delay > (SELECT 1)", "subqueries are not allowed"),
        ("random() > 0.5", "random"),
    ):
        file.write_text(json.dumps({**DELETE, "where": where}), encoding="utf-8")
        assert says in run("task", "submit", file, "--store", store, code=2).err
    assert run("task", "list", "--store", store).out == "no tasks\n"
    run("task", "submit", tmp_path / "nowhere", "--store", store, code=5)
    run("task", "list", "--state", "asleep", "--store", store, code=2)


def test_a_task_at_work_and_at_its_end(run: Run, store: Path, file: Path) -> None:
    run("task", "submit", file, "--store", store)
    progress = json.dumps({"phase": "rewrite", "done": 1, "total": 4, "rows": 1200})
    play(
        store,
        ClaimAttempt(task_id="mine", number=1, holder="carnac, process 7 on here"),
        BeatAttempt(task_id="mine", number=1, progress=progress),
    )
    done = run("task", "show", "mine", "--store", store)
    for part in ("running, since", "carnac, process 7 on here", "rewrite, 1 of 4, 1,200 rows"):
        assert part in done.out
    shown = run("task", "show", "mine", "--store", store, "--json").json
    assert shown["payload"] == DELETE
    assert shown["attempts_made"][0]["progress"]["done"] == 1
    assert "running" in run("task", "list", "--state", "running", "--store", store).out
    assert run("task", "report", "mine", "--store", store).out == "no report yet\n"
    run("task", "retry", "mine", "--store", store, code=3)
    play(store, FinishAttempt(task_id="mine", number=1, report='{"rowsDeleted": 3}'))
    assert run("task", "report", "mine", "--store", store, "--json").json["report"] == {
        "rowsDeleted": 3
    }
    ended = run("task", "submit", file, "--wait", "--store", store)
    assert (ended.code, ended.out) == (0, "task mine succeeded\n")


def test_cancelling_retrying_and_waiting_for_what_fails(run: Run, store: Path, file: Path) -> None:
    run("task", "submit", file, "--store", store)
    assert run("task", "cancel", "mine", "--store", store).out == "task mine is cancelled\n"
    ended = run("task", "submit", file, "--wait", "--store", store, code=1)
    assert ended.out == "task mine cancelled: cancelled by request\n"
    assert run("task", "retry", "mine", "--store", store).out == "task mine is pending\n"
    play(
        store,
        ClaimAttempt(task_id="mine", number=1, holder="here"),
        FinishAttempt(task_id="mine", number=1, error="no such column"),
    )
    shown = run("task", "submit", file, "--wait", "--json", "--store", store, code=1).json
    assert (shown["state"], shown["error"]) == ("failed", "no such column")
    done = run("task", "log", "mine", "--store", store)
    assert "there is no log that can be read from here" in done.err


def test_garbage_collection_forgets_tasks_that_were_over_for_long(
    run: Run, store: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("task", "submit", file, "--store", store)
    run("task", "cancel", "mine", "--store", store)
    assert run("gc", "--store", store, "--json").json["tasks_forgotten"] == []
    monkeypatch.setenv("CARNAC_TASK_RETENTION_MS", "0")
    assert "would be forgotten: 1 task" in run("gc", "--dry-run", "--store", store).out
    assert run("gc", "--store", store, "--json").json["tasks_forgotten"] == ["mine"]
    assert run("task", "list", "--store", store).out == "no tasks\n"
