"""Records of commits, and the texts of single columns; see `record_form` for how all records are written.

Intervals are `[start_ms, end_ms]`, interval sets lists of them in normal form, sets of partition ids their text
(`0-3,7`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import field
from msgspec.json import Decoder

from carnac.core.log.commits import ConservationProof, DatasourceCommit
from carnac.core.segments.record_form import (
    RECORD_FORMAT,
    NonFinite,
    Record,
    StoredRecord,
    damaged,
    dumps,
    load,
    read_scalar,
    write_scalar,
)
from carnac.core.segments.version import IdRanges, parse_id_ranges
from carnac.core.time.intervals import EMPTY, Interval, IntervalSet, interval_set
from carnac.errors import Invalid


class CommitDetails(NamedTuple):
    """The parts of a commit besides its columns and entries.

    Attributes:
        offsets, after: See `Commit`.
        lookups: Names of the lookups it changed, in order; whether it set them (else it removed them).
        proof: See `Commit`.
    """

    offsets: Mapping[str, str]
    after: Mapping[str, str]
    lookups: Mapping[str, bool]
    proof: ConservationProof | None


class _Proof(Record):
    rows_in: int
    rows_out: int
    row_hash_in: int | None
    row_hash_out: int | None
    sums_in: dict[str, int | float | NonFinite]
    sums_out: dict[str, int | float | NonFinite]
    rows_deleted: int = 0
    row_hash_deleted: int = 0


class _Details(StoredRecord):
    offsets: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    lookups: dict[str, bool] = field(default_factory=dict)
    proof: _Proof | None = None


class ChangeSums(NamedTuple):
    """The effect of a commit on a datasource, in numbers: see `DatasourceSummary`."""

    datasource_id: int
    segments: int
    entries_added: int
    entries_dropped: int
    rows: int
    size_bytes: int
    covers: str


_CHANGES = Decoder(list[ChangeSums])
_DETAILS = Decoder(_Details)
_TEXTS = Decoder(dict[str, str])
_IDS = Decoder(tuple[int, ...])
_PIECES = Decoder(list[tuple[int, int]])
_NO_DETAILS = dumps(_Details(record_format=RECORD_FORMAT))


def dump_commit_details(details: CommitDetails) -> str:
    """Return the record of a commit's details."""
    offsets, after, lookups, proof = details
    if not offsets and not after and not lookups and proof is None:
        return _NO_DETAILS
    record = _Details(
        record_format=RECORD_FORMAT, offsets=dict(offsets), after=dict(after), lookups=dict(lookups)
    )
    if proof is not None:
        sums_in, sums_out = (
            {name: write_scalar(value) for name, value in sums.items()}
            for sums in (proof.sums_in, proof.sums_out)
        )
        record.proof = _Proof.of(proof, sums_in=sums_in, sums_out=sums_out)
    return dumps(record)


def load_commit_details(text: str) -> CommitDetails:
    """Return what `dump_commit_details` wrote.

    Raises:
        Corrupt: The record is damaged, or was written by a newer Carnac.
    """
    return load("commit", text, _DETAILS, _commit_details)


def _commit_details(record: _Details) -> CommitDetails:
    proof = record.proof
    if proof is None:
        return CommitDetails(record.offsets, record.after, record.lookups, None)
    sums_in, sums_out = (
        {name: read_scalar(value) for name, value in sums.items()}
        for sums in (proof.sums_in, proof.sums_out)
    )
    found = proof.to(ConservationProof, sums_in=sums_in, sums_out=sums_out)
    return CommitDetails(record.offsets, record.after, record.lookups, found)


def dump_changes(changes: Sequence[tuple[int, DatasourceCommit]]) -> str:
    """Return what a commit did to datasources, by their ids, in numbers."""
    return dump_sums([_sums(datasource_id, change) for datasource_id, change in changes])


def dump_sums(changes: Sequence[ChangeSums]) -> str:
    """Return what a commit did to datasources."""
    return dumps(list(changes))


def _sums(datasource_id: int, change: DatasourceCommit) -> ChangeSums:
    return ChangeSums(
        datasource_id,
        len(change.segments),
        len(change.adds),
        len(change.drops),
        sum([segment.rows for segment in change.segments]),
        sum([segment.size_bytes for segment in change.segments]),
        dump_interval_set(change.covers),
    )


def load_changes(text: str) -> Sequence[ChangeSums]:
    """Return what `dump_changes` wrote; raises Corrupt if it is damaged."""
    return load("commit's changes", text, _CHANGES, list)


def dump_texts(texts: Mapping[str, str]) -> str:
    """Return a mapping of texts, such as a lookup."""
    return dumps(dict(texts))


def load_texts(text: str) -> Mapping[str, str]:
    """Return the mapping that `dump_texts` wrote; raises Corrupt if it is damaged."""
    return load("mapping", text, _TEXTS, dict)


def dump_ids(ids: Sequence[int]) -> str:
    """Return a list of entry ids."""
    return dumps(list(ids))


def load_ids(text: str) -> tuple[int, ...]:
    """Return the list that `dump_ids` wrote; raises Corrupt if it is damaged."""
    return load("list of ids", text, _IDS, tuple)


def dump_interval_set(pieces: IntervalSet) -> str:
    """Return `[[start_ms, end_ms], …]`."""
    if not pieces:
        return "[]"
    return dumps([(piece.start_ms, piece.end_ms) for piece in pieces])


def load_interval_set(text: str) -> IntervalSet:
    """Return the set that `dump_interval_set` wrote.

    Raises:
        Corrupt: The text is damaged, or the set is not in normal form.
    """
    return EMPTY if text == "[]" else load("interval set", text, _PIECES, _interval_set)


def _interval_set(ends: list[tuple[int, int]]) -> IntervalSet:
    intervals = tuple(Interval(start_ms, end_ms) for start_ms, end_ms in ends)
    pieces = IntervalSet(intervals)
    if pieces != interval_set(intervals):
        raise ValueError("the intervals are not in normal form")
    return pieces


def load_id_ranges(text: str) -> IdRanges:
    """Return the set of partition ids that `str` wrote; raises Corrupt unless it is in normal form."""
    if len(text) < 20 and text.isdecimal():  # the update group of what was appended alone
        only = int(text)
        if str(only) == text:
            return IdRanges(((only, only),))
    return _load_id_ranges(text)


@lru_cache(maxsize=4096)  # the entries of one commit and chunk share one update group
def _load_id_ranges(text: str) -> IdRanges:
    try:
        ranges = parse_id_ranges(text)
        steps = [bound for pair in ranges.ranges for bound in pair]
        gaps = zip(steps[1::2], steps[2::2], strict=False)
        if (
            str(ranges) != text
            or any(last < first for first, last in ranges.ranges)
            or any(following <= last + 1 for last, following in gaps)
        ):
            raise ValueError("the ranges are not in normal form")
    except (ValueError, Invalid) as error:
        raise damaged("set of partition ids", text, error) from error
    return ranges
