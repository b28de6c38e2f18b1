"""Calls of Druid's functions become the expressions that mean the same.

A call that has no such expression for all arguments stays as it is, and is refused with a form to write in its place
(`specs.druid.sql_functions`). Source of the meanings: Druid's documentation of its SQL functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Any

from carnac.core.druid.forms import (
    JSON_QUERY,
    PARSE_LONG,
    PARSE_LONG_OF_BASE,
    POSITION,
    SHIFT_LEFT,
    json_value,
)
from carnac.core.druid.times import STEPPING, TIMES, stepped
from carnac.core.quoting import quote_text
from carnac.errors import Invalid
from carnac.query.functions import AGGREGATES, CHOPPED
from carnac.query.syntax import ASKED, NOWHERE, Node, arguments, parse, text_of, walk

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
_FILTERED = f"list_filter({_VALUES_1}, lambda __one: {{}})"
_IS_IN_2 = f"list_contains({_VALUES_2}, __one)"
_JOINED = "CASE WHEN count(_1) > 0 THEN flatten(list(_1)) END"
_JOINED_ONCE = (
    "CASE WHEN count(_1) > 0 THEN list_transform([flatten(list(_1))], lambda every: list_concat("
    "list_slice(list_filter(every, lambda one: one IS NULL), 1, 1), list_sort(list_distinct(every))))[1] END"
)
"""Each value once, null first, as Druid has it: of lists joined, DISTINCT is one of their values."""
_LONG = "CAST(_1 AS BIGINT)"
_BITS_10 = f"((length(bin(abs({_LONG}))) - 1) // 10)"
_DIGITS_3 = f"((length(CAST(abs({_LONG}) AS VARCHAR)) - 4) // 3)"
_SIZES = {
    "binary_byte": (1024, " B", f"{_LONG} / (1::BIGINT << (10 * {_BITS_10}))", _BITS_10, "iB"),
    **{
        f"decimal{name}": (
            *(1000, f" {unit}".rstrip()),
            f"sign({_LONG}) * (abs({_LONG}) // CAST(pow(1000, {_DIGITS_3}) AS BIGINT)) / 1000",
            *(f"{_DIGITS_3} + 1", unit),
        )
        for name, unit in (("_byte", "B"), ("", ""))
    },
}
"""Of `HUMAN_READABLE_…_FORMAT`: bound of numbers that are printed as they are, and their unit; number, unit, its end.

