"""Dimension specs and extraction functions: columns by which rows are grouped, and how their values change before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from carnac.core.druid.joda import has_names
from carnac.core.quoting import quote_text
from carnac.core.texts import short
from carnac.core.time.zones import UTC_ZONE
from carnac.errors import Invalid
from carnac.specs.druid.blocks import (
    Block,
    block_of,
    blocks_of,
    flag_of,
    list_of,
    refused,
    said,
    text_of,
    whole_of,
)
from carnac.specs.druid.terms.operands import search_test
from carnac.specs.druid.terms.scopes import Scope, filtered, kept_values
from carnac.specs.druid.terms.texts import matches, regexp, substring
from carnac.specs.druid.terms.times import bucket_ms, instant, of_time, read_granularity
from carnac.specs.druid.terms.values import (
    EACH,
    NULL,
    TYPES_SAID,
    Sql,
    cast_to,
    to_double,
    to_text,
)

_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
LISTED_MAX = 10_000
"""Keys of a lookup that a query brings."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A column by which rows are grouped: its name in answers, and its value."""

    name: str
    value: Sql


def read_dimension(spec: object, scope: Scope) -> Dimension:
    """Return a dimension spec, which may be the name of a column.

    Raises:
        Invalid: It is none, or not supported.
    """
    if isinstance(spec, str):
        return Dimension(spec, scope.find(spec))
    block = block_of(spec, "a dimension")
    kind = block.get("type", "default")
    build = _SPECS.get(str(kind))
    if build is None:
        raise refused(kind, "dimension spec", _SPECS, {})
    value = build(block, scope)
    wanted = TYPES_SAID.get(str(block.get("outputType", "")).upper())
    if wanted is not None and not value.is_array:
        value = cast_to(value, wanted)
    inner = block.get("delegate", block)
    inner = inner if isinstance(inner, Mapping) else {"dimension": inner}
    return Dimension(
        str(block.get("outputName") or inner.get("outputName") or inner.get("dimension")), value
    )


def of_dimension(spec: object, scope: Scope) -> Sql:
    """Return the value of a dimension spec."""
    return read_dimension(spec, scope).value


def _plain(block: Block, scope: Scope) -> Sql:
    return scope.find(text_of(block, "dimension"))


def _extraction(block: Block, scope: Scope) -> Sql:
    return extracted(_plain(block, scope), block.get("extractionFn"), scope)


def _looked_up(block: Block, scope: Scope) -> Sql:
    name = block.get("name")
    fn = (
        {**block, "type": "registeredLookup", "lookup": name}
        if name
        else {**block, "type": "lookup"}
    )
    return extracted(_plain(block, scope), fn, scope)


def _listed(block: Block, scope: Scope) -> Sql:
    inner = of_dimension(block.get("delegate"), scope)
    is_whitelist = block.get("isWhitelist", True) is not False
    return kept_values(inner, list_of(block, "values"), is_whitelist=is_whitelist)


def _starts(text: str, prefix: str) -> str:
    return f"starts_with({text}, {quote_text(prefix)})"


def _filtered(test: Callable[[str, str], str], name: str) -> Callable[[Block, Scope], Sql]:
    def build(block: Block, scope: Scope) -> Sql:
        inner = of_dimension(block.get("delegate"), scope)
        one = EACH if inner.is_array else to_text(inner).text
        passed = test(one, text_of(block, name))
        if inner.is_array:
            return Sql(filtered(inner, passed), "array<string>")
        return Sql(f"CASE WHEN {passed} THEN {one} END", "string")

    return build


_SPECS: Mapping[str, Callable[[Block, Scope], Sql]] = {
    "default": _plain,
    "extraction": _extraction,
    "lookup": _looked_up,
    "listFiltered": _listed,
    "regexFiltered": _filtered(matches, "pattern"),
    "prefixFiltered": _filtered(_starts, "prefix"),
}


def extracted(value: Sql, fn: object, scope: Scope) -> Sql:
    """Return a value as an extraction function changes it; None: none does.

    Raises:
        Invalid: It is none, or not supported.
    """
    if fn is None:
        return value
    block = block_of(fn, "extractionFn")
    kind = block.get("type")
    build = _FUNCTIONS.get(str(kind))
    if build is None:
        raise refused(
            kind, "extraction function", _FUNCTIONS, {"javascript": "use a virtual column"}
        )
    if value.is_array:
        one = build(Sql(EACH, "string"), block, scope)
        return Sql(f"list_transform({value.text}, lambda {EACH}: {one.text})", "array<string>")
    return build(value, block, scope)


def _regex(value: Sql, block: Block, _scope: Scope) -> Sql:
    found = regexp(value, text_of(block, "expr"), whole_of(block, "index", 1) or 0).text
    if flag_of(block, "replaceMissingValue"):
        other = block.get("replaceMissingValueWith")
        return Sql(
            f"coalesce({found}, {to_text(NULL).text if other is None else quote_text(said(other))})",
            "string",
        )
    return Sql(f"coalesce({found}, {to_text(value).text})", "string")


def _partial(value: Sql, block: Block, _scope: Scope) -> Sql:
    text = to_text(value).text
    passed = matches(text, text_of(block, "expr"))
    return Sql(f"CASE WHEN {passed} THEN {text} END", "string")


