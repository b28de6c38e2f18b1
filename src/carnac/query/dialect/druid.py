"""Calls of Druid's functions become the expressions that mean the same.

What cannot be said for all arguments stays as it is, and is refused with a form to write in its place
(`specs.druid.sql_functions`). Source of what they mean: Druid's documentation of its SQL functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from carnac.errors import Invalid
from carnac.query.dialect.times import STEPPING, TIMES, stepped
from carnac.query.syntax import NOWHERE, Node, arguments, parse, text_of, walk

if TYPE_CHECKING:
    import duckdb

# a column of one text in each row has values too, one or none: to Druid, there is no other kind
_VALUES_1, _VALUES_2 = (
    f"CASE WHEN typeof({arg}) LIKE '%[]' THEN TRY_CAST({arg} AS VARCHAR[])"
    f" WHEN {arg} IS NOT NULL THEN [CAST({arg} AS VARCHAR)] END"
    for arg in ("_1", "_2")
)
_OF_LISTS = {
    "offset": "list_extract({0}, CASE WHEN _2 >= 0 THEN _2 + 1 END)",
    "ordinal": "list_extract({0}, CASE WHEN _2 >= 1 THEN _2 END)",
    "offset_of": "list_position({0}, {1}) - 1",
    "ordinal_of": "list_position({0}, {1})",
}
"""Functions that `ARRAY_` and `MV_` stand before."""
_BYTE = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_ADDRESS = (
    f"(CASE WHEN regexp_full_match(CAST(_1 AS VARCHAR), '{_BYTE}([.]{_BYTE}){{3}}') THEN"
    " list_reduce(list_transform(string_split(CAST(_1 AS VARCHAR), '.'), lambda part: TRY_CAST(part AS BIGINT)),"
    " lambda high, low: high * 256 + low)"
    " WHEN typeof(_1) <> 'VARCHAR' THEN CAST(TRY_CAST(_1 AS UINTEGER) AS BIGINT) END)"
)
PRINTED: Mapping[str, str] = {
    "approx_distinct": "approx_count_distinct",
    "variance_pop": "var_pop",
    "logical_and": "bool_and",
    "logical_or": "bool_or",
    "day_of_month": "dayofmonth",
    "day_of_week": "dayofweek",
    "day_of_year": "dayofyear",
    "dayofweek_iso": "isodow",
    "week_of_year": "weekofyear",
    "is_inf": "isinf",
    "is_nan": "isnan",
    "sha": "sha1",
}
"""What Superset sends in place of functions of one argument: sqlglot 28 prints its own names for them."""
FORMS: Mapping[tuple[str, int], str] = {
    ("millis_to_timestamp", 1): "make_timestamptz(CAST(_1 AS BIGINT) * 1000)",
    ("timestamp_to_millis", 1): "epoch_ms(_1)",
    ("approx_count_distinct_builtin", 1): "approx_count_distinct(_1)",
    **{(name, 1): f"{meant}(_1)" for name, meant in PRINTED.items()},
    ("str_position", 2): "strpos(_1, _2)",
    ("group_concat", 3): "string_agg(_1, _2)",
    ("json_extract_scalar", 2): "json_extract_string(_1, _2)",
    ("rand", 0): "random()",
    ("earliest", 1): "arg_min(_1, __time)",
    ("earliest", 2): "arg_min(_1, __time)",
    ("earliest_by", 2): "arg_min(_1, _2)",
    ("earliest_by", 3): "arg_min(_1, _2)",
    ("latest", 1): "arg_max(_1, __time)",
    ("latest", 2): "arg_max(_1, __time)",
    ("latest_by", 2): "arg_max(_1, _2)",
    ("latest_by", 3): "arg_max(_1, _2)",
    ("any_value", 2): "any_value(_1)",
    ("array_agg", 2): "array_agg(_1)",
    ("listagg", 3): "string_agg(_1, _2)",
    ("string_agg", 3): "string_agg(_1, _2)",
    ("btrim", 1): "trim(_1, ' ')",
    ("btrim", 2): "trim(_1, _2)",
    ("textcat", 2): "_1 || _2",
    ("regexp_like", 2): "regexp_matches(_1, _2)",
    ("contains_string", 2): "contains(_1, _2)",
    ("icontains_string", 2): "contains(lower(_1), lower(_2))",
    ("decode_base64_utf8", 1): "decode(from_base64(_1))",
    # a cast rounds, and reads blanks, exponents and other bases
    (
        "parse_long",
        1,
    ): "CASE WHEN regexp_full_match(_1, '[+-]?[0-9]+') THEN TRY_CAST(_1 AS BIGINT) END",
    ("div", 2): "CAST(trunc(_1 // _2) AS BIGINT)",
    ("safe_divide", 2): "_1 / nullif(_2, 0)",
    ("truncate", 1): "trunc(_1)",
    ("truncate", 2): "trunc(_1, _2)",
    ("nvl", 2): "coalesce(_1, _2)",
    ("bitwise_convert_double_to_long_bits", 1): "CAST(CAST(CAST(_1 AS DOUBLE) AS BIT) AS BIGINT)",
    ("bitwise_convert_long_bits_to_double", 1): "CAST(CAST(CAST(_1 AS BIGINT) AS BIT) AS DOUBLE)",
    ("bitwise_and", 2): "_1 & _2",
    ("bitwise_or", 2): "_1 | _2",
    ("bitwise_xor", 2): "xor(_1, _2)",
    ("bitwise_complement", 1): "~_1",
    ("bitwise_shift_left", 2): "CAST(trunc(_1) AS BIGINT) << _2",
    ("bitwise_shift_right", 2): "_1 >> _2",
    ("mv_to_array", 1): "_1",
    ("array_to_mv", 1): "_1",
    ("string_to_mv", 2): "string_split_regex(_1, _2)",
    ("array_overlap", 2): "list_has_any(_1, _2)",
    ("scalar_in_array", 2): "list_contains(_2, _1)",
    ("mv_length", 1): "CASE WHEN typeof(_1) LIKE '%[]' THEN len(_1) WHEN _1 IS NOT NULL THEN 1 END",
    ("mv_to_string", 2): f"array_to_string({_VALUES_1}, _2)",
    ("mv_contains", 2): f"list_has_all({_VALUES_1}, {_VALUES_2})",
    ("mv_overlap", 2): f"list_has_any({_VALUES_1}, {_VALUES_2})",
    **dict.fromkeys(
        [("mv_append", 2), ("mv_prepend", 2), ("mv_concat", 2)],
        f"list_concat({_VALUES_1}, {_VALUES_2})",
    ),
    **{
        (f"{kind}_{name}", 2): form.format(*args)
        for kind, args in {"array": ("_1", "_2"), "mv": (_VALUES_1, "CAST(_2 AS VARCHAR)")}.items()
        for name, form in _OF_LISTS.items()
    },
    ("ipv4_parse", 1): _ADDRESS,
    ("ipv4_stringify", 1): f"CASE WHEN {_ADDRESS} IS NOT NULL THEN"
    f" concat_ws('.', {_ADDRESS} >> 24, ({_ADDRESS} >> 16) & 255, ({_ADDRESS} >> 8) & 255, {_ADDRESS} & 255) END",
    ("json_query", 2): "json_extract(TRY_CAST(_1 AS JSON), _2)",
    ("parse_json", 1): "CAST(_1 AS JSON)",
    ("try_parse_json", 1): "TRY_CAST(_1 AS JSON)",
    ("to_json_string", 1): "CAST(to_json(_1) AS VARCHAR)",
}
"""Expressions by name and number of arguments; `_1` is the first of these. A maximum of bytes is passed over."""


def without_druid_calls(cursor: duckdb.DuckDBPyConnection, statement: Node) -> None:
    """Replace, in place, calls of Druid's functions; columns without a name keep that of the call."""
    for node in list(walk(statement["node"])):
        for item in node.get("select_list") or ():
            if not item["alias"] and any(map(_is_druids, walk(item))):
                item["alias"] = text_of(cursor, item)
    for node in reversed(list(walk(statement["node"]))):  # what is within a call first
        form = _form(node) if _is_druids(node) else None
        if form is not None:
            _replace(cursor, node, form)


