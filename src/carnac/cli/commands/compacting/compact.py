"""`compact`: plan what should be folded, say why, and do it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carnac.cli.app import TIDY, command
from carnac.cli.options import DatasourceIfAny, DryRun, IntervalText, flag, option
from carnac.cli.progress import job_progress
from carnac.cli.session import Session
from carnac.cli.signals import Stopped
from carnac.cli.tables import (
    bytes_text,
    columns_of,
    counted,
    format_seconds,
    interval_text,
    number_text,
)
from carnac.core.json_form import some_of, to_json
from carnac.core.time.intervals import Interval
from carnac.core.words import first_of
from carnac.errors import Invalid, Unavailable, gravest

if TYPE_CHECKING:
    from carnac.bootstrap.compaction import LocalCompaction
    from carnac.core.compaction.plan.planning import CompactionPlan, Explanation
    from carnac.core.compaction.plan.tasks import CompactionTask
    from carnac.specs.compaction.spec import CompactionSpec
    from carnac.store.compacting.reports import CompactionReport, GroupReport

EXPLANATIONS_SHOWN_MAX = 1_000
"""More lines than this are not read; `--interval` chooses."""
ERRORS_SHOWN_MAX = 20
AFTER_SHOWN_MAX = 3
TASK_COLUMNS = columns_of(
    "task | interval! | groups# | segments# | becomes# | size# | priority# | cost# | color | after"
)
REASON_COLUMNS = columns_of("chunk! | segments# | size# | score | priority# | task | reason~")


@command(
    "compact",
    panel=TIDY,
    examples=[
        "carnac compact flights --dry-run",
        "carnac compact flights --explain --interval 2013-02-01/2013-03-01",
        "carnac compact flights",
        "carnac compact --auto --until-stable",
    ],
)
def compact(
    session: Session,
    datasource: DatasourceIfAny = None,
    *,
    interval: IntervalText = None,
    spec: Annotated[
        Path | None, option("--spec FILE", "A compaction spec, in place of the one that is set.")
    ] = None,
    dry_run: DryRun = False,
    explain: Annotated[bool, flag("--explain", "Give the reason for every time chunk.")] = False,
    auto: Annotated[
        bool, flag("--auto", "Keep what has a compaction spec compacted, until stopped.")
    ] = False,
    until_stable: Annotated[
        bool, flag("--until-stable", "With --auto: end when nothing is left.")
    ] = False,
) -> None:
    """Fold small segments to large ones. Ingestion never waits for it, and no row is lost or doubled.

    Without options: plan, compact, report. Time chunks that need no compaction are left as they are; --explain says
    why. Each group of segments is proved and published alone, so finished groups stay; if one fails, so does the
    command. A task's cost is the bytes that it reads, plus some for each segment and group.
    """
    if auto:
        if dry_run or explain or interval is not None or spec is not None:
            raise Invalid("--auto follows the specs that are set; give no other options")
        _run_auto(session, datasource, until_stable=until_stable)
        return
    if until_stable:
        raise Invalid("--until-stable goes with --auto")
    if datasource is None:
        raise Invalid("say which datasource to compact, or --auto for all that have a spec")
    from carnac.core.time.intervals import parse_interval

    session.interruption.publishes = not (dry_run or explain)
    asked = None if interval is None else parse_interval(interval)
    plan = _plan(session, datasource, asked, _read_spec(spec, datasource))
    if explain:
        _print_reasons(session, plan, asked)
    elif dry_run:
        _print_plan(session, plan, asked)
    else:
        _run(session, plan, asked)


def _read_spec(path: Path | None, datasource: str) -> CompactionSpec | None:
    if path is None:
        return None
    from carnac.cli.specfiles import read_text
    from carnac.specs.compaction.spec import load_compaction

    found = load_compaction(read_text(str(path)), name=str(path))
    if found.datasource != datasource:
        raise Invalid(f"spec {path} is about {found.datasource}, not {datasource}")
    return found


def _plan(
    session: Session, datasource: str, interval: Interval | None, spec: CompactionSpec | None
) -> CompactionPlan:
    from carnac.bootstrap.compaction import open_compaction

    with open_compaction(settings=session.settings, clock=session.clock) as service:
        return service.plan(datasource, interval=interval, spec=spec)


def _print_plan(session: Session, plan: CompactionPlan, interval: Interval | None) -> None:
    output = session.output
    if output.is_json:
        output.json({"dry_run": True, **plan_json(plan)})
        return
    if not plan.tasks:
        output.line(_nothing(plan, interval))
        _print_notes(session, plan)
        return
    names = {task.task_id: f"T{index}" for index, task in enumerate(plan.tasks, 1)}
    output.table(
        TASK_COLUMNS,
        [
            [
                names[task.task_id],
                interval_text(Interval(task.chunks[0].start_ms, task.chunks[-1].end_ms)),
                number_text(len(task.groups)),
                number_text(len(task.segment_ids)),
                number_text(task.segments_out),
                bytes_text(task.size_bytes),
                f"{task.priority:.2f}",
                bytes_text(task.cost),
                task.color,
                waits_text(task.after, names),
            ]
            for task in plan.tasks
        ],
    )
    output.note(_sum(plan))
    _print_notes(session, plan)


def waits_text(after: Sequence[str], names: dict[str, str]) -> str:
    """Return which tasks one waits for; of many the first ones."""
    return first_of([names[one] for one in after], AFTER_SHOWN_MAX, by=" ")


def _print_notes(session: Session, plan: CompactionPlan) -> None:
    for note in plan.notes:
        session.output.warning(note)


def _print_reasons(session: Session, plan: CompactionPlan, interval: Interval | None) -> None:
    names = {task.task_id: f"T{index}" for index, task in enumerate(plan.tasks, 1)}
    reasons = plan.explain(interval)
    if session.output.is_json:
        session.output.json(
            {**plan_json(plan), "chunks": [_reason_json(one, names) for one in reasons]}
        )
        return
    if not reasons:
        session.output.line(_nothing(plan, interval))
        return
    shown = reasons[:EXPLANATIONS_SHOWN_MAX]
    session.output.table(
        REASON_COLUMNS,
        [
            [
                interval_text(one.interval),
                number_text(one.segments),
                bytes_text(one.size_bytes),
                str(one.action or "gap"),
                f"{one.priority:.2f}" if one.priority else "",
                names.get(one.task_id or "", ""),
                one.reason,
            ]
            for one in shown
        ],
    )
    if len(shown) < len(reasons):
        session.output.note(
            f"{number_text(len(reasons) - len(shown))} more; choose with --interval"
        )
    session.output.note(_sum(plan) if plan.tasks else _nothing(plan, interval))
    _print_notes(session, plan)


def _nothing(plan: CompactionPlan, interval: Interval | None) -> str:
    if not plan.chunks and interval is not None:
        return (
            f"nothing to compact: {plan.datasource} has no time chunk in {interval_text(interval)}"
        )
    chunks = counted(len(plan.chunks), "time chunk")
    text = f"nothing to compact: {chunks} of {plan.datasource}, each left as it is"
    outside = sum(not interval.contains(one.interval) for one in plan.chunks) if interval else 0
    if outside:
        text += f"; {number_text(outside)} not wholly inside of the interval that was asked for"
    return text


def _sum(plan: CompactionPlan) -> str:
    count = sum(1 for one in plan.chunks if plan.task_of(one.interval) is None)
    kept = counted(count, "time chunk")
    rest = f"; {kept} left as {'it is' if count == 1 else 'they are'}" if count else ""
    segments = sum(len(task.segment_ids) for task in plan.tasks)
    size_bytes = sum(task.size_bytes for task in plan.tasks)
    out = sum(task.segments_out for task in plan.tasks)
    return (
        f"{counted(len(plan.tasks), 'task')} at revision {plan.revision}: {counted(segments, 'segment')} of "
        f"{bytes_text(size_bytes)} would become about {number_text(out)}{rest}"
    )


def plan_json(plan: CompactionPlan) -> dict[str, object]:
    """Return the tasks of a plan as plain values."""
    names = {task.task_id: f"T{index}" for index, task in enumerate(plan.tasks, 1)}
    tasks = [_task_json(task, names) for task in plan.tasks]
    return {**some_of(plan, "datasource revision notes"), "tasks": tasks}


def _task_json(task: CompactionTask, names: dict[str, str]) -> dict[str, object]:
    return {
        "task": names[task.task_id],
        "after": [names[one] for one in task.after],
        "priority": round(task.priority, 6),
        **some_of(task, "color cost size_bytes rows segments_out"),
        "groups": [
            {"segments": list(one.segment_ids), **some_of(one, "kind interval size_bytes")}
            for one in task.groups
        ],
    }


def _reason_json(one: Explanation, names: dict[str, str]) -> dict[str, object]:
    return {
        "score": to_json(one.action),
        "priority": round(one.priority, 6),
        "task": names.get(one.task_id or ""),
        **some_of(one, "interval segments size_bytes reason"),
    }


def _run(session: Session, plan: CompactionPlan, interval: Interval | None) -> None:
    if not plan.tasks:
        if session.output.is_json:
            _print_reports(session, plan, [])
        else:
            session.output.line(_nothing(plan, interval))
        _print_notes(session, plan)
        return
    _print_notes(session, plan)
    with session.open_store() as store, job_progress(session, unit="groups") as on_progress:
        reports = [
            store.compact(
                [group for task in turn for group in task.groups],
                message=f"compact {plan.datasource}",
                on_progress=on_progress,
            )
            for turn in turns_of(plan.tasks)
        ]
    _print_reports(session, plan, reports)
    exit_by([one for report in reports for one in report.groups])


def exit_by(groups: Sequence[GroupReport]) -> None:
    """Exit with the code of the gravest thing that went wrong."""
    errors = [one.error for one in groups if one.error is not None]
    if errors:
        raise typer.Exit(gravest(errors).exit_code)


def turns_of(tasks: Sequence[CompactionTask]) -> list[list[CompactionTask]]:
    """Return the tasks in turns: those of a turn wait only for those of earlier ones."""
    turns: list[list[CompactionTask]] = []
    left, done = list(tasks), set[str]()
    while left:
        turn = [task for task in left if done.issuperset(task.after)]
        done.update(task.task_id for task in turn)
        left = [task for task in left if task.task_id not in done]
        turns.append(turn)
    return turns


def _print_reports(
    session: Session, plan: CompactionPlan, reports: Sequence[CompactionReport]
) -> None:
    groups = [one for report in reports for one in report.groups]
    counts: dict[str, int] = {}
    for one in groups:
        counts[str(one.outcome)] = counts.get(str(one.outcome), 0) + 1
    wasted = sum(one.bytes_wasted for one in groups)
    written = sum(one.bytes_out for one in groups)
    if session.output.is_json:
        session.output.json(
            {
                "datasource": plan.datasource,
                "base_revision": plan.revision,
                "outcomes": counts,
                "segments_in": sum(one.segments_in for one in groups),
                "segments_out": sum(one.segments_out for one in groups),
                "bytes_in": sum(one.bytes_in for one in groups),
                "bytes_out": written,
                "bytes_wasted": wasted,
                "seconds": sum(report.seconds for report in reports),
                "groups": [
                    {
                        **some_of(one.group, "interval kind"),
                        **some_of(one, "outcome revision segments_in segments_out"),
                        "error": None if one.error is None else one.error.message,
                    }
                    for one in groups
                ],
            }
        )
        return
    done = [one for one in groups if str(one.outcome) == "committed"]
    seconds = format_seconds(sum(report.seconds for report in reports))
    if done:
        session.output.line(
            f"compacted {plan.datasource}: {counted(sum(one.segments_in for one in done), 'segment')} became "
            f"{number_text(sum(one.segments_out for one in done))}, {bytes_text(written)} written in "
            f"{counted(len(done), 'commit')}, {seconds}"
        )
    else:
        session.output.line(f"nothing of {plan.datasource} was compacted, {seconds}")
    errors = [
        (interval_text(one.group.interval), one.error.message)
        for one in groups
        if one.error is not None
    ]
    for line in error_lines(errors):
        session.output.warning(line)
    if wasted:
        session.output.warning(f"{bytes_text(wasted)} were written for nothing")


def error_lines(errors: Iterable[tuple[str, str]]) -> list[str]:
    """Return what went wrong, by what it happened to; the same words are one line."""
    names: dict[str, list[str]] = {}
    for name, words in errors:
        names.setdefault(words, []).append(name)
    lines = []
    for words, some in names.items():
        rest = f" and {number_text(len(some) - 1)} more" if len(some) > 1 else ""
        lines.append(f"{some[0]}{rest}: {words}")
    if len(lines) > ERRORS_SHOWN_MAX:
        more = number_text(len(lines) - ERRORS_SHOWN_MAX)
        return [*lines[:ERRORS_SHOWN_MAX], f"{more} more; see --json"]
    return lines


def _run_auto(session: Session, datasource: str | None, *, until_stable: bool) -> None:
    from carnac.bootstrap.compaction import open_compaction, open_local_compaction

    with open_compaction(settings=session.settings, clock=session.clock) as service:
        if datasource is not None:
            service.check_spec(datasource)
        elif not service.specs():
            session.output.warning("no datasource has a compaction spec: carnac compaction set")
    with session.open_store(gives_way=True) as store:
        local = open_local_compaction(
            store,
            settings=session.settings,
            datasources=None if datasource is None else [datasource],
            clock=session.clock,
        )
        try:
            _rounds(session, local, until_stable=until_stable)
        except Stopped:
            local.runner.stop()
            raise
        except KeyboardInterrupt:
            running = len(local.runner.live())
            if running:
                ends = f"{counted(running, 'task')} {'ends' if running == 1 else 'end'} first"
                session.output.note(f"interrupted; {ends} (Ctrl-C again cancels)")
            raise
        finally:
            local.close()


def _rounds(session: Session, local: LocalCompaction, *, until_stable: bool) -> None:
    groups, wasted, code, trouble = 0, 0, 0, ""
    while True:
        try:
            report = local.controller.run_round()
        except Unavailable as error:
            if until_stable:
                raise
            if error.message != trouble:
                session.output.warning(error.message)
            trouble = error.message
            local.start_anew()
            session.clock.sleep_ms(session.settings.compaction_period_ms)
            continue
        controller, trouble = local.controller, ""
        for end in report.ended:
            groups += sum(one.outcome == "committed" for one in end.groups)
            wasted += sum(one.bytes_wasted for one in end.groups)
            code = max(code, *(one.exit_code for one in end.groups), 0)
            if end.error:
                session.output.warning(end.error)
            for line in error_lines((one.group_id, one.error) for one in end.groups if one.error):
                session.output.warning(line)
        for task in report.started:
            session.output.note(
                f"{task.task_id}: {counted(len(task.segment_ids), 'segment')}, "
                f"{bytes_text(task.size_bytes)}, priority {task.priority:.2f}"
            )
        is_calm = not report.started and not report.ended and controller.is_idle()
        if until_stable and is_calm and not controller.has_more():
            break
        if controller.is_idle():
            session.clock.sleep_ms(0 if until_stable else session.settings.compaction_period_ms)
        else:
            local.runner.wait(session.settings.compaction_period_ms / 1000)
    print_rest(session, groups, wasted, controller.count_resting(), code)


def print_rest(session: Session, groups: int, wasted: int, resting: int, code: int = 0) -> None:
    """Say what was done when nothing is left to do but what failed; exit with its code, or 1, if something did."""
    text = f"{counted(groups, 'group')} committed"
    if wasted:
        text += f", {bytes_text(wasted)} written for nothing"
    if session.output.is_json:
        session.output.json({"groups": groups, "bytes_wasted": wasted, "chunks_failing": resting})
    elif resting:
        chunks = counted(resting, "time chunk")
        session.output.line(
            f"{chunks} failed and will be tried again later (carnac compaction status says why); {text}"
        )
    else:
        session.output.line(f"nothing is left to compact; {text}")
    if resting:
        raise typer.Exit(code or 1)
