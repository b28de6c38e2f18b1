"""What all blocks of a spec have in common: frozen, closed, camelCase in JSON, snake_case in Python.

Every field carries a `description`; `carnac.specs.reference` makes the reference page of them, and
a test fails where one is missing. Where the JSON name is not the camelCase of the Python name (it
is Druid's, then), the field says `alias_of(...)`: the first name is written, all are read.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from carnac.core.intervals import Interval, parse_instant, parse_interval
from carnac.errors import Invalid

TIME_COLUMN = "__time"
"""The primary timestamp of every row, in specs, transforms, segments and SQL."""


class SpecModel(BaseModel):
    """Base of every block: immutable, and a field it does not know is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(to_camel(name), name),
            serialization_alias=to_camel,
        ),
        use_attribute_docstrings=False,
        val_json_bytes="utf8",
    )

    def to_json_dict(self) -> dict[str, Any]:
        """Return the block as plain JSON values, without the fields that stand at their default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def problem(message: str) -> PydanticCustomError:
    """Return the error that a validator raises: `message` says what is wrong and what to do."""
    escaped = message.replace("{", "(").replace("}", ")")
    return PydanticCustomError("spec", escaped)  # type: ignore[arg-type]


def _to_interval(value: object) -> Interval:
    if isinstance(value, Interval):
        return value
    if not isinstance(value, str):
        raise problem("write an interval as text, like 2013-01-01/2013-02-01")
    try:
        return parse_interval(value)
    except Invalid as error:
        raise problem(error.message) from None


def _check_instant(value: str) -> str:
    try:
        parse_instant(value)
    except Invalid as error:
        raise problem(error.message) from None
    return value


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


IntervalField = Annotated[
    Interval,
    PlainValidator(_to_interval),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "interval"}),
]
"""An interval, written `start/end` in ISO 8601; kept as `carnac.core.intervals.Interval`."""

InstantText = Annotated[str, PlainValidator(lambda value: _check_instant(str(value)))]
"""An ISO 8601 date or time, kept as it was written."""

Texts = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]
"""One text, or a list of them; kept as a tuple."""
