"""A small language for scenarios of compaction: commands, `----`, what comes of them.

    now TIME                              what time it is
    settings NAME=VALUE …                 target, rows, granularity, slack, skip, input, bound; task_cost, small, group,
                                          segment (costs)
    rule PERIOD NAME=VALUE …              an age rule, youngest first: granularity, query
    add CHUNK COUNT x SIZE [in INTERVAL]  segments of a time chunk; `-` is none; where their rows are
    within INTERVAL …                     only what lies in one of these is asked for
    history CHUNK ARRIVED REWRITTEN       bytes
    spans | chunks | segments | plan | explain [INTERVAL]
    run [red | TASK …]                    do tasks of the last plan

Times are written as in ISO 8601, intervals `start/end`, sizes `10MB` (10^6) or `10KB`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from carnac.core.compaction.plan.chunks import cut_chunks, find_gaps, find_spans
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.planning import CompactionPlan, plan_compaction
from carnac.core.compaction.plan.settings import AgeRule, CompactionSettings
from carnac.core.compaction.plan.target_periods import Extent, plan_target_periods
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.core.time.intervals import (
    Interval,
    IntervalSet,
    format_ms,
    interval_set,
    parse_instant,
    parse_interval,
)
from carnac.core.time.periods import parse_period
from carnac.core.words import bytes_text, counted
from tests.compactions import History, apply_tasks
from tests.support.laws.compaction import check_plan

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "B": 1}


class Desk:
    """The state of a scenario."""

    def __init__(self) -> None:
        self.now_ms = parse_instant("2026-01-31")
        target = CompactionTarget(
            target_bytes=100 * 10**6, target_rows=10**9, segment_granularity="DAY"
        )
        self.settings = CompactionSettings(target=target)
        self.segments: list[PlanSegment] = []
        self.within: IntervalSet | None = None
        self.histories: dict[Interval, History] = {}
        self.revision = 0
        self.last: CompactionPlan | None = None

    def do(self, line: str) -> list[str]:
        """Do a command; return what it says."""
        word, *rest = line.split()
        command: Callable[[list[str]], list[str]] = getattr(self, f"do_{word}")
        return command(rest)

    def do_now(self, words: list[str]) -> list[str]:
        self.now_ms = parse_instant(words[0])
        return []

    def do_settings(self, words: list[str]) -> list[str]:
        given = dict(word.split("=", 1) for word in words)
        target, cost = self.settings.target, self.settings.cost
        if "target" in given:
            target = replace(target, target_bytes=size_of(given["target"]))
        if "rows" in given:
            target = replace(target, target_rows=int(given["rows"]))
        if "granularity" in given:
            text = given["granularity"]
            target = replace(target, segment_granularity=None if text == "-" else text.upper())
        if "group" in given:
            cost = replace(cost, group_bytes=size_of(given["group"]))
        if "segment" in given:
            cost = replace(cost, segment_bytes=size_of(given["segment"]))
        self.settings = replace(self.settings, target=target, cost=cost)
        for name, field, read in (
            ("slack", "slack", int),
            ("skip", "skip_offset", parse_period),
            ("task_cost", "task_cost_max", size_of),
            ("small", "task_cost_small", size_of),
            ("bound", "write_amplification_max", float),
            ("input", "input_bytes_max", size_of),
        ):
            if name in given:
                self.settings = replace(self.settings, **{field: read(given[name])})
        return []

    def do_rule(self, words: list[str]) -> list[str]:
        given = dict(word.split("=", 1) for word in words[1:])
        target = replace(
            self.settings.target,
            segment_granularity=given["granularity"].upper(),
            query_granularity=given["query"].upper() if "query" in given else None,
        )
        rule = AgeRule(older_than=parse_period(words[0]), target=target)
        self.settings = replace(self.settings, age_rules=(*self.settings.age_rules, rule))
        return []

    def do_add(self, words: list[str]) -> list[str]:
        chunk = None if words[0] == "-" else parse_interval(words[0])
        count, size_bytes = int(words[1]), size_of(words[3])
        rows = parse_interval(words[5]) if len(words) > 4 else chunk
        assert rows is not None, "say where the rows are"
        self.revision += 1
        for _ in range(count):
            self.segments.append(
                PlanSegment(
                    segment_id=f"s{len(self.segments) + 1}",
                    start_ms=rows.start_ms,
                    end_ms=rows.end_ms,
                    size_bytes=size_bytes,
                    rows=max(size_bytes // 100, 1),
                    chunk=chunk,
                    revision=self.revision,
                )
            )
        return []

    def do_within(self, words: list[str]) -> list[str]:
        self.within = interval_set(map(parse_interval, words))
        return []

    def do_history(self, words: list[str]) -> list[str]:
        self.histories[parse_interval(words[0])] = History(
            arrived_bytes=size_of(words[1]), rewritten_bytes=size_of(words[2])
        )
        return []

    def do_spans(self, _: list[str]) -> list[str]:
        spans = find_spans(self.segments)
        starts = [(one.chunk or one).start_ms for one in self.segments]
        lines = [(one, f"span {brief(one)}: {sum(map(one.holds, starts))}") for one in spans]
        lines += [(gap, f"gap  {brief(gap)}") for gap in find_gaps(spans)]
        return [line for _, line in sorted(lines)]

    def do_chunks(self, _: list[str]) -> list[str]:
        lines = []
        for chunk in cut_chunks(self.segments, plan_target_periods(self.settings, self.now_ms)):
            marks = "<" if chunk.overlaps_prior else " ", ">" if chunk.overlaps_later else " "
            ordered = sorted(chunk.segments, key=lambda one: (one.start_ms, len(one.segment_id)))
            ids = " ".join(one.segment_id for one in ordered)
            cut = " (cut)" if chunk.extent is Extent.CUT else ""
            lines.append(f"{marks[0]} {brief(chunk.interval)} {marks[1]} {ids}{cut}")
        return lines

    def do_segments(self, _: list[str]) -> list[str]:
        ordered = sorted(
            self.segments,
            key=lambda one: (
                one.chunk or Interval(one.start_ms, one.end_ms),
                -one.size_bytes,
                one.segment_id,
            ),
        )
        return [
            f"{'-' if one.chunk is None else brief(one.chunk)} {one.segment_id} {bytes_text(one.size_bytes)}"
            for one in ordered
        ]

    def do_plan(self, _: list[str]) -> list[str]:
        self.last = made = self._plan()
        check_plan(made)
        if not made.tasks:
            return ["nothing to do"]
        lines = []
        names = {task.task_id: f"T{number}" for number, task in enumerate(made.tasks, 1)}
        for task in made.tasks:
            after = " after " + ", ".join(names[one] for one in task.after) if task.after else ""
            lines.append(
                f"{names[task.task_id]} {task.color}{after}: priority {task.priority:.2f}, "
                f"cost {bytes_text(task.cost)}"
            )
            lines += [
                f"   {group.kind} {brief(group.interval)}: "
                f"{counted(len(group.segment_ids), 'segment')}, {bytes_text(group.size_bytes)}"
                for group in task.groups
            ]
        return lines

    def do_explain(self, words: list[str]) -> list[str]:
        names = {task.task_id: f"T{n}" for n, task in enumerate(self._plan().tasks, 1)}
        return [
            f"{brief(one.interval)} {one.action or '-'}: {one.reason}"
            + (f" [{names[one.task_id]}]" if one.task_id else "")
            for one in self._plan().explain(parse_interval(words[0]) if words else None)
        ]

    def do_run(self, words: list[str]) -> list[str]:
        made = self.last or self._plan()
        tasks = in_turns(list(made.tasks))
        if words == ["red"]:
            tasks = [task for task in tasks if not task.after]
        elif words:
            tasks = [made.tasks[int(word[1:]) - 1] for word in words]
        self.segments = apply_tasks(self.segments, tasks, revision=self.revision + 1)
        self.revision += sum(len(task.groups) for task in tasks)
        self.last = None
        return [f"{counted(len(tasks), 'task')} done"]

    def _plan(self) -> CompactionPlan:
        return plan_compaction(
            "events",
            self.segments,
            self.settings,
            now_ms=self.now_ms,
            revision=self.revision,
            within=self.within,
            histories=self.histories,
        )


def in_turns(tasks: list[CompactionTask]) -> list[CompactionTask]:
    """Return tasks in an order in which they may run."""
    done: list[CompactionTask] = []
    while len(done) < len(tasks):
        names = {task.task_id for task in done}
        done += [task for task in tasks if task not in done and names.issuperset(task.after)]
    return done


def size_of(text: str) -> int:
    """Return a size: `10MB`."""
    unit = next(unit for unit in UNITS if text.endswith(unit))
    return int(float(text.removesuffix(unit)) * UNITS[unit])


def brief(interval: Interval) -> str:
    """Return an interval without what every one of the scenario has: `01-03/01-04`, `01-03T05/01-03T06`."""
    return f"{brief_ms(interval.start_ms)}/{brief_ms(interval.end_ms)}"


def brief_ms(at_ms: int) -> str:
    """Return a time without year and trailing zeros."""
    text = format_ms(at_ms)
    day, clock = text[5:10], text[11:-1]
    if clock == "00:00:00.000":
        return day
    return f"{day}T{clock.removesuffix('.000').removesuffix(':00').removesuffix(':00')}"
