"""Conditions on groups (`having`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from carnac.api.native.terms.posts import Results
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    check_depth,
    list_of,
    refused,
    text_of,
)
from carnac.specs.druid.terms.dimensions import extracted
from carnac.specs.druid.terms.filters import FilterCompiler, compile_filter
from carnac.specs.druid.terms.scopes import Scope
from carnac.specs.druid.terms.values import Sql

_COMPARED = {"equalTo": "=", "greaterThan": ">", "lessThan": "<"}


class _Named(Scope):
    """Values of a group, by name."""

    def __init__(self, results: Results) -> None:
        super().__init__({})
        self._results = results

    def find(self, name: str) -> Sql:
        """Return a value."""
        return self._results.find(name)


def compile_having(value: object, results: Results) -> str | None:
    """Return the condition; None: there is none.

    Raises:
        Invalid: It is none, or not supported.
    """
    return None if value is None else _compile(value, results, 0)


def _compile(value: object, results: Results, depth: int) -> str:
    block = block_of(value, "having")
    check_depth(depth, "conditions on groups")
    kind = str(block.get("type"))
    if kind in {"and", "or"}:
        parts = [_compile(one, results, depth + 1) for one in list_of(block, "havingSpecs")]
        if not parts:
            raise Invalid(f"having of type {kind} needs havingSpecs")
        return f"({f' {kind.upper()} '.join(parts)})"
    if kind == "not":
        return f"(NOT {_compile(block.get('havingSpec'), results, depth + 1)})"
    build = _LEAVES.get(kind)
    if build is None:
        raise refused(kind, "having", (*_LEAVES, "and", "or", "not"), {})
    return build(block, results)


def _compared(operator: str) -> Callable[[Block, Results], str]:
    def build(block: Block, results: Results) -> str:
        value = block.get("value")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise Invalid(f"having of type {block['type']} needs a value that is a number")
        found = results.find(text_of(block, "aggregation"))
        compared = FilterCompiler(_Named(results)).compare(found, operator, value, as_number=True)
        return f"coalesce({compared}, false)"  # null is no number, and no unknown one

    return build


def _selected(block: Block, results: Results) -> str:
    scope = _Named(results)
    dimension = block.get("dimension")
    name = dimension.get("outputName") if isinstance(dimension, Mapping) else dimension
    found = extracted(results.find(str(name)), block.get("extractionFn"), scope)
    if block.get("value") is None:
        return f"({found.text} IS NULL)"
    return FilterCompiler(scope).compare(found, "=", block["value"])


_LEAVES: Mapping[str, Callable[[Block, Results], str]] = {
    **{kind: _compared(operator) for kind, operator in _COMPARED.items()},
    "dimSelector": _selected,
    "filter": lambda block, results: str(
        compile_filter(block_of(block.get("filter"), "filter"), _Named(results))
    ),
    "always": lambda _block, _results: "true",
    "never": lambda _block, _results: "false",
}
