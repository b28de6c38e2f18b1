"""Sketches as bytes: build, merge and estimate, with Apache DataSketches underneath.

Three kinds of state, stored as bytes in columns of the types `hll`, `theta` and `quantiles`:

- `hll`: HLL sketch, 8 bits per register, as Spark's `hll_sketch_agg` makes and its `hll_sketch_estimate` reads.
- `theta`: compact theta sketch, ordered: Spark's `theta_sketch_agg`, Druid's `thetaSketch`.
- `quantiles`: KLL sketch of doubles: Spark's `kll_sketch_agg_double`. Not Druid's classic quantiles sketch, which
  Spark cannot read; its bytes are refused by name.

Strings are hashed as UTF-8, integers as 64 bits, floats as doubles, in all three libraries alike; so a sketch that one
of them built merges with a sketch of the same values that another one built.

All functions skip None among their inputs (distinct counts also skip the empty string, as the libraries do), and give
an empty sketch when nothing is left: its estimate is 0.
The order of what goes into HLL and theta sketches changes no estimate: rows come as threads find them, and one
revision has one answer. KLL flips coins when it compacts: equal inputs give equal answers within the error, not equal
bytes.

Importing this module loads numpy; import it where a sketch is in hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import datasketches as ds
import numpy as np

from carnac.errors import Invalid

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_LG_K = 12
"""Both HLL and theta: standard error 1.6 % (Spark's, and Druid's, default)."""
DEFAULT_QUANTILES_K = 200
"""Rank error 1.65 % at 99 % confidence (the default of DataSketches and Spark)."""
SAMPLE_FACTOR = 8
"""Of more than twice so many times k² values, a quantiles sketch is made of one in some. At k = 200 that adds 0.02 % to
a rank error of 1.65 %, and most of the time goes."""

HLL_LG_K_RANGE = (4, 21)
THETA_LG_K_RANGE = (5, 26)
QUANTILES_K_RANGE = (8, 65_535)

Item: TypeAlias = str | int | float | None
State: TypeAlias = bytes | None

_FLAGS_BYTE, _IS_OUT_OF_ORDER = 5, 16
"""Of an HLL sketch: set, it is estimated from its registers alone, and not by what it saw one after the other."""
_FAMILY_BYTE = 2
_DESERIALIZE: Mapping[str, Callable[[bytes], Any]] = {
    "hll": ds.hll_sketch.deserialize,
    "theta": ds.compact_theta_sketch.deserialize,
    "quantiles": ds.kll_doubles_sketch.deserialize,
}
_FAMILIES = {3: "theta", 7: "hll", 8: "classic quantiles", 15: "quantiles"}


# ------------------------------------------------------------------------------------------ hll


def build_hll(values: Iterable[Item], lg_k: int = DEFAULT_LG_K) -> bytes:
    """Return the sketch of the distinct values."""
    sketch = ds.hll_sketch(_within(lg_k, HLL_LG_K_RANGE, "lg_k of an hll sketch"), ds.HLL_8)
    _update(sketch, values)
    return bytes(sketch.serialize_compact())


def merge_hll(states: Iterable[State], lg_k: int = DEFAULT_LG_K) -> bytes:
    """Return the sketch of the union; `lg_k` is the largest that the result may have."""
    union = ds.hll_union(_within(lg_k, HLL_LG_K_RANGE, "lg_k of an hll sketch"))
    for state in states:
        if state is not None:
            union.update(_read("hll", ds.hll_sketch.deserialize, state))
    return bytes(union.get_result(ds.HLL_8).serialize_compact())


def estimate_hll(state: bytes) -> float:
    """Return the estimated number of distinct values; it depends on them alone, not on their order."""
    return float(_read("hll", _read_unordered, state).get_estimate())


def _read_unordered(state: bytes) -> Any:
    flags = bytes([state[_FLAGS_BYTE] | _IS_OUT_OF_ORDER])
    return ds.hll_sketch.deserialize(state[:_FLAGS_BYTE] + flags + state[_FLAGS_BYTE + 1 :])


# ---------------------------------------------------------------------------------------- theta


def build_theta(values: Iterable[Item], lg_k: int = DEFAULT_LG_K) -> bytes:
    """Return the sketch of the distinct values."""
    sketch = ds.update_theta_sketch(_within(lg_k, THETA_LG_K_RANGE, "lg_k of a theta sketch"))
    _update(sketch, values)
    sketch.trim()  # else how many it keeps, and so its estimate, depends on the order of the values
    return bytes(sketch.compact().serialize())


def merge_theta(states: Iterable[State], lg_k: int = DEFAULT_LG_K) -> bytes:
    """Return the sketch of the union; `lg_k` is the largest that the result may have."""
    union = ds.theta_union(_within(lg_k, THETA_LG_K_RANGE, "lg_k of a theta sketch"))
    for state in states:
        if state is not None:
            union.update(_read("theta", ds.compact_theta_sketch.deserialize, state))
    return bytes(union.get_result().serialize())


def intersect_theta(states: Iterable[State]) -> bytes:
    """Return the sketch of the values that are in all of them; of none, an empty sketch."""
    intersection = ds.theta_intersection()
    is_empty = True
    for state in states:
        if state is not None:
            intersection.update(_read("theta", ds.compact_theta_sketch.deserialize, state))
            is_empty = False
    return build_theta(()) if is_empty else bytes(intersection.get_result().serialize())


def subtract_theta(state: State, others: Iterable[State]) -> bytes:
    """Return the sketch of the values of `state` that are in none of the others; of none, an empty sketch."""
    if state is None:
        return build_theta(())
    rest = _read("theta", ds.compact_theta_sketch.deserialize, state)
    for other in others:
        if other is not None:
            taken = _read("theta", ds.compact_theta_sketch.deserialize, other)
            rest = ds.theta_a_not_b().compute(rest, taken)
    return bytes(rest.serialize())


def estimate_theta(state: bytes) -> float:
    """Return the estimated number of distinct values."""
    return float(_read("theta", ds.compact_theta_sketch.deserialize, state).get_estimate())


# ------------------------------------------------------------------------------------ quantiles


def build_quantiles(
    values: Iterable[float | None] | NDArray[np.float64], k: int = DEFAULT_QUANTILES_K
) -> bytes:
    """Return the sketch of the values; NaN is skipped."""
    sketch = ds.kll_doubles_sketch(_within(k, QUANTILES_K_RANGE, "k of a quantiles sketch"))
    if not isinstance(values, np.ndarray):
        values = np.array([value for value in values if value is not None], dtype=np.float64)
    found = values.astype(np.float64, copy=False)
    sampled, doublings = _sampled(found, SAMPLE_FACTOR * k * k)
    if len(sampled):
        sketch.update(np.require(sampled, requirements="W"))
    for _ in range(doublings):
        sketch.merge(ds.kll_doubles_sketch.deserialize(sketch.serialize()))
    if doublings and len(sampled) << doublings != len(found):
        sketch.update(np.require(found[len(sampled) << doublings :], requirements="W"))
    return bytes(sketch.serialize())


def _sampled(values: NDArray[np.float64], least: int) -> tuple[NDArray[np.float64], int]:
    """Return one of each 2**n neighbours, at least `least` of them, and n; the rest that fills no 2**n is left out.

    A sketch that is merged with itself has each of its values twice as often, and loses nothing. The smallest and the
    largest value are always among those that are taken.
    """
    doublings = max(0, (len(values) // least).bit_length() - 1)
    if not doublings:
        return values, 0
    blocks = values[: len(values) >> doublings << doublings].reshape(-1, 1 << doublings)
    smallest, largest = int(blocks.argmin()), int(blocks.argmax())
    if smallest >> doublings == largest >> doublings or np.isnan(values.sum()):
        return values, 0
    picks = np.random.default_rng(len(values)).integers(0, 1 << doublings, len(blocks))
    for place in (smallest, largest):
        picks[place >> doublings] = place & ((1 << doublings) - 1)
    return blocks[np.arange(len(blocks)), picks], doublings


def merge_quantiles(states: Iterable[State], k: int = DEFAULT_QUANTILES_K) -> bytes:
    """Return the sketch of all values of all of them."""
    merged = ds.kll_doubles_sketch(_within(k, QUANTILES_K_RANGE, "k of a quantiles sketch"))
    for state in states:
        if state is not None:
            merged.merge(_read("quantiles", ds.kll_doubles_sketch.deserialize, state))
    return bytes(merged.serialize())


def quantile(state: bytes, fraction: float) -> float | None:
    """Return the value below or at which `fraction` of the values lie; None if the sketch is empty.

    Raises:
        Invalid: `fraction` is not within 0..1.
    """
    if math.isnan(fraction) or not 0 <= fraction <= 1:
        raise Invalid(f"a quantile's fraction must lie within 0 and 1, not {fraction}")
    sketch = _read("quantiles", ds.kll_doubles_sketch.deserialize, state)
    if sketch.is_empty():
        return None
    if fraction in {0, 1}:  # known exactly, also when the value itself was compacted away
        return float(sketch.get_max_value() if fraction else sketch.get_min_value())
    return float(sketch.get_quantile(fraction, inclusive=True))


def rank(state: bytes, value: float) -> float | None:
    """Return the fraction of the values that are at or below `value`; None if the sketch is empty."""
    sketch = _read("quantiles", ds.kll_doubles_sketch.deserialize, state)
    return None if sketch.is_empty() else float(sketch.get_rank(value, inclusive=True))


def shares(state: bytes, bounds: Sequence[float | None]) -> list[float | None]:
    """Return the fractions of the values that are at or below each bound, and 1; Nones if the sketch is empty.

    Raises:
        Invalid: The bounds do not ascend.
    """
    known = [one for one in bounds if one is not None]
    if len(known) < len(bounds) or any(
        not low < high for low, high in pairwise([*known, math.inf])
    ):
        said = ", ".join("null" if one is None else str(one) for one in bounds)
        raise Invalid(f"the bounds of a distribution must ascend, not be {said}")
    sketch = _read("quantiles", ds.kll_doubles_sketch.deserialize, state)
    if sketch.is_empty():
        return [None] * (len(bounds) + 1)
    return [float(share) for share in sketch.get_cdf(known, inclusive=True)]


def counts(state: bytes, bounds: Sequence[float | None]) -> list[float | None]:
    """Return how many values lie up to the first bound, between it and the next one, and so on, as `shares`."""
    found = shares(state, bounds)
    number = ds.kll_doubles_sketch.deserialize(state).n
    return [
        None if low is None or high is None else (high - low) * number
        for low, high in pairwise([0.0, *found])
    ]


# ---------------------------------------------------------------------------------- by the kind


def build(kind: str, values: Iterable[Item], params: Mapping[str, int]) -> bytes:
    """Return the sketch of the values; `kind` is `hll`, `theta` or `quantiles`, `params` a metric's."""
    if kind == "quantiles":
        return build_quantiles(_as_floats(values), params.get("k", DEFAULT_QUANTILES_K))
    builder: Callable[..., bytes] = {"hll": build_hll, "theta": build_theta}[kind]
    return builder(values, params.get("lg_k", DEFAULT_LG_K))


