"""`docs/reference/http.md`: every path of the API, as the application knows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from carnac.api import allocation, coordinator, overlord
from carnac.api.app import make_app
from carnac.api.page import operations, parameters_of, tag_of
from carnac.api.services import Services
from carnac.api.sql import routes

_INTRO = """\
# HTTP API

<!-- Made by `make docs`; do not edit. -->

`carnac serve` and `carnac overlord` serve this, each what its roles answer;
[serving](../concepts/serving.md) says how SQL is asked and answered, [running an overlord](../concepts/overlord.md) how
tasks are run, and [the coordinator](../concepts/coordinator.md) what that
decides. The same is at `/docs` of a running process, and as OpenAPI at `/openapi.json`. Paths below `/druid` are those
of Apache Druid, with its names and status codes; paths below `/carnac` are Carnac's own. A slash at the end of a path
changes nothing.

Every overlord answers every question, whether it leads or not: tasks and locks are rows of the metadata store. Only a
log may be elsewhere: one that is not on this machine is looked for at the leader (307).

**There is no authentication and no encryption.** Whoever reaches the address may submit, cancel and read tasks. So it
is 127.0.0.1 unless you say otherwise (`--host`); [on several machines](../concepts/overlord.md#on-several-machines)
says how to open it, and what to put in front of it.

## Errors

Those of SQL are told [where it is](../concepts/serving.md#what-goes-wrong). Of the rest: an object whose `error` (and
`errorMessage`) is one sentence; `errorCode` and `errorClass` name the kind, `category` is Druid's word, `context` holds
the ids.

| status | when |
|---|---|
| 400 | the request is wrong: fix it |
| 404 | there is no such task, log, report or path |
| 405, 413, 415 | another method; a body of more than 64 MiB; a body that is not `application/json` |
| 409 | the task is in no state for it, or there is another one of that id |
| 503 | the metadata store does not answer: come back later |
| 500 | a bug, or damaged data; the overlord's log says more |
"""


def render() -> str:
    """Return the page, as Markdown."""
    description = describe()
    by_tag: dict[str, list[str]] = {}
    for method, path, operation in operations(description):
        by_tag.setdefault(tag_of(operation), []).append(_operation(method, path, operation))
    parts = [_INTRO]
    for tag, texts in by_tag.items():
        parts += [f"\n## {tag[:1].upper() + tag[1:]}\n", *texts]
    return "".join([*parts, "\n## Shapes\n", *_shapes(description)])


def describe() -> Mapping[str, Any]:
    """Return the OpenAPI description of an overlord, without one."""
    nobody = cast("Any", None)
    services = Services(tasks=nobody, locks=nobody, loop=nobody, admission=nobody)
    routers = [
        routes.make_router(nobody, new_id=nobody, threads=nobody),
        *overlord.make_routers(services),
        allocation.make_router(nobody),
        *coordinator.make_routers(nobody),
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
