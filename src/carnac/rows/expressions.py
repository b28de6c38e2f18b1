"""What a connection needs so that it computes Druid's expressions over rows that are loaded.

Regular expressions that look around or refer back, which DuckDB does not read, are read by Python. They come with a
spec, not with a query: on some texts such a pattern takes any time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakSet

from carnac.rows.normalise.projection import make_macros
from carnac.specs.druid.patterns import JAVA, compile_javas

if TYPE_CHECKING:
    import duckdb


_WITH_PATTERNS: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def provide(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """Make the functions that a query may call in a connection, unless it has them."""
    make_macros(con)
    if f"{JAVA}regexp_" not in query or con in _WITH_PATTERNS:
        return
    _WITH_PATTERNS.add(con)
    text = "VARCHAR"
    con.create_function(f"{JAVA}regexp_matches", _matches, [text, text], "BOOLEAN")
    con.create_function(f"{JAVA}regexp_extract", _extract, [text, text, "INTEGER"], text)
    con.create_function(f"{JAVA}regexp_replace", _replace, [text, text, text, text], text)


def _matches(text: str, pattern: str) -> bool:
    return compile_javas(pattern).search(text) is not None


def _extract(text: str, pattern: str, group: int) -> str:
    found = compile_javas(pattern).search(text)
    return (found[group] or "") if found else ""


def _replace(text: str, pattern: str, replacement: str, _: str) -> str:
    return compile_javas(pattern).sub(_template(replacement), text)


@lru_cache(maxsize=1_000)
def _template(replacement: str) -> str:
    return re.sub(r"\\(\d)", r"\\g<\1>", replacement)
