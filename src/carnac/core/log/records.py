"""Records: how values are written as JSON, and read back strictly.

Names are camelCase. A stored record says its `recordFormat`; an older one is brought up to date step by step
(`core/segments/record_form.py`), a newer one is refused. What is None or empty is left out. Anything else that is not
as here (a missing or unknown field, a wrong type, a set that is not in normal form) is damage: Corrupt.

Intervals are `[start_ms, end_ms]`, interval sets lists of them, sets of partition ids their text (`0-3,7`). Floats
that JSON cannot write are `{"float": "inf" | "-inf" | "nan"}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from carnac.core.log.commits import ConservationProof
from carnac.core.segments.record_form import RECORD_FORMAT
from carnac.core.segments.record_form import dump_scalar as _dump_scalar
from carnac.core.segments.record_form import dumps as _dumps
from carnac.core.segments.record_form import guard as _guard
from carnac.core.segments.record_form import interval as _interval
from carnac.core.segments.record_form import load_record as _load
from carnac.core.segments.record_form import loads as _loads
from carnac.core.segments.record_form import require_empty as _require_empty
from carnac.core.segments.record_form import scalar as _scalar
from carnac.core.segments.strict_json import Json
from carnac.core.segments.strict_json import boolean as _bool
from carnac.core.segments.strict_json import items as _list
from carnac.core.segments.strict_json import members as _object
from carnac.core.segments.strict_json import text as _str
from carnac.core.segments.strict_json import whole_number as _int
from carnac.core.segments.version import IdRanges, parse_id_ranges
from carnac.core.time.intervals import IntervalSet, interval_set

CommitDetails: TypeAlias = tuple[Mapping[str, str], Mapping[str, bool], ConservationProof | None]

_NO_DETAILS = _dumps({"recordFormat": RECORD_FORMAT})


def dump_commit_details(
    offsets: Mapping[str, str], lookups: Mapping[str, bool], proof: ConservationProof | None
) -> str:
    """Return what a commit holds besides its columns and entries.

    Args:
        lookups: Names of the lookups it changed, in order; whether it set them (else it removed them).
    """
    if not offsets and not lookups and proof is None:
        return _NO_DETAILS
    record: Json = {"recordFormat": RECORD_FORMAT}
    if offsets:
        record["offsets"] = dict(offsets)
    if lookups:
        record["lookups"] = dict(lookups)
    if proof is not None:
        record["proof"] = {
            "rowsIn": proof.rows_in,
            "rowsOut": proof.rows_out,
            "rowHashIn": proof.row_hash_in,
            "rowHashOut": proof.row_hash_out,
            "sumsIn": {name: _dump_scalar(value) for name, value in proof.sums_in.items()},
            "sumsOut": {name: _dump_scalar(value) for name, value in proof.sums_out.items()},
            **_deleted(proof),
        }
    return _dumps(record)


def load_commit_details(text: str) -> CommitDetails:
    """Return offsets, lookups (see `dump_commit_details`) and proof of a commit.

    Raises:
        Corrupt: The record is damaged, or was written by a newer Carnac.
    """

    def build(record: Json) -> CommitDetails:
        offsets = _object(record.pop("offsets", {}))
        lookups = _object(record.pop("lookups", {}))
        proof = _proof(record.pop("proof")) if "proof" in record else None
        _require_empty(record)
        return (
            {name: _str(value) for name, value in offsets.items()},
            {name: _bool(value) for name, value in lookups.items()},
            proof,
        )

    return _load("commit", text, build)


def _deleted(proof: ConservationProof) -> dict[str, int]:
    if not proof.rows_deleted:
        return {}
    return {"rowsDeleted": proof.rows_deleted, "rowHashDeleted": proof.row_hash_deleted}


def _proof(value: object) -> ConservationProof:
    record = _object(value)
    hash_in, hash_out = record.pop("rowHashIn"), record.pop("rowHashOut")
    proof = ConservationProof(
        rows_in=_int(record.pop("rowsIn")),
        rows_out=_int(record.pop("rowsOut")),
        row_hash_in=None if hash_in is None else _int(hash_in),
        row_hash_out=None if hash_out is None else _int(hash_out),
        sums_in=_sums(record.pop("sumsIn")),
        sums_out=_sums(record.pop("sumsOut")),
        rows_deleted=_int(record.pop("rowsDeleted", 0)),
        row_hash_deleted=_int(record.pop("rowHashDeleted", 0)),
    )
    _require_empty(record)
    return proof


def _sums(value: object) -> Mapping[str, float]:
    sums: dict[str, float] = {}
    for name, item in _object(value).items():
        number = _scalar(item)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError("a sum is not a number")
        sums[name] = number
    return sums


def dump_texts(texts: Mapping[str, str]) -> str:
    """Return a mapping of texts, such as a lookup."""
    return _dumps(dict(texts))


def load_texts(text: str) -> Mapping[str, str]:
    """Return the mapping that `dump_texts` wrote; raises Corrupt if it is damaged."""
    return _guard(
        "mapping",
        text,
        lambda: {name: _str(value) for name, value in _object(_loads(text)).items()},
    )


def dump_ids(ids: Sequence[int]) -> str:
    """Return a list of entry ids."""
    return _dumps(list(ids))


def load_ids(text: str) -> tuple[int, ...]:
    """Return the list that `dump_ids` wrote; raises Corrupt if it is damaged."""
    return _guard("list of ids", text, lambda: tuple(_int(item) for item in _list(_loads(text))))


def dump_interval_set(pieces: IntervalSet) -> str:
    """Return `[[start_ms, end_ms], …]`."""
    if not pieces:
        return "[]"
    return _dumps([[piece.start_ms, piece.end_ms] for piece in pieces])


def load_interval_set(text: str) -> IntervalSet:
    """Return the set that `dump_interval_set` wrote.

    Raises:
        Corrupt: The text is damaged, or the set is not in normal form.
    """

    def build() -> IntervalSet:
        intervals = tuple(_interval(item) for item in _list(_loads(text)))
        pieces = IntervalSet(intervals)
        if pieces != interval_set(intervals):
            raise ValueError("the intervals are not in normal form")
        return pieces

    return _guard("interval set", text, build)


def load_id_ranges(text: str) -> IdRanges:
    """Return the set of partition ids that `str` wrote; raises Corrupt unless it is in normal form."""
    if len(text) < 20 and text.isdecimal():  # the update group of what was appended alone
        only = int(text)
        if str(only) == text:
            return IdRanges(((only, only),))
    return _load_id_ranges(text)


@lru_cache(maxsize=4096)  # the entries of one commit and chunk share one update group
def _load_id_ranges(text: str) -> IdRanges:
    def build() -> IdRanges:
        ranges = parse_id_ranges(text)
        steps = [bound for pair in ranges.ranges for bound in pair]
        gaps = zip(steps[1::2], steps[2::2], strict=False)
        if (
            str(ranges) != text
            or any(last < first for first, last in ranges.ranges)
            or any(following <= last + 1 for last, following in gaps)
        ):
            raise ValueError("the ranges are not in normal form")
        return ranges

    return _guard("set of partition ids", text, build)
