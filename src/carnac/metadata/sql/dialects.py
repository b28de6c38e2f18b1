"""One text for both databases. The differences between SQLite and PostgreSQL are written here.

A statement names its parameters `:name`. `IN :names[]` is membership in an array parameter (`Session.array`), one text
however many values there are; `IN :pairs[][]` is that of a pair of texts in a JSON array of pairs. The driver of SQLite
takes parameters by position and arrays as JSON, that of PostgreSQL by name and arrays as they are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PARAMETER = re.compile(r"(?<!:)(IN )?:(\w+)((?:\[\]){0,2})")
_SQLITE = {
    "": "?",
    "[]": "IN (SELECT value FROM json_each(?))",
    "[][]": "IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))",
}
_POSTGRESQL = {
    "": "%({0})s",
    "[]": "= ANY(%({0})s)",
    "[][]": "IN (SELECT value ->> 0, value ->> 1 FROM jsonb_array_elements(%({0})s::JSONB))",
}


class SqlText(NamedTuple):
    """A statement as a driver takes it.

    Attributes:
        names: Names of the parameters, in order of their places; empty where they go by name.
    """

    text: str
    names: tuple[str, ...] = ()


class Statement(NamedTuple):
    """A statement's texts: the same meaning in each database."""

    sqlite: SqlText
    postgresql: SqlText


def statement(text: str) -> Statement:
    """Return what each driver takes for a statement."""
    line = " ".join(text.split())
    found = tuple(name for _, name, _ in _PARAMETER.findall(line))
    return Statement(
        sqlite=SqlText(_PARAMETER.sub(lambda one: _SQLITE[one[3]], line), found),
        postgresql=SqlText(
            _PARAMETER.sub(lambda one: _POSTGRESQL[one[3]].format(one[2]), line.replace("%", "%%"))
        ),
    )


def of(table: str, columns: str) -> str:
    """Return the columns with the name of their table before each."""
    return ", ".join(f"{table}.{name}" for name in columns.split(", "))


def row_of(columns: str) -> str:
    """Return what follows `INSERT INTO table`: a parameter for each column, of the same name."""
    return f"({columns}) VALUES ({', '.join(f':{name}' for name in columns.split(', '))})"
