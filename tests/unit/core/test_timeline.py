"""The timeline: the scenarios of the sources, and what a law cannot say."""

from __future__ import annotations

import itertools

import pytest

from carnac.core.log.commits import CommitKind, DatasourceCommit
from carnac.core.log.entries import ENTRY_BITS, Entry
from carnac.core.segments.version import SegmentVersion
from carnac.core.time.intervals import ETERNITY, IntervalSet
from carnac.errors import Invalid, InvariantError
from carnac.metadata.store import MetadataStore
from tests.logs import DATASOURCE, append, append_of, day, folding, interval, replacement, segment
from tests.support.laws.timeline import check_timeline, check_unchanged
from tests.support.timeline import (
    Timeline,
    Visibility,
)
from tests.support.told_timelines import Told, retired_by
from tests.timelines import entry, hours

HOUR = hours(0, 1)
DAY = hours(0, 24)


def shown(timeline: Timeline | Told, *, incomplete: bool = False) -> list[int]:
    """The ids of the entries that show, sorted."""
    timeline = timeline.now() if isinstance(timeline, Told) else timeline
    pieces = timeline.lookup(ETERNITY, incomplete=incomplete)
    return sorted({item.entry_id for piece in pieces for item in piece.entries})


def batch(first_id: int, count: int, *, major: int = 1, first: int = 0) -> list[Entry]:
    """An update group that replaces nothing."""
    members = range(first, first + count)
    return [
        entry(first_id + n, HOUR, major=major, partition_id=member, group=members)
        for n, member in enumerate(members)
    ]


class TestVersions:
    """Source 5: a higher major version overshadows; then a higher minor version, of what it replaced."""

    def test_the_major_version_goes_before_the_minor(self) -> None:
        old = entry(1, HOUR, major=2018, minor=1)
        new = entry(2, HOUR, major=2019, minor=0)
        timeline = Timeline([new, old])
        assert timeline.find_visibility(old) is Visibility.OVERSHADOWED
        assert timeline.find_visibility(new) is Visibility.VISIBLE

    def test_string_order_of_versions_is_their_order(self) -> None:
        versions = [
            SegmentVersion(ms, minor) for ms in (0, 43_200_000, 86_400_000) for minor in (0, 1)
        ]
        assert sorted(versions, key=str) == sorted(versions)

    def test_a_minor_version_hides_what_it_names_and_nothing_else(self) -> None:
        base = batch(1, 3)
        folded = entry(4, HOUR, minor=1, partition_id=3, replaces=[1, 2])
        appended = entry(5, HOUR, partition_id=4)
        assert shown(Timeline([*base, folded, appended])) == [1, 4, 5]


class TestFallingBack:
    def test_through_three_major_versions(self) -> None:
        generations = [batch(10 * major, 2, major=major) for major in (1, 2, 3)]
        timeline = Told(itertools.chain(*generations))
        for major in (3, 2, 1):
            assert shown(timeline) == [10 * major, 10 * major + 1]
            timeline.remove(generations[major - 1][1])
        assert shown(timeline) == []
        assert shown(timeline, incomplete=True) == [30], "the newest that survives"
        assert timeline.now().find_visibility(generations[0][0]) is Visibility.STANDBY

    def test_a_compaction_of_part_of_a_broken_group_falls_back_with_it(self) -> None:
        """Else rows would show twice: 6 was made of 3 and 5, and 1, 2 come back for 3 and 4."""
        inputs = [entry(1, HOUR, partition_id=0), entry(2, HOUR, partition_id=1)]
        outputs = [
            entry(3 + n, HOUR, minor=1, partition_id=2 + n, group=[2, 3], replaces=[0, 1])
            for n in (0, 1)
        ]
        appended = entry(5, HOUR, partition_id=4)
        second = entry(6, HOUR, minor=2, partition_id=5, replaces=[2, 4])
        timeline = Told([*inputs, *outputs, appended, second])
        assert shown(timeline) == [4, 6]
        timeline.expect(outputs[1])
        assert shown(timeline) == [1, 2, 5]
        assert [piece.is_newest for piece in timeline.now().lookup(ETERNITY)] == [False]

    def test_a_hole_in_the_chain_is_no_hole_while_the_middle_is_expected(self) -> None:
        oldest = entry(1, HOUR, partition_id=0)
        middle = entry(2, HOUR, minor=1, partition_id=1, replaces=[0])
        newest = entry(3, HOUR, minor=2, partition_id=2, replaces=[1])
        timeline = Told([oldest, middle, newest])
        timeline.expect(middle)
        assert shown(timeline) == [3]

    def test_what_was_unloaded_in_any_order_stays_out_of_sight(self) -> None:
        for order in itertools.permutations(range(3)):
            base = batch(1, 2)
            folds = [
                entry(3, HOUR, minor=1, partition_id=2, replaces=[0]),
                entry(4, HOUR, minor=2, partition_id=3, replaces=[2]),
                entry(5, HOUR, minor=3, partition_id=4, replaces=[3]),
            ]
            timeline = Told([*base, *folds])
            for which in order:
                dropped = (base[0], folds[0], folds[1])[which]
                timeline.retire(dropped)
                timeline.remove(dropped)
                assert shown(timeline) == [2, 5]
            timeline.expect(folds[2])
            assert shown(timeline) == [], "its inputs are gone: nothing stands in for it"
            assert shown(timeline, incomplete=True) == [2]


