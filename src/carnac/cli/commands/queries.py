"""`sql`: one SELECT statement over one revision; alone at a terminal, a prompt for many."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from carnac.cli.answers import print_table
from carnac.cli.app import ASK, command
from carnac.cli.completion.values import complete_word
from carnac.cli.options import At, Parameters, argument, flag, option, parameters_of
from carnac.cli.output import Output
from carnac.cli.session import Session
from carnac.cli.specfiles import read_text
from carnac.cli.tables import counted, number_text
from carnac.errors import Invalid

if TYPE_CHECKING:
    from types import ModuleType

    from carnac.ports import ExportResult
    from carnac.ports.answers import Receipt
    from carnac.store import Store
    from carnac.store.results import Result

FILES = ("csv", "jsonl", "parquet", "arrow")
FORMATS = ("table", "json", *FILES)
BINARY = ("parquet", "arrow")
DEFAULT_ROWS = 1000

Statement = Annotated[
    str | None,
    argument(
        "SELECT", "The statement; - reads it from standard input. None, at a terminal: a prompt."
    ),
]
StatementFile = Annotated[str | None, option("--file -f FILE", "Read the statement from a file.")]
Format = Annotated[
    str | None,
    option(
        "--format FORMAT",
        "table, json, csv, jsonl, parquet or arrow. Default: by the ending of FILE, else table.",
        complete=complete_word(*FORMATS),
        show_default=False,
    ),
]
OutputFile = Annotated[
    str | None,
    option(
        "--output -o FILE",
        "Stream all rows to a file; - is standard output.",
        show_default=False,
    ),
]
Overwrite = Annotated[bool, flag("--overwrite", "Replace an existing file.")]
MaxRows = Annotated[
    int | None,
    option(
        "--max-rows N",
        f"Most rows to show or write; 0: all. Default: {DEFAULT_ROWS} in a table, else all.",
        min=0,
        show_default=False,
    ),
]
ReceiptFile = Annotated[
    str | None,
    option(
        "--receipt FILE",
        "Write the receipt of the answer to a file, for `carnac receipt verify`. With -o the statement runs twice.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    option(
        "--timeout SECONDS",
        "Stop the statement after that time; 0: no limit. Default: query_timeout_ms.",
        min=0,
        show_default=False,
    ),
]

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        autocompletion=complete_word("embedded", "spark"),
        help="embedded, or spark for statements that are too much for one machine. Default: embedded.",
        show_default=False,
    ),
]


@command(
    "sql",
    panel=ASK,
    examples=[
        'carnac sql "SELECT carrier, count(*) AS n FROM flights GROUP BY 1 ORDER BY 2 DESC"',
        'carnac sql "SELECT count(*) FROM flights WHERE dest = ?" --param ORD --at 1',
        'carnac sql "SELECT count(*) FROM flights WHERE dest = $dest" --param dest=ORD',
        'carnac sql "SELECT * FROM flights" -o flights.parquet',
        'carnac sql "SELECT * FROM flights" --format csv --max-rows 3',
        'carnac sql --engine spark "SELECT dest, median(dep_delay) FROM flights GROUP BY 1"',
        "carnac sql",
    ],
)
def sql(
    session: Session,
    *,
    text: Statement = None,
    file: StatementFile = None,
    at: At = None,
    param: Parameters = None,
    form: Format = None,
    output: OutputFile = None,
    overwrite: Overwrite = False,
    max_rows: MaxRows = None,
    receipt: ReceiptFile = None,
    timeout: Timeout = None,
    engine: EngineOption = None,
) -> None:
    """Run one SELECT statement over one revision, and print the rows.

    Datasources are tables; __time is the time of a row, in UTC. Numbers are aligned to the right, times are ISO 8601.
    csv, jsonl, parquet and arrow are streamed, however many rows there are; a file appears only when it is complete.

    Without a statement, at a terminal, it is a prompt: statements end with a semicolon, Tab completes, .help lists its
    commands.
    """
    timeout_ms = None if timeout is None else ceil(timeout * 1000)
    if text is None and file is None:
        for_one = (param, form, output, overwrite, receipt, engine, session.output.is_json)
        _require_prompt(is_for_one=any(for_one))
        from carnac.cli.prompt.loop import run_prompt

        rows_max = DEFAULT_ROWS if max_rows is None else max_rows or None
        with session.open_store(query_timeout_ms=timeout_ms) as store:
            run_prompt(session, store, at=at, rows_max=rows_max)
        return
    form = "json" if session.output.is_json and form in {None, *FORMATS} else _form(form, output)
    if form not in FILES and output is not None:
        raise Invalid(f"{form} is for standard output alone; -o FILE writes {', '.join(FILES)}")
    statement = _read_statement(text, file)
    question = _Question(
        text=statement,
        at=at,
        parameters=parameters_of(statement, param),
        rows_max=DEFAULT_ROWS if max_rows is None and form == "table" else max_rows or None,
        receipt=receipt,
        engine=engine,
    )
    target = _standard_output(form) if form in FILES and output in {None, "-"} else output
    if session.owns_process and receipt is None and engine != "spark":
        _load_arrow_alone(question.text)
    with session.open_store(query_timeout_ms=timeout_ms) as store:
        if form in FILES:
            written = question.export(store, target, form, overwrite=overwrite)
            _tell(session.output, written, output)
            return
        result = question.run(store)
    if form == "table":
        print_table(session.output, result, question.rows_max)
    else:
        session.output.json(_json_document(result, question.rows_max))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The statement and its options.

    Attributes:
        rows_max: None: all.
        receipt: The file that says what the answer rests on; None: none.
    """

    text: str
    at: str | None
    parameters: Sequence[object] | Mapping[str, object]
    rows_max: int | None
    receipt: str | None
    engine: str | None

    def run(self, store: Store) -> Result:
        result = store.sql(self.text, at=self.at, parameters=self.parameters, engine=self.engine)
        if self.receipt is not None:
            self._leave(self.receipt, result.receipt)
        return result

    def export(self, store: Store, target: object, form: str, *, overwrite: bool) -> ExportResult:
        written = store.export(
            self.text,
            target,
            format=form,
            at=self.at,
            parameters=self.parameters,
            max_rows=self.rows_max,
            overwrite=overwrite,
            engine=self.engine,
        )
        if self.receipt is not None:
            again = store.receipt(self.text, at=written.revision, parameters=self.parameters)
            self._leave(self.receipt, again)
        return written

    def _leave(self, file: str, receipt: Receipt) -> None:
        from carnac.named_files import write_named
        from carnac.store.receipts import dump

        write_named(Path(file), dump(receipt, self.text, self.parameters))


