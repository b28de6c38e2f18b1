"""Appends late rows to time chunks that are being compacted, under three ways of locking, on real Spark tasks.

Tells what each costs: compactions revoked, bytes written for nothing, appends that waited, time until every chunk is
compacted; and checks that every row is there exactly once. Exits with 1 if segment locks or the default delay an append
or revoke a compaction, or if a row is missing or doubled.

    python -m benchmarks.late_data [--keep DIR] [--appends 40] [--rows 100000] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.late_data.report import late_document, print_late_report, write_picture
from benchmarks.late_data.stream import LateDataProof, Scale
from carnac.cli.demo.story import prepare_folder
from carnac.cli.session import Session
from carnac.errors import CarnacError


def main(arguments: Sequence[str]) -> int:
    """Run the stream under each way of locking; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, default=Path("demo-output-locks"))
    parser.add_argument("--appends", type=int, default=40)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    session = Session(wants_json=options.json)
    try:
        return _run(session, options.keep, Scale(rows=options.rows, appends=options.appends))
    except CarnacError as error:
        return session.show_failure(error)


def _run(session: Session, folder: Path, scale: Scale) -> int:
    prepare_folder(folder)
    output = session.output
    say = output.note if output.is_json else output.line
    proof = LateDataProof(session.settings, folder / "store", session.clock, scale=scale, say=say)
    runs = proof.run()
    picture = write_picture(runs, proof.chunks, scale, folder / "late-data.svg")
    if output.is_json:
        output.json(late_document(runs, picture))
    else:
        print_late_report(output, runs, picture)
    return 0 if all(run.is_right for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