Source: `HumanReadableBytes.format` of Druid. A half is rounded away from zero, as Java prints it.
"""
_BYTE = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_ADDRESS = (
    f"(CASE WHEN regexp_full_match(CAST(_1 AS VARCHAR), '{_BYTE}([.]{_BYTE}){{3}}') THEN"
    " list_reduce(list_transform(string_split(CAST(_1 AS VARCHAR), '.'), lambda part: TRY_CAST(part AS BIGINT)),"
    " lambda high, low: high * 256 + low)"
    " WHEN typeof(_1) <> 'VARCHAR' THEN CAST(TRY_CAST(_1 AS UINTEGER) AS BIGINT) END)"
)
_QUAD = "regexp_extract(text, '[0-9.]*$')"
_HEXTETS = "[0-9a-f]{1,4}(:[0-9a-f]{1,4})*"
_BEFORE, _AFTER = (
    f"array_to_string(list_transform(list_filter(string_split(split_part(text, '::', {side}), ':'),"
    " lambda one: one <> ''), lambda one: lpad(one, 4, '0')), '')"
    for side in (1, 2)
)
_QUADS = ", ".join(f"CAST(split_part({_QUAD}, '.', {place}) AS INTEGER)" for place in range(1, 5))
_ADDRESS_6 = (
    "list_transform(list_transform(list_transform([lower(split_part(trim(CAST(_1 AS VARCHAR)), '%', 1))],"
    f" lambda text: CASE WHEN regexp_matches(text, ':{_BYTE}([.]{_BYTE}){{3}}$')"
    f" THEN left(text, length(text) - length({_QUAD})) || printf('%02x%02x:%02x%02x', {_QUADS}) ELSE text END),"
    f" lambda text: CASE WHEN regexp_full_match(text, '{_HEXTETS}|({_HEXTETS})?::({_HEXTETS})?')"
    f" THEN [{_BEFORE}, {_AFTER}, CASE WHEN contains(text, '::') THEN '0' ELSE '' END] END),"
    " lambda half: half[1] || repeat(half[3], greatest(4, 32 - length(half[1]) - length(half[2]))) || half[2])[1]"
)
"""The digits of an address of IPv6: 32, if it is one. The zone after `%` is left out."""
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
"""Names that Superset sends in place of functions of one argument: sqlglot 28 prints its own names for them."""
FORMS: Mapping[tuple[str, int], str] = {
    ("millis_to_timestamp", 1): "make_timestamptz(CAST(_1 AS BIGINT) * 1000)",
    ("timestamp_to_millis", 1): "epoch_ms(_1)",
    ("approx_count_distinct_builtin", 1): "approx_count_distinct(_1)",
    **{(name, 1): f"{meant}(_1)" for name, meant in PRINTED.items()},
    ("str_position", 2): "strpos(_1, _2)",
    ("position", 3): POSITION,
    ("group_concat", 3): "string_agg(_1, _2)",
    ("json_extract_scalar", 2): "json_extract_string(_1, _2)",
    ("rand", 0): "random()",
    ("earliest", 1): "arg_min(_1, __time)",
    ("earliest", 2): f"arg_min({CHOPPED}(_1, _2), __time)",
    ("earliest_by", 2): "arg_min(_1, _2)",
    ("earliest_by", 3): f"arg_min({CHOPPED}(_1, _3), _2)",
    ("latest", 1): "arg_max(_1, __time)",
    ("latest", 2): f"arg_max({CHOPPED}(_1, _2), __time)",
    ("latest_by", 2): "arg_max(_1, _2)",
    ("latest_by", 3): f"arg_max({CHOPPED}(_1, _3), _2)",
    ("any_value", 2): f"any_value({CHOPPED}(_1, _2))",
    ("array_agg", 2): "array_agg(_1)",
    ("array_concat_agg", 1): _JOINED,
    ("array_concat_agg", 2): _JOINED,
    ("listagg", 3): "string_agg(_1, _2)",
    ("string_agg", 3): "string_agg(_1, _2)",
    ("btrim", 1): "trim(_1, ' ')",
    ("btrim", 2): "trim(_1, _2)",
    ("textcat", 2): "_1 || _2",
    ("regexp_like", 2): "regexp_matches(_1, _2)",
    ("contains_string", 2): "contains(_1, _2)",
    ("icontains_string", 2): "contains(lower(_1), lower(_2))",
    ("decode_base64_utf8", 1): "decode(from_base64(_1))",
    ("lpad", 2): "lpad(_1, _2, ' ')",
    ("rpad", 2): "rpad(_1, _2, ' ')",
    (
        "octet_length",
        1,
    ): "CASE WHEN typeof(_1) = 'BLOB' THEN octet_length(TRY_CAST(_1 AS BLOB)) ELSE strlen(CAST(_1 AS VARCHAR)) END",
    **{
        (
            f"human_readable_{name}_format",
            number,
        ): f"CASE WHEN abs({_LONG}) < {least} THEN {_LONG} || '{small}'"
        f" ELSE printf('%.' || {places} || 'f %s{end}', round({value}, {places}), substr('KMGTPE', {unit}, 1)) END"
        for name, (least, small, value, unit, end) in _SIZES.items()
        for number, places in ((1, "2"), (2, "_2"))
    },
    ("parse_long", 1): PARSE_LONG,
    ("parse_long", 2): PARSE_LONG_OF_BASE,
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
    ("bitwise_shift_left", 2): SHIFT_LEFT,
    ("bitwise_shift_right", 2): "_1 >> _2",
    ("mv_to_array", 1): "_1",
    ("array_to_mv", 1): "_1",
    ("string_to_mv", 2): "string_split_regex(_1, _2)",
    ("array_overlap", 2): "list_has_any(_1, _2)",
    ("scalar_in_array", 2): "list_contains(_2, _1)",
    ("mv_length", 1): "CASE WHEN typeof(_1) LIKE '%[]' THEN len(_1) WHEN _1 IS NOT NULL THEN 1 END",
    (
        "mv_to_string",
        2,
    ): f"array_to_string(list_transform({_VALUES_1}, lambda one: coalesce(one, 'null')), _2)",
    # a row without values is one that has none of those asked for
    ("mv_contains", 2): f"coalesce(list_has_all({_VALUES_1}, {_VALUES_2}), false)",
    ("mv_overlap", 2): f"coalesce(list_has_any({_VALUES_1}, {_VALUES_2}), false)",
    ("mv_filter_only", 2): _FILTERED.format(_IS_IN_2),
    ("mv_filter_none", 2): _FILTERED.format(f"NOT {_IS_IN_2}"),
    ("mv_filter_regex", 2): _FILTERED.format("regexp_matches(__one, _2)"),
    ("mv_filter_prefix", 2): _FILTERED.format("starts_with(__one, _2)"),
    ("mv_slice", 3): f"CASE WHEN _2 BETWEEN 0 AND len({_VALUES_1}) AND _2 <= _3"
    f" THEN list_resize(list_slice({_VALUES_1}, _2 + 1, _3), _3 - _2) END",
    **{
        (
            f"mv_{name}",
            2,
        ): f"CASE WHEN {there} THEN list_concat({_VALUES_1}, {_VALUES_2}) END"
        for name, there in (
            ("append", "_1 IS NOT NULL"),
            ("prepend", "_2 IS NOT NULL"),
            ("concat", "_1 IS NOT NULL OR _2 IS NOT NULL"),
        )
    },
    **{
        (f"{kind}_{name}", 2): form.format(*args)
        for kind, args in {"array": ("_1", "_2"), "mv": (_VALUES_1, "CAST(_2 AS VARCHAR)")}.items()
        for name, form in _OF_LISTS.items()
    },
    ("ipv4_parse", 1): _ADDRESS,
    ("ipv4_stringify", 1): f"CASE WHEN {_ADDRESS} IS NOT NULL THEN"
    f" concat_ws('.', {_ADDRESS} >> 24, ({_ADDRESS} >> 16) & 255, ({_ADDRESS} >> 8) & 255, {_ADDRESS} & 255) END",
    ("json_query", 2): JSON_QUERY,
    ("json_query_array", 2): "CASE WHEN json_type(TRY_CAST(_1 AS JSON), _2) = 'ARRAY'"
    " THEN CAST(json_extract(TRY_CAST(_1 AS JSON), _2) AS JSON[])"
    " WHEN json_type(TRY_CAST(_1 AS JSON), _2) <> 'NULL' THEN [json_extract(TRY_CAST(_1 AS JSON), _2)] END",
    ("parse_json", 1): "CAST(_1 AS JSON)",
    ("try_parse_json", 1): "TRY_CAST(_1 AS JSON)",
    ("to_json_string", 1): "CAST(to_json(_1) AS VARCHAR)",
}
"""Expressions by name and number of arguments; `_1` is the first of these. A maximum of bytes of a list, or of
texts put together, is passed over.
"""


def without_druid_calls(cursor: duckdb.DuckDBPyConnection, statement: Node) -> None:
    """Replace, in place, calls of Druid's functions; columns without a name keep that of the call."""
    for node in list(walk(statement["node"])):
        for item in node.get("select_list") or ():
            if not item["alias"] and any(map(_is_druids, walk(item))):
                item["alias"] = text_of(cursor, item)
    for node in reversed(list(walk(statement["node"]))):  # calls within a call first
        form = _form(node) if _is_druids(node) else None
        if form is not None:
            _replace(cursor, node, form)


