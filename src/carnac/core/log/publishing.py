"""From the publication of a writer to the commit of the log: `plan_any`.

It runs inside the publish transaction, over a view of the state that it may change, and decides four things that no
writer has to know: whether the publication conflicts, into which chunks its segments go today, which version and
partition id they get, and which entries are carried over. For each datasource:

1. *Drops.* The expected instants must be visible still. An entry loses the dropped ones; if some remain it comes back
   clipped.
2. *Take-over* (replacements): the added chunks become chunks under a new major version. Chunks in their way are
   carved. Instants that their entries still show outside of the added chunks stay there. Those inside, which were
   appended after the writer read, come along under the new version.
3. *Adds and restores without take-over* join the chunk that holds their rows; where the layout has changed since the
   segment was written it gets one entry for each chunk that it touches, clipped to it. In a chunk in which the same
   commit drops entries they take the next minor version and name what they overshadow.

Sources: "A Git Inspired, Minimal Lock Solution" for drops and carrying forward; the segment locking proposal for minor
versions, overshadowed ids and update groups, which here are derived once, at publish, and belong to the entry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from carnac.core.locks.model import describe_end, may_publish
from carnac.core.log import laws
from carnac.core.log.commits import (
    Change,
    Commit,
    CommitKind,
    DatasourceCommit,
    Drop,
    LockHeld,
    LookupSetBy,
    NotCovered,
    Numbered,
    NumbersUnited,
    Publication,
    Reserved,
    Restore,
    SegmentsVisible,
)
from carnac.core.log.drafts import ChunkDrafts, Draft
from carnac.core.log.entries import MAX_ADDS_PER_COMMIT, Entry, visible_of
from carnac.core.log.positions import require_writer
from carnac.core.log.publish_view import PublishView
from carnac.core.segments.schema import find_kept_apart
from carnac.core.time.intervals import EMPTY, Interval, IntervalSet, interval_text
from carnac.errors import Conflict, Corrupt, Invalid, Revoked


def plan_any(view: PublishView, publication: Publication, *, revision: int, at_ms: int) -> Commit:
    """Return the commit that the publication becomes as `revision`, at `at_ms`; of plain appends see `appending`.

    Raises:
        Conflict: One of its inputs is not what it read any more, or a requirement does not hold.
        Corrupt: A rewrite does not conserve its rows (CN-1).
        Invalid: The publication contradicts itself.
        Revoked: A lock that it requires is not held any more.
    """
    _validate(publication)
    if publication.requirements:
        _check_requirements(view, publication)
    changes: list[DatasourceCommit] = []
    added = 0
    for change in sorted(publication.changes, key=lambda change: change.datasource):
        draft = Draft(ChunkDrafts(view, change, at_ms), revision, added)
        changes.append(_plan_change(view, change, draft, publication))
        added += len(changes[-1].adds)
    return Commit(
        revision=revision,
        kind=publication.kind,
        at_ms=at_ms,
        changes=tuple(changes),
        writer=publication.writer,
        batch=publication.batch,
        base_revision=publication.base_revision,
        offsets=publication.offsets,
        after=publication.after,
        lookups=publication.lookups,
        message=publication.message,
        proof=publication.proof,
    )


def _plan_change(
    view: PublishView, change: Change, draft: Draft, publication: Publication
) -> DatasourceCommit:
    if change.drops:
        _apply_drops(view, change, draft, publication)
    if change.takes_over:
        _take_over(view, change, draft)
    else:
        _join_chunks(view, change, draft, publication.base_revision or 0)
    adds, drops = draft.finish()
    return DatasourceCommit(
        datasource=change.datasource,
        segments=change.adds,
        adds=adds,
        drops=drops,
        covers=change.covers,
    )


def _apply_drops(view: PublishView, change: Change, draft: Draft, publication: Publication) -> None:
    live: dict[str, list[Entry]] = defaultdict(list)
    found = view.entries_of(change.datasource, [drop.segment_id for drop in change.drops])
    for entry in sorted(found, key=lambda entry: (entry.chunk, entry.entry_id)):
        live[entry.segment_id].append(entry)
    for drop in change.drops:
        _require_visible(view, change.datasource, drop, live[drop.segment_id], publication)
        for entry in live[drop.segment_id]:
            remaining = EMPTY if drop.within is None else entry.visible.minus(drop.within)
            if remaining != entry.visible:
                draft.drop(entry, remaining)


def _take_over(view: PublishView, change: Change, draft: Draft) -> None:
    targets = sorted({segment.chunk for segment in change.adds} | _live(view, change))
    for chunk in targets:
        draft.chunks.take_over(chunk)
    numbers = {
        place.segment_id: place.partition_id
        for place in change.places
        if isinstance(place, Numbered)
    }
    for segment in change.adds:
        number = numbers.get(segment.segment_id)
        draft.place(segment, segment.chunk, IntervalSet((segment.span,)), partition_id=number)
    carved: dict[int, Entry] = {}
    for chunk in targets:
        for entry in view.entries(change.datasource, chunk):
            carved[entry.entry_id] = entry
    for _, entry in sorted(carved.items()):
        remaining = draft.remaining(entry)
        draft.drop(entry, EMPTY)
        for chunk in targets:
            inside = remaining.inside(chunk)
            if inside:
                draft.place(entry, chunk, inside)
                remaining = remaining.minus(inside)
        for piece in IntervalSet((entry.chunk,)).minus(IntervalSet(tuple(targets))):
            outside = remaining.inside(piece)
            if outside:
                draft.keep(entry, piece, outside)


def _live(view: PublishView, change: Change) -> set[Interval]:
    """Return those of the chunks to refold that are chunks now."""
    return {
        interval
        for interval in change.refolds
        if [chunk.interval for chunk in view.chunks(change.datasource, interval)] == [interval]
    }


def _join_chunks(view: PublishView, change: Change, draft: Draft, base: int) -> None:
    kept = _kept_places(view, change, draft) if change.places else {}
    for segment in change.adds:
        if segment.segment_id in kept:
            chunk, number = kept[segment.segment_id]
            draft.place(segment, chunk, IntervalSet((segment.span,)), partition_id=number)
            continue
        for chunk, visible in draft.chunks.place(segment.chunk, IntervalSet((segment.span,))):
            draft.place(segment, chunk, visible)
    held: dict[str, dict[Interval, Entry]] = defaultdict(dict)
    if change.restores:
        restored = [restore.segment.segment_id for restore in change.restores]
        for entry in view.entries_of(change.datasource, restored):
            held[entry.segment_id][entry.chunk] = entry
        _require_unmoved(view, change, base)
    for restore in change.restores:
        segment = restore.segment
        partners = held[segment.segment_id]
        _require_hidden(change.datasource, restore, partners.values(), draft)
        for chunk, visible in draft.chunks.place(segment.chunk, restore.pieces):
            if chunk in partners:
                partner = partners[chunk]
                draft.drop(partner, draft.remaining(partner).union(visible))
            else:
                draft.place(segment, chunk, visible)


def _kept_places(
    view: PublishView, change: Change, draft: Draft
) -> dict[str, tuple[Interval, int]]:
    """Return chunk and partition id of the segments whose places still stand, by segment id."""
    ids = [place.pending_id for place in change.places if isinstance(place, Reserved)]
    pending = {one.pending_id: one for one in view.pending(ids)} if ids else {}
    spans = {segment.segment_id: segment.span for segment in change.adds}
    kept: dict[str, tuple[Interval, int]] = {}
    for place in change.places:
        span = spans[place.segment_id]
        if isinstance(place, Numbered):
            if draft.chunks.takes_number(place, span):
                kept[place.segment_id] = (place.chunk, place.partition_id)
            continue
        found = pending.get(place.pending_id)
        if found is not None and draft.chunks.takes_reserved(found, span):
            kept[place.segment_id] = (found.chunk, found.partition_id)
    return kept


def _require_visible(
    view: PublishView,
    datasource: str,
    drop: Drop | SegmentsVisible,
    live: Sequence[Entry],
    publication: Publication,
) -> None:
    base = publication.base_revision or 0
    current, expected = visible_of(live), drop.expected
    if isinstance(drop, Drop) and drop.within is not None:
        current, expected = current.intersect(drop.within), expected.intersect(drop.within)
    if current == expected:
        return
    brought_back = [entry.added_revision for entry in live if entry.added_revision > base]
    culprit = view.dropped_by(datasource, drop.segment_id, base) or max(brought_back, default=None)
    by = f"commit {culprit}" if culprit is not None else "an earlier commit"
    changed = f"{by} changed segment {drop.segment_id} of {datasource}"
    raise Conflict(
        f"{changed}, which commit {base} had brought; nothing was undone; see with: carnac show {culprit}"
        if publication.kind is CommitKind.REVERT and culprit is not None
        else f"{changed} after this writer read it at revision {base}; nothing was published: read again and retry",
        datasource=datasource,
        segment_id=drop.segment_id,
        commit=culprit,
    )


def _require_hidden(
    datasource: str, restore: Restore, partners: Iterable[Entry], draft: Draft
) -> None:
    for entry in partners:
        if draft.remaining(entry).intersect(restore.pieces):
            raise Conflict(
                f"commit {entry.added_revision} has already brought segment {entry.segment_id} of "
                f"{datasource} back; there is nothing to restore",
                datasource=datasource,
                segment_id=entry.segment_id,
                commit=entry.added_revision,
            )


def _require_unmoved(view: PublishView, change: Change, base: int) -> None:
    """Refuse to bring back rows that came back in the meantime and were rewritten then: they are in other segments.

    Rows that came back once more after that are in their segment again: a revert puts both back, or neither.
    """
    wanted = {one.segment.segment_id: one.pieces for one in change.restores}
    leaving = [drop.segment_id for drop in change.drops]
    lives = view.lives_after(change.datasource, list(wanted), base, leaving)
    moved: dict[tuple[int, str], IntervalSet] = defaultdict(IntervalSet)
    for life in lives:
        if life.is_moved and life.dropped_by is not None and life.dropped_by > base:
            key = (life.dropped_by, life.entry.segment_id)
            moved[key] = moved[key].union(life.entry.visible)
    for (culprit, segment_id), pieces in moved.items():
        for life in lives:  # it only moved to another chunk, stayed in part, or came back
            if life.entry.segment_id == segment_id and life.entry.added_revision >= culprit:
                pieces = pieces.minus(life.entry.visible)  # noqa: PLW2901
        moved[culprit, segment_id] = pieces
    for (culprit, segment_id), pieces in sorted(moved.items()):
        if pieces.intersect(wanted[segment_id]):
            raise Conflict(
                f"segment {segment_id} of {change.datasource} came back after revision {base}, and its rows are in "
                f"what commit {culprit} wrote, or were deleted by it: there is nothing to restore",
                datasource=change.datasource,
                segment_id=segment_id,
                commit=culprit,
            )


def _check_requirements(view: PublishView, publication: Publication) -> None:
    fences = [one for one in publication.requirements if isinstance(one, LockHeld)]
    if fences:
        _check_fences(view, fences)
    for requirement in publication.requirements:
        if isinstance(requirement, LookupSetBy):
            _check_lookup(view, requirement)
        elif isinstance(requirement, NumbersUnited):
            _check_numbers(view, requirement)
        elif not isinstance(requirement, LockHeld):
            _check_requirement(view, requirement, publication)


def _check_fences(view: PublishView, fences: Sequence[LockHeld]) -> None:
    locks = {lock.lock_id: lock for lock in view.locks([fence.lock_id for fence in fences])}
    for fence in fences:
        lock = locks.get(fence.lock_id)
        if not may_publish(lock, fence.fence):
            raise Revoked(
                f"lock {fence.lock_id} (fence {fence.fence}) {describe_end(lock)}; nothing was published: "
                f"release it and start anew",
                lock_id=fence.lock_id,
                fence=fence.fence,
            )


def _check_requirement(
    view: PublishView,
    requirement: SegmentsVisible | NotCovered,
    publication: Publication,
) -> None:
    datasource = requirement.datasource
    if isinstance(requirement, SegmentsVisible):
        live = view.entries_of(datasource, [requirement.segment_id])
        _require_visible(view, datasource, requirement, live, publication)
    else:
        for piece in requirement.pieces:
            culprit = view.covering_after(datasource, piece, requirement.revision)
            if culprit is not None:
                raise Conflict(
                    f"commit {culprit} replaced, deleted or reverted {datasource} within {interval_text(piece)} after "
                    f"commit {requirement.revision} and stands in the way; see with: carnac show {culprit}",
                    datasource=datasource,
                    commit=culprit,
                )


def _check_lookup(view: PublishView, requirement: LookupSetBy) -> None:
    culprit = view.lookup_set_by(requirement.name)
    if culprit == requirement.revision:
        return
    by = f"commit {culprit}" if culprit is not None else "a later commit"
    did = "set" if culprit is not None else "removed"
    raise Conflict(
        f"{by} {did} lookup '{requirement.name}' again; nothing was published: set the lookup instead",
        lookup=requirement.name,
        commit=culprit,
    )


def _check_numbers(view: PublishView, requirement: NumbersUnited) -> None:
    apart = find_kept_apart(view.schemas(requirement.datasource))
    for name in sorted(apart & requirement.columns):
        raise Conflict(
            f"column {name} of {requirement.datasource} became text while its numbers were made one type; nothing was "
            f"published: plan again",
            datasource=requirement.datasource,
            column=name,
        )


def _validate(publication: Publication) -> None:
    names = [change.datasource for change in publication.changes]
    if len(set(names)) != len(names):
        raise Invalid("a publication names a datasource twice; put all its changes to it in one")
    if not publication.names_batch_well:
        raise Invalid("a publication names a writer or a batch but not both; give both or neither")
    require_writer(publication.writer, publication.after, publication.offsets)
    if publication.kind is CommitKind.APPEND and any(
        change.drops for change in publication.changes
    ):
        raise Invalid("an append drops nothing; publish it as a replacement")
    _validate_proof(publication)
    for change in publication.changes:
        _validate_change(change)


def _validate_proof(publication: Publication) -> None:
    """Refuse segments that take the place of others without a proof that they hold their rows."""
    proof = publication.proof
    written = [segment for change in publication.changes for segment in change.adds]
    is_deletion = publication.kind is CommitKind.DELETE
    if proof is None:
        if publication.kind is CommitKind.REWRITE or (is_deletion and written):
            raise Invalid(f"a {publication.kind} that adds segments needs a conservation proof")
        return
    is_kept = laws.conserves(proof)
    if is_deletion:
        row_hash = sum(segment.row_hash for segment in written) % (1 << 64)
        rows = sum(segment.rows for segment in written)
        is_kept &= (proof.rows_out, proof.row_hash_out) == (rows, row_hash)
    if not is_kept:
        raise Corrupt(
            f"the {publication.kind} does not hold the rows it read ({proof.rows_in} rows in, {proof.rows_out} out, "
            f"{proof.rows_deleted} deleted); nothing was published: report this as a bug"
        )


def _validate_change(change: Change) -> None:
    if len(change.adds) + len(change.restores) > MAX_ADDS_PER_COMMIT // 4:
        raise Invalid(
            f"one commit adds at most {MAX_ADDS_PER_COMMIT // 4} segments to {change.datasource}; "
            f"use a larger target size or several commits"
        )
    if change.takes_over and change.restores:
        raise Invalid("a change that takes chunks over cannot restore segments")
    if change.refolds and (change.adds or change.drops or not change.takes_over):
        raise Invalid("a change that refolds chunks takes them over and does nothing else")
    if change.places:
        _validate_places(change)
    dropped = [drop.segment_id for drop in change.drops]
    if len(set(dropped)) != len(dropped):
        raise Invalid(f"a publication drops a segment of {change.datasource} twice")
    for segment in change.adds:
        if segment.datasource != change.datasource or not segment.chunk.contains(segment.span):
            raise Invalid(
                f"segment {segment.segment_id} has rows outside of its time chunk "
                f"{interval_text(segment.chunk)} or belongs to "
                f"datasource {segment.datasource}, not {change.datasource}",
                segment_id=segment.segment_id,
            )
    if change.takes_over:
        laws.check_chunks(change.datasource, {segment.chunk for segment in change.adds})


def _validate_places(change: Change) -> None:
    """Each place is for one new segment, and no two are the same."""
    adds = {segment.segment_id for segment in change.adds}
    named = [place.segment_id for place in change.places]
    if len(set(named)) != len(named) or not adds.issuperset(named):
        raise Invalid(
            f"a publication names places for segments that it does not add to {change.datasource}, or two"
        )
    places = [
        place.pending_id if isinstance(place, Reserved) else (place.chunk, place.partition_id)
        for place in change.places
    ]
    if len(set(places)) != len(places):
        raise Invalid(f"a publication puts two segments of {change.datasource} into one place")
