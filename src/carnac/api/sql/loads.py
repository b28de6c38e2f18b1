"""`/druid/v2/sql/task`: statements that load rows, which an overlord runs as tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from carnac.api.admission import Admission
from carnac.api.bodies import JsonObject, body_shown
from carnac.api.sql.requests import split_settings
from carnac.errors import Invalid
from carnac.specs.sql.statements import is_load_statement
from carnac.specs.tasks.spec import QUERY_TYPE

if TYPE_CHECKING:
    from carnac.overlord import TaskService

_EXAMPLE = {
    "query": "REPLACE INTO edits OVERWRITE ALL SELECT __time, page FROM edits PARTITIONED BY MONTH",
    "context": {"priority": 40},
}


def make_router(tasks: TaskService, admission: Admission) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/druid/v2/sql", tags=["tasks"])

    @router.post(
        "/task",
        summary="Submit an INSERT or REPLACE as a task",
        status_code=HTTPStatus.ACCEPTED,
        openapi_extra=body_shown("object", _EXAMPLE),
    )
    def submit(body: JsonObject) -> JSONResponse:
        task = tasks.submit(admission.admit(_payload(body)))
        return JSONResponse(
            {"taskId": task.task_id, "state": "RUNNING"}, status_code=HTTPStatus.ACCEPTED
        )

    @router.get("/task/enabled", summary="Return true: statements run as tasks")
    def enabled() -> dict[str, bool]:
        return {"enabled": True}

    return router


def _payload(body: Mapping[str, object]) -> dict[str, object]:
    """Return the task that a request means.

    Raises:
        Invalid: It is no statement that loads rows.
    """
    query, context = body.get("query"), body.get("context")
    if not isinstance(query, str) or not query.strip():
        raise Invalid("query must be one INSERT or REPLACE statement, as a text")
    if context is not None and not isinstance(context, Mapping):
        raise Invalid("context must be an object")
    if body.get("parameters"):
        raise Invalid("a statement that loads rows takes no parameters; write them into it")
    sql, settings = split_settings(query)
    if not is_load_statement(sql):
        raise Invalid(
            "a task runs INSERT and REPLACE; a SELECT is answered at once by POST /druid/v2/sql"
        )
    return {
        "type": QUERY_TYPE,
        "query": sql,
        "context": {**(context or {}), **{name: _read(one) for name, one in settings.items()}},
    }


def _read(value: object) -> object:
    """Return the value of a SET, which comes as a text."""
    text = str(value)
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), value)
