"""Codes of values: 64 bits for each, the same however a value is kept; see `carnac.rows.row_hash`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from carnac.errors import InvariantError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint64]
    PutCodes = Callable[[int, int, Codes], None]

LONG_TEXT_BYTES = 1024
"""Longer texts and bytes are hashed one by one (BLAKE2b), shorter ones all at once."""
LANE_BYTES = 8
FEW_TEXTS = 512
"""Up to this number, texts are hashed all lanes at once; more of them lane by lane."""
EXACT_LIMIT = 1 << 53
FOLD = np.uint64(32)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_NULL_ELEMENT = np.uint64(0xA5A5F00DDEADBEEF)
_LIST = np.uint64(0x6C62272E07BB0142)


def mix(values: Codes) -> Codes:
    """Return splitmix64's finalizer of each value; makes one new array and works in it."""
    mixed: Codes = values + _GOLDEN
    shifted = np.empty_like(mixed)
    mixed ^= np.right_shift(mixed, _SHIFT_1, out=shifted)
    mixed *= _MULTIPLY_1
    mixed ^= np.right_shift(mixed, _SHIFT_2, out=shifted)
    mixed *= _MULTIPLY_2
    mixed ^= np.right_shift(mixed, _SHIFT_3, out=shifted)
    return mixed


def codes_of(array: pa.Array) -> Codes:
    """Return the code of each value; anything where it is null."""
    kind = array.type
    if pa.types.is_primitive(kind):
        codes = np.empty(len(array), np.uint64)
        number_codes(array)(0, len(array), codes)
        return codes
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_codes(array)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.uint64)
    if kind in _TEXTS:
        return _text_codes(array)
    try:
        return _text_codes(array.cast(pa.large_binary()))
    except pa.ArrowNotImplementedError:
        raise _unhashable(kind) from None


def _unhashable(kind: pa.DataType) -> InvariantError:
    return InvariantError(f"rows with a column of type {kind} cannot be hashed")


