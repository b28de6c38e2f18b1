"""Running command lines from tests: in this process (fast), or in one of their own (real)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carnac.bootstrap.store import open_store
from carnac.core.log.commits import Change, CommitKind, Publication
from tests.support.segments import Row, write_segment

DAYS: tuple[tuple[Row, ...], ...] = tuple(
    tuple(
        {
            "__time": f"2013-01-0{day}T{hour:02d}:30:00Z",
            "carrier": "UA" if hour % 2 else "AA",
            "delay": day * 100 + hour,
        }
        for hour in range(day + 1, 24, 4)
    )
    for day in (1, 2, 3)
)
"""Rows of three days; no row is at midnight, so that the ends of the days are visible."""
ROWS = sum(len(day) for day in DAYS)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command line gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document."""
        return json.loads(self.out)


def run_process(
    args: Sequence[str], *, cwd: Path, stdin: str | None = None, timeout: int = 240
) -> Ran:
    """Run `carnac` as a user does, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "carnac", *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def append_rows(place: Path | str, rows: Sequence[Row], *, datasource: str = "flights") -> int:
    """Publish the rows as one segment, without Spark; return the revision."""
    with open_store(place, create=True) as store:
        segment = write_segment(store.deep_storage, rows, datasource=datasource)
        change = Change(datasource=datasource, adds=(segment,))
        published = store._metadata.publish(
            Publication(kind=CommitKind.APPEND, changes=(change,), message=f"{len(rows)} rows")
        )
        return published.revision


def make_store(place: Path) -> Path:
    """Make a store with three revisions: one day of flights each."""
    for day in DAYS:
        append_rows(place, day)
    return place
