"""The transforms and the filters of a spec, compiled to expressions that the pipeline puts into its Spark plan.

Apply them so: one `select` that adds all `columns` at once, then `where(filter)`, which sees them. The columns see the
input and `__time`, not each other, and hide input columns of their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from carnac.errors import Invalid
from carnac.specs.base import TIME_COLUMN
from carnac.specs.druid.expressions import CompiledExpression, compile_expression
from carnac.specs.druid.spark_filters import compile_filter
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
    """Transforms and filter as Spark SQL.

    Attributes:
        columns: Name and Spark SQL of each transform, in the order of the spec. A transform named
            `__time` gives a timestamp.
        filter: A condition in Spark SQL; None means that all rows are kept.
        conditions: Name of each metric that has a filter, and the condition in Spark SQL; it sees the transforms, and
            rows that `filter` keeps.
        inputs: Names that the expressions may read from the input. For Druid's expressions these
            are the columns; for Spark SQL every word that could be one, so intersect it with the
            columns that there are. Names of transforms that only the filter reads are left out.
    """

    columns: tuple[tuple[str, str], ...] = ()
    filter: str | None = None
    conditions: tuple[tuple[str, str], ...] = ()
    inputs: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.columns) or self.filter is not None or bool(self.conditions)


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


def compile_transforms(spec: IngestSpec, types: Mapping[str, str] | None = None) -> Transforms:
    """Return the transforms and the filter of a spec as Spark SQL.

    Args:
        spec: The spec.
        types: Spark types of the input columns (`{name: field.dataType.simpleString()}`), which
            Druid's expressions need to be exact: is `/` that of longs or of doubles? Where a
            column is missing there, the spec's own types count.

    Raises:
        Invalid: An expression or a filter is wrong, or not supported.
    """
    known = {**declared_types(spec), **(types or {})}
    columns: list[tuple[str, str]] = []
    inputs: set[str] = set()
    made: dict[str, str] = {}
    for transform in spec.transforms.transforms:
        compiled = _compile_one(transform, known)
        columns.append((transform.name, compiled.sql))
        inputs |= compiled.inputs
        made[transform.name] = compiled.type
    seen = {**known, **made}
    condition = _compile_filter(spec.transforms.filter, seen)
    if condition is not None:
        inputs |= condition.inputs - made.keys()
    conditions: list[tuple[str, str]] = []
    for metric in spec.metrics:
        own = _compile_filter(metric.filter, seen)
        if own is not None:
            conditions.append((metric.name, own.sql))
            inputs |= own.inputs - made.keys()
            is_ordered = metric.kind in ("first", "last") and metric.time_column is None
            if is_ordered or metric.input == TIME_COLUMN:
                inputs |= {TIME_COLUMN} - made.keys()
    return Transforms(
        columns=tuple(columns),
        filter=condition.sql if condition else None,
        conditions=tuple(conditions),
        inputs=frozenset(inputs),
    )


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


def _compile_one(transform: Transform, types: Mapping[str, str]) -> CompiledExpression:
    if transform.type == "spark":
        return CompiledExpression(transform.expression, "unknown", words_of(transform.expression))
    compiled = compile_expression(transform.expression, types)
    if transform.name != TIME_COLUMN:
        return compiled
    sql = f"timestamp_millis(try_cast({compiled.sql} AS BIGINT))"
    return CompiledExpression(sql, "long", compiled.inputs)


def _compile_filter(
    condition: str | Mapping[str, Any] | None, types: Mapping[str, str]
) -> CompiledExpression | None:
    if condition is None:
        return None
    if isinstance(condition, str):
        return CompiledExpression(condition, "bool", words_of(condition))
    return compile_filter(condition, types)


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
            _compile_one(transform, {})
        except Invalid as error:
            path = f"transformSpec.transforms[{index}].expression"
            problems.append(Problem(path, error.message))
    filters = [("transformSpec.filter", spec.transforms.filter)]
    filters += [(f"metricsSpec[{at}].filter", one.filter) for at, one in enumerate(spec.metrics)]
    for path, condition in filters:
        try:
            _compile_filter(condition, {})
        except Invalid as error:
            problems.append(Problem(path, error.message))
    return problems
