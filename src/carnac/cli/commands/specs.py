"""`spec check`: is a spec right, and what does Carnac make of it? `spec new`: the one that files show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from carnac.cli.app import LOAD, add_group, command
from carnac.cli.loading import (
    Into,
    Paths,
    SpecOut,
    TimeColumn,
    TimeDefault,
    TimeFormat,
    ask_and_load,
    commented_spec,
    hints_of,
    plan_lines,
)
from carnac.cli.options import argument, flag
from carnac.cli.plans import plan_facts, plan_json
from carnac.cli.progress import job_progress
from carnac.cli.session import Session
from carnac.cli.specfiles import load_spec_file
from carnac.named_files import write_named

add_group("spec", "Ingestion specs, before anything is run.", panel=LOAD)


@command(
    "spec check",
    panel=LOAD,
    examples=["carnac spec check flights.json", "carnac spec check - < wikipedia.json"],
)
def check(
    session: Session,
    spec: Annotated[str, argument("FILE", "JSON or YAML; - is standard input.")],
    native: Annotated[
        bool, flag("--native", "Print the spec in Carnac's own form, as JSON.")
    ] = False,
    with_spark: Annotated[
        bool, flag("--spark", "Start Spark, and let it read the expressions too.")
    ] = False,
) -> None:
    """Check a spec and say what it would do. No store, no input and no Spark is needed.

    All mistakes are named at once, with file, line and field, in expressions and filters too; parts that only Spark can
    read are listed. Fields of a Druid spec that have no effect here are listed.
    """
    from carnac.specs.ingest.transforms import find_unchecked

    loaded = load_spec_file(spec)
    unchecked = find_unchecked(loaded)
    if with_spark and loaded.has_expressions:
        from carnac.bootstrap.spark import check_with_spark

        with job_progress(session):
            check_with_spark(loaded, session.settings, session.output.notice)
        unchecked = []
    if native:
        session.output.line(json.dumps(loaded.to_json_dict(), ensure_ascii=False, indent=2))
    elif session.output.is_json:
        listed = [{"path": one.path, "reason": one.message} for one in unchecked]
        session.output.json({"ok": True, **plan_json(loaded), "unchecked": listed})
    else:
        session.output.facts(plan_facts(loaded))
        for one in unchecked:
            session.output.note(f"not checked, for Spark to read (--spark): {one}")
        session.output.line(
            "the spec is right" + (", as far as it was checked" if unchecked else "")
        )


@command(
    "spec new",
    panel=LOAD,
    examples=["carnac spec new trips.csv", "carnac spec new trips.csv --spec-out trips.yaml"],
)
def new(
    session: Session,
    *,
    paths: Paths,
    datasource: Into = None,
    time: TimeColumn = None,
    time_format: TimeFormat = None,
    time_default: TimeDefault = None,
    spec_out: SpecOut = None,
) -> None:
    """Write a spec inferred from files of rows, with comments. No store and no Spark is needed.

    The spec is printed, or written to a new file with --spec-out; `carnac ingest` and `carnac append --spec` take it.
    """
    from carnac.specs.ingest.inference import datasource_of
    from carnac.store.writing.loading import infer_files

    name = datasource or datasource_of(paths[0])
    inferred = ask_and_load(
        session,
        hints_of(time, time_format, time_default),
        lambda hints: infer_files(name, paths, hints),
    )
    as_json = session.output.is_json or (spec_out or "").lower().endswith(".json")
    text = commented_spec(inferred, paths, as_json=as_json)
    if spec_out is None:
        session.output.line(text.rstrip())
        return
    write_named(Path(spec_out), text, overwrite=False)
    for line in plan_lines(inferred, name):
        session.output.note(line)
    session.output.line(f"wrote {spec_out}")
