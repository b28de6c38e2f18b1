"""Druid's paths of a coordinator: shapes, flags and status codes as its clients read them."""

from __future__ import annotations

import pytest

from carnac.core.log.commits import CommitKind
from tests.clusters_live import LEASE_MS, live_cluster
from tests.logs import names, revert_of, segment
from tests.unit.api.coordinator.conftest import V1, Stage, stage_of

DAY_1 = "2013-01-01T00:00:00.000Z/2013-01-02T00:00:00.000Z"
DAY_2 = "2013-01-02T00:00:00.000Z/2013-01-03T00:00:00.000Z"
VERSION = "2014-01-01T00:00:00.000Z"


class TestDatasources:
    def test_names_numbers_and_segments(self, stage: Stage) -> None:
        sums = {
            "tiers": {"_default_tier": {"size": 600, "replicatedSize": 1200, "segmentCount": 3}},
            "segments": {
                "count": 3,
                "size": 600,
                "replicatedSize": 1200,
                "minTime": "2013-01-01T00:00:00.000Z",
                "maxTime": "2013-01-03T00:00:00.000Z",
            },
        }
        assert stage.get("/datasources") == ["events"]
        assert stage.get("/datasources?simple") == [{"name": "events", "properties": sums}]
        assert stage.get("/datasources/events") == sums
        (full,) = stage.get("/datasources?full")  # type: ignore[misc]
        assert full == stage.get("/datasources/events?full")
        assert full["name"] == "events"
        assert full["segments"][0] == {
            "dataSource": "events",
            "interval": DAY_1,
            "version": VERSION,
            "loadSpec": {
                "type": "carnac",
                "path": "segments/events/a1.parquet",
                "segmentId": "a1",
            },
            "dimensions": "",
            "metrics": "",
            "shardSpec": {"type": "numbered", "partitionNum": 0, "partitions": 2},
            "binaryVersion": 9,
            "size": 100,
            "identifier": f"events_{DAY_1.replace('/', '_')}_{VERSION}",
        }
        assert full["segments"][1]["identifier"].endswith(f"{VERSION}_1")
        assert stage.get("/datasources/events/tiers") == ["_default_tier"]

    @pytest.mark.parametrize(
        "path",
        [
            "/datasources/nope",
            "/datasources/nope/intervals",
            "/datasources/nope/segments",
            "/datasources/events/segments/nope",
            "/datasources/nope/loadstatus?forceMetadataRefresh=true",
        ],
    )
    def test_what_is_not_there_is_no_content(self, stage: Stage, path: str) -> None:
        answer = stage.http.get(f"{V1}{path}")
        assert (answer.status_code, answer.text) == (204, "")

    def test_intervals_come_newest_first(self, stage: Stage) -> None:
        sums = {DAY_2: {"size": 300, "count": 1}, DAY_1: {"size": 300, "count": 2}}
        assert stage.get("/datasources/events/intervals") == [DAY_2, DAY_1]
        assert stage.get("/datasources/events/intervals?simple") == sums
        assert stage.get("/intervals") == {day: {"events": one} for day, one in sums.items()}
        full = stage.get("/datasources/events/intervals?full")
        assert list(full) == [DAY_2, DAY_1]  # type: ignore[call-overload]
        (one,) = full[DAY_2].values()  # type: ignore[index]
        assert one["servers"] == ["h1:8083", "h2:8083"]
        assert one["metadata"]["interval"] == DAY_2

    def test_an_interval_of_all_datasources(self, stage: Stage) -> None:
        inside = "/intervals/2013-01-01_2013-01-02T12"
        assert stage.get(inside) == {"size": 300, "count": 2}
        assert stage.get(f"{inside}?simple") == {DAY_1: {"size": 300, "count": 2}}
        assert stage.get(f"{inside}?full") == {DAY_1: {"events": {"size": 300, "count": 2}}}
        assert stage.get("/intervals/2020_2021") == {"size": 0, "count": 0}

    def test_segments_of_an_interval(self, stage: Stage) -> None:
        inside = "/datasources/events/intervals/2013-01-01_2013-01-02"
        ids = stage.get(inside)
        assert len(ids) == 2  # type: ignore[arg-type]
        assert stage.get(f"{inside}?simple") == {DAY_1: {"size": 300, "count": 2}}
        assert list(stage.get(f"{inside}?full")) == [DAY_1]  # type: ignore[call-overload]
        assert stage.get("/datasources/events/intervals/2013-01-01T12_2013-01-03") == [
            f"events_{DAY_2.replace('/', '_')}_{VERSION}"
        ]
        one = stage.get(f"/datasources/events/segments/{ids[0]}")  # type: ignore[index]
        assert one["servers"] == ["h1:8083", "h2:8083"]  # type: ignore[index]
        assert stage.get("/datasources/events/segments") == stage.get(
            "/metadata/datasources/events/segments"
        )
        assert stage.get("/metadata/datasources") == ["events"]
        whole = stage.get("/metadata/datasources/events")
        assert stage.get("/metadata/datasources?full") == [whole]
        assert stage.get("/metadata/segments") == whole["segments"]  # type: ignore[index]
        assert stage.get("/metadata/segments?datasources=nope") == []
        assert stage.http.get(f"{V1}/metadata/datasources/nope").status_code == 404
        path = "/metadata/datasources/events/segments"
        assert stage.get(f"{path}/{ids[0]}") == one["metadata"]  # type: ignore[index]
        assert stage.http.get(f"{V1}{path}/nope").status_code == 404

    def test_the_server_view_names_segments_with_their_servers(self, stage: Stage) -> None:
        path = "/datasources/events/intervals/2013-01-01_2013-01-02T12/serverview"
        view = stage.get(path)
        assert [one["segment"]["loadSpec"]["segmentId"] for one in view] == ["a1", "a2"]  # type: ignore[attr-defined]
        assert view[0]["servers"][0] == {  # type: ignore[index]
            "name": "h1:8083",
            "host": "h1:8083",
            "hostAndTlsPort": None,
            "maxSize": 1_000_000,
            "type": "historical",
            "tier": "_default_tier",
            "priority": 0,
        }
        assert len(stage.get(f"{path}?partial=true")) == 3  # type: ignore[arg-type]
        assert stage.get("/datasources/nope/intervals/2013-01-01_2013-01-02/serverview") == []

    def test_an_interval_that_is_none_is_one_sentence(self, stage: Stage) -> None:
        answer = stage.http.get(f"{V1}/datasources/events/intervals/yesterday")
        assert answer.status_code == 400
        assert "yesterday" in answer.json()["error"]

    def test_two_minor_versions_have_two_ids(self, stage: Stage) -> None:
        from tests.logs import folding

        metadata = stage.cluster.metadata
        new = segment("f1", "2013-01-01/2013-01-02", rows=30)
        metadata.publish(folding(metadata, ("a1", "a2"), new))
        first = stage.get("/datasources/events/intervals/2013-01-01_2013-01-02")[0]  # type: ignore[index]
        assert f"{VERSION}.1_" in first


