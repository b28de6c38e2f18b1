"""The ways of answering: from what is announced, and from the revision that is told."""

from __future__ import annotations

from typing import Protocol

from benchmarks.replacement.courses import AnswerKind, Second
from benchmarks.replacement.fleet import Fleet
from benchmarks.replacement.scenario import (
    CHUNK,
    NEW_REVISION,
    OLD_REVISION,
    Replacement,
)
from carnac.core.log.entries import Entry
from carnac.core.rollout.deciding import decide_rollout
from carnac.core.rollout.lives import SegmentLives
from carnac.core.rollout.model import Broker, BrokerRevisions, RolloutState
from tests.support.rollouts import view_of
from tests.support.timeline import Timeline, Visibility

LEASE_MS = 30_000


class Answering(Protocol):
    """A coordinator and a broker of one kind."""

    def publish(self) -> None:
        """The new segments are committed."""

    def coordinate(self, fleet: Fleet) -> None:
        """Let servers load what is wanted and drop what is not."""

    def ask(self, fleet: Fleet) -> Second:
        """Return what a query sees."""


class FallbackWay:
    """Announced segments alone say which are visible; segments that they overshadow are dropped after a while.

    A query of a server that is dead, and not known to be, fails. If no complete set is announced, the answer has as
    many of the surviving rows as can be shown.
    """

    def __init__(self, scenario: Replacement) -> None:
        self._scenario = scenario
        self._wanted = scenario.old_entries
        self._replaced_s: int | None = None
        self._is_dropped = False

    def publish(self) -> None:
        """The new segments are wanted beside the old ones, until these are overshadowed."""
        self._wanted = (*self._wanted, *self._scenario.new_entries)

    def coordinate(self, fleet: Fleet) -> None:
        """Drop the old segments when the new ones have shown for long enough; load what is lost."""
        timeline, new = self._timeline(fleet), self._scenario.new_entries
        if any(timeline.find_visibility(one) is not Visibility.VISIBLE for one in new):
            self._replaced_s = None
        elif self._replaced_s is None:
            self._replaced_s = fleet.now_s
        if (
            self._replaced_s is not None
            and fleet.now_s >= self._replaced_s + self._scenario.linger_s
        ):
            self._is_dropped, self._wanted = True, new
        if self._is_dropped:
            for server in fleet.known:
                for entry in self._scenario.old_entries:
                    fleet.unload(server.server_id, entry.segment_id)
        fleet.place(self._wanted)

    def ask(self, fleet: Fleet) -> Second:
        """Read what shows of what is announced."""
        pieces = self._timeline(fleet).lookup(CHUNK, incomplete=True)
        shown = [entry for piece in pieces for entry in piece.entries]
        is_new = any(one.added_revision == NEW_REVISION for one in shown)
        if not fleet.readable >= {one.segment_id for one in shown}:
            return Second(kind=AnswerKind.REFUSED, share=0.0, is_new=is_new)
        ids = {one.segment_id for one in shown}
        for entries in (self._scenario.old_entries, self._scenario.new_entries):
            if ids == {one.segment_id for one in entries}:
                return Second(kind=AnswerKind.NEW if is_new else AnswerKind.OLD, is_new=is_new)
        share = sum(map(self._scenario.share_of, shown))
        return Second(kind=AnswerKind.SHORT, share=share, is_new=is_new)

    def _timeline(self, fleet: Fleet) -> Timeline:
        announced, known = (
            fleet.announced,
            (*self._scenario.old_entries, *self._scenario.new_entries),
        )
        return Timeline(one for one in known if one.segment_id in announced)


class RolloutWay:
    """A told revision says what is needed; the log says what it is.

    Args:
        reads_cold: Whether what no server has loaded is read from deep storage, or is an error.
    """

    def __init__(self, scenario: Replacement, *, reads_cold: bool) -> None:
        self._scenario = scenario
        self._reads_cold = reads_cold
        self._lives = SegmentLives()
        self._lives.apply(scenario.log[0])
        self._told = OLD_REVISION
        self._broker = BrokerRevisions(planning=OLD_REVISION)

    def publish(self) -> None:
        """The log has the next commit."""
        self._lives.apply(self._scenario.log[1])

    def coordinate(self, fleet: Fleet) -> None:
        """Tell, load and unload as is decided; the broker hears it before the next decision."""
        decided = decide_rollout(self._state(fleet))
        for order in decided.unloads:
            fleet.unload(order.server_id, order.segment_id)
        floor = self._told if decided.floor is None else decided.floor
        fleet.place(
            one
            for one in (*self._scenario.old_entries, *self._scenario.new_entries)
            if self._lives.is_needed(one.segment_id, floor)
        )
        self._broker = self._broker.follow(self._told, self._lives.head)
        self._told = decided.tell_revision

    def _state(self, fleet: Fleet) -> RolloutState:
        now_ms = fleet.now_s * 1000
        broker = Broker(
            broker_id="broker",
            planning_revision=self._broker.planning,
            oldest_revision=self._broker.oldest,
            heartbeat_at_ms=now_ms,
            lease_ms=LEASE_MS,
        )
        servers = tuple(
            view_of(one.server_id, loaded=one.loaded, loading=one.loading) for one in fleet.known
        )
        return RolloutState(
            now_ms=now_ms,
            told_revision=self._told,
            lives=self._lives,
            historicals=servers,
            brokers=(broker,),
        )

    def ask(self, fleet: Fleet) -> Second:
        """Read what the planning revision needs. A server that does not answer has nothing loaded."""
        is_new = self._broker.planning == NEW_REVISION
        needed = self._scenario.new_entries if is_new else self._scenario.old_entries
        if self._is_loaded(needed, fleet):
            return Second(kind=AnswerKind.NEW if is_new else AnswerKind.OLD, is_new=is_new)
        if self._reads_cold:
            return Second(kind=AnswerKind.COLD, is_new=is_new)
        return Second(kind=AnswerKind.REFUSED, share=0.0, is_new=is_new)

    def _is_loaded(self, needed: tuple[Entry, ...], fleet: Fleet) -> bool:
        return fleet.readable >= {one.segment_id for one in needed}
