"""`/druid/indexer/v1/task…`: submit tasks, look at them, end them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from carnac.api.admission import Admission
from carnac.api.bodies import JsonList, JsonObject, body_shown, text_of
from carnac.api.services import Services
from carnac.api.shapes import (
    STATES,
    DataSourceNamed,
    TaskNamed,
    TaskPayloadResponse,
    TaskStatus,
    TaskStatusPlus,
    TaskStatusResponse,
    full_status,
    ingestion_report,
    no_report,
    sendable,
    short_status,
)
from carnac.api.sql.kept import Selected
from carnac.core.tasks.model import SELECTED, Attempt, Task, TaskState
from carnac.core.texts import WHOLE_MAX
from carnac.core.time.intervals import Interval, parse_interval
from carnac.errors import Invalid, NotFound
from carnac.ports.tasks import TaskFilter

if TYPE_CHECKING:
    from carnac.overlord import TaskService

PREFIX = "/druid/indexer/v1"
COMPLETE_DEFAULT = 1_000
"""Number of the newest finished tasks that are listed, unless `max` says otherwise."""
SHUTDOWN = "Shutdown request from user"
"""Druid's words for why a task has ended: its web console shows by them which tasks were cancelled."""
LISTED_MAX = 10_000
"""Most tasks of a state in one answer."""

TaskId = Annotated[str, Path(description="The task's id, as its submission was answered.")]
DatasourceFilter = Annotated[
    str | None, Query(alias="datasource", description="Only tasks of this datasource.")
]
CreatedFilter = Annotated[
    str | None,
    Query(
        alias="createdTimeInterval",
        description="Only tasks submitted within: `2024-01-01_2024-02-01`, or `2024-01-01_P1M`.",
    ),
]
MaxComplete = Annotated[
    int | None,
    Query(
        alias="max",
        ge=0,
        le=LISTED_MAX,
        description="Maximum number of finished tasks; newest first.",
    ),
]
AttemptNumber = Annotated[
    int | None, Query(alias="attempt", ge=1, le=WHOLE_MAX, description="Number of the attempt.")
]
TypeFilter = Annotated[str | None, Query(alias="type", description="Only tasks of this type.")]


def make_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=PREFIX, tags=["tasks"])
    _add_lists(router, services.tasks)
    _add_task(router, services.tasks)
    _add_texts(router, services)
    _add_orders(router, services.tasks, services.admission)
    return router


def _add_lists(router: APIRouter, tasks: TaskService) -> None:
    @router.get("/tasks", summary="List tasks, newest first")
    def list_tasks(
        state: Annotated[
            str | None, Query(description="`waiting`, `pending`, `running` or `complete`.")
        ] = None,
        datasource: DatasourceFilter = None,
        created: CreatedFilter = None,
        max_complete: MaxComplete = None,
        type_: TypeFilter = None,
    ) -> list[TaskStatusPlus]:
        if state is not None and state.lower() not in STATES:
            raise Invalid(f"there is no state '{state}'; there are {', '.join(STATES)}")
        states = STATES if state is None else {state.lower(): STATES[state.lower()]}
        base = TaskFilter(datasource=datasource, type=type_, created=parse_created(created))
        return _listed(tasks, base, states, max_complete)

    def add(name: str) -> None:
        @router.get(f"/{name}Tasks", summary=f"List tasks that are {name}, newest first")
        def list_some(
            datasource: DatasourceFilter = None,
            created: CreatedFilter = None,
            max_complete: MaxComplete = None,
            most: Annotated[
                int | None, Query(alias="n", ge=0, le=LISTED_MAX, description="The same as `max`.")
            ] = None,
            type_: TypeFilter = None,
        ) -> list[TaskStatusPlus]:
            base = TaskFilter(datasource=datasource, type=type_, created=parse_created(created))
            limit = most if max_complete is None else max_complete
            return _listed(tasks, base, {name: STATES[name]}, limit)

    for name in STATES:
        add(name)


def _listed(
    tasks: TaskService,
    base: TaskFilter,
    states: Mapping[str, tuple[TaskState, ...]],
    max_complete: int | None,
) -> list[TaskStatusPlus]:
    found: list[Task] = []
    for name, wanted in states.items():
        limit = LISTED_MAX
        if name == "complete":
            limit = COMPLETE_DEFAULT if max_complete is None else max_complete
        if limit:
            found += tasks.list(replace(base, states=wanted), limit=limit)
    found.sort(key=lambda task: -task.number)
    is_running = any(not task.state.is_over for task in found)
    live = {one.task_id: one for one in tasks.live_attempts()} if is_running else {}
    return [full_status(task, live.get(task.task_id)) for task in found]


