"""External tables of a statement: `TABLE(EXTERN('source', 'format')) EXTEND (name TYPE, …)`.

Source: Druid's documentation of SQL-based ingestion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from carnac.core.segments.segment import ColumnType
from carnac.errors import Invalid
from carnac.specs.druid.fields import Block
from carnac.specs.druid.input import convert_format, convert_source
from carnac.specs.ingest.inputs import FilesInput, InlineInput
from carnac.specs.problems import Findings, explain, raise_problems
from carnac.specs.sql.tokens import Token, tokens_of, words_at

EXTERNAL_PREFIX = "__carnac_external_"
_TYPES: Mapping[str, ColumnType] = {
    **dict.fromkeys(("VARCHAR", "CHAR", "STRING"), ColumnType.STRING),
    **dict.fromkeys(("BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "LONG"), ColumnType.LONG),
    **dict.fromkeys(("FLOAT", "REAL"), ColumnType.FLOAT),
    "DOUBLE": ColumnType.DOUBLE,
    "BOOLEAN": ColumnType.BOOLEAN,
    **dict.fromkeys(("VARCHAR ARRAY", "ARRAY<STRING>"), ColumnType.STRING_ARRAY),
    **dict.fromkeys(("BIGINT ARRAY", "ARRAY<LONG>"), ColumnType.LONG_ARRAY),
    **dict.fromkeys(("DOUBLE ARRAY", "ARRAY<DOUBLE>"), ColumnType.DOUBLE_ARRAY),
    "COMPLEX<JSON>": ColumnType.JSON,
}
"""Types of columns by their names in SQL and in a signature, in capitals."""
_KNOWN = "VARCHAR, BIGINT, DOUBLE, FLOAT, BOOLEAN, VARCHAR ARRAY, BIGINT ARRAY, DOUBLE ARRAY, TYPE('COMPLEX<json>')"
_SOURCES: TypeAdapter[FilesInput | InlineInput] = TypeAdapter(FilesInput | InlineInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """A table of a statement that is files or inline text.

    Attributes:
        name: In the statement.
        columns: Names and types, in order.
    """

    name: str
    input: FilesInput | InlineInput
    columns: Mapping[str, ColumnType]


def take_externals(
    sql: str, within: Sequence[str] | None = None
) -> tuple[str, tuple[External, ...]]:
    """Return a statement with a name in the place of each external table, and these tables.

    The rest of the statement keeps its lines and columns.

    Args:
        within: Folders and URLs below which files are read; None: anywhere.

    Raises:
        Invalid: One is wrong; says which part.
    """
    tokens = tokens_of(sql)
    found: list[External] = []
    text, at = "", 0
    for place, token in enumerate(tokens):
        if not words_at(tokens, place, "TABLE", "("):
            continue
        name = f"{EXTERNAL_PREFIX}{len(found)}"
        external, end = _read(tokens, place, name)
        found.append(_confined(external, within))
        gone = re.sub(r"[^\n]", " ", sql[token.start : end])
        text += sql[at : token.start] + name + gone[len(name) :]
        at = end
    return text + sql[at:], tuple(found)


def _confined(external: External, within: Sequence[str] | None) -> External:
    if within is None or not isinstance(external.input, FilesInput):
        return external
    files = external.input.model_copy(update={"within": tuple(within)})
    return External(name=external.name, input=files, columns=external.columns)


def _read(tokens: Sequence[Token], place: int, name: str) -> tuple[External, int]:
    """Return the external table that begins there, and where its text ends."""
    if not words_at(tokens, place + 2, "EXTERN", "("):
        raise Invalid("TABLE takes EXTERN('source', 'format') and nothing else here")
    arguments: list[str] = []
    at = place + 4
    while at < len(tokens) and tokens[at].kind == "text":
        arguments.append(tokens[at].value)
        at += 1
        if not words_at(tokens, at, ","):
            break
        at += 1
    if len(arguments) not in {2, 3} or not words_at(tokens, at, ")", ")"):
        raise Invalid(
            "EXTERN takes two texts of JSON, the input source and the input format, or a third, the signature; write "
            """EXTERN('{"type": "local", "files": ["a.json"]}', '{"type": "json"}')"""
        )
    at += 2
    end = tokens[at - 1].end
    columns: Mapping[str, ColumnType] = {}
    if len(arguments) == 3:
        columns = _signature(arguments[2])
    else:
        at += words_at(tokens, at, "EXTEND")
        if not words_at(tokens, at, "("):
            raise Invalid(
                "EXTERN needs its columns: EXTEND (name VARCHAR, …), or a signature as its third argument"
            )
        columns, at = _extend(tokens, at)
        end = tokens[at - 1].end
    return External(name=name, input=_input(arguments[0], arguments[1]), columns=columns), end


def _input(source: str, form: str) -> FilesInput | InlineInput:
    findings = Findings()
    io = Block(
        {"inputSource": _json(source, "source"), "inputFormat": _json(form, "format")},
        "EXTERN",
        findings,
    )
    native = convert_source(io)
    native["inputFormat"] = convert_format(io)
    raise_problems(findings.problems)
    try:
        return _SOURCES.validate_python(native)
    except ValidationError as error:
        for details in error.errors():
            wrong = explain(details, FilesInput)
            findings.problem(f"EXTERN.{wrong.path}", wrong.message)
        raise_problems(findings.problems)
        raise


def _json(text: str, what: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"the {what} of EXTERN is not JSON: {error}") from None


def _signature(text: str) -> Mapping[str, ColumnType]:
    value = _json(text, "signature")
    items = value if isinstance(value, list) else [None]
    pairs = []
    for item in items:
        if not isinstance(item, Mapping) or not {"name", "type"} <= item.keys():
            raise Invalid("the signature of EXTERN is a list of objects with name and type")
        pairs.append((str(item["name"]), str(item["type"])))
    return _columns(pairs)


def _extend(tokens: Sequence[Token], at: int) -> tuple[Mapping[str, ColumnType], int]:
    """Return the columns between these parentheses, and the token after them."""
    depth = tokens[at].depth
    pairs: list[tuple[str, str]] = []
    at += 1
    while at < len(tokens):
        begin = at
        while at < len(tokens) and not (
            tokens[at].depth == depth and tokens[at].value in {",", ")"}
        ):
            at += 1
        part = tokens[begin:at]
        if at == len(tokens) or len(part) < 2 or part[0].kind not in {"word", "quoted"}:
            break
        pairs.append((part[0].name, _type(part[1:])))
        at += 1
        if tokens[at - 1].value == ")":
            return _columns(pairs), at
    raise Invalid("EXTEND takes names and types: EXTEND (name VARCHAR, added BIGINT)")


def _type(tokens: Sequence[Token]) -> str:
    if words_at(tokens, 0, "TYPE", "(") and len(tokens) == 4:
        return tokens[2].value
    # a length, as of VARCHAR(10), says nothing
    names = [one.value for one in tokens if one.kind == "word"]
    return " ".join(names)


def _columns(pairs: Sequence[tuple[str, str]]) -> Mapping[str, ColumnType]:
    columns: dict[str, ColumnType] = {}
    for name, kind in pairs:
        found = _TYPES.get(kind.upper())
        if found is None:
            raise Invalid(
                f"column {name} of EXTERN cannot be {kind}; a time is VARCHAR, read with TIME_PARSE; types are {_KNOWN}"
            )
        if name.lower() in {one.lower() for one in columns}:
            raise Invalid(f"EXTERN names the column {name} twice")
        columns[name] = found
    if not columns:
        raise Invalid("EXTERN needs a column at least")
    return columns
