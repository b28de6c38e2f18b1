"""What every metadata store promises of reverts: no row comes back beside itself."""

from __future__ import annotations

import pytest

from carnac.core.log.commits import CommitKind
from carnac.errors import Conflict
from tests.contract.conftest import Store
from tests.logs import DATASOURCE, append, day, folding, names, replacement, revert_of, segment

MONTH = "2013-01-01/2013-02-01"


class TestReverting:
    def test_what_came_back_and_was_rewritten_does_not_come_back_again(self, store: Store) -> None:
        """The rows are in sight, in another segment: they would be there twice."""
        append(store, segment("S1", day(1)))
        store.publish(revert_of(store, store.head().revision))
        removal = store.head().revision
        store.publish(revert_of(store, removal))
        append(store, segment("S2", day(1)))
        culprit = store.publish(
            folding(store, ("S1", "S2"), segment("C", day(1), rows=20))
        ).revision
        with pytest.raises(Conflict, match="nothing to restore") as caught:
            store.publish(revert_of(store, removal))
        assert caught.value.ids == {
            "datasource": DATASOURCE,
            "segment_id": "S1",
            "commit": culprit,
        }
        assert names(store) == ["C"]

    def test_nor_what_a_deletion_rewrote(self, store: Store) -> None:
        """Deleted by a predicate: the rows that stayed are in another segment. The simulator found it (seed 776)."""
        removal, culprit = brought_back_and_deleted_from(store)
        with pytest.raises(Conflict, match="nothing to restore") as caught:
            store.publish(revert_of(store, removal))
        assert caught.value.ids["commit"] == culprit
        assert names(store) == ["D"]

    def test_but_once_the_deletion_is_undone_it_does(self, store: Store) -> None:
        removal, culprit = brought_back_and_deleted_from(store)
        undone = store.publish(revert_of(store, culprit)).revision
        assert names(store) == ["S1"]
        with pytest.raises(Conflict, match="already brought"):
            store.publish(revert_of(store, removal))
        store.publish(revert_of(store, undone))
        assert names(store) == ["D"]
        with pytest.raises(Conflict, match="nothing to restore"):
            store.publish(revert_of(store, removal))
        store.publish(revert_of(store, culprit))
        store.publish(revert_of(store, 1))
        assert names(store) == []
        store.publish(revert_of(store, removal))
        assert names(store) == ["S1"]

    def test_nor_what_a_deletion_took_whole(self, store: Store) -> None:
        append(store, segment("S1", day(1)))
        removal = store.publish(revert_of(store, 1)).revision
        store.publish(revert_of(store, removal))
        culprit = store.publish(folding(store, ("S1",), kind=CommitKind.DELETE)).revision
        with pytest.raises(Conflict, match="deleted by it") as caught:
            store.publish(revert_of(store, removal))
        assert caught.value.ids["commit"] == culprit
        assert names(store) == []

    @pytest.mark.parametrize("kept", [(), (3,), (5,)])
    def test_nor_once_that_is_forgotten(self, store: Store, kept: tuple[int, ...]) -> None:
        """The commit that brought it back, or the one that rewrote it, is not in the log any more."""
        append(store, segment("S1", day(1)))
        store.publish(revert_of(store, 1))
        store.publish(revert_of(store, 2))
        append(store, segment("S2", day(1)))
        store.publish(folding(store, ("S1", "S2"), segment("C", day(1), rows=20)))
        append(store, segment("S3", day(2)))
        back = revert_of(store, 2)
        store.trim(keep=lambda _heads: {1, 2, *kept}, dry_run=False)
        with pytest.raises(Conflict) as caught:
            store.publish(back)
        assert caught.value.ids["commit"] in (3, 5)
        assert names(store) == ["C", "S3"]

    def test_what_a_rewrite_only_moved_to_another_chunk_comes_back(self, store: Store) -> None:
        append(store, segment("S1", day(3), chunk=MONTH))
        append(store, segment("M", "2013-01-05/2013-02-01", chunk=MONTH))
        store.publish(revert_of(store, store.head().revision))
        removal = store.head().revision
        store.publish(revert_of(store, removal))
        store.publish(replacement(store, day(3), segment("C", day(3)), kind=CommitKind.REWRITE))
        assert [entry.segment_id for entry in store.commit(5).changes[0].drops] == ["S1", "M"]
        store.publish(revert_of(store, removal + 1))
        assert names(store) == ["C"]
        store.publish(revert_of(store, removal))
        assert names(store) == ["C", "M"]


def brought_back_and_deleted_from(store: Store) -> tuple[int, int]:
    """Append, undo, bring back, and delete some rows; return the commits that undid and that deleted."""
    append(store, segment("S1", day(1)))
    removal = store.publish(revert_of(store, 1)).revision
    store.publish(revert_of(store, removal))
    deletion = folding(store, ("S1",), segment("D", day(1), rows=5), kind=CommitKind.DELETE)
    return removal, store.publish(deletion).revision
