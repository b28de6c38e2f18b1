"""`/druid/v2/sql/statements`: statements whose rows are fetched later. Each is a task, as at `/druid/v2/sql/task`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse

from carnac.api.access import require
from carnac.api.bodies import JsonObject, body_shown
from carnac.api.services import Services
from carnac.api.shapes import sendable
from carnac.api.sql.formats import ResultFormat
from carnac.api.sql.kept import Selected
from carnac.api.sql.loads import context_of, submit_statement
from carnac.api.sql.requests import form_of
from carnac.api.tasks import SHUTDOWN
from carnac.core.access import Permission
from carnac.core.tasks.model import SELECTED, Task, TaskState
from carnac.core.tasks.statuses import duration_ms
from carnac.core.texts import WHOLE_MAX, short
from carnac.core.time.intervals import format_ms
from carnac.errors import Invalid, NotFound
from carnac.specs.tasks.spec import QUERY_TYPE

if TYPE_CHECKING:
    from carnac.overlord import TaskService

NAME_MAX = 255
DESTINATIONS = ("taskreport", "durablestorage")
"""Where Druid may write rows; here they go to one place."""
_EXAMPLE = {
    "query": "SELECT page, count(*) AS edits FROM edits GROUP BY page",
    "context": {"executionMode": "ASYNC", "rowsPerPage": 100_000},
}
_NAME = re.compile(r"""[^/:*?><\\"|\x00-\x1f]+""")
_STATES = {
    TaskState.WAITING: "ACCEPTED",
    TaskState.PENDING: "ACCEPTED",
    TaskState.RUNNING: "RUNNING",
    TaskState.SUCCEEDED: "SUCCESS",
    TaskState.FAILED: "FAILED",
    TaskState.CANCELLED: "FAILED",
}
StatementId = Annotated[str, Path(description="The statement's queryId: the id of its task.")]


def make_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/druid/v2/sql/statements", tags=["tasks"])
    tasks = services.tasks

    @router.post(
        "",
        summary="Submit a statement whose rows are fetched later",
        openapi_extra=body_shown("object", _EXAMPLE),
    )
    def submit(body: JsonObject) -> Response:
        _check_context(context_of(body))
        found = submit_statement(body, services)
        return found if isinstance(found, Response) else JSONResponse(_told(services, found))

    @router.get("/enabled", summary="Return true: statements run as tasks")
    def enabled() -> dict[str, bool]:
        return {"enabled": True}

    @router.get("/{query_id}", summary="Say how a statement stands, with its first rows")
    def status(
        query_id: StatementId,
        *,
        detail: Annotated[
            bool, Query(description="Also `stages`, `counters` and `warnings`, which are empty.")
        ] = False,
    ) -> JSONResponse:
        more: dict[str, object] = {"stages": [], "counters": {}, "warnings": []} if detail else {}
        return JSONResponse({**_told(services, _find(tasks, query_id)), **more})

    _add_results(router, services)

    @router.delete(
        "/{query_id}",
        summary="Cancel a statement; nothing happens if it is over",
        response_class=Response,
    )
    def cancel(query_id: StatementId) -> Response:
        task = _find(tasks, query_id)
        if task.state.is_over:
            return Response()
        if task.datasource != SELECTED:
            require(Permission.WRITE)
        tasks.cancel(task.task_id, reason=SHUTDOWN)
        return Response(status_code=HTTPStatus.ACCEPTED)

    return router


def _add_results(router: APIRouter, services: Services) -> None:
    tasks = services.tasks

    @router.get("/{query_id}/results", summary="Return the rows of a statement")
    def results(
        query_id: StatementId,
        page: Annotated[
            int | None,
            Query(ge=0, le=WHOLE_MAX, description="Number of the page, from 0. Default: all rows."),
        ] = None,
        form: Annotated[
            str | None,
            Query(
                alias="resultFormat",
                description=f"{', '.join(ResultFormat)}. Default: as the statement was submitted.",
            ),
        ] = None,
        name: Annotated[
            str | None, Query(alias="filename", description="The name under which a browser saves.")
        ] = None,
    ) -> Response:
        headers = _attached(name)
        chosen = None if form is None else form_of(form)
        task = _find(tasks, query_id)
        _require_success(task)
        if task.datasource != SELECTED:
            return Response(headers=headers, media_type="application/json")
        pieces = services.kept.render(_selected(tasks, task), page, chosen)
        return StreamingResponse(pieces, headers=headers, media_type="application/json")


