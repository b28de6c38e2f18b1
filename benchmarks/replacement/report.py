"""The report of the experiment on its courses: a table, a document for programs, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.replacement import AnswerKind
from benchmarks.replacement.picture import draw_replacements
from carnac.cli.tables import Column, columns_of, number_text
from carnac.console.export import write_chart

if TYPE_CHECKING:
    from benchmarks.replacement import Course
    from carnac.cli.output import Output


def write_replacement_picture(courses: Sequence[Course], path: Path) -> Path:
    """Draw the courses; return the path."""
    write_chart(draw_replacements(courses), path)
    return path


def print_courses(output: Output, courses: Sequence[Course], picture: Path | None) -> None:
    """Say for how many seconds queries saw what."""
    columns = columns_of("answered by | a server dies")
    columns += [Column(kind.value, is_number=True) for kind in AnswerKind]
    columns.append(Column("fewest rows", is_number=True))
    output.table(
        columns,
        [
            [
                course.way,
                course.death,
                *(number_text(course.counts[kind]) for kind in AnswerKind),
                f"{course.least_share:.0%}",
            ]
            for course in courses
        ],
    )
    output.line()
    output.line(
        "Seconds of each; fewest rows: the least share that an answer without an error had."
    )
    if picture is not None:
        output.line(f"picture: {picture}")


def courses_document(courses: Sequence[Course], picture: Path | None) -> dict[str, object]:
    """Return the same for programs, second by second."""
    return {
        "picture": None if picture is None else str(picture),
        "courses": [
            {
                "way": course.way,
                "death": course.death,
                "publishedS": course.published_s,
                "switchedS": course.switched_s,
                "droppedS": course.dropped_s,
                "diedS": course.died_s,
                "noticedS": course.noticed_s,
                "seconds": [
                    {"sees": one.kind.value, "share": round(one.share, 4)} for one in course.seconds
                ],
            }
            for course in courses
        ],
    }
