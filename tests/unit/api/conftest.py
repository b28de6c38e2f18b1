"""An application over the real services and a metadata store in memory, with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.admission import Admission
from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.services import Services
from carnac.bootstrap.serving.overlord import make_routers
from carnac.core.tasks.events import (
    ClaimAttempt,
    Dispatched,
    FinishAttempt,
    RecordHandle,
    TaskReply,
)
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.overlord import Lockbox
from carnac.overlord.compactor.service import CompactionService
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.overlord.runners import ProcessRunner
from carnac.overlord.supervisors.service import SupervisorService
from carnac.overlord.tasks import TaskService
from carnac.specs.tasks.spec import load_task
from tests.support.clock import FakeClock, SequentialIds
from tests.tasks import candidacy, dispatch

LEADER_URL = "http://one:8090"


class InProcessClient:
    """Calls an application without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)

    def request(self, method: str, path: str, **how: object) -> httpx.Response:
        """Return the answer to a request; redirects are not followed. What says nothing else says that it is JSON."""
        if method != "GET":
            how = {"headers": {"content-type": "application/json"}, **how}

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url="http://one:8090"
            ) as client:
                return await client.request(method, path, **how)  # type: ignore[arg-type]

        return asyncio.run(ask())

    def get(self, path: str, **how: object) -> httpx.Response:
        """Return the answer to a GET."""
        return self.request("GET", path, **how)

    def post(self, path: str, **how: object) -> httpx.Response:
        """Return the answer to a POST."""
        return self.request("POST", path, **how)


@dataclass
class Overlord:
    """What the tests of the API hold in their hands."""

    metadata: MetadataStore
    clock: FakeClock
    tasks: TaskService
    lockbox: Lockbox
    loop: OverlordLoop
    http: InProcessClient
    app: FastAPI

    def lead(self, leader_id: str) -> None:
        """Let somebody lead."""
        self.metadata.lead(candidacy(leader_id, url=LEADER_URL))

    def start_next(self, *, capacity: int = 1) -> list[str]:
        """Dispatch as a leader does; return the ids of the tasks that are at work now."""
        self.lead("one")
        leader = self.metadata.leader("overlord")
        assert leader is not None
        reply = self.metadata.change_tasks(dispatch(leader.fence, capacity=capacity))
        assert isinstance(reply, Dispatched)
        for task, attempt in reply.started:
            key = {"task_id": task.task_id, "number": attempt.number}
            self.metadata.change_tasks(RecordHandle(**key, handle=f"box/17/b.{attempt.number}"))
            self.metadata.change_tasks(ClaimAttempt(**key, holder="process 17 on box"))
        return [task.task_id for task, _ in reply.started]

    def finish(
        self, task_id: str, *, error: str | None = None, report: str | None = None
    ) -> TaskReply:
        """Let the first attempt of a task end."""
        return self.metadata.change_tasks(
            FinishAttempt(task_id=task_id, number=1, error=error, report=report)
        )


class Current:
    """Stands for the service of the test that runs: making an application takes longer than any test here."""

    def __init__(self) -> None:
        self.service: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)


@pytest.fixture(scope="session")
def stage() -> tuple[FastAPI, Services]:
    """The application, over services that are put in place by each test."""
    services: Any = Services(
        tasks=Current(),
        locks=Current(),
        loop=Current(),
        compaction=Current(),
        supervisors=Current(),
        compaction_slots=2,
        admission=Admission(input_roots=[]),
        kept=Current(),
        describe=lambda _: (),
    )  # type: ignore[arg-type]
    return make_app(make_routers(services), hosts=hosts_of("one")), services


@pytest.fixture
def overlord(
    stage: tuple[FastAPI, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Overlord]:
    clock, ids = FakeClock(), SequentialIds()
    metadata = open_metadata("memory://", clock=clock, ids=ids)
    runner = ProcessRunner(
        lambda *_: [],
        environ={},
        spark_conf={},
        logs=tmp_path_factory.mktemp("logs"),
        host="box",
    )
    tasks = TaskService(metadata, clock, ids, load=load_task, runners={"fake": runner})
    lockbox = Lockbox(metadata, clock, holder="test", lease_ms=60_000)
    loop = OverlordLoop(
        metadata,
        clock,
        leader_id="one",
        holder="overlord one",
        runners={},
        settings=LoopSettings(
            runner="fake",
            capacity=1,
            lease_ms=60_000,
            start_lease_ms=60_000,
            period_ms=1,
            upkeep_period_ms=1,
            url=LEADER_URL,
        ),
    )
    app, services = stage
    services.tasks.service, services.locks.service, services.loop.service = tasks, lockbox, loop
    services.compaction.service = CompactionService(metadata, clock)
    services.supervisors.service = SupervisorService(metadata, tasks, clock)
    yield Overlord(metadata, clock, tasks, lockbox, loop, InProcessClient(app), app)
    metadata.close()


Submit = Callable[..., str]


@pytest.fixture
def submit(overlord: Overlord) -> Submit:
    """Submit a task by HTTP; return its id."""

    def by_http(task_id: str | None = None, **fields: object) -> str:
        body = {"type": "kill", "dataSource": "events", **fields}
        if task_id is not None:
            body["id"] = task_id
        answer = overlord.http.post("/druid/indexer/v1/task", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["task"])

    return by_http
