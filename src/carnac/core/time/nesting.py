"""Whether the buckets of one granularity nest in those of another, so that each coarse one is made of fine ones."""

from __future__ import annotations

from collections.abc import Iterator

from carnac.core.time.granularity import NONE, Granularity
from carnac.core.time.periods import DAY_MS, split_month
from carnac.core.time.zones import recent_offsets_ms


def is_finer_or_equal(fine: Granularity, coarse: Granularity) -> bool:
    """Whether every bucket of `coarse` is a union of buckets of `fine`, where that can be decided.

    False also means "cannot tell". Zones are judged by their offsets since 1970; local mean times before are ignored.
    """
    if fine in (coarse, NONE) or coarse.mode == "all":
        return True
    if fine.mode == "all":
        return False
    if fine.mode == "calendar":
        return coarse.mode == "calendar" and _calendar_nests(fine, coarse)
    unit_ms = fine.length_ms
    if coarse.mode == "calendar" and coarse.months and DAY_MS % unit_ms:
        return False
    if coarse.length_ms % unit_ms:
        return False
    return all((start - fine.anchor_ms) % unit_ms == 0 for start in _starts_on_grid(fine, coarse))


def _starts_on_grid(fine: Granularity, coarse: Granularity) -> Iterator[int]:
    """Yield where a bucket of `coarse` starts on the grid of `fine`, for all offsets that may be in force."""
    if fine.mode == "clock" and coarse.mode != "elapsed" and fine.zone == coarse.zone:
        yield coarse.anchor_ms
        return
    offsets = {0} if coarse.mode == "elapsed" else recent_offsets_ms(coarse.zone)
    shifts = recent_offsets_ms(fine.zone) if fine.mode == "clock" else {0}
    yield from (coarse.anchor_ms - offset + shift for offset in offsets for shift in shifts)


def _calendar_nests(fine: Granularity, coarse: Granularity) -> bool:
    """Whether wall clock starts of `coarse` are all wall clock starts of `fine`; both are calendar granularities."""
    if fine.zone != coarse.zone or (fine.months and not coarse.months):
        return False
    if not fine.months:
        fits = coarse.length_ms % fine.length_ms == 0 and not (
            coarse.months and DAY_MS % fine.length_ms
        )
        return fits and (coarse.anchor_ms - fine.anchor_ms) % fine.length_ms == 0
    times, left = divmod(coarse.months, fine.months)
    if left or coarse.length_ms != times * fine.length_ms:
        return False
    if fine.anchor_ms == coarse.anchor_ms:
        return True
    fine_month, fine_rest = split_month(fine.anchor_ms)
    month, rest = split_month(coarse.anchor_ms)
    simple = not fine.length_ms and rest == fine_rest < 28 * DAY_MS
    return simple and (month - fine_month) % fine.months == 0