def is_here(name: str) -> bool:
    """Whether a function of Druid is here with some arguments."""
    return name.lower() in _NAMES


def _is_druids(node: Node) -> bool:
    return node.get("class") == "FUNCTION" and is_here(str(node["function_name"]))


def _form(node: Node) -> str | None:
    """Return the expression that means the same; None: there is none for these arguments."""
    name, args = str(node["function_name"]).lower(), arguments(node)
    found = FORMS.get((name, len(args)))
    if found is None and name in _SPECIAL:
        try:
            found = _SPECIAL[name]([_text(one) for one in args])
        except Invalid:
            return None
    if name in STEPPING and len(args) == 3:
        names = args[0].get("column_names") or [_text(args[0]) or ""]
        found = stepped(name, str(names[0]))
    return found


def _text(node: Node) -> str | None:
    """Return the text of a constant, "" for NULL; None: it is none."""
    literal = node.get("literal") or {}
    if literal.get("kind") == "NULL_LITERAL":
        return ""
    return str(literal["text"]) if literal.get("kind") == "STRING" else None


def _ipv4_match(texts: list[str | None]) -> str | None:
    if len(texts) != 2 or not texts[1]:
        return None
    try:
        network = IPv4Network(texts[1], strict=False)
    except ValueError:
        return None
    return f"coalesce({_ADDRESS} & {int(network.netmask)} = {int(network.network_address)}, false)"


