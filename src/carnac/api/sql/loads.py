"""`/druid/v2/sql/task`: statements that an overlord runs as tasks, those that load rows and those that select them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from carnac.api.access import require
from carnac.api.bodies import JsonObject, body_shown
from carnac.api.services import Services
from carnac.api.sql.answering import FailedAnswer
from carnac.api.sql.requests import split_settings
from carnac.api.sql.selects import select_task
from carnac.core.access import Permission
from carnac.errors import Invalid, NotFound
from carnac.specs.sql.statements import is_load_statement
from carnac.specs.tasks.spec import QUERY_TYPE

if TYPE_CHECKING:
    from carnac.core.tasks.model import Task

_EXAMPLE = {
    "query": "REPLACE INTO edits OVERWRITE ALL SELECT __time, page FROM edits PARTITIONED BY MONTH",
    "context": {"priority": 40},
}


def make_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/druid/v2/sql", tags=["tasks"])

    @router.post(
        "/task",
        summary="Submit a statement as a task",
        status_code=HTTPStatus.ACCEPTED,
        openapi_extra=body_shown("object", _EXAMPLE),
    )
    def submit(body: JsonObject) -> Response:
        found = submit_statement(body, services)
        if isinstance(found, Response):
            return found
        return JSONResponse(
            {"taskId": found.task_id, "state": "RUNNING"}, status_code=HTTPStatus.ACCEPTED
        )

    @router.get("/task/enabled", summary="Return true: statements run as tasks")
    def enabled() -> dict[str, bool]:
        return {"enabled": True}

    return router


def submit_statement(body: Mapping[str, object], services: Services) -> Task | Response:
    """Return the task that a request for a statement has become, or the error of a SELECT.

    Raises:
        Invalid: The request is wrong.
        Refused: The user may only read.
    """
    sql, context = _read_query(body)
    if is_load_statement(sql):
        require(Permission.WRITE)
        if body.get("parameters"):
            raise Invalid("a statement that loads rows takes no parameters; write them into it")
        task: dict[str, object] = {"type": QUERY_TYPE, "query": sql, "context": context}
        return services.tasks.submit(services.admission.admit(task))
    try:
        task = select_task({**body, "query": sql, "context": context}, services.describe)
        return services.tasks.submit(services.admission.admit(task))
    except (Invalid, NotFound) as error:
        return FailedAnswer(error)


def context_of(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return the context of a request, with what is SET before its statement.

    Raises:
        Invalid: It is none.
    """
    return _read_query(body)[1]


def _read_query(body: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    query, context = body.get("query"), body.get("context")
    if not isinstance(query, str) or not query.strip():
        raise Invalid("query must be one SELECT, INSERT or REPLACE statement, as a text")
    if context is not None and not isinstance(context, Mapping):
        raise Invalid("context must be an object")
    sql, settings = split_settings(query)
    return sql, {**(context or {}), **{name: _read(one) for name, one in settings.items()}}


def _read(value: object) -> object:
    """Return the value of a SET, which comes as a text."""
    text = str(value)
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return {"true": True, "false": False}.get(text.lower(), value)
