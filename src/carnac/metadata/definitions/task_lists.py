"""Lists of tasks: a statement for each set of conditions, built when it is first asked for."""

from __future__ import annotations

from functools import cache

from sqlalchemy import ColumnElement, bindparam, select

from carnac.metadata import tables as t
from carnac.metadata.definitions.building import IsIn, statement
from carnac.metadata.session import Statement

p = bindparam
c = t.tasks.c


@cache
def listing(names: tuple[str, ...]) -> Statement:
    """Return the statement that lists tasks by these conditions."""
    return statement(
        lambda: (
            select(*c)
            .where(*(_condition(name) for name in names))
            .order_by(c.number.desc())
            .limit(p("limit"))
        )
    )


def _condition(name: str) -> ColumnElement[bool]:
    conditions: dict[str, ColumnElement[bool]] = {
        "before": c.number < p("before"),
        "created_before_ms": c.created_at_ms < p("created_before_ms"),
        "created_from_ms": c.created_at_ms >= p("created_from_ms"),
        "datasource": c.datasource == p("datasource"),
        "finished_until_ms": c.finished_at_ms <= p("finished_until_ms"),
        "group_id": c.group_id == p("group_id"),
        "states": IsIn(c.state, "states"),
        "type": c.type == p("type"),
    }
    return conditions[name]
