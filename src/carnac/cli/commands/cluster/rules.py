"""`rules show | set`: how many copies of segments historicals hold, in which tiers, and what is dropped."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from carnac.cli.app import RUN, add_group, command
from carnac.cli.completion.values import complete_datasource
from carnac.cli.options import Message, argument, flag
from carnac.cli.session import Session
from carnac.cli.tables import columns_of, second_ms
from carnac.core.json_form import some_of
from carnac.core.json_text import parse_json
from carnac.core.texts import at_most, short
from carnac.core.time.intervals import format_ms
from carnac.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carnac.cli.output import Output
    from carnac.metadata.store import MetadataStore
    from carnac.ports.serving import RuleChange

DEFAULT = "_default"
HISTORY_SHOWN = 25

_COLUMNS = columns_of("datasource! | type! | of | copies")

add_group("rules", "Load rules: which segments historicals hold, and what is dropped.", panel=RUN)

Datasource = Annotated[
    str,
    argument(
        "DATASOURCE",
        "The datasource; _default applies to all, after their own rules.",
        complete=complete_datasource,
    ),
]


@command(
    "rules show",
    panel=RUN,
    examples=["carnac rules show", "carnac rules show flights --history"],
)
def show(
    session: Session,
    datasource: Annotated[
        str | None,
        argument(
            "DATASOURCE",
            "Only the rules that apply to this datasource.",
            complete=complete_datasource,
        ),
    ] = None,
    has_history: Annotated[
        bool, flag("--history", "Show the changes: author, time and reason.")
    ] = False,
) -> None:
    """Show load rules in the order of matching: a datasource's own, then _default. The first match counts.

    A datasource that does not exist yet has rules too: those that will apply to it.
    """
    output = session.output
    with session.open_records() as metadata:
        if has_history:
            _show_history(output, metadata.rule_history(datasource, limit=HISTORY_SHOWN + 1))
            return
        rules = _rules_of(output, metadata, datasource)
        _warn_of_unknown(output, metadata, datasource)
    if output.is_json:
        output.json({"rules": rules})
        return
    output.table(
        _COLUMNS, [[name, *_cells(rule)] for name, listed in rules.items() for rule in listed]
    )


def _show_history(output: Output, found: Sequence[RuleChange]) -> None:
    changes = found[:HISTORY_SHOWN]
    if len(found) > len(changes):
        output.note(
            f"the newest {HISTORY_SHOWN} changes; a coordinator has all: GET "
            "/druid/coordinator/v1/rules/history?count=1000"
        )
    if output.is_json:
        listed = [
            {"at": format_ms(one.at_ms), **some_of(one, "datasource author comment rules")}
            for one in changes
        ]
        output.json({"changes": listed})
        return
    rows = [
        [second_ms(one.at_ms), one.datasource, one.author, one.comment, one.rules]
        for one in changes
    ]
    output.table("time (UTC)! | datasource | author | comment | rules~", rows)
    if not rows:
        output.note("no rules have been set; carnac rules set sets some")


@command(
    "rules set",
    panel=RUN,
    examples=[
        """carnac rules set flights '[{"type": "loadForever", "tieredReplicants": {"_default_tier": 1}}]'""",
        "carnac rules set _default rules.json -m 'a month is enough'",
        "carnac rules set flights '[]'",
    ],
)
def set_rules(
    session: Session,
    datasource: Datasource,
    rules: Annotated[
        str,
        argument(
            "RULES",
            "Druid's JSON list of rules, or a file with one, - for standard input; [] removes them.",
        ),
    ],
    message: Message = "",
) -> None:
    """Set the load rules of a datasource, or those for all. A drop rule deletes what it matches, by a commit."""
    from carnac.coordinator.rules import rules_text

    text = rules_text(parse_json(_read(rules), "list of rules"))
    with session.open_records() as metadata:
        metadata.put_rules(
            datasource, None if text == "[]" else text, author=_author(), comment=message
        )
        _warn_of_unknown(session.output, metadata, datasource)
    kept = json.loads(text)
    _warn_of_drops(session.output, kept)
    if session.output.is_json:
        session.output.json({"datasource": datasource, "rules": kept})
    elif kept:
        types = ", ".join(str(one["type"]) for one in kept)
        session.output.line(f"{datasource}: {types}")
    else:
        session.output.line(f"{datasource} has no rules of its own now")


def _warn_of_drops(output: Output, rules: Sequence[dict[str, Any]]) -> None:
    if any(str(one["type"]).startswith("drop") for one in rules):
        output.warning(
            "a drop rule deletes the data that it matches, by a commit of the coordinator; carnac revert takes it "
            "back once the rule is gone"
        )


def _warn_of_unknown(output: Output, metadata: MetadataStore, datasource: str | None) -> None:
    """Say that a datasource of rules has no segments: its rules may come first, as Druid's may, or it is misspelt."""
    if datasource not in {None, DEFAULT, *(info.name for info in metadata.datasources())}:
        output.warning(
            f"there is no datasource '{datasource}' now; its rules hold once it is there"
        )


def _rules_of(
    output: Output, metadata: MetadataStore, datasource: str | None
) -> dict[str, list[dict[str, Any]]]:
    """Return the rules in force by datasource; those that cannot be read are left out, as coordinators do."""
    from carnac.coordinator.rules import rules_in_force

    found = rules_in_force(
        metadata.rules(),
        lambda name, why: output.warning(f"the rules of '{name}' are left out: {why}"),
    )
    return {
        name: rules
        for name, rules in found.items()
        if datasource in {None, name} or name == DEFAULT
    }


def _cells(rule: dict[str, Any]) -> list[str]:
    what = str(rule.get("interval") or rule.get("period") or "")
    if rule.get("includeFuture"):
        what += " and the future"
    copies = rule.get("tieredReplicants") or {}
    return [
        str(rule["type"]),
        what,
        ", ".join(f"{count} in {tier}" for tier, count in copies.items()),
    ]


def _read(rules: str) -> bytes:
    if rules == "-":
        stdin: BinaryIO = sys.stdin.buffer
        return at_most(stdin.read, "the list of rules")
    if not rules or rules.lstrip().startswith(("[", "{")):
        return rules.encode()
    try:
        with Path(rules).open("rb") as stream:
            return at_most(stream.read, f"rules {short(rules)}")
    except OSError as error:
        raise NotFound(
            f"rules {rules} cannot be read: {error.strerror}; give a JSON list, or a file that holds one"
        ) from None


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have
        return ""
