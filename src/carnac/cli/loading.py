"""Loading rows that no spec describes: the plan that was found in them, and the questions to a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from carnac.cli.completion.values import complete_datasource, complete_word
from carnac.cli.options import argument, flag, option
from carnac.cli.session import Session
from carnac.core.words import counted, first_of
from carnac.errors import CarnacError, Invalid
from carnac.named_files import write_named

if TYPE_CHECKING:
    from carnac.rows.infer.sampling import Inferred
    from carnac.specs.ingest.inference import Ambiguous
    from carnac.store.writing.loading import LoadPlan

T = TypeVar("T")

QUESTIONS_MAX = 3
"""A column, a format, and one more."""
ANSWERS_MAX = 3
"""How often one question is asked."""
COLUMNS_SHOWN = 8
LINE_MAX_BYTES = 1 << 20
"""Bytes of a first line that are looked at."""
_SPEC_SUFFIXES = (".yaml", ".yml", ".json", ".spec", ".sql")
_SPEC_FIELDS = {
    "dataSource",
    "datasource",
    "spec",
    "type",
    "timestampSpec",
    "dimensionsSpec",
    "input",
}

Source: TypeAlias = Annotated[
    str,
    argument(
        "SPEC|FILE",
        "A spec, as JSON or YAML, Carnac's own or Druid's index_parallel, or an INSERT or REPLACE of SQL (- is "
        "standard input); or the first file of rows. YAML and SQL are a spec; JSON is one if it is one object with "
        "dataSource, spec or another field of a spec at its top; all else is rows.",
    ),
]
MorePaths: TypeAlias = Annotated[
    list[str] | None,
    argument("PATH...", "Input files in place of the spec's; or more files of rows."),
]
Paths: TypeAlias = Annotated[
    list[str], argument("FILE...", "Files of JSON lines, CSV, Parquet, ORC or Arrow.")
]
Files: TypeAlias = Annotated[
    list[str] | None, argument("FILE...", "Files of JSON lines, CSV, Parquet, ORC or Arrow.")
]
Into: TypeAlias = Annotated[
    str | None,
    option(
        "--datasource -d NAME",
        "Datasource of rows without a spec. Default: the file's name, up to its first dot.",
        complete=complete_datasource,
    ),
]
Inputs: TypeAlias = Annotated[
    list[str] | None, option("--input -i PATH", "Input files, like PATH; may be repeated.")
]
Replace: TypeAlias = Annotated[
    bool | None, flag("--replace/--append", "In place of the spec's mode.", show_default=False)
]
SpecFile: TypeAlias = Annotated[
    str | None,
    option(
        "--spec SPEC",
        "Spec by which the rows are read. Default: as the datasource was loaded before, else as a sample of the "
        "rows shows.",
    ),
]
WriterName: TypeAlias = Annotated[
    str | None, option("--writer NAME", "Name of the writer; goes with --batch.")
]
BatchName: TypeAlias = Annotated[
    str | None,
    option("--batch NAME", "Id of this batch of the writer; a repeated one does nothing."),
]
TimeColumn: TypeAlias = Annotated[
    str | None, option("--time COLUMN", "Name of the time column, if it is ambiguous.")
]
TimeFormat: TypeAlias = Annotated[
    str | None,
    option(
        "--time-format FORMAT",
        "Format of the time: iso, posix (seconds), millis, micro, nano, or a pattern such as dd/MM/yyyy.",
        complete=complete_word("iso", "posix", "millis", "micro", "nano"),
    ),
]
TimeDefault: TypeAlias = Annotated[
    str | None,
    option(
        "--time-default TIME",
        "ISO 8601 time of rows that have none; without a column of times, of all rows.",
    ),
]
SpecOut: TypeAlias = Annotated[
    str | None,
    option(
        "--spec-out FILE",
        "Write the spec that the rows are read by, as YAML (JSON if the name ends so).",
    ),
]


def is_spec(name: str) -> bool:
    """Whether a file is a spec, by its name and contents; otherwise it is rows.

    A spec is standard input (`-`), SQL, or YAML or JSON that is one object with a field of a spec at its top. JSON of
    several lines with an object each is rows, whatever their fields; so is one object without such a field, and a
    folder.
    """
    if name == "-":
        return True
    if not name.lower().endswith(_SPEC_SUFFIXES):
        return False
    if not name.lower().endswith(".json"):
        return True
    from carnac.cli.specfiles import read_text
    from carnac.specs.load import parse_text

    if not _is(Path.is_file, name):
        return not (_is(Path.is_dir, name) or set(name) & set("*?[") or "://" in name)
    try:
        found = parse_text(read_text(name))
    except CarnacError:
        with Path(name).open("rb") as stream:
            head = stream.readline(LINE_MAX_BYTES).decode(errors="replace")
        if _is_object(head):
            return False
        return any(f'"{field}"' in head for field in ("dataSource", "spec")) or head.strip() == "{"
    return isinstance(found, dict) and bool(_SPEC_FIELDS & found.keys())


def _is(kind: Callable[[Path], bool], name: str) -> bool:
    """Whether a name is that of a file or a folder; one that is too long for a name is not."""
    try:
        return kind(Path(name))
    except OSError:
        return False


def _is_object(line: str) -> bool:
    from carnac.core.json_text import parse_json

    try:
        return isinstance(parse_json(line, "line"), dict)
    except CarnacError:
        return False


def refuse_beside_spec(source: str, *options: object) -> None:
    """Refuse options that are for rows without a spec.

    Raises:
        Invalid: One is given.
    """
    if any(options):
        raise Invalid(
            f"{source} is a spec, which says datasource and time itself; --datasource, --time… and --spec-out are for"
            " files of rows",
            spec=source,
        )


def hints_of(column: str | None, time_format: str | None, default: str | None) -> dict[str, object]:
    """Return what the options say of the time, as `time=` takes it."""
    said = {"column": column, "format": time_format, "missingValue": default}
    return {name: value for name, value in said.items() if value is not None}


def files_of(datasource: str, files: list[str] | None) -> list[str]:
    """Return the files that stand after a datasource's name.

    Raises:
        Invalid: There are none, or a file stands where the datasource is named.
    """
    from carnac.specs.ingest.inference import datasource_of

    if files and (datasource in files or not _is(Path.is_file, datasource)):
        return files
    names = [datasource, *(files or ())]
    if not _is(Path.is_file, datasource):
        raise Invalid(f"no file is named; say which: carnac append {quote(datasource)} FILE...")
    raise Invalid(
        f"{datasource} is a file; name the datasource before it:"
        f" carnac append {join([datasource_of(datasource), *names])}"
    )


def ask_and_load(
    session: Session, time: dict[str, object], load: Callable[[dict[str, object] | None], T]
) -> T:
    """Return the outcome of `load`; where it needs an answer and somebody sits at a terminal, ask and load again.

    A question is asked again, with the reason, if its answer cannot be right.

    Raises:
        Ambiguous: Nobody can be asked.
        WrongTime: An option of the command line cannot be right, or none of `ANSWERS_MAX` answers can.
    """
    from carnac.specs.ingest.inference import Ambiguous, WrongTime

    asked: Ambiguous | None = None
    option, wrong = "", 0
    for _ in range(QUESTIONS_MAX * ANSWERS_MAX):
        try:
            return load(time or None)
        except Ambiguous as error:
            if not session.is_at_terminal:
                raise
            asked, wrong = error, 0
        except WrongTime as error:
            wrong += 1
            if asked is None or wrong == ANSWERS_MAX:
                raise
            del time[option]
            session.output.warning(error.message)
        answer = _ask(asked)
        is_time = asked.takes_time and re.match(r"\d{4}-", answer)
        option = "missingValue" if is_time else asked.option
        time[option] = answer
    return load(time or None)


def _ask(asked: Ambiguous) -> str:
    choices = asked.choices
    shown = "".join(f"\n  {number}  {one}" for number, one in enumerate(choices, start=1))
    answers = "number or name, or one time for all rows (2024-01-01)"
    text = f"{asked.question}?{shown}\n{answers if asked.takes_time else 'number or name'}"
    answer = str(typer.prompt(text, err=True)).strip()
    number = int(answer) if answer.isdecimal() else 0
    return choices[number - 1] if 0 < number <= len(choices) else answer


def show_plan(session: Session, plan: LoadPlan, *, spec_out: str | None) -> None:
    """Say in three lines how rows will be read if nobody said so; keep the spec if asked to."""
    if plan.inferred is not None:
        for line in plan_lines(plan.inferred, plan.spec.datasource):
            session.output.note(line)
        for becomes in dict.fromkeys(one.becomes for one in plan.inferred.columns if one.becomes):
            names = [one.name for one in plan.inferred.columns if one.becomes == becomes]
            session.output.warning(f"{becomes}: {first_of(names, COLUMNS_SHOWN)}")
    if spec_out is not None:
        as_json = spec_out.lower().endswith(".json")
        text = spec_text(plan.spec.to_json_dict(), as_json=as_json)
        write_named(Path(spec_out), text, overwrite=False)


def plan_lines(inferred: Inferred, datasource: str) -> list[str]:
    """Return the three lines that an inferred spec is shown in."""
    block = inferred.block
    timestamp = block["timestampSpec"]
    time = f"{timestamp['column']} ({timestamp.get('format', 'typed')})"
    if timestamp["column"] not in {one.name for one in inferred.columns}:
        time = f"{timestamp['missingValue']} for all rows"
    elif "missingValue" in timestamp:
        time += f", {timestamp['missingValue']} where there is none"
    others = [one for one in inferred.columns if one.name != timestamp["column"]]
    shown = first_of([f"{one.name} {one.type}" for one in others], COLUMNS_SHOWN)
    share = "all" if inferred.is_whole else "a sample"
    read = inferred.found_format or "rows in memory"
    chunk = block["granularitySpec"]["segmentGranularity"]
    return [
        f"into {datasource}: {read}; looked at {counted(inferred.sampled_rows, 'row')}, {share}",
        f"time: {time}; a time chunk for each {'decade' if chunk == 'P10Y' else chunk}",
        f"columns: {shown}",
    ]


def spec_text(
    block: Mapping[str, object], *, as_json: bool, comments: Mapping[str, str] | None = None
) -> str:
    """Return a spec as JSON, or as YAML with comments above fields of its top."""
    import json

    import yaml

    if as_json:
        return json.dumps(block, ensure_ascii=False, indent=2) + "\n"
    lines = []
    text = yaml.safe_dump(dict(block), sort_keys=False, allow_unicode=True, default_flow_style=None)
    for line in text.splitlines():
        words = (comments or {}).get(line.partition(":")[0], "")
        lines += [*(f"# {one}" for one in words.splitlines()), line]
    return "\n".join(lines) + "\n"


def commented_spec(inferred: Inferred, paths: Sequence[str], *, as_json: bool) -> str:
    """Return the spec that files show, their paths included, each part with why it is as it is."""
    block = inferred.block
    source = {"paths": list(paths), **block.get("input", {})}
    whole = {"dataSource": block["dataSource"], "input": source, **block}
    share = "all of them" if inferred.is_whole else "a sample"
    notes = [f"{one.name}: {one.becomes}" for one in inferred.columns if one.becomes]
    comments = {
        "dataSource": "Made by carnac spec new; every field: docs/reference/spec.md",
        "input": f"As {counted(inferred.sampled_rows, 'row')} show, {share}.",
        "timestampSpec": "The column of __time. Of times without a zone: timeZone, which is UTC by default.",
        "dimensionsSpec": "\n".join(
            ["Columns and their types; the last two fields take columns that come later.", *notes]
        ),
        "granularitySpec": "A time chunk is what is replaced, deleted and compacted at once. Rollup: metricsSpec.",
    }
    return spec_text({**whole, "input": source}, as_json=as_json, comments=comments)
