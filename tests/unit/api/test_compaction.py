"""Compaction over HTTP: Druid's paths of overlords and of coordinators, for the specs of `carnac compaction set`."""

from __future__ import annotations

from typing import Any

import pytest

from carnac.api.admission import Admission
from carnac.api.app import make_app
from carnac.api.hosts import hosts_of
from carnac.api.overlord.compaction import make_older_router
from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.time.intervals import parse_interval
from carnac.overlord.compactor.service import CompactionService
from tests.logs import append, segment
from tests.unit.api.conftest import InProcessClient, Overlord

V1 = "/druid/indexer/v1/compaction"
OLD = "/druid/coordinator/v1"
SPEC = {
    "dataSource": "events",
    "skipOffsetFromLatest": "PT1H",
    "tuningConfig": {"partitionsSpec": {"type": "dynamic"}},
}


@pytest.fixture
def older(overlord: Overlord) -> InProcessClient:
    """A coordinator over the same store."""
    service = CompactionService(overlord.metadata, overlord.clock)
    router = make_older_router(service, admission=Admission(input_roots=()), task_slots=2)
    return InProcessClient(make_app([router], hosts=hosts_of("one")))


def ok(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.content else None


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_a_spec_is_set_shown_and_removed(overlord: Overlord, older: InProcessClient) -> None:
    http = overlord.http
    assert ok(http.get(f"{V1}/config/datasources")) == {"compactionConfigs": []}
    assert ok(http.post(f"{V1}/config/datasources/events", json=SPEC)) == {"success": True}
    assert ok(http.get(f"{V1}/config/datasources")) == {"compactionConfigs": [SPEC]}
    assert ok(http.get(f"{V1}/config/datasources/events")) == SPEC
    every = ok(older.get(f"{OLD}/config/compaction"))
    assert (every["compactionConfigs"], every["maxCompactionTaskSlots"]) == ([SPEC], 2)
    assert ok(older.get(f"{OLD}/config/compaction/events")) == SPEC
    ok(older.post(f"{OLD}/config/compaction", json={**SPEC, "skipOffsetFromLatest": "P1D"}))
    changed = ok(http.get(f"{V1}/config/datasources/events"))
    assert changed["skipOffsetFromLatest"] == "P1D"
    assert ok(http.request("DELETE", f"{V1}/config/datasources/events")) == {"success": True}
    for answer in (
        http.get(f"{V1}/config/datasources/events"),
        http.request("DELETE", f"{V1}/config/datasources/events"),
        older.request("DELETE", f"{OLD}/config/compaction/events"),
        older.get(f"{OLD}/compaction/status?dataSource=events"),
    ):
        assert refused(answer) == (404, "there is no datasource 'events'; there are none yet")


def test_a_wrong_spec_is_refused_with_its_place(overlord: Overlord) -> None:
    wrong = {**SPEC, "tuningConfig": {"partitionsSpec": {"type": "x"}}}
    code, why = refused(overlord.http.post(f"{V1}/config/datasources/events", json=wrong))
    assert (code, "tuningConfig.partitionsSpec: type 'x' is not one of" in why) == (400, True)


@pytest.mark.parametrize("body", [SPEC, {"type": "autocompact", "spec": SPEC}], ids=repr)
def test_a_spec_of_another_datasource_than_the_path_names_is_refused(
    overlord: Overlord, body: dict[str, object]
) -> None:
    answer = overlord.http.post(f"{V1}/config/datasources/others", json=body)
    assert refused(answer) == (400, "the path names the datasource 'others', the body 'events'")
    assert ok(overlord.http.get(f"{V1}/config/datasources")) == {"compactionConfigs": []}


def test_progress_is_told_in_bytes_segments_and_time_chunks(
    overlord: Overlord, older: InProcessClient
) -> None:
    for day, name in enumerate("abc", 1):
        interval = f"2013-01-0{day}/2013-01-0{day + 1}"
        append(overlord.metadata, segment(name, interval, rows=10))
    ok(overlord.http.post(f"{V1}/config/datasources/events", json=SPEC))
    judged = ChunkState(
        parse_interval("2013-01-01/2013-01-02"), ChunkStatus.STABLE, 1, 1, "by", "it is one segment"
    )
    overlord.metadata.put_compaction_states("events", [judged])
    [status] = ok(overlord.http.get(f"{V1}/status/datasources"))["latestStatus"]
    assert status == ok(overlord.http.get(f"{V1}/status/datasources/events"))
    assert [status] == ok(older.get(f"{OLD}/compaction/status?dataSource=events"))["latestStatus"]
    assert (status["dataSource"], status["scheduleStatus"]) == ("events", "RUNNING")
    counts = ("AwaitingCompaction", "Compacted", "Skipped")
    assert [status[f"intervalCount{one}"] for one in counts] == [1, 1, 1]
    assert [status[f"segmentCount{one}"] for one in counts] == [1, 1, 1]
    rest = ok(older.get(f"{OLD}/compaction/progress?dataSource=events"))
    assert rest == {"remainingSegmentSize": status["bytesAwaitingCompaction"]}
    assert rest["remainingSegmentSize"] > 0


def test_what_is_true_of_all_datasources_is_settings(
    overlord: Overlord, older: InProcessClient
) -> None:
    shown = ok(overlord.http.get(f"{V1}/config/cluster"))
    assert shown["maxCompactionTaskSlots"] == 2
    assert ok(overlord.http.post(f"{V1}/config/cluster", json=shown)) == {"success": True}
    for answer in (
        overlord.http.post(f"{V1}/config/cluster", json={"maxCompactionTaskSlots": 4}),
        older.post(f"{OLD}/config/compaction/taskslots?max=4"),
    ):
        assert refused(answer) == (
            400,
            "maxCompactionTaskSlots is 2, by the setting compaction_task_slots: start the overlords again with "
            "CARNAC_COMPACTION_TASK_SLOTS=4",
        )
    answer = overlord.http.post(f"{V1}/config/cluster", json={"useSupervisors": True})
    assert refused(answer) == (
        400, "useSupervisors cannot be changed: the overlord that leads compacts by itself"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", f"{V1}/config/datasources/events/history", "no history of compaction specs"),
        ("GET", f"{OLD}/config/compaction/events/history", "no history of compaction specs"),
        ("POST", f"{OLD}/compaction/compact", "carnac compact DATASOURCE does it at once"),
        ("POST", f"{V1}/simulate", "carnac compact --explain"),
    ],
)
def test_what_is_not_here_says_what_is(
    overlord: Overlord, method: str, path: str, words: str
) -> None:
    code, why = refused(overlord.http.request(method, path))
    assert (code, words in why) == (404, True)
