"""Values at the edges of what functions take: where there is no room, where a text is no number, where nothing is."""

from __future__ import annotations

import math

LEAST = "(-max_long - 1)"
EDGES: list[tuple[str, object]] = [
    (f"{LEAST} / (zero - 1)", None),
    (f"div({LEAST}, zero - 1)", None),
    (f"{LEAST} % (zero - 1)", 0),
    ("small / (zero - 1)", -7),
    ("parse_long('+ff', 16)", 255),
    ("concat(y > 1, x)", "1foo"),
    ("left(x, max_long)", None),
    ("left(x, -1)", ""),
    ("right(x, zero - 1)", ""),
    ("signum(nan)", math.nan),
    ("hypot(1E300, 1E300)", 1.4142135623730951e300),
    ("array_contains([1, 2], nothing)", 0),
    ("to_json_string(nothing)", "null"),
    ("string_to_array(x, nothing)", None),
    ("format('%s', nothing)", "null"),
    ("cast('1_000', 'LONG')", None),
    ("hypot(y, cast(nothing, 'LONG'))", None),
    ("y % cast(nothing, 'LONG')", None),
]
