"""Declared columns that no row of an input has: a name that the input writes otherwise, most of the time.

Whether a field is there is asked only where its column came out without a value: what a load has written shows that for
nothing, and the look at the input that tells a field of nulls from none is rare then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.segments.evolution import find_empty_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from carnac.core.segments.segment import Segment
    from carnac.rows.read.discover import SeenFields
    from carnac.specs.ingest.spec import IngestSpec


@dataclass(frozen=True, slots=True)
class MissingFields:
    """Fields that are declared and that no row has, and those that the rows have."""

    missing: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


def find_missing(
    spec: IngestSpec, segments: Sequence[Segment], look: Callable[[], SeenFields] | None
) -> MissingFields:
    """Return the fields that the spec declares and no row has; without a row nothing is missing.

    Args:
        look: Finds the fields of the input; None: nobody can.
    """
    declared = spec.declared_fields
    empty = find_empty_columns(declared, segments)
    if not empty or look is None:
        return MissingFields()
    kinds = look().kinds
    wanted = dict.fromkeys(field for column in empty for field in declared[column])
    return MissingFields(
        missing=tuple(field for field in wanted if not kinds.get(field)),
        fields=tuple(field for field, found in kinds.items() if found),
    )
