"""A timeline that follows the log: what is dead stays dead, and takes no memory."""

from __future__ import annotations

import pytest

from carnac.core.log.commits import Commit, CommitKind, DatasourceCommit
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.time.intervals import ETERNITY, interval_set
from carnac.core.timeline import FollowedTimeline, Visibility, check_followed
from carnac.errors import Invalid, InvariantError
from carnac.metadata.store import SqlMetadataStore
from tests.logs import DATASOURCE, append, day, folding, replacement, segment
from tests.timelines import entry, hours

DAY = hours(0, 24)


def commit(revision: int, adds: list[Entry], drops: list[Entry]) -> Commit:
    change = DatasourceCommit(datasource=DATASOURCE, adds=tuple(adds), drops=tuple(drops))
    return Commit(revision=revision, kind=CommitKind.REPLACE, at_ms=0, changes=(change,))


def of(revision: int, at: int = 0, **fields: object) -> Entry:
    """An entry that a revision adds in the first day."""
    fields = {"partition_id": revision} | fields
    return entry(revision << ENTRY_BITS | at, **{"chunk": DAY} | fields)  # type: ignore[arg-type]


def shown(timeline: FollowedTimeline, *, incomplete: bool = False) -> list[str]:
    pieces = timeline.lookup(ETERNITY, incomplete=incomplete)
    return sorted(item.segment_id for piece in pieces for item in piece.entries)


def history_of(store: SqlMetadataStore) -> tuple[dict[str, Entry], list[Entry]]:
    """Every entry that there ever was, by segment, and those that are live."""
    commits = [store.commit(revision) for revision in range(1, store.head().revision + 1)]
    ever = {e.segment_id: e for c in commits for change in c.changes for e in change.adds}
    return ever, [item.entry for item in store.visible(DATASOURCE)]


def test_a_link_of_the_chain_that_nobody_announces_is_not_needed(
    memory_store: SqlMetadataStore,
) -> None:
    """Once s1 and s3 were shown together, marked complete: nobody had told of s2, which stood between."""
    store = memory_store
    append(store, segment("s1", day(1)))
    append(store, segment("s0", day(1)))
    store.publish(folding(store, ("s1",), segment("s2", day(1))))
    store.publish(folding(store, ("s2",), segment("s3", day(1))))
    ever, live = history_of(store)
    timeline = FollowedTimeline(DATASOURCE, 4, live)
    for name in ("s0", "s1", "s3"):
        assert timeline.add(ever[name]) == (name != "s1")
    assert shown(timeline) == ["s0", "s3"]
    assert [piece.is_complete for piece in timeline.lookup(ETERNITY)] == [True]
    assert timeline.find_visibility(ever["s1"]) is None
    assert not timeline.remove(ever["s1"])


def test_a_deleted_entry_that_is_announced_again_stays_hidden(
    memory_store: SqlMetadataStore,
) -> None:
    store = memory_store
    append(store, segment("s1", day(1)))
    append(store, segment("s2", day(2)))
    store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
    ever, live = history_of(store)
    started_anew, there_all_along = (
        FollowedTimeline(DATASOURCE, 3, live),
        FollowedTimeline(DATASOURCE),
    )
    for revision in (1, 2, 3):
        there_all_along.follow(store.commit(revision))
        if revision == 1:
            there_all_along.add(ever["s1"])
    for timeline in (started_anew, there_all_along):
        timeline.add(ever["s1"])
        timeline.add(ever["s2"])
        assert shown(timeline) == ["s2"]
        assert (len(timeline), timeline.size) == (1, 1)


def test_two_thousand_rounds_leave_what_is_live() -> None:
    timeline = FollowedTimeline(DATASOURCE)
    before = of(1)
    timeline.follow(commit(1, [before], []))
    for number in range(1, 2001):
        appended, folded = of(2 * number), of(2 * number + 1)
        timeline.follow(commit(2 * number, [appended], []))
        timeline.add(appended)
        timeline.follow(commit(2 * number + 1, [folded], [before, appended]))
        timeline.add(folded)
        before = folded
        assert timeline.size == 1
    assert shown(timeline) == [before.segment_id]


def test_what_is_announced_ahead_of_the_log_stands_by() -> None:
    timeline, new, never = FollowedTimeline(DATASOURCE), of(2), of(2, 1)
    timeline.follow(commit(1, [of(1)], []))
    assert timeline.add(new)
    assert not timeline.add(new)
    assert timeline.add(never)
    assert timeline.add(of(9))
    assert timeline.find_visibility(new) is Visibility.STANDBY
    assert shown(timeline, incomplete=True) == []
    assert timeline.remove(of(9))
    timeline.follow(commit(2, [new], [of(1)]))
    assert timeline.find_visibility(new) is Visibility.VISIBLE
    assert timeline.find_visibility(never) is None, "the log never had it"
    assert timeline.size == 1


def test_what_is_missing_is_said_and_not_passed_off_as_whole() -> None:
    early, late = of(1, span=hours(0, 6)), of(1, 1, span=hours(6, 24), partition_id=2)
    other = of(1, 2, chunk=hours(24, 48))
    timeline = FollowedTimeline(DATASOURCE, 1, [late, early, other])
    for item in (early, other):
        timeline.add(item)
    assert shown(timeline) == [other.segment_id]
    assert shown(timeline, incomplete=True) == [early.segment_id, other.segment_id]
    assert [p.is_complete for p in timeline.lookup(ETERNITY, incomplete=True)] == [False, True]
    assert timeline.missing(hours(0, 48)) == (late,)
    assert timeline.missing(hours(0, 6)) == ()
    [piece] = timeline.lookup(hours(2, 6))
    assert (piece.interval, piece.entries, piece.is_complete) == (hours(2, 6), (early,), True)
    timeline.remove(early)
    assert timeline.missing(hours(0, 48)) == (early, late)


def test_a_clip_is_followed() -> None:
    whole = of(1)
    clipped = of(2, clip=interval_set([hours(0, 3)]))
    timeline = FollowedTimeline(DATASOURCE, 1, [whole])
    timeline.add(whole)
    timeline.follow(commit(2, [clipped], [whole]))
    timeline.add(clipped)
    timeline.add(whole)
    assert timeline.lookup(hours(3, 24)) == ()
    check_followed(timeline, [clipped], {whole.entry_id, clipped.entry_id})


def test_other_datasources_are_not_its_concern() -> None:
    timeline = FollowedTimeline("another")
    timeline.follow(commit(1, [of(1)], []))
    assert (timeline.revision, timeline.size) == (1, 0)


def test_a_log_with_gaps_is_refused() -> None:
    timeline = FollowedTimeline(DATASOURCE)
    with pytest.raises(Invalid, match="does not follow 0"):
        timeline.follow(commit(2, [], []))
    with pytest.raises(Invalid, match="not live"):
        timeline.follow(commit(1, [], [of(1)]))


def test_the_law_notices_what_is_wrong() -> None:
    timeline = FollowedTimeline(DATASOURCE, 1, [of(1)])
    check_followed(timeline, [of(1)], ())
    with pytest.raises(InvariantError, match="TL-5"):
        check_followed(timeline, [of(1)], {of(1).entry_id})
