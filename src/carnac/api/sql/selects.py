"""A SELECT that runs as a task: the task that a request means, and the columns that its rows will have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.api.access import asking
from carnac.api.sql.described import Described
from carnac.api.sql.kept import columns_of
from carnac.api.sql.requests import SqlRequest, read_request, whole
from carnac.api.sql.runs import names_of
from carnac.errors import CarnacError, Invalid, NotFound
from carnac.query.schema.outline import check_select, outline
from carnac.specs.tasks.spec import PAGE_ROWS_MAX, QUERY_TYPE

if TYPE_CHECKING:
    from carnac.broker import Broker

Describe = Callable[[SqlRequest], Sequence[Mapping[str, str]]]
"""Returns the columns of a SELECT; none if nobody here plans statements. Raises what is wrong with it."""
TASK_ENGINES = frozenset({"msq-task", "sql-msq-task"})
"""Druid's names of the engine that runs statements as tasks."""


def select_task(body: Mapping[str, object], describe: Describe) -> dict[str, object]:
    """Return the task that a request for a SELECT means. Values that the request SETs before it are in the context.

    Raises:
        Invalid: The request is wrong, or the statement.
        NotFound: It names what there is not.
    """
    given = body.get("context")
    context = {**given} if isinstance(given, Mapping) else {}
    if context.get("engine") in TASK_ENGINES:
        del context["engine"]
    request = read_request({**body, "context": context})
    statement, listed = request.statement, body.get("parameters")
    check_select(statement.sql)
    shown = outline(statement.sql)
    if shown is not None and isinstance(listed, list):  # Druid passes over values that nothing asks
        listed = listed[: shown.parameters]
        statement = replace(statement, parameters=statement.parameters[: shown.parameters])
    rows_per_page = whole(context, "rowsPerPage", least=1)
    numbers = {"timeout": statement.timeout_ms, "priority": statement.priority}
    context |= {name: one for name, one in numbers.items() if context.get(name) is not None}
    columns = describe(replace(request, statement=replace(statement, client=asking())))
    task = {
        "type": QUERY_TYPE,
        "query": statement.sql,
        "context": context,
        "parameters": listed,
        "at": statement.at,
        "engine": statement.engine and str(statement.engine),
        "maxRows": request.rows_max,
        "rowsPerPage": rows_per_page and min(rows_per_page, PAGE_ROWS_MAX),
        "columns": [dict(one) for one in columns],
        "resultFormat": str(request.shape.form),
    }
    return {name: value for name, value in task.items() if value not in (None, [])}


def describe_by(
    brokers: Sequence[Broker], new_id: Callable[[], str], request: SqlRequest
) -> Sequence[Mapping[str, str]]:
    """Return the columns of a SELECT as the broker of this process plans it.

    Args:
        brokers: None or one.

    Raises:
        Invalid: The statement is wrong.
        NotFound: It names what there is not.
    """
    asked = request.statement
    if not brokers:
        return ()
    try:
        rows, _ = Described(brokers[0], new_id).find(asked)
    except (Invalid, NotFound):
        raise
    except CarnacError:
        return ()  # the task will say it: nobody has to be able to plan now
    return columns_of(names_of(rows.names, asked.sql, None), rows.types)
