"""`task …`: submit work, look at it, end it, try it again. An overlord runs it."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from carnac.cli.app import RUN, add_group, command, hidden_command
from carnac.cli.completion.values import complete_datasource
from carnac.cli.options import argument, flag, option
from carnac.cli.serving import listing, note_without_overlord
from carnac.cli.session import Session
from carnac.cli.tables import columns_of, counted, format_age
from carnac.core.tasks.model import SELECTED, attempt_to_json, task_to_json
from carnac.core.time.intervals import format_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carnac.api.client import OverlordClient
    from carnac.cli.output import Output
    from carnac.core.tasks.model import Attempt, Task, TaskState
    from carnac.overlord import TaskService

add_group("task", "Work that an overlord does: ingest, compact, replace, delete, clean.", panel=RUN)

EXAMPLE = "delete_flights_by_hand"
TaskId: TypeAlias = Annotated[str, argument("TASK", "The task's id.")]
AttemptNumber: TypeAlias = Annotated[
    int | None, option("--attempt N", "Number of the attempt. Default: the last one.", min=1)
]

_COLUMNS = columns_of(
    "task! | type! | datasource | state! | priority# | attempts# | age# | since# | error~"
)


@command(
    "task submit",
    panel=RUN,
    changes=True,
    examples=[
        "carnac task submit compact.json",
        "carnac task submit --wait delete.yaml",
        "carnac task submit replace.sql",
        """echo '{"type": "compact", "dataSource": "flights"}' | carnac task submit - --json""",
    ],
)
def submit(
    session: Session,
    file: Annotated[
        str,
        argument(
            "FILE", "The task in JSON or YAML, or an INSERT or REPLACE of SQL; - is standard input."
        ),
    ],
    wait: Annotated[
        bool, flag("--wait", "Return when it is over; exit 1 unless it succeeded.")
    ] = False,
    timeout_ms: Annotated[
        int | None, option("--timeout-ms MS", "Longest time to wait, in milliseconds.", min=0)
    ] = None,
) -> None:
    """Submit a task, in Carnac's own form or in Druid's.

    The task is stored whether or not an overlord runs now. A task with an id of its own may be submitted again: it is
    one task.
    """
    from carnac.cli.specfiles import read_text
    from carnac.errors import Invalid
    from carnac.specs.load import parse_text
    from carnac.specs.sql.statements import is_load_statement
    from carnac.specs.tasks.spec import QUERY_TYPE, load_task_text

    text = read_text(file)
    value = {"type": QUERY_TYPE, "query": text} if is_load_statement(text) else parse_text(text)
    if not isinstance(value, dict):
        raise Invalid("a task is an object with fields")
    load_task_text(value, text, name="from standard input" if file == "-" else file)
    with _open(session) as tasks:
        task = tasks.submit(value)
        if not task.state.is_over:
            note_without_overlord(session, tasks.leader())
        if wait:
            task = _wait(session.output, tasks, task, timeout_ms)
        _show_end(session.output, tasks, task, waited=wait)


@command(
    "task list",
    panel=RUN,
    examples=["carnac task list", "carnac task list --state failed --limit 10 --json"],
)
def list_tasks(
    session: Session,
    *,
    state: Annotated[
        str | None,
        option("--state STATE", "waiting, pending, running, succeeded, failed or cancelled."),
    ] = None,
    datasource: Annotated[
        str | None,
        option("--datasource NAME", "Only those of a datasource.", complete=complete_datasource),
    ] = None,
    kind: Annotated[str | None, option("--type TYPE", "Only those of a type.")] = None,
    limit: Annotated[int, option("--limit N", "Maximum number to show.", min=1)] = 50,
) -> None:
    """List tasks, newest first."""
    from carnac.ports import TaskFilter

    states = None if state is None else (_state(state),)
    which = TaskFilter(states=states, datasource=datasource, type=kind)
    with _open(session) as tasks:
        if datasource is not None:
            tasks.check_datasource(datasource)
        found = tasks.list(which, limit=limit)
        now_ms = (
            session.clock.now_ms()
        )  # of the database's server, which is asked while the store is open
        if not all(one.state.is_over for one in found):
            note_without_overlord(session, tasks.leader())
    if session.output.is_json:
        session.output.json({"tasks": [task_to_json(task) for task in found]})
        return
    if not found:
        session.output.line("no tasks")
        return
    session.output.table(_COLUMNS, [_row(task, now_ms) for task in found])
    session.output.note(counted(len(found), "task"))


@command("task show", panel=RUN, examples=[f"carnac task show {EXAMPLE}"])
def show(session: Session, task_id: TaskId) -> None:
    """Show a task: its state, its attempts, and the progress of the last one."""
    with _open(session) as tasks, _found(task_id):
        task, attempts = tasks.get(task_id), tasks.attempts(task_id)
        payload, now_ms = tasks.payload(task_id), session.clock.now_ms()
        if not task.state.is_over:
            note_without_overlord(session, tasks.leader())
    if session.output.is_json:
        session.output.json(
            {
                **task_to_json(task),
                "attempts_made": [attempt_to_json(one) for one in attempts],
                "payload": payload,
            }
        )
        return
    session.output.facts(_facts(task, attempts, now_ms))


@command(
    "task log",
    panel=RUN,
    examples=[
        f"carnac task log {EXAMPLE}",
        f"carnac task log {EXAMPLE} --attempt 1 --tail-bytes 4096",
    ],
)
def log(
    session: Session,
    task_id: TaskId,
    attempt: AttemptNumber = None,
    tail_bytes: Annotated[
        int | None, option("--tail-bytes N", "Print only this many bytes from the end.", min=1)
    ] = None,
) -> None:
    """Print the log of an attempt. It is kept on the machine of the overlord that ran it."""
    with _open(session) as tasks, _found(task_id):
        text = tasks.log(task_id, attempt, tail_bytes=tail_bytes)
        has_started = text is not None or bool(tasks.attempts(task_id))
    if session.output.is_json:
        session.output.json({"task_id": task_id, "log": text})
    elif not has_started:
        session.output.note(f"task {task_id} has not been started, so there is no log")
    elif text is None:
        session.output.note("there is no log that can be read from here")
    else:
        session.output.line(text.rstrip("\n"))


@command("task report", panel=RUN, examples=[f"carnac task report {EXAMPLE} --json"])
def report(session: Session, task_id: TaskId, attempt: AttemptNumber = None) -> None:
    """Show what an attempt did: rows read, written and rejected, segments, revision."""
    with _open(session) as tasks, _found(task_id):
        found = tasks.report(task_id, attempt)
    if session.output.is_json:
        session.output.json({"task_id": task_id, "report": found})
    elif found is None:
        session.output.line("no report yet")
    else:
        session.output.facts([(name, _plain(value)) for name, value in found.items()])


@command("task cancel", panel=RUN, examples=[f"carnac task cancel {EXAMPLE}"])
def cancel(session: Session, task_id: TaskId) -> None:
    """Cancel a task: it publishes nothing more, and its locks are free at once."""
    with _open(session) as tasks, _found(task_id):
        task = tasks.cancel(task_id)
    session.output.answer(task_to_json(task), f"task {task.task_id} is {task.state}")


@command("task retry", panel=RUN, examples=[f"carnac task retry {EXAMPLE}"])
def retry(session: Session, task_id: TaskId) -> None:
    """Retry a failed or cancelled task; start a task that waits for its next attempt at once."""
    with _open(session) as tasks, _found(task_id):
        task = tasks.retry(task_id)
    session.output.answer(task_to_json(task), f"task {task.task_id} is {task.state}")


@hidden_command("task attempt")
def attempt(
    session: Session,
    task_id: TaskId,
    number: Annotated[int, typer.Option("--attempt", metavar="N", min=1)],
) -> None:
    """Run one attempt in this process. Runners call this."""
    import os
    import signal

    from carnac.bootstrap.tasks import run_task_attempt
    from carnac.cli.logs import logging_to_stderr

    def stop(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    with logging_to_stderr(is_json=False):
        run_task_attempt(
            task_id,
            number,
            settings=session.settings,
            on_lost=lambda: os.kill(os.getpid(), signal.SIGTERM),
        )


def _open(session: Session) -> TaskService | OverlordClient:
    """Return the tasks of the store, or of an overlord elsewhere."""
    settings = session.settings
    if settings.overlord is not None:
        from carnac.api.client import OverlordClient

        return OverlordClient(settings.overlord.get_secret_value(), session.clock)
    from carnac.bootstrap.tasks import open_tasks

    return open_tasks(settings=settings, clock=session.clock)


def _found(task_id: str) -> AbstractContextManager[None]:
    return listing("carnac task list", "there is no task", task_id=task_id)


def _wait(
    output: Output, tasks: TaskService | OverlordClient, task: Task, timeout_ms: int | None
) -> Task:
    told: list[str] = []

    def tell(now: Task) -> None:
        text = f"task {now.task_id} is {now.state}"
        if not output.is_json and text not in told[-1:]:
            told.append(text)
            output.note(text)

    return tasks.wait(task.task_id, timeout_ms=timeout_ms, on_look=tell)


def _show_end(
    output: Output, tasks: TaskService | OverlordClient, task: Task, *, waited: bool
) -> None:
    if not waited:
        output.answer(task_to_json(task), task.task_id)
        return
    error = "" if task.error is None else f": {task.error}"
    output.answer(
        {**task_to_json(task), "report": tasks.report(task.task_id)},
        f"task {task.task_id} {task.state}{error}",
    )
    if str(task.state) != "succeeded":
        raise typer.Exit(1)


def _state(text: str) -> TaskState:
    from carnac.core.tasks.model import TaskState
    from carnac.errors import Invalid

    try:
        return TaskState(text.lower())
    except ValueError:
        known = ", ".join(TaskState)
        raise Invalid(f"'{text}' is no state of a task; there are {known}") from None


def _datasource(task: Task) -> str:
    """Return the datasource of a task; empty: it runs a SELECT, which has none."""
    return "" if task.datasource == SELECTED else task.datasource


def _row(task: Task, now_ms: int) -> list[str]:
    return [
        task.task_id,
        task.type,
        _datasource(task),
        str(task.state),
        str(task.priority),
        str(task.attempts),
        format_age(now_ms - task.created_at_ms),
        format_age(now_ms - task.changed_at_ms),
        task.error or "",
    ]


def _facts(task: Task, attempts: Sequence[Attempt], now_ms: int) -> list[tuple[str, str]]:
    facts = [
        ("task", task.task_id),
        ("type", task.type),
        ("datasource", _datasource(task) or "none, it runs a SELECT"),
        ("state", f"{task.state}, since {format_age(now_ms - task.changed_at_ms)}"),
        ("priority", str(task.priority)),
        ("submitted", format_ms(task.created_at_ms)),
    ]
    if task.waits_for:
        facts.append(("waits for", ", ".join(task.waits_for)))
    if task.wakes_at_ms is not None:
        facts.append(("tried again", f"from {format_ms(task.wakes_at_ms)}"))
    if task.error is not None:
        facts.append(("error", task.error))
    for one in attempts:
        text = f"{one.state}, heard of {format_age(now_ms - one.heartbeat_at_ms)} ago"
        if one.state.is_over:
            text = f"{one.state}{': ' + one.error if one.error else ''}"
        facts.append((f"attempt {one.number}", text))
        if one.holder:
            facts.append(("", one.holder))
        if one.progress is not None and not one.state.is_over:
            facts.append(("", _progress(one.progress)))
    return facts


def _progress(text: str) -> str:
    news = json.loads(text)
    parts = [str(news.get("phase", ""))]
    if news.get("total"):
        parts.append(f"{news.get('done', 0)} of {news['total']}")
    if news.get("rows") is not None:
        parts.append(counted(news["rows"], "row"))
    return ", ".join(parts)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
