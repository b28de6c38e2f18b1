"""Sketches in SQL: our names and Druid's, rewritten to a handful of functions over `carnac.sketches`.

An aggregate becomes a function of a list: `hll_merge(s) FILTER (…)` is `__carnac_merge_hll(list(s) FILTER (…))`.
Druid's aggregates take raw values and sketches alike; which of the two is seen from the type of what they are given.
The functions are registered when a query first names one, because they need numpy and datasketches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from carnac.core.segments.segment import ELEMENT_TYPES, ColumnType
from carnac.errors import Invalid
from carnac.ports.memo import Memo
from carnac.query.rewriting.column_types import ColumnTypes
from carnac.query.syntax import (
    ASKED,
    NO_LOCATION,
    Node,
    arguments,
    call,
    cast,
    constant,
    name_asked,
    or_zero,
    text_of,
    walk,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.query.relations import Relation

PREFIX = "__carnac_"
TypesOf = Callable[[str], Mapping[str, ColumnType]]
"""Gives the columns of a datasource by its name."""

_MERGES = {"hll_merge": "hll", "theta_merge": "theta", "quantiles_merge": "quantiles"}
_BUILDS = {
    "ds_hll": "hll",
    "ds_theta": "theta",
    "ds_quantiles_sketch": "quantiles",
    "approx_count_distinct_ds_hll": "hll",
    "approx_count_distinct_ds_theta": "theta",
    "approx_quantile_ds": "quantiles",
}
_ESTIMATES = {
    "hll_estimate": "hll",
    "hll_sketch_estimate": "hll",
    "theta_estimate": "theta",
    "theta_sketch_estimate": "theta",
}
_SETS = {
    "hll_union": "merge_hll",
    "hll_sketch_union": "merge_hll",
    "theta_union": "merge_theta",
    "theta_sketch_union": "merge_theta",
    "theta_intersect": "intersect_theta",
    "theta_sketch_intersect": "intersect_theta",
    "theta_not": "subtract_theta",
    "theta_sketch_not": "subtract_theta",
    "quantiles_union": "merge_quantiles",
}
_QUANTILES = {"quantile", "quantiles_estimate", "ds_get_quantile"}
_RANKS = {"quantiles_rank", "ds_rank"}
_DISTRIBUTIONS = {"ds_cdf": "cdf", "ds_histogram": "histogram"}
_STATE_OF = {**_MERGES, "ds_hll": "hll", "ds_theta": "theta", "ds_quantiles_sketch": "quantiles"}
_STATE_OF |= {name: function.rpartition("_")[2] for name, function in _SETS.items()}
_TYPES = {"hll": ColumnType.HLL, "theta": ColumnType.THETA, "quantiles": ColumnType.QUANTILES}
Taken = Mapping[int, ColumnType | None]
"""Types of the first arguments of calls, by the identity of the call."""

SKETCH_AGGREGATES = frozenset({*_MERGES, *_BUILDS})
SKETCH_FUNCTIONS = frozenset(
    {*_MERGES, *_BUILDS, *_ESTIMATES, *_SETS, *_QUANTILES, *_RANKS, *_DISTRIBUTIONS}
)
"""Functions that a query may call besides DuckDB's own, in lower case."""
_MADE = {name: _TYPES[kind] if (kind := _STATE_OF.get(name)) else None for name in SKETCH_FUNCTIONS}

_OWN = rf"{PREFIX}(?:build|cdf|estimate|histogram|intersect|merge|quantile|rank|subtract)\w*"
_NAMED = re.compile(
    r"\b(?:" + "|".join([*sorted(SKETCH_FUNCTIONS), _OWN]) + r")\"?\s*\(", re.IGNORECASE
)
TEXTS_MAX = 1_000
TEXT_CHARS = 4 << 20
"""Texts of which it is remembered whether they name one."""
_NAMING: Memo[str, bool] = Memo(
    values_max=TEXTS_MAX, weight_max=TEXT_CHARS, weigh=lambda sql, _: len(sql)
)
_DEFAULT_SIZE = {"hll": 12, "theta": 14, "quantiles": 200}
"""Sizes of HLL and theta as Druid's SQL has them; a smaller union would cut what a spec's `thetaSketch` keeps."""
_VALUE_TYPE = {
    ColumnType.LONG: "BIGINT",
    ColumnType.BOOLEAN: "BIGINT",
    ColumnType.DOUBLE: "DOUBLE",
    ColumnType.FLOAT: "DOUBLE",
    ColumnType.LONG_ARRAY: "BIGINT",
    ColumnType.DOUBLE_ARRAY: "DOUBLE",
}