def is_here(name: str) -> bool:
    """Whether a function of Druid is here with some arguments."""
    return name.lower() in _NAMES


def argument_counts(name: str) -> Sequence[int]:
    """Return how many arguments a function of Druid may have here; none: what they are decides, or it is not here."""
    lower = name.lower()
    return sorted(count for known, count in FORMS if known == lower and lower not in _SPECIAL)


def routines() -> Iterator[tuple[str, int | None, bool]]:
    """Yield the forms of Druid's functions that are here: name, number of arguments, and whether it is an aggregate.

    None: some numbers of arguments, or some constants, are not.
    """
    for (name, count), form in FORMS.items():
        called = re.match(r"(?:CASE WHEN )?(\w*)\(", form)
        yield name, count, called is not None and called[1] in AGGREGATES
    for name in [*_SPECIAL, *STEPPING]:
        yield name, None, False


def _is_druids(node: Node) -> bool:
    if node.get("class") == "CAST":
        return node["type_expr"].get("type_name") == "BIGINT" and _is_time(node["child"])
    return node.get("class") == "FUNCTION" and is_here(str(node["function_name"]))


def _is_time(node: Node) -> bool:
    """Whether an expression is surely a time: `__time`, or a bucket or an extreme of it."""
    if node.get("class") == "COLUMN_REF":
        return str(node["column_names"][-1]).lower() == "__time"
    is_kept = node.get("class") == "FUNCTION" and str(node["function_name"]).lower() in _KEPT_TIMES
    return is_kept and any(map(_is_time, arguments(node)))