class TestUpdateGroups:
    def test_a_missing_member_that_was_replaced_is_not_missed(self) -> None:
        first, second = batch(1, 2, first=1)
        folded = entry(3, HOUR, minor=1, partition_id=3, replaces=[1])
        timeline = Told([folded])
        assert shown(timeline) == [3]
        timeline.add(second)
        assert shown(timeline) == [2, 3]
        timeline.add(first)
        assert shown(timeline) == [2, 3]

    def test_a_group_that_was_replaced_in_part_is_missed_when_the_rest_is_not_here(self) -> None:
        first, _ = batch(1, 2, first=1)
        folded = entry(3, HOUR, minor=1, partition_id=3, replaces=[1])
        other = entry(4, HOUR, partition_id=4)
        timeline = Timeline([first, folded, other])
        assert shown(timeline) == []
        assert shown(timeline, incomplete=True) == [3, 4]

    def test_an_append_that_is_half_here_delays_nobody(self) -> None:
        first = entry(1, HOUR)
        half = batch(2, 2, first=1)[0]
        later = entry(4, HOUR, partition_id=3)
        timeline = Timeline([first, half, later])
        assert shown(timeline) == shown(timeline, incomplete=True) == [1, 4]
        assert timeline.find_visibility(half) is Visibility.STANDBY
        (piece,) = timeline.lookup(ETERNITY)
        assert (piece.is_complete, piece.is_newest) == (True, False)

    def test_an_append_that_was_lost_is_not_passed_off_as_whole(self) -> None:
        first, lost = entry(1, HOUR), entry(2, HOUR, partition_id=1)
        timeline = Timeline([first], expected=[lost])
        assert timeline.lookup(ETERNITY) == ()
        (piece,) = timeline.lookup(ETERNITY, incomplete=True)
        assert (piece.entries, piece.is_complete) == ((first,), False)

    def test_siblings_that_disagree_are_refused(self) -> None:
        first, _ = batch(1, 2)
        with pytest.raises(Invalid, match="its siblings say 0-1"):
            Timeline([first, entry(9, HOUR, minor=1, partition_id=1, group=[0, 1], replaces=[7])])
        with pytest.raises(Invalid, match=r"partition 5 is not in its update group \[0-1\]"):
            Timeline([first, entry(9, HOUR, partition_id=5, group=[0, 1])])


class TestGranularities:
    def test_a_day_over_a_month_hides_that_day_only(self) -> None:
        month = entry(1, interval("2013-01-01/2013-02-01"))
        one = entry(2, interval(day(10)), major=2)
        timeline = Timeline([month, one])
        found = [
            (piece.interval, [e.entry_id for e in piece.entries])
            for piece in timeline.lookup(ETERNITY)
        ]
        assert found == [
            (interval("2013-01-01/2013-01-10"), [1]),
            (interval(day(10)), [2]),
            (interval("2013-01-11/2013-02-01"), [1]),
        ]
        assert timeline.find_visibility(month) is Visibility.VISIBLE
        inside = timeline.lookup(interval("2013-01-10T12/2013-01-11T12".replace("T12", "T12:00")))
        assert [e.entry_id for piece in inside for e in piece.entries] == [2, 1]

    def test_days_that_cover_a_month_overshadow_it(self) -> None:
        month = entry(1, hours(0, 48))
        days = [entry(2, hours(0, 24), major=2), entry(3, hours(24, 48), major=2)]
        timeline = Told([month, days[0]])
        assert timeline.now().find_visibility(month) is Visibility.VISIBLE
        timeline.add(days[1])
        assert timeline.now().find_visibility(month) is Visibility.OVERSHADOWED

    def test_what_waits_above_part_of_a_piece_is_said_of_that_part(self) -> None:
        month = entry(1, hours(0, 48))
        half = batch(2, 2, major=2)[0]
        pieces = Timeline([month, half]).lookup(ETERNITY)
        assert [(p.interval, p.is_newest) for p in pieces] == [(HOUR, False), (hours(1, 48), True)]

    def test_an_entry_with_nothing_to_show_in_a_piece_is_not_in_it(self) -> None:
        morning = entry(1, DAY, group=[0, 1], span=hours(0, 6))
        evening = entry(2, DAY, partition_id=1, group=[0, 1], clip=IntervalSet((hours(18, 24),)))
        timeline = Timeline([morning, evening, entry(3, hours(8, 9), major=2)])
        found = [[e.entry_id for e in piece.entries] for piece in timeline.lookup(ETERNITY)]
        assert found == [[1], [3], [2]]
        assert timeline.lookup(hours(6, 8)) == ()

    def test_eternity_under_hours(self) -> None:
        always = entry(1, ETERNITY)
        timeline = Timeline([always, *(entry(10 + n, hours(n, n + 1), major=2) for n in range(50))])
        assert len(timeline.lookup(ETERNITY)) == 52
        assert [e.entry_id for p in timeline.lookup(hours(48, 52)) for e in p.entries] == [
            58,
            59,
            1,
        ]


