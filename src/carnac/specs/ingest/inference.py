"""A spec inferred from rows: the column of the time, its format, the types, the time chunks. Pure.

The time is the column whose name says so most plainly among those whose values can be times (`_RANKS`, best first); of
two columns of one rank, the one without nulls. Where that leaves two, none, or two ways to read a time, nothing is
guessed: `Ambiguous` asks.

Time chunks are days where the rows span up to `CHUNKS_MAX` days, else months up to so many months, else years up to so
many years, else decades.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from carnac.core.texts import check_name
from carnac.core.time.periods import DAY_MS
from carnac.core.words import first_of
from carnac.errors import Invalid
from carnac.specs.ingest.schema import TimestampSpec
from carnac.specs.problems import explain, suggest

CHUNKS_MAX = 31
"""Most days for chunks of a day, months for chunks of a month, years for chunks of a year."""
COLUMNS_SHOWN = 12
EPOCHS = ("posix", "millis", "micro", "nano")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenColumn:
    """A column, as a sample shows it.

    Attributes:
        type: That of its dimension.
        is_instant: Its values are typed as times.
        is_number: Its values are numbers.
        may_count_time: Its numbers are large enough to count from 1970 in some unit.
        formats: Those of `timestampSpec` in which its values are times; several: each would read them otherwise.
        is_empty: It has no values, and a type that says so.
        has_nulls: Not every row has a value.
        example: One of its values.
        becomes: Form, in words, of values that the type does not keep as they are; None: all are kept.
    """

    name: str
    type: str
    is_instant: bool = False
    is_number: bool = False
    may_count_time: bool = False
    formats: tuple[str, ...] = ()
    has_nulls: bool = False
    is_empty: bool = False
    example: str = ""
    becomes: str | None = None

    @property
    def can_be_time(self) -> bool:
        """Whether its values are times in some format."""
        return self.is_instant or bool(self.formats)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeHints:
    """The user's options for the time column.

    Attributes:
        column: None: to be found.
        format: None: to be found.
        default: ISO 8601 time of rows that have none; without a column, of all rows.
        zone: Of times that name none; None: UTC.
    """

    column: str | None = None
    format: str | None = None
    default: str | None = None
    zone: str | None = None


def as_hints(time: str | Mapping[str, object]) -> TimeHints:
    """Return what a column's name, or a `timestampSpec` of which fields may be left out, says.

    Raises:
        Invalid: It has other fields.
        WrongTime: It has wrong ones.
    """
    if isinstance(time, str):
        return TimeHints(column=time)
    names = {"column": "column", "format": "format", "missingValue": "default", "timeZone": "zone"}
    other = [name for name in time if name not in names]
    if other:
        raise Invalid(
            f"time has a field '{other[0]}'; it takes {', '.join(names)}{suggest(other[0], names)}"
        )
    said = {name: str(value) for name, value in time.items() if value}
    try:
        TimestampSpec.model_validate(said)
    except ValidationError as error:
        found = "; ".join(str(explain(details, TimestampSpec)) for details in error.errors())
        raise WrongTime(f"wrong time: {found}") from None
    return TimeHints(**{names[name]: value for name, value in said.items()})


class WrongTime(Invalid):
    """The description of the time is wrong: there is no such column, format, time or zone."""


class Ambiguous(Invalid):
    """A person must choose.

    Attributes:
        question: To be asked where somebody can answer.
        option: Name of the hint that holds the answer: `column` or `format` of `TimeHints`.
        choices: Answers to offer.
        takes_time: The answer may be one time for all rows, too.
    """

    def __init__(
        self,
        question: str,
        remedy: str,
        *,
        option: str,
        choices: Sequence[str],
        takes_time: bool = False,
    ) -> None:
        shown = f": {first_of(choices, COLUMNS_SHOWN)}" if choices else ""
        super().__init__(f"{question}{shown}; {remedy}")
        self.question = question
        self.option = option
        self.choices = tuple(choices)
        self.takes_time = takes_time


def decide_time(columns: Sequence[SeenColumn], hints: TimeHints, source: str) -> dict[str, Any]:
    """Return the `timestampSpec`.

    Args:
        source: Name for messages of the input that has the columns.

    Raises:
        Ambiguous: It is not plain which column is the time, or how it is to be read.
        WrongTime: There is no such column.
    """
    block: dict[str, Any] = {}
    if hints.default is not None:
        block["missingValue"] = hints.default
    if hints.zone is not None:
        block["timeZone"] = hints.zone
    if hints.column is None and hints.default is not None and not _ranked(columns):
        return {"column": "__time", **block}
    column = _named(columns, hints.column, source) if hints.column else _found(columns, source)
    block["column"] = column.name
    chosen = hints.format or _format_of(column)
    return block if chosen == "auto" else {**block, "format": chosen}


def decide_granularity(span_ms: int) -> str:
    """Return the segment granularity for rows whose times span so many milliseconds."""
    for name, days in (("day", 1), ("month", 30), ("year", 365)):
        if span_ms <= CHUNKS_MAX * days * DAY_MS:
            return name
    return "P10Y"


def make_spec(
    datasource: str,
    columns: Sequence[SeenColumn],
    *,
    timestamp: Mapping[str, Any],
    granularity: str,
) -> dict[str, Any]:
    """Return a spec without input, as JSON would say it; columns that come later become dimensions, too.

    Raises:
        Invalid: A column has a name that none can have.
    """
    for one in columns:
        if not one.name:
            raise Invalid("a column of the rows has no name; name it, or leave it out")
        check_name(one.name, "the name of a column of the rows")
    return {
        "dataSource": datasource,
        "timestampSpec": dict(timestamp),
        "dimensionsSpec": {
            "dimensions": [
                one.name if one.type == "string" else {"name": one.name, "type": one.type}
                for one in columns
                if one.name not in {timestamp["column"], "__time"} and not one.is_empty
            ],
            "useSchemaDiscovery": True,
            "includeAllDimensions": True,
            "keepBooleans": True,
        },
        "granularitySpec": {"segmentGranularity": granularity},
    }


def datasource_of(path: str) -> str:
    """Return the datasource that a file is for if nobody says: its name up to the first dot."""
    name = path.rstrip("/").rpartition("/")[2].partition(".")[0]
    found = re.sub(r"[^\w-]+", "_", name).strip("_")
    if not found or "*" in path.rpartition("/")[2]:
        raise Invalid(f"the name of {path} says no datasource; name one with --datasource NAME")
    return found


def _words(*names: str) -> Callable[[SeenColumn], bool]:
    return lambda one: re.sub(r"[^a-z]", "", one.name.lower()) in names


def _is_called_time(column: SeenColumn) -> bool:
    words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", column.name).lower())
    return bool({"time", "timestamp", "ts", "date", "datetime", "epoch", "at", "on"} & {*words})


_RANKS: tuple[Callable[[SeenColumn], bool], ...] = (
    lambda one: one.name == "__time",
    _words("timestamp", "time", "ts", "datetime", "eventtime", "eventtimestamp"),
    _words("date", "day", "dt"),
    lambda one: not one.is_number,
    _is_called_time,
    _words("year", "yr"),
)
"""Order in which columns of times are tried, by name. A column of numbers must be called a time."""


def _ranked(columns: Sequence[SeenColumn]) -> list[SeenColumn]:
    able = [one for one in columns if one.can_be_time]
    for holds in _RANKS:
        found = [one for one in able if holds(one)]
        if found:
            whole = [one for one in found if not one.has_nulls]
            return whole if len(whole) == 1 else found
    return []


def _found(columns: Sequence[SeenColumn], source: str) -> SeenColumn:
    found = _ranked(columns) or [one for one in columns if one.may_count_time and _RANKS[1](one)]
    if len(found) == 1:
        return found[0]
    if not found and len(columns) == 1 and " " in columns[0].name:
        raise Invalid(
            f"no character separates the same number of fields in all lines of {source}, such as"
            f" '{columns[0].name[:60]}'; make JSON lines or CSV of it, or load whole lines with"
            " --time-default 2024-01-01 (in Python time={'missingValue': …})"
        )
    names = [one.name for one in found or columns]
    if found:
        raise Ambiguous(
            f"which column of {source} is the time",
            "say so with --time COLUMN (in Python time=)",
            option="column",
            choices=names,
        )
    raise Ambiguous(
        f"no column of {source} is plainly the time",
        "name one with --time COLUMN, or give all rows one time with --time-default 2024-01-01"
        " (in Python time=)",
        option="column",
        choices=names,
        takes_time=True,
    )


def _named(columns: Sequence[SeenColumn], name: str, source: str) -> SeenColumn:
    found = next((one for one in columns if one.name == name), None)
    if found is not None:
        return found
    names = [one.name for one in columns]
    hint = suggest(name, names) or f": its columns are {first_of(names, COLUMNS_SHOWN)}"
    has = "have" if source.endswith("rows") else "has"
    raise WrongTime(f"{source} {has} no column '{name}'{hint}", column=name)


def _format_of(column: SeenColumn) -> str:
    if column.is_instant:
        return "auto"
    if len(column.formats) == 1:
        return column.formats[0]
    choices = column.formats or (EPOCHS if column.is_number else ())
    option = "--time-format FORMAT (in Python time={'format': …})"
    remedy = f"say so with {option}"
    if choices:
        raise Ambiguous(
            f"how is '{column.example}' in column '{column.name}' to be read",
            remedy,
            option="format",
            choices=choices,
        )
    if not column.example:
        raise WrongTime(
            f"column '{column.name}' shows no text or number that could be a time; name another one, or say its format"
            f" with {option}",
            column=column.name,
        )
    raise Ambiguous(
        f"'{column.example}' in column '{column.name}' is no time of the years 1000 to 2999"
        " in a format that is known, as nine of ten values must be",
        f"{remedy}, such as iso or 'yyyy-MM-dd HH:mm:ss'",
        option="format",
        choices=(),
    )