def _form(form: str | None, output: str | None) -> str:
    """Return the format that is asked for, or that the name of the file says."""
    if form is not None and form not in FORMATS:
        raise Invalid(f"there is no format '{form}'; there are {', '.join(FORMATS)}")
    if output in {None, "-"}:
        return form or "table"
    from carnac.store.exporting import form_of

    return form_of(form, Path(output or ""))


def _standard_output(form: str) -> BinaryIO:
    if form in BINARY and sys.stdout.isatty():
        raise Invalid(f"a terminal cannot show {form}; write it to a file with -o FILE")
    sys.stdout.flush()
    return cast("BinaryIO", sys.stdout.buffer)


def _tell(output: Output, written: ExportResult, target: str | None) -> None:
    if written.is_cut:
        output.warning(
            f"there were more rows than {number_text(written.rows)}; --max-rows left them out"
        )
    if target in {None, "-"}:
        return
    output.note(
        f"{counted(written.rows, 'row')} at revision {written.revision}, {number_text(written.segments_read)} of "
        f"{counted(written.segments_total, 'segment')} read, in {target}"
    )


def _load_arrow_alone(statement: str) -> None:
    """Load pyarrow without numpy, which it takes along where it can: a sixth of the time of a cold command.

    Printing rows needs no numpy; our own functions do.
    """
    from carnac.query.rewriting.own import names_own

    if "numpy" in sys.modules or names_own(statement):
        return
    sys.modules["numpy"] = cast("ModuleType", None)  # the import system takes this as "not there"
    try:
        import pyarrow  # noqa: F401
    finally:
        del sys.modules["numpy"]


def _require_prompt(*, is_for_one: bool) -> None:
    """Refuse to be a prompt where nobody can type, or with what only one statement can have.

    Raises:
        Invalid: So it is.
    """
    if is_for_one:
        raise Invalid("give a statement or --file: the other options apply to one statement")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Invalid(
            "give a statement or --file; - reads one from standard input, and there is a prompt at a terminal alone"
        )


def _read_statement(text: str | None, file: str | None) -> str:
    if text is not None and file is not None:
        raise Invalid("give a statement or --file, one of them")
    if file is None and text != "-":
        return text or ""
    return read_text(file or "-", "statement")


def _json_document(result: Result, rows_max: int | None) -> dict[str, object]:
    """Return the document; `rows_left_out` counts the rows that `--max-rows` left out of it."""
    from carnac.core.words import unique_names
    from carnac.query.export.values import iterate_rows, to_json_value

    table = result.arrow()
    names = unique_names(table.column_names)
    shown = table.slice(0, rows_max)
    left_out = table.num_rows - shown.num_rows
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
            for row in iterate_rows(shown)
        ],
    } | ({"rows_left_out": left_out} if left_out else {})
