"""What a dead attempt has left in deep storage: its own files, and of those only what was never published."""

from __future__ import annotations

from carnac.clock import MarkedIds
from carnac.core.ids import mark_of
from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.metadata.store import MetadataStore
from carnac.store.upkeep.maintenance import remove_leftovers
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.segments import write_segment

MARK, OTHER = mark_of("a", 1, 7), mark_of("a", 2, 9)
ROW = {"__time": "2013-01-01T12:00:00Z", "carrier": "AA"}


def test_only_what_the_attempt_wrote_and_no_commit_names_is_removed(
    memory_store: MetadataStore,
) -> None:
    metadata = memory_store
    storage = MemoryDeepStorage()
    ours, theirs = MarkedIds(MARK), MarkedIds(OTHER)
    published = write_segment(storage, [ROW], segment_id=ours.new_id())
    change = Change(datasource="events", adds=(published,))
    metadata.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
    orphan = write_segment(storage, [ROW], segment_id=ours.new_id()).path
    nested = f"segments/events/{ours.new_id()}/{published.segment_id}.parquet"
    staged = f"staging/rewrite-{ours.new_id()}/7/part-0.arrow"
    of_others = [
        write_segment(storage, [ROW], segment_id=theirs.new_id()).path,
        f"segments/more/{ours.new_id()}.parquet",
        f"staging/{theirs.new_id()}/part-0.arrow",
    ]
    for path in (nested, staged, *of_others):
        storage.write(path, b"x")

    removed = remove_leftovers(metadata, storage, "events", MARK)

    assert {file.path for file in removed} == {orphan, nested, staged}
    left = {file.path for prefix in ("segments", "staging") for file in storage.list_files(prefix)}
    assert left == {published.path, *of_others}
    assert remove_leftovers(metadata, storage, "events", MARK) == ()