def _form(node: Node) -> str | None:
    """Return the expression that means the same; None: there is none for these arguments."""
    if node["class"] == "CAST":
        return "epoch_ms(_1)"
    name, args = str(node["function_name"]).lower(), arguments(node)
    found = FORMS.get((name, len(args)))
    if found is None and name in _SPECIAL:
        try:
            found = _SPECIAL[name]([_text(one) for one in args])
        except Invalid:
            return None
    if name == "array_contains" and len(args) == 2 and args[1]["type"] == "ARRAY_CONSTRUCTOR":
        found = "list_has_all(_1, _2)"
    if found == _JOINED and node["distinct"]:
        found = _JOINED_ONCE
    if found is not None and CHOPPED in found and _text(args[0]) == "":  # NULL, which has no type
        found = re.sub(rf"{CHOPPED}\(_1, _\d\)", "_1", found)
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


def _ipv6_match(texts: list[str | None]) -> str | None:
    if len(texts) != 2 or not texts[1] or "/" not in texts[1]:
        return None
    try:
        network = IPv6Network(texts[1], strict=False)
    except ValueError:
        return None
    whole, rest = divmod(network.prefixlen, 4)
    digits = network.network_address.packed.hex()
    same, left = digits[:whole], 32 - whole
    if rest:
        first = int(digits[whole], 16)
        same += f"[{''.join(f'{one:x}' for one in range(first, first + (16 >> rest)))}]"
        left -= 1
    return f"coalesce(regexp_full_match({_ADDRESS_6}, '{same}[0-9a-f]{{{left}}}'), false)"


