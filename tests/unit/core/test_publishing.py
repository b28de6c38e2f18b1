"""The scenarios of the sources, and what publish decides for a writer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.log.commits import (
    Change,
    CommitKind,
    ConservationProof,
    Drop,
    Publication,
    SegmentsVisible,
)
from carnac.core.time.intervals import IntervalSet
from carnac.errors import Conflict, Corrupt, Invalid
from carnac.metadata.store import MetadataStore
from tests.logs import (
    DATASOURCE,
    append,
    append_of,
    day,
    days,
    entries,
    folding,
    interval,
    names,
    replacement,
    revert_of,
    segment,
)

MONTH = "2013-01-01/2013-02-01"


@pytest.fixture
def store(memory_store: MetadataStore) -> MetadataStore:
    return memory_store


def conflict_of(store: MetadataStore, publication: Publication) -> Conflict:
    head = store.head().revision
    with pytest.raises(Conflict) as caught:
        store.publish(publication)
    assert store.head().revision == head, "a refused publication leaves nothing behind"
    return caught.value


class TestConcurrentIngestionAndCompaction:
    """Source 3: both completion orders end with the same rows."""

    def test_ingestion_completes_first(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        append(store, segment("S3", day(1)), segment("S4", day(1)))
        compaction = replacement(
            store, day(1), segment("S7", day(1), rows=40), kind=CommitKind.REWRITE
        )
        append(store, segment("S5", day(1)), segment("S6", day(1)))
        assert names(store) == ["S1", "S2", "S3", "S4", "S5", "S6"]
        store.publish(compaction)
        assert names(store) == ["S5", "S6", "S7"]

    def test_compaction_completes_first(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        append(store, segment("S3", day(1)), segment("S4", day(1)))
        compaction = replacement(
            store, day(1), segment("S7", day(1), rows=40), kind=CommitKind.REWRITE
        )
        ingestion = append_of(segment("S5", day(1)), segment("S6", day(1)))
        store.publish(compaction)
        assert names(store) == ["S7"]
        store.publish(ingestion)
        assert names(store) == ["S5", "S6", "S7"]

    def test_a_second_compaction_of_the_same_inputs_is_refused_and_told_by_whom(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        first = replacement(store, day(1), segment("C1", day(1), rows=20), kind=CommitKind.REWRITE)
        second = replacement(store, day(1), segment("C2", day(1), rows=20), kind=CommitKind.REWRITE)
        done = store.publish(first)
        conflict = conflict_of(store, second)
        assert conflict.ids["commit"] == done.revision
        assert f"commit {done.revision} changed segment S1" in str(conflict)

    def test_replacing_with_nothing_needs_no_tombstone(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)))
        store.publish(replacement(store, day(1)))
        assert names(store) == []
        assert store.chunks(DATASOURCE) == ()
        append(store, segment("S2", day(1)))
        assert names(store) == ["S2"]

    def test_two_compactions_of_disjoint_inputs_in_one_chunk_both_publish(
        self, store: MetadataStore
    ) -> None:
        append(store, *(segment(f"S{n}", day(1)) for n in range(4)))
        first = folding(store, ("S0", "S1"), segment("C1", day(1), rows=20))
        second = folding(store, ("S2", "S3"), segment("C2", day(1), rows=20))
        store.publish(second)
        store.publish(first)
        assert names(store) == ["C1", "C2"]


class TestVersions:
    def test_appends_join_the_version_of_the_chunk(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        append(store, segment("S3", day(1)))
        found = entries(store)
        assert len({entry.version for entry in found}) == 1
        assert [entry.partition_id for entry in found] == [0, 1, 2]
        assert [str(entry.update_group) for entry in found] == ["0-1", "0-1", "2"]
        assert all(len(entry.overshadowed_ids) == 0 for entry in found)

    def test_folding_some_takes_the_next_minor_version_and_names_what_it_hides(
        self, store: MetadataStore
    ) -> None:
        append(store, *(segment(f"S{n}", day(1)) for n in range(3)))
        before = {entry.segment_id: entry for entry in entries(store)}
        store.publish(folding(store, ("S1", "S2"), segment("S4", day(1), rows=20)))
        after = {entry.segment_id: entry for entry in entries(store)}
        assert after["S0"] == before["S0"], "what was not chosen is untouched"
        assert after["S4"].version.major_ms == before["S1"].version.major_ms
        assert after["S4"].version.minor == 1
        assert str(after["S4"].overshadowed_ids) == "1-2"
        assert after["S4"].partition_id == 3

    def test_minor_versions_grow_over_hops(self, store: MetadataStore) -> None:
        append(store, *(segment(f"S{n}", day(1)) for n in (1, 2, 3)))
        store.publish(folding(store, ("S2", "S3"), segment("S4", day(1), rows=20)))
        append(store, segment("S5", day(1)))
        outputs = segment("S6", day(1)), segment("S7", day(1), rows=20)
        store.publish(folding(store, ("S4", "S5"), *outputs))
        append(store, segment("S8", day(1)))
        found = {entry.segment_id: entry for entry in entries(store)}
        assert sorted(found) == ["S1", "S6", "S7", "S8"]
        assert [found[name].version.minor for name in sorted(found)] == [0, 2, 2, 0]
        assert found["S6"].update_group == found["S7"].update_group

    def test_a_take_over_is_above_everything_that_was_ever_there(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)))
        first = entries(store)[0].version
        store.publish(replacement(store, day(1), segment("R1", day(1))))
        second = entries(store)[0].version
        store.publish(replacement(store, day(1)))
        append(store, segment("S2", day(1)))
        third = entries(store)[0].version
        assert first < second < third, "although the clock stood still"

    def test_a_take_over_and_what_is_clipped_name_nothing_as_hidden(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        store.publish(replacement(store, day(1), segment("R1", day(1))))
        (taken,) = entries(store)
        assert (taken.version.minor, len(taken.overshadowed_ids)) == (0, 0)
        noon = days("2013-01-01T12/2013-01-02")
        shown = IntervalSet((taken.span,))
        drop = Drop(segment_id="R1", expected=shown, within=noon)
        change = Change(datasource="events", adds=(segment("R2", day(1)),), drops=(drop,))
        store.publish(Publication(kind=CommitKind.REPLACE, changes=(change,), base_revision=2))
        found = {entry.segment_id: entry for entry in entries(store)}
        assert found["R1"].visible == shown.minus(noon)
        assert (found["R2"].version.minor, len(found["R2"].overshadowed_ids)) == (0, 0)

    def test_what_was_appended_meanwhile_is_entered_again_under_the_new_version(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)))
        pending = replacement(store, day(1), segment("R1", day(1)))
        append(store, segment("S2", day(1)))
        store.publish(pending)
        found = {entry.segment_id: entry for entry in entries(store)}
        assert sorted(found) == ["R1", "S2"]
        assert found["R1"].version == found["S2"].version
        assert {entry.partition_id for entry in found.values()} == {0, 1}

    def test_entering_again_is_no_change_for_a_writer_that_read_it_before(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)))
        major = replacement(store, day(1), segment("R1", day(1)))
        append(store, segment("S2", day(1)), segment("S3", day(1)))
        minor = folding(store, ("S2", "S3"), segment("C1", day(1), rows=20))
        store.publish(major)
        store.publish(minor)
        assert names(store) == ["C1", "R1"]


class TestLayout:
    def test_a_late_row_for_a_compacted_month_lands_in_the_month(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(20)))
        month = segment("M", "2013-01-01/2013-01-21", chunk=MONTH, rows=20)
        late = append_of(segment("L", day(5)))
        store.publish(replacement(store, MONTH, month, kind=CommitKind.REWRITE))
        store.publish(late)
        assert [chunk.interval for chunk in store.chunks(DATASOURCE)] == [interval(MONTH)]
        assert names(store) == ["L", "M"]

    def test_a_month_written_for_days_gets_an_entry_in_each_day_and_keeps_all_rows(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("D1", day(1)), segment("D2", day(2)))
        append(store, segment("M", "2013-01-01/2013-01-04", chunk=MONTH), granularity="month")
        shown = [entry for entry in entries(store) if entry.segment_id == "M"]
        assert [entry.chunk for entry in shown] == [interval(day(n)) for n in (1, 2)] + [
            chunk.interval
            for chunk in store.chunks(DATASOURCE)
            if chunk.interval.start_ms >= interval(day(3)).start_ms
        ]
        covered = IntervalSet()
        for entry in shown:
            covered = covered.union(entry.visible)
        assert covered == days("2013-01-01/2013-01-04")

    def test_replacing_a_day_carves_the_month(self, store: MetadataStore) -> None:
        append(store, segment("M", MONTH, chunk=MONTH))
        version = entries(store)[0].version
        store.publish(replacement(store, day(10), segment("D", day(10))))
        assert [str(chunk.interval)[:10] for chunk in store.chunks(DATASOURCE)] == [
            "2013-01-01",
            "2013-01-10",
            "2013-01-11",
        ]
        left, middle, right = entries(store)
        assert (left.segment_id, middle.segment_id, right.segment_id) == ("M", "D", "M")
        assert left.version == right.version == version < middle.version
        assert left.clip == days("2013-01-01/2013-01-10")
        assert right.clip == days("2013-01-11/2013-02-01")

    def test_an_append_to_what_was_carved_takes_no_id_that_a_group_names(
        self, store: MetadataStore
    ) -> None:
        """Only one of the two that were appended together is left in the first chunk; its group still names both."""
        append(
            store,
            segment("A", "2013-01-01/2013-01-20", chunk=MONTH),
            segment("B", "2013-01-20/2013-02-01", chunk=MONTH),
        )
        store.publish(replacement(store, day(10), segment("D", day(10))))
        append(store, segment("C", day(1)))
        group, alone = entries(store)[:2]
        assert (group.segment_id, str(group.update_group), group.partition_id) == ("A", "0-1", 0)
        assert (alone.segment_id, str(alone.update_group), alone.partition_id) == ("C", "2", 2)

    def test_deleting_clips_and_leaves_the_chunk(self, store: MetadataStore) -> None:
        append(store, segment("M", MONTH, chunk=MONTH))
        for number in (3, 10, 11):
            store.publish(replacement(store, day(number), kind=CommitKind.DELETE))
        (entry,) = entries(store)
        assert entry.chunk == interval(MONTH)
        assert entry.clip == days(
            "2013-01-01/2013-01-03", "2013-01-04/2013-01-10", "2013-01-12/2013-02-01"
        )


class TestConflicts:
    def test_a_replacement_whose_input_was_deleted_is_told(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(2)))
        pending = replacement(store, "2013-01-01/2013-01-03", segment("R", day(1)))
        deletion = store.publish(replacement(store, day(2), kind=CommitKind.DELETE))
        assert conflict_of(store, pending).ids == {
            "datasource": DATASOURCE,
            "segment_id": "S2",
            "commit": deletion.revision,
        }

    def test_a_change_elsewhere_in_the_same_segment_is_none_of_its_business(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("M", MONTH, chunk=MONTH))
        pending = replacement(store, day(10), segment("R", day(10)))
        store.publish(replacement(store, day(20), kind=CommitKind.DELETE))
        store.publish(pending)
        assert names(store) == ["M", "R"]

    def test_segments_visible(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)))
        wanted = Publication(
            kind=CommitKind.LOOKUP,
            base_revision=store.head().revision,
            requirements=(
                SegmentsVisible(datasource=DATASOURCE, segment_id="S1", expected=days(day(1))),
            ),
        )
        store.publish(wanted)
        culprit = store.publish(replacement(store, day(1))).revision
        assert conflict_of(store, wanted).ids["commit"] == culprit


class TestReverting:
    def test_a_replacement_is_undone_and_later_appends_stay(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(2)))
        wrong = store.publish(replacement(store, day(1), segment("R", day(1)))).revision
        append(store, segment("S3", day(1)))
        store.publish(revert_of(store, wrong))
        assert names(store) == ["S1", "S2", "S3"]
        assert shown(store) == {"S1": days(day(1)), "S2": days(day(2)), "S3": days(day(1))}

    def test_a_deletion_out_of_a_month_is_undone_in_place(self, store: MetadataStore) -> None:
        append(store, segment("M", MONTH, chunk=MONTH))
        first = store.publish(replacement(store, day(3), kind=CommitKind.DELETE)).revision
        store.publish(replacement(store, day(10), kind=CommitKind.DELETE))
        store.publish(revert_of(store, first))
        assert shown(store) == {"M": days("2013-01-01/2013-01-10", "2013-01-11/2013-02-01")}

    def test_a_later_replacement_of_the_deleted_time_stands_in_the_way(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)))
        deletion = store.publish(replacement(store, day(1), kind=CommitKind.DELETE)).revision
        culprit = store.publish(replacement(store, day(1), segment("R", day(1)))).revision
        with pytest.raises(
            Conflict, match=f"commit {culprit} replaced, deleted or reverted"
        ) as caught:
            store.publish(revert_of(store, deletion))
        assert caught.value.ids["commit"] == culprit

    def test_an_append_that_was_compacted_since_cannot_be_undone_alone(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)))
        wrong = append(store, segment("S2", day(1))).revision
        culprit = store.publish(
            folding(store, ("S1", "S2"), segment("C", day(1), rows=20))
        ).revision
        with pytest.raises(Conflict) as caught:
            store.publish(revert_of(store, wrong))
        assert caught.value.ids["commit"] == culprit

    def test_a_rewrite_whose_input_shows_more_again_is_told_who_brought_it_back(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("M", MONTH, chunk=MONTH))
        replaced = store.publish(replacement(store, day(2), segment("R", day(2))))
        pending = folding(store, ("M",), segment("C", day(1), rows=10))
        store.publish(revert_of(store, replaced.revision))
        revert = store.commit(store.head().revision)
        assert [entry.segment_id for entry in revert.changes[0].drops] == ["R"], "nothing took of M"
        assert conflict_of(store, pending).ids["commit"] == revert.revision

    def test_a_revert_can_be_reverted(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)))
        deletion = store.publish(replacement(store, day(1), kind=CommitKind.DELETE)).revision
        store.publish(revert_of(store, deletion))
        assert names(store) == ["S1"]
        store.publish(revert_of(store, store.head().revision))
        assert names(store) == []

    def test_a_rewrite_changed_no_row(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)), segment("S2", day(1)))
        rewrite = store.publish(
            folding(store, ("S1", "S2"), segment("C", day(1), rows=20))
        ).revision
        with pytest.raises(Invalid, match="nothing to revert"):
            store.publish(revert_of(store, rewrite))


class TestNonsense:
    def test_a_segment_with_a_row_outside_of_its_chunk_is_refused(
        self, store: MetadataStore
    ) -> None:
        append(store, segment("S1", day(1)))
        astray = replace(segment("S2", day(1)), max_time_ms=days(day(1)).intervals[0].end_ms)
        with pytest.raises(Invalid, match="S2 has rows outside of its time chunk"):
            append(store, astray)
        assert names(store) == ["S1"]

    def test_a_rewrite_that_loses_a_row_is_refused(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)))
        rewrite = folding(store, ("S1",), segment("C", day(1)))
        assert rewrite.proof is not None
        for proof in (
            ConservationProof(rows_in=10, rows_out=9, row_hash_in=1, row_hash_out=1),
            ConservationProof(rows_in=10, rows_out=10, row_hash_in=1, row_hash_out=2),
            ConservationProof(
                rows_in=10,
                rows_out=10,
                row_hash_in=None,
                row_hash_out=None,
                sums_in={"m": 1.0},
                sums_out={"m": 1.1},
            ),
        ):
            lossy = Publication(
                kind=rewrite.kind,
                changes=rewrite.changes,
                base_revision=rewrite.base_revision,
                proof=proof,
            )
            with pytest.raises(Corrupt, match="does not hold the rows"):
                store.publish(lossy)
        assert names(store) == ["S1"]

    def test_a_deletion_that_adds_segments_proves_what_it_kept(self, store: MetadataStore) -> None:
        old, new = segment("S1", day(1)), segment("S2", day(1))
        append(store, old)
        change = Change(
            datasource=DATASOURCE,
            adds=(replace(new, rows=8, row_hash=3),),
            drops=(Drop(segment_id="S1", expected=days(day(1))),),
        )
        proof = ConservationProof(
            rows_in=10,
            rows_out=8,
            rows_deleted=2,
            row_hash_in=1,
            row_hash_out=3,
            row_hash_deleted=(1 << 64) - 2,
        )
        deletion = Publication(kind=CommitKind.DELETE, changes=(change,), proof=proof)
        with pytest.raises(Invalid, match="needs a conservation proof"):
            store.publish(replace(deletion, proof=None))
        for lie in (
            {"rows_deleted": 1},
            {"row_hash_deleted": 0},
            {"rows_out": 9, "rows_in": 11},
            {"row_hash_out": 4, "row_hash_in": 2},
        ):
            with pytest.raises(Corrupt, match="the delete does not hold the rows it read"):
                store.publish(replace(deletion, proof=replace(proof, **lie)))
        assert names(store) == ["S1"]
        store.publish(deletion)
        assert names(store) == ["S2"]

    def test_publications_that_contradict_themselves(self, store: MetadataStore) -> None:
        append(store, segment("S1", day(1)))
        drop = Drop(segment_id="S1", expected=days(day(1)))
        twice = Change(datasource=DATASOURCE, drops=(drop, drop))
        once = Change(datasource=DATASOURCE, drops=(drop,))
        foreign = Change(datasource=DATASOURCE, adds=(segment("X", day(1), datasource="other"),))
        outside = Change(datasource=DATASOURCE, adds=(segment("X", day(1), chunk=day(2)),))
        cases = [
            (
                Publication(kind=CommitKind.DELETE, changes=(twice,)),
                "drops a segment of events twice",
            ),
            (Publication(kind=CommitKind.DELETE, changes=(once, once)), "names a datasource twice"),
            (Publication(kind=CommitKind.APPEND, changes=(once,)), "an append drops nothing"),
            (Publication(kind=CommitKind.REWRITE, changes=(once,)), "needs a conservation proof"),
            (
                Publication(kind=CommitKind.DELETE, changes=(once,), writer="w"),
                "a writer or a batch",
            ),
            (
                Publication(kind=CommitKind.APPEND, changes=(foreign,)),
                "belongs to datasource other",
            ),
            (Publication(kind=CommitKind.APPEND, changes=(outside,)), "outside of its time chunk"),
        ]
        for publication, message in cases:
            with pytest.raises(Invalid, match=message):
                store.publish(publication)
        assert store.head().revision == 1


def shown(store: MetadataStore) -> dict[str, IntervalSet]:
    pieces: dict[str, IntervalSet] = {}
    for entry in entries(store):
        pieces[entry.segment_id] = pieces.get(entry.segment_id, IntervalSet()).union(entry.visible)
    return pieces