def _searched(value: Sql, block: Block, _scope: Scope) -> Sql:
    text = to_text(value)
    return Sql(f"CASE WHEN {search_test(block.get('query'))(text)} THEN {text.text} END", "string")


def _substring(value: Sql, block: Block, _scope: Scope) -> Sql:
    length = whole_of(block, "length", None)
    return substring(
        value, str(whole_of(block, "index", 0)), None if length is None else str(length)
    )


def _time_format(value: Sql, block: Block, _scope: Scope) -> Sql:
    granularity = read_granularity(block.get("granularity") or "none")
    ms = value
    if granularity.mode != "all" and block.get("granularity") is not None:
        ms = Sql(bucket_ms(granularity, value), "long")
    if flag_of(block, "asMillis"):
        return to_text(ms)
    zone = str(block.get("timeZone") or UTC_ZONE)
    text = str(block.get("format") or _ISO)
    locale = str(block.get("locale") or "en")
    if not re.match("en(?![a-z])", locale, re.IGNORECASE) and has_names(text):
        raise Invalid(
            f"names of days and months are English here, not of the locale {short(locale)}"
        )
    return Sql(of_time("time_format", instant(ms), text, zone), "string")


def _time(value: Sql, block: Block, _scope: Scope) -> Sql:
    read = of_time("time_parse", to_text(value).text, text_of(block, "timeFormat"))
    return Sql(of_time("time_format", read, text_of(block, "resultFormat")), "string")


def _registered(value: Sql, block: Block, scope: Scope) -> Sql:
    if "lookup" in scope.absent:
        raise Invalid("a lookup is for queries; it cannot be used while ingesting")
    found = (
        f"LOOKUP({to_text(value).text}, {quote_text(text_of(block, 'lookup', what='a lookup'))})"
    )
    return _or_missing(found, value, block)


def _mapped(value: Sql, block: Block, scope: Scope) -> Sql:
    inner = block_of(block.get("lookup"), "lookup")
    if inner.get("type") != "map":
        if isinstance(inner.get("lookup"), str):
            return _registered(value, {**block, "lookup": inner["lookup"]}, scope)
        raise Invalid("a lookup that a query brings must be a map; or name one of the store")
    pairs = block_of(inner.get("map"), "map")
    if len(pairs) > LISTED_MAX:
        raise Invalid(
            f"a map has {len(pairs):,} keys, at most {LISTED_MAX:,} are read; use a lookup"
        )
    text = to_text(value).text
    texts = {k: to_text(NULL).text if v is None else quote_text(said(v)) for k, v in pairs.items()}
    whens = "".join(f" WHEN {quote_text(k)} THEN {v}" for k, v in texts.items())
    found = f"CASE {text}{whens} END" if whens else to_text(NULL).text
    return _or_missing(found, value, block)


def _or_missing(found: str, value: Sql, block: Block) -> Sql:
    if flag_of(block, "retainMissingValue"):
        return Sql(f"coalesce({found}, {to_text(value).text})", "string")
    other = block.get("replaceMissingValueWith")
    if other is None:
        return Sql(found, "string")
    return Sql(f"coalesce({found}, {quote_text(said(other))})", "string")


def _cascade(value: Sql, block: Block, scope: Scope) -> Sql:
    for one in blocks_of(block, "extractionFns"):
        value = extracted(value, one, scope)
    return value


def _string_format(value: Sql, block: Block, _scope: Scope) -> Sql:
    before, found, after = text_of(block, "format").partition("%s")
    if not found or re.search(r"%(?!%)", before.replace("%%", "") + after.replace("%%", "")):
        raise Invalid("extraction function stringFormat takes a format with one %s")
    ends = (quote_text(end.replace("%%", "%")) for end in (before, after))
    text = to_text(value).text
    nulls = {"returnNull": None, "emptyString": ""}.get(str(block.get("nullHandling")), "null")
    text = text if nulls is None else f"coalesce({text}, {quote_text(nulls)})"
    return Sql(f" || {text} || ".join(ends).join("()"), "string")


def _bucket(value: Sql, block: Block, _scope: Scope) -> Sql:
    size, offset = (float(block.get(name) or other) for name, other in (("size", 1), ("offset", 0)))
    number = to_double(value).text
    start = f"CAST(floor(({number} - {offset!r}) / {size!r}) * {size!r} + {offset!r} AS DOUBLE)"
    whole = f"TRY_CAST({start} AS BIGINT)"  # Druid writes whole numbers without a fraction
    return Sql(
        f"CASE WHEN {whole} = {start} THEN CAST({whole} AS VARCHAR) ELSE CAST({start} AS VARCHAR) END",
        "string",
    )


_FUNCTIONS: Mapping[str, Callable[[Sql, Block, Scope], Sql]] = {
    "identity": lambda value, _block, _scope: value,
    "regex": _regex,
    "partial": _partial,
    "searchQuery": _searched,
    "substring": _substring,
    "timeFormat": _time_format,
    "time": _time,
    "registeredLookup": _registered,
    "lookup": _mapped,
    "cascade": _cascade,
    "stringFormat": _string_format,
    "upper": lambda value, _block, _scope: Sql(f"upper({to_text(value).text})", "string"),
    "lower": lambda value, _block, _scope: Sql(f"lower({to_text(value).text})", "string"),
    "strlen": lambda value, _block, _scope: Sql(
        f"CAST(length({to_text(value).text}) AS VARCHAR)", "string"
    ),
    "bucket": _bucket,
}