def _json_value(texts: list[str | None]) -> str | None:
    """A path with a star finds several values, which is for DuckDB to say."""
    if len(texts) != 2 or "*" in (texts[1] or "*"):
        return None
    kind = "json_type(TRY_CAST(_1 AS JSON), _2)"
    return f"CASE WHEN {kind} NOT IN ('OBJECT', 'ARRAY') THEN json_extract_string(TRY_CAST(_1 AS JSON), _2) END"


def _lookup(texts: list[str | None]) -> str | None:
    if len(texts) not in {2, 3} or texts[1] is None:
        return None
    name = texts[1].replace('"', '""')
    found = f'(SELECT v FROM lookup."{name}" WHERE k = _1)'
    return found if len(texts) == 2 else f"coalesce({found}, _3)"


_SPECIAL: Mapping[str, Callable[[list[str | None]], str | None]] = {
    **TIMES,
    "lookup": _lookup,
    "ipv4_match": _ipv4_match,
    "json_value": _json_value,
}
_NAMES = frozenset({name for name, _ in FORMS} | set(_SPECIAL) | set(STEPPING))


def _replace(cursor: duckdb.DuckDBPyConnection, node: Node, form: str) -> None:
    """Put an expression in the place of a call; FILTER and DISTINCT of an aggregate stay."""
    _, statement = parse(cursor, f"SELECT {form}")
    [new] = statement["node"]["select_list"]
    args = arguments(node)
    new = _given(new, {f"_{place}": arg for place, arg in enumerate(args, start=1)})
    kept = {key: node[key] for key in NOWHERE}
    if new.get("class") == "FUNCTION":
        kept |= {key: node[key] for key in ("filter", "order_bys", "distinct")}
    node.clear()
    node.update(new | kept)


def _given(node: Any, args: Mapping[str, Node]) -> Any:
    """Return a tree in which arguments stand for their names."""
    if isinstance(node, list):
        return [_given(one, args) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
        arg = args.get(str(node["column_names"][0]))
        if arg is not None:
            return deepcopy(arg)
    return {key: _given(one, args) for key, one in node.items()}
