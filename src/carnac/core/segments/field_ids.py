"""Parquet field ids: the number of a column, by which readers of Iceberg tables find it in a file.

An id is computed from the column's name. So two appends that bring the same new column at once agree without asking
anybody, a rewrite gives its files the ids of those it read, and a datasource that is renamed keeps them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

MAX_FIELD_ID = 2**31 - 1 - 200
"""Iceberg keeps the ids above for itself."""


def field_ids(names: Iterable[str]) -> Mapping[str, int]:
    """Return the ids of columns, and of the elements of lists, by names that `element_of` gives.

    Two names of which the ids are the same (one pair in two thousand million) both have none.
    """
    found = {name: _field_id(name) for name in names}
    uses = Counter(found.values())
    return {name: one for name, one in found.items() if uses[one] == 1}


def element_of(column: str) -> str:
    """Return a name for the elements of a list that no column has."""
    return f"{column}\0element"


@lru_cache(maxsize=10_000)
def _field_id(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"carnac-field-id").digest()
    return int.from_bytes(digest, "little") % MAX_FIELD_ID + 1