class TestLoading:
    def test_everything_is_loaded(self, stage: Stage) -> None:
        assert stage.get("/loadstatus") == {"events": 100.0}
        assert stage.get("/loadstatus?simple") == {"events": 0}
        assert stage.get("/loadstatus?full") == {"_default_tier": {"events": 0}}

    def test_what_is_missing_is_counted(self, stage: Stage) -> None:
        cluster = stage.cluster
        for server in cluster.servers.values():
            server.is_eager = False
        cluster.publish("e9")
        cluster.turn()
        assert stage.get("/loadstatus") == {"events": 75.0}
        assert stage.get("/loadstatus?simple") == {"events": 1}
        assert stage.get("/loadstatus?full") == {"_default_tier": {"events": 2}}
        path = "/datasources/events/loadstatus?forceMetadataRefresh=false&interval=2013-01-09_2013-01-10"
        assert stage.get(path) == {"events": 0.0}
        queue = stage.get("/loadqueue")
        assert queue["h1:8083"]["segmentsToLoad"] == ["e9"]  # type: ignore[index]
        assert stage.get("/loadqueue?simple")["h1:8083"] == {  # type: ignore[index]
            "segmentsToLoad": 1,
            "segmentsToDrop": 0,
            "segmentsToLoadSize": 100,
            "segmentsToDropSize": 0,
            "expectedLoadTimeMillis": 0,
        }
        (item,) = stage.get("/loadqueue?full")["h1:8083"]["segmentsToLoad"]  # type: ignore[index]
        assert (item["segmentId"], item["reason"]) == ("e9", "first_replica")

    def test_more_copies_than_servers_are_missing_unless_one_asks_for_the_cluster_view(
        self, stage: Stage
    ) -> None:
        stage.cluster.rules(
            "events", {"type": "loadForever", "tieredReplicants": {"_default_tier": 5}}
        )
        stage.cluster.settle()
        assert stage.get("/loadstatus?full") == {"_default_tier": {"events": 9}}
        limited = stage.get("/loadstatus?full&computeUsingClusterView")
        assert limited == {"_default_tier": {"events": 0}}

    def test_what_no_rule_wants_is_not_missing(self, stage: Stage) -> None:
        stage.cluster.rules("events", {"type": "loadForever", "tieredReplicants": {}})
        stage.cluster.settle()
        assert stage.get("/loadstatus") == {"events": 100.0}

    def test_the_flag_that_druid_asks_for_is_asked_for(self, stage: Stage) -> None:
        answer = stage.http.get(f"{V1}/datasources/events/loadstatus")
        assert answer.status_code == 400
        assert answer.json()["error"] == "Invalid request. forceMetadataRefresh must be specified"

    def test_handoff(self, stage: Stage) -> None:
        def is_done(version: str, partition: int) -> object:
            return stage.get(
                f"/datasources/events/handoffComplete?interval=2013-01-01/2013-01-02"
                f"&partitionNumber={partition}&version={version}"
            )

        assert is_done(VERSION, 1) is True
        assert is_done("2012", 7) is True
        assert is_done(VERSION, 7) is False
        assert is_done("2020", 0) is False
        stage.cluster.rules("events", {"type": "loadForever", "tieredReplicants": {}})
        stage.cluster.clock.advance_ms(1_000)
        assert is_done("2020", 0) is True

    def test_how_long_it_still_takes_is_said_at_the_speed_seen(self, stage: Stage) -> None:
        cluster = stage.cluster
        for server in cluster.servers.values():
            server.is_eager = False
        cluster.publish("e9", "e10", rows=1_000)
        cluster.turn()
        for server in cluster.servers.values():
            server.finish(1)
        cluster.turn(after_ms=2_000)
        queue = stage.get("/loadqueue?simple")["h1:8083"]  # type: ignore[index]
        assert queue["segmentsToLoad"] == 1
        assert 1_000 <= queue["expectedLoadTimeMillis"] <= 3_000


