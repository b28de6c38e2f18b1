"""Drop rules are commits of the log: what they match is deleted, whole time chunks, and can be had back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from carnac.core.log.commits import CommitKind, Publication
from carnac.core.time.intervals import parse_instant
from carnac.errors import Unavailable
from carnac.ports import Published
from tests.clusters_live import LiveCluster, live_cluster
from tests.logs import append_of, day, names, revert_of, segment

DROP_OLD = {"type": "dropBeforeByPeriod", "period": "P5D"}
DROP_ALL = {"type": "dropForever"}


@pytest.fixture
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("h1", "h2") as made:
        made.clock.advance_ms(parse_instant("2013-01-09T12:00Z") - made.clock.now_ms())
        made.publish(*(f"e{number}" for number in range(1, 11)))
        made.turn()
        yield made


def drop(cluster: LiveCluster) -> None:
    cluster.clock.advance_ms(1_000)
    cluster.turn()
    cluster.coordinator.drop()


def test_nothing_is_dropped_without_a_rule_of_an_operator(cluster: LiveCluster) -> None:
    drop(cluster)
    assert cluster.deleted == []


def test_what_a_rule_matches_is_deleted_in_one_commit_that_says_so(cluster: LiveCluster) -> None:
    cluster.rules("events", DROP_OLD)
    drop(cluster)
    (commit,) = cluster.metadata.changes(after=1)
    assert commit.kind is CommitKind.DELETE
    assert commit.message == (
        "drop rule dropBeforeByPeriod P5D (events): "
        "2013-01-01T00:00:00.000Z/2013-01-04T00:00:00.000Z"
    )
    assert names(cluster.metadata) == ["e10", "e4", "e5", "e6", "e7", "e8", "e9"]
    drop(cluster)
    assert cluster.metadata.head().revision == 2


def test_rows_that_may_still_come_are_never_dropped(cluster: LiveCluster) -> None:
    cluster.rules("_default", DROP_ALL)
    drop(cluster)
    assert names(cluster.metadata) == ["e10", "e9"]
    assert cluster.metadata.log()[0].message.startswith("drop rule dropForever (_default): ")


def test_nothing_is_dropped_by_default_where_the_own_rules_are_not_read(
    cluster: LiveCluster,
) -> None:
    cluster.rules("_default", DROP_ALL)
    cluster.metadata.put_rules("events", '[{"type": "loadByNextWeek"}]')
    drop(cluster)
    assert cluster.deleted == []
    cluster.metadata.put_rules("events", None)
    drop(cluster)
    assert cluster.deleted != []


def test_a_load_rule_before_it_keeps_what_it_matches(cluster: LiveCluster) -> None:
    keep = {"type": "loadByInterval", "interval": "2013-01-02/2013-01-03"}
    cluster.rules("events", keep, DROP_OLD)
    drop(cluster)
    assert "e1" not in names(cluster.metadata)
    assert {"e2", "e3"} <= set(names(cluster.metadata))
    drop(cluster)
    assert "e3" not in names(cluster.metadata)
    drop(cluster)
    assert cluster.metadata.head().revision == 3
    assert "e2" in names(cluster.metadata)


def test_it_can_be_reverted_once_the_rule_is_gone(cluster: LiveCluster) -> None:
    cluster.rules("events", DROP_OLD)
    drop(cluster)
    cluster.metadata.put_rules("events", None)
    cluster.metadata.publish(revert_of(cluster.metadata, 2))
    drop(cluster)
    assert "e1" in names(cluster.metadata)
    assert cluster.metadata.head().revision == 3


def test_what_was_dropped_is_unloaded_and_told(cluster: LiveCluster) -> None:
    cluster.settle()
    assert "e1" in cluster.copies()
    cluster.rules("events", DROP_OLD)
    drop(cluster)
    cluster.settle()
    assert cluster.told == 2
    assert sorted(cluster.copies()) == names(cluster.metadata)


def test_only_the_leader_drops(cluster: LiveCluster) -> None:
    cluster.rules("events", DROP_OLD)
    second = cluster.another("two")
    cluster.turn(second)
    second.drop()
    assert cluster.deleted == []


def test_a_datasource_that_cannot_be_changed_keeps_no_other_one_from_it(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = cluster.metadata.publish
    publish(append_of(segment("o1", day(1), datasource="others"), datasource="others"))

    def refuse(publication: Publication) -> Published:
        if publication.changes[0].datasource == "events":
            raise Unavailable("the database does not answer")
        return publish(publication)

    monkeypatch.setattr(cluster.metadata, "publish", refuse)
    cluster.rules("_default", DROP_OLD)
    drop(cluster)
    assert [datasource for datasource, _, _ in cluster.deleted] == ["events", "others"]
    assert (cluster.metadata.visible("others"), "e1" in names(cluster.metadata)) == ((), True)
