"""Aggregates and window functions in Spark's SQL."""

from __future__ import annotations

from collections.abc import Sequence

from carnac.query.distributed.aggregates import COUNTS, MEANS, function_name
from carnac.query.spark_sql.kinds import (
    BOOLEAN,
    DOUBLE,
    FRACTIONS,
    TEXT,
    WHOLE,
    Kind,
    converted,
    is_decimal,
    is_number,
    quoted,
    refuse,
    sortable,
    spark_type,
)
from carnac.query.spark_sql.typing import Printer, is_constant
from carnac.query.syntax import Node, arguments, name_asked

_SPREADS = {
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}
_PAIRS = frozenset({"covar_samp", "covar_pop", "regr_sxx", "regr_syy", "regr_sxy", "regr_count"})
_BITS = frozenset({"bit_and", "bit_or", "bit_xor"})
_RANKS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
_NEIGHBOURS = frozenset({"lag", "lead", "first_value", "last_value", "first", "last"})
_TOTALS = COUNTS | MEANS | {"sum", "min", "max", "bool_and", "bool_or"}
_TOTAL_DIGITS = 28
"""Digits of a sum of longs in Spark: those of a long, and ten for the number of rows."""
_BOUNDS = {
    "UNBOUNDED_PRECEDING": "UNBOUNDED PRECEDING",
    "UNBOUNDED_FOLLOWING": "UNBOUNDED FOLLOWING",
    "CURRENT_ROW_ROWS": "CURRENT ROW",
    "CURRENT_ROW_RANGE": "CURRENT ROW",
}


def order_of(sql: str, kind: Kind, order: Node) -> str:
    """Return an item of ORDER BY; nulls come last unless it says otherwise, as in DuckDB."""
    way = "DESC" if order["type"] == "DESCENDING" else "ASC"
    nulls = "FIRST" if order["null_order"] == "NULLS FIRST" else "LAST"
    return f"{sortable(sql, kind)} {way} NULLS {nulls}"


def _orders(out: Printer, orders: Sequence[Node]) -> list[str]:
    return [
        order_of(out.sql(one["expression"]), out.kind(one["expression"]), one) for one in orders
    ]


def aggregate(out: Printer, node: Node) -> str:
    """Return a call of an aggregate.

    Raises:
        NotInSpark: Spark has none that gives the same.
    """
    chosen = ""
    if node["filter"] is not None:
        chosen = f" FILTER (WHERE {out.truth(node['filter'])})"
    name = function_name(node)
    if node["order_bys"]["orders"] and name not in {"string_agg", "listagg", "group_concat"}:
        raise refuse(f"{name} with an ORDER BY")
    return _aggregate(out, node, name, chosen)


def _aggregate(out: Printer, node: Node, name: str, after: str) -> str:
    """Return an aggregate or one over a window.

    Args:
        after: Text after each call: a filter, a window.
    """
    args, kind = arguments(node), out.kind(node)
    kinds = [out.kind(one) for one in args]
    distinct = "DISTINCT " if node["distinct"] else ""
    if name in COUNTS:
        counted = f"{distinct}{_plain(out, args[0])}" if args else "*"
        return f"count({counted}){after}"
    if name in {"count_if", "countif"}:
        return f"CAST(sum(CAST({out.truth(args[0])} AS INT)){after} AS {spark_type(kind)})"
    if name in {"bool_and", "bool_or"}:
        return f"{name}({out.made(args[0], BOOLEAN)}){after}"
    if name == "sum" or name in MEANS:
        return _sum(out, node, f"{distinct}{{}}", after, is_mean=name in MEANS)
    if name in {"min", "max"} and len(args) == 1 and not kinds[0].endswith("[]"):
        return f"{name}({_plain(out, args[0])}){after}"
    if name in _BITS and kinds[0] in WHOLE and not spark_type(kinds[0]).startswith("DECIMAL"):
        return f"{name}({out.sql(args[0])}){after}"
    if name in _SPREADS and not distinct:
        return f"{_SPREADS[name]}({out.made(args[0], DOUBLE)}){after}"
    if name in _PAIRS and not distinct and all(is_number(one) for one in kinds):
        pair = ", ".join(out.made(one, DOUBLE) for one in args)
        return f"CAST({name}({pair}){after} AS {spark_type(kind)})"
    if name in {"median", "quantile_cont", "quantile_disc", "quantile"} and not distinct:
        return _quantile(out, node, name, after)
    if name in {"string_agg", "listagg", "group_concat"} and not distinct:
        return _texts(out, node, after)
    raise refuse(f"the function {name_asked(node)} of {' and '.join(kinds) or 'nothing'}")


def _plain(out: Printer, node: Node) -> str:
    spark_type(out.kind(node))
    return out.sql(node)