def names_sketches(sql: str) -> bool:
    """Whether the text may call one of our functions, by the names that users know or by those that they are given."""
    return _NAMING.get(sql, lambda: _NAMED.search(sql) is not None)


def rewrite_sketches(
    cursor: duckdb.DuckDBPyConnection,
    node: Node,
    sql: str,
    relations: Sequence[Relation],
    columns: TypesOf,
) -> None:
    """Rewrite, in place, the calls of our functions to those that `register_sketches` provides.

    Args:
        sql: The text that the tree was made of: columns that have no name get their own text as a name.
        relations: The tables of the statement, whose columns' types say what is a sketch.
        columns: Gives these types by the name of a datasource.

    Raises:
        Invalid: A call has too few or wrong arguments.
    """
    calls = [
        one
        for one in walk(node)
        if one.get("class") in {"FUNCTION", "WINDOW"}
        and str(one["function_name"]).lower() in SKETCH_FUNCTIONS
    ]
    if not calls:
        return
    taken = _taken(node, calls, relations, columns)
    keep_names(cursor, node, sql, SKETCH_FUNCTIONS)
    for one in reversed(calls):  # inner calls first
        _rewrite(one, taken)


def _taken(
    node: Node, calls: Sequence[Node], relations: Sequence[Relation], columns: TypesOf
) -> Taken:
    """Return what calls are given, as far as it is known."""
    opened = {id(one.node): columns(one.datasource) for one in relations if one.datasource}
    types = ColumnTypes(opened, _MADE)
    types.visit(node)
    stored = {name.lower(): kind for table in opened.values() for name, kind in table.items()}

    def of(argument: Node) -> ColumnType | None:
        if types.is_known(argument) or argument["class"] != "COLUMN_REF":
            return types.of(argument)
        return stored.get(str(argument["column_names"][-1]).lower())  # of a pivot, say

    return {id(one): of(args[0]) if (args := arguments(one)) else None for one in calls}


def keep_names(
    cursor: duckdb.DuckDBPyConnection, node: Node, sql: str, functions: frozenset[str]
) -> None:
    """Give columns without a name, which call one of these functions, their own text as a name, in place."""
    text = sql.encode()
    for item in [one for select in walk(node) for one in select.get("select_list") or ()]:
        start, length = item["query_location"], item["query_location_length"]
        is_rewritten = any(
            str(one.get("function_name", "")).lower() in functions for one in walk(item)
        )
        if is_rewritten and not item["alias"]:
            is_written = start != NO_LOCATION and length
            own = text[start : start + length].decode() if is_written else ""
            item["alias"] = own or text_of(cursor, item)


