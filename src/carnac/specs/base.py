"""The common form of all blocks of a spec: frozen, closed, camelCase in JSON.

Every field carries a `description`; `scripts.docs.spec_page` makes the reference page of them, and
a test fails where one is missing. Where the JSON name is not the camelCase of the Python name (it
is Druid's, then), the field says so with `serialization_alias`; every spelling in its
`validation_alias` is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from carnac.core.tasks.model import SELECTED
from carnac.core.texts import UNFIT, check_name, check_nested, is_fit
from carnac.core.time.intervals import Interval, parse_instant, parse_interval
from carnac.errors import Invalid

P = ParamSpec("P")
T = TypeVar("T")

NAMES = frozenset(
    {
        *("id", "taskId", "task_id", "groupId", "group_id", "dependencies"),
        *("dataSource", "datasource", "writer", "batch"),
        *("name", "column", "dimension", "dimensions", "outputName", "fieldName", "fieldNames"),
        *("timeColumn", "time_column", "sortBy", "sort_by", "partitionDimensions", "columns"),
    }
)
"""Fields whose texts are names, in Carnac's words and in Druid's."""
DATA = frozenset(
    {
        *("data", "delimiter", "listDelimiter", "list_delimiter", "nullValues", "null_values"),
        *("value", "values", "lower", "upper", "pattern"),
    }
)
"""Fields whose texts are data, or stand in it."""
TIME_COLUMN = "__time"
"""The primary timestamp of every row, in specs, transforms, segments and SQL."""


def _read_names(name: str) -> str | AliasChoices:
    camel = to_camel(name)
    return name if camel == name else AliasChoices(camel, name)


def named(spellings: str, text: str, **more: Any) -> Any:
    """Return a field that is written under the first of some spellings, and read under all of them."""
    names = spellings.split()
    return Field(
        validation_alias=AliasChoices(*names),
        serialization_alias=names[0],
        description=text,
        **more,
    )


NO_INPUT: dict[str, str] = {"frame": "dataframe"}
"""The input of a spec that names none, as rows or files are given next to it."""


class SpecModel(BaseModel):
    """Base of every block: immutable, and a field it does not know is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=AliasGenerator(
            validation_alias=_read_names,
            serialization_alias=to_camel,
        ),
    )

    @model_serializer(mode="wrap")
    def _keep_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write `type` always: it tells the blocks of one kind apart, also when it is a default."""
        block: dict[str, Any] = handler(self)
        kind = self.__dict__.get("type")  # `getattr` takes long to say that there is none
        return block if kind is None or "type" in block else {"type": kind, **block}

    def to_json_dict(self) -> dict[str, Any]:
        """Return the block as plain JSON values, without the fields that stand at their default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def problem(message: str) -> PydanticCustomError:
    """Return the error that a validator raises: `message` says what is wrong and what to do."""
    return PydanticCustomError("spec", "{message}", {"message": message})


def as_problem(read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Return what a function of the core returns; what it refuses is a problem of the field that is validated."""
    try:
        return read(*args, **named)
    except Invalid as error:
        raise problem(error.message) from None


def read_as(kind: type[T], parse: Callable[[str], T], wanted: str) -> Callable[[object], T]:
    """Return the validator of a field that is written as text, and kept as something else."""

    def read(value: object) -> T:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise problem(wanted)
        return as_problem(parse, value)

    return read


def check_texts(value: Mapping[str, Any], what: str, *, is_json: bool = False) -> None:
    """Check what a spec or task says, before it is read: texts, numbers, depth.

    Raises:
        Invalid: Something in it can be no name or no text, or is nested too deep.
    """
    check_nested(value, what, names=NAMES, data=DATA, is_json=is_json)


def check_datasource(name: str) -> str:
    """Return the name of a datasource as it is; refuse what no datasource can be named."""
    as_problem(check_name, name, "dataSource")
    if not is_fit(name):
        raise problem(f"dataSource {UNFIT}")
    if name == SELECTED:
        raise problem(f"dataSource {SELECTED} is what a SELECT that runs as a task has for one")
    return name


def _check_instant(value: object) -> str:
    as_problem(parse_instant, str(value))
    return str(value)


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


IntervalField = Annotated[
    Interval,
    PlainValidator(
        read_as(Interval, parse_interval, "write an interval as text, like 2013-01-01/2013-02-01")
    ),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "interval"}),
]
"""An interval, written `start/end` in ISO 8601; kept as `carnac.core.time.intervals.Interval`."""

InstantText = Annotated[
    str,
    PlainValidator(_check_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An ISO 8601 date or time, kept as it was written."""

Texts = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]
"""One text, or a list of them; kept as a tuple."""
