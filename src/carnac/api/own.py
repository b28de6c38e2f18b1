"""`/carnac/v1/tasks…`: tasks with all that Carnac knows of them, in the words of its Python API."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from carnac.api.desk import TaskDesk
from carnac.api.shapes import STATES
from carnac.api.tasks import LISTED_MAX, DatasourceFilter, TaskId, TypeFilter
from carnac.core.json_form import to_json
from carnac.errors import Invalid
from carnac.ports.task_records import TaskFilter

OWN_PREFIX = "/carnac/v1"
LIST_DEFAULT = 100


def make_router(tasks: TaskDesk) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix=OWN_PREFIX, tags=["tasks, in Carnac's words"])

    @router.get("/tasks", summary="List tasks, newest first")
    def list_tasks(
        state: Annotated[
            str | None, Query(description="`waiting`, `pending`, `running` or `complete`.")
        ] = None,
        datasource: DatasourceFilter = None,
        type_: TypeFilter = None,
        limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = LIST_DEFAULT,
    ) -> dict[str, object]:
        if state is not None and state not in STATES:
            raise Invalid(f"there is no state '{state}'; there are {', '.join(STATES)}")
        states = None if state is None else STATES[state]
        which = TaskFilter(states=states, datasource=datasource, type=type_)
        return {"tasks": to_json(tuple(tasks.list(which, limit=limit)))}

    @router.get("/tasks/{task_id}", summary="Return a task and its attempts")
    def show(task_id: TaskId) -> dict[str, object]:
        task = tasks.get(task_id)
        attempts = tuple(tasks.attempts(task_id))
        return {"task": to_json(task), "attempts": to_json(attempts)}

    return router