def number_codes(array: pa.Array) -> PutCodes:
    """Return what puts the codes of some of the values into an array; anything where they are null."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        micros = _cast(array, pa.timestamp("us", tz=kind.tz)).view(pa.int64())
        times = numpy_of(filled(micros, 0)).view(np.uint64)

        def put_times(start: int, end: int, codes: Codes) -> None:
            codes[:] = times[start:end]

        return put_times
    if pa.types.is_floating(kind):
        return _put_doubles(numpy_of(filled(_cast(array, pa.float64()), 0.0)))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _put_integers(numpy_of(filled(_cast(array, pa.int64()), 0)))
    raise _unhashable(kind)


def _put_doubles(values: NDArray[np.float64]) -> PutCodes:
    has_nan = bool(len(values)) and np.isnan(values.min())  # the least value is NaN if one is

    def put(start: int, end: int, codes: Codes) -> None:
        doubles = codes.view(np.float64)
        np.add(values[start:end], 0.0, out=doubles)  # makes -0.0 a 0.0
        if has_nan:
            doubles[np.isnan(doubles)] = np.nan  # of many bit patterns, one

    return put


def _put_integers(values: NDArray[np.int64]) -> PutCodes:
    is_exact = not len(values) or bool(values.min() >= -EXACT_LIMIT and values.max() <= EXACT_LIMIT)

    def put(start: int, end: int, codes: Codes) -> None:
        own = values[start:end]
        codes.view(np.float64)[:] = own
        if not is_exact:
            is_large = (own > EXACT_LIMIT) | (own < -EXACT_LIMIT)
            codes[is_large] = mix(own[is_large].view(np.uint64))

    return put


def _places(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each element in its own list: 0, 1, … for each list, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(before, lengths)


def _sums(values: Codes, lengths: NDArray[np.int64]) -> Codes:
    """Return the wrapping sum of each run of `lengths` values."""
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    ends = np.cumsum(lengths)
    sums: Codes = running[ends] - running[ends - lengths]
    return sums


def _weights(places: Codes) -> Codes:
    """Return a fixed odd number for each place."""
    weights: Codes = mix(places) | np.uint64(1)
    return weights


_TEXTS = {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}
_SHORT_OFFSETS = {pa.string(), pa.binary()}
_LANE_WEIGHTS = _weights(np.arange(LONG_TEXT_BYTES // LANE_BYTES, dtype=np.uint64))
_LANE_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(LANE_BYTES + 1)], np.uint64)


def _text_codes(array: pa.Array) -> Codes:
    """Return the code of each text, BLAKE2b of those longer than `LONG_TEXT_BYTES`.

    Of the others it is mix(length + sum of fold(lane) * weight(place)) of their lanes, eight bytes each, little-endian.
    """
    count = len(array)
    if not count:
        return np.empty(0, np.uint64)
    _, places, data = array.buffers()
    width = np.int32 if array.type in _SHORT_OFFSETS else np.int64
    offsets = np.frombuffer(places, width)[array.offset : array.offset + count + 1].astype(np.int64)
    lengths = offsets[1:] - offsets[:-1]
    raw = np.zeros(int(offsets[-1] - offsets[0]) + LANE_BYTES, np.uint8)
    if data is not None:
        raw[:-LANE_BYTES] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    long = np.flatnonzero(lengths > LONG_TEXT_BYTES)
    short = lengths
    if len(long):
        short = lengths.copy()
        short[long] = 0
    codes = mix(_lane_sums(raw, starts, short))
    for index in long:
        text = raw[starts[index] : starts[index] + lengths[index]]
        digest = hashlib.blake2b(text.data, digest_size=8).digest()
        codes[index] = int.from_bytes(digest, "little")
    return codes


def _lane_sums(
    raw: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Codes:
    """Return for each text the sum of its length and its lanes; `raw` ends with a lane that no text is in."""
    lanes = np.ndarray((len(raw) - LANE_BYTES + 1,), "<u8", buffer=raw, strides=(1,))
    sums = lengths.astype(np.uint64)
    place, least = 0, int(lengths.min())
    while place == 0 or least > LANE_BYTES * place:  # lanes that all have
        sums += _lanes(lanes, starts, lengths, place)
        place += 1
    left = np.flatnonzero(lengths > LANE_BYTES * place)
    while len(left) > FEW_TEXTS:
        sums[left] += _lanes(lanes, starts[left], lengths[left], place)
        place += 1
        left = left[lengths[left] > LANE_BYTES * place]
    if len(left):
        counts = (lengths[left] - 1) // LANE_BYTES + 1 - place
        each = np.repeat(left, counts)
        own = _lanes(lanes, starts[each], lengths[each], _places(counts) + place)
        sums[left] += _sums(own, counts)
    return sums


def _lanes(
    lanes: Codes, starts: NDArray[np.int64], lengths: NDArray[np.int64], places: Any
) -> Codes:
    """Return what the lane at a place, or at a place of its own, adds to the code of each text."""
    at = places * LANE_BYTES
    own: Codes = lanes[starts + at]
    left = lengths - at
    if left.min() < LANE_BYTES:
        own &= _LANE_MASKS[np.minimum(left, LANE_BYTES)]
    own ^= own >> FOLD
    own *= _LANE_WEIGHTS[places]
    return own


def _list_codes(array: pa.Array) -> Codes:
    flat = array.flatten()
    lengths = numpy_of(pc.list_value_length(array).fill_null(0)).astype(np.int64)
    elements = codes_of(flat) if len(flat) else np.empty(0, np.uint64)
    if flat.null_count:
        elements = np.where(numpy_of(flat.is_valid()), elements, _NULL_ELEMENT)
    places = _places(lengths)
    weights = _weights(places.astype(np.uint64))
    codes = mix(_sums(mix(elements) * weights, lengths) + lengths.astype(np.uint64) + _LIST)
    is_single = lengths == 1
    if is_single.any():
        first = np.minimum(np.cumsum(lengths) - lengths, max(len(elements) - 1, 0))
        codes = np.where(is_single, elements[first], codes)
    return codes


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; copies only if it has several chunks."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def numpy_of(array: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return the values of an array that has no nulls, without a copy where that can be."""
    numbers: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def filled(array: pa.Array | pa.ChunkedArray, value: float) -> Any:
    """Return the array with the value for nulls; the same array, not a copy, if there are none."""
    return array.fill_null(value) if array.null_count else array


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind) else array.cast(kind)
