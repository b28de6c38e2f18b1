"""`spec check`: is a spec right, and what does Carnac make of it?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from carnac.cli.app import WRITING, add_group, command, session_of
from carnac.cli.options import AsJson
from carnac.cli.plans import plan_facts, plan_json
from carnac.cli.specfiles import load_spec_file

add_group("spec", "Ingestion specs, before anything is run.", panel=WRITING)


@command(
    "spec check",
    panel=WRITING,
    examples=["carnac spec check flights.json", "carnac spec check - < wikipedia.json"],
)
def check(
    ctx: typer.Context,
    spec: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="JSON or YAML; - is standard input.", show_default=False
        ),
    ],
    native: Annotated[
        bool,
        typer.Option("--native", help="Print the spec in Carnac's own form, as JSON.", metavar=""),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a spec and say what it would do. No store, no input and no Spark is needed.

    All mistakes are named at once. Fields of a Druid spec that have no effect here are listed.
    """
    session = session_of(ctx)
    loaded = load_spec_file(spec)
    if native:
        session.output.line(json.dumps(loaded.to_json_dict(), ensure_ascii=False, indent=2))
    elif as_json:
        session.output.json({"ok": True, **plan_json(loaded)})
    else:
        session.output.facts(plan_facts(loaded))
        session.output.line("the spec is right")
