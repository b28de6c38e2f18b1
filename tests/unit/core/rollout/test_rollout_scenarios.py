"""The scenarios of source 3, row by row: both orders of completion, and a replacement by nothing.

The proposal's tables name S4 twice and drop what its story keeps; the story is followed (design, section 9).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from carnac.core.rollout.deciding import decide_rollout
from carnac.core.rollout.lives import SegmentLives
from carnac.core.rollout.model import REPLACED, BrokerRevisions, Rollout, RolloutState
from tests.support.laws.rollout import check_at_rest, check_rollout
from tests.support.rollouts import LEASE_MS, broker, commit_of, rollout_state, view_of


@dataclass
class Story:
    """One historical, one broker and a leader that decides whenever it is asked."""

    lives: SegmentLives = field(default_factory=SegmentLives)
    told: int = 0
    loaded: set[str] = field(default_factory=set)
    broker: BrokerRevisions = field(default_factory=lambda: BrokerRevisions(planning=0))

    def publish(self, adds: str = "", drops: str = "") -> None:
        self.lives.apply(commit_of(self.lives.head + 1, adds.split(), drops.split()))

    def state(self) -> RolloutState:
        heard = broker("b1", self.broker.planning, self.broker.oldest)
        return rollout_state(
            self.lives,
            self.told,
            [view_of("h1", loaded=frozenset(self.loaded))],
            [heard],
        )

    def decide(self) -> Rollout:
        """Have the leader decide and act, and check the laws."""
        rollout = decide_rollout(self.state())
        check_rollout(self.state(), rollout)
        self.told = rollout.tell_revision
        for order in rollout.unloads:
            assert order.why == REPLACED
            self.loaded.discard(order.segment_id)
        return rollout

    def load(self, segments: str) -> None:
        self.loaded |= set(segments.split())

    def confirm(self) -> None:
        self.broker = self.broker.follow(self.told, self.lives.head)

    @property
    def queried(self) -> str:
        """What a query that is planned now needs."""
        needed = (
            one
            for one in self.lives.live | self.lives.ended
            if any(life.holds(self.broker.planning) for life in self.lives.of(one))
        )
        return " ".join(sorted(needed))


def started() -> Story:
    """After I1 and I2: version 2 with S1 to S4 is told, confirmed and loaded."""
    story = Story()
    story.publish("S1 S2")
    story.decide()
    assert story.told == 0, "nothing is told before it is loaded"
    story.load("S1 S2")
    story.decide()
    story.confirm()
    assert (story.told, story.queried) == (1, "S1 S2")
    story.publish("S3 S4")
    assert [one.segment_id for one in story.decide().waiting] == ["S3", "S4"]
    assert story.queried == "S1 S2", "while historicals load version 2, they go on serving 1"
    story.load("S3")
    story.decide()
    assert story.told == 1, "no query sees half of a version"
    story.load("S4")
    story.decide()
    story.confirm()
    assert story.decide().unloads == ()
    assert (story.told, story.queried) == (2, "S1 S2 S3 S4")
    return story


def test_ingestion_completes_before_compaction() -> None:
    story = started()
    story.publish("S5 S6")
    story.load("S5 S6")
    story.decide()
    story.confirm()
    assert story.queried == "S1 S2 S3 S4 S5 S6"
    story.publish("S7", "S1 S2 S3 S4")
    story.load("S7")
    assert story.decide().unloads == (), "version 4 is only being told"
    assert story.told == 4
    assert story.decide().holders == ("b1",), "the broker has not confirmed"
    assert story.loaded >= {"S1", "S2", "S3", "S4"}
    story.confirm()
    assert story.queried == "S5 S6 S7"
    assert [order.segment_id for order in story.decide().unloads] == ["S1", "S2", "S3", "S4"]
    check_at_rest(story.state())


def test_compaction_completes_before_ingestion() -> None:
    story = started()
    story.publish("S5", "S1 S2 S3 S4")
    story.load("S5")
    story.decide()
    story.confirm()
    assert story.queried == "S5"
    assert [order.segment_id for order in story.decide().unloads] == ["S1", "S2", "S3", "S4"]
    story.publish("S6 S7")
    story.load("S6 S7")
    story.decide()
    story.confirm()
    assert story.decide().unloads == (), "version 4 drops nothing"
    assert story.queried == "S5 S6 S7"
    check_at_rest(story.state())


def test_replacement_by_nothing_needs_no_tombstone() -> None:
    story = started()
    story.publish("", "S1 S2 S3 S4")
    assert story.decide().tell_revision == 3, "there is nothing to load"
    assert story.loaded, "until the broker confirms"
    story.confirm()
    assert story.queried == ""
    story.decide()
    assert not story.loaded
    check_at_rest(story.state())


def test_versions_published_while_others_load_are_told_at_once() -> None:
    story = started()
    story.publish("S5 S6")
    story.publish("S7", "S1 S2 S3 S4 S5 S6")
    story.load("S7")
    assert story.decide().tell_revision == 4, "version 3 is not waited for: nothing needs S5 and S6"
    story.confirm()
    story.decide()
    assert story.loaded == {"S7"}


def test_running_query_keeps_what_its_version_needs() -> None:
    story = started()
    story.broker = story.broker.begin()
    story.publish("S5", "S1 S2 S3 S4")
    story.load("S5")
    story.decide()
    story.confirm()
    assert story.broker.oldest == 2
    assert story.decide().unloads == ()
    story.broker = story.broker.end(2)
    assert story.broker.oldest == 3
    story.decide()
    assert story.loaded == {"S5"}


def test_silent_broker_counts_until_its_lease_is_over() -> None:
    story = started()
    story.publish("S5", "S1 S2 S3 S4")
    story.load("S5")
    story.decide()
    silent, confirmed = broker("b1", 2), broker("b2", 3, heartbeat_at_ms=LEASE_MS)
    at = {
        now_ms: decide_rollout(
            rollout_state(
                story.lives,
                3,
                story.state().historicals,
                [silent, confirmed],
                now_ms=now_ms,
            )
        )
        for now_ms in (LEASE_MS - 1, LEASE_MS)
    }
    assert (at[LEASE_MS - 1].unloads, at[LEASE_MS - 1].holders) == ((), ("b1",))
    assert (len(at[LEASE_MS].unloads), at[LEASE_MS].holders) == (4, ())
