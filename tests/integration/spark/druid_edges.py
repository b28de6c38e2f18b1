"""Values at the edges of what functions take: where there is no room, where a text is no number, where nothing is."""

from __future__ import annotations

import math

from carnac.core.time.intervals import parse_instant as ms

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
    ("regexp_replace(x, '(o)', '[$1]')", "f[o][o]"),
    ("regexp_replace(x, 'f', '\\\\$')", "$oo"),
    ("cast(12345678.9, 'STRING')", "1.23456789E7"),
    ("concat(z * 1E16, ' ', 1E-5, ' ', zero / 2.0)", "3.1E16 1.0E-5 0.0"),
    ("timestamp_floor(__time, 'P3M', '1999-12-01')", ms("1999-12-01T00:00:00Z")),
    ("timestamp_ceil(__time, 'P3M', '1999-12-01')", ms("2000-03-01T00:00:00Z")),
    ("timestamp_floor(__time, 'P2D', '2000-02-02')", ms("2000-02-02T00:00:00Z")),
    (
        "timestamp_floor(__time, 'P2D', '2000-01-31T15:00:00Z', 'Asia/Tokyo')",
        ms("2000-02-02T15:00:00Z"),
    ),
]
