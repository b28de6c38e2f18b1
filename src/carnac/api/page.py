"""The page that shows the API: made from its OpenAPI description, whole in itself, nothing loaded from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape

Json = Mapping[str, object]

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d8dee4; --aside: #57606a; --get: #08733f;
  --post: #0550ae; --delete: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --aside: #9198a1;
  --get: #4ac97e; --post: #79b8ff; --delete: #ff8a80 } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper) }
code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem } h2::first-letter { text-transform: uppercase }
table { border-collapse: collapse; width: 100%; table-layout: fixed }
td { text-align: left; vertical-align: top; padding: .4rem .6rem .4rem 0 }
td.m { width: 4.5rem } tr + tr td { border-top: 1px solid var(--line) } small { color: var(--aside) }
.m { font-weight: 600; color: var(--get) } .m.POST { color: var(--post) } .m.DELETE { color: var(--delete) }
@media (max-width: 45rem) { table, tbody, tr, td, td.m { display: block; width: auto } td { padding: 0 }
  tr { padding: .6rem 0 } tr + tr td { border: 0 } tr + tr { border-top: 1px solid var(--line) } }
"""
_CODE = re.compile("`([^`]+)`")


def operations(description: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield (method, path, operation) of a description, in its order."""
    for path, methods in _object(description["paths"]).items():
        for method, operation in _object(methods).items():
            yield method.upper(), path, _object(operation)


def tag_of(operation: Json) -> str:
    """Return the heading under which an operation is shown."""
    tags = operation.get("tags")
    return str(tags[0]) if isinstance(tags, list) and tags else "more"


def parameters_of(operation: Json) -> list[Json]:
    """Return the parameters of an operation, those of the path first."""
    listed = operation.get("parameters")
    return [_object(one) for one in listed] if isinstance(listed, list) else []


def render_page(description: Json) -> str:
    """Return the page, as HTML."""
    info = _object(description["info"])
    rows: dict[str, list[str]] = {}
    for method, path, operation in operations(description):
        rows.setdefault(tag_of(operation), []).append(_row(method, path, operation))
    title = escape(f"{info['title']} {info['version']}")
    about = "".join(f"<p>{_prose(part)}</p>" for part in str(info["description"]).split("\n\n"))
    sections = "".join(
        f'<h2 id="{_anchor(tag)}">{escape(tag)}</h2><table>{"".join(lines)}</table>'
        for tag, lines in rows.items()
    )
    contents = " · ".join(f'<a href="#{_anchor(tag)}">{escape(tag)}</a>' for tag in rows)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f"<h1>{title}</h1>{about}"
        f'<p>For programs: <a href="/openapi.json">openapi.json</a></p><nav>{contents}</nav>{sections}</html>'
    )


def _anchor(tag: str) -> str:
    return re.sub(r"\W+", "-", tag).lower()


def _row(method: str, path: str, operation: Json) -> str:
    shown = "".join(
        f"<br><small><code>{escape(str(one['name']))}</code> {_prose(one.get('description', ''))}</small>"
        for one in parameters_of(operation)
    )
    example = _example_of(operation)
    if example is not None:
        shown += f"<br><small>body, for example <code>{escape(example)}</code></small>"
    return (
        f'<tr><td class="m {method}">{method}</td><td><code>{escape(path)}</code></td>'
        f"<td>{_prose(operation.get('summary', ''))}{shown}</td></tr>"
    )


def _example_of(operation: Json) -> str | None:
    """Return a body that the operation takes, as JSON; None: it takes none."""
    if "requestBody" not in operation:
        return None
    content = _object(_object(operation["requestBody"])["content"])
    return json.dumps(_object(content["application/json"])["example"], ensure_ascii=False)


def _prose(text: object) -> str:
    """Return a sentence as HTML; text between backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(str(text)))


def _object(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise TypeError("a part of the description is not an object")
    return value
