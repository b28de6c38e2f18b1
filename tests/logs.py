"""Small logs for tests: segments without files, written as a person would say them."""

from __future__ import annotations

from carnac.core.log.commits import Change, CommitKind, ConservationProof, Drop, Publication
from carnac.core.log.entries import Entry
from carnac.core.log.reverting import plan_revert, restored_segments
from carnac.core.segments.segment import Segment
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import Interval, IntervalSet, interval_set, parse_interval
from carnac.metadata.store import MetadataStore
from carnac.ports import Published

DATASOURCE = "events"


def days(*texts: str) -> IntervalSet:
    """`days("2013-01-01/2013-01-03")`: the set of these intervals."""
    return interval_set(parse_interval(text) for text in texts)


def segment(
    segment_id: str,
    span: str,
    *,
    chunk: str | None = None,
    datasource: str = DATASOURCE,
    rows: int = 10,
) -> Segment:
    """A segment whose rows fill `span`, written for `chunk` (default: the day that holds its start)."""
    times = parse_interval(span)
    home = (
        parse_granularity("day").bucket(times.start_ms) if chunk is None else parse_interval(chunk)
    )
    return Segment(
        segment_id=segment_id,
        datasource=datasource,
        chunk=home,
        path=f"segments/{datasource}/{segment_id}.parquet",
        size_bytes=rows * 10,
        rows=rows,
        input_rows=rows,
        min_time_ms=times.start_ms,
        max_time_ms=times.end_ms - 1,
        columns=(),
    )


def append(store: MetadataStore, *segments: Segment, granularity: str = "day") -> Published:
    """Publish an append."""
    return store.publish(append_of(*segments, granularity=granularity))


def append_of(
    *segments: Segment, granularity: str = "day", datasource: str = DATASOURCE
) -> Publication:
    """An append that is not published yet."""
    change = Change(datasource=datasource, adds=segments, segment_granularity=granularity)
    return Publication(kind=CommitKind.APPEND, changes=(change,))


def replacement(
    store: MetadataStore,
    covers: str,
    *segments: Segment,
    kind: CommitKind = CommitKind.REPLACE,
    datasource: str = DATASOURCE,
) -> Publication:
    """The publication, for later, of a writer that reads now to replace (or rewrite, or delete) `covers`."""
    inside = days(covers)
    shown = shown_now(store, datasource)
    rows = sum(found.rows for found in segments)
    proof = ConservationProof(rows_in=rows, rows_out=rows, row_hash_in=1, row_hash_out=1)
    change = Change(
        datasource=datasource,
        adds=segments,
        drops=tuple(
            Drop(segment_id=name, expected=pieces, within=inside)
            for name, pieces in sorted(shown.items())
            if pieces.intersect(inside)
        ),
        takes_over=bool(segments),
        covers=IntervalSet() if kind is CommitKind.REWRITE else inside,
    )
    return Publication(
        kind=kind,
        changes=(change,),
        base_revision=store.head().revision,
        proof=proof if kind is CommitKind.REWRITE else None,
    )


def folding(
    store: MetadataStore,
    inputs: tuple[str, ...],
    *outputs: Segment,
    kind: CommitKind = CommitKind.REWRITE,
) -> Publication:
    """The publication, for later, of a minor compaction (or a deletion by predicate) that reads its inputs now."""
    shown = shown_now(store)
    rows = sum(found.rows for found in outputs)
    row_hash = sum(found.row_hash for found in outputs) % (1 << 64)
    change = Change(
        datasource=DATASOURCE,
        adds=outputs,
        drops=tuple(Drop(segment_id=name, expected=shown[name]) for name in inputs),
    )
    return Publication(
        kind=kind,
        changes=(change,),
        base_revision=store.head().revision,
        proof=ConservationProof(
            rows_in=rows, rows_out=rows, row_hash_in=row_hash, row_hash_out=row_hash
        ),
    )


def revert_of(store: MetadataStore, revision: int) -> Publication:
    """The publication that undoes a commit without lookups."""
    commit = store.commit(revision)
    found = {name: store.find_segment(name) for name in restored_segments(commit)}
    segments = {name: one for name, one in found.items() if one is not None}
    return plan_revert(commit, segments, {}, segment_granularity={DATASOURCE: "day"})


def entries(store: MetadataStore, revision: int | None = None) -> list[Entry]:
    """The visible entries, in order of chunk and partition id."""
    return [item.entry for item in store.visible(DATASOURCE, revision=revision)]


def names(store: MetadataStore, revision: int | None = None) -> list[str]:
    """The ids of the visible segments, each once, sorted."""
    return sorted({entry.segment_id for entry in entries(store, revision)})


def shown_now(store: MetadataStore, datasource: str = DATASOURCE) -> dict[str, IntervalSet]:
    """The visible instants of each segment."""
    shown: dict[str, IntervalSet] = {}
    for item in store.visible(datasource):
        key = item.segment.segment_id
        shown[key] = shown.get(key, IntervalSet()).union(item.entry.visible)
    return shown


def day(number: int) -> str:
    """`day(3)`: 2013-01-03 as an interval."""
    return f"2013-01-{number:02d}/2013-01-{number + 1:02d}"


def interval(text: str) -> Interval:
    """The interval that the text says."""
    return parse_interval(text)
