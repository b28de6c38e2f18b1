"""The columns that a query may name: those of its data source, and virtual ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from carnac.core.quoting import quote_text
from carnac.core.segments.segment import TIME_COLUMN
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    blocks_of,
    list_of,
    refused,
    said,
    text_of,
)
from carnac.specs.druid.terms.documents import json_value
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.values import (
    EACH,
    NULL,
    TIME,
    TYPES_SAID,
    Sql,
    cast_to,
    to_text,
    to_value,
)

KNOWN = ("expression", "nested-field", "mv-filtered")


class Scope:
    """Columns by name. A name that nobody knows is null in every row, as in Druid.

    Args:
        columns: Of the data source.
        virtual: Columns that are computed, which may name columns and one another.
    """

    absent: Set[str] = frozenset()
    """Functions that may not be called."""

    def __init__(self, columns: Mapping[str, Sql], virtual: Sequence[Block] = ()) -> None:
        self.columns = columns
        self.virtual: dict[str, Block] = {}
        self._open: set[str] = set()
        for block in virtual:
            name = text_of(block, "name", "outputName", what="a virtual column")
            self.virtual[name] = block
            self.find(name)

    @property
    def has_time(self) -> bool:
        """Whether rows have a time."""
        return TIME_COLUMN in self.columns

    def find(self, name: str) -> Sql:
        """Return a column."""
        block = self.virtual.get(name)
        if block is None or name in self._open:
            return self.columns.get(name, NULL)
        self._open.add(name)
        try:
            return self._computed(block)
        finally:
            self._open.discard(name)

    def _computed(self, block: Block) -> Sql:
        kind = block.get("type")
        if kind == "expression":
            found = to_value(compile_expression(block.get("expression"), self.find))
        elif kind == "nested-field":
            found = self._nested(block)
        elif kind == "mv-filtered":
            return kept_values(
                self.find(text_of(_delegate(block), "dimension")),
                list_of(_delegate(block), "values"),
                is_whitelist=_delegate(block).get("isWhitelist", True) is not False,
            )
        else:
            raise refused(kind, "virtual column", KNOWN, {"list-filtered": "use mv-filtered"})
        wanted = TYPES_SAID.get(str(block.get("outputType", block.get("expectedType"))).upper())
        return found if wanted is None or found.is_array else cast_to(found, wanted)

    def _nested(self, block: Block) -> Sql:
        path = block.get("path") or _path_of(block)
        if not isinstance(path, str) or not path.startswith("$"):
            raise Invalid("a virtual column of type nested-field needs a path like $.a.b[0]")
        inner = to_text(self.find(text_of(block, "columnName")))
        return json_value(inner, path)


def _path_of(block: Block) -> str:
    """Return the path of a nested field that is said by its parts."""
    path = "$"
    for part in blocks_of(block, "pathParts"):
        name, index = part.get("field"), part.get("index")
        path += f'."{name}"' if name is not None else f"[{index}]"
    return path if len(path) > 1 else ""


def with_time(columns: Mapping[str, Sql]) -> dict[str, Sql]:
    """Return columns and the time of rows before them."""
    return {TIME_COLUMN: TIME, **columns}


def kept_values(value: Sql, values: Sequence[object], *, is_whitelist: bool) -> Sql:
    """Return a multi-value column with some of its values."""
    kept = ", ".join(quote_text(said(one)) for one in values if one is not None)
    if not kept:
        raise Invalid("values must be a list that holds a text")
    if not value.is_array:
        text, word = to_text(value).text, "" if is_whitelist else "NOT "
        return Sql(f"CASE WHEN {text} {word}IN ({kept}) THEN {text} END", "string")
    passed = f"{EACH} IN ({kept})" if is_whitelist else f"({EACH} IN ({kept})) IS NOT TRUE"
    return Sql(filtered(value, passed), "array<string>")


def filtered(values: Sql, passed: str) -> str:
    """Return those of several values that pass a test; a row without any has null."""
    return f"list_filter(coalesce({values.text}, [NULL]), lambda {EACH}: {passed})"


def _delegate(block: Block) -> Block:
    inner = block.get("delegate")
    if isinstance(inner, str):
        return {**block, "dimension": inner}
    return inner if isinstance(inner, Mapping) else block