def _add_task(router: APIRouter, tasks: TaskService) -> None:
    @router.get("/task/{task_id}", summary="Return a task as it was submitted")
    def payload(task_id: TaskId) -> TaskPayloadResponse:
        return TaskPayloadResponse(task=task_id, payload=sendable(tasks.payload(task_id)))

    @router.get("/task/{task_id}/status", summary="Say how a task stands")
    def status(task_id: TaskId) -> TaskStatusResponse:
        task = tasks.get(task_id)
        return TaskStatusResponse(task=task_id, status=full_status(task, _last(tasks, task)))

    @router.post(
        "/taskStatus",
        summary="Say how several tasks stand; unknown ids are left out",
        openapi_extra=body_shown("array", ["task-1", "task-2"]),
    )
    def statuses(body: JsonList) -> dict[str, TaskStatus]:
        found: dict[str, TaskStatus] = {}
        for task_id in body:
            try:
                task = tasks.get(str(task_id))
            except NotFound:
                continue
            found[task.task_id] = short_status(task, _last(tasks, task))
        return found


def _add_texts(router: APIRouter, services: Services) -> None:
    tasks = services.tasks

    @router.get("/task/{task_id}/reports", summary="Return what a task has done")
    def reports(task_id: TaskId) -> dict[str, object]:
        task = tasks.get(task_id)
        report = tasks.report(task_id)
        if report is None:
            raise NotFound(no_report(task), task_id=task_id)
        told = ingestion_report(task, sendable(report))
        if task.datasource == SELECTED and task.state is TaskState.SUCCEEDED:
            with suppress(NotFound):  # rows that have ended
                selected = Selected(tasks.payload(task_id), report)
                told["multiStageQuery"]["payload"]["results"] = services.kept.results(selected)
        return told

    @router.get(
        "/task/{task_id}/log",
        summary="Return what the last attempt of a task wrote",
        response_class=PlainTextResponse,
        responses={HTTPStatus.TEMPORARY_REDIRECT: {"description": "The leader has it."}},
    )
    def log(
        task_id: TaskId,
        offset: Annotated[
            int,
            Query(
                ge=-WHOLE_MAX,
                le=WHOLE_MAX,
                description="Number of bytes to skip; negative: only this many from the end.",
            ),
        ] = 0,
        number: AttemptNumber = None,
    ) -> Response:
        task = tasks.get(task_id)
        text = tasks.log(task_id, number, tail_bytes=-offset if offset < 0 else None)
        if text is not None:
            data = text.encode()
            return PlainTextResponse(data[offset:] if offset > 0 else data)
        return _log_elsewhere(services, task, number, offset)


def _log_elsewhere(services: Services, task: Task, number: int | None, offset: int) -> Response:
    """Send the client to the leader, if that is another one; else say that there is no log."""
    leader = services.tasks.leader()
    if leader is not None and leader.url and leader.leader_id != services.loop.leader_id:
        asked = {"offset": offset} | ({} if number is None else {"attempt": number})
        return RedirectResponse(
            f"{leader.url.rstrip('/')}{PREFIX}/task/{quote(task.task_id, safe='')}/log?{urlencode(asked)}",
            status_code=HTTPStatus.TEMPORARY_REDIRECT,
        )
    last = _last(services.tasks, task)
    if last is None:
        raise NotFound(f"task {task.task_id} has not run yet; it is {task.state}")
    where = last.holder or last.handle or "a process that has not said where it is"
    raise NotFound(
        f"the log of task {task.task_id} is not on this machine; it was run by {where}",
        task_id=task.task_id,
    )


def _add_orders(router: APIRouter, tasks: TaskService, admission: Admission) -> None:
    @router.post(
        "/task",
        summary="Submit a task",
        openapi_extra=body_shown("object", {"type": "kill", "dataSource": "wikipedia"}),
    )
    def submit(body: JsonObject, request: Request) -> TaskNamed:
        return TaskNamed(task=tasks.submit(admission.admit(body, text_of(request))).task_id)

    @router.post("/task/{task_id}/shutdown", summary="Cancel a task; nothing happens if it is over")
    def shut_down(task_id: TaskId) -> TaskNamed:
        return TaskNamed(task=tasks.cancel(task_id, reason=SHUTDOWN).task_id)

    @router.post(
        "/task/{task_id}/retry",
        summary="Try a task again that failed or was cancelled (Carnac's own)",
    )
    def retry(task_id: TaskId) -> TaskNamed:
        return TaskNamed(task=tasks.retry(task_id).task_id)

    @router.post(
        "/datasources/{datasource}/shutdownAllTasks", summary="Cancel all tasks of a datasource"
    )
    def shut_down_all(
        datasource: Annotated[str, Path(description="The datasource's name.")],
    ) -> DataSourceNamed:
        active = (TaskState.WAITING, TaskState.PENDING, TaskState.RUNNING)
        found = tasks.list(TaskFilter(states=active, datasource=datasource), limit=LISTED_MAX)
        if not found:
            raise NotFound(f"datasource {datasource} has no task that is not over")
        for task in found:
            tasks.cancel(task.task_id, reason=SHUTDOWN)
        return DataSourceNamed(data_source=datasource)


def parse_created(text: str | None) -> Interval | None:
    """Return the interval of a query, in which `_` stands for `/`."""
    return None if text is None else parse_interval(text.replace("_", "/"))


def _last(tasks: TaskService, task: Task) -> Attempt | None:
    attempts = tasks.attempts(task.task_id) if task.attempts else ()
    return attempts[-1] if attempts else None
