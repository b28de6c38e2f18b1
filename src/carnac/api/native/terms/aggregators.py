"""Druid's aggregators as aggregates of SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from carnac.errors import Invalid
from carnac.query.functions import CHOPPED
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    check_depth,
    flag_of,
    list_of,
    refused,
    text_of,
    whole_of,
)
from carnac.specs.druid.terms.dimensions import of_dimension
from carnac.specs.druid.terms.expressions import compile_expression
from carnac.specs.druid.terms.filters import compile_filter
from carnac.specs.druid.terms.scopes import Scope
from carnac.specs.druid.terms.values import (
    TIME_SQL,
    Kind,
    Sql,
    cast_to,
    literal,
    to_double,
    to_text,
)

ABSENT = {
    "javascript": "write it as an aggregator of type expression, or in SQL",
    **dict.fromkeys(
        (
            "approxHistogram",
            "approxHistogramFold",
            "fixedBucketsHistogram",
            "momentSketch",
            "tDigestSketch",
        ),
        "use quantilesDoublesSketch",
    ),
    **dict.fromkeys(("KllDoublesSketch", "KllFloatsSketch"), "use quantilesDoublesSketch"),
    "arrayOfDoublesSketch": "use thetaSketch",
}
_BUILDS = {"hll": "DS_HLL", "theta": "DS_THETA", "quantiles": "DS_QUANTILES_SKETCH"}
"""Functions that make sketches of values; `hll_merge` and the like make one of several."""
_SKETCHES = frozenset(_BUILDS)
LG_K = 12
"""Of an HLL sketch that says no other."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregator: its name in answers, and its value.

    Attributes:
        state: A sketch, where `value` is its estimate; else the value.
    """

    name: str
    value: Sql
    state: Sql


@dataclass(frozen=True, slots=True)
class Grouped:
    """The rows that are aggregated.

    Attributes:
        kept: Dimensions that rows are grouped by here; None: by all of them.
        where: The condition of a filtered aggregator around this one.
    """

    scope: Scope
    kept: Collection[str] | None = None
    where: str = ""

    def of(self, call: str) -> str:
        """Return an aggregate over the rows that pass."""
        return f"{call} FILTER (WHERE {self.where})" if self.where else call


def read_measure(value: object, rows: Grouped, depth: int = 0) -> Measure:
    """Return an aggregator.

    Raises:
        Invalid: It is none, or not supported.
    """
    block = block_of(value, "an aggregator")
    check_depth(depth, "aggregators")
    kind = str(block.get("type"))
    if kind == "filtered":
        test = compile_filter(
            block_of(block.get("filter"), "filter of a filtered aggregator"), rows.scope
        )
        where = f"{rows.where} AND {test}" if rows.where else str(test)
        inner = {**block_of(block.get("aggregator"), "aggregator")}
        inner["name"] = block.get("name") or inner.get("name")
        return read_measure(inner, Grouped(rows.scope, rows.kept, where), depth + 1)
    build = _KINDS.get(kind)
    if build is None:
        raise refused(kind, "aggregator", (*_KINDS, "filtered"), ABSENT)
    name = block.get("name")
    if not isinstance(name, str) or not name:
        raise Invalid(f"aggregator {kind} needs a name")
    found = build(block, rows)
    value_, state = found if isinstance(found, tuple) else (found, found)
    return Measure(name, value_, state)


def _input(block: Block, rows: Grouped) -> Sql:
    if block.get("expression") is not None:
        return compile_expression(block["expression"], rows.scope.find)
    return rows.scope.find(text_of(block, "fieldName", what=f"aggregator {block['type']}"))


def _chopped(value: str, block: Block) -> str:
    size = whole_of(block, "maxStringBytes", None)
    return value if size is None else f"{CHOPPED}({value}, {size})"


def _folded(call: str, kind: Kind) -> Callable[[Block, Grouped], Sql]:
    def build(block: Block, rows: Grouped) -> Sql:
        value = _input(block, rows)
        wide: Kind = "double" if kind == "float" and call == "sum" else kind
        taken = cast_to(value, wide).text
        nothing = _OF_TEXTS.get((call, "long" if kind == "long" else "double"))
        if value.kind == "string" and not value.is_literal and nothing is not None:
            taken = f"coalesce({taken}, {nothing})"
        found = rows.of(f"{call}({_chopped(taken, block)})")
        return Sql(f"CAST({found} AS FLOAT)" if kind == "float" else found, kind)

    return build


def _at_an_end(call: str, kind: Kind) -> Callable[[Block, Grouped], Sql]:
    def build(block: Block, rows: Grouped) -> Sql:
        other = block.get("timeColumn")
        at = TIME_SQL if other in {None, "__time"} else rows.scope.find(str(other)).text
        if at == TIME_SQL and not rows.scope.has_time:
            raise Invalid(f"aggregator {block['type']} needs rows that have a time")
        # in a list, as a null is a value too: the one that came first may be null
        taken = _chopped(cast_to(_input(block, rows), kind).text, block)
        found = rows.of(f"{call}([{taken}], {at})")
        return Sql(f"list_extract({found}, 1)", kind)

    return build


def _mean(block: Block, rows: Grouped) -> Sql:
    mean = rows.of(f"avg({to_double(_input(block, rows)).text})")
    return Sql(f"coalesce({mean}, CAST(0 AS DOUBLE))", "double")


def _spread(block: Block, rows: Grouped) -> Sql:
    call = "var_pop" if block.get("estimator") == "population" else "var_samp"
    return Sql(rows.of(f"{call}({to_double(_input(block, rows)).text})"), "double")


def _sketched(value: Sql, kind: Kind) -> Sql:
    """Return what a sketch is made of: a column of such sketches, or texts or numbers."""
    if value.kind in _SKETCHES and value.kind != kind:
        raise Invalid(f"{value.text} holds sketches of another kind, {value.kind}")
    if value.is_array:
        raise Invalid("sketches of multi-value columns are not supported; unnest the values in SQL")
    return to_text(value) if value.kind in {"bool", "json"} else value


def _made(value: Sql, kind: Kind, size: int | None, rows: Grouped) -> str:
    """Return the sketch of values, or the one that sketches make together: SQL does not always see which they are."""
    call = f"{kind}_merge" if value.kind == kind else _BUILDS[kind]
    return rows.of(f"{call}({value.text}, {size})")


def _hll(values: list[Sql], rows: Grouped, lg_k: int) -> Sql:
    made = [_made(_sketched(one, "hll"), "hll", lg_k, rows) for one in values]
    return Sql(made[0] if len(made) == 1 else f"HLL_SKETCH_UNION({', '.join(made)})", "hll")


def estimate(state: Sql, *, is_round: bool = False) -> Sql:
    """Return the number of distinct values that a sketch has seen."""
    name = "THETA_SKETCH_ESTIMATE" if state.kind == "theta" else "HLL_SKETCH_ESTIMATE"
    found = f"coalesce(CAST({name}({state.text}) AS DOUBLE), CAST(0 AS DOUBLE))"
    return Sql(f"CAST(round({found}) AS BIGINT)", "long") if is_round else Sql(found, "double")


def seen(value: Sql) -> Sql:
    """Return how many values a sketch has seen, distinct ones or all; of anything else the value."""
    if value.kind == "quantiles":
        return Sql(f"list_sum(DS_HISTOGRAM({value.text}, 0))", "double")
    return estimate(value) if value.kind in _SKETCHES else value


def _cardinality(block: Block, rows: Grouped) -> tuple[Sql, Sql]:
    fields = list_of(block, "fields") or list_of(block, "fieldNames")
    if not fields:
        raise Invalid("aggregator cardinality needs fields, a list of columns")
    values = [of_dimension(one, rows.scope) for one in fields]
    if flag_of(block, "byRow") and len(values) > 1:
        parts = ", ".join(f"coalesce(to_json({one.text}), 'null')" for one in values)
        values = [Sql(f"concat_ws(',', {parts})", "string")]
    state = _hll(values, rows, LG_K)
    return estimate(state, is_round=flag_of(block, "round")), state


def _hll_sketch(block: Block, rows: Grouped) -> tuple[Sql, Sql]:
    state = _hll([_input(block, rows)], rows, whole_of(block, "lgK", LG_K) or LG_K)
    return estimate(state, is_round=flag_of(block, "round")), state


def _theta(block: Block, rows: Grouped) -> tuple[Sql, Sql]:
    size = whole_of(block, "size", 16_384)
    state = Sql(_made(_sketched(_input(block, rows), "theta"), "theta", size, rows), "theta")
    return estimate(state), state


def _quantiles(block: Block, rows: Grouped) -> tuple[Sql, Sql]:
    column = _input(block, rows)
    taken = _sketched(column if column.kind in _SKETCHES else to_double(column), "quantiles")
    state = Sql(_made(taken, "quantiles", whole_of(block, "k", 128), rows), "quantiles")
    count = Sql(rows.of(f"count({taken.text})"), "long")
    return (state if taken.kind == "quantiles" else count), state


def _grouping(block: Block, rows: Grouped) -> Sql:
    bits = "".join(
        "1" if rows.kept is not None and name not in rows.kept else "0"
        for name in list_of(block, "groupings")
    )
    return literal(int(bits or "0", 2))


def _expression(block: Block, rows: Grouped) -> Sql:
    fold = str(block.get("fold", "")).strip()
    if fold.replace(" ", "").startswith("__acc+") and str(block.get("initialValue", "0")) in {
        "0",
        "0.0",
    }:
        rest = fold.partition("+")[2]
        if "__acc" not in rest and block.get("finalize") is None:
            found = compile_expression(rest, rows.scope.find)
            taken = found if found.kind in {"long", "double"} else to_double(found)
            total = rows.of(f"sum({taken.text})")
            return Sql(f"coalesce({total}, 0)", taken.kind)
    raise Invalid(
        "an aggregator of type expression must fold as '__acc + …' from 0; use sums, minima and maxima of expressions"
    )


_OF_TEXTS = {
    ("sum", "long"): "0",
    ("sum", "double"): "0",
    ("min", "double"): "CAST('Infinity' AS DOUBLE)",
    ("max", "double"): "CAST('-Infinity' AS DOUBLE)",
    ("min", "long"): "9223372036854775807",
    ("max", "long"): "(-9223372036854775807 - 1)",
}
"""Values that count for a text that is no number."""
_NUMBERS: tuple[Kind, ...] = ("long", "double", "float")
_FOLDED = {"Sum": "sum", "Min": "min", "Max": "max", "Any": "any_value"}
_ENDS = {"First": "arg_min", "Last": "arg_max"}
_KINDS: Mapping[str, Callable[[Block, Grouped], Sql | tuple[Sql, Sql]]] = {
    "count": lambda _block, rows: Sql(rows.of("count(*)"), "long"),
    **{f"{kind}{name}": _folded(call, kind) for kind in _NUMBERS for name, call in _FOLDED.items()},
    **{
        f"{kind}{name}": _at_an_end(call, kind)
        for kind in (*_NUMBERS, "string")
        for name, call in _ENDS.items()
    },
    "stringAny": _folded("any_value", "string"),
    "doubleMean": _mean,
    "variance": _spread,
    "cardinality": _cardinality,
    "hyperUnique": _hll_sketch,
    "HLLSketchBuild": _hll_sketch,
    "HLLSketchMerge": _hll_sketch,
    "thetaSketch": _theta,
    "quantilesDoublesSketch": _quantiles,
    "grouping": _grouping,
    "expression": _expression,
}
