"""No input ends a loop: whatever is submitted, by any door, and whatever a store has from before.

An overlord and the controller of compaction run beside the test, in threads, on one store; attempts are processes that
end at once. After each example a plain task must still get its attempt, health be true, and every slot be free.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from carnac.api.admission import Admission
from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.services import Services
from carnac.api.sql.kept import StatementRows
from carnac.bootstrap.compaction import CompactionLoop
from carnac.bootstrap.runners import attempt_command
from carnac.bootstrap.serving.overlord import compaction_loop, make_routers
from carnac.bootstrap.store import make_lockbox, open_files, open_records
from carnac.bootstrap.tasks import open_loop, open_tasks
from carnac.clock import RandomIds, SystemClock
from carnac.config import Settings
from carnac.errors import CarnacError
from carnac.metadata.store import MetadataStore
from carnac.overlord import TaskService
from carnac.overlord.compactor.service import CompactionService
from carnac.overlord.runners import ProcessRunner
from carnac.overlord.supervisors.service import SupervisorService
from carnac.ports.loops import Loop
from tests import hostile
from tests.tasks import wants
from tests.unit.api.conftest import InProcessClient
from tests.unit.store.events import append, fast_folder, open_stamped
from tests.waiting import until

SLOTS = 2
PLAIN = {"type": "kill", "dataSource": "events", "context": {"retries": 0}}
GROUP = {"id": "g", "dataSource": "events", "kind": "merge", "interval": [0, 1], "segments": ["s"]}
BODIES: tuple[Mapping[str, object], ...] = (
    PLAIN,
    {"type": "delete", "dataSource": "events", "interval": "2015/P1D"},
    {"type": "compact", "dataSource": "events", "id": "compaction-of-a-stranger"},
    {"type": "compact", "dataSource": "events", "id": "compaction-b", "groups": [GROUP]},
    {"type": "clean", "dataSource": "events", "groupId": "g"},
    {"type": "index", "spec": {"dataSource": "events", "input": {"type": "inline", "data": "{}"}}},
)
CONTEXT = ("priority", "slots", "retries", "retryDelayMs", "taskLockType", "sparkConf", "origin")
contexts = st.dictionaries(st.sampled_from(CONTEXT) | hostile.texts, hostile.values, max_size=3)
changes = st.fixed_dictionaries(
    {},
    optional={
        "id": hostile.texts,
        "groupId": hostile.texts,
        "dataSource": hostile.texts,
        "dependencies": st.lists(hostile.texts, max_size=2),
        "context": contexts,
        "groups": hostile.values,
        "interval": hostile.scalars,
        "spec": hostile.values,
    },
)
payloads = st.builds(lambda body, change: {**body, **change}, st.sampled_from(BODIES), changes)
compactions = st.builds(
    lambda change: {"dataSource": "events", **change},
    st.dictionaries(
        st.sampled_from(("dataSource", "taskContext", "taskPriority", "filter", "ageRules"))
        | hostile.texts,
        hostile.values,
        max_size=2,
    ),
)


class EndsAtOnce(ProcessRunner):
    """Starts, with the arguments of an attempt, a program that does nothing."""

    def _program(self, *_: object) -> list[str]:
        return ["/bin/true"]


class Bugs(logging.Handler):
    """Keeps what the loops log of bugs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