class TestServers:
    def test_names_numbers_and_segments(self, stage: Stage) -> None:
        head = {"host": "h1:8083", "tier": "_default_tier", "type": "historical", "priority": 0}
        simple = {**head, "currSize": 600, "maxSize": 1_000_000}
        assert stage.get("/servers") == ["h1:8083", "h2:8083"]
        assert stage.get("/servers?simple")[0] == simple  # type: ignore[index]
        assert stage.get("/servers/h1:8083?simple") == simple
        full = stage.get("/servers/h1:8083")
        assert full == stage.get("/servers?full")[0]  # type: ignore[index]
        assert {key: full[key] for key in head} == head  # type: ignore[index]
        assert stage.get("/servers/h1:8083/segments") == list(full["segments"])  # type: ignore[index]
        assert len(full["segments"]) == 3  # type: ignore[index]
        assert stage.get("/tiers") == ["_default_tier"]
        assert stage.get("/tiers/_default_tier") == ["events"]
        assert stage.get("/tiers/nope") == []
        assert stage.get("/tiers?simple") == {
            "_default_tier": {"currSize": 1_200, "maxSize": 2_000_000}
        }

    def test_one_that_is_not_there_is_named(self, stage: Stage) -> None:
        answer = stage.http.get(f"{V1}/servers/nope:1")
        assert answer.status_code == 404
        assert answer.json()["error"] == "there is no server 'nope:1'; there are h1:8083, h2:8083"

    def test_where_no_historical_lives_the_process_has_everything(self) -> None:
        with live_cluster() as cluster:
            cluster.publish("e1", "e2")
            cluster.turn()
            stage = stage_of(cluster, serves_itself=True)
            assert stage.get("/servers") == ["one:8081"]
            assert stage.get("/loadstatus") == {"events": 100.0}
            assert stage.get("/loadstatus?full") == {"_default_tier": {"events": 0}}
            (only,) = stage.get("/servers?simple")  # type: ignore[misc]
            assert (only["currSize"], only["maxSize"]) == (200, 200)
            sums = stage.get("/datasources/events")
            assert sums["tiers"]["_default_tier"]["segmentCount"] == 2  # type: ignore[index]

    def test_a_coordinator_alone_has_nothing(self) -> None:
        with live_cluster() as cluster:
            cluster.publish("e1", "e2")
            cluster.turn()
            stage = stage_of(cluster)
            assert stage.get("/servers") == []
            assert stage.get("/loadstatus?simple") == {"events": 2}


