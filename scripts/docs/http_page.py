"""`docs/reference/http.md`: every path of the API, as the application knows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from carnac.api import allocation, coordinator
from carnac.api.app import make_app
from carnac.api.avatica import routes as avatica
from carnac.api.coordinator import lookups
from carnac.api.gate import BODY_MAX_BYTES
from carnac.api.iceberg import routes as iceberg
from carnac.api.native import routes as native
from carnac.api.overlord import compaction
from carnac.api.page import operations, parameters_of, tag_of
from carnac.api.services import Services
from carnac.api.sql import routes
from carnac.bootstrap.serving import overlord

_INTRO = """\
# HTTP API

<!-- Made by `make docs`; do not edit. -->

This page lists every path of the HTTP API. `carnac serve` and `carnac overlord` serve it, each process the paths of
its roles. A running process shows the same at `/docs`, and as OpenAPI at `/openapi.json`. See also
[SQL over HTTP](../concepts/serving.md), [tables of Iceberg](../concepts/iceberg.md),
[running an overlord](../concepts/overlord.md) and
[the coordinator](../concepts/coordinator.md).

Paths below `/druid` are those of Apache Druid, with its names and status codes. Paths below `/carnac` are Carnac's own;
those below `/iceberg` are of the REST catalog of Apache Iceberg.
A trailing slash changes nothing.

Every overlord answers every request, whether it leads or not: tasks and locks are rows of the metadata store. The
exception is a log that is not on this machine: the request is redirected to the leader (307).

**While the store has no [users](../concepts/serving.md#users)**, anyone who reaches the address can read all rows and
submit tasks. So the default address is 127.0.0.1; `--host` changes it.
[What is open to whom](../concepts/overlord.md#what-is-open-to-whom) says what to do before you open it.

## Errors

Errors of SQL are listed [with serving](../concepts/serving.md#errors). Any other error is an object: `error` and
`errorMessage` are one sentence, `errorCode` and `errorClass` name the kind, `category` is Druid's word, and `context`
holds the ids.

What is below `/iceberg` answers [as Iceberg's clients read it](../concepts/iceberg.md): `error` is an object there.

| status | when |
|---|---|
| 400 | the request is wrong; fix it |
| 401, 403 | the store has users, and the request names none; that user may not do this, or the host name is unknown |
| 404 | no such task, log, report or path |
| 405, 413, 415 | another method; a body of more than BODY_MAX; a body that is not `application/json`, or for SQL text |
| 409 | the state of the task does not allow it, or another task has that id |
| 503 | the metadata store does not answer; retry later |
| 500 | a bug, or damaged data; the server's log has details |
"""


def render() -> str:
    """Return the page, as Markdown."""
    description = describe()
    by_tag: dict[str, list[str]] = {}
    for method, path, operation in operations(description):
        by_tag.setdefault(tag_of(operation), []).append(_operation(method, path, operation))
    parts = [_INTRO.replace("BODY_MAX", f"{BODY_MAX_BYTES >> 20} MiB")]
    for tag, texts in by_tag.items():
        parts += [f"\n## {tag[:1].upper() + tag[1:]}\n", *texts]
    return "".join([*parts, "\n## Shapes\n", *_shapes(description)])


def describe() -> Mapping[str, Any]:
    """Return the OpenAPI description of an overlord, without one."""
    nobody = cast("Any", None)
    services = Services(
        tasks=nobody,
        locks=nobody,
        loop=nobody,
        compaction=nobody,
        supervisors=nobody,
        compaction_slots=0,
        admission=nobody,
        kept=nobody,
        describe=nobody,
    )
    routers = [
        routes.make_router(nobody, new_id=nobody, threads=nobody),
        native.make_router(nobody, nobody, new_id=nobody, threads=nobody),
        iceberg.make_router(nobody),
        avatica.make_router(nobody, threads=nobody, clients=None),
        *overlord.make_routers(services),
        allocation.make_router(nobody),
        *coordinator.make_routers(nobody),
        lookups.make_router(nobody),
        compaction.make_older_router(nobody, admission=nobody, task_slots=0),
    ]
    return make_app(routers).openapi()


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    lines = [f"\n### {method} {path}\n\n{operation['summary']}.\n"]
    parameters = parameters_of(operation)
    if parameters:
        lines.append("\n| parameter | in | meaning |\n|---|---|---|\n")
        lines += [
            f"| `{one['name']}` | {one['in']} | {one.get('description', '')} |\n"
            for one in parameters
        ]
    body = operation.get("requestBody")
    if body:
        example = body["content"]["application/json"].get("example")
        lines.append(f"\nBody, for example:\n\n```json\n{json.dumps(example)}\n```\n")
    answer = _answer(operation)
    if answer:
        lines.append(f"\nAnswer: {answer}.\n")
    return "".join(lines)


def _answer(operation: Mapping[str, Any]) -> str:
    content = operation["responses"].get("200", {}).get("content", {})
    if "text/plain" in content:
        return "text"
    return _type(content.get("application/json", {}).get("schema", {}))


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping) and extra:
        return f"object of {_type(extra)}"
    return str(schema.get("type", ""))


def _shapes(description: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in description["components"]["schemas"].items():
        yield f"\n### {name}\n\n{schema.get('description', '')}\n\n"
        if "enum" in schema:
            yield f"One of {_type(schema)}.\n"
            continue
        yield "| field | type |\n|---|---|\n"
        for field, kind in schema["properties"].items():
            note = kind.get("description")
            yield f"| `{field}` | {_type(kind)}{f': {note}' if note else ''} |\n"
