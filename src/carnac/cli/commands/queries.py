"""`sql`: one SELECT statement over one revision."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from carnac.cli.app import READING, command, session_of
from carnac.cli.options import AsJson, At
from carnac.cli.output import Output
from carnac.cli.tables import counted, format_count
from carnac.cli.values import (
    csv_line,
    iterate_rows,
    table_columns,
    to_json_value,
    to_text,
    unique_names,
)
from carnac.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from types import ModuleType

    from carnac.cli.session import Session
    from carnac.store.results import Result

FORMATS = ("table", "csv", "jsonl", "json")
DEFAULT_ROWS = 1000
GRACE_MS = 2_000
"""How long a statement that was stopped may take to end."""

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="VALUE",
        help="Value of the next ? in the statement: a JSON number, true, false, null, or else a text.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="Stop the statement after that time; 0: no limit. Default: query_timeout_ms.",
        show_default=False,
    ),
]


@command(
    "sql",
    panel=READING,
    examples=[
        'carnac sql "SELECT carrier, count(*) AS n FROM flights GROUP BY 1 ORDER BY 2 DESC"',
        'carnac sql "SELECT count(*) FROM flights WHERE dest = ?" --param ORD --at 1',
        'carnac sql "SELECT * FROM flights" --format csv > flights.csv',
    ],
)
def sql(
    ctx: typer.Context,
    *,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="SELECT",
            help="The statement; - reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the statement from a file."),
    ] = None,
    at: At = None,
    param: Parameters = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table, csv, jsonl or json.")
    ] = "table",
    max_rows: Annotated[
        int,
        typer.Option(
            "--max-rows", metavar="N", min=0, help="Most rows that a table shows; 0 shows all."
        ),
    ] = DEFAULT_ROWS,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Run one SELECT statement over one revision, and print the rows.

    Datasources are tables; __time is the time of a row, in UTC. Numbers are aligned to the right, times are ISO 8601.
    --format csv and jsonl write all rows and nothing else.
    """
    session = session_of(ctx)
    if form not in FORMATS:
        raise Invalid(f"there is no format '{form}'; there are {', '.join(FORMATS)}")
    form = "json" if as_json else form
    statement = _read_statement(text, file)
    parameters = [_parse_parameter(value) for value in param or ()]
    if session.owns_process:
        _load_arrow_alone(statement)
    timeout_ms = None if timeout is None else ceil(timeout * 1000)
    limit_ms = session.settings.query_timeout_ms if timeout_ms is None else timeout_ms
    with session.open_store(query_timeout_ms=timeout_ms) as store, _ended_after(session, limit_ms):
        result = store.sql(statement, at=at, parameters=parameters)
    if form == "table":
        _print_table(session.output, result, max_rows)
    elif form == "csv":
        _print_csv(result)
    elif form == "jsonl":
        _print_json_lines(result)
    else:
        session.output.json(_json_document(result))


@contextmanager
def _ended_after(session: Session, limit_ms: int) -> Iterator[None]:
    """End the process if a statement does not even heed that it is stopped: one function over one huge value.

    What it leaves, a folder of temporary files and a lease, others remove.

    Args:
        limit_ms: After which it is stopped; 0: never.
    """
    if not session.owns_process or not limit_ms:
        yield
        return

    def end() -> None:
        detail = f"the query took longer than {limit_ms} ms and could not be stopped"
        session.show_error(Unavailable(f"{detail}; its process was ended"))
        sys.stderr.flush()
        os._exit(Unavailable.exit_code)

    timer = threading.Timer((limit_ms + GRACE_MS) / 1000, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _load_arrow_alone(statement: str) -> None:
    """Load pyarrow without numpy, which it takes along where it can: a sixth of the time of a cold command.

    Printing rows needs no numpy; the sketch functions do.
    """
    from carnac.query.sketching import names_sketches

    if "numpy" in sys.modules or names_sketches(statement):
        return
    sys.modules["numpy"] = cast("ModuleType", None)  # the import system takes this as "not there"
    try:
        import pyarrow  # noqa: F401
    finally:
        del sys.modules["numpy"]


def _read_statement(text: str | None, file: str | None) -> str:
    if (text is None) == (file is None):
        raise Invalid("give a statement or --file, one of them")
    if text == "-" or file == "-":
        return sys.stdin.read()
    if file is None:
        return text or ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"{file} cannot be read: {error.strerror}", path=file) from None
    except UnicodeDecodeError:
        raise Invalid(f"{file} is not text in UTF-8", path=file) from None


def _parse_parameter(text: str) -> object:
    if text.lstrip()[:1] in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError:  # also a number of thousands of digits
        return text


def _print_table(output: Output, result: Result, max_rows: int) -> None:
    table = result.arrow()
    shown = table if max_rows == 0 else table.slice(0, max_rows)
    rows = [[to_text(value) for value in row] for row in iterate_rows(shown)]
    output.table(table_columns(table), rows)
    hidden = table.num_rows - len(rows)
    if hidden:
        output.note(
            f"… and {format_count(hidden)} more rows; --max-rows 0 shows all, --format csv writes all"
        )
    output.note(
        f"{counted(table.num_rows, 'row')} at revision {result.revision}, "
        f"{format_count(result.segments_read)} of {counted(result.segments_total, 'segment')} read"
    )


def _print_csv(result: Result) -> None:
    table = result.arrow()
    sys.stdout.write(csv_line(table.column_names) + "\n")
    for row in iterate_rows(table):
        sys.stdout.write(csv_line(row) + "\n")


def _print_json_lines(result: Result) -> None:
    table = result.arrow()
    names = unique_names(table.column_names)
    for row in iterate_rows(table):
        block = {name: to_json_value(value) for name, value in zip(names, row, strict=True)}
        sys.stdout.write(json.dumps(block, ensure_ascii=False, separators=(",", ":")) + "\n")


def _json_document(result: Result) -> dict[str, object]:
    table = result.arrow()
    names = unique_names(table.column_names)
    return {
        "revision": result.revision,
        "segments_total": result.segments_total,
        "segments_read": result.segments_read,
        "columns": [
            {"name": name, "type": str(field.type)}
            for name, field in zip(names, table.schema, strict=True)
        ],
        "rows": [
            {name: to_json_value(value) for name, value in zip(names, row, strict=True)}
            for row in iterate_rows(table)
        ],
    }
