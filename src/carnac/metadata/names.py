"""Small rules: names of tags, leases, how long places are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.core.texts import check_name
from carnac.core.time.intervals import parse_instant
from carnac.errors import Invalid

if TYPE_CHECKING:
    from carnac.ports import Lease

RESERVATION_MAX_MS = 7 * 86_400_000
"""How long a place is kept for an owner that is neither an attempt at work nor has a lease."""


def require_tag_name(name: str) -> None:
    """Refuse names that `at=` would read as something else.

    Raises:
        Invalid: The name is no text, no name, empty, only digits, a time, or has a space at an end.
    """
    if not isinstance(name, str):
        raise Invalid(f"the name of a tag is a text, not {name!r}")
    check_name(name, "the name of a tag")
    if not name or name != name.strip() or name.isdecimal() or _is_time(name):
        raise Invalid(
            f"'{name}' cannot be the name of a tag: it must not be empty, only digits, a time, or begin or end with "
            "a space",
            tag=name,
        )


def renewed(lease: Lease, now_ms: int, ttl_ms: int, revision: int | None) -> Lease:
    """Return a lease prolonged, and moved if a revision is given.

    Raises:
        Invalid: The revision is older than the lease's, so its files may be gone.
    """
    if revision is not None and revision < lease.revision:
        raise Invalid(
            f"lease {lease.lease_id} cannot go back from revision {lease.revision} to {revision}",
            lease_id=lease.lease_id,
        )
    return replace(
        lease,
        revision=lease.revision if revision is None else revision,
        expires_at_ms=now_ms + ttl_ms,
        ttl_ms=ttl_ms,
    )


def _is_time(text: str) -> bool:
    try:
        parse_instant(text)
    except Invalid:
        return False
    return True