def _sum(out: Printer, node: Node, form: str, after: str, *, is_mean: bool) -> str:
    """Return a sum or a mean: exact over whole numbers and decimals, else of doubles."""
    [one] = arguments(node)
    kind, result = out.kind(one), out.kind(node)
    if kind in FRACTIONS:
        inner = form.format(out.made(one, DOUBLE))
        return f"{'avg' if is_mean else 'sum'}({inner}){after}"
    if not is_number(kind) and kind != BOOLEAN:
        raise refuse(f"{'avg' if is_mean else 'sum'} of {kind}")
    value = out.sql(one) if is_decimal(kind) else out.made(one, f"DECIMAL({_TOTAL_DIGITS},0)")
    inner = form.format(value)
    total = f"sum({inner}){after}"
    if is_mean:
        return f"(CAST({total} AS DOUBLE) / nullif(count({inner}){after}, 0))"
    return f"CAST({total} AS {spark_type(result)})"


def _quantile(out: Printer, node: Node, name: str, after: str) -> str:
    args, kind = arguments(node), out.kind(node)
    own = out.kind(args[0])
    share = "0.5"
    if name != "median":
        if len(args) != 2 or not is_constant(args[1]):
            raise refuse(f"{name} of several shares")
        share = str(out.oracle.value(args[1], TEXT))
        if share.startswith("[") or not 0 <= float(share) <= 1:
            raise refuse(f"{name} of such a share")
    if name in {"median", "quantile_cont"} and (own in FRACTIONS or own in WHOLE):
        found = f"percentile({out.made(args[0], DOUBLE)}, CAST('{share}' AS DOUBLE)){after}"
        return converted(found, DOUBLE, kind)
    if own in FRACTIONS and name != "median":
        value = out.made(args[0], DOUBLE)
        found = f"percentile_disc(CAST('{share}' AS DOUBLE)) WITHIN GROUP (ORDER BY {value}){after}"
        return converted(found, DOUBLE, kind)
    raise refuse(f"{name} of {own}")


def _texts(out: Printer, node: Node, after: str) -> str:
    args, orders = arguments(node), node["order_bys"]["orders"]
    if not orders:
        raise refuse("string_agg without ORDER BY, whose answer may be another each time,")
    between = "," if len(args) == 1 else out.oracle.value(args[1], TEXT)
    if out.kind(args[0]) != TEXT or not all(is_constant(one) for one in args[1:]):
        raise refuse("string_agg of something else than texts and a constant")
    keys = ", ".join(_orders(out, orders))
    value = out.sql(args[0])
    return f"listagg({value}, {quoted(str(between))}) WITHIN GROUP (ORDER BY {keys}){after}"


def window(out: Printer, node: Node) -> str:
    """Return a window function.

    Raises:
        NotInSpark: Spark has none that gives the same.
    """
    name = str(node["function_name"]).lower()
    if node["exclude_clause"] != "NO_OTHER" or node.get("arg_orders"):
        raise refuse("EXCLUDE or ORDER BY inside of a window function")
    parts = [out.sql(one) for one in node["partitions"]]
    orders = _orders(out, node["orders"])
    over = " OVER (" + " ".join(
        [
            *([f"PARTITION BY {', '.join(parts)}"] if parts else []),
            *([f"ORDER BY {', '.join(orders)}"] if orders else []),
            *([] if name in _RANKS | {"lag", "lead"} else [_frame(out, node)]),
        ]
    )
    over += ")"
    args = arguments(node)
    if name in _RANKS | _NEIGHBOURS:
        if not orders or node.get("distinct") or node.get("filter_expr"):
            raise refuse(f"{name} over rows in no order")
        return _placed(out, node, name, args, over)
    chosen = node.get("filter_expr")
    after = f" FILTER (WHERE {out.truth(chosen)}){over}" if chosen else over
    if node.get("distinct"):
        raise refuse("DISTINCT over a window")
    if name not in _TOTALS:
        raise refuse(f"the window function {name}")
    return _aggregate(out, node, name, after)


def _placed(out: Printer, node: Node, name: str, args: Sequence[Node], over: str) -> str:
    kind = out.kind(node)
    if name in _RANKS:
        given = ", ".join(str(out.whole_number(one, least=1)) for one in args)
        found = f"{name}({given}){over}"
        return f"CAST({found} AS {spark_type(kind)})" if kind in WHOLE else found
    rule = " IGNORE NULLS" if node.get("ignore_nulls") else ""
    word = {"first": "first_value", "last": "last_value"}.get(name, name)
    values = [out.made(args[0], kind)]
    if len(args) > 1:
        values.append(str(out.whole_number(args[1])))
    if len(args) > 2:
        values.append(out.made(args[2], kind))
    return f"{word}({', '.join(values)}){rule}{over}"


def _frame(out: Printer, node: Node) -> str:
    is_rows = "ROWS" in str(node["start"]) + str(node["end"])
    bounds = []
    for side in ("start", "end"):
        told = str(node[side])
        if told in _BOUNDS:
            bounds.append(_BOUNDS[told])
            continue
        if not told.startswith("EXPR_") or not told.endswith("_ROWS"):
            raise refuse("such a frame of a window")
        way = "PRECEDING" if "PRECEDING" in told else "FOLLOWING"
        bounds.append(f"{out.whole_number(node[f'{side}_expr'])} {way}")
    if not is_rows and not node["orders"]:
        return "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    return f"{'ROWS' if is_rows else 'RANGE'} BETWEEN {' AND '.join(bounds)}"
