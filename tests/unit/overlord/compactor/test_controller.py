"""The controller over a real store: the log followed, groups rewritten and published, states kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from carnac.bootstrap.compaction import LocalCompaction, compact_groups
from carnac.bootstrap.store import open_records
from carnac.cli.commands.compacting.control import progress_text
from carnac.core.compaction.control.manager import Capacity
from carnac.core.compaction.control.states import ChunkStatus
from carnac.core.compaction.plan.groups import CompactionGroup
from carnac.core.compaction.plan.tasks import CompactionTask
from carnac.errors import Invalid, NotFound, Unavailable
from carnac.overlord.compactor.controller import Controller
from carnac.overlord.compactor.local import LocalRunner
from carnac.ports import JobProgress
from carnac.ports.compaction import GroupEnd, RunTerms
from tests.compactions import is_settled
from tests.unit.overlord.compactor.controlled import SPEC, Desk, counts, fill
from tests.unit.store.events import append, read


def test_what_has_no_spec_is_left_alone(service: Desk) -> None:
    fill(service.store, 1, 4)
    assert service.settle() == 0
    assert counts(service.store) == [4]


def test_every_chunk_becomes_stable_and_no_row_is_lost(service: Desk) -> None:
    fill(service.store, 3, 4)
    before = read(service.store)
    service.service.put_spec(SPEC)
    service.settle()
    assert counts(service.store) == [1, 1, 1]
    assert read(service.store) == before
    states = service.service.status("events").states["events"]
    assert [state.status for state in states] == [ChunkStatus.STABLE] * 3
    assert all(state.rewritten_bytes for state in states)
    assert is_settled(service.controller)
    assert service.settle() == 0, "nothing has changed"


@pytest.mark.parametrize(
    "partitions",
    [
        {"type": "range", "partitionDimensions": ["id"], "targetRowsPerSegment": 10},
        {"type": "hashed", "partitionDimensions": ["id"], "targetRowsPerSegment": 10},
    ],
    ids=["range", "hashed"],
)
def test_what_cannot_be_cut_is_cut_once_and_let_be(
    service: Desk, partitions: dict[str, object]
) -> None:
    append(service.store, *[(7, 0)] * 40)
    append(service.store, (7, 1), (7, 2))
    before = read(service.store)
    service.service.put_spec({**SPEC, "tuningConfig": {"partitionsSpec": partitions}})
    service.settle()
    assert service.store.head().revision == 3, "it was tried once"
    assert counts(service.store) == [1], "42 rows of one id, where 10 to a segment are asked for"
    assert read(service.store) == before
    assert is_settled(service.controller)
    service.service.put_spec(
        {**SPEC, "tuningConfig": {"partitionsSpec": {**partitions, "targetRowsPerSegment": 9}}}
    )
    service.settle()
    assert service.store.head().revision == 4, "other sizes are tried"
    assert is_settled(service.controller)


def test_rows_that_never_share_a_segment_are_put_together_once_and_let_be(service: Desk) -> None:
    for number in range(9):
        append(service.store, (number, 0), query=("none", "minute", "hour")[number % 3])
    before = read(service.store)
    service.service.put_spec(SPEC)
    service.settle()
    assert counts(service.store) == [3]
    assert service.store.head().revision == 10, "one rewrite"
    assert read(service.store) == before
    (state,) = service.service.status("events").states["events"]
    assert state.status is ChunkStatus.STABLE
    assert state.reason.endswith(", of 3 kinds of rows that never share a segment")
    append(service.store, (9, 0), query="hour")
    append(service.store, (10, 0), query="hour")
    before_ids = {one.segment.segment_id for one in service.store.segments("events")}
    service.settle()
    assert counts(service.store) == [3]
    kept = before_ids & {one.segment.segment_id for one in service.store.segments("events")}
    assert len(kept) == 2, "what cannot be put together with them stays as it is"


def test_a_late_append_has_its_own_chunk_looked_at_and_no_other(service: Desk) -> None:
    fill(service.store, 5, 1)
    service.service.put_spec(SPEC)
    service.settle()
    append(service.store, (1, 50))
    assert service.settle() == 1


def test_another_controller_goes_on_where_the_last_one_was(service: Desk) -> None:
    fill(service.store, 4, 2)
    service.service.put_spec(SPEC)
    service.settle()
    append(service.store, (1, 0))
    append(service.store, (1, 1))
    service.start(partial(compact_groups, service.store))
    assert service.settle() == 2, (
        "one chunk has changed: judged once before and once after its compaction"
    )
    assert counts(service.store)[0] <= 2


def test_a_group_that_fails_rests_and_the_others_go_on(service: Desk) -> None:
    fill(service.store, 3, 4)
    service.service.put_spec({**SPEC, "smallTaskBytes": 0})
    poisoned = service.store.chunks("events")[1].interval

    def compact(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        (group,) = groups
        if group.interval == poisoned:
            return [GroupEnd(group_id=group.group_id, outcome="failed", error="disk full")]
        return compact_groups(service.store, groups)

    service.start(compact)
    service.settle()
    assert counts(service.store) == [1, 4, 1]
    state = service.service.status("events").states["events"][1]
    assert state.reason == "failed once: disk full"
    assert not is_settled(service.controller)
    service.start(partial(compact_groups, service.store))
    assert service.settle() == 0, "it rests"
    service.clock.advance_ms(60_000)
    service.settle()
    assert counts(service.store) == [1, 1, 1]


def test_a_run_that_fails_whole_is_tried_again(service: Desk) -> None:
    fill(service.store, 1, 4)
    service.service.put_spec(SPEC)

    def compact(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        raise Unavailable("spark does not answer")

    service.start(compact)
    service.settle()
    state = service.service.status("events").states["events"][0]
    assert state.failures == 1
    assert "spark does not answer" in state.reason


def test_a_spec_that_is_removed_ends_it(service: Desk) -> None:
    fill(service.store, 1, 4)
    service.service.put_spec({**SPEC, "slack": 5})
    service.settle()
    assert counts(service.store) == [4]
    service.service.remove_spec("events")
    service.settle()
    assert service.controller.conductor.datasources == ()
    with pytest.raises(NotFound, match="no compaction spec"):
        service.service.remove_spec("events")


def test_another_spec_is_followed_without_a_restart(service: Desk) -> None:
    fill(service.store, 1, 4)
    service.service.put_spec({**SPEC, "slack": 5})
    service.settle()
    service.service.put_spec(SPEC)
    service.settle()
    assert counts(service.store) == [1]


def test_the_plan_of_the_desk_says_why(service: Desk) -> None:
    fill(service.store, 2, 4)
    plan = service.service.plan("events")
    assert [one.reason.partition(";")[0] for one in plan.explain()] == [
        "4 segments where 1 would do",
        "4 segments where 1 would do",
    ]
    with pytest.raises(NotFound, match="no datasource 'clicks'"):
        service.service.plan("clicks")
    with pytest.raises(Invalid, match="allowLossy"):
        service.service.put_spec(
            {"dataSource": "events", "granularitySpec": {"queryGranularity": "hour"}}
        )


def test_the_explanation_says_how_chunks_stand_with_the_controller(service: Desk) -> None:
    """Deferred, failing, at work: what the scores alone do not say."""
    fill(service.store, 4, 4)
    service.service.put_spec({**SPEC, "smallTaskBytes": 0})
    poisoned, running, *deferred = [one.interval for one in service.store.chunks("events")][::-1]
    begun, go_on = threading.Event(), threading.Event()

    def compact(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        if groups[0].interval == poisoned:
            return [GroupEnd(group_id=groups[0].group_id, outcome="failed", error="disk full")]
        begun.set()
        assert go_on.wait(60)
        return compact_groups(service.store, groups)

    service.start(compact)
    service.controller.conductor.capacity = Capacity(tasks=2, queue_max=0)
    service.controller.run_round()
    assert begun.wait(60)
    while not any(state.failures for state in service.metadata.compaction_states("events")):
        service.runner.wait(1)
        service.controller.run_round()
    service.controller.conductor.capacity = Capacity(tasks=0, queue_max=0)
    service.controller.run_round()
    said = {one.interval: one.reason for one in service.service.plan("events").explain()}
    assert "; the controller's last try failed once: disk full; it rests until" in said[poisoned]
    assert "; task local-2 is at work on it since 2096-10-02T07:06:40Z" in said[running]
    for chunk in deferred:
        assert (
            "; the controller has deferred it: its task found no place in the queue" in said[chunk]
        )
    service.clock.advance_ms(10_000_000)
    said = {one.interval: one.reason for one in service.service.plan("events").explain()}
    assert said[poisoned].endswith("it is tried again")
    assert said[running].endswith("; but its controller gives no sign of life")
    go_on.set()


def test_what_is_too_new_does_not_depend_on_where_a_plan_looks(service: Desk) -> None:
    fill(service.store, 6, 3)
    chunks = [one.interval for one in service.store.chunks("events")]
    service.service.put_spec({**SPEC, "skipOffsetFromLatest": "P2D"})
    whole = {one.interval: one.action for one in service.service.plan("events").explain()}
    for chunk in chunks:
        (one,) = service.service.plan("events", interval=chunk).explain()
        assert one.action is whole[chunk]
    assert len(set(whole.values())) == 2, "some are, some are not"


def test_a_chunk_of_an_age_rule_is_seen_whole(service: Desk) -> None:
    fill(service.store, 3, 2)
    month = {"granularitySpec": {"segmentGranularity": "year"}, "olderThan": "P1M"}
    service.service.put_spec({**SPEC, "ageRules": [month]})
    inside = service.store.chunks("events")[1].interval
    (one,) = service.service.plan("events", interval=inside).explain()
    assert (one.segments, one.reason) == (
        6,
        "it is not wholly inside the interval that was asked for",
    )


def test_a_dimension_that_no_segment_has_is_null_and_the_plan_says_so(service: Desk) -> None:
    fill(service.store, 1, 3)
    spec = {"type": "range", "partitionDimensions": ["di", "id"], "targetRowsPerSegment": 100}
    service.service.put_spec({**SPEC, "tuningConfig": {"partitionsSpec": spec}})
    before = read(service.store)
    (note,) = service.service.plan("events").notes
    assert note.startswith("no segment has dimension 'di', which the spec partitions by: it counts")
    service.settle()
    assert counts(service.store) == [1]
    assert service.store.head().revision == 4, "once"
    assert is_settled(service.controller)
    assert read(service.store) == before
    assert len(service.service.plan("events").notes) == 1
    partition = service.store.segments("events")[0].segment.partition
    assert partition is not None
    assert partition.dimensions == ("di", "id")


class Choosy(LocalRunner):
    """Takes no tasks of the datasource `clicks`."""

    def start(self, task: CompactionTask, terms: RunTerms) -> str:
        if task.datasource == "clicks":
            raise Invalid("clicks are refused")
        return super().start(task, terms)


def test_a_task_that_nobody_takes_delays_no_other(service: Desk) -> None:
    for name in ("clicks", "events"):
        for number in range(3):
            append(service.store, (number, 0), datasource=name)
        service.service.put_spec({**SPEC, "dataSource": name})
    service.runner = Choosy(partial(compact_groups, service.store), service.clock, tasks_max=2)
    service.opened.append(service.runner)
    service.controller = Controller(
        service.metadata, service.runner, service.clock, capacity=Capacity(tasks=2)
    )
    service.settle()
    assert counts(service.store) == [1]
    (refused,) = service.service.status("clicks").states["clicks"]
    assert refused.failures == 1
    assert refused.reason == "failed once: clicks are refused"
    assert service.controller.count_resting() == 1
    service.clock.advance_ms(refused.retry_at_ms - service.clock.now_ms())
    service.settle()
    (refused,) = service.service.status("clicks").states["clicks"]
    assert refused.failures == 2


def test_a_run_that_breaks_rests_and_says_how(service: Desk) -> None:
    fill(service.store, 1, 3)
    service.service.put_spec(SPEC)

    def broken(_: object, __: object) -> Sequence[GroupEnd]:
        raise ZeroDivisionError("division by zero")

    service.start(broken)
    service.settle()
    (state,) = service.service.status("events").states["events"]
    assert "should not have: ZeroDivisionError: division by zero; report this" in state.reason
    assert service.controller.count_resting() == 1


def test_the_controller_writes_down_how_it_goes(service: Desk) -> None:
    assert service.service.status().controller is None
    fill(service.store, 1, 4)
    service.service.put_spec(SPEC)
    written, go_on = threading.Event(), threading.Event()

    def compact(
        groups: Sequence[CompactionGroup], tell: Callable[[JobProgress], None]
    ) -> Sequence[GroupEnd]:
        tell(JobProgress(phase="rewrite", done=0, total=1, rows=3, eta_ms=2_000))
        written.set()
        assert go_on.wait(60)
        return compact_groups(service.store, groups)

    service.start(compact)
    service.controller.run_round()
    assert written.wait(60)
    service.controller.run_round()
    told = service.service.status().controller
    assert told is not None
    (running,) = told["running"]
    assert (running["groups"], running["rows"]) == (1, 8)
    assert running["progress"] == {
        "phase": "rewrite", "done": 0, "total": 1, "rows": 3, "eta_ms": 2_000,
    }  # fmt: skip
    assert progress_text(running).endswith(", 0 of 1 group, 3 of 8 rows, 2 s to go")
    go_on.set()
    service.settle()
    told = service.service.status().controller
    assert told is not None
    assert (told["outlook"], told["waiting"], told["running"]) == ("clear", 0, [])


def test_a_controller_that_is_gone_in_the_middle_of_its_work_is_silent(service: Desk) -> None:
    """One that waits for a long task is not: it says every ten seconds that it lives."""
    go_on = threading.Event()

    def compact(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        assert go_on.wait(60)
        return compact_groups(service.store, groups)

    def is_silent() -> bool:
        told = service.service.status().controller
        assert told is not None
        return bool(told["is_silent"])

    fill(service.store, 1, 4)
    service.service.put_spec(SPEC)
    service.start(compact)
    for _ in range(10):
        service.controller.run_round()
        assert not is_silent()
        service.clock.advance_ms(15_000)
    assert not is_silent()
    service.clock.advance_ms(100_000)  # more than a minute and three pauses
    assert is_silent()
    go_on.set()
    service.settle()
    service.clock.advance_ms(10_000_000)
    assert not is_silent(), "who has nothing to do need not say so"


def test_what_was_there_before_the_controller_is_a_backlog_that_clears(service: Desk) -> None:
    fill(service.store, 6, 4)
    service.service.put_spec({**SPEC, "maxTaskBytes": 1, "smallTaskBytes": 0})

    def slow(groups: Sequence[CompactionGroup], _: object) -> Sequence[GroupEnd]:
        service.clock.advance_ms(1_000)
        return compact_groups(service.store, groups)

    service.start(slow)
    service.controller.run_round()
    service.runner.wait(30)
    service.controller.run_round()
    told = service.service.status().controller
    assert told is not None
    assert (told["outlook"], told["arrivals_per_s"]) == ("clears", 0)
    assert told["clears_at_ms"] > told["at_ms"]
    service.settle()
    for number in range(3):
        append(service.store, (number, 0))
    service.settle()
    told = service.service.status().controller
    assert told is not None
    assert told["arrivals_per_s"] > 0, "that came while somebody looked"


def test_local_compaction_closes_what_it_opened(service: Desk) -> None:
    runner = LocalRunner(lambda _, __: [], service.clock, tasks_max=1)
    metadata = open_records(settings=service.settings, clock=service.clock)
    start = partial(Controller, metadata, runner, service.clock, capacity=Capacity())
    local = LocalCompaction(start, runner, metadata)
    first = local.controller
    local.start_anew()
    assert local.controller is not first
    local.close()
    assert runner.live() == []
