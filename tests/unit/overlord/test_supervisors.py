"""Supervisors over a store in memory: kept, followed by their tasks, suspended, reset, ended. No stream is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from carnac.core.log.commits import CommitKind, Publication
from carnac.core.streams.supervisors import State
from carnac.core.tasks.events import CancelTask
from carnac.core.tasks.model import Task, TaskState
from carnac.errors import Invalid, NotFound, Unavailable
from carnac.kafka.client import KafkaClient
from carnac.overlord.supervisors.rounds import SupervisorRounds
from carnac.overlord.supervisors.service import SupervisorService
from carnac.ports.tasks import TaskFilter
from tests.overlords import Bench

SPEC: dict[str, Any] = {
    "type": "kafka",
    "spec": {
        "dataSchema": {"dataSource": "clicks", "timestampSpec": {"column": "t"}},
        "ioConfig": {
            "topic": "clicks",
            "inputFormat": {"type": "json"},
            "consumerProperties": {"bootstrap.servers": "127.0.0.1:1", "sasl.password": "deep"},
            "taskCount": 2,
        },
    },
}


class Office:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.service = SupervisorService(bench.metadata, bench.tasks, bench.clock)
        self.rounds = SupervisorRounds(bench.metadata, bench.tasks, bench.clock)

    def round(self) -> list[str]:
        """Have a round; return the states of all tasks of supervisors, the oldest first."""
        self.rounds.run_round()
        return [str(task.state) for task in self.found()]

    def found(self) -> list[Task]:
        found = self.bench.tasks.list(TaskFilter(type="index_kafka"), limit=100)
        return sorted(found, key=lambda task: task.number)

    def move(self, **offsets: str) -> None:
        ends = {f"clicks/{name[1:]}": offset for name, offset in offsets.items()}
        self.bench.metadata.publish(
            Publication(
                kind=CommitKind.APPEND,
                writer="clicks",
                offsets=ends,
                after={
                    one.source: one.offset
                    for one in self.bench.metadata.position("clicks").values()
                    if one.source in ends
                },
            )
        )

    def position(self) -> dict[str, str]:
        return {name: one.offset for name, one in self.bench.metadata.position("clicks").items()}


@pytest.fixture
def office(monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setattr("carnac.overlord.supervisors.stream.TIMEOUT_S", 0.2)  # no Kafka is there
    with closing(Bench()) as bench:
        yield Office(bench)


def test_each_group_of_partitions_gets_a_task_and_one_that_ended_is_followed(
    office: Office,
) -> None:
    assert office.service.submit_spec(SPEC) == "clicks"
    assert office.round() == ["pending", "pending"]
    assert office.round() == ["pending", "pending"]
    first, second = office.found()
    assert (first.task_id, second.task_id) == (
        "index_kafka_clicks_1_0_0",
        "index_kafka_clicks_1_1_0",
    )
    assert (first.priority, first.datasource) == (75, "clicks")
    shown = office.service.status("clicks")["payload"]["activeTasks"]
    assert [(one["status"], one["waitsFor"]) for one in shown] == [
        ("pending", "a free slot of the overlord")
    ] * 2
    office.bench.metadata.change_tasks(CancelTask(task_id=first.task_id, error="by hand"))
    assert office.round() == ["cancelled", "pending", "pending"]
    assert office.found()[2].task_id == f"index_kafka_clicks_1_0_{first.number}"


def test_two_overlords_submit_a_task_once(office: Office) -> None:
    office.service.submit_spec(SPEC)
    office.round()
    SupervisorRounds(office.bench.metadata, office.bench.tasks, office.bench.clock).run_round()
    assert len(office.found()) == 2
    idle = SupervisorRounds(
        office.bench.metadata, office.bench.tasks, office.bench.clock, is_leader=lambda: False
    )
    office.service.terminate("clicks")
    idle.run_round()
    assert {task.state for task in office.found()} == {TaskState.PENDING}


def test_a_spec_that_takes_the_place_of_another_has_tasks_of_its_own(office: Office) -> None:
    office.service.submit_spec(SPEC)
    office.round()
    io = {**SPEC["spec"]["ioConfig"], "taskCount": 1}
    office.service.submit_spec({"type": "kafka", "spec": {**SPEC["spec"], "ioConfig": io}})
    assert office.round() == ["cancelled", "cancelled", "pending"]
    assert [one.number for one in office.service.history()["clicks"]] == [2, 1]


def test_a_round_that_fails_ends_no_task(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be told of a supervisor now is told later, and its tasks go on; another one's spec was replaced."""
    office.service.submit_spec(SPEC)
    assert office.round() == ["pending", "pending"]

    def broken(*_: object) -> tuple[str, ...]:
        raise Unavailable("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(office.rounds, "_wanted", broken)
        assert office.round() == ["pending", "pending"]
    office.service.submit_spec({**SPEC, "context": {"priority": 80}})
    assert office.round() == ["cancelled", "cancelled", "pending", "pending"]


def test_suspended_resumed_terminated(office: Office) -> None:
    office.service.submit_spec(SPEC)
    office.round()
    assert office.service.suspend("clicks")["suspended"] is True
    assert office.round() == ["cancelled", "cancelled"]
    view = office.service.view("clicks", asks=False)
    assert view.standing.state is State.SUSPENDED
    assert office.service.resume("clicks")["suspended"] is False
    assert office.round() == ["cancelled", "cancelled", "pending", "pending"]
    office.service.terminate("clicks")
    assert office.round() == ["cancelled"] * 4
    assert office.service.ids() == ()
    for order in (office.service.terminate, office.service.suspend, office.service.reset):
        with pytest.raises(NotFound, match=r"cannot find any supervisor with id: \[clicks\]"):
            order("clicks")


def test_a_list_says_what_a_look_says(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka that does not answer for one stream is not waited for again; nobody asks for one that is suspended."""
    office.service.submit_spec(SPEC)
    office.service.submit_spec({**SPEC, "id": "views"})
    office.service.submit_spec({**SPEC, "id": "idle", "suspended": True})
    asked: list[object] = []

    def ask(properties: Any, **options: Any) -> KafkaClient:
        asked.append(properties)
        return KafkaClient(properties, **options)

    monkeypatch.setattr("carnac.overlord.supervisors.stream.KafkaClient", ask)
    listed = {one["id"]: one for one in office.service.states()}
    assert len(asked) == 1
    for name in ("clicks", "views"):
        payload = office.service.status(name)["payload"]
        assert payload["detailedState"] == "UNABLE_TO_CONNECT_TO_STREAM"
        assert {key: payload[key] for key in ("state", "detailedState", "healthy")} == {
            key: listed[name][key] for key in ("state", "detailedState", "healthy")
        }
    assert listed["idle"]["state"] == "SUSPENDED"


def test_a_reset_forgets_the_position_and_tasks_begin_anew(office: Office) -> None:
    office.service.submit_spec(SPEC)
    office.round()
    office.move(p0="5", p1="7")
    office.service.reset_offsets("clicks", {"clicks/0": 2})
    assert office.position() == {"clicks/0": "2", "clicks/1": "7"}
    assert office.round() == ["cancelled", "cancelled", "pending", "pending"]
    office.service.reset("clicks")
    assert office.position() == {}
    office.service.reset("clicks")
    with pytest.raises(Invalid, match="the offset of clicks/0 must be a whole number from 0"):
        office.service.reset_offsets("clicks", {"clicks/0": -1})
    with pytest.raises(Invalid, match="'clicks' is no partition; write topic/number"):
        office.service.reset_offsets("clicks", {"clicks": 1})
    with pytest.raises(
        Invalid, match="supervisor 'clicks' reads no topic 'views'; it reads clicks"
    ):
        office.service.reset_offsets("clicks", {"views/0": 1})


@pytest.mark.slow
def test_a_status_tells_the_position_in_the_topic_that_is_read_now(office: Office) -> None:
    office.service.submit_spec(SPEC)
    office.move(p0="5")
    assert office.service.status("clicks")["payload"]["currentOffsets"] == {"0": 5}
    io = {**SPEC["spec"]["ioConfig"], "topic": "views"}
    office.service.submit_spec({"type": "kafka", "spec": {**SPEC["spec"], "ioConfig": io}})
    assert office.service.status("clicks")["payload"]["currentOffsets"] == {}


def test_a_wrong_spec_is_not_kept(office: Office) -> None:
    with pytest.raises(Invalid, match=r"ioConfig\.topic: is required"):
        office.service.submit_spec({"type": "kafka", "spec": {"ioConfig": {}}})
    assert office.bench.metadata.supervisors() == ()


def test_a_secret_that_was_shown_hidden_stays_what_it_was(office: Office) -> None:
    io = SPEC["spec"]["ioConfig"]
    shown = {**io, "consumerProperties": {**io["consumerProperties"], "sasl.password": "***"}}
    hidden = {"type": "kafka", "spec": {**SPEC["spec"], "ioConfig": shown}}
    with pytest.raises(Invalid, match=r"sasl\.password is \*\*\*; write the secret itself"):
        office.service.submit_spec(hidden)
    office.service.submit_spec(SPEC)
    office.service.submit_spec(hidden)
    assert json.loads(json.dumps(office.service.spec("clicks"))) == SPEC


def test_a_stream_that_does_not_answer_is_told(office: Office) -> None:
    pytest.importorskip("confluent_kafka")
    office.service.submit_spec(SPEC)
    status = office.service.status("clicks")["payload"]
    assert (status["state"], status["healthy"]) == ("UNHEALTHY_SUPERVISOR", False)
    assert status["detailedState"] == "UNABLE_TO_CONNECT_TO_STREAM"
    assert "Kafka at 127.0.0.1:1" in status["recentErrors"][0]["message"]
    (state,) = office.service.states()
    assert state["id"] == "clicks"
