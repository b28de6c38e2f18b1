"""Which columns a condition names, as far as that shows without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carnac.specs.druid.filters import compile_filter
from carnac.specs.ingest.transforms import words_of

_SQL_WORDS = frozenset(
    """
    all and any array as asc between bigint binary boolean both by case cast char char_length current_date
    current_timestamp date day days decimal desc dec distinct div double else end escape exists extract false float for
    from hour hours ilike in int integer interval is leading like long map minute minutes mod month months not null
    numeric on or real regexp rlike second seconds short smallint some string struct substring symmetric text then
    timestamp timestamp_ltz timestamp_ntz tinyint to trailing trim true try_cast unknown varchar week weeks when with
    year years zone
    """.split()  # noqa: SIM905 - a hundred words are easier to read as text
)
"""Words of Spark SQL that stand bare in a condition and are no columns of most people."""


def columns_of(condition: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that a condition names, sorted; nothing for one that binds names of its own (`x -> x > 1`)."""
    if not isinstance(condition, str):
        return tuple(sorted(compile_filter(condition).inputs))
    if "->" in condition:
        return ()
    return tuple(sorted(name for name in words_of(condition) if name.lower() not in _SQL_WORDS))