def _check_context(context: Mapping[str, object]) -> None:
    mode = context.get("executionMode")
    if str(mode).upper() != "ASYNC":
        said = "is missing" if mode is None else f"is {short(mode)}"
        raise Invalid(
            f"executionMode of the context {said}; set it to ASYNC, or ask POST /druid/v2/sql, which answers at once"
        )
    target = context.get("selectDestination")
    if target is not None and str(target).lower() not in DESTINATIONS:
        raise Invalid(
            f"selectDestination must be taskReport or durableStorage, not {short(target)}"
        )


def _find(tasks: TaskService, query_id: str) -> Task:
    """Return the task of a statement.

    Raises:
        NotFound: There is none of that id.
    """
    try:
        task = tasks.get(query_id)
    except NotFound:
        raise NotFound(
            f"there is no statement {query_id}, or not any more", query_id=query_id
        ) from None
    if task.type != QUERY_TYPE:
        raise NotFound(
            f"{query_id} is no statement but a task of type {task.type}; GET /druid/indexer/v1/task/ID/status says how"
            " it stands",
            query_id=query_id,
        )
    return task


def _require_success(task: Task) -> None:
    if not task.state.is_over:
        raise Invalid(
            f"statement {task.task_id} is {_STATES[task.state]}; its rows are there once it is SUCCESS",
            task_id=task.task_id,
        )
    if task.state is not TaskState.SUCCEEDED:
        raise Invalid(
            f"statement {task.task_id} has no rows, it is FAILED: {task.error}",
            task_id=task.task_id,
        )


def _selected(tasks: TaskService, task: Task) -> Selected:
    return Selected(tasks.payload(task.task_id), tasks.report(task.task_id) or {})


def _told(services: Services, task: Task) -> dict[str, object]:
    """Return how a statement stands, as Druid tells it."""
    told: dict[str, object] = {
        "queryId": task.task_id,
        "state": _STATES[task.state],
        "createdAt": format_ms(task.created_at_ms),
        "durationMs": duration_ms(task),
    }
    if task.state in {TaskState.FAILED, TaskState.CANCELLED}:
        return {**told, "errorDetails": _error(task)}
    if task.datasource == SELECTED:
        return sendable({**told, **_of_select(services, task)})
    if task.state is TaskState.SUCCEEDED:
        report = services.tasks.report(task.task_id) or {}
        stats = report.get("rowStats")
        told["result"] = {
            "numTotalRows": stats.get("written", 0) if isinstance(stats, Mapping) else 0,
            "totalSizeInBytes": report.get("sizeBytes", 0),
            "dataSource": task.datasource,
        }
    return told


def _of_select(services: Services, task: Task) -> dict[str, object]:
    """Return the columns of a SELECT, as far as they are known, and its first rows once they are there."""
    selected = _selected(services.tasks, task)
    columns = selected.payload.get("columns")
    told: dict[str, object] = {"schema": columns} if columns else {}
    if task.state is not TaskState.SUCCEEDED:
        return told
    first: Sequence[object] = ()
    with suppress(NotFound):  # rows that have ended; how many there were is known still
        told["schema"] = services.kept.columns(selected)
        first = services.kept.first(selected)
    pages = [
        {"id": number, "numRows": page["rows"], "sizeInBytes": page["sizeBytes"]}
        for number, page in enumerate(selected.pages)
    ]
    told["result"] = {
        "numTotalRows": sum(page["rows"] for page in selected.pages),
        "totalSizeInBytes": sum(page["sizeBytes"] for page in selected.pages),
        "dataSource": SELECTED,
        "sampleRecords": first,
        "pages": pages,
    }
    return told


def _error(task: Task) -> dict[str, object]:
    is_cancelled = task.state is TaskState.CANCELLED
    return {
        "error": "druidException",
        "errorCode": "Canceled" if is_cancelled else "UnknownError",
        "persona": "USER",
        "category": "CANCELED" if is_cancelled else "UNCATEGORIZED",
        "errorMessage": task.error,
        "context": {},
    }


def _attached(name: str | None) -> dict[str, str]:
    """Return the header by which a browser saves an answer under a name."""
    if name is None:
        return {}
    if len(name) > NAME_MAX or _NAME.fullmatch(name) is None or not name.isascii():
        raise Invalid(
            f'filename must be 1 to {NAME_MAX} characters of ASCII, none of / \\ : * ? " < > |'
        )
    return {"Content-Disposition": f'attachment; filename="{name}"'}