def merge(kind: str, states: Iterable[State], params: Mapping[str, int]) -> bytes:
    """Return the union of the sketches, which are all of that kind."""
    if kind == "quantiles":
        return merge_quantiles(states, params.get("k", DEFAULT_QUANTILES_K))
    merger: Callable[..., bytes] = {"hll": merge_hll, "theta": merge_theta}[kind]
    return merger(states, params.get("lg_k", DEFAULT_LG_K))


def is_sketch(kind: str, state: bytes) -> bool:
    """Whether bytes can be read as a sketch of that kind."""
    try:
        _read(kind, _DESERIALIZE[kind], state)
    except (Invalid, MemoryError):  # damaged bytes may claim any size
        return False
    return True


def _update(sketch: Any, values: Iterable[Item]) -> None:
    update = sketch.update
    for value in values:
        if value is None:
            continue
        update(int(value) if isinstance(value, bool) else value)


def _as_floats(values: Iterable[Item]) -> Iterable[float | None]:
    return [None if value is None else float(value) for value in values]


def _read(kind: str, deserialize: Callable[[bytes], Any], state: bytes) -> Any:
    family = _FAMILIES.get(state[_FAMILY_BYTE]) if len(state) > _FAMILY_BYTE else None
    if family != kind:
        found = f"they are a {family} sketch" if family else "they are no sketch"
        raise Invalid(
            f"these {len(state)} bytes cannot be read as a sketch of type {kind}: {found}"
        )
    try:
        return deserialize(state)
    except (RuntimeError, ValueError, IndexError) as error:
        raise Invalid(
            f"these {len(state)} bytes cannot be read as a sketch of type {kind}: {error}"
        ) from None


def _within(value: int, allowed: tuple[int, int], what: str) -> int:
    low, high = allowed
    if not low <= value <= high:
        raise Invalid(f"{what} must lie within {low} and {high}, not {value}")
    return value
