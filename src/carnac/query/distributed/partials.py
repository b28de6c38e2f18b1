"""Partial aggregates: an aggregate's expressions over the rows of each server, and the broker's over the parts.

sum(x)                each server: sum(x)                               the broker: sum(p)
var_samp(x)           each server: number, mean and squared deviations  the broker: those of the parts together
count(DISTINCT x)     each server: its groups by x as well               the broker: count(DISTINCT p)
                      or the list of distinct values of each group      the number of distinct values
arg_max(x, t)         each server: arg_max(x, t), max(t)                the broker: arg_max(p, q)
approx_quantile(x, q) each server: DuckDB's state                       the broker: that of the states together
hll_merge(s)          each server: the sketch of its rows               the broker: the sketch of the sketches
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from carnac.core.druid.forms import DOUBLE_TEXT, DOUBLE_TEXT_BODY
from carnac.query.distributed.aggregates import (
    COUNTS,
    DISTINCT_VALUES,
    EXTREME_ROWS,
    MEANS,
    MOMENTS,
    OF_ORDER,
    SAME,
    STATES,
    SUMS,
    function_name,
)
from carnac.query.distributed.naming import NotOneRound, key_of
from carnac.query.functions import CHOPPED
from carnac.query.rewriting.sketching import PREFIX
from carnac.query.syntax import (
    NOWHERE,
    Node,
    arguments,
    call,
    cast,
    conjunction,
    constant,
    null,
    or_zero,
)

Part = Callable[[Node], Node]
"""Adds a partial aggregate to what servers are asked for; returns the column of their answers that holds it."""

_SMALL = COUNTS | SUMS | MEANS | SAME
"""Their partial aggregates are numbers, or values."""
_SKETCH_STATES = (f"{PREFIX}build_", f"{PREFIX}merge_")

_DIGEST = "finalize(combine_aggr(to_aggregate_state(parts, 'approx_quantile', [typeof(example), '{}'], [NULL, q])))"
"""An example says of which type the values are; a state fits all fractions."""


_CHOPS = ", ".join(f"TRY(decode(encode(CAST(v AS VARCHAR))[1:n - {cut}]))" for cut in range(4))
"""A letter has four bytes at most."""
_MACROS = {
    f"{CHOPPED.removeprefix(PREFIX)}(v, n)": "CASE WHEN typeof(v) = 'VARCHAR' AND strlen(CAST(v AS VARCHAR)) > n"
    f" THEN cast_to_type(coalesce({_CHOPS}), v) ELSE v END",
    f"{DOUBLE_TEXT.removeprefix(PREFIX)}(v)": DOUBLE_TEXT_BODY,
    "moments_of(x)": "{'n': count(x)::DOUBLE, 'x': favg(x), 'y': favg(x), 'xx': var_pop(x) * count(x), "
    "'yy': 0::DOUBLE, 'xy': 0::DOUBLE}",
    "pair_moments_of(y, x)": "{'n': count(x)::DOUBLE, 'x': favg(x), 'y': favg(y), "
    "'xx': covar_pop(x, x) * count(x), 'yy': covar_pop(y, y) * count(x), 'xy': covar_pop(y, x) * count(x)}",
    "distinct_of(x)": f"CAST(approx_count_distinct(x) EXPORT_STATE AS {STATES['approx_count_distinct']})",
    "distinct(parts)": "finalize(combine_aggr(to_aggregate_state(parts, 'approx_count_distinct', ['BIGINT'])))",
    "digest_of(x)": f"CAST(approx_quantile(x, 0.5) EXPORT_STATE AS {STATES['approx_quantile']})",
    "digest(parts, example, q)": _DIGEST.format("FLOAT"),
    "digests(parts, example, q)": _DIGEST.format("FLOAT[]"),
    "gap(a, b)": "if(abs(b - a) <= 1e-15 * abs(a), 0, b - a)",
    "moments(parts)": "list_reduce(list(parts) FILTER (WHERE parts.n > 0), lambda a, b: {'n': a.n + b.n"
    + "".join(f", '{one}': a.{one} + $gap(a.{one}, b.{one}) * (b.n / (a.n + b.n))" for one in "xy")
    + "".join(
        f", '{one}{other}': a.{one}{other} + b.{one}{other} + "
        f"$gap(a.{one}, b.{one}) * $gap(a.{other}, b.{other}) * (a.n * b.n / (a.n + b.n))"
        for one, other in ("xx", "yy", "xy")
    )
    + "})",
} | {f"{name}(m)": whole for name, whole in MOMENTS.items()}
"""Signature and body; `$` stands for the prefix."""


def may_call_macros(sql: str) -> bool:
    """Whether a statement may call our macros: once its results are kept approximate counts do."""
    text = sql.lower()
    return any(
        word in text for word in ("approx", "earliest", "latest", "any_value", CHOPPED, DOUBLE_TEXT)
    )


def macros() -> Iterator[str]:
    """Yield the statements that let engines merge DuckDB's states, and moments (Chan, Golub and LeVeque, 1979).

    Sums of squares would lose all digits where a mean is large. Means that differ by their own rounding are equal, so
    that equal values have no variance.
    """
    for name, whole in _MACROS.items():
        yield f"CREATE OR REPLACE MACRO {PREFIX}{name} AS {whole.replace('$', PREFIX)}"


def is_sketch(node: Node) -> bool:
    """Whether a node makes a sketch of all rows of a group."""
    if not function_name(node).startswith(_SKETCH_STATES):
        return False
    listed = arguments(node)[0]
    if function_name(listed) == "flatten":
        listed = arguments(listed)[0]
    return function_name(listed) == "list"


def merged_sketch(node: Node, part: Part) -> Node:
    """Return the sketch of the sketches of parts; null where no part has rows, as of rows themselves."""
    column = part(node | {"alias": ""})
    kind = function_name(node).removeprefix(PREFIX).split("_")[1]
    there = call("list", [column]) | {"filter": _is_there(column)}
    return call(f"{PREFIX}merge_{kind}", [there, arguments(node)[1]])


def merged_aggregate(node: Node, part: Part) -> Node:
    """Return an aggregate of rows as one of what servers answer.

    Raises:
        NotOneRound: It cannot be made of partial ones.
    """
    name, args = function_name(node), arguments(node)
    if node["order_bys"]["orders"] or name in OF_ORDER:
        raise NotOneRound(f"{name} depends on the order of rows")
    if name in SAME and len(args) == 1:
        return call(name, [part(node)])
    if node["distinct"]:
        return _distinct(node, part)
    if name in COUNTS:
        return cast(or_zero(call("sum", [part(node)])), "BIGINT")
    if name in SUMS:
        return call("sum", [part(node)])
    if name in MEANS and len(args) == 1:
        total, count = (
            cast(call("sum", [part(_other(node, one, args))]), "DOUBLE") for one in ("sum", "count")
        )
        return call("/", [total, count]) | {"is_operator": True}
    if name in EXTREME_ROWS and len(args) == 2:
        conditions = [] if node["filter"] is None else [node["filter"]]
        there = node | {"filter": conjunction([*conditions, _is_there(args[0])])}
        extreme = part(_other(there, EXTREME_ROWS[name], args[1:]))
        return call(name, [part(node), extreme])
    if name in MOMENTS:
        return call(f"{PREFIX}{name}", [_moments(node, part)])
    if name in STATES:
        return _of_states(node, part)
    raise NotOneRound(f"{name} cannot be merged from its parts")


def is_of_distinct(node: Node) -> bool:
    """Whether an aggregate is another one without DISTINCT."""
    return bool(node["distinct"]) and function_name(node) not in SAME


def find_distinct_value(aggregates: Sequence[Node]) -> Node | None:
    """Return the value that servers group by as well, because all aggregates of distinct values are of it.

    None: there is none. Of several values, and of some rows, servers list the distinct ones for each group, as they do
    beside aggregates whose parts are too large to come with each value.
    """
    values: dict[str, Node] = {}
    for one in aggregates:
        if is_of_distinct(one) and one["filter"] is None:
            [value] = arguments(one)
            values[key_of(value)] = value
        elif is_of_distinct(one) or function_name(one) not in _SMALL:
            return None
    return next(iter(values.values())) if len(values) == 1 else None


def _distinct(node: Node, part: Part) -> Node:
    name, args = function_name(node), arguments(node)
    if name not in DISTINCT_VALUES or len(args) != 1:
        raise NotOneRound(f"{name} of distinct values needs all of them in one place")
    listed = call("list", [part(_other(node, "list", args))])
    values = call("list_distinct", [call("flatten", [listed])])
    found = call("list_aggregate", [values, constant("STRING", name)])
    return or_zero(found) if name in COUNTS else found


def _moments(node: Node, part: Part) -> Node:
    values = [cast(one, "DOUBLE") for one in arguments(node)]
    conditions = [] if node["filter"] is None else [node["filter"]]
    if len(values) == 2:
        conditions += map(_is_there, values)
    if conditions:
        values = [_where(conditions, one) for one in values]
    kind = "moments_of" if len(values) == 1 else "pair_moments_of"
    return call(f"{PREFIX}moments", [part(call(f"{PREFIX}{kind}", values))])


def _of_states(node: Node, part: Part) -> Node:
    """Return what DuckDB estimates from the states of parts."""
    name, args = function_name(node), arguments(node)
    value = args[0] if node["filter"] is None else _where([node["filter"]], args[0])
    if name == "approx_count_distinct":
        return call(f"{PREFIX}distinct", [part(call(f"{PREFIX}distinct_of", [value]))])
    if len(args) != 2:
        raise NotOneRound(f"{name} needs a value and a fraction")
    is_many = args[1]["type"] == "ARRAY_CONSTRUCTOR" or function_name(args[1]) == "list_value"
    state, example = (part(call(one, [value])) for one in (f"{PREFIX}digest_of", "any_value"))
    return call(f"{PREFIX}digest{'s' if is_many else ''}", [state, example, args[1]])


def _where(conditions: list[Node], value: Node) -> Node:
    """Return a value where all conditions hold, else null."""
    check = {"when_expr": conjunction(conditions), "then_expr": value}
    return {
        "class": "CASE",
        "type": "CASE_EXPR",
        **NOWHERE,
        "case_checks": [check],
        "else_expr": null(),
    }


def _other(node: Node, name: str, args: list[Node]) -> Node:
    """Return another aggregate of the same rows."""
    named = {"function_name": name, "qualified_name": {"path": [name]}}
    return with_arguments(node | named, args)


def with_arguments(node: Node, args: Sequence[Node]) -> Node:
    """Return a call with other arguments."""
    return node | {"arguments": [{"name": "", "expression": one} for one in args]}


def _is_there(node: Node) -> Node:
    return {"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", **NOWHERE, "children": [node]}
