"""Changes of a load to a datasource's types and columns; breaking ones are told apart from safe ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from carnac.core.segments.schema import unite_columns, unite_types
from carnac.core.segments.segment import ColumnType, Segment
from carnac.errors import Invalid

NUMBERS = frozenset({ColumnType.BOOLEAN, ColumnType.LONG, ColumnType.FLOAT, ColumnType.DOUBLE})
EPOCH_DAYS = 60
EPOCH_END_MS = EPOCH_DAYS * 86_400_000
"""Seconds since 1970 that are read as milliseconds give times before this, until the year 2134."""
REJECTED_SHARE = 0.1
"""Share of rejected rows above which a load is warned of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """The changes of a load.

    Attributes:
        breaking: A sentence for each column whose new type breaks queries that ran before.
        notes: A sentence for each other change.
    """

    breaking: tuple[str, ...]
    notes: tuple[str, ...]


def compare_schemas(before: Mapping[str, ColumnType], added: Iterable[Segment]) -> Evolution:
    """Return what segments change in a datasource that has these columns.

    Raises:
        Invalid: A column is a sketch on one side and something else on the other; or is called like a known one except
            for case, which queries do not tell apart.
    """
    segments = tuple(added)
    if not before or not segments:
        return Evolution(breaking=(), notes=())
    after = unite_columns(segment.columns for segment in segments)
    folded = {name.lower(): name for name in before}
    for name in after:
        other = folded.get(name.lower(), name)
        if name != other and name not in before:
            raise Invalid(
                f"column '{name}' differs only in case from '{other}', which the datasource has; nothing was published:"
                " write it as the datasource does, give it another name, or leave it out (dimensionExclusions)",
                column=name,
            )
    breaking, notes = [], []
    for name, kind in after.items():
        known = before.get(name)
        if known is None:
            notes.append(f"column '{name}' ({kind}) is new")
            continue
        united = unite_types(name, known, kind)
        if united is known:
            if kind is not known:
                notes.append(f"column '{name}' is {known}, and this load's {kind} is read as that")
        elif known in NUMBERS and united in NUMBERS:
            notes.append(f"column '{name}' was {known} and is {united} from now on")
        else:
            breaking.append(
                f"column '{name}' is {known}, and would become {united} with this load's {kind}"
            )
    missing = [name for name in before if name not in after]
    if missing:
        notes.append(f"not filled by this load: {', '.join(missing)}")
    return Evolution(breaking=tuple(breaking), notes=tuple(notes))


def find_empty_columns(declared: Iterable[str], added: Iterable[Segment]) -> tuple[str, ...]:
    """Return the declared columns that hold nothing but nulls in all segments, in order."""
    segments = tuple(added)
    filled = {
        column.name
        for segment in segments
        for column in segment.columns
        if column.null_count != segment.rows
    }
    return tuple(name for name in declared if name not in filled) if segments else ()


def is_epoch(added: Iterable[Segment]) -> bool:
    """Whether all rows lie in the first days of 1970: seconds that were read as milliseconds."""
    segments = tuple(added)
    return bool(segments) and all(
        one.min_time_ms >= 0 and one.max_time_ms < EPOCH_END_MS for one in segments
    )
