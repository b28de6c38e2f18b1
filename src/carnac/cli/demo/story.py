"""The demo's story: each step with the command that one would type, its outcome, and the time that it took."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carnac.cli.charts import make_chart
from carnac.cli.demo.checks import MONTHS_SQL, DemoCheck, compare_counts
from carnac.cli.demo.flights import DATASOURCE, DemoFiles, load_flights, make_spec, write_files
from carnac.cli.output import Output
from carnac.cli.progress import job_progress
from carnac.cli.reports import print_log
from carnac.cli.session import Session
from carnac.cli.tables import Column, bytes_text, format_seconds, number_text
from carnac.console.export import write_chart
from carnac.core.words import counted
from carnac.errors import Invalid
from carnac.named_files import make_named_folder, write_named

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports import JobReport
    from carnac.store import Store
    from carnac.store.writing.outcome import WriteOutcome

T = TypeVar("T")

MARKER = "carnac-demo.txt"
"""Lies in a folder that the demo made, and may therefore make anew."""
DELETED = "2013-09-01/2013-09-04"
DELETED_DAYS = (1, 2, 3)
STEPS = 10


@dataclass(slots=True, kw_only=True)
class StepTime:
    """The summary's line about a step."""

    title: str
    seconds: float


@dataclass(slots=True, kw_only=True)
class Story:
    """One run of the demo in a folder.

    Attributes:
        seconds: Duration of the steps told so far.
        checks: Filled by the step that checks.
    """

    session: Session
    folder: Path
    steps: list[StepTime] = field(default_factory=list)
    checks: list[DemoCheck] = field(default_factory=list)
    reports: dict[str, JobReport] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)

    @property
    def output(self) -> Output:
        """Where the story is told."""
        return self.session.output

    @property
    def picture(self) -> Path:
        """Where the picture goes."""
        return self.folder / "flights.svg"

    @property
    def is_right(self) -> bool:
        """Whether every check agrees with the source."""
        return bool(self.checks) and all(check.is_equal for check in self.checks)

    def tell(self) -> None:
        """Run the story from its beginning to its end."""
        prepare_folder(self.folder)
        flights, files = self._step(
            "Read the source and write it as files, as a source would deliver them",
            "",
            self._load,
            lambda loaded: (
                f"{number_text(loaded[0].num_rows)} flights from New York City in 2013, in "
                f"{self.folder / 'input'}; time is the clock at the gate"
            ),
        )
        with self._open() as store:
            self._write(store, files)
            self._read(store, flights)

    def say(self, text: str) -> None:
        """Tell one line of what came of a step."""
        if self.output.is_json:
            self.output.note(text)
        else:
            self.output.line(f"      {text}")

    def command_line(self, *args: str) -> str:
        """Return the line that a user would paste."""
        return f"{program()} {shlex.join([*args, '--store', str(self.folder / 'store')])}"

    def _load(self) -> tuple[pa.Table, DemoFiles]:
        flights = load_flights()
        return flights, write_files(flights, self.folder)

    def _open(self) -> Store:
        from carnac.bootstrap.store import open_store

        # This store keeps its files in its own folder; settings of deep storage are for other stores.
        settings = self.session.settings.model_copy(update={"deep_storage": None})
        return open_store(
            self.folder / "store",
            create=True,
            settings=settings,
            is_for_users=not self.session.owns_process,
        )

    def _write(self, store: Store, files: DemoFiles) -> None:
        spec = str(files.spec)
        self._ingest(store, "first", "Ingest January to November by day", [spec], files.first)
        self._ingest(
            store,
            "later",
            "Append December and 5,000 rows of November that come late",
            [spec, "--input", str(files.later)],
            files.later,
        )
        self._ingest(
            store,
            "corrected",
            "Replace July, whose distances came in kilometres, by corrected rows",
            [spec, "--input", str(files.corrected), "--replace"],
            files.corrected,
        )
        deleted = self._step(
            "Delete three days: metadata only, no file is touched",
            self.command_line("delete", DATASOURCE, "--interval", DELETED),
            lambda: store.delete(DATASOURCE, interval=DELETED, message=f"delete {DELETED}"),
            lambda outcome: (
                f"revision {outcome.revision}: {counted(outcome.segments_dropped, 'segment')} out of sight"
            ),
        )
        self.revisions["deleted"] = _revision_of(deleted)
        reverted = self._step(
            "Take the deletion back",
            self.command_line("revert", str(deleted.revision)),
            lambda: store.revert(_revision_of(deleted)),
            lambda published: f"revision {published.revision}: they are back",
        )
        self.revisions["reverted"] = reverted.revision

    def _ingest(self, store: Store, name: str, title: str, args: list[str], inputs: Path) -> None:
        messages = {
            "first": "January to November",
            "later": "December, and late rows of November",
            "corrected": "July in miles",
        }
        spec = make_spec(inputs)
        if "--replace" in args:
            spec["mode"] = "replace"

        def run() -> WriteOutcome:
            with job_progress(self.session) as on_progress:
                return store.ingest(spec, message=messages[name], on_progress=on_progress)

        command = self.command_line("ingest", *args, "-m", messages[name])
        outcome = self._step(title, command, run, _ingested)
        self.revisions[name] = _revision_of(outcome)
        if outcome.report is not None:
            self.reports[name] = outcome.report

    def _read(self, store: Store, flights: pa.Table) -> None:
        self._step(
            "Ask the same question at four revisions",
            self.command_line("sql", " ".join(MONTHS_SQL.split()), "--at", "1"),
            lambda: self._side_by_side(store),
        )
        self._step("Look at the log", self.command_line("log"), lambda: self._log(store))
        self._step(
            "Check every count against the source",
            self.command_line("verify"),
            lambda: self._check(store, flights),
        )
        self._step(
            "Draw the time chunks and segments",
            self.command_line("picture", DATASOURCE, "-o", str(self.picture)),
            lambda: write_chart(make_chart(store, DATASOURCE), self.picture),
            lambda _: f"{self.picture} ({bytes_text(self.picture.stat().st_size)})",
        )

    def _side_by_side(self, store: Store) -> None:
        chosen = [self.revisions[name] for name in ("first", "later", "deleted", "reverted")]
        answers = {
            revision: {row["month"]: row for row in store.sql(MONTHS_SQL, at=revision).rows()}
            for revision in chosen
        }
        if self.output.is_json:
            return
        columns = [Column("month", is_number=True)]
        for revision in chosen:
            columns += [
                Column(f"flights @{revision}", is_number=True),
                Column(f"miles @{revision}", is_number=True),
            ]
        months = sorted({month for rows in answers.values() for month in rows}, key=str)
        rows = []
        for month in sorted(months, key=lambda value: int(str(value))):
            cells = [str(month)]
            for revision in chosen:
                row = answers[revision].get(month)
                cells += ["", ""] if row is None else [_whole(row["flights"]), _whole(row["miles"])]
            rows.append(cells)
        self.output.table(columns, rows)

    def _log(self, store: Store) -> None:
        if not self.output.is_json:
            print_log(self.output, store.log(), store.tags())

    def _check(self, store: Store, flights: pa.Table) -> None:
        self.checks = compare_counts(
            store,
            flights,
            self.revisions,
            deleted_days=DELETED_DAYS,
            later=self.reports["later"],
        )
        if self.output.is_json:
            return
        self.output.table(
            "check | in Carnac# | in the source# | ",
            [
                [
                    check.name,
                    number_text(check.in_store),
                    number_text(check.in_source),
                    "equal" if check.is_equal else "DIFFERENT",
                ]
                for check in self.checks
            ],
        )

    def _step(
        self, title: str, command: str, run: Callable[[], T], tell: Callable[[T], str] | None = None
    ) -> T:
        number = len(self.steps) + 1
        heading = f"[{number}/{STEPS}] {title}"
        if self.output.is_json:
            self.output.note(heading)
        else:
            self.output.line()
            self.output.line(self.output.style(heading, "bold"))
            if command:
                self.output.line(self.output.style(f"      $ {command}", "cyan"))
        started_ms = self.session.clock.now_ms()
        result = run()
        seconds = (self.session.clock.now_ms() - started_ms) / 1000
        self.steps.append(StepTime(title=title, seconds=seconds))
        told = "done" if tell is None else tell(result)
        self.say(f"{told}; took {format_seconds(seconds)}")
        return result


