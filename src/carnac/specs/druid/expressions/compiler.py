"""From a tree of Druid's expression language to Spark SQL.

1. A literal or a column is a piece of SQL with a type (`values`).
2. An operator or a function makes a new piece of its operands' pieces.
3. Where a function wants one value and gets a multi-value dimension (an array), it is applied to
   each value, as Druid does; two such dimensions in one call are not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from carnac.errors import Invalid
from carnac.specs.base import TIME_COLUMN
from carnac.specs.druid.expressions import arrays, numbers, texts, times
from carnac.specs.druid.expressions.operators import apply_binary, apply_unary
from carnac.specs.druid.expressions.syntax import (
    ArrayLiteral,
    Binary,
    Call,
    Identifier,
    Literal,
    Node,
    Unary,
    parse,
)
from carnac.specs.druid.expressions.table import Function
from carnac.specs.druid.expressions.values import (
    Sql,
    SqlType,
    array_type,
    cast_to,
    column,
    common_type,
    element_type,
    literal,
    to_bool,
    to_value,
)
from carnac.specs.problems import suggest

FUNCTIONS: Mapping[str, Function] = {
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **times.FUNCTIONS,
    **arrays.FUNCTIONS,
}
"""Every function that can be used, by its name in lower case."""

MAX_SQL = 200_000
"""Most characters of SQL that an expression may become: some operations repeat their operands."""

_LAMBDA_FUNCTIONS = frozenset(
    ("map", "filter", "fold", "any", "all", "cartesian_map", "cartesian_fold")
)
_QUERY_ONLY = frozenset(("lookup", "bloom_filter_test", "mv_filter_only", "mv_filter_none"))


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression as Spark SQL.

    Attributes:
        sql: The Spark SQL.
        type: Druid's type of the result.
        inputs: Columns that it reads.
    """

    sql: str
    type: SqlType
    inputs: frozenset[str]


def compile_expression(text: str, types: Mapping[str, str] | None = None) -> CompiledExpression:
    """Return one of Druid's expressions as Spark SQL.

    Args:
        text: The expression.
        types: Types of the columns, in Spark's words or those of specs (`bigint`, `long`,
            `array<string>`). A column that is not named counts as a number in arithmetic and as a
            text elsewhere. `__time` is a timestamp there and a number of milliseconds here.

    Raises:
        Invalid: It is not an expression, or uses a function that is not supported.
    """
    compiled, value = _compile(text, types)
    return CompiledExpression(to_value(value).text, to_value(value).type, compiled)


def compile_condition(text: str, types: Mapping[str, str] | None = None) -> CompiledExpression:
    """Return one of Druid's expressions as a condition of Spark SQL: numbers above 0 are true.

    Raises:
        Invalid: As `compile_expression`.
    """
    compiled, value = _compile(text, types)
    if value.is_array:
        value = Sql(
            f"exists({value.text}, e -> {to_bool(Sql('e', element_type(value.type))).text})", "bool"
        )
    return CompiledExpression(to_bool(value).text, "bool", compiled)


def _compile(text: str, types: Mapping[str, str] | None) -> tuple[frozenset[str], Sql]:
    compiler = _Compiler(types or {})
    try:
        value = compiler.compile(parse(text))
    except RecursionError:
        raise Invalid(f"expression '{text[:60]}…' is nested too deep", expression=text) from None
    except Invalid as error:
        if error.message.startswith("expression '"):
            raise
        raise Invalid(f"expression '{text}': {error.message}", expression=text) from None
    return frozenset(compiler.inputs), value


def column_sql(name: str, types: Mapping[str, str]) -> Sql:
    """Return a column; `__time` as milliseconds."""
    if name == TIME_COLUMN:
        return column(name, "timestamp")
    return column(name, types.get(name))


class _Compiler:
    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types
        self.inputs: set[str] = set()
        self.variables = 0

    def compile(self, node: Node) -> Sql:
        sql = self._node(node)
        if len(sql.text) > MAX_SQL:
            raise Invalid("becomes too long in Spark SQL; split it into several transforms")
        return sql

    def _node(self, node: Node) -> Sql:
        if isinstance(node, Literal):
            return literal(node.value)
        if isinstance(node, Identifier):
            self.inputs.add(node.name)
            return column_sql(node.name, self.types)
        if isinstance(node, ArrayLiteral):
            return _array_literal(node)
        if isinstance(node, Unary):
            return self._each(
                [self.compile(node.operand)], lambda a: apply_unary(node.operator, a[0])
            )
        if isinstance(node, Binary):
            operands = [self.compile(node.left), self.compile(node.right)]
            return self._each(operands, lambda a: apply_binary(node.operator, a[0], a[1]))
        return self._call(node)

    def _call(self, node: Call) -> Sql:
        function = FUNCTIONS.get(node.name)
        if function is None:
            raise Invalid(_no_function(node.name))
        count = len(node.arguments)
        if count < function.least or (function.most is not None and count > function.most):
            raise Invalid(f"function {node.name} takes {_arity(function)}, not {count}")
        arguments = [self.compile(argument) for argument in node.arguments]
        if function.takes_arrays:
            return function.build(arguments)
        return self._each(arguments, function.build)

    def _each(self, arguments: Sequence[Sql], build: Callable[[Sequence[Sql]], Sql]) -> Sql:
        """Build with single values; if one argument is an array, for each of its values."""
        several = [index for index, value in enumerate(arguments) if value.is_array]
        if not several:
            return build(arguments)
        if len(several) > 1:
            raise Invalid("two multi-value columns in one operation are not supported")
        index = several[0]
        array = arguments[index]
        self.variables += 1
        variable = f"v{self.variables}"
        single = list(arguments)
        single[index] = Sql(variable, element_type(array.type))
        result = to_value(build(single))
        if result.is_array:
            raise Invalid("an array of arrays is not supported")
        return Sql(f"transform({array.text}, {variable} -> {result.text})", array_type(result.type))


def _array_literal(node: ArrayLiteral) -> Sql:
    elements: Mapping[str, SqlType] = {"string": "string", "long": "long", "double": "double"}
    if node.element is not None and node.element not in elements:
        raise Invalid(f"an array cannot be of type {node.element}; use STRING, LONG or DOUBLE")
    values = [literal(item.value) for item in node.items]
    element = elements[node.element] if node.element else common_type([v.type for v in values])
    if not values:
        spark = {"long": "BIGINT", "double": "DOUBLE"}.get(element, "STRING")
        return Sql(f"CAST(array() AS ARRAY<{spark}>)", array_type(element))
    return Sql(f"array({', '.join(cast_to(v, element).text for v in values)})", array_type(element))


def _no_function(name: str) -> str:
    if name in _LAMBDA_FUNCTIONS:
        return f"function {name} takes a lambda, which is not supported; write it in Spark SQL"
    if name in _QUERY_ONLY:
        return f"function {name} is for queries; it cannot be used while ingesting"
    return f"function {name} is not supported{suggest(name, FUNCTIONS)}"


def _arity(function: Function) -> str:
    if function.most is None:
        return f"at least {function.least} arguments"
    if function.most == function.least:
        return f"{function.least} argument{'' if function.least == 1 else 's'}"
    return f"{function.least} to {function.most} arguments"