def _string_format(texts: list[str | None]) -> str | None:
    """Of a constant format with plain conversions: Java prints those as C does, and NULL as a text of their width."""
    form = (texts[0] if texts else None) or "%"
    kinds = [kind for kind in _CONVERSION.findall(form) if kind]
    if "%" in _CONVERSION.sub("", form) or len(kinds) != len(texts) - 1:
        return None
    pieces, end, place = [], 0, 2
    for found in _CONVERSION.finditer(form):
        pieces.append(quote_text(form[end : found.start()].replace("%%", "%")))
        text, kind, end = found[0], found[1], found.end()
        if kind is None:
            pieces.append("'%'")
            continue
        padded = re.sub("^%(-?)0*", r"%\1", text[:-1]) + "s"
        null = f"printf({quote_text(padded)}, 'null')"
        value = f"CAST(_{place} AS VARCHAR)" if kind == "s" else f"_{place}"
        pieces.append(
            f"CASE WHEN _{place} IS NULL THEN {null} ELSE printf({quote_text(text)}, {value}) END"
        )
        place += 1
    return " || ".join([*pieces, quote_text(form[end:])])


def _quantiles(texts: list[str | None]) -> str | None:
    of_each = (f"DS_GET_QUANTILE(_1, _{place})" for place in range(2, len(texts) + 1))
    return f"[{', '.join(of_each)}]" if len(texts) > 1 else None


def _lookup(texts: list[str | None]) -> str | None:
    if len(texts) not in {2, 3} or texts[1] is None:
        return None
    name = texts[1].replace('"', '""')
    # names of our own: the argument may be a column called k or v
    found = f'(SELECT __lookup_v FROM lookup."{name}" AS __lookup(__lookup_k, __lookup_v)'
    found += " WHERE __lookup_k = _1 || '')"
    return found if len(texts) == 2 else f"coalesce({found}, _3)"


_CONVERSION = re.compile(r"%(?:[-0]?\d*(?:\.\d+)?([sdxf])|%)")
_SPECIAL: Mapping[str, Callable[[list[str | None]], str | None]] = {
    **TIMES,
    "lookup": _lookup,
    "ipv4_match": _ipv4_match,
    "ipv6_match": _ipv6_match,
    "json_value": json_value,
    "string_format": _string_format,
    "ds_get_quantiles": _quantiles,
}
_NAMES = frozenset({name for name, _ in FORMS} | set(_SPECIAL) | set(STEPPING) | {"array_contains"})
_KEPT_TIMES = frozenset({"min", "max", "date_trunc", "time_bucket", "time_floor", "time_shift"})
"""Functions that give a time if an argument is one."""


def _replace(cursor: duckdb.DuckDBPyConnection, node: Node, form: str) -> None:
    """Put an expression in the place of a call; FILTER and DISTINCT of an aggregate stay."""
    _, statement = parse(cursor, f"SELECT {form}")
    [new] = statement["node"]["select_list"]
    args = [node["child"]] if node["class"] == "CAST" else arguments(node)
    given = {f"_{place}": arg for place, arg in enumerate(args, start=1)}
    kept = {key: node[key] for key in NOWHERE}
    if node["class"] == "FUNCTION":
        name = str(node["function_name"]).upper()
        aggregates = [one for one in walk(new) if one.get("function_name") in AGGREGATES]
        if node["filter"] is not None and not aggregates:
            raise Invalid(f"{name} is no aggregate, so no FILTER may follow it", function=name)
        for one in walk(new):
            if "class" in one:
                one[ASKED] = name
        if new["class"] == "FUNCTION":
            kept |= {key: node[key] for key in ("filter", "order_bys", "distinct")}
            aggregates = []
        for one in aggregates:
            for key in ("filter", "order_bys"):
                one[key] = {"class": "COLUMN_REF", "column_names": [f"_{key}"]}
                given[f"_{key}"] = node[key]
    new = _given(new, given)
    node.clear()
    node.update(new | kept)


def _given(node: Any, args: Mapping[str, Node | None]) -> Any:
    """Return a tree in which arguments stand for their names."""
    if isinstance(node, list):
        return [_given(one, args) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
        name = str(node["column_names"][0])
        if name in args:
            return deepcopy(args[name])
    return {key: _given(one, args) for key, one in node.items()}
