"""How `carnac compact` ends when something went wrong: with which words, and which exit code."""

from __future__ import annotations

import pytest
import typer

from carnac.cli.commands.compacting.compact import error_lines, exit_by, print_rest, waits_text
from carnac.cli.session import Session
from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget, GroupKind
from carnac.core.time.intervals import parse_interval
from carnac.errors import CarnacError, Conflict, Corrupt, Invalid, Unavailable
from carnac.store.compacting.reports import GroupOutcome, GroupReport


def report(error: CarnacError | None) -> GroupReport:
    group = CompactionGroup(
        group_id="g",
        datasource="events",
        kind=GroupKind.MAJOR,
        interval=parse_interval("2013-01-01/P1D"),
        target=CompactionTarget(),
    )
    outcome = GroupOutcome.COMMITTED if error is None else GroupOutcome.FAILED
    return GroupReport(group=group, outcome=outcome, error=error)


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([Conflict("taken away")], Conflict.exit_code),
        ([Conflict("taken away"), None, Invalid("wrong")], Invalid.exit_code),
        ([Corrupt("damaged"), Conflict("taken away")], Corrupt.exit_code),
        ([Invalid("wrong"), Corrupt("damaged"), None, Unavailable("busy")], Corrupt.exit_code),
    ],
)
def test_a_group_that_failed_fails_the_command(errors: list[CarnacError | None], code: int) -> None:
    with pytest.raises(typer.Exit) as caught:
        exit_by([report(error) for error in errors])
    assert caught.value.exit_code == code


def test_without_a_failure_it_goes_on() -> None:
    exit_by([report(None)])


def test_the_same_words_are_one_line_and_many_lines_are_cut() -> None:
    assert error_lines([("a", "full"), ("b", "gone"), ("c", "full"), ("d", "full")]) == [
        "a and 2 more: full",
        "b: gone",
    ]
    lines = error_lines((f"g{number}", f"why {number}") for number in range(25))
    assert (len(lines), lines[-1]) == (21, "5 more; see --json")


def test_what_rests_after_a_failure_is_not_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(wants_json=False, owns_process=False)
    print_rest(session, 3, 0, 0)
    with pytest.raises(typer.Exit) as caught:
        print_rest(session, 3, 1_500, 1, Corrupt.exit_code)
    assert caught.value.exit_code == Corrupt.exit_code
    clean, failed = capsys.readouterr().out.splitlines()
    assert clean == "nothing is left to compact; 3 groups committed"
    assert failed == (
        "1 time chunk failed and will be tried again later (carnac compaction status says why); "
        "3 groups committed, 1.5 kB written for nothing"
    )


def test_of_many_tasks_that_one_waits_for_the_first_are_named() -> None:
    names = {f"task {number}": f"T{number}" for number in range(1, 63)}
    assert waits_text([], names) == ""
    assert waits_text(["task 1", "task 2", "task 3"], names) == "T1 T2 T3"
    assert waits_text(list(names), names) == "T1 T2 T3 and 59 more"
