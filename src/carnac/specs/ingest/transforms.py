"""The transforms and the filters of a spec: Spark SQL as it is, Druid's expressions as DuckDB's SQL.

Apply them so: all transforms at once, then the filters, which see them. The transforms see the input and `__time`, not
each other, and hide input columns of their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from carnac.errors import Invalid
from carnac.specs.base import TIME_COLUMN
from carnac.specs.druid.rows import Piece, compile_filter, compile_value
from carnac.specs.druid.terms.times import instant
from carnac.specs.druid.terms.values import Sql
from carnac.specs.ingest.spec import IngestSpec, Transform
from carnac.specs.problems import Problem, suggest
from carnac.specs.spark_sql.syntax import Beyond, Mistake, find_calls, parse

_WORD = re.compile(
    r"""`((?:[^`]|``)*)`|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|--[^\n]*|([A-Za-z_][A-Za-z0-9_]*)(\s*\()?""",
    re.DOTALL,
)
"""A quote without an end takes the rest, which is then read once."""


@dataclass(frozen=True, slots=True)
class Transforms:
    """What the expressions of a spec make and read, as far as it shows without the types of its input.

    Attributes:
        made: Names of the transforms, in the order of the spec.
        filtered: Names of the metrics that have a filter.
        inputs: Names that the expressions may read from the input. For Druid's expressions these
            are the columns; for Spark SQL every word that could be one, so intersect it with the
            columns that there are. Names of transforms that only a filter reads are left out.
    """

    made: tuple[str, ...] = ()
    filtered: tuple[str, ...] = ()
    inputs: frozenset[str] = frozenset()


def declared_types(spec: IngestSpec) -> dict[str, str]:
    """Return the types that the spec itself gives to input columns, by its dimensions and metrics."""
    types = {
        metric.input: metric.value_type
        for metric in spec.metrics
        if metric.input is not None and metric.kind in ("sum", "min", "max", "first", "last")
    }
    declared: dict[str, str] = {
        name: kind for name, kind in types.items() if kind in ("long", "double", "float", "string")
    }
    declared.update({d.name: d.type for d in spec.dimensions.dimensions if d.type != "auto"})
    for transform in spec.transforms.transforms:
        declared.pop(transform.name, None)  # the declared type is that of the transform's result
    return declared


def read_transforms(spec: IngestSpec) -> Transforms:
    """Return what the expressions of a spec make and read.

    Raises:
        Invalid: An expression or a filter is wrong, or not supported.
    """
    columns = compile_columns(spec)
    condition, conditions = compile_conditions(spec)
    of_rows = set() if condition is None else set(condition.inputs)
    for metric in spec.metrics:
        own = conditions.get(metric.name)
        if own is not None:
            of_rows |= own.inputs
            is_ordered = metric.kind in ("first", "last") and metric.time_column is None
            if is_ordered or metric.input == TIME_COLUMN:
                of_rows.add(TIME_COLUMN)
    of_input = {name for piece in columns.values() for name in piece.inputs}
    return Transforms(
        made=tuple(columns),
        filtered=tuple(conditions),
        inputs=frozenset(of_input | (of_rows - columns.keys())),
    )


def compile_columns(spec: IngestSpec, columns: Mapping[str, Sql] | None = None) -> dict[str, Piece]:
    """Return the transforms of a spec by name, in its order; one that is named `__time` gives a timestamp.

    Args:
        columns: Columns of the input, as Druid's expressions see them; None: they are not known.

    Raises:
        Invalid: An expression is wrong, or not supported.
    """
    return {one.name: _compile_one(one, columns) for one in spec.transforms.transforms}


def compile_conditions(
    spec: IngestSpec, columns: Mapping[str, Sql] | None = None
) -> tuple[Piece | None, dict[str, Piece]]:
    """Return the filter of a spec (None: all rows are kept), and those of its metrics by their names.

    Args:
        columns: Columns of the input and the transforms, as of `compile_columns`.

    Raises:
        Invalid: A filter is wrong, or not supported.
    """
    conditions = {one.name: _compile_filter(one.filter, columns) for one in spec.metrics}
    return _compile_filter(spec.transforms.filter, columns), {
        name: piece for name, piece in conditions.items() if piece is not None
    }


def find_unchecked(spec: IngestSpec) -> list[Problem]:
    """Return the expressions of a spec of which only Spark can say whether they are right, and why."""
    return [Problem(path, why) for path, _, text in spark_texts(spec) for why in _beyond_this(text)]


def _beyond_this(text: str) -> Iterator[str]:
    """Yield what only Spark can say of an expression: whether it is one, whether there are its functions."""
    from carnac.specs.spark_sql.duck import FUNCTIONS

    error = _parse_error(text)
    if isinstance(error, Beyond):
        yield error.message
    if error is not None:
        return
    calls = ((one.name, len(one.arguments)) for one in find_calls(parse(text)))
    for name, count in dict.fromkeys(calls):
        known = FUNCTIONS.get(name)
        if known is None:
            yield f"function {name}{suggest(name, FUNCTIONS)}"
        elif count not in known.counts:
            yield f"{name} with {count} arguments"


def spark_texts(spec: IngestSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the expressions of a spec that are in Spark SQL: the place, what it is in words, and the text."""
    for index, transform in enumerate(spec.transforms.transforms):
        if transform.type == "spark":
            place = f"transformSpec.transforms[{index}].expression"
            yield place, f"transform '{transform.name}'", transform.expression
    if isinstance(spec.transforms.filter, str):
        yield "transformSpec.filter", "the filter", spec.transforms.filter
    for index, metric in enumerate(spec.metrics):
        if isinstance(metric.filter, str):
            name = f"the filter of metric '{metric.name}'"
            yield f"metricsSpec[{index}].filter", name, metric.filter


def find_mistake(text: str) -> str | None:
    """Return why a text is no expression of Spark SQL, whoever reads it; None: it may be one."""
    error = _parse_error(text)
    return error.message if isinstance(error, Mistake) else None


def _parse_error(text: str) -> Invalid | None:
    try:
        parse(text)
    except (Mistake, Beyond) as error:
        return error
    return None


def _compile_one(transform: Transform, columns: Mapping[str, Sql] | None) -> Piece:
    if transform.type == "spark":
        return Piece(transform.expression, None, words_of(transform.expression))
    compiled = compile_value(transform.expression, columns)
    if transform.name != TIME_COLUMN:
        return compiled
    return Piece(instant(Sql(compiled.text, compiled.kind or "long")), "long", compiled.inputs)


def _compile_filter(
    condition: str | Mapping[str, Any] | None, columns: Mapping[str, Sql] | None
) -> Piece | None:
    if condition is None:
        return None
    if isinstance(condition, str):
        return Piece(condition, None, words_of(condition))
    return compile_filter(condition, columns)


def words_of(sql: str) -> frozenset[str]:
    """Return the names in a text of Spark SQL that could be columns: no functions, no literals."""
    names: set[str] = set()
    for match in _WORD.finditer(sql):
        quoted, word, call = match.group(1), match.group(2), match.group(3)
        if quoted is not None:
            names.add(quoted.replace("``", "`"))
        elif word is not None and call is None:
            names.add(word)
    return frozenset(names)


def check_transforms(spec: IngestSpec) -> list[Problem]:
    """Return what is wrong with the expressions of a spec, as far as it shows without its data and without Spark."""
    problems = [
        Problem(path, message)
        for path, _, text in spark_texts(spec)
        if (message := find_mistake(text)) is not None
    ]
    for index, transform in enumerate(spec.transforms.transforms):
        try:
            _compile_one(transform, None)
        except Invalid as error:
            path = f"transformSpec.transforms[{index}].expression"
            problems.append(Problem(path, error.message))
    filters = [("transformSpec.filter", spec.transforms.filter)]
    filters += [(f"metricsSpec[{at}].filter", one.filter) for at, one in enumerate(spec.metrics)]
    for path, condition in filters:
        try:
            _compile_filter(condition, None)
        except Invalid as error:
            problems.append(Problem(path, error.message))
    return problems
