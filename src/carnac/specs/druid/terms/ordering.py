"""Druid's ways to compare texts, as keys of SQL."""

from __future__ import annotations

from carnac.specs.druid.blocks import refused
from carnac.specs.druid.terms.values import Sql, to_double, to_text

# one text, as the engine has no ranges of lists; digits are a number, whose length is said before it, and stand before
# all other characters
_CHUNKS = (
    "array_to_string(list_transform(regexp_extract_all({0}, '[0-9]+|[^0-9]+'), lambda __part: "
    "CASE WHEN __part BETWEEN '0' AND '9~' THEN '0' || lpad(CAST(length(ltrim(__part, '0')) AS VARCHAR), 9, '0')"
    " || ltrim(__part, '0') ELSE '1' || __part END), chr(1))"
)
ORDERINGS = ("lexicographic", "numeric", "alphanumeric", "strlen", "version", "natural")


def sort_key(value: Sql, ordering: object) -> str:
    """Return what to sort by, so that values come as an ordering has them. Numbers are always sorted as such.

    Raises:
        Invalid: There is no such ordering.
    """
    name = str(ordering or "lexicographic").lower()
    if name not in ORDERINGS:
        raise refused(ordering, "ordering", ORDERINGS, {})
    if value.is_number or name in {"lexicographic", "natural"}:
        return value.text
    if name == "numeric":
        return to_double(value).text
    text = to_text(value).text
    if name == "strlen":
        return f"(lpad(CAST(length({text}) AS VARCHAR), 9, '0') || {text})"
    return _CHUNKS.format(f"lower({text})" if name == "alphanumeric" else text)


def sort_by(value: Sql, ordering: object, way: str) -> str:
    """Return what to sort by, in a way of SQL: numbers after all texts that are none, and these by themselves."""
    key = sort_key(value, ordering)
    is_both = key != value.text and str(ordering).lower() == "numeric"
    return f"{key} {way}, {value.text} {way}" if is_both else f"{key} {way}"