def _rewrite(node: Node, taken: Taken) -> None:
    name, args = str(node["function_name"]).lower(), arguments(node)
    if name == "quantile" and not _is_state(node, taken):
        return
    if node["class"] == "WINDOW":
        raise Invalid(f"{name} cannot be used as a window function", function=name)
    if not args:
        raise Invalid(f"{name} needs an argument", function=name)
    if node["filter"] is not None and name not in _MERGES | _BUILDS:
        raise Invalid(
            f"{name} is no aggregate: write FILTER after the one among its arguments", function=name
        )
    if name in _MERGES:
        kind = _MERGES[name]
        new = call(f"{PREFIX}merge_{kind}", [_listed(node, args[0]), _size(kind, args[1:2])])
    elif name in _BUILDS:
        new = _build(name, node, args, taken)
    elif name in _ESTIMATES:
        new = call(f"{PREFIX}estimate_{_ESTIMATES[name]}", args[:1])
        if len(args) > 1:  # Druid's HLL_SKETCH_ESTIMATE(sketch, round)
            new = call("round", [new])
    elif name in _SETS:
        sizes = [arg for arg in args if _is_whole(arg)]
        states = [arg for arg in args if not _is_whole(arg)]
        kind = _SETS[name].rpartition("_")[2]
        new = call(f"{PREFIX}{_SETS[name]}", [call("list_value", states), _size(kind, sizes)])
    else:
        if len(args) < 2:
            raise Invalid(f"{name} needs a sketch and a number", function=name)
        numbers = [cast(one, "DOUBLE") for one in args[1:]]
        if name in _DISTRIBUTIONS:
            bounds = call("list_value", numbers)
            new = call(f"{PREFIX}{_DISTRIBUTIONS[name]}", [args[0], bounds])
        else:
            inner = "rank" if name in _RANKS else "quantile"
            new = call(f"{PREFIX}{inner}", [args[0], numbers[0]])
    alias, location = node["alias"], node["query_location"]
    asked = name_asked(node).upper()
    _say_asked(new, asked)
    node.clear()
    node.update(new | {ASKED: asked})
    node["alias"], node["query_location"] = alias, location


def _say_asked(made: Node, asked: str) -> None:
    """Note in calls of our functions which one the statement calls; those in arguments have it already."""
    for one in walk(made):
        if str(one.get("function_name")).startswith(PREFIX):
            one.setdefault(ASKED, asked)


def _build(name: str, node: Node, args: list[Node], taken: Taken) -> Node:
    kind = _BUILDS[name]
    is_quantile = name == "approx_quantile_ds"
    if is_quantile and len(args) < 2:
        raise Invalid("approx_quantile_ds needs an expression and a fraction", function=name)
    size = _size(kind, args[2:3] if is_quantile else args[1:2])
    if _is_state(node, taken):
        state = call(f"{PREFIX}merge_{kind}", [_listed(node, args[0]), size])
    else:
        column = taken[id(node)] or ColumnType.STRING
        wanted = "DOUBLE" if kind == "quantiles" else _VALUE_TYPE.get(column, "VARCHAR")
        if column in ELEMENT_TYPES:
            values = call("flatten", [_listed(node, args[0])])
        else:
            values = _listed(node, cast(args[0], wanted), is_distinct=kind != "quantiles")
        suffix = (
            ""
            if kind == "quantiles"
            else {"BIGINT": "_longs", "DOUBLE": "_doubles"}.get(wanted, "_texts")
        )
        state = call(f"{PREFIX}build_{kind}{suffix}", [values, size])
    if name.startswith("approx_count_distinct"):
        estimate = call(f"{PREFIX}estimate_{kind}", [state])
        return cast(call("round", [or_zero(estimate)]), "BIGINT")
    return call(f"{PREFIX}quantile", [state, cast(args[1], "DOUBLE")]) if is_quantile else state


def _is_state(call: Node, taken: Taken) -> bool:
    """Whether a call is given sketches."""
    kind = taken[id(call)]
    return kind is not None and kind.is_sketch


def _listed(aggregate: Node, argument: Node, *, is_distinct: bool = False) -> Node:
    """Return `list(argument)` with the aggregate's own FILTER and DISTINCT."""
    listed = call("list", [argument])
    listed["filter"] = aggregate["filter"]
    listed["distinct"] = bool(aggregate["distinct"]) or is_distinct
    return listed


def _is_whole(node: Node) -> bool:
    return bool(node["type"] == "VALUE_CONSTANT" and node["literal"]["kind"] == "INTEGER")


def _size(kind: str, given: list[Node]) -> Node:
    if given and _is_whole(given[0]):
        size = int(given[0]["literal"]["text"])
        if kind == "theta" and size > 26:  # Druid says the size itself, not its logarithm
            size = max(5, (size - 1).bit_length())
    else:
        size = _DEFAULT_SIZE[kind]
    return constant("INTEGER", str(size))


