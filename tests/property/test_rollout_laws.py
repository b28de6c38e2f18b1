"""RO-2 to RO-6 hold for every decision over random logs, servers, brokers and surplus."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from carnac.core.balancing.live.picture import ServerView
from carnac.core.rollout.deciding import decide_rollout
from carnac.core.rollout.lives import SegmentLives
from carnac.core.rollout.model import Broker, RolloutState, Surplus
from tests.support.laws.rollout import check_rollout
from tests.support.rollouts import commit_of, view_of

SEGMENTS = "abcdef"
LEASE_MS = 10
ids = st.frozensets(st.sampled_from(SEGMENTS))


@st.composite
def logs(draw: st.DrawFn) -> SegmentLives:
    """A log in which segments come, go and come back; part of it may be forgotten."""
    lives = SegmentLives()
    for _ in range(draw(st.integers(0, 6))):
        changed = draw(ids)
        lives.apply(
            commit_of(
                lives.head + 1,
                sorted(changed - lives.live),
                sorted(changed & lives.live),
                at_ms=lives.head * 10,
            )
        )
    lives.forget(draw(st.sampled_from([0, 0, 1, lives.head])))
    return lives


@st.composite
def historicals(draw: st.DrawFn) -> list[ServerView]:
    servers = []
    for name in ("h1", "h2", "h3"):
        loaded, loading, unloading, failed = (set(draw(ids)) for _ in range(4))
        loading -= loaded
        unloading -= loaded | loading
        servers.append(
            view_of(
                name,
                loaded=loaded,
                loading=loading,
                unloading=unloading,
                failed=failed - loaded - loading - unloading,
                is_draining=draw(st.integers(0, 4)) == 0,
                obeys=draw(st.integers(0, 4)) > 0,
            )
        )
    return servers


@st.composite
def states(draw: st.DrawFn) -> RolloutState:
    lives = draw(logs())
    revisions = st.integers(0, lives.head)
    brokers = [
        Broker(
            broker_id=name,
            planning_revision=draw(revisions),
            oldest_revision=draw(revisions),
            heartbeat_at_ms=draw(st.integers(0, 2 * LEASE_MS)),
            lease_ms=LEASE_MS,
        )
        for name in draw(st.sampled_from(["", "p", "pq"]))
    ]
    pairs = st.tuples(st.sampled_from(["h1", "h2", "h3", "h4"]), st.sampled_from(SEGMENTS))
    return RolloutState(
        now_ms=draw(st.integers(0, 80)),
        told_revision=draw(st.none() | st.integers(0, lives.head + 1)),
        lives=lives,
        historicals=draw(historicals()),
        brokers=brokers,
        leading_since_ms=draw(st.integers(0, 40)),
        unwanted=draw(ids),
        unplaced=dict.fromkeys(draw(ids), "no_room"),
        surplus=[
            Surplus(server_id=server, segment_id=segment, why="surplus")
            for server, segment in draw(st.lists(pairs, max_size=12, unique=True))
        ],
        patience_ms=draw(st.integers(1, 50)),
    )


@given(states())
def test_every_decision_keeps_the_laws(state: RolloutState) -> None:
    check_rollout(state, decide_rollout(state))


@given(states())
def test_a_decision_that_was_carried_out_leaves_nothing_to_decide(state: RolloutState) -> None:
    """What was told and unloaded is not told and unloaded again, so a lost answer costs nothing."""
    rollout = decide_rollout(state)
    if state.told_revision is None:
        return
    gone = {(one.server_id, one.segment_id) for one in rollout.unloads}
    after = RolloutState(
        now_ms=state.now_ms,
        told_revision=rollout.tell_revision,
        lives=state.lives,
        historicals=[
            view_of(
                server.server_id,
                loaded={one for one in server.loaded if (server.server_id, one) not in gone},
                loading={one for one in server.loading if (server.server_id, one) not in gone},
                unloading=server.unloading,
                failed={one for one in server.failed if (server.server_id, one) not in gone},
                is_draining=server.is_draining,
                obeys=server.obeys,
            )
            for server in state.historicals
        ],
        brokers=[
            *state.brokers,  # a broker that stays behind keeps the floor where it was
            Broker(
                broker_id="slow",
                planning_revision=rollout.floor or 0,
                oldest_revision=rollout.floor or 0,
                heartbeat_at_ms=state.now_ms,
                lease_ms=LEASE_MS,
            ),
        ],
        leading_since_ms=state.leading_since_ms,
        unwanted=state.unwanted,
        unplaced=state.unplaced,
        surplus=state.surplus,
        patience_ms=state.patience_ms,
    )
    again = decide_rollout(after)
    assert again.unloads == ()
    assert again.tell_revision == rollout.tell_revision
