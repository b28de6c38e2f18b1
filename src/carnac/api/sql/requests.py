"""Requests for SQL: the statement, its context, and the shape of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TypeVar

from carnac.api.bodies import parse_body
from carnac.api.sql.formats import ResultFormat, Shape
from carnac.core.texts import short
from carnac.core.time.zones import UTC_ZONE, canonical_zone, rules_of
from carnac.errors import Invalid
from carnac.ports.answers import NOBODY, Client, Engine, OnMissing, Statement
from carnac.ports.queries import Keeping
from carnac.specs.sql.parameters import parse_parameters

T = TypeVar("T")

ID_MAX = 200
"""Characters of the id of a query."""
TIMEOUT_MAX_MS = 1 << 53
_ID = re.compile(rf"[!-~]{{1,{ID_MAX}}}")
_SET = re.compile(
    r"""\s*SET\s+"?(?P<key>\w+)"?\s*=\s*(?P<value>'(?:[^']|'')*'|[-+.\w]+)\s*(?:;|\Z)""",
    re.IGNORECASE,
)


class Unreadable(Invalid):
    """A body that is no request at all: Druid says so in another shape than what is wrong in a statement."""


@contextmanager
def as_unreadable() -> Iterator[None]:
    """Tell what is wrong in a native query as Druid does, like a body that is no request."""
    try:
        yield
    except Invalid as error:
        raise Unreadable(error.message, **error.ids) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRequest:
    """A request for SQL.

    Attributes:
        statement: Statement to run.
        shape: Of the answer.
        native_id: Value of `X-Druid-Query-Id`.
        rows_max: As many rows are sent at most; None: all.
    """

    statement: Statement
    shape: Shape
    native_id: str
    rows_max: int | None = None


def parse_request(body: object, *, new_id: Callable[[], str], client: Client) -> SqlRequest:
    """Return what a body asks. Keys and parts of the context that nobody knows are passed over.

    Args:
        new_id: Makes the id of a query that brings none.
        client: The client that asks.

    Raises:
        Unreadable: It is no request.
        Invalid: A part of the context, or a parameter, is wrong.
    """
    return asked_by(read_request(body), new_id=new_id, client=client)


def asked_by(request: SqlRequest, *, new_id: Callable[[], str], client: Client) -> SqlRequest:
    """Return what `read_request` found as a client asks it now; arguments as of `parse_request`."""
    query_id = request.statement.query_id or new_id()
    return replace(
        request,
        statement=replace(request.statement, query_id=query_id, client=client),
        native_id=request.native_id or query_id,
    )


async def parse_asked(data: bytes) -> object:
    """Return the JSON of a body, as `parse_body` does.

    Raises:
        Unreadable: It is not JSON.
    """
    try:
        return await parse_body(data)
    except Invalid as error:
        raise Unreadable(error.message) from None


def read_request(body: object) -> SqlRequest:
    """Return what a body asks, whoever sends it: ids that it does not bring are empty."""
    if not isinstance(body, Mapping):
        raise Unreadable('the body must be a JSON object like {"query": "SELECT 1"}')
    query = body.get("query")
    if not isinstance(query, str) or not query.strip():
        raise Unreadable("query must be one SELECT statement, as a text")
    given = body.get("context")
    if given is not None and not isinstance(given, Mapping):
        raise Unreadable("context must be an object")
    sql, settings = split_settings(query)
    context = {**(given or {}), **settings}
    shape = _shape(body)
    return SqlRequest(
        statement=Statement(
            sql=sql,
            parameters=parse_parameters(body.get("parameters")),
            query_id=_id(context.get("sqlQueryId"), "sqlQueryId") or "",
            client=NOBODY,
            at=_revision(context.get("revision") if context.get("at") is None else context["at"]),
            timeout_ms=whole(context, "timeout", most=TIMEOUT_MAX_MS),
            on_missing=_on_missing(context.get("onMissing")),
            priority=whole(context, "priority", least=-(1 << 31), most=1 << 31) or 0,
            lane=_text(context.get("lane"), "lane"),
            keeping=Keeping(
                use=_flag(context, "useCache", default=True),
                populate=_flag(context, "populateCache", default=True),
            ),
            engine=_engine(context.get("engine")),
        ),
        shape=replace(
            shape,
            zone=_zone(context.get("sqlTimeZone")),
            stringifies=_flag(context, "sqlStringifyArrays", default=True),
        ),
        native_id=_id(context.get("queryId"), "queryId") or "",
        rows_max=whole(context, "sqlOuterLimit"),
    )


