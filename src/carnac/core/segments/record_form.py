"""The form of all records: their text, the number of their format, values that JSON has no words for, and damage.

A record is stated once, as a class of fields; msgspec writes it as JSON and reads it back strictly. Names are
camelCase, and fields with their defaults are left out. Anything else that is not as stated (a missing or unknown field,
a wrong type) is damage: Corrupt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, Self, TypeAlias, TypeVar

from msgspec import MsgspecError, Struct, ValidationError
from msgspec.json import Decoder, Encoder

from carnac.core.segments.segment import Scalar
from carnac.errors import Corrupt, Invalid

RECORD_FORMAT: Final = 1
"""Written with every stored record; raised when a record changes so that an older reader would misread it."""

Read = TypeVar("Read")
Built = TypeVar("Built")

_SAYS_FORMAT = "record_format"
_ENCODER = Encoder()


class Record(
    Struct, rename="camel", kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """A record, or a part of one."""

    @classmethod
    def of(cls, value: object, **others: object) -> Self:
        """Return the record of a value: its attributes of the same names, but for `others`."""
        names = cls.__struct_fields__
        return cls(**{one: getattr(value, one) for one in names if one not in others}, **others)

    def to(self, kind: type[Built], **others: object) -> Built:
        """Return the value whose record this is; `others` are not as they stand here."""
        kept = [
            name for name in self.__struct_fields__ if name not in others and name != _SAYS_FORMAT
        ]
        return kind(**{name: getattr(self, name) for name in kept}, **others)


class StoredRecord(Record):
    """A record that is stored by itself, and so says its format."""

    record_format: Literal[1]


class NonFinite(Record):
    """A float that JSON cannot write."""

    float: Literal["inf", "-inf", "nan"]


Written: TypeAlias = str | int | float | bool | NonFinite | None
"""A value as it stands in a record."""


class _Format(Struct, rename="camel"):
    record_format: int


_FORMAT = Decoder(_Format)


def write_scalar(value: Scalar) -> Written:
    """Return a value as it stands in a record."""
    if isinstance(value, float) and not math.isfinite(value):
        return NonFinite(float=str(value))  # type: ignore[arg-type]  # one of the three
    return value


def read_scalar(written: Written) -> Scalar:
    """Return the value that stands in a record."""
    return float(written.float) if type(written) is NonFinite else written  # type: ignore[return-value]  # a Scalar else


def dumps(value: object) -> str:
    """Return the text of a record."""
    return _ENCODER.encode(value).decode()


def load(
    kind: str, text: str | bytes, decoder: Decoder[Read], build: Callable[[Read], Built]
) -> Built:
    """Return what `build` makes of a record.

    Args:
        kind: Name of the recorded value, for the message.

    Raises:
        Corrupt: The record is damaged, or was written by a newer Carnac.
    """
    try:
        return build(decoder.decode(text))
    except (MsgspecError, ValueError, Invalid, RecursionError) as error:
        raise damaged(kind, text, error) from error


def damaged(kind: str, text: str | bytes, error: Exception) -> Corrupt:
    """Return the error for a record that cannot be read."""
    if isinstance(error, ValidationError) and (written := _format_of(text)) > RECORD_FORMAT:
        return Corrupt(
            f"the record of a {kind} has format {written}, newer than {RECORD_FORMAT} which this Carnac reads; "
            f"use the version that wrote it",
            record=kind,
        )
    return Corrupt(
        f"the record of a {kind} is damaged ({type(error).__name__}: {error}); it begins {text[:80]!r}",
        record=kind,
    )


def _format_of(text: str | bytes) -> int:
    try:
        return _FORMAT.decode(text).record_format
    except MsgspecError:
        return RECORD_FORMAT
