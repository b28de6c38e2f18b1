"""Functions that a statement may call so that servers can answer it alone, and how partial aggregates are merged."""

from __future__ import annotations

from carnac.query.functions import AGGREGATES
from carnac.query.syntax import Node

VOLATILE = frozenset({"error", "gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"})
"""Another value each time."""

CLOCKS = frozenset(
    {
        "current_date",
        "get_current_time",
        "get_current_timestamp",
        "now",
        "today",
        "transaction_timestamp",
    }
)
"""The time of the statement, which a broker tells everybody; called without arguments."""
CLOCK_READERS = frozenset({"age", "ago", "current_localtime", "current_localtimestamp"})
"""They read the clock and take arguments, or are calls of words that need no parentheses."""

SPREADING = frozenset({"unnest", "regexp_split_to_table", "generate_subscripts"})
"""They make several rows of one."""

SAME = frozenset({"any_value", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"})
"""The aggregate of partial aggregates is the aggregate."""
COUNTS = frozenset({"count", "count_star"})
SUMS = frozenset({"sum", "count_if", "countif"})
"""The sum of partial ones is the whole; null where nothing but null was counted or added."""
MEANS = frozenset({"avg", "mean"})
EXTREME_ROWS = {
    "arg_max": "max",
    "arg_min": "min",
    "argmax": "max",
    "argmin": "min",
    "max_by": "max",
    "min_by": "min",
}
"""A value of the row in which another one is extreme: by what that one is found."""
_SAMPLED = "if(m.n > 1, {} / (m.n - 1), NULL)"
_SLOPE = "(m.xy / m.xx)"
MOMENTS = {
    "corr": "m.xy / sqrt(m.xx * m.yy)",
    "covar_pop": "m.xy / m.n",
    "covar_samp": _SAMPLED.format("m.xy"),
    "regr_slope": _SLOPE,
    "regr_sxx": "m.xx",
    "regr_sxy": "m.xy",
    "regr_syy": "m.yy",
    "stddev": f"sqrt({_SAMPLED.format('m.xx')})",
    "stddev_pop": "sqrt(m.xx / m.n)",
    "stddev_samp": f"sqrt({_SAMPLED.format('m.xx')})",
    "var_pop": "m.xx / m.n",
    "var_samp": _SAMPLED.format("m.xx"),
    "variance": _SAMPLED.format("m.xx"),
}
"""The values computed from the moments `m` of values, or of pairs of them: their number `n`, the means `x` and `y`, and
the sums of squared deviations `xx` and `yy` and of their products `xy`."""
DISTINCT_VALUES = COUNTS | MEANS | {"sum", "median", *MOMENTS}
"""Computed from distinct values in any order."""
OF_ORDER = frozenset(
    {"array_agg", "arbitrary", "first", "group_concat", "last", "list", "listagg", "string_agg"}
)
"""Functions whose value depends on the order of rows."""
STATES = {
    "approx_count_distinct": "STRUCT(precision UTINYINT, registers UTINYINT[])",
    "approx_quantile": "STRUCT(count UBIGINT, min DOUBLE, max DOUBLE, "
    "centroids STRUCT(mean DOUBLE, weight DOUBLE)[])",
}
"""Functions whose states DuckDB exports and imports, with the form of the states."""
PARTS = frozenset(
    {f"__carnac_{one}_of" for one in ("distinct", "digest", "moments", "pair_moments")}
)
"""Partial aggregates that are macros of ours."""


def function_name(node: Node) -> str:
    """Return the name of a function that is called, in lower case; empty: the node is no call."""
    return str(node["function_name"]).lower() if node.get("class") == "FUNCTION" else ""


def is_aggregate(node: Node) -> bool:
    """Whether the node calls an aggregate function."""
    name = function_name(node)
    return name in AGGREGATES or name in PARTS
