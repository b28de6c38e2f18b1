"""`/carnac/v1/tasks…`: tasks with all that Carnac knows of them, in the words of its Python API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query

from carnac.api.shapes import sendable
from carnac.api.tasks import (
    LISTED_MAX,
    AttemptNumber,
    CreatedFilter,
    DatasourceFilter,
    TaskId,
    TypeFilter,
    parse_created,
)
from carnac.core.json_form import to_json
from carnac.core.tasks.model import TaskState, attempt_to_json, task_to_json
from carnac.core.texts import WHOLE_MAX
from carnac.ports.tasks import TaskFilter

if TYPE_CHECKING:
    from carnac.overlord import TaskService

OWN_PREFIX = "/carnac/v1"
LIST_DEFAULT = 100


def make_router(tasks: TaskService) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=OWN_PREFIX, tags=["tasks, in Carnac's words"])

    @router.get("/tasks", summary="List tasks, newest first")
    def list_tasks(
        *,
        state: Annotated[
            list[TaskState] | None, Query(description="In this state; may be given several times.")
        ] = None,
        datasource: DatasourceFilter = None,
        type_: TypeFilter = None,
        group: Annotated[str | None, Query(description="Only tasks of this group.")] = None,
        created: CreatedFilter = None,
        before: Annotated[
            int | None,
            Query(ge=0, le=WHOLE_MAX, description="Only tasks of a lower `number`: the next page."),
        ] = None,
        limit: Annotated[
            int, Query(ge=1, le=LISTED_MAX, description="Maximum number of tasks in the answer.")
        ] = LIST_DEFAULT,
    ) -> dict[str, object]:
        which = TaskFilter(
            states=tuple(state) if state else None,
            datasource=datasource,
            type=type_,
            group_id=group,
            created=parse_created(created),
            before=before,
        )
        if datasource is not None:
            tasks.check_datasource(datasource)
        return {"tasks": [task_to_json(task) for task in tasks.list(which, limit=limit)]}

    @router.get("/tasks/{task_id}", summary="Return a task and its attempts")
    def show(task_id: TaskId) -> dict[str, object]:
        task, attempts = tasks.get(task_id), tasks.attempts(task_id)
        return {
            "task": task_to_json(task),
            "attempts": [attempt_to_json(attempt) for attempt in attempts],
        }

    @router.get(
        "/tasks/{task_id}/report", summary="Return what a task has done; null if nothing yet"
    )
    def report(
        task_id: TaskId,
        attempt: AttemptNumber = None,
    ) -> dict[str, object]:
        found = tasks.report(task_id, attempt)
        return {"report": None if found is None else sendable(found)}

    @router.get("/leader", summary="Return which overlord leads; null if none does now")
    def leader() -> dict[str, object]:
        return {"leader": to_json(tasks.leader())}

    return router
