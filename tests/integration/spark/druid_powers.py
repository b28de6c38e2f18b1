"""Powers of longs: exact, and null where the result has no room or the exponent is negative."""

from __future__ import annotations

POWERS: list[tuple[str, object]] = [
    ("3 ^ 39", 4052555153018976267),
    ("(y + 1) ^ 39", 4052555153018976267),
    ("3 ^ (small * 5 + 4)", 4052555153018976267),
    ("(zero - y) ^ 63", -(2**63)),
    ("y ^ 63", None),
    ("y ^ max_long", None),
    ("zero ^ zero", 1),
    ("zero ^ max_long", 0),
    ("(zero - 1) ^ max_long", -1),
    ("(zero - 1) ^ (max_long - 1)", 1),
    ("y ^ (zero - 1)", None),
    ("y ^ -1", None),
    ("max_long ^ 1", 2**63 - 1),
    ("cast(nothing, 'LONG') ^ 0", None),
    ("y ^ cast(nothing, 'LONG')", None),
]
