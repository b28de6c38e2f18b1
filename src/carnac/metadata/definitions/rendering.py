"""The modules of `carnac.metadata.texts`, as text."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from carnac.metadata.session import SqlText, Statement

MODULES = (
    "checks",
    "compaction",
    "locks",
    "pending_rows",
    "queries",
    "statements",
    "tasks",
    "trimming",
)
"""The definitions that are written out, each as a module of the same name."""

_HEAD = '''"""{title}

Written from `carnac.metadata.definitions.{name}` by `make statements`.
"""

from __future__ import annotations

from carnac.metadata.session import SqlText, Statement

'''


def render_texts() -> Mapping[str, str]:
    """Return the text of each module, by its name."""
    return {
        name: _render(name, import_module(f"carnac.metadata.definitions.{name}"))
        for name in MODULES
    }


def _render(name: str, module: ModuleType) -> str:
    title = (module.__doc__ or "").partition("\n")[0]
    lines = [
        f"{constant} = {_render_value(value)}\n"
        for constant, value in vars(module).items()
        if constant.isupper() and not constant.startswith("_") and _is_written(value)
    ]
    return _HEAD.format(title=title, name=name) + "".join(lines)


def _is_written(value: object) -> bool:
    if isinstance(value, Statement | int):
        return True
    if isinstance(value, dict):
        return all(isinstance(one, Statement) for one in value.values())
    if isinstance(value, list):
        return all(isinstance(one, Statement) for one in value)
    return isinstance(value, tuple) and all(isinstance(one, str) for one in value)


def _render_value(value: object) -> str:
    if isinstance(value, Statement):
        return (
            "Statement(\n"
            f"    sqlite={_render_text(value.sqlite)},\n"
            f"    postgresql={_render_text(value.postgresql)},\n"
            ")"
        )
    if isinstance(value, dict):
        inner = "".join(f"{key!r}: {_render_value(one)},\n" for key, one in value.items())
        return f"{{\n{inner}}}"
    if isinstance(value, list):
        return f"[\n{''.join(f'{_render_value(one)},' for one in value)}\n]"
    return repr(value)


def _render_text(text: SqlText) -> str:
    parts = [repr(text.text)]
    if text.names or text.constants:
        parts.append(repr(text.names))
    if text.constants:
        parts.append(repr(dict(text.constants)))
    return f"SqlText({', '.join(parts)})"
