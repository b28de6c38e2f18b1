"""`carnac servers`, `rules`, `balance plan` and `picture`: on a cluster that runs, and on files of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from carnac.bootstrap.store import open_files, open_records
from carnac.cli.commands.cluster.rules import HISTORY_SHOWN
from carnac.clock import SystemClock
from carnac.config import Settings
from carnac.flight import FlightServer
from carnac.historical import Historical
from carnac.metadata.store import MetadataStore
from carnac.ports.serving import Role, ServerRecord
from tests.e2e.cli import append_rows
from tests.e2e.conftest import Run
from tests.e2e.test_mistakes import one_sentence
from tests.support.historicals import open_historical, settled

pytestmark = pytest.mark.e2e

SEGMENTS = """segment,datasource,start,end,size,server
a,e,2024-01-01T00:00:00Z,2024-01-02T00:00:00Z,100,h1
b,e,2024-01-01T00:00:00Z,2024-01-02T00:00:00Z,100,h1
c,e,2024-01-02T00:00:00Z,2024-01-03T00:00:00Z,100,h1
d,e,2024-01-02T00:00:00Z,2024-01-03T00:00:00Z,100,
"""
SERVERS = "server,capacity,tier,decommissioning\nh1,1000,_default_tier,\nh2,1000,_default_tier,\n"


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARNAC_STORE", "store")


def start_historical(
    folder: Path, settings: Settings, metadata: MetadataStore, steps: ExitStack
) -> Historical:
    """Start one that others find in the metadata store."""
    historical = open_historical(folder, open_files(metadata, settings))
    steps.callback(historical.close)
    flight = FlightServer(historical, host="127.0.0.1", port=0)
    steps.callback(flight.close)
    metadata.put_server(
        ServerRecord(
            server_id=historical.server_id,
            role=Role.HISTORICAL,
            url=f"grpc+tcp://127.0.0.1:{flight.port}",
            holder=folder.name,
            tier="_default_tier",
            capacity_bytes=1 << 30,
            started_at_ms=1,
            lease_ms=600_000,
        )
    )
    return historical


@pytest.fixture
def cluster(store: Path, tmp_path: Path) -> Iterator[str]:
    """A store with one historical that has loaded one segment of three; its id."""
    settings = Settings(store=str(store))
    with ExitStack() as steps:
        metadata = open_records(settings=settings, clock=SystemClock())
        steps.callback(metadata.close)
        historical = start_historical(tmp_path / "h1", settings, metadata, steps)
        (first, *_) = metadata.visible("flights")
        historical.assign([first.segment], fence=1, number=0)
        settled(historical)
        yield historical.server_id


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)


class TestServers:
    def test_none(self, run: Run, store: Path) -> None:
        assert run("servers").out == "no server serves this store; start one with: carnac serve\n"

    def test_what_they_hold_is_asked_of_them(self, run: Run, cluster: str) -> None:
        lines = run("servers").out.splitlines()
        assert lines[0].split()[:5] == ["server", "role", "url", "tier", "holds"]
        assert lines[2].split()[:2] == [cluster, "historical"]
        (one,) = run("servers", "--json").json["servers"]
        assert [held["state"] for held in one["holdings"]] == ["loaded"]
        (alone,) = run("servers", "--no-ask", "--json").json["servers"]
        assert "holdings" not in alone

    def test_historicals_without_a_coordinator_are_told(self, run: Run, cluster: str) -> None:
        assert "warning: no coordinator runs: nothing is loaded or moved" in run("servers").err
        metadata = open_records(settings=Settings(store="store"), clock=SystemClock())
        record = ServerRecord(
            server_id="c1",
            role=Role.COORDINATOR,
            url="http://127.0.0.1:1",
            holder="c1",
            started_at_ms=1,
            lease_ms=600_000,
        )
        metadata.put_server(record)
        metadata.close()
        assert "no coordinator" not in run("servers").err

    def test_one_is_decommissioned_and_not_any_more(self, run: Run, cluster: str) -> None:
        said = run("servers", "decommission", cluster)
        assert said.out.startswith(f"{cluster} is emptied by the coordinator; ")
        assert "decommissioning" in run("servers").out
        run("servers", "decommission", cluster, "--undo")
        assert "decommissioning" not in run("servers").out

    def test_one_that_nobody_knows_is_one_sentence(self, run: Run, cluster: str) -> None:
        done = run("servers", "decommission", "nobody", code=5)
        assert one_sentence(done) == f"there is no historical 'nobody'; there are {cluster}"


class TestRules:
    def test_they_are_set_shown_and_removed(self, run: Run, store: Path) -> None:
        assert "2 in _default_tier" in run("rules", "show").out
        own = '[{"type": "loadByPeriod", "period": "P1M"}, {"type": "dropForever"}]'
        done = run("rules", "set", "flights", own, "-m", "a month is enough")
        assert done.out == "flights: loadByPeriod, dropForever\n"
        assert "warning: a drop rule deletes the data that it matches" in done.err
        shown = run("rules", "show", "flights", "--json").json["rules"]
        assert [one["type"] for one in shown["flights"]] == ["loadByPeriod", "dropForever"]
        assert list(shown) == ["flights", "_default"]
        (change,) = run("rules", "show", "--history", "--json").json["changes"]
        assert (change["datasource"], change["comment"]) == ("flights", "a month is enough")
        told = run("rules", "show", "--history")
        assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  flights  ", told.out, re.MULTILINE)
        assert told.err == ""
        assert run("rules", "set", "flights", "[]").out == "flights has no rules of its own now\n"
        assert list(run("rules", "show", "--json").json["rules"]) == ["_default"]

    def test_a_history_that_is_not_all_says_so(self, run: Run, store: Path) -> None:
        metadata = open_records(settings=Settings(store=str(store)), clock=SystemClock())
        for number in range(HISTORY_SHOWN + 1):
            metadata.put_rules("flights", None, author="", comment=f"{number}")
        metadata.close()
        told = run("rules", "show", "--history")
        assert len(told.out.splitlines()) == HISTORY_SHOWN + 2
        assert f"the newest {HISTORY_SHOWN} changes; a coordinator has all" in told.err

    def test_those_that_somebody_has_broken_are_left_out(self, run: Run, store: Path) -> None:
        metadata = open_records(settings=Settings(store=str(store)), clock=SystemClock())
        for datasource, text in {"flights": "[{", "trips": '[{"type": "loadLater"}]'}.items():
            metadata.put_rules(datasource, text, author="", comment="")
        metadata.close()
        done = run("rules", "show", "--json")
        assert list(done.json["rules"]) == ["_default"]
        assert "warning: the rules of 'flights' are left out: they are no JSON: " in done.err
        assert "warning: the rules of 'trips' are left out: rule 1 of 1: 'loadLater'" in done.err

    @pytest.mark.parametrize(
        ("rules", "said"),
        [
            ('[{"type": "x"}]', "rule 1 of 1: 'x' is not a type of rule; "),
            ("{}", "rules must be an array of objects"),
            ("[", "the list of rules is not valid JSON"),
            ("nofile.json", "rules nofile.json cannot be read: No such file or directory; "),
        ],
    )
    def test_what_is_no_rule_is_one_sentence(
        self, run: Run, store: Path, rules: str, said: str
    ) -> None:
        done = run("rules", "set", "flights", rules, code=5 if rules == "nofile.json" else 2)
        assert one_sentence(done).startswith(said)


class TestPlan:
    def test_of_the_cluster_that_runs(self, run: Run, cluster: str) -> None:
        lines = run("balance", "plan").out.splitlines()
        assert lines[-1].startswith("1 run: 2 loads of ")
        assert "then the cluster is at rest" in lines[-1]
        steps = run("balance", "plan", "--json").json["steps"]
        assert {(one["what"], one["to"], one["why"]) for one in steps} == {
            ("load", cluster, "no server has it")
        }

    def test_without_a_cluster_it_says_what_to_do(self, run: Run, store: Path) -> None:
        for command in (["balance", "plan"], ["balance", "picture", "-o", "x.svg"]):
            said = one_sentence(run(*command, code=5))
            assert said.startswith("no historical serves this store")

    def test_of_tables_of_ones_own(self, run: Run, tmp_path: Path) -> None:
        write(tmp_path, segments_csv=SEGMENTS, servers_csv=SERVERS)
        done = run("balance", "plan", "segments.csv", "--servers", "servers.csv", "--json").json
        steps = [(one["what"], one["segment"], one["from"], one["to"]) for one in done["steps"]]
        assert steps == [("load", "d", None, "h2"), ("move", "a", "h1", "h2")]
        assert done["runs"][0]["cost_after"] < done["runs"][0]["cost_before"]

    def test_no_more_is_moved_than_the_settings_say(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CARNAC_MOVES_MAX", "0")
        write(tmp_path, segments_csv=SEGMENTS, servers_csv=SERVERS)
        done = run("balance", "plan", "segments.csv", "--servers", "servers.csv", "--json").json
        assert [one["what"] for one in done["steps"]] == ["load"]

    def test_a_server_that_is_decommissioned_is_emptied(self, run: Run, tmp_path: Path) -> None:
        leaves = SERVERS.replace("h1,1000,_default_tier,", "h1,1000,_default_tier,true")
        write(tmp_path, segments_csv=SEGMENTS, servers_csv=leaves)
        done = run("balance", "plan", "segments.csv", "--servers", "servers.csv")
        assert done.out.count("its server is decommissioning") == 3

    def test_of_a_server_view_with_other_rules(self, run: Run, tmp_path: Path) -> None:
        server = {"name": "h1:8083", "maxSize": 1000, "tier": "hot"}
        view = [
            {
                "segment": {
                    "identifier": f"s{number}",
                    "dataSource": "e",
                    "interval": f"2024-01-0{number}/2024-01-0{number + 1}",
                    "shardSpec": {"partitionNum": 0},
                    "size": 10,
                },
                "servers": [server],
            }
            for number in (1, 2)
        ]
        write(tmp_path, view_json=json.dumps(view))
        assert run("balance", "plan", "view.json").out.startswith("nothing to do; cost ")
        cold = '[{"type": "loadForever", "tieredReplicants": {}}]'
        write(tmp_path, rules_json=cold)
        done = run("balance", "plan", "view.json", "--rules", "rules.json")
        assert done.out.count("more copies than its rule asks for") == 2

    @pytest.mark.parametrize(
        ("segments", "args", "said", "code"),
        [
            (SEGMENTS, [], "nothing is said of server h1; give a table of servers ", 2),
            ("segment,datasource\na,b\n", [], "table segments.csv has no column 'start'; ", 2),
            (
                SEGMENTS.replace(",100,h1", ",-1,h1", 1),
                ["--servers", "servers.csv"],
                "the size in row 1 of segments.csv is -1; ",
                2,
            ),
            (
                SEGMENTS.replace(",100,h1\nc", ",1kB,h1\nc"),
                ["--servers", "servers.csv"],
                "the size in row 2 of segments.csv is '1kB'; ",
                2,
            ),
            (
                SEGMENTS.replace(",100,", f",{'9' * 5_000},", 1).replace(",100,", ",1kB,", 1),
                ["--servers", "servers.csv"],
                "the size in row 1 of segments.csv is '999",
                2,
            ),
            (SEGMENTS, ["--servers", "no.csv"], "there is no table no.csv", 5),
            (SEGMENTS, ["--rules", "no.json", "--servers", "servers.csv"], "no.json cannot be", 5),
            (SEGMENTS.replace("03T", "01T", 1), ["--servers", "servers.csv"], "", 2),
        ],
    )
    def test_what_is_wrong_is_one_sentence(
        self, *, run: Run, tmp_path: Path, segments: str, args: list[str], said: str, code: int
    ) -> None:
        write(tmp_path, segments_csv=segments, servers_csv=SERVERS)
        done = run("balance", "plan", "segments.csv", *args, code=code)
        assert one_sentence(done).startswith(said)

    def test_what_is_no_server_view_is_one_sentence(self, run: Run, tmp_path: Path) -> None:
        for text in (
            *("{", "[{}]", "7", '[{"segment": {"identifier": "a"}}]', "[" * 5_000),
            '[{"segment": {"identifier": "a", "size": 1e400}}]',
        ):
            write(tmp_path, view_json=text)
            said = one_sentence(run("balance", "plan", "view.json", code=2))
            assert "view.json is n" in said or "is out of range" in said

    def test_servers_without_segments_are_no_question(self, run: Run) -> None:
        said = one_sentence(run("balance", "plan", "--servers", "x.csv", code=2))
        assert said.startswith("--servers goes with a table of segments")


def test_the_picture_is_of_the_cluster_that_runs(
    run: Run, cluster: str, store: Path, tmp_path: Path
) -> None:
    append_rows(store, [{"__time": "2013-02-01T10:00:00Z", "carrier": "UA", "delay": 1}])
    with ExitStack() as steps:
        settings = Settings(store=str(store))
        metadata = open_records(settings=settings, clock=SystemClock())
        steps.callback(metadata.close)
        empty = start_historical(tmp_path / "h2", settings, metadata, steps).server_id
        done = run("balance", "picture", "-o", "x.svg", "--json").json
    assert (done["segments"], done["servers"], done["datasources"]) == (1, 2, 1)
    drawn = (tmp_path / "x.svg").read_text()
    assert cluster in drawn
    assert empty in drawn
