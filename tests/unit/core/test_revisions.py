"""Key frames: from whichever one a revision is made, it is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from carnac.core.log.commits import Change, Commit, CommitKind, LookupChange, Publication
from carnac.core.log.entries import Entry
from carnac.core.log.revisions import KeyFrame, State, apply_commit, invert_commit, materialise
from carnac.core.segments.segment import Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, interval_set
from carnac.errors import InvariantError
from carnac.metadata import open_metadata
from carnac.metadata.store import SqlMetadataStore
from tests.logs import append, replacement, segment
from tests.support.clock import FakeClock, SequentialIds

DATASOURCE = "events"
DAY_MS = 86_400_000
START_MS = 15_000 * DAY_MS


@pytest.fixture
def store() -> Iterator[SqlMetadataStore]:
    clock = FakeClock(START_MS)
    with closing(open_metadata("memory://", clock=clock, ids=SequentialIds())) as store:
        yield store


def test_materialising_from_any_key_frame_gives_the_same_state(store: SqlMetadataStore) -> None:
    states = [State()]
    for number in range(8):
        entry_times = Interval(START_MS + number * DAY_MS, START_MS + number * DAY_MS + 1)
        segment = Segment(
            segment_id=f"s{number}",
            datasource=DATASOURCE,
            chunk=parse_granularity("day").bucket(entry_times.start_ms),
            path=f"segments/{number}",
            size_bytes=1,
            rows=1,
            input_rows=1,
            min_time_ms=entry_times.start_ms,
            max_time_ms=entry_times.start_ms,
            columns=(),
        )
        change = Change(datasource=DATASOURCE, adds=(segment,))
        store.publish(Publication(kind=CommitKind.APPEND, changes=(change,)))
        states.append(apply_commit(states[-1], store.commit(number + 1)))
    commits = store.changes(after=0)
    for start in range(len(states)):
        for revision in range(start, len(states)):
            assert (
                materialise([KeyFrame(state=states[start])], commits, revision) == states[revision]
            )
    assert len(interval_set(entry.chunk for entry in _entries(states[-1]))) == 1


def test_lookups_are_set_removed_and_brought_back_by_commits() -> None:
    names = [{"a": "x"}, None, {"b": "y"}]
    states = [State()]
    for number, mapping in enumerate(names, start=1):
        commit = Commit(
            revision=number,
            kind=CommitKind.LOOKUP,
            at_ms=START_MS,
            changes=(),
            lookups=(LookupChange(name="airlines", mapping=mapping),),
        )
        states.append(apply_commit(states[-1], commit))
        undone = apply_commit(states[-1], invert_commit(commit, states[-2]))
        assert undone.lookups == states[-2].lookups
    assert [dict(state.lookups) for state in states] == [
        {},
        {"airlines": {"a": "x"}},
        {},
        {"airlines": {"b": "y"}},
    ]


def test_a_commit_that_drops_what_is_not_there_or_skips_a_revision_breaks_the_law(
    store: SqlMetadataStore,
) -> None:
    for name in ("s1", "s2"):
        append(store, segment(name, "2013-01-01/2013-01-02"))
    store.publish(replacement(store, "2013-01-01/2013-01-02"))
    first, second, both_gone = store.changes(after=0)
    start = apply_commit(State(), first)
    with pytest.raises(
        InvariantError, match=r"RV-1 .*entry \d+ of events is dropped but was not there"
    ):
        apply_commit(start, replace(both_gone, revision=2))
    with pytest.raises(InvariantError, match=r"RV-1 .*entry \d+ of events is added twice"):
        apply_commit(start, replace(first, revision=2))
    with pytest.raises(InvariantError, match=r"RV-1 .*commit 3 does not follow revision 1"):
        apply_commit(start, both_gone)
    assert not apply_commit(apply_commit(start, second), both_gone).entries


def _entries(state: State) -> list[Entry]:
    return list(state.entries[DATASOURCE].values())