class TestFollowingTheLog:
    """Source 3, on the real log: both orders of completion, and what needs no tombstone."""

    @pytest.fixture
    def store(self, memory_store: MetadataStore) -> MetadataStore:
        return memory_store

    @pytest.mark.parametrize("ingestion_first", [True, False])
    @pytest.mark.parametrize("kind", ["minor", "major"])
    def test_both_orders_of_completion(
        self, store: MetadataStore, ingestion_first: bool, kind: str
    ) -> None:
        append(store, *(segment(f"S{n}", day(1)) for n in range(1, 5)))
        seventh = segment("S7", day(1), rows=40)
        compaction = (
            folding(store, ("S1", "S2", "S3", "S4"), seventh)
            if kind == "minor"
            else replacement(store, day(1), seventh, kind=CommitKind.REWRITE)
        )
        ingestion = append_of(segment("S5", day(1)), segment("S6", day(1)))
        for publication in (ingestion, compaction)[:: 1 if ingestion_first else -1]:
            store.publish(publication)
        commits = [store.commit(revision) for revision in range(1, store.head().revision + 1)]
        announced = [
            entry for commit in commits for change in commit.changes for entry in change.adds
        ]
        for order in itertools.islice(itertools.permutations(announced), 0, None, 97):
            timeline = Told()
            for item in order:
                timeline.add(item)
            visible = {e.segment_id for e in timeline.now().entries(Visibility.VISIBLE)}
            assert visible == {"S5", "S6", "S7"}

    def test_a_deletion_shows_nothing_and_brings_nothing_back(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        store.publish(folding(store, ("S1", "S2"), segment("C1", day(1), rows=20)))
        store.publish(replacement(store, day(1), kind=CommitKind.DELETE))
        timeline = Told()
        for revision in range(1, 4):
            for change in store.commit(revision).changes:
                timeline.apply(change)
        assert len(timeline.announced) == 3
        assert shown(timeline) == []

    def test_a_drop_that_a_finer_chunk_covers_only_in_part_is_retired(self) -> None:
        dropped = entry(1 << ENTRY_BITS, DAY)
        added = entry(2 << ENTRY_BITS, HOUR, major=2)
        change = DatasourceCommit(datasource=DATASOURCE, adds=(added,), drops=(dropped,))
        assert retired_by(change) == (dropped,)
        small = entry(1 << ENTRY_BITS, DAY, span=HOUR)
        change = DatasourceCommit(datasource=DATASOURCE, adds=(added,), drops=(small,))
        assert retired_by(change) == ()


class TestLaws:
    def test_they_notice_what_is_wrong(self) -> None:
        base = batch(1, 2)
        folded = entry(3, HOUR, minor=1, partition_id=2, replaces=[0, 1])
        timeline = Timeline([*base, folded])
        (generation,) = timeline.generations
        generation.effect.pop()
        with pytest.raises(InvariantError, match="TL-4"):
            check_timeline(timeline)
        timeline = Timeline(base[:1])
        (generation,) = timeline.generations
        generation.effect = list(generation.groups)
        with pytest.raises(InvariantError, match="TL-2"):
            check_timeline(timeline)
        with pytest.raises(InvariantError, match="TL-3"):
            check_unchanged(Timeline(base), Timeline([*base, folded]))
        timeline = Timeline(base)
        timeline._pieces[False] *= 2
        with pytest.raises(InvariantError, match="TL-1"):
            check_timeline(timeline)