def register_sketches(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the functions that rewritten queries call."""
    import pyarrow as pa
    from duckdb.func import FunctionNullHandling, PythonUDFType

    from carnac import sketches

    def create(name: str, function: Callable[..., Any], parameters: list[Any], result: str) -> None:
        connection.create_function(
            f"{PREFIX}{name}",
            function,
            parameters,
            result,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )

    for kind, merge in (
        ("hll", sketches.merge_hll),
        ("theta", sketches.merge_theta),
        ("quantiles", sketches.merge_quantiles),
    ):
        create(f"merge_{kind}", _of_lists(merge), ["BLOB[]", "INTEGER"], "BLOB")
    for kind, build, estimate in (
        ("hll", sketches.build_hll, sketches.estimate_hll),
        ("theta", sketches.build_theta, sketches.estimate_theta),
    ):
        for suffix, sql_type in (
            ("texts", "VARCHAR[]"),
            ("longs", "BIGINT[]"),
            ("doubles", "DOUBLE[]"),
        ):
            create(f"build_{kind}_{suffix}", _of_lists(build), [sql_type, "INTEGER"], "BLOB")
        create(f"estimate_{kind}", of_rows(estimate, "double"), ["BLOB"], "DOUBLE")
    create(
        "build_quantiles",
        _of_numbers(sketches.build_quantiles),
        ["DOUBLE[]", "INTEGER"],
        "BLOB",
    )
    create("quantile", of_rows(sketches.quantile, "double"), ["BLOB", "DOUBLE"], "DOUBLE")
    create("rank", of_rows(sketches.rank, "double"), ["BLOB", "DOUBLE"], "DOUBLE")
    numbers = pa.list_(pa.float64())
    for name, spread in (("cdf", sketches.shares), ("histogram", sketches.counts)):
        create(name, of_rows(spread, numbers), ["BLOB", "DOUBLE[]"], "DOUBLE[]")
    intersect = _of_lists(lambda states, _: sketches.intersect_theta(states))
    create("intersect_theta", intersect, ["BLOB[]", "INTEGER"], "BLOB")
    subtract = _of_lists(lambda states, _: sketches.subtract_theta(states[0], states[1:]))
    create("subtract_theta", subtract, ["BLOB[]", "INTEGER"], "BLOB")


def _of_lists(function: Callable[[Any, int], bytes]) -> Callable[..., Any]:
    """Return the Arrow function that calls `function(list, size)` for each row."""

    def apply(lists: Any, sizes: Any) -> Any:
        import pyarrow as pa

        rows = zip(lists.to_pylist(), sizes.to_pylist(), strict=True)
        return pa.array(
            [None if items is None else function(items, size) for items, size in rows], "binary"
        )

    return apply


def _of_numbers(function: Callable[[Any, int], bytes]) -> Callable[..., Any]:
    """Return the Arrow function that calls `function(numbers, size)` for each row; nulls are NaN there."""

    def apply(lists: Any, sizes: Any) -> Any:
        import pyarrow as pa

        if isinstance(lists, pa.ChunkedArray):
            lists = lists.chunk(0) if lists.num_chunks == 1 else lists.combine_chunks()
        numbers = lists.values.to_numpy(zero_copy_only=False)
        ends = lists.offsets.to_pylist()
        rows = zip(lists.is_valid().to_pylist(), ends, ends[1:], sizes.to_pylist(), strict=False)
        return pa.array(
            [
                function(numbers[start:end], size) if is_one else None
                for is_one, start, end, size in rows
            ],
            "binary",
        )

    return apply


def of_rows(function: Callable[..., Any], kind: pa.DataType | str) -> Callable[..., Any]:
    """Return the Arrow function that calls one of one or two arguments for each row; where one is null, it is null."""

    def made(rows: Iterable[Sequence[Any]]) -> Any:
        import pyarrow as pa

        return pa.array([None if None in row else function(*row) for row in rows], kind)

    def of_one(values: Any) -> Any:
        return made((value,) for value in values.to_pylist())

    def of_two(values: Any, others: Any) -> Any:
        return made(zip(values.to_pylist(), others.to_pylist(), strict=True))

    return of_one if len(signature(function).parameters) == 1 else of_two