def split_settings(sql: str) -> tuple[str, dict[str, object]]:
    """Return a statement without the `SET key = value;` before it, and these. The statement keeps its place in lines.

    Raises:
        Invalid: No statement follows, as from a client that sends them one by one.
    """
    settings: dict[str, object] = {}
    start = 0
    while (found := _SET.match(sql, start)) is not None:
        text = found["value"]
        settings[found["key"]] = text[1:-1].replace("''", "'") if text.startswith("'") else text
        start = found.end()
    if settings and not sql[start:].strip("; \n\t"):
        raise Invalid(
            "SET is for the statement that follows it in the same request, and none does; put the key into the context"
        )
    return re.sub(r"[^\n]", " ", sql[:start]) + sql[start:], settings


def form_of(value: object) -> ResultFormat:
    """Return the format of a name.

    Raises:
        Unreadable: There is none of it.
    """
    try:
        return ResultFormat(str(value))
    except ValueError:
        raise Unreadable(
            f"there is no resultFormat {short(value)}; there are {', '.join(ResultFormat)}"
        ) from None


def shape_of(body: Mapping[str, object]) -> Shape:
    """Return how rows are sent by what a body and its context say, header rows left out."""
    given = body.get("context")
    context = given if isinstance(given, Mapping) else {}
    return Shape(
        form=form_of(body.get("resultFormat") or ResultFormat.OBJECT),
        zone=_zone(context.get("sqlTimeZone")),
        stringifies=_flag(context, "sqlStringifyArrays", default=True),
    )


def _shape(body: Mapping[str, object]) -> Shape:
    form = form_of(body.get("resultFormat") or ResultFormat.OBJECT)
    flags = []
    for name in ("header", "typesHeader", "sqlTypesHeader"):
        value = _boolean(body.get(name))
        if value is None:
            raise Unreadable(f"{name} must be true or false, not {short(body[name])}")
        flags.append(value)
    has_header, has_types, has_sql_types = flags
    if (has_types or has_sql_types) and not has_header:
        raise Unreadable("typesHeader and sqlTypesHeader need header, which is false")
    return Shape(form=form, has_header=has_header, has_types=has_types, has_sql_types=has_sql_types)


def _boolean(value: object) -> bool | None:
    """Return a flag, which may be a text; None: it is neither."""
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower())


def _flag(context: Mapping[str, object], name: str, *, default: bool) -> bool:
    if context.get(name) is None:
        return default
    value = _boolean(context[name])
    if value is None:
        raise Invalid(f"{name} must be true or false, not {short(context[name])}")
    return value


def whole(
    context: Mapping[str, object], name: str, *, least: int = 0, most: int = 1 << 62
) -> int | None:
    """Return a whole number, which may be a text; None: it is not said."""
    value = context.get(name)
    if value is None:
        return None
    is_number = isinstance(value, str | int) and not isinstance(value, bool)
    digits = str(value).strip() if is_number else ""
    if re.fullmatch(r"[-+]?\d{1,19}", digits) is None or not least <= int(digits) <= most:
        raise Invalid(f"{name} must be a whole number of at least {least}, not {short(value)}")
    return int(digits)


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Invalid(f"{name} must be a text, not {short(value)}")
    return value or None


def _id(value: object, name: str) -> str | None:
    """Return an id, which comes back in a header."""
    text = _text(value, name)
    if text is not None and _ID.fullmatch(text) is None:
        raise Invalid(
            f"{name} must be at most {ID_MAX} letters, digits and signs of ASCII, not {short(text)}"
        )
    return text


def _revision(value: object) -> int | str | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return _text(value, "at")


def _on_missing(value: object) -> OnMissing:
    try:
        return OnMissing.ERROR if value is None else OnMissing(str(value).lower())
    except ValueError:
        raise Invalid(f"onMissing must be {', '.join(OnMissing)}, not {short(value)}") from None


def _engine(value: object) -> Engine | None:
    """Return the engine that is asked for; None: the broker decides, which Druid calls `native`."""
    text = _text(value, "engine")
    if text is None or text == "native":
        return None
    if text != Engine.SPARK:
        raise Invalid(f"engine must be native or {Engine.SPARK.value}, not {short(value)}")
    return Engine.SPARK


def _zone(value: object) -> tzinfo | None:
    """Return the zone; None: UTC, also for a name that nobody knows, as Druid does."""
    if value is None:
        return None
    try:
        name = canonical_zone(str(value))
    except Invalid:
        return None
    return None if name == UTC_ZONE else rules_of(name)
