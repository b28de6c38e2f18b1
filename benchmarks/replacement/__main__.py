"""Shows what queries see, second by second, when a server dies while segments are replaced.

Falling back to what is announced is held against rollouts of a told revision, with and without cold reads, for a server
that dies while the new segments load, right after the switch, and after the old ones were dropped. With --real the same
is done to processes, for two minutes; exits with 1 unless all their answers are right.

    python -m benchmarks.replacement [--out replacement.svg] [--real [--keep DIR]] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.replacement import Replacement, simulate_all
from benchmarks.replacement.processes import RealReplacements
from benchmarks.replacement.report import (
    courses_document,
    print_courses,
    write_replacement_picture,
)
from carnac.cli.demo.story import prepare_folder
from carnac.cli.session import Session
from carnac.console.export import check_picture
from carnac.errors import CarnacError


def main(arguments: Sequence[str]) -> int:
    """Run the experiment; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="a picture of it: .svg, .png or .html")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path("demo-output-replacement"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    session = Session(wants_json=options.json)
    try:
        return _run(session, options.out, options.keep if options.real else None)
    except CarnacError as error:
        return session.show_failure(error)


def _run(session: Session, out: Path | None, folder: Path | None) -> int:
    """Run it; with a folder, with real processes as well."""
    output = session.output
    if out is not None:
        check_picture(out)
    courses = simulate_all(Replacement())
    is_right = True
    if folder is not None:
        prepare_folder(folder)
        say = output.note if output.is_json else output.line
        real = RealReplacements(session=session, folder=folder.absolute(), say=say)
        courses += real.run()
        is_right = real.is_right
    picture = None if out is None else write_replacement_picture(courses, out)
    if output.is_json:
        output.json(courses_document(courses, picture))
    else:
        print_courses(output, courses, picture)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
