"""Druid's post-aggregators: values that are computed from aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from itertools import pairwise

from carnac.api.native.terms.aggregators import Measure, estimate
from carnac.core.texts import short
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    blocks_of,
    check_depth,
    flag_of,
    list_of,
    refused,
    text_of,
)
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.values import NULL, Kind, Sql, cast_to, literal, to_double

ABSENT = {
    "javascript": "write it as a post-aggregator of type expression",
    "quantilesDoublesSketchToCDF": "use quantilesDoublesSketchToRank",
    "quantilesDoublesSketchToString": "use quantilesDoublesSketchToQuantiles",
    **dict.fromkeys(("HLLSketchEstimateWithBounds", "HLLSketchToString"), "use HLLSketchEstimate"),
    **dict.fromkeys(("thetaSketchToString", "thetaSketchConstant"), "use thetaSketchEstimate"),
}


class Results:
    """Values that post-aggregators and `having` may name: dimensions, aggregators, and post-aggregators before them."""

    def __init__(self, dimensions: Mapping[str, Sql], measures: Iterable[Measure]) -> None:
        self._values = dict(dimensions)
        self._states: dict[str, Sql] = {}
        for one in measures:
            self._values[one.name] = one.value
            self._states[one.name] = one.state

    def find(self, name: str) -> Sql:
        """Return a value; a name that nobody knows is null."""
        return self._values.get(name, NULL)

    def known(self, name: str) -> Sql:
        """Return a value.

        Raises:
            Invalid: Nobody knows the name.
        """
        if name not in self._values:
            raise Invalid(
                f"Missing fields [{name}] for a post-aggregator; there are {', '.join(self._values)}"
            )
        return self._values[name]

    def state(self, name: str) -> Sql:
        """Return a value, of a sketch the sketch itself; raises as `known`."""
        return self._states.get(name) or self.known(name)

    def add(self, value: object) -> tuple[str, Sql]:
        """Return the name and the value of a post-aggregator, which those after it may name.

        Raises:
            Invalid: It is none, or not supported.
        """
        block = block_of(value, "a post-aggregator")
        name = text_of(block, "name", what="a post-aggregator")
        self._values[name] = found = _value(block, self, 0)
        return name, found


def _value(value: object, results: Results, depth: int) -> Sql:
    block = block_of(value, "a post-aggregator")
    check_depth(depth, "post-aggregators")
    kind = str(block.get("type"))
    build = _KINDS.get(kind)
    if build is None:
        raise refused(kind, "post-aggregator", _KINDS, ABSENT)
    return build(block, results, depth + 1)


def _fields(block: Block, results: Results, depth: int) -> list[Sql]:
    found = [_value(one, results, depth) for one in blocks_of(block, "fields")]
    if not found:
        raise Invalid(f"post-aggregator {block['type']} needs fields")
    return found


def _divided(a: str, b: str) -> str:
    return f"(CASE WHEN {a} IS NOT NULL AND {b} = 0 THEN CAST(0 AS DOUBLE) ELSE {a} / {b} END)"


def _quotient(a: str, b: str) -> str:
    return f"(CASE WHEN {b} = 0 THEN {a} * CAST('Infinity' AS DOUBLE) ELSE {a} / {b} END)"


_OPERATORS: Mapping[str, Callable[[str, str], str]] = {
    "+": lambda a, b: f"({a} + {b})",
    "-": lambda a, b: f"({a} - {b})",
    "*": lambda a, b: f"({a} * {b})",
    "/": _divided,
    "quotient": _quotient,
    "pow": lambda a, b: f"pow({a}, {b})",
}


def _arithmetic(block: Block, results: Results, depth: int) -> Sql:
    operator = _OPERATORS.get(str(block.get("fn")))
    if operator is None:
        raise Invalid(f"arithmetic takes fn {', '.join(_OPERATORS)}, not {short(block.get('fn'))}")
    texts = [to_double(one).text for one in _fields(block, results, depth)]
    return Sql(reduce(operator, texts), "double")


def _extreme(call: str, kind: Kind) -> Callable[[Block, Results, int], Sql]:
    def build(block: Block, results: Results, depth: int) -> Sql:
        texts = (cast_to(one, kind).text for one in _fields(block, results, depth))
        return Sql(f"{call}({', '.join(texts)})", kind)

    return build


def _constant(block: Block, _results: Results, _depth: int) -> Sql:
    value = block.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(f"a constant needs a value that is a number, not {short(value)}")
    return literal(value)


def _field(block: Block, results: Results, depth: int, kind: Kind) -> Sql:
    found = _value(block.get("field"), results, depth)
    if found.kind != kind:
        raise _no_sketch(block)
    return found


def _no_sketch(block: Block) -> Invalid:
    return Invalid(f"post-aggregator {block['type']} needs fields that are sketches of its kind")


def _empty(kind: Kind) -> str:
    """Return the sketch of no rows, which an intersection must not pass over."""
    from carnac.sketches import build_hll, build_theta

    made = build_theta(()) if kind == "theta" else build_hll(())
    return f"from_hex('{made.hex()}')"


def _estimated(kind: Kind) -> Callable[[Block, Results, int], Sql]:
    def build(block: Block, results: Results, depth: int) -> Sql:
        found = estimate(_field(block, results, depth, kind), is_round=flag_of(block, "round"))
        return Sql(f"CAST({found.text} AS DOUBLE)", "double")

    return build


def _united(call: str, kind: Kind) -> Callable[[Block, Results, int], Sql]:
    def build(block: Block, results: Results, depth: int) -> Sql:
        name = call or _SET_OPERATIONS.get(str(block.get("func")).upper(), "")
        if not name:
            raise Invalid(f"func must be {', '.join(_SET_OPERATIONS)}")
        fields = _fields(block, results, depth)
        if any(one.kind != kind for one in fields):
            raise _no_sketch(block)
        texts = ", ".join(f"coalesce({one.text}, {_empty(kind)})" for one in fields)
        return Sql(f"{name}({texts})", kind)

    return build


_SET_OPERATIONS = {
    "UNION": "THETA_SKETCH_UNION",
    "INTERSECT": "THETA_SKETCH_INTERSECT",
    "NOT": "THETA_SKETCH_NOT",
}


def _number(value: object, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(f"{what} must be a number, not {short(value)}")
    return repr(float(value))


def _at_fraction(sketch: str, fraction: str) -> str:
    """Return a quantile, NaN of no values at all."""
    return f"coalesce(DS_GET_QUANTILE({sketch}, {fraction}), CAST('NaN' AS DOUBLE))"


def _quantile(block: Block, results: Results, depth: int) -> Sql:
    sketch = _field(block, results, depth, "quantiles").text
    fraction = _number(block.get("fraction"), "fraction")
    return Sql(_at_fraction(sketch, fraction), "double")


def _quantiles(block: Block, results: Results, depth: int) -> Sql:
    sketch = _field(block, results, depth, "quantiles").text
    fractions = [_number(one, "each of fractions") for one in list_of(block, "fractions")]
    found = ", ".join(_at_fraction(sketch, one) for one in fractions)
    return Sql(f"[{found}]", "array<double>")


def _rank(block: Block, results: Results, depth: int) -> Sql:
    sketch = _field(block, results, depth, "quantiles").text
    return Sql(f"DS_RANK({sketch}, {_number(block.get('value'), 'value')})", "double")


def _histogram(block: Block, results: Results, depth: int) -> Sql:
    points = [_number(one, "each of splitPoints") for one in list_of(block, "splitPoints")]
    if not points:
        raise Invalid("quantilesDoublesSketchToHistogram needs splitPoints")
    sketch = _field(block, results, depth, "quantiles").text
    name = block_of(block.get("field"), "field").get("fieldName")
    count = to_double(results.find(str(name))).text
    ranks = [
        "CAST(0 AS DOUBLE)",
        *(f"DS_RANK({sketch}, {one})" for one in points),
        "CAST(1 AS DOUBLE)",
    ]
    parts = (f"({b} - {a}) * {count}" for a, b in pairwise(ranks))
    return Sql(f"[{', '.join(parts)}]", "array<double>")


_KINDS: Mapping[str, Callable[[Block, Results, int], Sql]] = {
    "arithmetic": _arithmetic,
    "fieldAccess": lambda block, results, _: results.state(text_of(block, "fieldName")),
    "finalizingFieldAccess": lambda block, results, _: results.known(text_of(block, "fieldName")),
    "constant": _constant,
    "expression": lambda block, results, _: compile_expression(
        block.get("expression"), results.known
    ),
    "hyperUniqueCardinality": lambda block, results, _: results.known(text_of(block, "fieldName")),
    "doubleGreatest": _extreme("greatest", "double"),
    "doubleLeast": _extreme("least", "double"),
    "longGreatest": _extreme("greatest", "long"),
    "longLeast": _extreme("least", "long"),
    "thetaSketchEstimate": _estimated("theta"),
    "thetaSketchSetOp": _united("", "theta"),
    "HLLSketchEstimate": _estimated("hll"),
    "HLLSketchUnion": _united("HLL_SKETCH_UNION", "hll"),
    "quantilesDoublesSketchToQuantile": _quantile,
    "quantilesDoublesSketchToQuantiles": _quantiles,
    "quantilesDoublesSketchToRank": _rank,
    "quantilesDoublesSketchToHistogram": _histogram,
}
