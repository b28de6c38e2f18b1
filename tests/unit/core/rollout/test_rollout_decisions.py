"""What a decision waits for, gives up, keeps and drops."""

from __future__ import annotations

import pytest

from carnac.core.rollout.deciding import LAST_COPY, decide_rollout, newest_whole
from carnac.core.rollout.lives import Life, SegmentLives
from carnac.core.rollout.model import (
    LOAD_PATIENCE_MS,
    BrokerRevisions,
    Cold,
    Rollout,
    RolloutState,
    Surplus,
    Waiting,
)
from carnac.errors import Invalid
from tests.support.laws.rollout import check_rollout
from tests.support.rollouts import broker, commit_of, entry_of, historical, lives_of, rollout_state


def decide(state: RolloutState) -> Rollout:
    """Decide, and check the laws."""
    rollout = decide_rollout(state)
    check_rollout(state, rollout)
    return rollout


def drops(rollout: Rollout) -> list[tuple[str, str]]:
    return [(one.server_id, one.segment_id) for one in rollout.unloads]


def surplus(server_id: str, segment_id: str) -> Surplus:
    return Surplus(server_id=server_id, segment_id=segment_id, why="surplus")


def test_first_told_is_the_newest_because_brokers_plan_on_it_already() -> None:
    rollout = decide(rollout_state(lives_of(("a", ""), ("b", "a")), None, [historical("h1", "a")]))
    assert (rollout.tell_revision, rollout.unloads) == (2, ())


def test_nothing_is_decided_from_a_log_that_is_older_than_what_was_told() -> None:
    rollout = decide(rollout_state(lives_of(("a", "")), 7, [historical("h1", "a x")]))
    assert (rollout.tell_revision, rollout.unloads) == (7, ())


def test_what_waits_says_for_how_long_and_who_loads_it() -> None:
    state = rollout_state(
        lives_of(("a", ""), ("b c", "")),
        1,
        [historical("h1", "a", loading="b"), historical("h2", "", loading="b")],
        now_ms=1_000,
        leading_since_ms=1_000,
    )
    until_ms = 1_000 + LOAD_PATIENCE_MS
    assert decide(state).waiting == (
        Waiting(segment_id="b", revision=2, until_ms=until_ms, loading_on=("h1", "h2")),
        Waiting(segment_id="c", revision=2, until_ms=until_ms),
    )


@pytest.mark.parametrize(
    ("fields", "failed", "loading", "why"),
    [
        ({"unwanted": {"b"}}, "", "", Cold.UNWANTED),
        ({"unplaced": {"b": "no_room"}}, "", "", Cold.UNPLACED),
        ({}, "b", "", Cold.FAILED),
        ({"now_ms": LOAD_PATIENCE_MS}, "", "b", Cold.LATE),
    ],
)
def test_what_cannot_be_loaded_holds_nothing_back(
    fields: dict[str, object], failed: str, loading: str, why: Cold
) -> None:
    servers = [historical("h1", "a", failed=failed), historical("h2", loading=loading)]
    rollout = decide(rollout_state(lives_of(("a", ""), ("b", "")), 1, servers, **fields))
    assert (rollout.tell_revision, rollout.waiting, rollout.cold) == (2, (), {"b": why})


def test_a_load_that_failed_is_waited_for_while_another_server_tries() -> None:
    servers = [historical("h1", failed="a"), historical("h2", loading="a")]
    rollout = decide(rollout_state(lives_of(("a", "")), 0, servers))
    assert (rollout.tell_revision, [one.segment_id for one in rollout.waiting]) == (0, ["a"])


def test_a_new_leader_gives_every_load_its_time_anew() -> None:
    state = rollout_state(
        lives_of(("a", "")),
        0,
        [historical("h1", loading="a")],
        now_ms=LOAD_PATIENCE_MS,
        leading_since_ms=LOAD_PATIENCE_MS - 1,
    )
    assert decide(state).tell_revision == 0


@pytest.mark.parametrize("what", [{"is_draining": True}, {"obeys": False}])
def test_only_servers_that_are_counted_on_make_a_revision_ready(what: dict[str, bool]) -> None:
    rollout = decide(rollout_state(lives_of(("a", "")), 0, [historical("h1", "a", **what)]))
    assert rollout.tell_revision == 0


def test_what_the_told_revision_needs_already_holds_nothing_back() -> None:
    lives = lives_of(("a", ""), ("b", ""))
    assert decide(rollout_state(lives, 1, [historical("h1", "b")])).tell_revision == 2