def prepare_folder(folder: Path) -> None:
    """Make the folder empty, if it is the demo's own.

    Raises:
        Invalid: It holds something else, or cannot be made.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise Invalid(f"{folder} holds files that are not the demo's; give another with --keep")
    if folder.exists():
        shutil.rmtree(folder)
    make_named_folder(folder)
    text = (
        "This folder was made by `carnac demo`, which may make it anew. Delete it when you like.\n"
    )
    write_named(folder / MARKER, text)


def program() -> str:
    """Return what to type for `carnac` in this shell, so that lines can be pasted."""
    script = Path(sys.executable).parent / "carnac"
    found = shutil.which("carnac")
    if found is not None and Path(found) == script:
        return "carnac"
    if script.is_file():
        near = script.is_relative_to(Path.cwd())
        return shlex.quote(os.path.relpath(script) if near else str(script))
    return f"{shlex.quote(sys.executable)} -m carnac"


def _ingested(outcome: WriteOutcome) -> str:
    report = outcome.report
    if report is None:
        return f"published before, as revision {outcome.revision}"
    replaced = f", {outcome.segments_dropped} replaced" if outcome.segments_dropped else ""
    return (
        f"revision {outcome.revision}: {counted(report.rows_written, 'row')} in "
        f"{counted(outcome.segments_added, 'segment')}, {bytes_text(report.size_bytes)}{replaced}, "
        f"{number_text(report.rows_late)} late, {number_text(report.rejected.count)} rejected"
    )


def _revision_of(outcome: WriteOutcome) -> int:
    if outcome.revision is None:
        raise Invalid("a step of the demo published nothing; give an empty folder with --keep")
    return outcome.revision


def _whole(value: object) -> str:
    return number_text(round(float(str(value))))
