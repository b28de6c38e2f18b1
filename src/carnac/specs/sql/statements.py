"""`INSERT INTO` and `REPLACE INTO`: the clauses around their SELECT, as an ingestion spec.

    INSERT INTO edits SELECT … PARTITIONED BY DAY
    REPLACE INTO edits OVERWRITE ALL SELECT … PARTITIONED BY DAY CLUSTERED BY channel
    REPLACE INTO edits OVERWRITE WHERE __time >= TIMESTAMP '2024-01-01' AND __time < TIMESTAMP '2024-01-02' SELECT …

Source: Druid's documentation of SQL-based ingestion.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from carnac.core.time.granularity import ALL, Granularity, parse_granularity
from carnac.core.time.intervals import ETERNITY, Interval, interval_text
from carnac.errors import Invalid
from carnac.specs.base import TIME_COLUMN
from carnac.specs.sql.bounds import intervals_of
from carnac.specs.sql.tokens import Token, tokens_of, words_at

_BLANKS = r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_HEAD = re.compile(
    rf"\ufeff?{_BLANKS}*+(?:insert|replace){_BLANKS}++into\b", re.IGNORECASE | re.DOTALL
)
_QUERY = re.compile(rf"\ufeff?{_BLANKS}*+(?:select|with)\b(?!\s*:)", re.IGNORECASE | re.DOTALL)
_EXPORT = re.compile(rf"{_HEAD.pattern}{_BLANKS}*+extern{_BLANKS}*+\(", re.IGNORECASE | re.DOTALL)
_FILES = re.compile(rf"\btable{_BLANKS}*+\({_BLANKS}*+extern\b", re.IGNORECASE | re.DOTALL)
_BEGINS = frozenset({"SELECT", "WITH"})
_NO_TIME = "1970-01-01T00:00:00Z"
"""The time of rows without one, where all of time is one chunk, as Druid has it."""


def is_load_statement(text: str) -> bool:
    """Whether a text begins as an INSERT or a REPLACE."""
    return _HEAD.match(text) is not None


def check_loads(text: str) -> None:
    """Check that a text that is to load rows is no query.

    Raises:
        Invalid: It is.
    """
    if _QUERY.match(text):
        raise Invalid(
            "a SELECT alone loads nothing; write INSERT INTO name, or REPLACE INTO name OVERWRITE ALL, before it, and"
            " PARTITIONED BY DAY after it"
        )


def refusal_of(text: str) -> str | None:
    """Return what does what a statement asks for that is no query; None: nothing is known to do it."""
    if _EXPORT.match(text):
        return (
            "INSERT INTO EXTERN writes an answer into files: run the SELECT alone with carnac sql -o FILE or"
            " store.export, or send it to POST /druid/v2/sql with a resultFormat such as csv"
        )
    if is_load_statement(text):
        return (
            "INSERT and REPLACE load rows, which takes Spark: write the statement into a file and run carnac ingest"
            " FILE.sql, or send it to POST /druid/v2/sql/task"
        )
    if _FILES.search(text):
        return "a SELECT reads datasources, and only INSERT and REPLACE read TABLE(EXTERN(…)): load it INTO one first"
    return None


def spec_of_statement(sql: str, *, rows_per_segment: object = None) -> dict[str, Any]:
    """Return the ingestion spec that a statement means, as a mapping.

    Args:
        rows_per_segment: Of the segments that it writes; None: the default of specs.

    Raises:
        Invalid: It is no INSERT and no REPLACE, or is wrong; says how to write it.
    """
    tokens = tokens_of(sql)
    while tokens and tokens[-1].value == ";":
        tokens.pop()
    if any(one.value == ";" and one.kind == "sign" for one in tokens):
        raise Invalid("there is more than one statement; write one INSERT or REPLACE")
    replaces = words_at(tokens, 0, "REPLACE", "INTO")
    if not replaces and not words_at(tokens, 0, "INSERT", "INTO"):
        raise Invalid(
            "write INSERT INTO name SELECT …, or REPLACE INTO name OVERWRITE ALL SELECT …"
        )
    if _EXPORT.match(sql):
        raise Invalid(str(refusal_of(sql)))
    datasource, at = _datasource(tokens, 2)
    begin = next(
        (i for i in range(at, len(tokens)) if _is(tokens[i], *_BEGINS)),
        None,
    )
    overwritten = tokens[at:begin]
    if begin is None:
        raise Invalid(f"{tokens[0].value} INTO {datasource} needs a SELECT")
    tail = _find(tokens, begin, "PARTITIONED", "BY")
    if tail is None:
        raise Invalid(
            "the statement needs PARTITIONED BY after its SELECT: PARTITIONED BY DAY, or HOUR, MONTH, YEAR, ALL"
        )
    if _find(tokens[:tail], begin, "ORDER", "BY") is not None:
        raise Invalid(
            "rows have no order in a datasource; leave out ORDER BY, and write CLUSTERED BY for ranges of a column"
        )
    granularity, clusters = _layout(tokens[tail:])
    query = sql[tokens[begin].start : tokens[tail - 1].end]
    block: dict[str, Any] = {
        "dataSource": datasource,
        "mode": "replace" if replaces else "append",
        "input": {"type": "query", "query": query},
        "timestampSpec": {"column": TIME_COLUMN},
        "dimensionsSpec": {"useSchemaDiscovery": True},
        "granularitySpec": {"segmentGranularity": granularity.to_json()},
        "partitionsSpec": _partitions(clusters, rows_per_segment),
    }
    if granularity == ALL:
        block["timestampSpec"]["missingValue"] = _NO_TIME
    if replaces:
        bounds = _overwritten(overwritten, granularity)
        block["granularitySpec"]["intervals"] = [str(one) for one in bounds]
    elif overwritten:
        raise Invalid(
            f"INSERT INTO {datasource} is followed by SELECT, not by {overwritten[0].name}: columns go by their names"
        )
    return block


def _datasource(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the name, of which the schema `druid` may be a part, and the token after it."""
    names = []
    while at < len(tokens) and tokens[at].kind in {"word", "quoted"}:
        names.append(tokens[at].name)
        at += 1
        if not words_at(tokens, at, "."):
            break
        at += 1
    if len(names) == 2 and names[0] == "druid":
        names = names[1:]
    if len(names) != 1:
        raise Invalid("INTO names one datasource, such as edits or druid.edits")
    return names[0], at


