"""`lookups list | set | remove`: named mappings, versioned with the data."""

from __future__ import annotations

import csv
import io
from typing import Annotated, cast

from carnac.cli.app import ASK, add_group, command
from carnac.cli.completion.values import complete_lookup
from carnac.cli.options import At, Message, argument
from carnac.cli.session import Session
from carnac.cli.specfiles import read_text
from carnac.cli.tables import number_text
from carnac.core.json_text import parse_json
from carnac.core.texts import short
from carnac.core.words import counted
from carnac.errors import Invalid

add_group(
    "lookups", "Lookups: named mappings from text to text, versioned with the data.", panel=ASK
)

Name = Annotated[str, argument("NAME", "The lookup.", complete=complete_lookup)]


@command(
    "lookups list",
    panel=ASK,
    examples=["carnac lookups list", "carnac lookups list --at 3 --json"],
)
def list_lookups(session: Session, at: At = None) -> None:
    """List the lookups; with --json also their content."""
    with session.open_store() as store:
        found = store.lookups(at=at)
    if session.output.is_json:
        session.output.json({"lookups": {name: dict(found[name]) for name in sorted(found)}})
        return
    session.output.table(
        "lookup | keys#", [[name, number_text(len(found[name]))] for name in sorted(found)]
    )
    if not found:
        session.output.note("there are no lookups; carnac lookups set NAME FILE makes one")


@command(
    "lookups set",
    panel=ASK,
    publishes=True,
    examples=[
        "carnac lookups set airlines airlines.csv",
        """echo '{"UA": "United"}' | carnac lookups set airlines -""",
    ],
)
def set_lookup(
    session: Session,
    name: Name,
    file: Annotated[
        str,
        argument(
            "FILE",
            "A JSON object of texts, or CSV with a header and two columns; - is standard input.",
        ),
    ],
    message: Message = "",
) -> None:
    """Set a lookup to the mapping in a file. It is one commit, like any other change."""
    mapping = _read_mapping(file)
    with session.open_store() as store:
        published = store.set_lookup(name, mapping, message=message)
    session.output.answer(
        {"revision": published.revision, "lookup": name, "keys": len(mapping)},
        f"revision {published.revision}: lookup {name} has {counted(len(mapping), 'key')}",
    )


@command("lookups remove", panel=ASK, publishes=True, examples=["carnac lookups remove airlines"])
def remove_lookup(session: Session, name: Name, message: Message = "") -> None:
    """Remove a lookup. Earlier revisions keep it."""
    with session.open_store() as store:
        published = store.set_lookup(name, None, message=message)
    session.output.answer(
        {"revision": published.revision, "lookup": name, "keys": None},
        f"revision {published.revision}: lookup {name} is removed",
    )


def _read_mapping(file: str) -> dict[str, str]:
    text = read_text(file, "lookup")
    return _read_json(text, file) if text.lstrip().startswith("{") else _read_csv(text, file)


def _read_json(text: str, file: str) -> dict[str, str]:
    value = cast(
        "dict[str, object]", parse_json(text, f"file {file}")
    )  # the text begins with a brace
    wrong = [key for key, item in value.items() if not isinstance(item, str)]
    if wrong:
        raise Invalid(
            f"{file}: the value of '{wrong[0]}' is not a text; a lookup maps texts to texts"
        )
    return cast("dict[str, str]", value)


def _read_csv(text: str, file: str) -> dict[str, str]:
    reader = csv.reader(io.StringIO(text))
    try:
        rows = list(reader)[1:]
    except csv.Error as error:
        raise Invalid(
            f"{file}, line {reader.line_num}: {error}; mend it, or give a JSON object"
        ) from None
    mapping: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != 2:
            raise Invalid(f"{file}, line {number}: a lookup needs two columns, here are {len(row)}")
        if row[0] in mapping:
            raise Invalid(
                f"{file}, line {number}: {short(row[0])} is given more than once; keep one of them"
            )
        mapping[row[0]] = row[1]
    if not mapping:
        raise Invalid(
            f"{file} holds no mapping; give a JSON object, or CSV with a header and two columns"
        )
    return mapping