class Turns:
    """Counts the rounds of a loop."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.rounds = loop, 0
        self._turn = loop.turn
        loop.turn = self.turn  # type: ignore[method-assign]

    def turn(self) -> None:
        self.rounds += 1
        self._turn()


@dataclass
class World:
    """An overlord, and what is put into it."""

    tasks: TaskService
    compaction: CompactionService
    records: MetadataStore
    http: InProcessClient
    turns: tuple[Turns, ...]
    bugs: Bugs

    def submit_over_http(self, payload: Mapping[str, object]) -> None:
        """Submit a task, and ask for it under the id that was sent."""
        body = json.dumps(payload)
        headers = {"content-type": "application/json"}
        answer = self.http.post("/druid/indexer/v1/task", content=body, headers=headers)
        assert answer.status_code < 500, answer.text

    def expect_life(self) -> None:
        """See that a plain task gets its attempt, that all are healthy, and that every slot becomes free."""
        before = [counted.rounds for counted in self.turns]
        task_id = self.tasks.submit(PLAIN).task_id
        until(lambda: self.tasks.get(task_id).attempts, "an attempt at a plain task")
        for task in self.tasks.list(limit=1_000):
            self.tasks.cancel(task.task_id)
        until(lambda: not self.tasks.live_attempts(), "free slots", period_s=0.01)
        for one, rounds in zip(self.turns, before, strict=True):
            until(lambda one=one, rounds=rounds: one.rounds > rounds + 1, one.loop.name)  # type: ignore[misc]
        assert self.http.get("/status/health").json() is True
        assert self.bugs.found == []


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ExitStack() as steps:
        folder = Path(steps.enter_context(fast_folder()))
        clock = SystemClock()
        values = Settings(
            store=f"{folder}/store",
            task_runner="process",
            task_slots=SLOTS,
            overlord_period_ms=10,
            compaction_period_ms=10,
        )
        store = steps.enter_context(open_stamped(values, clock=clock, ids=RandomIds()))
        append(store, (1, 1))
        append(store, (1, 2))
        runner = EndsAtOnce(
            attempt_command, environ={}, spark_conf={}, logs=folder / "logs", host="here"
        )
        steps.callback(runner.close)
        runners = {"process": runner}
        tasks = steps.enter_context(open_tasks(settings=values, runners=runners))
        records = open_records(settings=values, clock=clock)
        lockbox = steps.enter_context(make_lockbox(records, values, clock))
        loop = open_loop(settings=values, runners=runners)
        steps.callback(loop.close)
        rounds = CompactionLoop(values, runners, clock, fence=lambda: loop.fence)
        steps.callback(rounds.close)
        compaction = compaction_loop(rounds, values, clock)
        steps.callback(compaction.stop)
        loops = (*loop.loops, compaction)
        service = Services(
            tasks=tasks,
            locks=lockbox,
            loop=loop,
            compaction=CompactionService(records, clock),
            supervisors=SupervisorService(records, tasks, clock),
            compaction_slots=values.compaction_task_slots,
            admission=Admission(input_roots=[str(folder)]),
            kept=StatementRows(open_files(records, values)),
            describe=lambda _: (),
        )
        bugs = Bugs()
        logging.getLogger("carnac").addHandler(bugs)
        steps.callback(logging.getLogger("carnac").removeHandler, bugs)
        loop.start()
        compaction.start()
        http = InProcessClient(make_app(make_routers(service), loops=loops, hosts=hosts_of("one")))
        turning = tuple(
            Turns(one) for one in loops if one.name in {"overlord", "upkeep", "compaction"}
        )
        yield World(tasks, CompactionService(records, clock), records, http, turning, bugs)


EXAMPLES = settings(
    max_examples=max(3, settings().max_examples // 3),  # one takes some 100 ms
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # one that fails, as long as we are patient
)


@pytest.mark.slow
@EXAMPLES
@given(given=st.lists(payloads, min_size=1, max_size=4))
def test_no_task_ends_a_loop(world: World, given: list[dict[str, Any]]) -> None:
    for number, payload in enumerate(given):
        if number % 2:
            world.submit_over_http(payload)
            continue
        with suppress(CarnacError):
            world.tasks.submit(payload)
    world.expect_life()


@pytest.mark.slow
@EXAMPLES
@given(
    ids=st.lists(hostile.texts.filter(lambda text: not has_no_bytes(text)), min_size=1, max_size=3),
    slots=st.integers(1, 1_000),
)
def test_nothing_that_is_stored_already_ends_one(world: World, ids: list[str], slots: int) -> None:
    for name in ids:
        with suppress(CarnacError):
            world.records.change_tasks(
                wants(name, slots=slots, retries=1, payload="[", type="compact")
            )
    world.expect_life()


@EXAMPLES
@given(spec=compactions, stored=hostile.texts.filter(lambda text: not has_no_bytes(text)))
def test_no_compaction_ends_one(world: World, spec: dict[str, object], stored: str) -> None:
    with suppress(CarnacError):
        world.compaction.put_spec(spec)
    with suppress(CarnacError):  # as if another version had written it
        world.records.put_compaction_spec("other", stored)
    world.expect_life()
    for name in world.records.compaction_specs():
        world.records.put_compaction_spec(name, None)


def has_no_bytes(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)