def _is(token: Token, *words: str) -> bool:
    return token.depth == 0 and token.kind == "word" and token.value in words


def _find(tokens: Sequence[Token], begin: int, *words: str) -> int | None:
    """Return where these words stand last, outside of parentheses; None: nowhere."""
    for place in range(len(tokens) - len(words), begin, -1):
        if tokens[place].depth == 0 and words_at(tokens, place, *words):
            return place
    return None


def _overwritten(tokens: Sequence[Token], granularity: Granularity) -> tuple[Interval, ...]:
    if words_at(tokens, 0, "OVERWRITE", "ALL") and len(tokens) == 2:
        return (ETERNITY,)
    if not words_at(tokens, 0, "OVERWRITE", "WHERE"):
        raise Invalid(
            "REPLACE needs OVERWRITE ALL, or OVERWRITE WHERE and bounds of __time, before its SELECT"
        )
    found = tuple(intervals_of(tokens[2:]))
    if not found:
        raise Invalid("OVERWRITE WHERE holds for no time at all")
    for one in found:
        if not granularity.is_aligned(one):
            raise Invalid(
                f"OVERWRITE WHERE covers {interval_text(one)}, which does not begin and end with a time chunk of"
                f" PARTITIONED BY {granularity}"
            )
    return found


def _layout(tokens: Sequence[Token]) -> tuple[Granularity, Sequence[str]]:
    """Return the granularity and the columns of `PARTITIONED BY … [CLUSTERED BY …]`."""
    end = _find(tokens, 0, "CLUSTERED", "BY")
    granularity = _granularity(tokens[2 : len(tokens) if end is None else end])
    return granularity, [] if end is None else _clusters(tokens[end + 2 :])


def _granularity(tokens: Sequence[Token]) -> Granularity:
    if [one.value for one in tokens] in (["ALL"], ["ALL", "TIME"]):
        return ALL
    texts = [one.value for one in tokens if one.kind == "text"]
    is_floor = words_at(tokens, 0, "FLOOR", "(", "__TIME", "TO") and len(tokens) == 6
    is_call = words_at(tokens, 0, "TIME_FLOOR", "(", "__TIME", ",") and len(tokens) == 6
    if len(tokens) == 1 and tokens[0].kind in {"word", "text"}:
        found = tokens[0].value
    elif is_floor:
        found = tokens[4].value
    elif is_call and texts:
        found = texts[0]
    else:
        said = " ".join(one.name for one in tokens)
        raise Invalid(
            f"PARTITIONED BY {said} is no granularity; write DAY, HOUR, MONTH, YEAR, ALL or a period such as 'PT6H'"
        )
    return parse_granularity(found if texts else found.lower())


def _clusters(tokens: Sequence[Token]) -> Sequence[str]:
    names: list[str] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        if rest and rest[0].value == "ASC":
            rest.pop(0)
        if token.kind not in {"word", "quoted"} or (rest and rest.pop(0).value != ","):
            raise Invalid(
                "CLUSTERED BY takes names of columns that the statement selects, ascending"
            )
        names.append(token.name)
    if not names:
        raise Invalid("CLUSTERED BY needs a column")
    return names


def _partitions(clusters: Sequence[str], rows_per_segment: object) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "dynamic"}
    if clusters:
        block = {"type": "range", "partitionDimensions": list(clusters)}
    if rows_per_segment is not None:
        block["targetRowsPerSegment" if clusters else "maxRowsPerSegment"] = rows_per_segment
    return block
