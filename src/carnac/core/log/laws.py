"""The laws of the log, checked: SG-1, CH-1, CH-2, EN-1, EN-2 and CN-1 of `core/invariants.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from carnac.core.invariants import check
from carnac.core.log.commits import ConservationProof
from carnac.core.log.entries import Entry
from carnac.core.time.intervals import Interval, IntervalSet, interval_set, interval_text


def check_entries(datasource: str, live: Iterable[Entry]) -> None:
    """Check SG-1, CH-1, CH-2, EN-1 and EN-2 for all live entries of a datasource."""
    entries = list(live)
    places = {(entry.chunk, entry.version, entry.partition_id) for entry in entries}
    check("SG-1", len(places) == len(entries), f"two entries of {datasource} share one place")
    check_chunks(datasource, {entry.chunk for entry in entries})
    majors: dict[Interval, set[int]] = defaultdict(set)
    shown: dict[str, list[IntervalSet]] = defaultdict(list)
    for entry in entries:
        majors[entry.chunk].add(entry.version.major_ms)
        shown[entry.segment_id].append(entry.visible)
        check_entry(datasource, entry)
    for chunk, versions in majors.items():
        check(
            "CH-2",
            len(versions) == 1,
            f"chunk {interval_text(chunk)} of {datasource} has major versions {versions}",
        )
    for segment_id, sets in shown.items():
        check("EN-2", are_disjoint(sets), f"segment {segment_id} of {datasource} shows rows twice")


def check_chunks(datasource: str, chunks: Iterable[Interval]) -> None:
    """Check CH-1."""
    for left, right in pairwise(sorted(chunks)):
        check(
            "CH-1",
            left.end_ms <= right.start_ms,
            f"chunks {left} and {right} of {datasource} overlap",
        )


def check_entry(datasource: str, entry: Entry) -> None:
    """Check EN-1."""
    visible = entry.visible.span()
    check(
        "EN-1",
        visible is not None and entry.span.contains(visible) and entry.chunk.contains(visible),
        f"entry {entry.entry_id} of {datasource} shows {visible}, outside of its chunk {interval_text(entry.chunk)} "
        f"or its segment's span {interval_text(entry.span)}",
    )


def are_disjoint(sets: Iterable[IntervalSet]) -> bool:
    """Whether no instant is in two of the sets."""
    pieces = [piece for one in sets for piece in one]
    return sum(piece.duration_ms for piece in interval_set(pieces)) == sum(
        piece.duration_ms for piece in pieces
    )


def conserves(proof: ConservationProof) -> bool:
    """CN-1: whether a rewrite's proof says that its rows are those that went in, less deleted ones (sums to 1e-9)."""
    return (
        proof.rows_in == proof.rows_out + proof.rows_deleted
        and proof.row_hash_in == _with_deleted(proof)
        and proof.sums_in.keys() == proof.sums_out.keys()
        and all(
            abs(value - proof.sums_out[name]) <= 1e-9 * max(abs(value), 1.0)
            for name, value in proof.sums_in.items()
        )
    )


def _with_deleted(proof: ConservationProof) -> int | None:
    if proof.row_hash_out is None:
        return None
    return (proof.row_hash_out + proof.row_hash_deleted) % (1 << 64)