DEFAULT_RULES = [
    {
        "type": "loadForever",
        "tieredReplicants": {"_default_tier": 2},
        "useDefaultTierForNull": True,
    }
]
OWN_RULES = [
    {"type": "loadByPeriod", "period": "P1M", "tieredReplicants": {"hot": 1}},
    {"type": "dropForever"},
]


class TestRules:
    def test_they_are_set_shown_and_remembered(self, stage: Stage) -> None:
        assert stage.get("/rules") == {"_default": DEFAULT_RULES}
        assert stage.get("/rules/events") == []
        assert stage.get("/rules/events?full") == DEFAULT_RULES
        assert stage.get("/rules/_default") == DEFAULT_RULES
        assert stage.get("/rules/history") == []
        headers = {
            b"X-Druid-Author": "Zoë".encode(),
            b"X-Druid-Comment": b"wozu",
            b"content-type": "application/json",
        }
        answer = stage.http.post(f"{V1}/rules/events", json=OWN_RULES, headers=headers)
        assert (answer.status_code, answer.text) == (200, "")
        first, second = stage.get("/rules/events")  # type: ignore[misc]
        assert first["tieredReplicants"] == {"hot": 1}
        assert first["includeFuture"] is True
        assert second == {"type": "dropForever"}
        assert len(stage.get("/rules/events?full")) == 3  # type: ignore[arg-type]
        (change,) = stage.get("/rules/events/history?count=5")  # type: ignore[misc]
        assert change["auditInfo"] == {
            "author": "Zoë",
            "identity": "",
            "comment": "wozu",
            "ip": "",
        }
        assert change["key"] == "events"
        assert stage.get("/rules/history?interval=2014-01-01/2014-01-02") == [change]
        assert stage.get("/rules/history?interval=2014-01-02/2014-01-03") == []
        stage.cluster.clock.advance_ms(86_400_000)
        assert stage.http.post(f"{V1}/rules/events", json=[]).status_code == 200
        assert stage.get("/rules/events") == []
        for of in ("/rules", "/rules/events"):  # newer changes take no place of those asked for
            assert stage.get(f"{of}/history?count=1&interval=2014-01-01/P1D") == [change]

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({}, "rules must be an array of objects, in the order in which they are tried"),
            ([{"type": "loadForever", "tieredReplicants": {"\0": 1}}], "a key in the rules"),
            ([{"type": "nope"}], "rule 1 of 1: 'nope' is not a type of rule; "),
            ([{"type": "loadForever", "x": 1}], "rule 1 of 1: loadForever has no field 'x'"),
        ],
    )
    def test_what_is_no_rule_is_refused_in_a_sentence(
        self, stage: Stage, body: object, said: str
    ) -> None:
        answer = stage.http.post(f"{V1}/rules/events", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(said)
        assert stage.cluster.metadata.rules() == {}

    @pytest.mark.parametrize(
        "text", ['[{"type": "loadFor', '{"type": "loadForever"}', '[{"type": "loadLater"}]']
    )
    def test_rules_that_somebody_has_broken_are_left_out_until_they_are_set_anew(
        self, stage: Stage, text: str
    ) -> None:
        stage.cluster.metadata.put_rules("events", text, author="", comment="")
        assert stage.get("/rules") == {"_default": DEFAULT_RULES}
        assert stage.http.post(f"{V1}/rules/events", json=OWN_RULES).status_code == 200
        assert len(stage.get("/rules/events")) == 2  # type: ignore[arg-type]


class TestOrders:
    def test_what_is_marked_unused_is_deleted_in_a_commit(self, stage: Stage) -> None:
        path = f"{V1}/datasources/events/markUnused"
        answer = stage.http.post(path, json={"interval": "2013-01-01/2013-01-02T12:00"})
        assert answer.json() == {"numChangedSegments": 2, "segmentStateChanged": True}
        assert names(stage.cluster.metadata) == ["b1"]
        commit = stage.cluster.metadata.commit(4)
        assert commit.kind is CommitKind.DELETE
        assert commit.message.startswith("markUnused 2013-01-01")
        again = stage.http.post(path, json={"interval": "2013-01-01/2013-01-02"})
        assert again.json() == {"numChangedSegments": 0, "segmentStateChanged": False}
        assert stage.cluster.metadata.head().revision == 4

    def test_a_datasource_is_deleted_whole_and_can_be_had_back(self, stage: Stage) -> None:
        answer = stage.http.request("DELETE", "/druid/indexer/v1/datasources/events")
        assert answer.json() == {"numChangedSegments": 3, "segmentStateChanged": True}
        metadata = stage.cluster.metadata
        assert metadata.count_visible("events") == 0
        metadata.publish(revert_of(metadata, 4))
        assert names(metadata) == ["a1", "a2", "b1"]

    @pytest.mark.parametrize("prefix", [V1, "/druid/indexer/v1"])
    def test_an_order_to_remove_what_is_unused_deletes_nothing(
        self, stage: Stage, prefix: str
    ) -> None:
        path = f"{prefix}/datasources/events?kill=True&interval=1000-01-01%2F3000-01-01"
        answer = stage.http.request("DELETE", path)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith("nothing was deleted: files of what was deleted")
        assert stage.cluster.metadata.head().revision == 3

    @pytest.mark.parametrize("prefix", [V1, "/druid/indexer/v1"])
    def test_segments_are_not_marked_one_by_one_and_their_interval_is_named(
        self, stage: Stage, prefix: str
    ) -> None:
        ids = stage.get("/datasources/events/segments")
        path = f"{prefix}/datasources/events"
        for named, chunk, count in (
            (["a1"], DAY_1, "2 segments"),
            ([ids[0]], DAY_1, "2 segments"),  # type: ignore[index]
            (["b1"], DAY_2, "1 segment"),
        ):
            said = (
                f'mark the interval of their time chunks: {{"interval": "{chunk}"}} deletes {count}'
            )
            answers = [
                stage.http.post(f"{path}/markUnused", json={"segmentIds": named, "interval": None}),
                stage.http.request("DELETE", f"{path}/segments/{named[0]}"),
            ]
            for answer in answers:
                assert (answer.status_code, answer.json()["error"]) == (
                    400,
                    f"segments are not marked one by one here; {said}",
                )
        both = stage.http.post(f"{path}/markUnused", json={"segmentIds": ["b1", "a2"]})
        assert both.json()["error"].endswith("; the others are in 1 other time chunk")
        unknown = stage.http.post(f"{path}/markUnused", json={"segmentIds": ["nope"]})
        assert (unknown.status_code, unknown.json()["error"]) == (
            404,
            "events has no segment 'nope' that is visible",
        )
        assert stage.cluster.metadata.head().revision == 3

    def test_versions_are_no_way_to_mark(self, stage: Stage) -> None:
        body = {"interval": "2013-01-01/2013-01-02", "versions": [VERSION]}
        answer = stage.http.post(f"{V1}/datasources/events/markUnused", json=body)
        assert answer.status_code == 400
        assert "the body must be" in answer.json()["error"]

    @pytest.mark.parametrize(
        ("method", "path", "said"),
        [
            ("POST", "events/markUsed", "carnac revert REVISION"),
            ("POST", "events", "carnac revert REVISION"),
            ("POST", "events/segments/a1", "carnac revert REVISION"),
            ("DELETE", "events/intervals/2013-01-01_2013-01-02", "a task of the type kill"),
        ],
    )
    @pytest.mark.parametrize("prefix", [V1, "/druid/indexer/v1"])
    def test_orders_of_druid_that_are_done_otherwise_say_how(
        self, stage: Stage, prefix: str, method: str, path: str, said: str
    ) -> None:
        answer = stage.http.request(method, f"{prefix}/datasources/{path}", json={})
        assert answer.status_code in {404, 405}
        assert said in answer.json()["error"]
        assert stage.cluster.metadata.head().revision == 3


class TestLeading:
    def test_who_leads(self, stage: Stage) -> None:
        assert stage.http.get(f"{V1}/leader").text == "http://one:8081"
        assert stage.get("/isLeader") == {"leader": True}
        stage.cluster.coordinator.resign()
        answer = stage.http.get(f"{V1}/isLeader")
        assert (answer.status_code, answer.json()) == (404, {"leader": False})

    def test_nobody_leads_yet(self) -> None:
        with live_cluster() as cluster:
            assert stage_of(cluster).http.get(f"{V1}/leader").status_code == 404

    def test_what_goes_on_is_told_and_why(self, stage: Stage) -> None:
        cluster = stage.cluster
        cluster.broker("b1", 3)
        for server in cluster.servers.values():
            server.is_eager = False
        revision = cluster.publish("e9")
        cluster.turn()
        cluster.turn()
        found = stage.http.get("/carnac/v1/coordinator").json()
        assert (found["isLeader"], found["head"], found["told"]) == (True, revision, revision - 1)
        (waiting,) = found["waiting"]
        assert (waiting["segment"], waiting["loadingOn"]) == ("e9", ["h1", "h2"])
        (first, second) = found["servers"]
        assert {one["why"] for one in first["loading"] + second["loading"]} == {
            "first_replica",
            "further_replica",
        }
        assert found["failures"] == {}

    def test_one_that_leads_no_more_tells_nothing_of_what_it_decided(self) -> None:
        with live_cluster() as cluster:
            cluster.join("h1", capacity_bytes=1_000)
            cluster.publish("e1")
            cluster.settle()
            cluster.publish("e2", rows=500)
            cluster.settle()
            http = stage_of(cluster).http
            assert http.get("/carnac/v1/coordinator").json()["unplaced"] == {"e2": "no_room"}
            cluster.clock.advance_ms(LEASE_MS)
            cluster.settle(cluster.another("two"))
            cluster.turn()
            told = http.get("/carnac/v1/coordinator").json()
            assert not told["isLeader"]
            assert not any(told[name] for name in ("waiting", "cold", "unplaced", "blockers"))
