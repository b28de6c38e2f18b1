"""`receipt verify` and `why`: the foundations of an answer, and the commits that changed it since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from carnac.cli.app import ASK, add_group, command
from carnac.cli.completion.values import complete_moment
from carnac.cli.options import Parameters, argument, option, parameters_of
from carnac.cli.session import Session
from carnac.cli.specfiles import read_text
from carnac.cli.tables import Column, columns_of, second_ms
from carnac.core.json_form import some_of, to_json
from carnac.core.words import counted
from carnac.errors import Corrupt

if TYPE_CHECKING:
    from carnac.cli.output import Output
    from carnac.store.why import Answer, Number, WhyReport

add_group("receipt", "Receipts: what an answer rests on, derived again.", panel=ASK)

CHANGES_SHOWN = 200
"""Lines of `carnac why`."""


@command(
    "receipt verify",
    panel=ASK,
    examples=["carnac receipt verify answer.receipt.json"],
)
def verify(
    session: Session,
    file: Annotated[
        str,
        argument(
            "FILE",
            "A receipt with its statement, as `carnac sql --receipt` writes it; - is standard input.",
        ),
    ],
) -> None:
    """Derive a receipt again from the log and the statement, and compare: revision, segments, rows.

    A receipt of HTTP (header or trailer X-Carnac-Receipt) is verified with "statement", and "parameters" if there were
    any, added to it. Exit code 5: its revision is not kept any more; 7: it does not hold.
    """
    text = read_text(file, "receipt")
    with session.open_store() as store:
        found = store.verify_receipt(text, name=file if file != "-" else "standard input")
    for note in found.notes:
        session.output.warning(note)
    if not found.is_verified:
        raise Corrupt(
            f"the receipt does not hold: {'; '.join(found.findings)}",
            revision=found.derived.revision,
            statement_digest=found.derived.statement_digest,
            segments_digest=found.derived.segments_digest,
            rows=found.derived.rows,
            rows_digest=found.derived.rows_digest,
        )
    if session.output.is_json:
        session.output.json(
            {"verified": True, "notes": list(found.notes), "receipt": to_json(found.derived)}
        )
        return
    session.output.note(
        f"verified: revision {found.derived.revision}, {counted(found.derived.rows or 0, 'row')}, "
        f"segments {found.derived.segments_digest[:12]}…"
    )


@command(
    "why",
    panel=ASK,
    examples=[
        'carnac why "SELECT count(*) AS n, sum(dep_delay) AS s FROM flights" --from 1',
        'carnac why "SELECT carrier, count(*) AS n FROM flights GROUP BY 1" --from 1 --to 2 --json',
    ],
)
def why(
    session: Session,
    *,
    text: Annotated[
        str,
        argument(
            "SELECT", "A statement that gives one row of numbers, or counts and sums by groups."
        ),
    ],
    first: Annotated[
        str,
        option(
            "--from REVISION",
            "The earlier revision, time or tag.",
            show_default=False,
            complete=complete_moment,
        ),
    ],
    last: Annotated[
        str | None,
        option(
            "--to REVISION",
            "The later one. Default: the newest.",
            show_default=False,
            complete=complete_moment,
        ),
    ] = None,
    param: Parameters = None,
) -> None:
    """Show which commits changed a number, and by how much.

    Counts and sums are computed from only the segments that each commit added and dropped; any other number by running
    the statement at each revision that changed what it reads, at most 100.
    """
    with session.open_store() as store:
        found = store.why(text, first, last, parameters=parameters_of(text, param))
    if session.output.is_json:
        session.output.json(_why_document(found))
        return
    _print_why(session.output, found)


def _print_why(output: Output, found: WhyReport) -> None:
    columns = columns_of("revision# | time (UTC)! | kind")
    columns += [Column(name) for name in found.groups]
    columns += [Column(f"{name} by", is_number=True) for name in found.numbers]
    columns.append(Column("message", is_prose=True))
    lines = []
    for one in found.changes:
        for key, deltas in one.deltas.items():
            commit = one.commit
            told = [str(commit.revision), second_ms(commit.at_ms), commit.kind.value]
            said = commit.message or (f"{commit.writer} {commit.batch}" if commit.batch else "")
            lines.append([*told, *map(str, key), *map(_signed, deltas), said])
    output.table(columns, lines[:CHANGES_SHOWN])
    if len(lines) > CHANGES_SHOWN:
        output.warning(f"{len(lines) - CHANGES_SHOWN} more lines are in --json")
    if not found.groups:
        zeros: list[Number] = [0] * len(found.numbers)
        before, after = found.before.get((), zeros), found.after.get((), zeros)
        for name, was, now in zip(found.numbers, before, after, strict=True):
            output.note(
                f"{name}: {was} at revision {found.first_revision}, {now} at {found.last_revision}"
            )
    output.note(
        f"{len(found.changes)} of {counted(found.commits, 'commit')} that touched what it reads changed it; found "
        f"{found.way}"
    )


def _signed(value: Number) -> str:
    return f"+{value}" if value > 0 else str(value)


def _why_document(found: WhyReport) -> dict[str, object]:
    from carnac.query.export.values import to_json_value

    names = [*found.groups, *found.numbers]

    def rows(answer: Answer) -> list[dict[str, object]]:
        return [
            dict(zip(names, map(to_json_value, [*key, *values]), strict=True))
            for key, values in answer.items()
        ]

    return {
        **some_of(found, "first_revision last_revision commits way"),
        "before": rows(found.before),
        "after": rows(found.after),
        "changes": [
            {
                **some_of(one.commit, "at_ms revision kind writer batch message"),
                "by": rows(one.deltas),
            }
            for one in found.changes
        ],
    }