def test_a_segment_that_comes_back_is_loaded_first() -> None:
    lives = lives_of(("a", ""), ("b", "a"), ("a", "b"))
    assert decide(rollout_state(lives, 2, [historical("h1", "b")])).tell_revision == 2
    assert decide(rollout_state(lives, 2, [historical("h1", "a b")])).tell_revision == 3


def test_unloading_copies_are_no_copies() -> None:
    state = rollout_state(
        lives_of(("a", "")),
        1,
        [historical("h1", "a"), historical("h2", unloading="a")],
        surplus=[surplus("h1", "a")],
    )
    rollout = decide(state)
    assert (drops(rollout), list(rollout.kept.values())) == ([], [LAST_COPY])


def test_of_surplus_one_copy_stays() -> None:
    state = rollout_state(
        lives_of(("a", "")),
        1,
        [historical("h1", "a"), historical("h2", "a"), historical("h3", loading="a")],
        surplus=[surplus("h3", "a"), surplus("h1", "a"), surplus("h2", "a"), surplus("h4", "a")],
    )
    rollout = decide(state)
    assert drops(rollout) == [("h3", "a"), ("h1", "a")]
    assert [(one.server_id, why) for one, why in rollout.kept.items()] == [("h2", LAST_COPY)]


def test_a_drop_rule_takes_every_copy_and_replaced_rows_do_not_show_again() -> None:
    """A real Druid showed the older segments while those that had replaced them were dropped."""
    lives = lives_of(("old", ""), ("new", "old"))
    state = rollout_state(
        lives, 2, [historical("h1", "new")], unwanted={"new"}, surplus=[surplus("h1", "new")]
    )
    rollout = decide(state)
    assert (drops(rollout), rollout.tell_revision) == ([("h1", "new")], 2)
    assert lives.live == {"new"}, "what a query on revision 2 reads, from deep storage now"


def test_loads_that_nothing_needs_any_more_are_cancelled() -> None:
    lives = lives_of(("a", ""), ("b", "a"))
    rollout = decide(rollout_state(lives, 2, [historical("h1", "b", loading="a", failed="x")]))
    assert drops(rollout) == [("h1", "a"), ("h1", "x")]


def test_nothing_is_unloaded_for_revisions_that_are_not_remembered() -> None:
    lives = lives_of(("a", ""), ("b", "a"))
    lives.forget(2)
    state = rollout_state(lives, 2, [historical("h1", "a b")], [broker("b1", 1)])
    assert decide(state).unloads == ()


@pytest.mark.parametrize("newest", range(8))
def test_newest_whole_revision_is_the_one_that_counting_finds(newest: int) -> None:
    lives = [
        Life(segment_id="s", added=added, added_at_ms=0, dropped=dropped)
        for added, dropped in [(1, 3), (2, 5), (6, 7), (7, None)]
    ]
    whole = [r for r in range(newest + 1) if not any(life.holds(r) for life in lives)]
    assert newest_whole(lives, newest=newest, oldest=0) == max(whole)
    assert newest_whole(lives, newest=newest, oldest=newest) == (
        newest if newest in whole else None
    )


def test_broker_never_goes_back() -> None:
    revisions = BrokerRevisions(planning=3).follow(None, 5)
    assert revisions.planning == 5, "while nothing is told it plans on the newest"
    assert revisions.follow(4, 9).planning == 5
    assert revisions.follow(6, 9).planning == 6
    assert revisions.begin(2).oldest == 2


def test_lives_follow_entries_and_not_clips() -> None:
    lives = SegmentLives(4, [entry_of("a", 1), entry_of("a", 1, 1), entry_of("b", 4)], at_ms=50)
    lives.apply(commit_of(5, ["a"], ["a", "a"], at_ms=70))
    assert [(life.added, life.dropped) for life in lives.of("a")] == [(4, None)]
    lives.apply(commit_of(6, [], ["a"], at_ms=80))
    lives.apply(commit_of(7, ["a"], ["b"], at_ms=90))
    assert [(one.added, one.added_at_ms, one.dropped) for one in lives.of("a")] == [
        (4, 50, 6),
        (7, 90, None),
    ]
    assert [life.segment_id for life in lives.since(4)] == ["a"]
    lives.forget(7)
    assert (lives.of("b"), lives.ended, list(lives.since(7))) == ((), set(), [])


@pytest.mark.parametrize(
    ("commit", "message"),
    [
        (commit_of(3, ["b"]), "does not follow"),
        (commit_of(2, [], ["x"]), "is not live"),
    ],
)
def test_lives_refuse_a_log_with_gaps(commit: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        lives_of(("a", "")).apply(commit)  # type: ignore[arg-type]
