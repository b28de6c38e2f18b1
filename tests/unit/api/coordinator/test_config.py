"""Druid's dynamic configuration: servers are decommissioned through it, and throttles are shown."""

from __future__ import annotations

import pytest

from tests.unit.api.coordinator.conftest import V1, Stage


class TestConfig:
    def test_throttles_are_the_settings_and_servers_are_decommissioned(self, stage: Stage) -> None:
        as_it_is = {
            "maxSegmentsToMove": 100,
            "maxSegmentsInNodeLoadingQueue": 500,
            "replicationThrottleLimit": 100,
            "decommissioningNodes": [],
            "pauseCoordination": False,
            "smartSegmentLoading": False,
        }
        assert stage.get("/config") == as_it_is
        wanted = {**as_it_is, "decommissioningNodes": ["h1:8083"]}
        answer = stage.http.post(f"{V1}/config", json=wanted)
        assert (answer.status_code, answer.text) == (200, "")
        assert stage.get("/config") == wanted
        stage.cluster.settle()
        assert set(stage.cluster.copies()) == {"a1", "a2", "b1"}
        assert {home for homes in stage.cluster.copies().values() for home in homes} == {"h2"}
        assert stage.http.post(f"{V1}/config", json={"maxSegmentsToMove": 100}).status_code == 200
        assert stage.get("/config") == wanted
        for one in (["h1"], ["h1:8083", "h1"]):
            stage.http.post(f"{V1}/config", json={"decommissioningNodes": one})
            assert stage.get("/config") == wanted
        stage.http.post(f"{V1}/config", json={"decommissioningNodes": []})
        assert stage.get("/config") == as_it_is

    def test_one_that_is_away_stays_decommissioned(self, stage: Stage) -> None:
        stage.http.post(f"{V1}/config", json={"decommissioningNodes": ["h2:8083"]})
        stage.cluster.kill("h2")
        assert stage.get("/config")["decommissioningNodes"] == ["h2:8083"]  # type: ignore[index]

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (
                {"maxSegmentsToMove": 7},
                "maxSegmentsToMove is 100, by the setting moves_max: start the coordinators again with "
                "CARNAC_MOVES_MAX=7",
            ),
            ({"pauseCoordination": True}, "pauseCoordination is always false: a coordinator is"),
            ({"smartSegmentLoading": True}, "smartSegmentLoading is always false: throttles"),
            ({"nope": 1}, "the dynamic configuration has no 'nope' here; it has maxSegmentsToMove"),
            ({"decommissioningNodes": "h1"}, "decommissioningNodes must be a list of servers"),
            ({"decommissioningNodes": ["h1:8083", "h9"]}, "there is no historical 'h9'; there are"),
            ([], "the body must be a JSON object"),
        ],
    )
    def test_what_cannot_be_set_is_one_sentence(
        self, stage: Stage, body: object, said: str
    ) -> None:
        answer = stage.http.post(f"{V1}/config", json=body)
        assert answer.status_code in {400, 404}
        assert answer.json()["error"].startswith(said)
        assert stage.get("/config")["decommissioningNodes"] == []  # type: ignore[index]

    def test_no_history_is_kept(self, stage: Stage) -> None:
        answer = stage.http.get(f"{V1}/config/history?count=2")
        assert answer.status_code == 404
        assert "no history of it is kept" in answer.json()["error"]
