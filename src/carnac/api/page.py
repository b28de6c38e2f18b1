"""The page that shows the API: made from its OpenAPI description, whole in itself, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

Json = Mapping[str, object]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
code { font: 13px/1.5 ui-monospace, monospace } h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top; padding: .3rem .6rem }
tr + tr td { border-top: 1px solid #d8dee4 } .m { font-weight: 600; color: #0a5 } .m.POST { color: #06c }
small { color: #57606a } @media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } }
"""


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
    sections = "".join(
        f"<h2>{escape(tag)}</h2><table>{''.join(lines)}</table>" for tag, lines in rows.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(str(info['description']))}</p>"
        f'<p>For programs: <a href="/openapi.json">openapi.json</a></p>{sections}</html>'
    )


def _row(method: str, path: str, operation: Json) -> str:
    shown = "".join(
        f"<br><small><code>{escape(str(one['name']))}</code> {escape(str(one.get('description', '')))}</small>"
        for one in parameters_of(operation)
    )
    summary = escape(str(operation.get("summary", "")))
    return (
        f'<tr><td class="m {method}">{method}</td><td><code>{escape(path)}</code></td>'
        f"<td>{summary}{shown}</td></tr>"
    )


def _object(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise TypeError("a part of the description is not an object")
    return value
